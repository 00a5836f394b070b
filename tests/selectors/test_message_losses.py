"""MESSAGE with other losses: two classes, counts, errors with heavy tails."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor
from sklearn.model_selection import cross_val_score

from daskfs.errors import DataError, SelectionWarning
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.selector import Message
from daskfs.sources.ingest import ingest
from tests.refusals import refused
from tests.tolerances import assert_close

TRUE_FEATURES = [2, 5, 11]


@pytest.fixture(scope="module")
def two_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 20))
    log_odds = 0.5 + X[:, TRUE_FEATURES] @ [1.5, -1.0, 0.7]
    return X, np.where(rng.random(2000) < 1 / (1 + np.exp(-log_odds)), "yes", "no")


@pytest.fixture(scope="module")
def fitted(two_classes):
    return Message(n_subsets=5, loss="logistic").fit(*two_classes)


def test_the_answer_for_two_classes_is_near_maximum_likelihood_on_all_rows(two_classes, fitted):
    X, y = two_classes
    np.testing.assert_array_equal(np.flatnonzero(fitted.support_), TRUE_FEATURES)
    expected = LogisticRegression(C=np.inf, tol=1e-10).fit(X[:, TRUE_FEATURES], y)
    # one step leaves about the square of the average's distance, 0.04²; the standard error is 0.08
    np.testing.assert_allclose(fitted.coef_[TRUE_FEATURES], expected.coef_[0], atol=2e-3)
    assert fitted.intercept_ == pytest.approx(expected.intercept_[0], abs=2e-3)


def test_labels_come_back_with_their_probabilities(two_classes, fitted):
    X, y = two_classes
    assert is_classifier(fitted)
    assert list(fitted.classes_) == ["no", "yes"]
    log_odds = fitted.decision_function(X)
    np.testing.assert_allclose(log_odds, X @ fitted.coef_ + fitted.intercept_, rtol=1e-10)
    np.testing.assert_array_equal(fitted.predict(X), np.where(log_odds > 0, "yes", "no"))
    probability = fitted.predict_proba(X)
    np.testing.assert_allclose(probability[:, 1], 1 / (1 + np.exp(-log_odds)), rtol=1e-12)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-15)
    assert fitted.score(X, y) == np.mean(fitted.predict(X) == y)
    assert cross_val_score(Message(n_subsets=3, loss="logistic"), X, y, cv=3).min() > 0.7


def test_a_regression_has_no_probabilities(problem):
    assert not hasattr(Message().fit(*problem), "predict_proba")
    assert not hasattr(Message().fit(*problem), "decision_function")


@pytest.mark.parametrize("numbers", [(0, 1), (-1, 1), (5.0, 9.0)])
def test_names_of_the_classes_do_not_matter(two_classes, fitted, numbers):
    X, y = two_classes
    other = Message(n_subsets=5, loss="logistic").fit(X, np.where(y == "yes", numbers[1], numbers[0]))
    np.testing.assert_array_equal(other.coef_, fitted.coef_)
    np.testing.assert_array_equal(other.classes_, numbers)


def test_a_store_of_two_classes_gives_the_answer_of_arrays_here_and_in_threads(two_classes, fitted, threads, tmp_path):
    X, y = two_classes
    store = ingest(X, tmp_path / "p.zarr", y=np.where(y == "yes", 9.0, 5.0), dtype="float64", tile_shape=(256, 8))
    stored = Message(n_subsets=5, loss="logistic").fit(store)
    assert_close(stored.coef_, fitted.coef_)
    assert_close(stored.intercept_, fitted.intercept_)
    assert stored.score(store) == fitted.score(X, y)
    assert set(stored.predict(store)) == {5.0, 9.0}
    threaded = Message(n_subsets=5, loss="logistic").fit_matrix(store, workers=threads)
    np.testing.assert_array_equal(threaded.coef_, stored.coef_)


def test_what_is_lazy_gets_lazy_labels_and_probabilities(two_classes, fitted):
    X, _ = two_classes
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(20)])
    for lazy in (da.from_array(X, chunks=(500, 7)), dd.from_pandas(frame, npartitions=3)):
        for name in ("predict", "predict_proba", "decision_function"):
            answer = getattr(fitted, name)(lazy)
            assert hasattr(answer, "__dask_graph__")
            expected = getattr(fitted, name)(X)
            if name == "predict":
                np.testing.assert_array_equal(np.asarray(answer), expected)
            else:
                np.testing.assert_allclose(np.asarray(answer), expected, rtol=1e-10)


def test_three_classes_and_one_class_are_refused(two_classes):
    X, y = two_classes
    with refused(DataError, "target", naming=["classification"]):
        Message(loss="logistic").fit(X, np.arange(len(y)) % 3)
    with refused(DataError, "shapes", naming=["class"]):
        Message(loss="logistic").fit(X, np.full(len(y), "yes"))


def test_subsets_that_can_be_told_apart_are_counted_and_left_out_of_the_mean():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 3))
    y = np.where(X[:, 0] + 0.2 * rng.standard_normal(400) > 0, 1.0, -1.0)
    y[:100] = np.where(X[:100, 0] > 0, 1.0, -1.0)
    X[:100, 0] += 0.3 * y[:100]
    matrix = ArrayMatrix(X, y, shuffled=True)
    mean = Message(n_subsets=4, loss="logistic", average="mean").fit(matrix)
    assert any("1 of 4 subsets are linearly separable" in note for note in mean.result_.notes)
    others = Message(n_subsets=3, loss="logistic", average="mean").fit(ArrayMatrix(X[100:], y[100:], shuffled=True))
    np.testing.assert_allclose(mean.coef_, others.coef_, rtol=1e-12)
    all_rows = Message(n_subsets=1, loss="logistic").fit(matrix)
    one_step = Message(n_subsets=4, loss="logistic").fit(matrix)
    assert abs(one_step.coef_ - all_rows.coef_).max() < abs(mean.coef_ - all_rows.coef_).max()


def test_linearly_separable_is_said_only_of_classes_that_are():
    """A column that three rows of one class have and no other: the likelihood has no maximum, the error stays."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((1200, 4))
    y = (rng.random(1200) < 0.1 + 0.8 * (X[:, 1] > 0)).astype(float)
    X[:, 2] = 0.0
    for start in (0, 400, 800):  # forty rows of one class in each subset
        X[np.flatnonzero(y[start : start + 400])[:40] + start, 2] = 1.0
    partly = Message(n_subsets=3, loss="logistic").fit(ArrayMatrix(X, y, shuffled=True))
    assert {1, 2} <= set(partly.selected_)
    assert partly.score(X, y) < 0.95
    notes = " ".join(partly.result_.notes)
    assert "on 3 of 3 subsets the likelihood has no maximum" in notes
    assert "linearly separable" not in notes
    X[:, 1] += np.sign(X[:, 1])  # a margin
    wholly = Message(n_subsets=3, loss="logistic").fit(ArrayMatrix(X, (X[:, 1] > 0).astype(float), shuffled=True))
    assert any("3 of 3 subsets are linearly separable" in note for note in wholly.result_.notes)


def test_a_subset_of_one_class_does_no_harm():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 5))
    y = np.where(1.5 * X[:, 1] + rng.logistic(size=500) > 0, 1.0, 0.0)
    y[:100] = 1.0
    selector = Message(n_subsets=5, loss="logistic").fit(ArrayMatrix(X, y, shuffled=True))
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), [1])
    assert np.isfinite(selector.coef_).all()


def test_no_related_column_leaves_the_log_odds():
    rng = np.random.default_rng(4)
    y = rng.random(600) < 0.3
    with pytest.warns(SelectionWarning, match="no feature was selected"):
        selector = Message(n_subsets=3, loss="logistic").fit(rng.standard_normal((600, 4)), y)
    assert not selector.support_.any()
    assert selector.predict_proba(np.zeros((1, 4)))[0, 1] == pytest.approx(y.mean())


@pytest.mark.slow
def test_counts_are_explained_by_the_logarithm_of_their_mean():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((3000, 15))
    y = rng.poisson(np.exp(0.3 + X[:, [1, 4]] @ [0.5, -0.4]))
    selector = Message(n_subsets=5, loss="poisson").fit(X, y)
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), [1, 4])
    expected = PoissonRegressor(alpha=0.0, tol=1e-10).fit(X[:, [1, 4]], y)
    np.testing.assert_allclose(selector.coef_[[1, 4]], expected.coef_, atol=1e-3)
    np.testing.assert_allclose(selector.predict(X), np.exp(X @ selector.coef_ + selector.intercept_))
    with pytest.raises(DataError, match="counts of at least 0"):
        Message(loss="poisson").fit(X, y - 1.0)


@pytest.mark.slow
def test_gross_errors_do_not_move_the_huber_fit():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((3000, 15))
    y = 2.0 + X[:, [1, 4]] @ [1.0, -0.7] + rng.standard_normal(3000)
    y[rng.random(3000) < 0.03] += 60.0
    huber = Message(n_subsets=5, loss="huber").fit(X, y)
    np.testing.assert_array_equal(np.flatnonzero(huber.support_), [1, 4])
    np.testing.assert_allclose(huber.coef_[[1, 4]], [1.0, -0.7], atol=0.08)  # four standard errors
    expected = HuberRegressor(alpha=0.0, max_iter=1000).fit(X[:, [1, 4]], y)  # of another threshold
    np.testing.assert_allclose(huber.coef_[[1, 4]], expected.coef_, atol=0.03)
    assert abs(huber.intercept_ - 2.0) < 0.2 < abs(Message(n_subsets=5).fit(X, y).intercept_ - 2.0)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "huber"])
def test_weight_two_is_the_row_twice(loss):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((400, 6))
    y = rng.poisson(np.exp(0.6 * X[:, 3])).astype(float)
    y = np.minimum(y, 1.0) if loss == "logistic" else y
    weight = rng.integers(0, 3, 400)
    weighted = Message(n_subsets=1, loss=loss).fit(X, y, weight)
    repeated = Message(n_subsets=1, loss=loss).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(weighted.support_, repeated.support_)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-9)


def test_the_approximate_path_finds_the_features_of_the_exact_one(two_classes, fitted):
    approximate = Message(n_subsets=5, loss="logistic", approx="lsa").fit(*two_classes)
    assert_close(approximate.coef_, fitted.coef_)  # the same features, and the refit is exact
    assert not np.array_equal(approximate.result_.history["gic"], fitted.result_.history["gic"])
