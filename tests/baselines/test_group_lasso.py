"""The group lasso and UFO-MKL: conditions of the optimum, what other solvers find, and what groups are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.baselines import GroupLasso, UfoMkl
from daskfs.errors import PlanError
from tests.refusals import refused

SOLVERS = ("active_set", "bcd", "fista")
LOSSES = ("squared", "logistic", "squared_hinge")
LABELS = np.repeat(np.arange(15), [1, 2, 3, 4, 5] * 3)


@pytest.fixture(scope="module")
def data():
    """Correlated columns in 15 groups, of which four matter; and weights."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, len(LABELS))) + 0.7 * rng.standard_normal((200, 1))
    X *= rng.uniform(0.5, 4.0, X.shape[1])
    matter = np.isin(LABELS, [1, 4, 8, 14])
    z = (X / X.std(axis=0))[:, matter] @ rng.standard_normal(matter.sum()) + 0.5 + rng.standard_normal(200)
    return X, z, rng.integers(0, 3, 200).astype(float)


def target_of(loss, z):
    return z if loss == "squared" else (z > 0.0).astype(int)


def derivative(loss, z, y):
    if loss == "squared":
        return z - y
    y = 2.0 * y - 1.0
    return -y / (1.0 + np.exp(y * z)) if loss == "logistic" else -y * np.maximum(1.0 - y * z, 0.0)


def violation(selector, X, y, weight, labels):
    """Return by what part of its penalty any group misses the conditions of the optimum."""
    mean = np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    Z, coef = (X - mean) / scale, selector.coef_ * scale
    slope = weight * derivative(selector.loss_, X @ selector.coef_ + selector.intercept_, y)
    worst = abs(slope.sum()) / weight.sum()
    for g in np.unique(labels):
        own = labels == g
        gradient, penalty = Z[:, own].T @ slope, np.sqrt(own.sum()) / selector.C_
        norm = np.linalg.norm(coef[own])
        missed = np.linalg.norm(gradient + penalty * coef[own] / norm) if norm else np.linalg.norm(gradient) - penalty
        worst = max(worst, missed / penalty)
    return worst


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_conditions_of_the_optimum_hold(data, solver, loss):
    X, z, weight = data
    y = target_of(loss, z)
    selector = GroupLasso(C=0.2, solver=solver, loss=loss, feature_groups=LABELS, tol=1e-8, max_iter=20_000)
    selector.fit(X, y, sample_weight=weight)
    assert 1 < len(selector.groups_) < 15
    assert violation(selector, X, y, weight, LABELS) < 1e-5  # FISTA's steps are cut by losses equal to 1e-12


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from(LOSSES), st.floats(0.2, 2.0))
def test_all_solvers_end_at_one_optimum(seed, loss, C):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 12)) + rng.standard_normal((60, 1))
    y = target_of(loss, X[:, 0] - X[:, 5] + rng.standard_normal(60))
    labels = rng.integers(0, 5, 12)
    fits = [
        GroupLasso(C=C, solver=solver, loss=loss, feature_groups=labels, tol=1e-8, max_iter=50_000).fit(X, y)
        for solver in SOLVERS
    ]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.coef_, fits[0].coef_, atol=1e-5)


def test_groups_of_one_column_are_the_lasso(data):
    from sklearn.linear_model import Lasso

    X, z, _ = data
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    found = GroupLasso(C=0.05, loss="squared", tol=1e-9, max_iter=20_000).fit(X, z)
    lasso = Lasso(alpha=1.0 / (200 * 0.05), tol=1e-12, max_iter=100_000).fit(Z, z)
    np.testing.assert_allclose(found.coef_ * X.std(axis=0), lasso.coef_, atol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_skglm_finds_the_same(data, loss):
    skglm = pytest.importorskip("skglm")
    from skglm.datafits import LogisticGroup, QuadraticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD, GroupProxNewton

    X, z, _ = data
    Z, y = np.asfortranarray((X - X.mean(axis=0)) / X.std(axis=0)), z - z.mean()
    y = y if loss == "squared" else np.sign(z)
    sizes = np.bincount(LABELS)
    indices, starts = np.arange(len(LABELS), dtype=np.int32), np.r_[0, np.cumsum(sizes)].astype(np.int32)
    penalty = WeightedGroupL2(1.0 / (200 * 0.2), np.sqrt(sizes), starts, indices)
    datafit = (QuadraticGroup if loss == "squared" else LogisticGroup)(starts, indices)
    solver = (GroupBCD if loss == "squared" else GroupProxNewton)(fit_intercept=True, tol=1e-10, max_iter=1000)
    theirs = skglm.GeneralizedLinearEstimator(datafit, penalty, solver).fit(Z, y).coef_.ravel()
    ours = GroupLasso(C=0.2, loss=loss, feature_groups=LABELS, tol=1e-9, max_iter=20_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_ * X.std(axis=0), theirs, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_overlapping_groups_are_groups_of_copies(data, solver):
    X, z, _ = data
    groups = [[0, 1, 2, 3], [2, 3, 4], [3, 10, 11], *[[j] for j in range(5, 10)], *[[j] for j in range(12, X.shape[1])]]
    options = {"C": 0.03, "loss": "squared", "solver": solver, "tol": 1e-9, "max_iter": 50_000}
    found = GroupLasso(feature_groups=groups, **options).fit(X, z)
    columns, labels = np.concatenate(groups), np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    copied = GroupLasso(feature_groups=labels, **options).fit(X[:, columns], z)
    np.testing.assert_array_equal(np.sort(found.groups_), np.sort(copied.groups_))
    z_found, z_copied = found.predict(X), copied.predict(X[:, columns])
    np.testing.assert_allclose(z_found, z_copied, atol=1e-5)


@pytest.mark.parametrize("method", [GroupLasso, UfoMkl])
@pytest.mark.parametrize("wanted", [1, 4, 9])
def test_as_many_groups_come_as_were_asked_for(data, method, wanted):
    X, z, _ = data
    selector = method(wanted, feature_groups=LABELS).fit(X, z > 0)
    assert len(selector.groups_) == wanted
    np.testing.assert_array_equal(np.sort(selector.selected_), np.flatnonzero(np.isin(LABELS, selector.groups_)))
    assert (np.diff(selector.group_scores_) <= 0.0).all()
    assert [*selector.result_.table["group"].unique()]


@pytest.mark.parametrize("method", [GroupLasso, UfoMkl])
def test_the_true_groups_are_found(data, method):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((800, 100))
    y = X[:, [10, 11, 12, 40, 41]] @ [1.0, -1.0, 1.0, 1.5, 1.0] + rng.standard_normal(800) > 0.0
    selector = method(2, feature_groups=np.arange(100) // 5).fit(X, y)
    assert sorted(selector.groups_) == [2, 8]
    assert selector.score(X, y) > 0.75


def test_ufo_mkl_comes_near_the_group_lasso_with_a_small_ridge(data):
    X, z, _ = data
    y = z > 0.0
    exact = GroupLasso(C=0.2, loss="logistic", feature_groups=LABELS).fit(X, y)
    online = UfoMkl(C=0.2, feature_groups=LABELS, n_epochs=300, ridge=1e-3, random_state=0).fit(X, y)

    def objective(selector):
        margin = np.where(y, 1.0, -1.0) * (X @ selector.coef_ + selector.intercept_)
        norms = [np.linalg.norm((selector.coef_ * X.std(axis=0))[g == LABELS]) for g in range(15)]
        return np.sqrt(np.bincount(LABELS)) @ norms + 0.2 * np.logaddexp(0.0, -margin).sum()

    null = 0.2 * 200 * np.log(2.0)
    assert objective(exact) < objective(online) < objective(exact) + 0.2 * (null - objective(exact))


def test_what_does_not_fit_is_refused():
    with refused(PlanError, "memory-limit", at="memory_limit"):
        GroupLasso(feature_groups=np.arange(10**4) // 10).plan(10**6, 10**4, "float32", 2**30)
