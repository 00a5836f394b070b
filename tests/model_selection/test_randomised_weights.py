"""Weights of columns: where they come from, what selectors make of them, and what stability selection gains by them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from daskfs import FGM, AsyncOnlineSubstitution, Knockoffs, Message, Mission, OnlineSubstitution, SelectionCV
from daskfs.baselines import (
    ActiveSet,
    AlphaInvesting,
    Averaging,
    Bolasso,
    FullData,
    Grafting,
    L1Liblinear,
    LassoCut,
    Median,
    OnlineL1,
    OrthogonalMatchingPursuit,
    SgdSlr,
)
from daskfs.errors import ConfigError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.column_weights import BLOCK, ColumnWeights
from daskfs.methods import METHODS, find_method
from daskfs.model_selection import StabilitySelection
from daskfs.model_selection.stability import Half
from tests.refusals import refused

WEIGHTS, ONES = ColumnWeights((3, 1), 0.2), ColumnWeights((3, 1), 1.0)


def data(n=150, p=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + rng.standard_normal((n, 1))
    y = X[:, :5] @ [1.0, -1.0, 0.8, 0.6, 0.5] + rng.standard_normal(n)
    return X, y, (y > np.median(y)).astype(float)


def fitted(selector, X, y, column_weights=None):
    matrix = ArrayMatrix(X, y=y)
    return selector.fit(matrix if column_weights is None else matrix.with_column_weights(column_weights))


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def test_a_weight_is_the_same_whichever_are_asked_for_with_it():
    p = 3 * BLOCK + 5
    weights = WEIGHTS.of(slice(None), p)
    assert weights.shape == (p,)
    assert (weights >= 0.2).all()
    assert (weights <= 1.0).all()
    assert abs(weights.mean() - 0.6) < 5 * 0.8 / np.sqrt(12 * p)
    for columns in (slice(BLOCK - 2, BLOCK + 3), slice(7, None, 1000), np.array([p - 1, 0, BLOCK])):
        np.testing.assert_array_equal(WEIGHTS.of(columns, p), weights[columns])
    assert len(np.unique(weights)) == p  # blocks are not drawn alike
    assert (ColumnWeights((3, 0), 0.2).of(slice(None), p) != weights).all()
    assert (ONES.of(slice(None), p) == 1.0).all()


def test_every_half_has_weights_of_its_own():
    matrix = ArrayMatrix(*data()[:1], y=data()[1])
    halves = [Half(seed, pair, second, False, 0.5) for seed in (0, 1) for pair in (0, 1) for second in (False, True)]
    drawn = [half.of(matrix).weights_of_columns() for half in halves]
    assert len({tuple(weights) for weights in drawn}) == 8
    np.testing.assert_array_equal(drawn[0], halves[0].of(matrix).weights_of_columns())
    np.testing.assert_array_equal(halves[0].of(matrix).source_rows, Half(0, 0, False, False).of(matrix).source_rows)


def fgm(is_scaled, **options):
    return FGM(6, normalize=is_scaled, **options)


def substitution(is_scaled, **options):
    return OnlineSubstitution(6, standardize=is_scaled, **options)


def asynchronous(is_scaled):
    return AsyncOnlineSubstitution(6, standardize=is_scaled)


@pytest.mark.parametrize("of_classes", [False, True])
@pytest.mark.parametrize("make", [fgm, substitution, asynchronous])
def test_weighed_columns_are_columns_that_were_scaled(make, of_classes):
    X, y, labels = data()
    y, weights = labels if of_classes else y, WEIGHTS.of(slice(None), 40)
    weighed = fitted(make(True), X, y, WEIGHTS)
    scaled = fitted(make(False), standardised(X) * weights, y)
    np.testing.assert_array_equal(np.sort(weighed.selected_), np.sort(scaled.selected_))
    np.testing.assert_allclose(weighed.coef_, scaled.coef_ * weights / X.std(axis=0), atol=1e-9)
    unscaled = fitted(make(False), standardised(X), y, WEIGHTS)
    np.testing.assert_array_equal(np.sort(unscaled.selected_), np.sort(scaled.selected_))
    np.testing.assert_allclose(unscaled.coef_, scaled.coef_ * weights, atol=1e-9)


@pytest.mark.parametrize("make", [fgm, substitution])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_whole_numbers_and_entries_are_weighed_alike(make, dtype):
    rng = np.random.default_rng(1)
    X = (rng.integers(0, 3, (300, 40)) * (rng.random((300, 40)) < 0.4)).astype(dtype)
    y = X[:, :5] @ [1.0, -1.0, 0.8, 0.6, 0.5] + rng.standard_normal(300)
    found = [fitted(make(True), one, y, WEIGHTS) for one in (X.astype(float), X, scipy.sparse.csr_array(X))]
    for one in found[1:]:
        np.testing.assert_array_equal(np.sort(one.selected_), np.sort(found[0].selected_))
        np.testing.assert_allclose(one.coef_, found[0].coef_, atol=1e-5)
    assert (found[0].scores_ != fitted(make(True), X.astype(float), y).scores_).any()


@pytest.mark.parametrize("kind", [L1Liblinear, SgdSlr])
def test_sparse_columns_that_nobody_standardises_are_weighed_too(kind):
    X, _, y = data()
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.3, X, 0.0)
    weights = WEIGHTS.of(slice(None), 40)
    weighed = fitted(kind(6), scipy.sparse.csr_array(X), y, WEIGHTS)
    scaled = fitted(kind(6), scipy.sparse.csr_array(X * weights), y)
    np.testing.assert_allclose(weighed.coef_, scaled.coef_ * weights, atol=1e-12)
    dense = fitted(kind(6), standardised(X), y, WEIGHTS)
    assert set(dense.selected_) != set(fitted(kind(6), X, y).selected_)


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_message_on_one_subset_is_the_lasso_of_all_rows_weighed_alike(loss):
    X, y, labels = data()
    y = labels if loss == "logistic" else y
    both = [fitted(kind, X, y, WEIGHTS) for kind in (FullData(loss=loss), Message(n_subsets=1, loss=loss))]
    np.testing.assert_array_equal(both[0].support_, both[1].support_)
    assert (both[0].coef_ != fitted(FullData(loss=loss), X, y).coef_).any()


@pytest.mark.usefixtures("interpreted_by_default")  # of Grafting
@pytest.mark.parametrize(("kind", "n_common"), [(LassoCut, 6), (Grafting, 5)])
def test_the_lasso_cut_is_that_of_short_columns(kind, n_common):
    from sklearn.linear_model import lars_path

    X, y, _ = data()
    weights = WEIGHTS.of(slice(None), 40)
    _, _, coef = lars_path(standardised(X) * weights, y - y.mean(), method="lasso")
    first = int(np.flatnonzero((coef != 0).sum(axis=0) >= 6)[0])
    expected = np.sort(np.argsort(-np.abs(coef[:, first]))[:6])
    assert len(set(fitted(kind(6), X, y, WEIGHTS).selected_) & set(expected)) >= n_common


def test_pursuit_takes_the_largest_product_with_a_weighed_column():
    X, y, _ = data()
    Z, residual, expected = standardised(X), y - y.mean(), []
    for _ in range(6):
        size = np.abs(Z.T @ residual) * WEIGHTS.of(slice(None), 40)
        size[expected] = 0.0
        expected.append(int(size.argmax()))
        chosen = Z[:, expected]
        residual = y - y.mean() - chosen @ np.linalg.lstsq(chosen, y - y.mean(), rcond=None)[0]
    assert set(fitted(OrthogonalMatchingPursuit(6), X, y, WEIGHTS).selected_) == set(expected)


OF_NUMBERS = [Message(n_subsets=2), FullData(), Averaging(n_subsets=2), Median(n_subsets=2), Bolasso(n_bootstraps=3)]
OF_NUMBERS += [LassoCut(6), OnlineL1(6), Grafting(6), OrthogonalMatchingPursuit(6), FGM(6), OnlineSubstitution(6)]
OF_NUMBERS += [AsyncOnlineSubstitution(6), SelectionCV(FGM(), sizes=[3, 6], cv=3)]
OF_CLASSES = [L1Liblinear(6), SgdSlr(6), ActiveSet(6), FullData(loss="logistic"), Message(n_subsets=1)]


@pytest.mark.slow_cases("grafting")  # compiles for this alone
@pytest.mark.parametrize("selector", OF_NUMBERS + OF_CLASSES, ids=lambda one: f"{one.method}-{one.loss}")
def test_weights_of_one_change_no_bit(selector):
    from sklearn.base import clone

    X, y, labels = data()
    y = labels if any(selector is one for one in OF_CLASSES) else y
    assert selector.weighs_columns
    plain, weighed = fitted(clone(selector), X, y), fitted(clone(selector), X, y, ONES)
    for name in ("selected_", "coef_", "intercept_", "scores_"):
        np.testing.assert_array_equal(getattr(weighed, name), getattr(plain, name))
    other = fitted(clone(selector), X, y, ColumnWeights((1,), 0.01))
    assert (other.scores_ != plain.scores_).any()


def test_whoever_takes_no_weights_refuses_them():
    X, y, labels = data()
    groups = np.arange(40) // 4
    without = [Mission(6), AlphaInvesting(), FGM(2, feature_groups=groups), Message(feature_groups=groups)]
    without += [Message(loss="logistic", approx="lsa"), Knockoffs(OnlineSubstitution(6)), SelectionCV(Mission())]
    for selector in without:
        assert not selector.weighs_columns
        with refused(ConfigError, "parameters", at="weakness", naming=["weights"]):
            StabilitySelection(selector, 2, weakness=0.5).fit(X, labels)
    with refused(ConfigError, "parameters", at="weakness", naming=["subsamples"]):
        StabilitySelection(Message(n_subsets=25), subsamples="own", weakness=0.5).fit(X, y)
    for wrong in (0.0, -0.5, 1.5, "a half"):
        with refused(ConfigError, "parameters", at="weakness", naming=["weakness"]):
            StabilitySelection(FGM(3), 2, weakness=wrong).fit(X, y)
    taking = {name for name in METHODS if find_method(name)._weighs_columns}
    remedy = {"lasso_cut", "full_data", "message", "fgm", "online_substitution"}
    assert remedy <= taking
    assert not {"mission", "auto", "alpha_investing", "ridge_elimination", "group_lasso", "ufo_mkl"} & taking


def test_a_weakness_of_one_changes_nothing():
    X, y, _ = data()
    plain, weak = (StabilitySelection(LassoCut(5), 4, weakness=one).fit(X, y) for one in (None, 1.0))
    np.testing.assert_array_equal(plain.frequencies_, weak.frequencies_)
    half = StabilitySelection(LassoCut(5), 4, weakness=0.5).fit(X, y)
    assert (half.frequencies_ != plain.frequencies_).any()
    assert half.result_.parameters["weakness"] == 0.5
    assert "on each half, columns had random weights between 0.5 and 1" in half.result_.notes
    assert not any("random weights" in note for note in plain.result_.notes)
    plan = StabilitySelection(LassoCut(5), 4, weakness=0.5).plan(150, 40, "float64", None)
    assert plan.text.startswith("4 pairs of halves of the rows, columns weighted at random from 0.5 to 1, each: ")


def test_the_subsets_of_message_give_way_to_halves():
    X, y, _ = data(3000, 20)
    assert len(StabilitySelection(Message(n_subsets=25), 3, weakness=0.5).fit(X, y).result_.history) == 6


def stand_in(seed, n=200, p=60):
    """The example of Meinshausen and Buehlmann: the third column has a correlation of 0.6 with both that are true."""
    rng = np.random.default_rng(seed)
    correlation = np.eye(p)
    correlation[[0, 1, 2, 2], [2, 2, 0, 1]] = 0.6
    X = rng.standard_normal((n, p)) @ np.linalg.cholesky(correlation).T
    return X, X[:, 0] + X[:, 1] + 0.5 * rng.standard_normal(n)


@pytest.mark.slow
@pytest.mark.parametrize("selector", [LassoCut(3), OrthogonalMatchingPursuit(3), FGM(3)], ids=lambda one: one.method)
def test_a_stand_in_is_selected_less_often_and_what_it_stands_for_is_not(selector):
    frequencies = {}
    for weakness in (None, 0.5):
        found = []
        for seed in range(24):
            X, y = stand_in(seed)
            stable = StabilitySelection(selector, 10, weakness=weakness, random_state=seed).fit(X, y)
            found.append(stable.frequencies_[:3])
        frequencies[weakness] = np.array(found)
    plain, weak = frequencies[None], frequencies[0.5]
    fall = plain[:, 2] - weak[:, 2]
    assert fall.mean() > 0.05
    assert fall.mean() > 3.0 * fall.std() / np.sqrt(len(fall))
    assert weak[:, :2].mean() > 0.85
    assert (weak[:, :2].min(axis=1) > weak[:, 2]).mean() >= (plain[:, :2].min(axis=1) > plain[:, 2]).mean()
