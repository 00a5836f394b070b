"""The refit on selected columns: against scikit-learn and scipy, and the same from a store, here and kept or not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

from daskfs import ingest
from daskfs.errors import DataError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.shared import refit
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.run import Run


def data(loss, n=600, p=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.logspace(-3, 3, p) + 5.0
    z = X[:, [2, 5, 9]] @ (np.array([1.0, -0.7, 0.5]) / X[:, [2, 5, 9]].std(axis=0))
    z -= z.mean()
    if loss == "poisson":
        y = rng.poisson(np.exp(0.5 * z)).astype(float)
    elif loss in ("logistic", "squared_hinge"):
        y = (z + rng.logistic(size=n) > 0).astype(float)
    else:
        y = z + rng.standard_normal(n)
    return X, y, rng.integers(0, 3, n).astype(float)


COLUMNS = np.array([9, 2, 5, 0])


def fit_of(matrix, columns, loss="squared", positive=None):
    return refit_selected(Run(matrix, "test"), columns, MeanLoss(loss, positive))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_it_is_what_scikit_learn_finds_without_a_penalty(loss, weighted):
    X, y, weight = data(loss)
    weight = weight if weighted else None
    model = {
        "squared": LinearRegression(),
        "logistic": LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000),
        "poisson": PoissonRegressor(alpha=0.0, tol=1e-10, max_iter=1000, solver="newton-cholesky"),
    }[loss]
    scale = X[:, COLUMNS].std(axis=0)
    model.fit((X[:, COLUMNS] - 5.0) / scale, y, sample_weight=weight)
    fit = fit_of(ArrayMatrix(X, y, weight), COLUMNS, loss, positive=1.0 if loss == "logistic" else None)
    np.testing.assert_allclose(fit.coef * scale, np.ravel(model.coef_), rtol=1e-4, atol=1e-5)
    assert fit.n_dependent == 0
    assert not fit.is_separable


def test_the_squared_hinge_loss_ends_at_its_minimum():
    X, y, _ = data("squared_hinge")
    fit = fit_of(ArrayMatrix(X, y), COLUMNS, "squared_hinge", positive=1.0)
    Z, sign = np.column_stack([np.ones(len(y)), X[:, COLUMNS] - 5.0]), 2 * y - 1
    Z[:, 1:] /= fit.scale

    def objective(b):
        short = np.maximum(0.0, 1.0 - sign * (Z @ b))
        return 0.5 * (short**2).mean(), -(Z * (sign * short)[:, None]).mean(axis=0)

    best = minimize(objective, np.zeros(5), jac=True, tol=1e-12)
    np.testing.assert_allclose(fit.mean_loss, best.fun, rtol=1e-10)
    np.testing.assert_allclose(fit.coef * fit.scale, best.x[1:], atol=1e-4)


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_columns_read_again_for_every_step_give_the_same_bits_as_columns_kept(loss, tmp_path, monkeypatch):
    X, y, _weight = data(loss, n=3000)
    monkeypatch.setattr(refit, "BLOCK_VALUES", 2000)
    positive = 1.0 if loss == "logistic" else None
    store = ingest(X, tmp_path / "x.zarr", y=y, dtype="float64", shuffle=False, tile_shape=(700, 5))
    kept = fit_of(store, COLUMNS, loss, positive=positive)
    monkeypatch.setattr(refit, "DEFAULT_BLOCK_NBYTES", 1000)
    for matrix in (store, ArrayMatrix(X, y), store.take(np.arange(3000))):
        again = fit_of(matrix, COLUMNS, loss, positive=positive)
        assert again.intercept == kept.intercept
        np.testing.assert_array_equal(again.coef, kept.coef)


def test_a_column_that_depends_on_those_before_it_and_a_constant_one_get_no_coefficient():
    X, y, _ = data("squared")
    X[:, 0] = X[:, 9] - 2.0 * X[:, 2] / 1e3
    X[:, 1] = 3.0
    fit = fit_of(ArrayMatrix(X, y), np.array([9, 2, 0, 1]))
    assert fit.n_dependent == 1
    assert not fit.coef[2:].any()
    reference = LinearRegression().fit(X[:, [9, 2]], y)
    np.testing.assert_allclose(fit.coef[:2], reference.coef_, rtol=1e-6)


@pytest.mark.parametrize("one_class", [False, True])
def test_classes_told_apart_without_error_get_finite_coefficients_and_it_is_said(one_class):
    X, _, _ = data("logistic")
    y = np.ones(len(X)) if one_class else (X[:, 9] > X[:, 9].mean()).astype(float)
    fit = fit_of(ArrayMatrix(X, y), np.array([9]), "logistic", positive=1.0)
    assert fit.is_separable
    assert np.isfinite(fit.coef).all()
    assert np.isfinite(fit.intercept)
    z = X[:, 9] * fit.coef + fit.intercept
    assert ((z > 0) == (y > 0)).mean() > 0.99


def test_the_squared_hinge_loss_takes_the_weak_ridge_where_many_fits_have_no_loss(monkeypatch):
    rng = np.random.default_rng(0)
    X, test = rng.standard_normal((70, 100)), rng.standard_normal((2000, 100))
    matrix = ArrayMatrix(X, (X[:, :5].sum(axis=1) > 0).astype(float))

    def accuracy(fit):
        return ((test @ fit.coef + fit.intercept > 0) == (test[:, :5].sum(axis=1) > 0)).mean()

    fit = fit_of(matrix, np.arange(100), "squared_hinge", positive=1.0)
    assert fit.is_separable
    monkeypatch.setattr(refit, "NEGLIGIBLE", -1.0)
    anyone = fit_of(matrix, np.arange(100), "squared_hinge", positive=1.0)
    assert accuracy(fit) > accuracy(anyone) + 0.1


def test_no_columns_leave_the_model_without_features():
    X, y, _ = data("logistic")
    fit = fit_of(ArrayMatrix(X, y), np.array([], dtype=np.int64), "logistic", positive=1.0)
    np.testing.assert_allclose(fit.intercept, np.log(y.mean() / (1 - y.mean())), rtol=1e-9)


def test_infinity_in_a_selected_column_is_named():
    X, y, _ = data("squared")
    matrix = ArrayMatrix(X, y, None, np.array([f"gene{j}" for j in range(12)], dtype=object))
    X[3, 5] = np.inf  # which the matrix shares
    with pytest.raises(DataError, match="gene5"):
        fit_of(matrix, COLUMNS)
