"""The kernels of FGM against brute force, finite differences and duality."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

from daskfs.kernels.fgm.apg import descend
from daskfs.kernels.fgm.grouped_columns import Groups, add_predictions, column_products
from daskfs.kernels.fgm.mkl import alternate, simple_mkl
from daskfs.kernels.fgm.projection import project_norms
from daskfs.kernels.fgm.scores import GRANULE, scores_of, sparse_scores
from daskfs.kernels.fgm.shift import dual_variables, fit_shift, new_rows
from daskfs.kernels.fgm.topk import largest, merged
from daskfs.losses import find_loss
from daskfs.selectors.fgm.restricted_problem import lower_bound


def brute_force_projection(norms, shrinkage):
    """Try every set of groups that stay; of those that satisfy the optimality conditions there is one."""
    order = np.argsort(-norms)
    best, found = np.inf, None
    for k in range(len(norms) + 1):
        out = np.zeros(len(norms))
        threshold = shrinkage / (1.0 + k * shrinkage) * norms[order[:k]].sum()
        out[order[:k]] = np.maximum(norms[order[:k]] - threshold, 0.0)
        value = 0.5 * ((out - norms) ** 2).sum() + 0.5 * shrinkage * out.sum() ** 2
        if value < best:
            best, found = value, out
    return found


@pytest.mark.parametrize("seed", range(200))
def test_the_projection_is_the_minimum_groups_that_vanish_included(seed):
    rng = np.random.default_rng(seed)
    norms = rng.exponential(size=rng.integers(1, 9)) * rng.choice([0.05, 1.0], size=1)
    if seed % 3 == 0:
        norms[rng.integers(len(norms))] = 0.0
    shrinkage = float(rng.choice([0.01, 0.3, 1.0, 10.0]))
    out = np.empty(len(norms))
    project_norms(norms, shrinkage, out)
    np.testing.assert_allclose(out, brute_force_projection(norms, shrinkage), rtol=1e-12, atol=1e-14)
    # The optimality condition of the quadratic program.
    slope = out - norms + shrinkage * out.sum()
    assert np.abs(slope[out > 0.0]).max(initial=0.0) < 1e-12
    assert slope[out == 0.0].min(initial=0.0) > -1e-12


def test_a_case_in_which_keeping_all_groups_is_wrong():
    norms, out = np.array([1.0, 0.1, 0.9]), np.empty(3)
    project_norms(norms, 1.0, out)
    keeps_all = np.maximum(norms - norms.sum() / 4.0, 0.0)
    np.testing.assert_allclose(out, [1.0 - 1.9 / 3.0, 0.0, 0.9 - 1.9 / 3.0])
    assert np.abs(out - keeps_all).max() > 0.1


def a_problem(loss, dtype=np.float64, seed=0, n_samples=300, n_columns=24, n_groups=6, C=0.1):
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((n_columns, n_samples)).astype(dtype)
    signal = np.where(np.arange(n_columns) < n_columns // 3, rng.standard_normal(n_columns), 0.0) @ columns + 0.7
    y = signal + rng.standard_normal(n_samples)
    if loss != "squared":
        y = np.sign(y)
    centre, inverse = columns.mean(axis=1, dtype=float), 1.0 / columns.std(axis=1, dtype=float)
    bounds = np.linspace(0, n_columns, n_groups + 1).astype(np.int64)
    groups = Groups(columns, centre, inverse, np.arange(n_columns), bounds)
    return groups, new_rows(
        find_loss(loss).code, np.array(y, dtype=float), C * rng.integers(1, 3, n_samples).astype(float)
    )


def gap_of(groups, rows, coef, shift):
    """Objective minus the dual of (31) at the dual variables that belong to the solution, as shares; and these."""
    z = np.zeros(len(rows.y))
    add_predictions(groups, 0, len(coef), coef, z)
    shift, loss = fit_shift(rows, z, shift, 100, 1e-14, True)
    v, products = np.empty(len(z)), np.empty(len(groups.columns) * groups.n_classes)
    dual_variables(rows, z, shift, v)
    column_products(groups, v, products)
    spans = [slice(a, b) for a, b in pairwise(groups.bounds)]
    norms = np.array([np.linalg.norm(coef[span]) for span in spans])
    squares = np.array([(products[groups.members[span]] ** 2).sum() for span in spans])
    conjugate = next(loss.conjugate for loss in map(find_loss, LOSSES) if loss.code == rows.loss)
    objective = 0.5 * norms.sum() ** 2 + loss
    return (objective - lower_bound(rows, v, squares.max(), conjugate)) / objective, v, norms, squares


LOSSES = ["squared_hinge", "logistic", "squared"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_kept", [0, 3, 6])
def test_the_descent_closes_the_duality_gap_of_the_subproblem(loss, n_kept):
    groups, rows = a_problem(loss)
    end = descend(
        groups, rows, np.zeros(24), np.zeros(1), 1.0, fit_intercept=True, tol=1e-15, max_iter=5000, n_kept=n_kept
    )  # fmt: skip
    gap, v, _, _ = gap_of(groups, rows, end.coef, end.shift)
    assert -1e-12 <= gap < 1e-6
    assert abs(v.sum()) < 1e-9 * np.abs(v).sum()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solve", [alternate, simple_mkl])
def test_multiple_kernel_learning_finds_the_same_optimum(loss, solve):
    groups, rows = a_problem(loss)
    end = descend(groups, rows, np.zeros(24), np.zeros(1), 1.0, fit_intercept=True, tol=1e-15, max_iter=5000, n_kept=6)
    start = np.ones(24) if solve is alternate else np.zeros(24)
    other = solve(groups, rows, start, np.zeros(1), fit_intercept=True, tol=1e-9, max_iter=2000)
    assert other.objective == pytest.approx(end.objective, rel=1e-6)
    assert gap_of(groups, rows, other.coef, other.shift)[0] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_active_groups_share_the_largest_norm_and_the_weights_are_their_shares(loss):
    groups, rows = a_problem(loss)
    end = alternate(groups, rows, np.ones(24), np.zeros(1), fit_intercept=True, tol=1e-12, max_iter=3000)
    _, _, norms, squares = gap_of(groups, rows, end.coef, end.shift)
    active = norms > 1e-6 * norms.sum()
    assert 0 < active.sum() < 6
    np.testing.assert_allclose(np.sqrt(squares[active]), norms.sum(), rtol=1e-4)
    assert np.sqrt(squares.max()) <= norms.sum() * (1.0 + 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_problems_that_share_their_columns_are_solved_alike_by_all(loss):
    """A group has each of its columns once for each problem; one problem alone is what it always was."""
    one, rows = a_problem(loss, n_columns=12, n_groups=4)
    targets = np.array([rows.y, rows.y[::-1], -rows.y])
    three = new_rows(rows.loss, targets, rows.share)
    members = (np.arange(12).reshape(4, 1, 3) * 3 + np.arange(3)[:, None]).ravel()
    groups = one._replace(members=members, bounds=3 * one.bounds, n_classes=3)
    z, coef = np.zeros(900), np.random.default_rng(0).standard_normal(36)
    add_predictions(groups, 0, 36, coef, z)
    standardised = (one.columns - one.centre[:, None]) * one.inverse[:, None]
    matrix = coef.reshape(4, 3, 3).transpose(1, 0, 2).reshape(3, 12)
    np.testing.assert_allclose(z.reshape(3, -1), matrix @ standardised, rtol=1e-9, atol=1e-9)
    products = np.empty(36)
    column_products(groups, z, products)
    np.testing.assert_allclose(products.reshape(12, 3), standardised @ z.reshape(3, -1).T, rtol=1e-9, atol=1e-7)
    end = descend(groups, three, np.zeros(36), np.zeros(3), 1.0, fit_intercept=True, tol=1e-15, max_iter=5000, n_kept=2)
    for solve, start in ((alternate, np.ones(36)), (simple_mkl, np.zeros(36))):
        other = solve(groups, three, start, np.zeros(3), fit_intercept=True, tol=1e-9, max_iter=2000)
        assert other.objective == pytest.approx(end.objective, rel=1e-6)
        assert gap_of(groups, three, other.coef, other.shift)[0] < 1e-6


def test_float32_columns_and_merged_groups_give_the_solution_of_float64():
    ends = {}
    for dtype, n_kept in ((np.float64, 6), (np.float32, 6), (np.float32, 2)):
        groups, rows = a_problem("squared_hinge", dtype)
        ends[dtype, n_kept] = descend(
            groups, rows, np.zeros(24), np.zeros(1), 1.0, fit_intercept=True, tol=1e-8, max_iter=500, n_kept=n_kept
        )
    for end in ends.values():
        assert end.objective == pytest.approx(ends[np.float64, 6].objective, rel=1e-5)


def test_without_a_shift_the_optimum_is_scipys():
    groups, rows = a_problem("logistic", n_columns=6, n_groups=6, n_samples=80)
    z = (groups.columns - groups.centre[:, None]) * groups.inverse[:, None]

    def objective(parts):  # positive and negative parts: a smooth problem with bounds
        coef = parts[:6] - parts[6:]
        return 0.5 * parts.sum() ** 2 + rows.share @ np.logaddexp(0.0, -rows.y * (coef @ z))

    best = scipy.optimize.minimize(objective, np.full(12, 0.1), bounds=[(0, None)] * 12, options={"ftol": 1e-14})
    end = descend(groups, rows, np.zeros(6), np.zeros(1), 1.0, fit_intercept=False, tol=1e-14, max_iter=3000, n_kept=6)
    assert end.shift.tolist() == [0.0]
    assert end.objective == pytest.approx(best.fun, rel=1e-7)
    for solve, start in ((alternate, np.ones(6)), (simple_mkl, np.zeros(6))):
        other = solve(groups, rows, start, np.zeros(1), fit_intercept=False, tol=1e-9, max_iter=2000)
        assert other.shift.tolist() == [0.0]
        assert other.objective == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("n_rows", [1, 7, GRANULE - 1, 3 * GRANULE + 13])
def test_scores_are_products_and_do_not_depend_on_how_a_block_is_cut(dtype, n_rows):
    rng = np.random.default_rng(1)
    block = (20 * rng.standard_normal((n_rows, 53))).astype(dtype)
    v = rng.standard_normal(n_rows) * (rng.random(n_rows) > 0.2)
    whole = np.zeros(53)
    scores_of(block, v, whole)
    exact = v @ block.astype(float)
    np.testing.assert_allclose(whole, exact, rtol=1e-11 if dtype == np.float64 else 1e-4, atol=1e-3)
    for columns in (1, 5, 16, 52):
        parts = np.zeros(53)
        for left in range(0, 53, columns):
            for first in range(0, n_rows, GRANULE):
                piece = block[first : first + GRANULE, left : left + columns]
                scores_of(piece, v[first : first + GRANULE], parts[left : left + columns])
        np.testing.assert_array_equal(parts, whole)
    sparse, out = scipy.sparse.csc_array(block), np.empty(53)
    narrow = v.astype(np.float64 if dtype == np.float64 else np.float32)
    sparse_scores(sparse.indptr, sparse.indices, sparse.data, narrow, np.arange(n_rows) // GRANULE, out)
    np.testing.assert_array_equal(out, whole)


def test_rows_that_do_not_lie_together_are_refused():
    with pytest.raises(ValueError, match="lie one after another"):
        scores_of(np.asfortranarray(np.ones((4, 3))), np.ones(4), np.zeros(3))


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_do_not_depend_on_the_cut_and_ties_go_by_number(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, 40).astype(float)  # many ties and zeros
    expected = np.lexsort((np.arange(40), -scores))[:7]
    expected = expected[scores[expected] > 0.0]
    cuts = [0, *sorted(rng.choice(np.arange(1, 40), 4, replace=False)), 40]
    parts = [largest(scores[a:b], a, 7) for a, b in pairwise(cuts)]
    while len(parts) > 1:
        parts = [merged(parts[0], parts[1], 7), *parts[2:]]
    np.testing.assert_array_equal(parts[0][0], expected)
    np.testing.assert_array_equal(parts[0][1], scores[expected])


@pytest.mark.parametrize("loss", LOSSES)
def test_the_shift_is_where_the_dual_variables_add_up_to_nothing(loss):
    _, rows = a_problem(loss)
    z, v = np.linspace(-2.0, 2.0, len(rows.y)), np.empty(len(rows.y))
    shift, value = fit_shift(rows, z, np.zeros(1), 100, 1e-14, True)
    dual_variables(rows, z, shift, v)
    assert abs(v.sum()) <= 1e-10 * rows.share.sum()
    assert value <= min(fit_shift(rows, z, shift + step, 0, 0.0, True)[1] for step in (-1e-3, 1e-3))
