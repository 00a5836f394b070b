"""Knockoffs of any selector: statistics, thresholds, groups, draws, and what the result says of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from daskfs import FGM, Message, OnlineSubstitution
from daskfs.baselines import OrthogonalMatchingPursuit
from daskfs.errors import ConfigError, SelectionWarning
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.model_selection import Knockoffs
from daskfs.model_selection.common_factors import STEPS
from daskfs.model_selection.knockoff_columns import KnockoffMatrix, column_blocks
from daskfs.model_selection.knockoff_filter import e_values, knockoff_threshold
from daskfs.model_selection.second_order import law_of
from tests.refusals import refused

N_TRUE = 15


def data(n=400, p=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, :N_TRUE] @ np.resize([1.0, -1.0], N_TRUE) + rng.standard_normal(n)


SELECTORS = [
    OnlineSubstitution(30),
    OrthogonalMatchingPursuit(30),
    Message(n_subsets=1, patience=None, criterion="bic"),
]


@pytest.mark.parametrize("inside", SELECTORS, ids=lambda one: one.method)
def test_what_is_strong_is_selected_and_little_else(inside):
    X, y = data()
    selector = Knockoffs(inside, fdr=0.1, statistic="coefficient").fit(X, y)
    assert set(range(N_TRUE)) <= set(selector.selected_)
    assert len(selector.selected_) <= N_TRUE + 8  # the rate is one of many data sets: test_error_control.py
    assert selector.score(X, y) > 0.9
    assert selector.selected_[0] == np.argmax(selector.statistics_)
    np.testing.assert_array_equal(selector.scores_, selector.statistics_)
    assert selector.threshold_ == knockoff_threshold(selector.statistics_, 0.1)
    assert "at most 0.1 of the selected features on average (knockoff+)" in selector.result_.notes[0]


def test_statistics_are_differences_of_a_fit_of_columns_and_knockoffs():
    X, y = data()
    selector = Knockoffs(OrthogonalMatchingPursuit(30), statistic="coefficient", random_state=4)
    selector.fit(ArrayMatrix(X, y=y, shuffled=True))
    matrix = ArrayMatrix(X, y=y)
    blocks = column_blocks(list(np.arange(40)[:, None]), 40)
    seed = int(np.random.SeedSequence(4).generate_state(1, np.uint32)[0])
    both = KnockoffMatrix(matrix, blocks, [law_of(matrix, "mvr", 10**6, blocks[0])], seed)
    values = both.read(slice(None))
    coef = np.abs(OrthogonalMatchingPursuit(30).fit(values, y).coef_) * np.repeat(X.std(axis=0), 2)
    of_columns, of_knockoffs = both.parted(coef)
    np.testing.assert_allclose(selector.statistics_, of_columns - of_knockoffs, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(both.parted(values)[0], X)


@pytest.mark.parametrize("statistic", ["lasso", "coefficient", "score", "rank"])
def test_a_statistic_compares_columns_with_knockoffs(statistic):
    X, y = data()
    selector = Knockoffs(OnlineSubstitution(30), statistic=statistic).fit(X, y)
    assert len(set(range(N_TRUE)) & set(selector.selected_)) >= N_TRUE - 1
    if statistic == "rank":
        assert 20 < np.abs(selector.statistics_).max() <= 30  # of the places of 30


def test_the_mean_e_value_of_several_draws_selects():
    X, y = data()
    selector = Knockoffs(OrthogonalMatchingPursuit(30), fdr=0.3, n_draws=4).fit(X, y)
    assert selector.draws_.shape == (4, 40)
    expected = np.mean([e_values(W, 0.15) for W in selector.draws_], axis=0)
    np.testing.assert_allclose(selector.statistics_, expected)
    assert set(selector.selected_) == set(np.flatnonzero(expected >= selector.threshold_)) >= set(range(N_TRUE))
    assert "e-values of 4 draws" in selector.result_.notes[0]
    assert len(selector.result_.history) == 4
    assert selector.score_kind == "mean e-value"


def test_groups_are_selected_whole():
    X, y = data()
    labels = np.array([f"g{j // 3}" for j in range(40)])
    selector = Knockoffs(OrthogonalMatchingPursuit(30), fdr=0.3, feature_groups=labels).fit(X, y)
    assert {f"g{k}" for k in range(5)} <= set(selector.group_names_)
    np.testing.assert_array_equal(
        np.flatnonzero(selector.support_), np.flatnonzero(np.isin(labels, selector.group_names_))
    )
    assert len(selector.statistics_) == 14
    assert selector.result_.table["group"].tolist() == labels[selector.result_.table["index"]].tolist()
    assert "selected groups" in selector.result_.notes[0]


def test_blocks_are_said_in_the_report():
    X, y = data()
    note = Knockoffs(OrthogonalMatchingPursuit(30), block_columns=16).fit(X, y).result_.notes[0]
    assert "3 blocks of up to 16 columns" in note
    assert "correlations between blocks were assumed to be 0" in note


def test_nothing_is_selected_of_noise_and_it_is_said_why():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((100, 30)), rng.standard_normal(100)
    with pytest.warns(SelectionWarning, match="no feature was selected"):
        selector = Knockoffs(OrthogonalMatchingPursuit(10)).fit(X, y)
    assert (len(selector.selected_), selector.threshold_) == (0, math.inf)
    assert any("this rate requires a selection of at least 10 features" in note for note in selector.result_.notes)
    assert np.allclose(selector.predict(X), y.mean())


def test_two_classes_and_three():
    X, y = data(800)
    for labels in (y > 0.0, np.digitize(y, [-2.0, 2.0])):
        selector = Knockoffs(FGM(40, loss="logistic"), fdr=0.2).fit(X, labels)
        assert len(set(range(N_TRUE)) & set(selector.selected_)) >= 12
        assert selector.score(X, labels) > 0.7


def test_what_goes_in_pairs_is_no_business_of_the_selector_inside():
    X, y = data()
    with refused(ConfigError, "parameters", at="selector.feature_groups", naming=["pass feature_groups"]):
        Knockoffs(OnlineSubstitution(3, feature_groups=[[0, 1]])).fit(X, y)
    with refused(ConfigError, "parameters", at="selector.feature_map"):
        Knockoffs(FGM(3, feature_map="pairs")).fit(X, y)
    with refused(ConfigError, "groups", at="feature_groups", naming=["overlap"]):
        Knockoffs(OnlineSubstitution(3), feature_groups=[[0, 1], [1, 2]]).fit(X, y)


def test_the_plan_is_of_twice_as_many_columns_and_of_the_pass_before():
    inside = OrthogonalMatchingPursuit(30)
    plan = Knockoffs(inside, n_draws=2, statistic="rank").plan(1000, 3000, "float32", None)
    assert plan.n_passes == 3 + 2 * STEPS + 2 * inside.plan(1000, 6000, "float32", None).n_passes
    assert plan.text.startswith(
        "correlations within 6 blocks of up to 512 columns and up to 16 common factors, then 2 draws of knockoffs"
    )


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([Knockoffs(OrthogonalMatchingPursuit(), fdr=0.5)])
def test_scikit_learns_examination(estimator, check):
    check(estimator)
