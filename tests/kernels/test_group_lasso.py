"""The group Lasso path against its conditions of optimality, a slow solver of its own, and the Lasso."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from daskfs.kernels.blocks.column_entries import column_entries
from daskfs.kernels.glm.path import glm_path
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.kernels.group_lasso.path import group_path
from daskfs.kernels.lasso.path import lasso_path
from daskfs.kernels.linear.gram_matrix import WHOLE_GRAM_COLUMNS
from daskfs.kernels.losses import default_threshold

LOSSES = ("squared", "logistic", "poisson", "huber")
SHAPES = ((300, 24), (70, 110))


def groups_of(*sizes):
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    return ColumnGroups(np.arange(bounds[-1]), bounds)


def problem_of(loss, n, p, seed=0):
    """Correlated columns, a full set of dummies, a constant column; a target that follows three groups; weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    X[:, 0:3] = np.eye(3)[rng.integers(0, 3, n)]
    X[:, 7] = 4.0
    z = X[:, 0] - X[:, 1] + 0.4 * X[:, 4] + 0.4 * X[:, 9]
    noise = {"squared": rng.standard_normal(n), "huber": rng.standard_t(3, n), "logistic": rng.logistic(size=n)}
    y = rng.poisson(np.exp(0.4 * z)).astype(float) if loss == "poisson" else z + noise[loss]
    weight = rng.integers(0, 3, n).astype(float)
    return X, np.where(y > 0, 1.0, -1.0) if loss == "logistic" else y, weight


def derivative(loss, z, y, threshold):
    return {
        "squared": lambda: z - y,
        "logistic": lambda: -y / (1.0 + np.exp(y * z)),
        "poisson": lambda: np.exp(z) - y,
        "huber": lambda: np.clip(z - y, -threshold, threshold),
    }[loss]()


def orthonormal(X, share, groups):
    """An orthonormal basis of each group's centred columns, by another way than Cholesky's."""
    centred, found = X - share @ X, []
    for start, stop in zip(groups.bounds[:-1], groups.bounds[1:], strict=True):
        U, size, _ = np.linalg.svd(
            np.sqrt(share)[:, None] * centred[:, groups.members[start:stop]], full_matrices=False
        )
        keep = size > 1e-8
        found.append(U[:, keep] / np.sqrt(np.where(share > 0, share, 1.0))[:, None])
    return found


def slow_solution(X, y, share, groups, lam, loss, threshold):
    """Predictions by accelerated proximal gradient, to 1e-10: nothing of it is shared with what is tested."""
    bases = orthonormal(X, share, groups)
    B = np.hstack([np.ones((len(y), 1)), *bases])
    ends = 1 + np.cumsum([basis.shape[1] for basis in bases])
    coef = np.zeros(B.shape[1])
    coef[0] = np.log(share @ y) if loss == "poisson" else 0.0
    bound = np.linalg.eigvalsh(B.T @ (share[:, None] * B))[-1] * (8.0 if loss == "poisson" else 1.0)
    ahead, momentum = coef.copy(), 1.0
    for _ in range(200_000):
        gradient = B.T @ (share * derivative(loss, B @ ahead, y, threshold))
        new = ahead - gradient / bound
        for end, basis in zip(ends, bases, strict=True):
            own = slice(end - basis.shape[1], end)
            size, limit = np.linalg.norm(new[own]), lam * np.sqrt(basis.shape[1]) / bound
            new[own] *= max(0.0, 1.0 - limit / size) if size > 0.0 else 0.0
        if (ahead - new) @ (new - coef) > 0.0:
            momentum = 1.0
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = new + (momentum - 1.0) / following * (new - coef)
        change, coef, momentum = np.abs(new - coef).max(), new, following
        if change < 1e-13:
            break
    return B @ coef


def block_of(X, kind):
    if kind == "dense":
        return X
    rows = scipy.sparse.csr_matrix(X)
    return column_entries(rows.indptr.astype(np.int64), rows.indices, rows.data, X.shape[1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "entries"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_point_of_a_path_is_optimal_and_some_are_a_slow_solvers(loss, shape, kind):
    X, y, weight = problem_of(loss, *shape)
    groups, threshold = groups_of(*[4] * (shape[1] // 4), *([2] if shape[1] % 4 else [])), default_threshold(y, weight)
    how = {"per_column": 4.0, "patience": None, "tol": 1e-9, "min_ratio": 0.02, "max_columns": 32}
    path = group_path(block_of(X, kind), y, weight, groups, loss=loss, **how)
    share, bases = weight / weight.sum(), orthonormal(X, weight / weight.sum(), groups)
    assert path.n_unsolved == 0
    assert len(path.lambdas) > 5
    assert path.df[-1] > 8
    for step, lam in enumerate(path.lambdas):
        z = X @ path.coefficients(step) + path.intercept(step)
        residual = -share * derivative(loss, z, y, threshold)
        assert abs(residual.sum()) < 1e-7
        active = set(path.selected_units(step).tolist())
        for g, basis in enumerate(bases):
            gradient, limit = basis.T @ residual, lam * np.sqrt(basis.shape[1])
            if g not in active:
                assert np.linalg.norm(gradient) <= limit * (1.0 + 1e-7)
                continue
            fitted = basis.T @ (
                share * (X[:, groups.members[groups.bounds[g] : groups.bounds[g + 1]]] @ _own(path, step, g))
            )
            np.testing.assert_allclose(gradient, limit * fitted / np.linalg.norm(fitted), atol=2e-6 * limit + 1e-8)
    for step in (len(path.lambdas) // 2, len(path.lambdas) - 1):
        z = X @ path.coefficients(step) + path.intercept(step)
        slow = slow_solution(X, y, share, groups, path.lambdas[step], loss, threshold)
        np.testing.assert_allclose(z[weight > 0], slow[weight > 0], atol=1e-6)


def _own(path, step, g):
    return path.coefficients(step)[path.groups.members[path.groups.bounds[g] : path.groups.bounds[g + 1]]]


@pytest.mark.parametrize("gic_rss", ["refit", "lasso"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", LOSSES)
def test_groups_of_one_column_each_are_the_lasso(loss, shape, gic_rss):
    X, y, weight = problem_of(loss, *shape)
    X[:, 2] = X[:, 5] * X[:, 6]  # no column depends on the others
    how = {"gic_rss": gic_rss, "tol": 1e-10}
    found = group_path(X, y, weight, groups_of(*[1] * shape[1]), loss=loss, per_column=4.0, per_group=1.0, **how)
    if loss == "squared":
        lasso = lasso_path(X, y, weight, penalty=5.0, gic_rss=gic_rss, lambdas=found.lambdas)
    else:
        lasso = glm_path(X, y, weight, loss=loss, penalty=5.0, **how)
    n = min(len(found.lambdas), len(lasso.lambdas))
    assert n > 5
    np.testing.assert_allclose(found.lambdas[:n], lasso.lambdas[:n], rtol=1e-12)
    np.testing.assert_array_equal(found.df[:n], lasso.df[:n])
    np.testing.assert_array_equal(found.selected(), lasso.selected())
    for step in range(n):
        np.testing.assert_allclose(found.coefficients(step), lasso.coefficients(step), atol=1e-7)
        assert abs(found.intercept(step) - lasso.intercept(step)) < 1e-7


@pytest.mark.parametrize("loss", LOSSES)
def test_it_does_not_matter_by_which_columns_a_group_is_given(loss):
    X, y, weight = problem_of(loss, 300, 24)
    other, rng = X.copy(), np.random.default_rng(1)
    for g in range(6):
        other[:, 4 * g : 4 * g + 4] = X[:, 4 * g : 4 * g + 4] @ rng.standard_normal((4, 4))
    one, two = (group_path(x, y, weight, groups_of(*[4] * 6), loss=loss, per_column=4.0, tol=1e-10) for x in (X, other))
    np.testing.assert_array_equal(one.df, two.df)
    np.testing.assert_array_equal(one.selected_units(), two.selected_units())
    for step in (5, one.best):
        fitted = [x @ path.coefficients(step) + path.intercept(step) for x, path in ((X, one), (other, two))]
        np.testing.assert_allclose(*fitted, atol=1e-6)


def test_degrees_of_freedom_are_ranks_and_the_refit_is_least_squares():
    X, y, weight = problem_of("squared", 300, 24)
    path = group_path(X, y, weight, groups_of(3, 5, *[4] * 4), loss="squared", per_column=2.0, patience=None)
    step = int(np.argmax(path.n_units))
    assert path.df[step] == 2 + 4 + 4 * (
        path.n_units[step] - 2
    )  # of 3 dummies one depends, of 5 columns one is constant
    columns = np.column_stack([np.ones(300), X[:, path.selected(step)]]) * np.sqrt(weight)[:, None]
    residual = y * np.sqrt(weight) - columns @ np.linalg.lstsq(columns, y * np.sqrt(weight), rcond=None)[0]
    assert path.fit[step] == pytest.approx(residual @ residual / weight.sum(), rel=1e-9)
    assert path.gic[step] == pytest.approx(weight.sum() * np.log(path.fit[step]) + 2.0 * path.df[step])


def test_a_shrunk_fit_has_fewer_degrees_of_freedom_than_its_rank_and_more_than_groups():
    X, y, weight = problem_of("squared", 300, 24)
    path = group_path(X, y, weight, groups_of(*[4] * 6), loss="squared", per_column=2.0, gic_rss="lasso", patience=None)
    active = path.n_units > 0
    assert (path.df[active] > path.n_units[active]).all()
    assert (path.df < 4 * path.n_units + 1e-12).all()
    assert path.df[-1] > 0.9 * path.groups.rank.sum()  # hardly shrunk


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_kept_for_the_refit_are_moments_and_correlations_of_whole_groups(shape):
    X, y, weight = problem_of("squared", *shape)
    groups = groups_of(*[4] * (shape[1] // 4), *([2] if shape[1] % 4 else []))
    cache = group_path(X, y, weight, groups, loss="squared", per_column=4.0, max_cached=20).gram
    assert 8 <= len(cache.features) <= 20
    of_groups = {int(j) // 4 for j in cache.features}
    assert set(cache.features.tolist()) == {j for g in of_groups for j in range(4 * g, min(4 * g + 4, shape[1]))} - {7}
    share = weight / weight.sum()
    Z = (X - share @ X)[:, cache.features]
    np.testing.assert_allclose(cache.mean, share @ X[:, cache.features], atol=1e-12)
    np.testing.assert_allclose(cache.scale, np.sqrt(share @ Z**2), rtol=1e-10)
    np.testing.assert_allclose(cache.gram, (Z / cache.scale).T @ (share[:, None] * (Z / cache.scale)), atol=1e-9)


def test_correlations_that_are_all_known_are_all_kept():
    X, y, weight = problem_of("squared", 300, WHOLE_GRAM_COLUMNS)
    path = group_path(
        X, y, weight, groups_of(*[4] * (WHOLE_GRAM_COLUMNS // 4)), loss="squared", per_column=4.0, max_columns=8
    )
    assert set(path.gram.features.tolist()) == set(range(WHOLE_GRAM_COLUMNS)) - {7}


def test_a_group_larger_than_the_largest_model_stays_out():
    X, y, weight = problem_of("squared", 300, 24)
    path = group_path(X, y, weight, groups_of(12, 4, 4, 4), loss="squared", per_column=2.0, max_columns=8)
    assert 0 not in path.entered
    assert path.groups.rank[0] == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_where_there_is_nothing_to_explain_there_is_no_path(loss):
    X, _, weight = problem_of(loss, 300, 24)
    path = group_path(X, np.ones(300), weight, groups_of(*[4] * 6), loss=loss, per_column=4.0)
    assert path.best == -1 or path.n_units[path.best] == 0
    assert len(path.selected()) == 0
