"""The ridges are scikit-learn's, sparse rows have those of dense ones, and elimination ends at what matters."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression, Ridge

from daskfs.baselines.linear.ridge_elimination import RidgeElimination, eliminate, laid_out, sizes_to
from daskfs.errors import DataError
from daskfs.losses import find_loss
from daskfs.matrix.arrays import ArrayMatrix
from tests.baselines.designs import levels_and_classes
from tests.baselines.designs import two_true as data
from tests.refusals import refused


@pytest.mark.parametrize("ridge", [1.0, 0.01])
def test_the_fit_of_all_columns_is_scikit_learns_ridge(ridge):
    X, y = data()
    found = RidgeElimination(ridge=ridge).fit(X, y)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = Ridge(alpha=ridge * X.shape[1]).fit(Z, y)
    np.testing.assert_allclose(found.predict(X), expected.predict(Z), atol=2e-3 * y.std())
    np.testing.assert_allclose(found.scores_, np.abs(expected.coef_), atol=2e-3)


@pytest.mark.parametrize("scaling", ["unit", "none"])
def test_the_fit_of_two_classes_is_scikit_learns_logistic_regression(scaling):
    X, y = data()
    scale = X.std(axis=0) if scaling == "unit" else np.ones(X.shape[1])
    found = RidgeElimination(ridge=0.05, scaling=scaling, loss="logistic").fit(X, y > 0.0)
    strength = 0.05 * ((X / scale).std(axis=0) ** 2).sum()
    expected = LogisticRegression(C=1.0 / strength, tol=1e-8).fit((X - X.mean(axis=0)) / scale, y > 0.0)
    np.testing.assert_allclose(
        found.decision_function(X), expected.decision_function((X - X.mean(axis=0)) / scale), atol=0.02
    )


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("seed", range(3))
def test_a_ridge_that_hardly_bounds_the_fit_is_minimised_too(loss, seed, form):
    rng = np.random.default_rng(seed)
    X = rng.poisson(np.exp(rng.standard_normal(400) - 2.0), (80, 400)) * rng.lognormal(sigma=2.0, size=400)
    X = X[:, X.std(axis=0) > 0.0]
    y = X[:, :40] @ rng.standard_normal(40) + rng.standard_normal(80)
    y = y / y.std() if loss == "squared" else np.where(y > np.median(y), 1.0, -1.0)
    ridge = 1e-4 * (X.std(axis=0) ** 2).sum()
    peer = Ridge(alpha=ridge) if loss == "squared" else LogisticRegression(C=1.0 / ridge, tol=1e-8, max_iter=10_000)

    def objective(model):
        z = X @ np.ravel(model.coef_) + model.intercept_
        losses = 0.5 * (z - y) ** 2 if loss == "squared" else np.logaddexp(0.0, -y * z)
        return losses.sum() + 0.5 * ridge * (model.coef_**2).sum()

    found = RidgeElimination(ridge=1e-4, scaling="none", loss=loss).fit(form(X), y if loss == "squared" else y > 0.0)
    assert objective(found) <= 1.001 * objective(peer.fit(X, y))


@pytest.mark.filterwarnings("ignore:.*constant")
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_constant_columns_leave_the_mean(loss):
    y = np.random.default_rng(0).standard_normal(30)
    found = RidgeElimination(loss=loss).fit(np.ones((30, 4)), y if loss == "squared" else y > 0.0)
    np.testing.assert_array_equal(found.coef_, 0.0)
    expected = y.mean() if loss == "squared" else np.log((y > 0.0).sum() / (y <= 0.0).sum())
    np.testing.assert_allclose(found.intercept_, expected)


def of_all_classes(z, y, ridge, coef):
    """Return the multinomial objective at linear predictors z."""
    return (logsumexp(z, axis=1) - z[np.arange(len(y)), y]).sum() + 0.5 * ridge * (coef**2).sum()


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("ridge", [0.05, 1e-4])
@pytest.mark.parametrize("seed", range(3))
def test_several_classes_have_scikit_learns_multinomial_model(seed, ridge, form):
    rng = np.random.default_rng(seed)
    rare = rng.random((300, 40)) < 0.02  # of a class that only one of these has, the coefficients grow far
    X = np.concatenate([rng.standard_normal((300, 10)), rare], axis=1) * rng.lognormal(size=50)
    y = np.argmax(X @ rng.standard_normal((50, 5)) + rng.gumbel(size=(300, 5)), axis=1)
    X, strength = X[:, X.std(axis=0) > 0.0], ridge * (X.std(axis=0) ** 2).sum()
    found = RidgeElimination(ridge=ridge, scaling="none").fit(form(X), np.array(list("abcdefghijkl"))[y])
    expected = LogisticRegression(C=1.0 / strength, tol=1e-8, max_iter=10_000).fit(X, y)

    mine, theirs = (of_all_classes(model.decision_function(X), y, strength, model.coef_) for model in (found, expected))
    assert mine <= 1.001 * theirs
    np.testing.assert_allclose(found.coef_.sum(axis=0), 0.0, atol=1e-3)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_a_weak_ridge_is_minimised_where_newtons_steps_from_nothing_are_not(seed):
    X, y = levels_and_classes(seed, 2000, 8, 40)
    X, strength = X / X.std(axis=0), 1e-4 * X.shape[1]
    found = RidgeElimination(ridge=1e-4).fit(X, y.astype(str))
    peer = LogisticRegression(C=1.0 / strength, tol=1e-8, max_iter=10_000).fit(X, y)
    mine, theirs = (of_all_classes(model.decision_function(X), y, strength, model.coef_) for model in (found, peer))
    assert mine <= 1.001 * theirs


def test_two_classes_may_have_the_multinomial_model():
    X, y = data()
    two, one = (
        RidgeElimination(ridge=r, loss=loss).fit(X, y > 0) for r, loss in ((0.1, "multinomial"), (0.05, "logistic"))
    )
    np.testing.assert_allclose(two.predict_proba(X), one.predict_proba(X), atol=0.01)


def test_with_the_logistic_loss_several_classes_are_each_told_from_the_rest():
    X, y = data()
    label = np.digitize(y, [-1.0, 1.0])
    found = RidgeElimination(ridge=0.05, loss="logistic").fit(X, label)
    for k in range(3):
        one = RidgeElimination(ridge=0.05, loss="logistic").fit(X, label == k)
        np.testing.assert_allclose(found.decision_function(X)[:, k], one.decision_function(X), atol=0.02)


def test_sparse_rows_have_the_fit_of_dense_ones_and_weights_count_as_rows():
    X, y = data(is_sparse=True)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    dense = RidgeElimination(10).fit(X, y, weight)
    sparse = RidgeElimination(10).fit(scipy.sparse.csr_array(X), y, weight)
    again = RidgeElimination(10).fit(np.repeat(X, weight.astype(int), axis=0), np.repeat(y, weight.astype(int)))
    for other in (sparse, again):
        np.testing.assert_array_equal(np.sort(dense.selected_), np.sort(other.selected_))
        np.testing.assert_allclose(dense.coef_, other.coef_, atol=5e-3)


def test_what_matters_is_left_over_many_seeds():
    found = [set(RidgeElimination(2).fit(*data(seed, p=300)).selected_.tolist()) == {3, 7} for seed in range(20)]
    assert np.mean(found) > 0.9


def test_a_path_has_the_sizes_of_its_steps():
    X, y = data(p=300)
    data_of = laid_out(ArrayMatrix(X, y))
    sizes = sizes_to(50, 300)
    steps = list(eliminate(data_of, y[:, None], find_loss("squared"), "unit", (1.0, 0.1), sizes))
    assert [[len(step.columns) for step in of_ridge] for of_ridge in steps] == [sizes, sizes]


def test_a_path_of_many_ridges_holds_the_coefficients_of_one():
    rng, sizes = np.random.default_rng(0), sizes_to(50, 2000)
    held = laid_out(ArrayMatrix(rng.standard_normal((40, 2000)), np.zeros(40)))
    y = np.eye(10)[np.arange(40) % 10]

    def peak_of(ridges):
        tracemalloc.start()
        try:
            assert sum(1 for _ in eliminate(held, y, find_loss("multinomial"), "unit", ridges, sizes)) == len(ridges)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak_of(RidgeElimination.ridges) < 1.3 * peak_of([1.0])


def test_nan_is_named_by_column_and_row():
    X, y = data()
    X[17, 5] = np.nan
    with refused(DataError, "values", at="column 5, row 17"):
        RidgeElimination().fit(X, y)
