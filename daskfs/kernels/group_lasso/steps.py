"""The steps of a group Lasso path: at each λ minimise, certify, count, and evaluate the criterion.

The squared loss needs only the correlations of the entered columns; its refits use their Cholesky factors. Other losses
take proximal Newton steps with a Hessian that is kept while the steps shrink.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.blocks.any_columns import add_columns, make_hessian_of
from daskfs.kernels.glm.newton import (
    SEPARABLE,
    advance,
    estimate_dispersion,
    hessian_weights,
    mean_loss,
    newton_from,
)
from daskfs.kernels.group_lasso.descent import descend, reach_of_groups
from daskfs.kernels.group_lasso.screening import admit, enter, refresh
from daskfs.kernels.group_lasso.state import ENTERED, FACTORED, KNOWN, POSITIONS, SEPARABLE_REFITS, UNSOLVED
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.lasso.steps import GRID_ENDED, OUT_OF_PATIENCE, RSS_FLOOR, TOO_MANY_FEATURES, rate
from daskfs.kernels.linear.columns import copy_into, dot, largest_size
from daskfs.kernels.linear.linalg import extend_cholesky, forward_substitution

TOO_MANY_ENTERED = 3  # as `daskfs.kernels.lasso.steps.TOO_MANY_GRAM_ROWS`: the memory is full
MAX_NEWTON_STEPS = 100
SLOWEST = 0.3  # ratio to the step before: a slower decrease requests the Hessian at the current point
EXACT = 1e-9  # squared loss: in standard deviations of the target
FAR = 10.0  # log-odds (or log-means) per standard deviation of a column
REFIT_TOLERANCE = 1e-2  # of the refit's deviance, before its last step is added to second order
SIMILAR = 0.2  # change of the weights, as a share of them, up to which a refit uses an earlier Hessian


@kernel
def begin(X, problem, y_variance, mean, scale, groups, free, total, tol, state):  # type: ignore[no-untyped-def]
    """Enter the groups without a penalty, whose price is 0, and fit them. `state` becomes that model.

    The fit uses a λ so large that no group with a price enters. If all correlations are known, all groups have entered.
    """
    is_squared, lam = problem.loss.is_quadratic, 2.0 * math.sqrt(y_variance)
    is_whole = state.columns.shape[0] == 0
    if not is_whole:
        for g in free:
            if groups.rank[g] > 0:
                enter(X, mean, scale, groups, g, state)
    if is_squared:
        _solve_squares(problem, lam, EXACT * math.sqrt(y_variance), state)
    else:
        unit = math.sqrt(estimate_dispersion(problem, state.at, total, 1.0))
        copy_into(state.gradient, state.left)
        _solve(problem, lam, 1e-3 * tol * unit, state)
    if is_whole:
        for e in range(state.counts[ENTERED]):
            size = _norm(state.left, state.starts[e] + 1, state.starts[e + 1] + 1)
            state.reference_size[state.entered[e]] = size
    else:
        refresh(X, problem.share, mean, scale, groups, 0.0, state)


@kernel
def follow(X, problem, y_variance, mean, scale, groups, lambdas, rule, total, saturated, tol, state):  # type: ignore[no-untyped-def]
    """Return df, fit, GIC and coefficients at each λ, the number of λ, best, reason of the end, and dispersion.

    `fit` is the mean squared residual, or the deviance. At the start, the state holds the null model and its gradients.
    If all correlations are known, all groups have entered, and no row is read.
    """
    n_lambdas, is_squared = lambdas.shape[0], problem.loss.is_quadratic
    df, fit, gic = np.zeros(n_lambdas), np.zeros(n_lambdas), np.zeros(n_lambdas)
    n_groups = np.zeros(n_lambdas, np.int64)
    coef = np.zeros((n_lambdas, state.coef.shape[0]))
    unit = math.sqrt(y_variance) if is_squared else math.sqrt(estimate_dispersion(problem, state.at, total, 1.0))
    noise = rule.noise if rule.noise > 0.0 else 1.0
    n_active, rank, best, stop, n_followed = 0, 0, -1, GRID_ENDED, n_lambdas
    for step in range(n_lambdas):
        if is_stopped():
            break
        while True:
            if is_squared:
                _solve_squares(problem, lambdas[step], EXACT * unit, state)
            else:
                _solve(problem, lambdas[step], tol * unit, state)
            n_added = admit(X, problem.share, mean, scale, groups, lambdas[step], state)
            if n_added <= 0 or is_stopped():
                break
        last_model = state.active[:n_active].copy()
        n_active, rank = _take_model(state)
        if n_added < 0 or rank > rule.max_df:
            n_followed, stop = step, TOO_MANY_ENTERED if n_added < 0 else TOO_MANY_FEATURES
            break
        is_new = step == 0 or not _are_same(last_model, state.active[:n_active])
        df[step] = rank if rule.refit else _shrunk_df(n_active, state)
        n_groups[step] = n_active
        if rule.refit and not is_new:
            fit[step] = fit[step - 1]
        elif is_squared:
            explained = _explained(n_active, rank, state) if rule.refit else _explained_shrunk(state)
            fit[step] = max(y_variance - explained, RSS_FLOOR * y_variance)
        else:
            value = mean_loss(problem, state.at.z, state.at)
            if rule.refit:
                value = _refit_value(problem, n_active, rank, unit, total, state)
            fit[step] = 2.0 * (total * value - saturated)
        copy_into(state.coef, coef[step])
        if not is_squared and rule.noise <= 0.0:
            at = state.refit_at if rule.refit else state.at
            noise = max(estimate_dispersion(problem, at, total, rank + 1.0), RSS_FLOOR * unit * unit)
        in_fit = rule.noise / total if is_squared else noise
        best, is_over = rate(0, step, df, n_groups, fit, total, in_fit, rule, gic)
        if is_over:
            n_followed, stop = step + 1, OUT_OF_PATIENCE
            break
    return df, fit, gic, coef, n_followed, best, stop, noise


@kernel
def _solve_squares(problem, lam, tol, state):  # type: ignore[no-untyped-def]
    """Minimise over the entered groups by their correlations, and update the residuals."""
    n = state.counts[POSITIONS] + 1
    if state.counts[KNOWN] < n:
        known = max(state.counts[KNOWN], 1)
        copy_into(problem.share, state.weight)
        _extend_hessian(state)
        state.hessian[0, 0] = 0.0  # columns are centred: the intercept does not change
        for q in range(known, n):
            state.left[q] = state.null_gradient[q] - dot(state.hessian[q, 1:n], state.coef[1:n])
    is_settled = descend(
        state.hessian, state.starts, state.counts[ENTERED], state.prices, state.reach, state.left[:n], state.coef, lam,
        tol,
    )  # fmt: skip
    state.counts[UNSOLVED] += not is_settled
    z, residual = state.at.z, state.at.residual
    if z.shape[0] > 0:
        z[:] = state.coef[0]
        add_columns(state.columns, state.identity, n - 1, state.coef, 1.0, z)
        for i in range(z.shape[0]):
            residual[i] = problem.share[i] * (problem.y[i] - z[i])


@kernel
def _extend_hessian(state):  # type: ignore[no-untyped-def]
    """Write the rows of groups that entered since, with the weights of the existing Hessian."""
    n, known = state.counts[POSITIONS] + 1, state.counts[KNOWN]
    make_hessian_of(state.columns, state.identity, n - 1, known, state.weight, state.hessian, state.work)
    state.counts[KNOWN] = n
    first = 0
    while first < state.counts[ENTERED] and state.starts[first] + 1 < known:
        first += 1
    reach_of_groups(state.hessian, state.starts, state.counts[ENTERED], first, state.reach)


@kernel
def _renew_hessian(problem, state):  # type: ignore[no-untyped-def]
    n = state.counts[POSITIONS] + 1
    hessian_weights(problem, state.at, state.weight)
    make_hessian_of(state.columns, state.identity, n - 1, 0, state.weight, state.hessian, state.work)
    state.counts[KNOWN] = n
    reach_of_groups(state.hessian, state.starts, state.counts[ENTERED], 0, state.reach)


@kernel
def _solve(problem, lam, tol, state):  # type: ignore[no-untyped-def]
    """Minimise over the entered groups by proximal Newton steps, until one is shorter than `tol`."""
    n, n_entered = state.counts[POSITIONS] + 1, state.counts[ENTERED]
    if n == 1:
        return
    coef, base, gradient, left = state.coef[:n], state.base[:n], state.gradient[:n], state.left[:n]
    step = np.zeros(n)
    if state.counts[KNOWN] == 0:
        _renew_hessian(problem, state)
    elif state.counts[KNOWN] < n:
        _extend_hessian(state)
    value, last = mean_loss(problem, state.at.z, state.at) + lam * _norms(coef, n_entered, state), math.inf
    is_stale = False
    for _ in range(MAX_NEWTON_STEPS):
        if is_stopped():
            break
        if is_stale:
            _renew_hessian(problem, state)
        copy_into(gradient, left)
        is_settled = descend(
            state.hessian, state.starts, n_entered, state.prices, state.reach, left, coef, lam, 0.1 * tol
        )
        square = 0.0
        for q in range(n):
            step[q] = coef[q] - base[q]
            square += step[q] * (gradient[q] - left[q])
        size, length = math.sqrt(max(square, 0.0)), 1.0
        if size == 0.0:
            state.counts[UNSOLVED] += not is_settled
            return
        advance(problem, state.columns, state.identity, n - 1, step, 1.0, state.at, gradient)
        found = mean_loss(problem, state.at.z, state.at) + lam * _norms(coef, n_entered, state)
        while not found <= value + 1e-13 * abs(value) and length > 1e-6 and size > tol:
            advance(problem, state.columns, state.identity, n - 1, step, -0.5 * length, state.at, gradient)
            length *= 0.5
            for q in range(n):
                coef[q] = base[q] + length * step[q]
            found = mean_loss(problem, state.at.z, state.at) + lam * _norms(coef, n_entered, state)
        value = found
        copy_into(coef, base)
        if size <= tol and is_settled:
            copy_into(gradient, left)
            return
        is_stale = length < 1.0 or size > SLOWEST * last
        last = size
    state.counts[UNSOLVED] += 1


@kernel
def _norms(coef, n_entered, state):  # type: ignore[no-untyped-def]
    total = 0.0
    for e in range(n_entered):
        total += state.prices[e] * _norm(coef, state.starts[e] + 1, state.starts[e + 1] + 1)
    return total


@kernel
def _norm(vector, first, stop):  # type: ignore[no-untyped-def]
    square = 0.0
    for q in range(first, stop):
        square += vector[q] * vector[q]
    return math.sqrt(square)


@kernel
def _take_model(state):  # type: ignore[no-untyped-def]
    """Write the groups with nonzero coefficients into `state.active`. Return their number and degrees of freedom."""
    n_active, rank = 0, 0
    for e in range(state.counts[ENTERED]):
        if _norm(state.coef, state.starts[e] + 1, state.starts[e + 1] + 1) > 0.0:
            state.active[n_active] = e
            n_active += 1
            rank += state.starts[e + 1] - state.starts[e]
    return n_active, rank


@kernel
def _are_same(a, b):  # type: ignore[no-untyped-def]
    n_equal = 0
    for k in range(min(a.shape[0], b.shape[0])):
        n_equal += a[k] == b[k]
    return n_equal == a.shape[0] == b.shape[0]


@kernel
def _take_members(n_active, rank, state):  # type: ignore[no-untyped-def]
    """Write the columns of the model into `state.members`. Return how many of the first are factored already."""
    members, n, n_kept = state.members, 0, min(state.counts[FACTORED], rank)
    for a in range(n_active):
        for q in range(state.starts[state.active[a]], state.starts[state.active[a] + 1]):
            if members[n] != q:
                n_kept = min(n_kept, n)
            members[n] = q
            n += 1
    return n_kept


@kernel
def _shrunk_df(n_active, state):  # type: ignore[no-untyped-def]
    """Return the degrees of freedom of the shrunk fit: for each group, 1 + (rank - 1) ‖b‖ / ‖b unpenalised‖.

    Yuan and Lin (2006), "Model selection and estimation in regression with grouped variables", Journal of the Royal
    Statistical Society B 68, equation (5.8).
    """
    total = 0.0
    for a in range(n_active):
        e = state.active[a]
        first, stop = state.starts[e] + 1, state.starts[e + 1] + 1
        free = np.empty(stop - first)
        for q in range(first, stop):
            free[q - first] = state.coef[q] + state.left[q] / state.reach[e]
        size = _norm(state.coef, first, stop)
        total += 1.0 + (stop - first - 1.0) * size / max(_norm(free, 0, stop - first), size)
    return total


@kernel
def _explained(n_active, rank, state):  # type: ignore[no-untyped-def]
    """Return the share of the target's variance explained by least squares on the columns of the model."""
    n_kept, right, positions = _take_members(n_active, rank, state), np.empty(rank), np.empty(rank, np.int64)
    for q in range(rank):
        positions[q] = state.members[q] + 1
        right[q] = state.null_gradient[positions[q]]
    extend_cholesky(state.hessian, positions, rank, n_kept, state.refit_factor)
    state.counts[FACTORED] = rank
    return forward_substitution(state.refit_factor, rank, right, np.empty(rank))


@kernel
def _explained_shrunk(state):  # type: ignore[no-untyped-def]
    total = 0.0
    for q in range(1, state.counts[POSITIONS] + 1):
        total += state.coef[q] * (state.null_gradient[q] + state.left[q])
    return total


@kernel
def _refit_value(problem, n_active, rank, unit, total, state):  # type: ignore[no-untyped-def]
    """Return the mean loss of the unpenalised fit of the model's columns, or its infimum.

    It starts at the last such fit, unless that one went far: perfectly classified rows have no curvature left there.
    The Hessian of that fit is extended by the new columns if its weights are still similar.
    """
    n_kept, members, refitted, at = _take_members(n_active, rank, state), state.members, state.refitted, state.refit_at
    hessian, factor, weight = state.refit_hessian, state.refit_factor, state.refit_weight
    is_near = largest_size(refitted) <= FAR or not problem.loss.can_separate
    coef, gradient, step = np.empty(rank + 1), np.zeros(rank + 1), np.zeros(rank + 1)
    coef[0] = refitted[0] if is_near and refitted[0] != 0.0 else state.coef[0]
    for q in range(rank):
        known = refitted[members[q] + 1]
        coef[q + 1] = known if is_near and known != 0.0 else state.coef[members[q] + 1]
    at.z[:] = 0.0
    advance(problem, state.columns, members, rank, coef, 1.0, at, gradient)
    is_stale = n_kept == 0 or not is_near or not _are_similar(problem, weight, state)
    if not is_stale:
        make_hessian_of(state.columns, members, rank, n_kept + 1, weight, hessian, state.work)
        is_stale = extend_cholesky(hessian, state.identity, rank + 1, n_kept + 1, factor) < rank + 1
    value, status, _ = newton_from(
        problem, state.columns, members, rank, 0.0, REFIT_TOLERANCE * unit / math.sqrt(total), math.inf, coef, at,
        gradient, step, weight, hessian, factor, is_stale,
    )  # fmt: skip
    state.counts[FACTORED] = 0 if status == SEPARABLE else rank
    state.counts[SEPARABLE_REFITS] += status == SEPARABLE
    refitted[:] = 0.0
    refitted[0] = coef[0]
    for q in range(rank):
        refitted[members[q] + 1] = coef[q + 1]
    return value


@kernel
def _are_similar(problem, weight, state):  # type: ignore[no-untyped-def]
    """Return whether weights of a Hessian are close to those of the refit's predictions."""
    current, whole, change = state.work, 0.0, 0.0
    hessian_weights(problem, state.refit_at, current)
    for i in range(current.shape[0]):
        whole += current[i]
        change += abs(current[i] - weight[i])
    return change <= SIMILAR * whole
