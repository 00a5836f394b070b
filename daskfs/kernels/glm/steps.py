"""The steps of a loss's Lasso path: at each λ minimise, certify, count, and evaluate the criterion."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.blocks.any_columns import enter_columns
from daskfs.kernels.glm.curvatures import update_hessian
from daskfs.kernels.glm.minimise import solve_entered
from daskfs.kernels.glm.newton import estimate_dispersion, mean_loss
from daskfs.kernels.glm.refit import refit_value
from daskfs.kernels.glm.screening import admit, refresh
from daskfs.kernels.glm.state import ENTERED, FREE, KNOWN_HESSIANS
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.lasso.steps import GRID_ENDED, OUT_OF_PATIENCE, RSS_FLOOR, TOO_MANY_FEATURES, rate
from daskfs.kernels.linear.columns import copy_into

TOO_MANY_ENTERED = 3  # as `daskfs.kernels.lasso.steps.TOO_MANY_GRAM_ROWS`: the memory is full
EXACT = 1e-3  # of the tolerance: accuracy of the initial model of a path


@kernel
def hold(X, problem, mean, scale, free, unit, tol, state):  # type: ignore[no-untyped-def]
    """Enter the columns without a penalty and fit them.

    They vary and are linearly independent. `state` is the null model at the start, and the model of the free columns at
    the end.
    """
    n_free = free.shape[0]
    enter_columns(state.columns, X, mean, scale, free, 0)
    for q in range(n_free):
        state.entered[q], state.gradient[q + 1] = free[q], state.reference[free[q]]
    copy_into(state.gradient[: n_free + 1], state.left[: n_free + 1])
    state.counts[ENTERED] = n_free
    state.counts[FREE] = n_free
    update_hessian(problem, True, state)
    solve_entered(problem, 0.0, EXACT * tol * unit, 0.1 * unit, state)
    refresh(X, problem, mean, scale, 0.0, state)


@kernel
def follow(X, problem, mean, scale, lambdas, rule, total, saturated, unit, tol, state):  # type: ignore[no-untyped-def]
    """Return df, deviance, dispersion, GIC, coefficients at each λ; the number of λ, the best, the reason to stop.

    `unit` is the unit of the predictions' noise.
    """
    n_lambdas = lambdas.shape[0]
    df = np.zeros(n_lambdas, np.int64)
    deviance, gic = np.zeros(n_lambdas), np.zeros(n_lambdas)
    coef = np.zeros((n_lambdas, state.coef.shape[0]))
    last_model = -1
    noise = rule.noise if rule.noise > 0.0 else 1.0
    best = -1
    stop = GRID_ENDED
    n_followed = n_lambdas
    if state.counts[KNOWN_HESSIANS] == 0:
        update_hessian(problem, True, state)
    for step in range(n_lambdas):
        if is_stopped():
            break
        while True:
            solve_entered(problem, lambdas[step], tol * unit, 0.1 * unit, state)
            n_added = admit(X, problem, mean, scale, lambdas[step], state)
            if n_added <= 0 or is_stopped():
                break
        n_active, is_new = _take_model(state, last_model)
        if n_added < 0 or n_active > rule.max_df:
            n_followed, stop = step, TOO_MANY_ENTERED if n_added < 0 else TOO_MANY_FEATURES
            break
        if not rule.refit:
            value = mean_loss(problem, state.at.z, state.at)
            for q in range(state.counts[ENTERED] + 1):  # to second order from the predictions
                value -= 0.5 * (state.gradient[q] + state.left[q]) * (state.coef[q] - state.base[q])
            deviance[step] = 2.0 * (total * value - saturated)
        elif is_new:
            value = refit_value(problem, n_active, unit, total, state)
            deviance[step] = 2.0 * (total * value - saturated)
        else:
            deviance[step] = deviance[step - 1]
        last_model = n_active
        df[step] = n_active
        copy_into(state.coef, coef[step])
        if rule.noise <= 0.0:
            at = state.refit_at if rule.refit else state.at
            noise = max(estimate_dispersion(problem, at, total, n_active + 1.0), RSS_FLOOR * unit * unit)
        best, is_over = rate(0, step, df, df, deviance, total, noise, rule, gic)
        if is_over:
            n_followed, stop = step + 1, OUT_OF_PATIENCE
            break
    return df, deviance, gic, coef, n_followed, best, stop, noise


@kernel
def _take_model(state, last_model):  # type: ignore[no-untyped-def]
    """Write the active positions into `state.members`. Return their number, and whether they changed."""
    n_active = 0
    is_new = False
    for q in range(state.counts[ENTERED]):
        if state.coef[q + 1] != 0.0 or q < state.counts[FREE]:
            is_new = is_new or n_active >= last_model or state.members[n_active] != q
            state.members[n_active] = q
            n_active += 1
    return n_active, is_new or n_active != last_model
