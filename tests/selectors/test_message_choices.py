"""What subsets choose is kept in columns, and the refit takes from them what the paths have met."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from daskfs.errors import DataError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.choices import Choices, SelectionSettings
from daskfs.selectors.message.subset import choose, refit
from daskfs.selectors.message.tasks import SubsetGroup, select_on_block
from tests.refusals import refused

BOUNDS = (0, 150, 290, 430, 600)


def design(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((600, 30))
    X[:, 3] += X[:, 1]
    y = X[:, :8] @ [2.0, -1.0, 0.5, 0.5, 0.2, 0.1, 0.1, 0.05] + rng.standard_normal(600)
    weight = rng.integers(0, 4, 600) * 0.7 if kind == "weights" else np.ones(600)
    if kind == "int8":
        return np.round(2 * X).astype(np.int8), y, weight
    if kind == "constants":
        X[150:290, 4], X[:, 5] = 7.0, -1.0
        y[290:430] = 3.0
    return X, y, weight


def one_by_one(X, y, weight, settings) -> Choices:
    kept = X if X.dtype.kind == "f" else X.astype(np.float32)
    pairs = pairwise(BOUNDS)
    parts = [(kept[a:b].copy(), y[a:b].copy(), weight[a:b].copy()) for a, b in pairs]
    return Choices.joined([choose(*part, settings, is_first=k == 0) for k, part in enumerate(parts)])


@pytest.mark.parametrize("kind", ["plain", "int8", "weights", "constants"])
def test_a_task_returns_what_each_of_its_subsets_chooses(kind):
    X, y, weight = design(kind, 0)
    settings, group = SelectionSettings(n_subsets=25), SubsetGroup(0, len(BOUNDS) - 2, BOUNDS, slice(0, 600))
    matrix = ArrayMatrix(X, y, weight=weight if kind == "weights" else None)
    found, expected = select_on_block(matrix, settings, group).pack(), one_by_one(X, y, weight, settings).pack()
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, name)


def test_a_task_of_later_subsets_keeps_no_path(problem):
    X, y = problem
    assert not select_on_block(
        ArrayMatrix(X, y), SelectionSettings(), SubsetGroup(3, 1 + len(BOUNDS), BOUNDS, slice(0, 600))
    ).paths


def test_the_first_value_that_is_not_finite_is_named():
    X, y, _ = design("plain", 0)
    matrix = ArrayMatrix(X, y)
    X[310, 17] = np.nan
    with refused(DataError, "values", at="column 17, row 310"):
        select_on_block(matrix, SelectionSettings(), SubsetGroup(0, len(BOUNDS) - 2, BOUNDS, slice(0, 600)))


def test_normal_equations_from_what_paths_have_met_are_those_of_a_refit():
    X, y, weight = design("constants", 0)
    settings, columns = SelectionSettings(), np.array([0, 1, 2, 4, 5, 20])
    choices = one_by_one(X, y, weight, settings)
    equations, is_known = choices.normal_equations(columns)
    assert is_known.all()
    for i, (start, stop) in enumerate(pairwise(BOUNDS)):
        block = np.ascontiguousarray(X[start:stop, columns]), y[start:stop].copy(), weight[start:stop].copy()
        expected = refit(*block, settings)
        for name in ("total", "y_mean", "y_variance", "mean", "scale", "cross", "gram"):
            np.testing.assert_allclose(getattr(equations, name)[i], getattr(expected, name)[0], atol=1e-12)
