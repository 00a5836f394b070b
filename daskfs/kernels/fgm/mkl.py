"""The subproblem as multiple kernel learning: ridge fits of the columns √μ_t X_t, and two ways to find the weights μ.

min over μ of J(μ) = min_u ½ ‖u‖² + Σ_i share_i loss(Σ_t √μ_t X_t u_t + shift), μ >= 0, Σ_t μ_t = 1. Its minimum is that
of ½ (Σ_t ‖ω_t‖)² + Σ_i share_i loss(z_i), with ω_t = √μ_t u_t.

Source: Tan, Tsang and Wang (2014), (29) and Theorem 3. `alternate` sets μ_t to ‖ω_t‖ / Σ_s ‖ω_s‖ (Xu, Jin, Yang, King
and Lyu 2010, "Simple and efficient multiple kernel learning by group lasso", ICML); `simple_mkl` descends along the
reduced gradient of J (Rakotomamonjy, Bach, Canu and Grandvalet 2008, "SimpleMKL", JMLR 9), as the paper's MKL-FGM does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.fgm.grouped_columns import Groups, add_predictions, column_products, group_squares
from daskfs.kernels.fgm.shift import Rows, class_dual, class_loss, of_class
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into, dot, sum_of
from daskfs.kernels.linear.linalg import factorise, solve_cholesky
from daskfs.kernels.linear.weighted_gram import extend_hessian, member_products

MAX_NEWTON = 50
MAX_HALVINGS = 40
NEWTON_TOLERANCE = 1e-20  # limit of the squared step in the norm of the Hessian, as a share of the objective
LEAST_WEIGHT = 1e-12  # weight of a group below which it is dropped


class Weighing(NamedTuple):
    """A solution of the subproblem."""

    coef: np.ndarray
    """Coefficients ω of the members, shape (n_members,)."""
    shift: np.ndarray
    """Shape (n_classes * (1 + n_free),)."""
    objective: float
    n_iter: int
    """Number of ridge fits."""


def mkl_nbytes(n_samples: int, n_members: int) -> int:
    """Return the memory in bytes of a fit in addition to the columns: their copy in double precision, and two Hessians.

    Free columns count as members.
    """
    return 8 * (n_samples * (n_members + 8) + 4 * (n_members + 1) ** 2)


def alternate(
    groups: Groups, rows: Rows, coef: np.ndarray, shift: np.ndarray, *, fit_intercept: bool, tol: float, max_iter: int
) -> Weighing:
    """Solve the subproblem by alternating: a ridge fit for given μ, then μ from the norms of its groups.

    Parameters
    ----------
    groups : Groups
    rows : Rows
    coef : ndarray of shape (n_members,), float64
        The start, which determines μ. Groups of zeros stay out.
    shift : ndarray of shape (n_classes * (1 + n_free),), float64
        For each class, the intercept and the coefficients of the free columns.
    fit_intercept : bool
    tol : float
        Stop at a duality gap of this share of the objective.
    max_iter : int
        Maximum number of ridge fits.

    Returns
    -------
    Weighing
    """
    norms = _norms(groups, coef)
    weights = norms / norms.sum() if norms.any() else np.full(len(norms), 1.0 / len(norms))
    start = _of_columns(groups, coef)
    for n_iter in range(1, max_iter + 1):
        fit = _fit(groups, rows, weights, start, shift, fit_intercept)
        start, shift = fit.of_columns, fit.shift
        coef = _of_members(groups, fit)
        norms = _norms(groups, coef)
        total = norms.sum()
        objective = 0.5 * total**2 + fit.loss
        # Weak duality: the duals of the ridge fit and of the subproblem differ only in the quadratic term.
        dual = fit.value - 0.5 * (fit.squares.max() - float(weights @ fit.squares))
        if total == 0.0 or objective - dual <= tol * abs(objective) or n_iter == max_iter:
            break
        weights = np.where(norms > LEAST_WEIGHT * total, norms / total, 0.0)
    return Weighing(coef, shift, objective, n_iter)


def simple_mkl(
    groups: Groups, rows: Rows, coef: np.ndarray, shift: np.ndarray, *, fit_intercept: bool, tol: float, max_iter: int
) -> Weighing:
    """Solve the subproblem by descent along the reduced gradient in μ; see `alternate` for the parameters.

    Source: SimpleMKL, Algorithm 1: the direction of section 3.3, steps to the end of the simplex as long as they lower
    J, then halvings of the last step.
    """
    norms = _norms(groups, coef)
    n_groups = len(norms)
    weights = norms / norms.sum() if norms.sum() > 0.0 else np.full(n_groups, 1.0 / n_groups)
    weights = 0.5 * weights + 0.5 / n_groups if (weights == 0.0).any() else weights
    fit = _fit(groups, rows, weights, _of_columns(groups, coef), shift, fit_intercept)
    n_iter = 1
    while n_iter < max_iter:
        gap = 0.5 * (fit.squares.max() - float(fit.weights @ fit.squares))
        if gap <= tol * abs(fit.value):
            break
        direction = _reduced_direction(fit.weights, -0.5 * fit.squares)
        if not direction.any():
            break
        better, n_used = _line_search(groups, rows, fit, direction, fit_intercept, max_iter - n_iter)
        n_iter += n_used
        if better is None:
            break
        fit = better
    coef = _of_members(groups, fit)
    return Weighing(coef, fit.shift, 0.5 * _norms(groups, coef).sum() ** 2 + fit.loss, n_iter)


class _RidgeFit(NamedTuple):
    weights: np.ndarray
    """μ, shape (n_groups,)."""
    of_columns: np.ndarray
    """Σ_t ω_t by columns and classes, shape (n_columns * n_classes,)."""
    shift: np.ndarray
    value: float
    """J(μ)."""
    loss: float
    squares: np.ndarray
    """‖X_tᵀ v‖² for every group."""


def _fit(
    groups: Groups, rows: Rows, weights: np.ndarray, start: np.ndarray, shift: np.ndarray, with_shift: bool
) -> _RidgeFit:
    """Fit the columns with positive weight, each once: d_j = Σ_t μ_t over its groups, the paper's (30).

    For given weights, each class is a separate problem.
    """
    d, n_classes = _weights_of_columns(groups, weights), groups.n_classes
    of_columns, products, squares = np.zeros(len(d)), np.empty(len(d)), np.empty(len(weights))
    v, found, value, loss = np.empty(len(rows.y)), shift.copy(), 0.0, 0.0
    for c, v_of_class in enumerate(v.reshape(n_classes, -1)):
        active = c + n_classes * np.flatnonzero(d[c::n_classes] > 0.0)
        root = np.sqrt(d[active])
        some = groups._replace(members=active // n_classes, bounds=np.array([0, len(active)]), n_classes=1)
        u, place = start[active] / root, (c, n_classes)
        own_shift = found.reshape(n_classes, -1)[c]
        own_value, own_loss = _ridge(some, rows, place, root, u, own_shift, with_shift, v_of_class)
        value, loss = value + own_value, loss + own_loss
        of_columns[active] = u * root
    column_products(groups, v, products)
    group_squares(groups, products, squares)
    return _RidgeFit(weights, of_columns, found, value, loss, squares)


def _weights_of_columns(groups: Groups, weights: np.ndarray) -> np.ndarray:
    of_members = np.repeat(weights, np.diff(groups.bounds))
    return np.bincount(groups.members, weights=of_members, minlength=len(groups.columns) * groups.n_classes)


def _of_columns(groups: Groups, coef: np.ndarray) -> np.ndarray:
    return np.bincount(groups.members, weights=coef, minlength=len(groups.columns) * groups.n_classes)


def _of_members(groups: Groups, fit: _RidgeFit) -> np.ndarray:
    """Return ω: a column's coefficient is divided among its groups in proportion to their weights."""
    d = _weights_of_columns(groups, fit.weights)
    each = np.divide(fit.of_columns, d, out=np.zeros(len(d)), where=d > 0.0)
    coef: np.ndarray = each[groups.members] * np.repeat(fit.weights, np.diff(groups.bounds))
    return coef


def _reduced_direction(weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the descent direction within the simplex. The largest weight compensates the changes of the others."""
    reference = int(np.argmax(weights))
    reduced = gradient - gradient[reference]
    direction = np.where((weights <= LEAST_WEIGHT) & (reduced > 0.0), 0.0, -reduced)
    direction[reference] = 0.0
    direction[reference] = -direction.sum()
    return direction


def _line_search(
    groups: Groups, rows: Rows, fit: _RidgeFit, direction: np.ndarray, with_shift: bool, n_left: int
) -> tuple[_RidgeFit | None, int]:
    """Return the fit at the end of the step (None if none is lower), and the number of ridge fits."""
    falling = direction < 0.0
    longest = float(np.min(fit.weights[falling] / -direction[falling])) if falling.any() else 1.0
    best, n_used, step = None, 0, longest
    for _ in range(MAX_HALVINGS):
        if n_used >= n_left:
            break
        moved = np.maximum(fit.weights + step * direction, 0.0)
        moved /= moved.sum()
        trial = _fit(groups, rows, moved, fit.of_columns, fit.shift, with_shift)
        n_used += 1
        if best is not None and trial.value >= best.value:
            break
        if trial.value < fit.value:
            best = trial
        step *= 0.5
    return best, n_used


def _norms(groups: Groups, coef: np.ndarray) -> np.ndarray:
    return np.sqrt(np.add.reduceat(coef * coef, groups.bounds[:-1]))


@kernel
def _ridge(groups, all_rows, place, root, u, shift, with_shift, v):  # type: ignore[no-untyped-def]
    """Minimise ½ ‖u‖² + Σ_i share_i loss(z_i) for one class by Newton's method, in place. Return value and loss.

    `shift` moves with `u`, without a penalty. `v` returns the dual variables. Unlike in
    `daskfs.kernels.glm.newton.newton`, a step is halved by the value, because the squared hinge's curvature jumps; and
    the ridge keeps every Hessian regular.
    """
    rows = of_class(all_rows, place[0], place[1])
    n_members, n_samples, n_free = u.shape[0], rows.y.shape[0], rows.free.shape[0]
    first, n_columns = n_free + 1, n_free + n_members  # members follow the free columns
    n = n_columns + 1
    columns = np.zeros((n_columns, n_samples))
    for k in range(n_free):
        copy_into(rows.free[k], columns[k])
    for m in range(n_members):
        if is_stopped():
            break
        p = groups.members[m]
        factor = root[m] * groups.inverse[p]
        for i in range(n_samples):
            columns[n_free + m, i] = (groups.columns[p, i] - groups.centre[p]) * factor
    numbers = np.arange(n_columns)
    z, work = np.zeros(n_samples), np.empty(n_samples)
    gradient, step, moved, moved_shift = np.zeros(n), np.zeros(n), np.empty(n_members), np.empty(first)
    hessian, chol = np.zeros((n, n)), np.zeros((n, n))
    for m in range(n_members):
        moved[m] = u[m] * root[m]
    add_predictions(groups, 0, n_members, moved, z)
    loss = class_loss(rows, z, shift)
    value = loss + 0.5 * dot(u, u)
    for _ in range(MAX_NEWTON):
        if is_stopped():
            break
        class_dual(rows, z, shift, v)
        gradient[0] = sum_of(v) if with_shift else 0.0
        member_products(columns, numbers, n_columns, v, gradient)
        extend_hessian(columns, numbers, n_columns, 0, rows.second, hessian, work)
        for m in range(n_members):
            gradient[first + m] -= u[m]
            hessian[first + m, first + m] += 1.0
        if not with_shift or hessian[0, 0] <= 0.0:
            hessian[0, :] = 0.0
            hessian[:, 0] = 0.0
            hessian[0, 0] = 1.0
        factorise(hessian, n, 0.0, chol)
        square = solve_cholesky(chol, n, gradient, step)
        length, is_lower = 1.0, False
        for _ in range(MAX_HALVINGS):
            if is_stopped():
                break
            for m in range(n_members):
                moved[m] = (u[m] + length * step[first + m]) * root[m]
            for k in range(first):
                moved_shift[k] = shift[k] + length * step[k]
            z[:] = 0.0
            add_predictions(groups, 0, n_members, moved, z)
            trial_loss = class_loss(rows, z, moved_shift)
            trial = trial_loss
            for m in range(n_members):
                trial += 0.5 * (u[m] + length * step[first + m]) ** 2
            if trial <= value - 1e-4 * length * square:
                is_lower = True
                break
            length *= 0.5
        if not is_lower:  # limit of floating-point precision
            break
        for m in range(n_members):
            u[m] += length * step[first + m]
        copy_into(moved_shift, shift)
        value, loss = trial, trial_loss
        if square <= NEWTON_TOLERANCE * abs(value):
            break
    for m in range(n_members):
        moved[m] = u[m] * root[m]
    z[:] = 0.0
    add_predictions(groups, 0, n_members, moved, z)
    class_dual(rows, z, shift, v)
    return value, loss
