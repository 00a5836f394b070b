"""The penalties of the criteria, against the numbers worked out for the paper's sizes."""

from __future__ import annotations

import math

import pytest

from daskfs.errors import ConfigError
from daskfs.kernels.criteria import feature_penalty


@pytest.mark.parametrize(
    ("criterion", "gamma", "expected"),
    [("bic", 0.5, 5.99), ("ric", 0.5, 17.68), ("ebic", 1.0, 19.81), ("ebic", 0.5, 12.90), ("ebic", 0.0, 5.99)],
)
def test_penalties_at_the_papers_subset_size(criterion, gamma, expected):
    assert feature_penalty(criterion, 400, 1000, gamma) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("criterion", ["vote", "bic", "ric", "ebic"])
@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_penalties_of_few_features_are_finite(criterion, n_features):
    assert 0 <= feature_penalty(criterion, 10, n_features) < math.inf


def test_an_unknown_criterion_gets_the_nearest_right_one():
    with pytest.raises(ConfigError, match="did you mean 'ebic'"):
        feature_penalty("ebicc", 10, 10)
