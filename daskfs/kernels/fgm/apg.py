"""Accelerated proximal gradient for ½ (Σ_t ‖ω_t‖)² + Σ_i share_i loss(z_i), z = Σ_t X_t ω_t + shift.

Source: Tan, Tsang and Wang (2014), Algorithm 4 with the projection of Algorithm 3 and the caches of section 5.5. A
trial of the line search needs no pass over the columns: V_t = X_t v_t and G_t = X_t g_t are cached for each group, and
the predictions of the trial are Σ_t c_t (V_t - G_t / τ), c_t = o_t / ‖u_t‖. The groups that do not fit in that cache
(the oldest) are merged: their predictions are computed together from the columns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.fgm.grouped_columns import Groups, add_predictions, column_products, group_norms
from daskfs.kernels.fgm.projection import project_norms
from daskfs.kernels.fgm.shift import Rows, dual_variables, fit_shift, total_loss
from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into

SHRINK = 0.6  # factor of τ before each step: the paper's η
MAX_TRIALS = 100
START = 0.01  # initial τ, in units of Σ_i share_i: the paper's L_0 = 0.01 n C


class Descent(NamedTuple):
    """Result of a descent."""

    coef: np.ndarray
    """Coefficients of the members, shape (n_members,)."""
    shift: np.ndarray
    """Shape (n_classes * (1 + n_free),)."""
    objective: float
    tau: float
    """Inverse of the last step's length."""
    n_iter: int


class InnerProducts(NamedTuple):
    """Predictions of the newest groups, each array of shape (n_kept, n_classes * n_samples), float32 or float64."""

    now: np.ndarray
    before: np.ndarray
    slope: np.ndarray


def descend(
    groups: Groups,
    rows: Rows,
    coef: np.ndarray,
    shift: np.ndarray,
    tau: float,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    n_kept: int,
) -> Descent:
    """Minimise from a warm start.

    Parameters
    ----------
    groups : Groups
    rows : Rows
    coef : ndarray of shape (n_members,), float64
        The start; not modified.
    shift : ndarray of shape (n_classes * (1 + n_free),), float64
        For each class, the intercept and the coefficients of the free columns.
    tau : float
        Inverse of the first step's length.
    fit_intercept : bool
    tol : float
        Stop when an iteration lowers the objective by at most this share of it: the paper's (41).
    max_iter : int
    n_kept : int
        Number of groups (the last ones) whose inner products are cached.

    Returns
    -------
    Descent
    """
    n_samples, n_groups = len(rows.y), len(groups.bounds) - 1
    wide = np.float64 if groups.columns.dtype == np.float64 else np.float32
    kept = InnerProducts(*(np.zeros((min(n_kept, n_groups), n_samples), wide) for _ in range(3)))
    noise = 1e-14 if wide is np.float64 else 1e-7
    out = coef.copy()
    end = _descend(groups, rows, kept, out, shift.copy(), float(tau), fit_intercept, tol, max_iter, noise)
    return Descent(out, *end)


@kernel
def _descend(groups, rows, kept, coef, shift, tau, fit_intercept, tol, max_iter, noise):  # type: ignore[no-untyped-def]
    n_groups, n_members, n_samples = groups.bounds.shape[0] - 1, coef.shape[0], rows.y.shape[0]
    coef_before, point, gradient = coef.copy(), np.empty(n_members), np.empty(n_members)
    z, z_before, z_trial, v = np.zeros(n_samples), np.empty(n_samples), np.empty(n_samples), np.empty(n_samples)
    norms, left, factor = np.empty(n_groups), np.empty(n_groups), np.empty(n_groups)
    of_columns = np.empty(groups.columns.shape[0] * groups.n_classes)
    add_predictions(groups, 0, n_members, coef, z)
    copy_into(z, z_before)
    _keep(groups, kept, coef, kept.now)
    for k in range(kept.now.shape[0]):
        copy_into(kept.now[k], kept.before[k])
    group_norms(groups, coef, norms)
    objective = 0.5 * norms.sum() ** 2 + total_loss(rows, z, shift)
    momentum_before, momentum = 1.0, 1.0
    n_iter = 0
    shift_before = shift
    is_plain = True
    while n_iter < max_iter:
        if is_stopped():
            break
        n_iter += 1
        pull = (momentum_before - 1.0) / momentum
        for i in range(n_samples):
            z_trial[i] = z[i] + pull * (z[i] - z_before[i])
        there = shift
        if rows.free.shape[0] > 0:  # columns correlate with free ones, so the shift is extrapolated
            there = shift + pull * (shift - shift_before)
        at_point = total_loss(rows, z_trial, there)
        dual_variables(rows, z_trial, there, v)
        column_products(groups, v, of_columns)
        for m in range(n_members):
            point[m] = coef[m] + pull * (coef[m] - coef_before[m])
            gradient[m] = -of_columns[groups.members[m]]
        _keep(groups, kept, gradient, kept.slope)
        tau = SHRINK * tau
        for _ in range(MAX_TRIALS):
            if is_stopped():
                break
            step = 1.0 / tau
            moved, square = _shrink(groups, point, gradient, step, norms, left, factor)
            _predict_trial(groups, kept, point, gradient, step, pull, factor, z_trial)
            value = total_loss(rows, z_trial, there)
            if value <= at_point + moved + 0.5 * tau * square + noise * abs(at_point):
                break
            tau /= SHRINK
        trial_shift = there
        if fit_intercept or rows.free.shape[0] > 0:
            trial_shift, value = fit_shift(rows, z_trial, there, 1, 1e-14, fit_intercept)
        trial = 0.5 * left.sum() ** 2 + value
        if trial > objective and not is_plain:  # restart at the last point, without momentum
            momentum_before, momentum = 1.0, 1.0
            is_plain = True
            continue
        _accept(groups, kept, point, gradient, step, pull, factor, coef, coef_before)
        for i in range(n_samples):
            z_before[i] = z[i]
            z[i] = z_trial[i]
        shift_before = shift
        shift = trial_shift
        fall = objective - trial
        objective = trial
        if fall <= tol * abs(objective + fall) and (n_iter > 1 or fall <= 0.0):
            break
        momentum_before, momentum = momentum, 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        is_plain = False
    return shift, objective, tau, n_iter


@kernel
def _keep(groups, kept, coef, out):  # type: ignore[no-untyped-def]
    """Write X_t coef_t for the groups whose inner products are cached."""
    n_kept, n_samples = out.shape
    n_groups = groups.bounds.shape[0] - 1
    work = np.empty(n_samples)
    for k in range(n_kept):
        if is_stopped():
            break
        t = n_groups - n_kept + k
        work[:] = 0.0
        add_predictions(groups, groups.bounds[t], groups.bounds[t + 1], coef, work)
        copy_into(work, out[k])


@kernel
def _shrink(groups, point, gradient, step, norms, left, factor):  # type: ignore[no-untyped-def]
    """Project the norms of u = point - step * gradient, and write the factors o_t / ‖u_t‖.

    Return ⟨gradient, S - point⟩ and ‖S - point‖² for the projected point S.
    """
    for t in range(norms.shape[0]):
        total = 0.0
        for m in range(groups.bounds[t], groups.bounds[t + 1]):
            u = point[m] - step * gradient[m]
            total += u * u
        norms[t] = math.sqrt(total)
    project_norms(norms, step, left)
    moved, square = 0.0, 0.0
    for t in range(norms.shape[0]):
        factor[t] = left[t] / norms[t] if left[t] > 0.0 else 0.0
        for m in range(groups.bounds[t], groups.bounds[t + 1]):
            difference = factor[t] * (point[m] - step * gradient[m]) - point[m]
            moved += gradient[m] * difference
            square += difference * difference
    return moved, square


@kernel
def _predict_trial(groups, kept, point, gradient, step, pull, factor, out):  # type: ignore[no-untyped-def]
    """Write Σ_t factor_t (V_t - step G_t): cached groups from their inner products, the others from the columns."""
    out[:] = 0.0
    n_kept = kept.now.shape[0]
    n_merged = factor.shape[0] - n_kept
    if n_merged > 0:
        last = groups.bounds[n_merged]
        coef = np.empty(point.shape[0])
        for t in range(n_merged):
            for m in range(groups.bounds[t], groups.bounds[t + 1]):
                coef[m] = factor[t] * (point[m] - step * gradient[m])
        add_predictions(groups, 0, last, coef, out)
    for k in range(n_kept):
        f = factor[n_merged + k]
        if f > 0.0:
            _add_three(kept.now[k], kept.before[k], kept.slope[k], f * (1.0 + pull), -f * pull, -f * step, out)


@inner_loop
def _add_three(a, b, c, factor_a, factor_b, factor_c, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] += factor_a * a[i] + factor_b * b[i] + factor_c * c[i]


@kernel
def _accept(groups, kept, point, gradient, step, pull, factor, coef, coef_before):  # type: ignore[no-untyped-def]
    """Make the trial the current point, and the current point the previous one."""
    for t in range(factor.shape[0]):
        for m in range(groups.bounds[t], groups.bounds[t + 1]):
            coef_before[m] = coef[m]
            coef[m] = factor[t] * (point[m] - step * gradient[m])
    n_merged = factor.shape[0] - kept.now.shape[0]
    for k in range(kept.now.shape[0]):
        f = factor[n_merged + k]
        _roll(kept.now[k], kept.before[k], kept.slope[k], f * (1.0 + pull), -f * pull, -f * step)


@inner_loop
def _roll(now, before, slope, factor_now, factor_before, factor_slope):  # type: ignore[no-untyped-def]
    for i in range(now.shape[0]):
        moved = factor_now * now[i] + factor_before * before[i] + factor_slope * slope[i]
        before[i] = now[i]
        now[i] = moved
