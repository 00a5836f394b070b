"""Standard errors and intervals of MESSAGE: those of textbooks, the true spread over seeds, what they cannot say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from daskfs import Message
from daskfs.errors import Suspicion
from daskfs.result import SelectionResult
from daskfs.selectors.message.errors import of_mean, of_median, quantile, variance_of_median

LOSSES = ("squared", "logistic", "poisson", "huber", "multinomial")


def drawn(loss, n_samples=1_500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, 12))
    eta = X[:, 2] - 0.8 * X[:, 5] + 0.6 * X[:, 9]
    if loss == "logistic":
        return X, (rng.random(n_samples) < 1 / (1 + np.exp(-eta))).astype(float)
    if loss == "poisson":
        return X, rng.poisson(np.exp(0.5 * eta)).astype(float)
    if loss == "multinomial":
        return X, np.digitize(eta + rng.logistic(size=n_samples), [-1.0, 1.0]).astype(float)
    return X, eta + (rng.standard_t(3, n_samples) if loss == "huber" else rng.standard_normal(n_samples))


def textbook(X, y, weight, curvature, dispersion):
    A = np.column_stack([np.ones(len(y)), X])
    return np.sqrt(dispersion * np.diag(np.linalg.inv(A.T @ (A * (weight * curvature)[:, None]))))[1:]


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_standard_errors_are_those_of_the_fit_of_all_rows(loss, is_weighted):
    X, y = drawn(loss)
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0) if is_weighted else np.ones(len(y))
    selector = Message(n_subsets=3, loss=loss).fit(X, y, weight)
    kept = np.flatnonzero(selector.support_)
    eta = X[:, kept] @ selector.coef_[kept] + selector.intercept_
    mean = {"squared": eta, "logistic": 1 / (1 + np.exp(-eta)), "poisson": np.exp(np.minimum(eta, 30))}[loss]
    curvature = {"squared": np.ones(len(y)), "logistic": mean * (1 - mean), "poisson": mean}[loss]
    residual = weight @ (y - mean) ** 2 / (weight.sum() - len(kept) - 1)
    expected = textbook(X[:, kept], y, weight, curvature, residual if loss == "squared" else 1.0)
    tolerance = 1e-10 if loss == "squared" else 0.02  # the information of others is taken before the last step
    np.testing.assert_allclose(selector.std_errors_[kept], expected, rtol=tolerance)
    assert np.isnan(selector.std_errors_[~selector.support_]).all()


@pytest.mark.parametrize("std_errors", ["information", "subsets"])
@pytest.mark.parametrize("average", ["one_step", "mean", "median"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_and_average_has_standard_errors_of_the_right_size(loss, average, std_errors):
    X, y = drawn(loss, n_samples=3_000)
    selector = Message(n_subsets=15, loss=loss, average=average, std_errors=std_errors).fit(X, y)
    fitted = Message(n_subsets=15, loss=loss).fit(X, y)
    assert set(selector.selected_) == {2, 5, 9}
    ratio = selector.std_errors_[..., selector.selected_] / fitted.std_errors_[..., selector.selected_]
    expected = math.sqrt(15 * variance_of_median(15)) if average == "median" else 1.0
    np.testing.assert_allclose(ratio, expected, rtol=0.15 if std_errors == "information" else 0.6)
    table = selector.result_.table
    reach = quantile(14.0 if std_errors == "subsets" else math.inf) * table["std_error"]
    np.testing.assert_allclose(table["upper"] - table["coef"], reach, rtol=2e-3)
    assert (table["lower"] < table["coef"]).all()


def test_intervals_are_in_the_csv_and_come_back(tmp_path):
    result = Message(n_subsets=3).fit(*drawn("squared")).result_
    result.save(tmp_path)
    again = SelectionResult.load(tmp_path).table
    assert list(again.columns[-3:]) == ["std_error", "lower", "upper"]
    np.testing.assert_allclose(again["lower"], result.table["lower"])


def test_a_separable_target_has_no_standard_error_and_the_result_says_so():
    X, _ = drawn("squared")
    result = Message(n_subsets=3, loss="logistic").fit(X, (X[:, 2] > 0).astype(float)).result_
    assert result.table["std_error"].isna().all()
    assert "1 coefficient(s) have no standard error" in result.notes


@pytest.mark.slow
def test_counts_more_scattered_than_poissons_are_told():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((4_000, 8))
    rate = np.exp(0.5 * X[:, 1] - 0.5 * X[:, 4] + 0.5 * X[:, 6]) * rng.gamma(0.25, 4.0, 4_000)
    doubts = [n for n in Message(n_subsets=9, loss="poisson").fit(X, rng.poisson(rate)).result_.notes if "noise" in n]
    assert doubts
    assert isinstance(doubts[0], Suspicion)


def test_narrowly_selected_features_are_named():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2_000, 100))
    threshold = math.sqrt(5 * (math.log(2_000 / 5) + math.log(100)) / 2_000)  # of votes of five, where z² is Σ λ
    selector = Message(n_subsets=5).fit(X, threshold * (X[:, 30] + 4.0 * X[:, 90]) + rng.standard_normal(2_000))
    (named,) = [note for note in selector.result_.notes if note.startswith("narrowly selected: ")]
    assert "x30" in named, "at the threshold"
    assert "x90" not in named, "at four times the threshold"
    assert selector.support_[[30, 90]].all()


def test_means_and_medians_of_estimates_of_which_some_are_unknown():
    errors = np.array([[1.0, np.nan, np.nan], [1.0, 2.0, np.nan], [1.0, 2.0, np.nan]])
    np.testing.assert_allclose(of_mean(errors), [1 / math.sqrt(3), math.sqrt(2.0), np.nan])
    expected = [math.sqrt(variance_of_median(3)), 2 * math.sqrt(variance_of_median(2)), np.nan]
    np.testing.assert_allclose(of_median(errors), expected)


def test_the_variance_of_a_median_is_that_of_draws():
    rng = np.random.default_rng(0)
    for m in (3, 8, 61):
        drawn_variance = np.median(rng.standard_normal((40_000, m)), axis=1).var()
        np.testing.assert_allclose(variance_of_median(m), drawn_variance, rtol=0.03)
