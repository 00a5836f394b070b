"""Subsets that are followed in one call choose what each chooses by itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from daskfs.errors import DataError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.choices import Choices, choose_together
from daskfs.selectors.message.subset import SelectionSettings, choose, refit
from daskfs.selectors.message.tasks import SubsetGroup, select_on_block
from tests.refusals import refused

BOUNDS = (0, 150, 290, 430, 600)


def design(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    n_features = {"wide": 400, "rather wide": 140}.get(kind, 30)
    X = rng.standard_normal((600, n_features))
    X[:, 3] += X[:, 1]
    y = X[:, :8] @ [2.0, -1.0, 0.5, 0.5, 0.2, 0.1, 0.1, 0.05] + rng.standard_normal(600)
    weight = np.ones(600)
    if kind == "int8":
        return np.round(2 * X).astype(np.int8), y, weight
    if kind == "copies":
        X[:, 10:13] = X[:, :3]
        X[:, 13] = X[:, 0] + X[:, 1]
    if kind == "constants":
        X[150:290, 4], X[:, 5] = 7.0, -1.0
        y[290:430] = 3.0
    if kind == "weights":
        weight = rng.integers(0, 4, 600) * 0.7
    if kind == "dummies":
        X[:, 5:] = X[:, 5:] > 1.5
    if kind == "no signal":
        y = rng.standard_normal(600)
    return X.astype(np.float32 if seed % 2 else np.float64), y, weight


def one_by_one(X, y, weight, settings) -> Choices:
    kept = X if X.dtype.kind == "f" else X.astype(np.float32)
    pairs = pairwise(BOUNDS)
    parts = [(kept[a:b].copy(), y[a:b].copy(), weight[a:b].copy()) for a, b in pairs]
    return Choices.of([choose(*part, settings, is_first=k == 0) for k, part in enumerate(parts)])


@pytest.mark.slow_cases("1", "int8")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "kind",
    ["plain", "wide", "rather wide", "int8", "copies", "constants", "weights", "dummies", "no signal"],
)
@pytest.mark.parametrize(
    "how",
    [
        {"n_subsets": 25},
        {"criterion": "bic"},
        {"gic_rss": "lasso", "patience": None, "max_features": 7},
        {"sigma2": 1.0},
    ],
    ids=["vote", "bic", "lasso", "sigma"],
)
def test_what_subsets_choose_together_is_what_each_chooses_alone(kind, how, seed):
    X, y, weight = design(kind, seed)
    settings = SelectionSettings(**how)
    group = SubsetGroup(0, len(BOUNDS) - 2, BOUNDS, slice(0, 600))
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


def test_a_subset_that_has_to_be_looked_at_by_itself_ends_the_call():
    X, y, weight = design("plain", 0)
    y[290:430] = 1.0
    found = choose_together(X, y, weight, np.array(BOUNDS), SelectionSettings(), is_first=True)
    assert len(found) == 2


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
