"""Which tests a change touches."""

from __future__ import annotations

import pytest

from tests.changed import changed_since, is_touched, may_be_touched
from tests.imports import PACKAGE, ROOT

TESTS = ROOT / "tests"
LEAF = {PACKAGE / "kernels" / "fgm" / "mkl.py"}


@pytest.mark.parametrize(
    ("file", "changed", "expected"),
    [
        ("selectors/test_fgm.py", LEAF, True),
        ("store/test_round_trip.py", LEAF, False),
        ("store/test_round_trip.py", {PACKAGE / "store" / "writer.py"}, True),
        ("store/test_round_trip.py", {ROOT / "pyproject.toml"}, True),
        ("store/test_round_trip.py", {TESTS / "store" / "conftest.py"}, True),
        ("golden/test_methods_golden.py", {TESTS / "golden" / "cases.py"}, True),
    ],
)
def test_a_file_is_touched_by_what_it_imports_and_names(file, changed, expected):
    assert is_touched(TESTS / file, (), changed) == expected
    assert may_be_touched(TESTS / file, changed) >= expected


@pytest.mark.slow
def test_of_a_table_of_methods_those_are_touched_that_change():
    file = TESTS / "test_check_estimator.py"
    assert is_touched(file, ["fgm"], LEAF)
    assert not is_touched(file, ["mission"], LEAF)


def test_a_page_touches_the_tests_that_name_it():
    assert is_touched(TESTS / "test_recipes.py", (), {ROOT / "docs" / "extending.md"})
    assert not is_touched(TESTS / "store" / "test_round_trip.py", (), {ROOT / "docs" / "extending.md"})


def test_a_commit_that_git_does_not_know_is_named():
    with pytest.raises(ValueError, match="no-such-commit"):
        changed_since("no-such-commit")
