"""Columns without a penalty on the paths of all losses: Frisch, Waugh and Lovell, and the conditions of optimality."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Lasso

from daskfs.kernels.blocks.column_entries import column_entries
from daskfs.kernels.glm.fit import glm_fit
from daskfs.kernels.glm.lsa import lsa_path
from daskfs.kernels.glm.path import glm_path
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.kernels.group_lasso.path import group_path
from daskfs.kernels.lasso.path import lasso_path

FREE = np.array([2, 7, 9, 11])  # 2 is constant, 11 depends on the two before it
HELD = [7, 9]


def drawn(seed, n_features, loss="squared", n_samples=300):
    """Draw rows of which three quarters count, two zeros in three values; column 5 is close to a free one."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features)) * (rng.random((n_samples, n_features)) < 1 / 3)
    X[:, 5] += X[:, 7]
    X[:, 2], X[:, 11] = 3.0, X[:, 7] - 2.0 * X[:, 9] + 1.0
    z = 2.0 * X[:, 7] - X[:, 9] + X[:, 13] - 1.5 * X[:, 14]
    y = z + 0.5 * rng.standard_normal(n_samples)
    if loss == "logistic":
        y = np.where(rng.random(n_samples) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)
    if loss == "poisson":
        y = rng.poisson(np.exp(0.4 * z)).astype(float)
    return X, y, rng.integers(0, 4, n_samples).astype(float)


def block_of(X, kind):
    rows = sp.csr_matrix(X)
    return X if kind == "dense" else column_entries(rows.indptr, rows.indices, rows.data, X.shape[1])


def standardised(X, weight):
    share = weight / weight.sum()
    centred = X - share @ X
    scale = np.sqrt(share @ centred**2)
    return np.divide(centred, scale, out=np.zeros(X.shape), where=scale > 1e-9), share


def derivative(loss, z, y, threshold):
    return {
        "squared": lambda: z - y,
        "logistic": lambda: -y / (1.0 + np.exp(y * z)),
        "poisson": lambda: np.exp(z) - y,
        "huber": lambda: np.clip(z - y, -threshold, threshold),
    }[loss]()


@pytest.mark.parametrize("solver", ["homotopy", "descent"])
@pytest.mark.parametrize("kind", ["dense", "entries"])
@pytest.mark.parametrize("n_features", [40, 900])
def test_the_squared_path_is_that_of_what_the_free_columns_leave(n_features, kind, solver):
    """Frisch-Waugh-Lovell: scikit-learn's Lasso on the residuals of target and columns, at the same λ."""
    for seed in range(3):
        X, y, weight = drawn(seed, n_features)
        path = lasso_path(block_of(X, kind), y, weight, penalty=5.0, solver=solver, free=FREE)
        assert path.solver == solver
        Z, share = standardised(X, weight)
        root = np.sqrt(share)
        held = root[:, None] * Z[:, HELD]
        left = np.eye(len(y)) - held @ np.linalg.pinv(held)
        others = np.setdiff1d(np.arange(n_features), FREE)
        target, columns = left @ (root * (y - share @ y)), left @ (root[:, None] * Z[:, others])
        assert path.lambdas[0] == pytest.approx(np.abs(columns.T @ target).max(), rel=1e-9)
        assert path.df[0] == len(HELD)
        for step in (0, len(path.lambdas) // 2, len(path.lambdas) - 1):
            n = len(y)
            fit = Lasso(path.lambdas[step] / n, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(columns, target)
            coef = np.zeros(n_features)
            coef[path.entered] = path.coef[step]
            np.testing.assert_allclose(coef[others], fit.coef_, atol=1e-8)
            rest = root * (y - share @ y) - root * (Z[:, others] @ fit.coef_)
            np.testing.assert_allclose(coef[HELD], np.linalg.lstsq(held, rest, rcond=None)[0], atol=1e-8)
            assert not coef[[2, 11]].any()
            assert set(HELD) <= set(path.selected(step))
        centred, of_refit = root * (y - share @ y), root[:, None] * Z[:, path.selected(path.best)]
        rss = np.linalg.norm(centred - of_refit @ np.linalg.lstsq(of_refit, centred, rcond=None)[0]) ** 2
        assert path.fit[path.best] == pytest.approx(rss, rel=1e-8)
        model = len(path.selected(path.best))
        assert path.gic[path.best] == pytest.approx(weight.sum() * np.log(rss) + 5.0 * model, rel=1e-9)


@pytest.mark.slow_cases("entries")
@pytest.mark.parametrize("n_features", [24, 500])
@pytest.mark.parametrize("kind", ["dense", "entries"])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "huber", "squared"])
def test_every_model_of_a_path_is_optimal_with_the_free_columns_unpenalised(loss, kind, n_features):
    X, y, weight = drawn(1, n_features, loss)
    path = glm_path(block_of(X, kind), y, weight, loss=loss, penalty=5.0, free=FREE)
    Z, share = standardised(X, weight)
    others = np.setdiff1d(np.arange(n_features), FREE)
    unit = np.sqrt(path.moments.y_variance)
    for step, lam in enumerate(path.lambdas):
        z = X @ path.coefficients(step) + path.intercept(step)
        slope = share * derivative(loss, z, y, path.threshold)
        gradient = Z.T @ slope
        assert abs(slope.sum()) < 2e-5 * unit
        assert np.abs(gradient[FREE]).max() < 2e-5 * unit  # of the steps' tolerance of 1e-6, and 0.1 of that
        assert np.abs(gradient[others]).max() < lam + 2e-5 * unit
        active = np.setdiff1d(path.selected(step), FREE)
        assert (np.abs(gradient[active]) > lam - 2e-5 * unit).all()
        assert path.df[step] == len(path.selected(step)) == len(active) + len(HELD)
    counts = weight > 0.0
    alone = glm_fit(X[np.ix_(counts, HELD)], y[counts], weight[counts], loss=loss, threshold=path.threshold)
    z = X[:, HELD] @ alone.coef + alone.intercept
    gradient = Z[:, others].T @ (share * derivative(loss, z, y, path.threshold))
    assert path.lambdas[0] == pytest.approx(np.abs(gradient).max(), rel=1e-5)
    np.testing.assert_allclose(path.coefficients(0)[HELD], alone.coef, rtol=1e-4, atol=1e-5)


def test_the_parabola_of_the_squared_loss_has_the_same_path():
    X, y, weight = drawn(2, 30)
    path = lsa_path(X, y, weight, loss="squared", penalty=5.0, free=FREE)
    expected = lasso_path(X, y, weight, penalty=5.0, lambdas=path.lambdas, solver="descent", free=FREE)
    n = min(len(path.lambdas), len(expected.lambdas))
    assert n > 10
    for step in range(n):
        np.testing.assert_allclose(path.coefficients(step), expected.coefficients(step), atol=1e-6)
    np.testing.assert_array_equal(path.df[:n], expected.df[:n])


@pytest.mark.slow
@pytest.mark.parametrize("n_features", [24, 400])
@pytest.mark.parametrize("kind", ["dense", "entries"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "huber"])
def test_groups_without_a_penalty_leave_the_gradient_of_none_of_their_columns(loss, kind, n_features):
    X, y, weight = drawn(3, n_features, loss)
    own = [np.array([7, 9, 11]), *np.array_split(np.setdiff1d(np.arange(n_features), [7, 9, 11]), n_features // 4)]
    groups = ColumnGroups(np.concatenate(own), np.cumsum([0, *map(len, own)]))
    free = np.array([0])
    path = group_path(block_of(X, kind), y, weight, groups, loss=loss, per_column=3.0, free=free)
    Z, share = standardised(X, weight)
    unit = np.sqrt(path.moments.y_variance)
    threshold = glm_path(X, y, weight, loss=loss, penalty=5.0, n_lambdas=2).threshold
    assert path.df[0] == 2
    assert path.n_units[0] == 1
    for step, lam in enumerate(path.lambdas[:40]):
        z = X @ path.coefficients(step) + path.intercept(step)
        gradient = Z.T @ (share * derivative(loss, z, y, threshold))
        assert np.abs(gradient[own[0]]).max() < 2e-5 * unit
        for columns in own[1:]:
            gram = (Z[:, columns] * share[:, None]).T @ Z[:, columns]
            size = np.sqrt(gradient[columns] @ np.linalg.pinv(gram, hermitian=True) @ gradient[columns])
            assert size / np.sqrt(np.linalg.matrix_rank(gram)) < lam + 2e-5 * unit
        assert 0 in path.selected_units(step)


@pytest.mark.parametrize("kind", ["dense", "entries"])
@pytest.mark.parametrize("solver", ["homotopy", "descent"])
def test_where_free_columns_explain_all_there_is_their_model_alone(kind, solver):
    X, _, weight = drawn(4, 900)
    y = X[:, 7] - X[:, 9]
    path = lasso_path(block_of(X, kind), y, weight, penalty=5.0, solver=solver, free=FREE)
    assert len(path.lambdas) == 1
    assert path.selected().tolist() == HELD
    np.testing.assert_allclose(path.coefficients(0)[HELD], [1.0, -1.0], rtol=1e-9)


def test_no_free_columns_are_the_path_as_it_was():
    for kind in ("dense", "entries"):
        X, y, weight = drawn(5, 900)
        found = lasso_path(block_of(X, kind), y, weight, penalty=5.0, free=np.empty(0, dtype=np.int64))
        expected = lasso_path(block_of(X, kind), y, weight, penalty=5.0)
        np.testing.assert_array_equal(found.coef, expected.coef)
