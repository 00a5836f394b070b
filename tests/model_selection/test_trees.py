"""Boosted trees of a sample say what the selections of `Auto` miss, and only if they are clearly better."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from daskfs import Auto
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.model_selection import auto
from daskfs.model_selection.trees import MOST_COLUMNS, MOST_ROWS, Trees, related, sampled
from daskfs.selectors.shared.budget import DataShape
from daskfs.selectors.shared.cross_validation import Fold

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]


@pytest.fixture
def one_method(monkeypatch):
    """`Auto` compares FGM, Lassos and ridges only, which is quicker."""
    monkeypatch.setattr(auto, "METHODS", ("fgm",))


def columns(seed, n=600, p=8):
    rng = np.random.default_rng(seed)
    return rng, rng.standard_normal((n, p))


def notes_of(X, y, **settings):
    return [note for note in Auto(random_state=0, **settings).fit(X, y).result_.notes if "boosted trees" in note]


def gains_in(note):
    """Return the gain and the standard error of the trees, of splines and of pairs."""
    number = r"(better|worse) by ([.\de-]+) ± ([.\de-]+)"
    of_trees = re.findall(rf"training rows, {number}", note)
    of_maps = re.findall(rf"FGM\(\d+, feature_map='(\w+)'\) has [.\d]+, {number}", note)
    found = [("trees", *of_trees[0]), *of_maps]
    return {name: (float(gain) * (1 if how == "better" else -1), float(error)) for name, how, gain, error in found}


@pytest.mark.usefixtures("one_method")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_product_of_columns_is_noted_with_what_pairs_bring(seed):
    rng, X = columns(seed)
    (note,) = notes_of(X, 3.0 * X[:, 0] * X[:, 1] + rng.logistic(size=len(X)) > 0.0)
    gains = gains_in(note)
    assert gains["trees"][0] > 2.0 * gains["trees"][1] > 0.0
    assert gains["pairs"][0] > 2.0 * gains["pairs"][1]
    assert gains["pairs"][0] > gains["splines"][0]


@pytest.mark.slow
@pytest.mark.usefixtures("one_method")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_curve_is_noted_with_what_splines_bring(seed):
    rng, X = columns(seed)
    (note,) = notes_of(X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_normal(len(X)))
    gains = gains_in(note)
    assert gains["trees"][0] > 2.0 * gains["trees"][1]
    assert gains["splines"][0] > 2.0 * gains["splines"][1]


@pytest.mark.usefixtures("one_method")
@pytest.mark.slow_cases("two classes", "noise")
@pytest.mark.parametrize("target", ["numbers", "two classes", "noise"])
@pytest.mark.parametrize("seed", SEEDS)
def test_linear_effects_and_noise_are_not_noted(seed, target):
    rng, X = columns(seed)
    z = X[:, 0] - X[:, 1] + 0.5 * X[:, 2]
    noise = rng.standard_normal(len(X))
    y = {"numbers": z + noise, "two classes": z + rng.logistic(size=len(X)) > 0.0, "noise": noise}[target]
    assert notes_of(X, y, goal="prediction") == []


@pytest.mark.slow
@pytest.mark.usefixtures("one_method")
def test_trees_of_several_classes_are_compared_too():
    rng, X = columns(0)
    z = 3.0 * X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(len(X))
    (note,) = notes_of(X, np.array(["low", "middle", "high"])[np.digitize(z, [-1.0, 1.0])])
    gain, error = gains_in(note)["trees"]
    assert gain > 2.0 * error


@pytest.mark.slow
@pytest.mark.usefixtures("one_method")
def test_the_selection_is_the_same_without_the_trees(monkeypatch):
    rng, X = columns(0)
    y = 3.0 * X[:, 0] * X[:, 1] + X[:, 2] + rng.standard_normal(len(X))
    found = Auto(random_state=0).fit(X, y)
    monkeypatch.setattr(Trees, "takes", staticmethod(lambda shape: False))
    expected = Auto(random_state=0).fit(X, y)
    np.testing.assert_array_equal(found.selected_, expected.selected_)
    assert found.cv_results_["settings"] == expected.cv_results_["settings"]
    assert len(found.result_.notes) == len(expected.result_.notes) + 1


def test_of_many_columns_the_related_ones_are_kept_by_value_or_by_distance_from_the_mean():
    rng, X = columns(0, 1_000, 4 * MOST_COLUMNS)
    y = X[:, 7] + (X[:, 250] + 5.0) ** 2 / 10.0 + X[:, 311] ** 2 + 0.1 * rng.standard_normal(len(X))
    kept = related(ArrayMatrix(X, y), y[:, None])
    assert len(kept) == MOST_COLUMNS
    assert {7, 250, 311} <= {*kept.tolist()}


def test_a_sample_has_few_training_rows_of_the_first_draw_and_all_rows_to_test():
    rows = np.arange(10_000)
    folds = [Fold(k, rows[rows % 5 != k % 5], rows[rows % 5 == k % 5]) for k in range(25)]
    found = sampled(folds)
    assert [fold.number for fold in found] == [0, 1, 2, 3, 4]
    for fold, given in zip(found, folds, strict=False):
        assert len(fold.train) == MOST_ROWS
        assert np.all(np.diff(fold.train) > 0)
        assert {*fold.train.tolist()} <= {*given.train.tolist()}
        np.testing.assert_array_equal(fold.test, given.test)
    for one, again in zip(found, sampled(folds), strict=True):
        np.testing.assert_array_equal(one.train, again.train)


@pytest.mark.parametrize(
    ("changes", "is_taken"),
    [
        ({}, True),
        ({"n_samples": 199}, False),
        ({"n_entries": 900}, False),
        ({"n_features": 1 << 15}, False),
        ({"n_classes": 10}, True),
        ({"n_classes": 900}, False),  # a hundred trees for each
    ],
)
def test_trees_are_for_dense_data_of_enough_rows_and_not_too_many_columns_or_classes(changes, is_taken):
    assert Trees.takes(replace(DataShape(500, 30, np.dtype(np.float32)), **changes)) == is_taken
