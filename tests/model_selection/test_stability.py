"""Stability selection: its samples, its frequencies and its bound, with every kind of selector and input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from daskfs import FGM, Message, OnlineSubstitution, SelectionCV
from daskfs.baselines import OrthogonalMatchingPursuit
from daskfs.errors import ConfigError, SelectionWarning
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.model_selection import StabilitySelection
from daskfs.model_selection.error_bounds import expected_false_selections
from daskfs.model_selection.stability import Frequencies, Half
from daskfs.selectors.base import BaseSelector
from tests.refusals import refused


def data(n=160, p=40, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, 2.0 * X[:, 3] - X[:, 7] + 0.5 * rng.standard_normal(n)


def rows_of(half, matrix):
    return half.of(matrix).rows


def test_a_pair_has_no_row_twice_and_other_pairs_are_other_halves():
    X, y = data(41)
    matrix = ArrayMatrix(X, y=y)
    first, second = (rows_of(Half(0, 5, one, False), matrix) for one in (False, True))
    assert (len(first), len(second)) == (20, 20)
    assert not set(first) & set(second)
    assert (
        set(first) != set(rows_of(Half(0, 6, False, False), matrix)) != set(rows_of(Half(1, 5, False, False), matrix))
    )


def test_halves_have_the_classes_of_all_rows():
    X = data(50)[0]
    y = np.r_[np.zeros(6), np.ones(33), np.full(11, 2.0)]
    for second in (False, True):
        rows = rows_of(Half(0, 0, second, True), ArrayMatrix(X, y=y))
        assert np.unique(y[rows], return_counts=True)[1].tolist() == [3, 16, 5]


def test_rows_of_weight_zero_are_drawn_by_nobody():
    X, y = data()
    weight = np.ones(160)
    weight[40:] = 0.0
    found = StabilitySelection(OrthogonalMatchingPursuit(4), n_pairs=4).fit(X, y, weight)
    without = StabilitySelection(OrthogonalMatchingPursuit(4), n_pairs=4).fit(X[:40], y[:40])
    np.testing.assert_array_equal(found.frequencies_, without.frequencies_)


def test_frequencies_are_those_of_fits_on_the_halves():
    X, y = data()
    selector = StabilitySelection(OnlineSubstitution(5), n_pairs=6, random_state=2).fit(X, y)
    expected = np.zeros(40)
    for pair in range(6):
        for second in (False, True):
            rows = rows_of(Half(2, pair, second, False), ArrayMatrix(X, y=y))
            expected += OnlineSubstitution(5).fit(X[rows], y[rows]).support_
    np.testing.assert_allclose(selector.frequencies_, expected / 12)
    assert set(selector.selected_) == set(np.flatnonzero(expected / 12 >= 0.75)) >= {3, 7}
    assert selector.frequencies_[selector.selected_[0]] == selector.frequencies_.max()
    assert selector.n_selected_per_half_ == 5.0
    assert selector.pfer_bound_ == expected_false_selections(0.75, 5.0, 40, 6)
    assert selector.result_.history["n_selected"].tolist() == [5] * 12
    assert selector.stability_.low < selector.stability_.value < selector.stability_.high
    assert selector.score(X, y) > 0.8


@pytest.mark.parametrize("pfer", [0.1, 0.3, 1.0, 3.0])
def test_the_threshold_of_a_bound_is_the_smallest_that_keeps_it(pfer):
    found = Frequencies(np.zeros(40), np.full(20, 5), None)
    threshold = found.least_threshold(pfer, "r-concave")
    keeping = [k / 20 for k in range(11, 21) if expected_false_selections(k / 20, 5.0, 40, 10) <= pfer]
    assert threshold == keeping[0]
    with refused(ConfigError, "parameters", at="pfer", naming=["5"]):
        found.least_threshold(1e-6, "r-concave")


@pytest.mark.slow
def test_a_bound_that_is_asked_for_says_how_many_are_selected_or_raises_the_threshold():
    X, y = data()
    told = StabilitySelection(OrthogonalMatchingPursuit(), n_pairs=20, pfer=0.5).fit(X, y)
    q = told.n_selected_per_half_
    assert expected_false_selections(0.75, q, 40, 20) <= 0.5 < expected_false_selections(0.75, q + 1, 40, 20)
    raised = StabilitySelection(OrthogonalMatchingPursuit(8), n_pairs=20, pfer=0.5).fit(X, y)
    assert (raised.n_selected_per_half_, raised.pfer_bound_ <= 0.5) == (8.0, True)
    assert raised.threshold_ > 0.75
    assert raised.result_.parameters["threshold"] == raised.threshold_
    assert {3, 7} <= set(told.selected_) & set(raised.selected_)
    with pytest.raises(ConfigError, match="pfer: 20 selected features on average give a bound"):
        StabilitySelection(OrthogonalMatchingPursuit(20), n_pairs=20, pfer=1e-3).fit(X, y)


def test_what_a_map_makes_is_refused_and_columns_without_it_are_not():
    X, y = data()
    mapped = FGM(3, feature_map="pairs")
    for inside, place in ((mapped, "selector"), (SelectionCV(mapped, sizes=[2, 3]), "selector.selector")):
        with refused(ConfigError, "parameters", at=f"{place}.feature_map"):
            StabilitySelection(inside, 2).fit(X, y)
    assert StabilitySelection(FGM(3), 2).fit(X, y).support_[3]


def test_the_subsets_of_message_are_taken_as_they_are():
    X, y = data(3000, 20)
    inside = Message(n_subsets=25)
    alone = Message(n_subsets=25).fit(X, y)
    selector = StabilitySelection(inside).fit(X, y)
    np.testing.assert_array_equal(selector.frequencies_, alone.scores_)
    assert selector.n_selected_per_half_ == np.mean(alone.n_selected_per_subset_)
    assert selector.stability_ is None
    with_one_vote_less = expected_false_selections(18 / 24, selector.n_selected_per_half_, 20, 12)
    assert selector.pfer_bound_ == with_one_vote_less  # 0.75 of 25 are 19, 18 of 24 without the odd one
    halves = StabilitySelection(inside, n_pairs=3, subsamples="halves").fit(X, y)
    assert len(halves.result_.history) == 6
    few = StabilitySelection(Message(n_subsets=4), n_pairs=3).fit(X, y)
    assert len(few.result_.history) == 6  # votes of four are no frequencies
    assert set(selector.selected_) == set(halves.selected_) == {3, 7}
    with refused(ConfigError, "parameters", at="subsamples", naming=["subsamples"]):
        StabilitySelection(FGM(3), subsamples="own").fit(X, y)


def test_a_bound_that_says_nothing_is_a_warning():
    X, y = data()
    with pytest.warns(SelectionWarning, match="this bound is not informative"):
        selector = StabilitySelection(OrthogonalMatchingPursuit(30), n_pairs=5).fit(X, y)
    assert selector.pfer_bound_ == 40.0
    assert "expected false selections: at most 40 of the 40 features" in selector.result_.notes[0]


def test_a_seed_decides():
    X, y = data(80)
    inside = OrthogonalMatchingPursuit(6)
    one, same, other = (StabilitySelection(inside, n_pairs=5, random_state=s).fit(X, y) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.frequencies_, same.frequencies_)
    assert (one.frequencies_ != other.frequencies_).any()


def test_the_plan_is_of_all_fits():
    plan = StabilitySelection(OrthogonalMatchingPursuit(5), n_pairs=7).plan(1000, 50, "float64", None)
    one = OrthogonalMatchingPursuit(5).plan(1000, 50, "float64", None)
    assert plan.n_passes == 14 * one.n_passes
    assert plan.text.startswith("7 pairs of halves of the rows, each: ")


def differs(estimator: BaseSelector) -> dict[str, str]:
    weights = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(weights, "a row of weight 2 is in one half, two rows may be in both")


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([StabilitySelection(OrthogonalMatchingPursuit(), n_pairs=2)], expected_failed_checks=differs)
def test_scikit_learns_examination(estimator, check):
    check(estimator)


def test_it_is_cloned_with_what_is_inside():
    selector = clone(StabilitySelection(FGM(7), threshold=0.9))
    assert (selector.selector.n_features_to_select, selector.threshold) == (7, 0.9)
    with refused(ConfigError, "parameters", at="threshold", naming=["threshold"]):
        StabilitySelection(FGM(7), threshold=0.5).fit(*data())
