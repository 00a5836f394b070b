"""What asserts of errors fails where the error is another one."""

from __future__ import annotations

import pytest

from daskfs import OnlineSubstitution
from daskfs.errors import ConfigError, DataError
from tests.refusals import refused

ABOUT = {"kind": ConfigError, "topic": "parameters", "at": "n_features_to_select", "naming": ["-3"]}
FAULTS = {"kind": DataError, "topic": "target", "at": "loss", "naming": ["-3", "30"]}


def ask(**about):
    with refused(about["kind"], about["topic"], at=about["at"], naming=about["naming"]):
        OnlineSubstitution(-3).fit([[1.0], [2.0]], [1.0, 2.0])


def test_an_error_is_the_one_that_is_described():
    ask(**ABOUT)


@pytest.mark.parametrize("fault", FAULTS)
def test_another_class_topic_place_or_name_is_not(fault):
    with pytest.raises((AssertionError, ConfigError)):
        ask(**(ABOUT | {fault: FAULTS[fault]}))


def test_no_error_is_none():
    with pytest.raises(pytest.fail.Exception), refused(ConfigError, "parameters"):
        pass
