"""The refit on selected columns: against scikit-learn and scipy, and the same from a store, here and kept or not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, RidgeCV

from daskfs import Mission, ingest
from daskfs.errors import DataError
from daskfs.kernels.linear.linalg import factorise
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.shared import refit, selected_blocks
from daskfs.selectors.shared.elimination import order_of_removal
from daskfs.selectors.shared.refit import JUDGED, Begun, MeanLoss, _factor_of, refit_nested, refit_selected
from daskfs.selectors.shared.run import Run
from tests.refusals import refused
from tests.tolerances import assert_close


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


def fit_of(matrix, columns, loss="squared", positive=None, ridge=0.0):
    return refit_selected(Run(matrix, "test"), columns, MeanLoss(loss, positive, ridge=ridge))


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


@pytest.mark.parametrize("ridge", [0.0, None])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_columns_read_again_for_every_step_give_the_answer_of_columns_kept(loss, ridge, tmp_path, monkeypatch):
    X, y, _weight = data(loss, n=3000)
    monkeypatch.setattr(selected_blocks, "BLOCK_VALUES", 2000)
    positive = 1.0 if loss == "logistic" else None
    store = ingest(X, tmp_path / "x.zarr", y=y, dtype="float64", shuffle=False, tile_shape=(700, 5))
    kept = fit_of(store, COLUMNS, loss, positive=positive, ridge=ridge)
    monkeypatch.setattr(selected_blocks, "DEFAULT_BLOCK_NBYTES", 1000)
    for matrix in (store, ArrayMatrix(X, y), store.take(np.arange(3000))):
        again = fit_of(matrix, COLUMNS, loss, positive=positive, ridge=ridge)
        assert_close(again.intercept, kept.intercept)
        assert_close(again.coef, kept.coef)


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


def test_the_squared_hinge_loss_is_flat_where_all_rows_are_beyond_the_margin():
    """A column without a ridge separates the classes: then no row has a curvature, that of the intercept included."""
    X = np.array([[1.4, 1.1, 1.6, 0.0], [0.0, 0.0, 0.9, 1.1], [1.1, 0.0, 0.0, 0.0]])
    fitted = Mission(loss="squared_hinge", always_include=[0], random_state=0).fit(X, [1, 0, 1])
    assert np.isfinite(fitted.coef_).all()
    assert fitted.predict(X).tolist() == [1, 0, 1]


def test_no_columns_leave_the_model_without_features():
    X, y, _ = data("logistic")
    fit = fit_of(ArrayMatrix(X, y), np.array([], dtype=np.int64), "logistic", positive=1.0)
    np.testing.assert_allclose(fit.intercept, np.log(y.mean() / (1 - y.mean())), rtol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "huber", "squared_hinge"])
def test_columns_that_are_mostly_zero_are_refitted_from_their_entries(loss, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((900, 120)) < 0.03, rng.standard_normal((900, 120)) + 1.0, 0.0)
    X[:, 7] = X[:, 6]  # depends on another
    X[:, 8] = 0.0
    z = 2.0 * X[:, :20].sum(axis=1) - 1.0
    y = rng.poisson(np.exp(np.minimum(z, 2.0))) if loss == "poisson" else z + rng.logistic(size=900)
    positive = 1.0 if loss in ("logistic", "squared_hinge") else None
    y, weight = np.asarray(y > 0 if positive else y, dtype=float), rng.integers(0, 3, 900).astype(float)
    columns = np.concatenate([[6, 7, 8], rng.permutation(np.delete(np.arange(120), [6, 7, 8]))[:97]])

    def fits(X):
        asked = MeanLoss(loss, positive, threshold=1.0 if loss == "huber" else None)
        return refit_nested(Run(ArrayMatrix(X, y, weight), "test"), columns, [70, 100], asked)

    expected = fits(X)
    monkeypatch.setattr(selected_blocks, "terms_on_rows", lambda *_: pytest.fail("a dense block was made"))
    for found, one in zip(fits(scipy.sparse.csr_array(X)), expected, strict=True):
        np.testing.assert_allclose(found.coef, one.coef, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(found.intercept, one.intercept, rtol=1e-8)
        np.testing.assert_allclose(found.mean_loss, one.mean_loss, rtol=1e-8)
        np.testing.assert_allclose(found.ridge, one.ridge, rtol=1e-12)
        assert (found.n_dependent, found.is_separable) == (one.n_dependent, one.is_separable) == (1, False)


def test_infinity_in_a_selected_column_is_named():
    X, y, _ = data("squared")
    matrix = ArrayMatrix(X, y, None, np.array([f"gene{j}" for j in range(12)], dtype=object))
    X[3, 5] = np.inf  # which the matrix shares
    with refused(DataError, "values", at="column 'gene5', row 3"):
        fit_of(matrix, COLUMNS)


def searched(n, p=2000, s=30, seed=0, noise=1.0, loss="squared"):
    """Return training data, the `s` columns that correlate most with the target, and test data."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 2000, p))
    z = X[:, :10] @ rng.standard_normal(10) / 3.0
    y = z + noise * rng.standard_normal(len(X))
    if loss != "squared":
        y = (y > 0).astype(float)
    columns = np.argsort(-np.abs((X[:n] - X[:n].mean(axis=0)).T @ (y[:n] - y[:n].mean())))[:s]
    return X[:n], y[:n], columns, X[n:], y[n:]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("n", "s", "p", "noise"), [(60, 10, 2000, 1.0), (60, 55, 2000, 1.0), (60, 30, 2000, 3.0), (300, 30, 500, 1.0)]
)
def test_columns_that_were_looked_for_predict_as_well_as_with_a_cross_validated_ridge(n, s, p, noise):
    errors = []
    for seed in range(12):
        X, y, columns, X_test, y_test = searched(n, p, s, seed, noise)
        fit, none = (fit_of(ArrayMatrix(X, y), columns, ridge=ridge) for ridge in (None, 0.0))
        peer = RidgeCV(np.logspace(-3, 4, 30), cv=5).fit(X[:, columns], y)
        predictions = [X_test[:, columns] @ f.coef + f.intercept for f in (fit, none)]
        predictions.append(peer.predict(X_test[:, columns]))
        errors.append([np.mean((z - y_test) ** 2) for z in predictions])
    found, unpenalised, peers = np.mean(errors, axis=0)
    assert found < 1.02 * peers
    assert found < 1.02 * unpenalised
    if s == 55:  # of 60 rows: what there was before
        assert unpenalised > 2.0 * found


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge", "huber"])
def test_the_ridge_vanishes_as_rows_are_added_and_with_it_what_it_costs(loss):
    ridges = []
    for n in (50, 500, 5000):
        X, y, columns, _, _ = searched(n, p=200, s=10, loss="squared" if loss == "huber" else loss)
        positive = 1.0 if loss in ("logistic", "squared_hinge") else None
        fit = fit_of(ArrayMatrix(X, y), columns, loss, positive, None)
        ridges.append(fit.ridge)
    assert ridges[0] > ridges[1] > ridges[2]
    assert ridges[2] < 0.1 * ridges[0]
    exact = fit_of(ArrayMatrix(X, y), columns, loss, positive)
    np.testing.assert_allclose(fit.coef, exact.coef, rtol=0.05, atol=0.02)


def test_a_ridge_is_what_the_search_was_and_columns_that_were_given_need_less():
    X, y, columns, _, _ = searched(200)
    run = Run(ArrayMatrix(X, y), "test")
    found, given = (refit_selected(run, columns, n_candidates=n) for n in (2000, len(columns)))
    assert given.ridge < found.ridge


def test_the_chosen_ridge_does_not_depend_on_the_units_of_columns_and_target():
    X, y, columns, _, _ = searched(80)
    fit = fit_of(ArrayMatrix(X, y), columns, ridge=None)
    scaled = fit_of(ArrayMatrix(1024.0 * X, 2.0**-20 * y), columns, ridge=None)
    assert scaled.ridge == fit.ridge
    np.testing.assert_allclose(scaled.coef * 2.0**30, fit.coef, rtol=1e-9)


def test_dependent_columns_share_a_coefficient_where_there_is_a_ridge():
    X, y, columns, _, _ = searched(60, s=10)
    X[:, columns[1]] = X[:, columns[0]]
    fit = fit_of(ArrayMatrix(X, y), columns, ridge=None)
    assert fit.n_dependent == 1
    np.testing.assert_allclose(fit.coef[0], fit.coef[1], rtol=1e-6)


def slope_at(fit, X, y, loss):
    """Return the greatest derivative of the mean loss and its ridge in intercept and standardised coefficients."""
    z, scale = X @ fit.coef + fit.intercept, X.std(axis=0)
    if loss == "logistic":
        slope = -(2 * y - 1) / (1.0 + np.exp((2 * y - 1) * z))
    elif loss == "poisson":
        slope = np.exp(z) - y
    else:
        slope = z - y
    Z = (X - X.mean(axis=0)) / scale
    return np.abs(np.append(Z.T @ slope / len(y) + fit.ridge * fit.coef * scale, slope.mean())).max()


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("seed", range(12))
def test_with_the_ridge_that_is_chosen_it_is_the_minimum_of_each_size(loss, seed):
    X, y, _ = data(loss, n=(80, 300, 2000)[seed % 3], seed=seed)
    X = (X - 5.0) / X.std(axis=0)
    asked, run = MeanLoss(loss, 1.0 if loss == "logistic" else None), Run(ArrayMatrix(X, y), "test")
    sizes, columns = [1, 3, 8, 12], np.random.default_rng(seed).permutation(12)
    exact = refit_nested(run, columns, sizes, asked, n_candidates=5000)
    rough = refit_nested(run, columns, sizes, replace(asked, tolerance=JUDGED), n_candidates=5000)
    for size, fit, judged in zip(sizes, exact, rough, strict=True):
        some = X[:, columns[:size]]
        if not fit.is_separable:
            assert slope_at(fit, some, y, loss) < 1e-9
            assert slope_at(judged, some, y, loss) < 1e-2
        alone = refit_selected(run, columns[:size], asked, n_candidates=5000)
        assert alone.mean_loss == pytest.approx(fit.mean_loss, rel=1e-3)
        np.testing.assert_allclose(judged.coef, fit.coef, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("seed", range(8))
def test_columns_go_in_the_same_order_wherever_the_fits_begin(loss, seed):
    X, y, _ = data(loss, n=2000, seed=seed)
    X = (X - 5.0) / X.std(axis=0)
    asked, run = MeanLoss(loss, 1.0 if loss == "logistic" else None), Run(ArrayMatrix(X, y), "test")
    fit = refit_selected(run, np.arange(12), asked)
    order = order_of_removal(run, np.arange(12), [asked])
    begun = order_of_removal(run, np.arange(12), [asked], [Begun(fit.coef, fit.intercept)])
    np.testing.assert_array_equal(begun, order)
    assert {2, 5, 9} == set(order[:3].tolist())
    assert sorted(order) == list(range(12))


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [0.0, None])
@pytest.mark.parametrize("seed", range(6))
def test_large_counts_whose_loss_is_below_0_end_at_the_minimum_too(ridge, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 5))
    y = rng.poisson(np.exp(2.5 + X @ rng.standard_normal(5) / 3.0)).astype(float)
    fit = refit_selected(Run(ArrayMatrix(X, y), "test"), np.arange(5), MeanLoss("poisson", ridge=ridge), 1000)
    z = X @ fit.coef + fit.intercept
    assert fit.mean_loss == pytest.approx(np.mean(np.exp(z) - y * z), rel=1e-9)
    assert fit.mean_loss < 0.0
    assert not fit.is_separable
    assert fit.n_steps < 20
    assert slope_at(fit, X, y, "poisson") < 1e-8


@pytest.mark.parametrize("nearness", [1.0, 1e-4, 1e-6, 1e-7, 0.0])
def test_a_factor_leaves_out_what_depends_on_other_columns(nearness):
    """LAPACK factors a column that rounding alone distinguishes from others, or refuses all: neither may decide."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4))
    X[:, 3] = X[:, 1] - X[:, 2] + nearness * X[:, 3]
    hessian = X.T @ X
    expected = np.zeros((4, 4))
    rank = factorise(hessian, 4, 0.0, expected)
    assert rank == (4 if nearness > 1e-5 else 3)
    np.testing.assert_allclose(_factor_of(hessian), expected, rtol=1e-6, atol=1e-12)
