"""The steps of the Lasso path of a loss: at each λ minimise, certify, count and compare by the criterion."""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.blocks.any_columns import extend_hessian_of, without_separated
from daskfs.kernels.glm.newton import SEPARABLE, Problem, estimate_dispersion, hessian_weights, mean_loss, newton
from daskfs.kernels.glm.proximal import solve_entered
from daskfs.kernels.glm.screening import admit
from daskfs.kernels.glm.state import ENTERED, SEPARABLE_REFITS
from daskfs.kernels.lasso.steps import RSS_FLOOR
from daskfs.kernels.linear.columns import copy_into
from daskfs.kernels.numba_cache import is_stopped, kernel
from daskfs.losses import HUBER, SQUARED

FAR = 10.0  # log-odds (or log-means) per standard deviation of a column
REFIT_TOLERANCE = 1e-2  # of the refit's deviance, before its last step is added to second order

GRID_ENDED, OUT_OF_PATIENCE, TOO_MANY_FEATURES, TOO_MANY_ENTERED = range(4)


@kernel
def follow(  # type: ignore[no-untyped-def]
    X, problem, mean, scale, lambdas, penalty, noise, total, saturated, refit, patience, max_features, tol, state
):
    """Return df, deviance, dispersion, GIC and coefficients at each λ, how many were followed, best and why it ended.

    `state.coef[0]` and `state.at` hold the null model, `state.reference` its gradient, when this starts.
    """
    n_lambdas = lambdas.shape[0]
    df = np.zeros(n_lambdas, np.int64)
    deviance, gic = np.zeros(n_lambdas), np.zeros(n_lambdas)
    coef = np.zeros((n_lambdas, state.coef.shape[0]))
    copy_into(state.at.residual, state.reference_residual)
    hessian_weights(problem, state.at, state.weight)
    extend_hessian_of(state.columns, state.identity, 0, 0, state.weight, state.hessian, state.work)
    unit = math.sqrt(estimate_dispersion(problem, state.at, total, 1.0))
    last_model = -1
    scale_of_noise = noise if noise > 0.0 else 1.0
    best = -1
    stop = GRID_ENDED
    n_followed = n_lambdas
    for step in range(n_lambdas):
        if is_stopped():
            break
        while True:
            solve_entered(problem, lambdas[step], tol * unit, 0.1 * unit, state)
            n_added = admit(X, problem, mean, scale, lambdas[step], state)
            if n_added <= 0 or is_stopped():
                break
        n_active, is_new = _take_model(state, last_model)
        if n_added < 0 or n_active > max_features:
            n_followed, stop = step, TOO_MANY_ENTERED if n_added < 0 else TOO_MANY_FEATURES
            break
        if not refit:
            deviance[step] = 2.0 * (total * mean_loss(problem, state.at.z, state.at) - saturated)
        elif is_new:
            value = _refit_value(problem, n_active, unit, total, state)
            deviance[step] = 2.0 * (total * value - saturated)
        else:
            deviance[step] = deviance[step - 1]
        last_model = n_active
        df[step] = n_active
        copy_into(state.coef, coef[step])
        if noise <= 0.0:
            at = state.refit_at if refit else state.at
            scale_of_noise = max(estimate_dispersion(problem, at, total, n_active + 1.0), RSS_FLOOR * unit * unit)
        best = 0
        for earlier in range(step + 1):
            gic[earlier] = deviance[earlier] / scale_of_noise + penalty * df[earlier]
            if gic[earlier] < gic[best]:
                best = earlier
        if patience >= 0 and n_active > df[best] + patience:
            n_followed, stop = step + 1, OUT_OF_PATIENCE
            break
    return df, deviance, gic, coef, n_followed, best, stop, scale_of_noise


@kernel
def _take_model(state, last_model):  # type: ignore[no-untyped-def]
    """Write the active positions into `state.members`; return their number, and whether they changed."""
    n_active = 0
    is_new = False
    for q in range(state.counts[ENTERED]):
        if state.coef[q + 1] != 0.0:
            is_new = is_new or n_active >= last_model or state.members[n_active] != q
            state.members[n_active] = q
            n_active += 1
    return n_active, is_new or n_active != last_model


@kernel
def _refit_value(problem, n_active, unit, total, state):  # type: ignore[no-untyped-def]
    """Return the mean loss of the unpenalised fit of the active features, or what it falls to.

    It starts at the last such fit, unless that went far, where rows told apart without error have no curvature left.
    """
    share = np.empty(problem.share.shape[0])
    members, n_members = without_separated(state.columns, state.members, n_active, problem, share)
    coef = np.empty(n_members + 1)
    coef[0] = state.coef[0]
    is_near = np.abs(state.refitted).max() <= FAR or problem.loss == SQUARED or problem.loss == HUBER
    for q in range(n_members):
        last = state.refitted[members[q]]
        coef[q + 1] = last if last != 0.0 and is_near else state.coef[members[q] + 1]
    tol = REFIT_TOLERANCE * unit / math.sqrt(total)
    hessian, factor = np.empty((n_members + 1, n_members + 1)), np.zeros((n_members + 1, n_members + 1))
    value, status, _ = newton(
        Problem(problem.loss, problem.threshold, problem.y, share), state.columns, members, n_members, 0.0, tol,
        math.inf, coef, state.refit_at, hessian, factor,
    )  # fmt: skip
    if status == SEPARABLE or n_members < n_active:
        state.counts[SEPARABLE_REFITS] += 1
    state.refitted[:] = 0.0
    for q in range(n_members):
        state.refitted[members[q]] = coef[q + 1]
    return value
