"""The steps of the Lasso path of a loss: descend over the entered features, certify all columns, enter the violators.

Everything is in units of the standardised columns; see `daskfs.kernels.glm_path`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.columns import add_multiple, copy_columns, dot, products_with_columns
from daskfs.kernels.linalg import MIN_PIVOT
from daskfs.kernels.newton import (
    OVERSHOT,
    SEPARABLE,
    Predictions,
    advance,
    dispersion,
    extend_hessian,
    hessian_weights,
    mean_loss,
    new_predictions,
    newton,
)
from daskfs.kernels.numba_cache import kernel

BATCH = 16  # features entered at once, at most
NEAR = 32  # columns copied although not entered: their gradients come near λ
DIRECTIONS = 4  # in which gradients are foretold
OPTIMALITY = 1.0 + 1e-9  # |gradient| may exceed λ by rounding only
MAX_NEWTON_STEPS = 200
MAX_SWEEPS = 2000
REFIT_TOLERANCE = 1e-2  # of the refit's deviance, before its last step is added to second order

GRID_ENDED, OUT_OF_PATIENCE, TOO_MANY_FEATURES, TOO_MANY_ENTERED = range(4)
ENTERED, NEARBY, PASSES, SEPARABLE_REFITS, NEWTON_STEPS, HESSIANS, KNOWN = range(7)  # of GlmState.counts


class GlmState(NamedTuple):
    """What the steps of one path share."""

    columns: np.ndarray  # (capacity, n) standardised copies of the entered features
    near: np.ndarray  # (NEAR, n) of columns not entered
    near_slot: np.ndarray  # (p,) feature -> row of `near`, or -1
    is_settled: np.ndarray  # (p,) entered, or the twin of one that is
    entered: np.ndarray  # (capacity,) features in order of entry
    identity: np.ndarray  # (capacity,) 0, 1, 2 ...: all entered features as members
    reference: np.ndarray  # (p,) gradient of every column at the reference residual
    reference_residual: np.ndarray  # (n,)
    directions: np.ndarray  # (DIRECTIONS, n) orthonormal, that the residuals went between references; over the shares
    images: np.ndarray  # (DIRECTIONS, p) products of the columns with the directions
    predicted: np.ndarray  # (p,) gradient as far as reference and images tell
    at: Predictions
    weight: np.ndarray  # (n,) of which `hessian` is made
    work: np.ndarray  # (n,)
    hessian: np.ndarray  # (capacity + 1, capacity + 1) position 0 is the intercept
    coef: np.ndarray  # (capacity + 1,)
    gradient: np.ndarray  # (capacity + 1,)
    refit_at: Predictions
    members: np.ndarray  # (capacity,) positions of the features in the model that was refitted last
    refitted: np.ndarray  # (capacity,) coefficients of that refit
    counts: np.ndarray  # (7,)


def new_state(n_samples: int, n_features: int, capacity: int) -> GlmState:
    """Return the state before the first step, with room for `capacity` entered features."""
    return GlmState(
        columns=np.empty((capacity, n_samples)),  # pages are touched only as columns are copied
        near=np.empty((min(NEAR, n_features), n_samples)),
        near_slot=np.full(n_features, -1, dtype=np.int64),
        is_settled=np.zeros(n_features, dtype=np.bool_),
        entered=np.zeros(capacity, dtype=np.int64),
        identity=np.arange(capacity),
        reference=np.zeros(n_features),
        reference_residual=np.zeros(n_samples),
        directions=np.empty((DIRECTIONS, n_samples)),
        images=np.empty((DIRECTIONS, n_features)),
        predicted=np.zeros(n_features),
        at=new_predictions(n_samples),
        weight=np.zeros(n_samples),
        work=np.zeros(n_samples),
        hessian=np.zeros((capacity + 1, capacity + 1)),
        coef=np.zeros(capacity + 1),
        gradient=np.zeros(capacity + 1),
        refit_at=new_predictions(n_samples),
        members=np.full(capacity, -1, dtype=np.int64),
        refitted=np.zeros(capacity),
        counts=np.zeros(7, dtype=np.int64),
    )


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
    state.reference_residual[:] = state.at.residual
    hessian_weights(problem, state.at, state.weight)
    extend_hessian(state.columns, state.identity, 0, 0, state.weight, state.hessian, state.work)
    unit = math.sqrt(dispersion(problem, state.at, total, 1.0))
    last_model = -1
    scale_of_noise = noise if noise > 0.0 else 1.0
    best = -1
    stop = GRID_ENDED
    n_followed = n_lambdas
    for step in range(n_lambdas):
        while True:
            _solve_entered(problem, lambdas[step], tol * unit, 0.1 * unit, state)
            n_added = _admit(X, problem, mean, scale, lambdas[step], state)
            if n_added <= 0:
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
        coef[step] = state.coef
        if noise <= 0.0:
            at = state.refit_at if refit else state.at
            scale_of_noise = dispersion(problem, at, total, n_active + 1.0)
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
    """Return the mean loss of the unpenalised fit of the active features, started at the last such fit."""
    coef = np.empty(n_active + 1)
    coef[0] = state.coef[0]
    for q in range(n_active):
        last = state.refitted[state.members[q]]
        coef[q + 1] = last if last != 0.0 else state.coef[state.members[q] + 1]
    tol = REFIT_TOLERANCE * unit / math.sqrt(total)
    hessian, factor = np.empty((n_active + 1, n_active + 1)), np.zeros((n_active + 1, n_active + 1))
    value, status, _ = newton(
        problem, state.columns, state.members, n_active, 0.0, tol, math.inf, coef, state.refit_at, hessian, factor
    )
    if status == SEPARABLE:
        state.counts[SEPARABLE_REFITS] += 1
    state.refitted[:] = 0.0
    for q in range(n_active):
        state.refitted[state.members[q]] = coef[q + 1]
    return value


@kernel
def descend(hessian, n, gradient, coef, lam, tol, step):  # type: ignore[no-untyped-def]
    """Minimise ½ d'Hd - gradient'd + λ Σ |coef + d| over d, the first position free; write d, return its largest part.

    `gradient` is overwritten by what is left of it. Parts are measured in the norm of the Hessian's diagonal.
    """
    step[:n] = 0.0
    for _ in range(MAX_SWEEPS):
        largest = 0.0
        for q in range(n):
            curvature = hessian[q, q]
            if curvature <= 0.0:
                continue
            old = coef[q] + step[q]
            new = old + gradient[q] / curvature
            if q > 0:
                excess = abs(new) - lam / curvature
                new = math.copysign(excess, new) if excess > 0.0 else 0.0
            move = new - old
            if move != 0.0:
                step[q] += move
                row = hessian[q]
                for r in range(n):
                    gradient[r] -= move * row[r]
                largest = max(largest, abs(move) * math.sqrt(curvature))
        if largest <= tol:
            break
    largest = 0.0
    for q in range(n):
        largest = max(largest, abs(step[q]) * math.sqrt(max(hessian[q, q], 0.0)))
    return largest


@kernel
def _solve_entered(problem, lam, tol, far, state):  # type: ignore[no-untyped-def]
    """Minimise over the entered features by proximal Newton steps.

    The Hessian is a stale one, corrected after each step by what the gradients say of it (BFGS), and made anew only
    where steps do not shrink or the first goes `far`.
    """
    n_entered = state.counts[ENTERED]
    if n_entered == 0:
        return
    n = n_entered + 1
    gradient, coef, hessian = state.gradient, state.coef, state.hessian
    step, before = np.empty(n), np.empty(n)
    last = math.inf
    for iteration in range(MAX_NEWTON_STEPS):
        before[:] = gradient[:n]
        size = descend(hessian, n, gradient[:n], coef, lam, 0.1 * tol, step)
        if size <= 0.1 * tol:
            gradient[:n] = before
            return
        slope = _slope(before, coef, step, 0.0, lam)
        advance(problem, state.columns, state.identity, n_entered, step, 1.0, state.at, gradient)
        state.counts[NEWTON_STEPS] += 1
        share = 1.0
        for _ in range(60):
            turned = _slope(gradient, coef, step, share, lam)
            if turned <= -OVERSHOT * slope:
                break
            shorter = share * min(0.5, max(0.1, slope / (slope - turned)))
            advance(problem, state.columns, state.identity, n_entered, step, shorter - share, state.at, gradient)
            share = shorter
        for q in range(n):
            new = coef[q] + step[q]
            coef[q] = new if share == 1.0 else coef[q] + share * step[q]
        if size * share <= tol and share == 1.0:
            return
        if share < 1.0 or size > 0.3 * last or (iteration == 0 and size > far):
            hessian_weights(problem, state.at, state.weight)
            extend_hessian(state.columns, state.identity, n_entered, 0, state.weight, hessian, state.work)
            state.counts[HESSIANS] += 1
        else:
            _correct(hessian, n, step, before, gradient)
        last = size


@kernel
def _slope(gradient, coef, step, share, lam):  # type: ignore[no-untyped-def]
    """Return the slope of the objective along `step` at ``coef + share * step``, from the left where it has a kink."""
    slope = -gradient[0] * step[0]
    for q in range(1, step.shape[0]):
        if step[q] != 0.0:
            here = coef[q] + share * step[q]
            sign = math.copysign(1.0, here)
            if share == 0.0 and here == 0.0:
                sign = math.copysign(1.0, step[q])
            elif here == 0.0:
                sign = -math.copysign(1.0, step[q])
            slope += (lam * sign - gradient[q]) * step[q]
    return slope


@kernel
def _correct(hessian, n, step, before, gradient):  # type: ignore[no-untyped-def]
    """Make the Hessian agree with the change of the gradient over a step: the BFGS update."""
    change, expected = np.empty(n), np.empty(n)
    found, foreseen = 0.0, 0.0
    for a in range(n):
        row = hessian[a]
        product = 0.0
        for b in range(n):
            product += row[b] * step[b]
        expected[a] = product
        change[a] = before[a] - gradient[a]
        foreseen += step[a] * product
        found += step[a] * change[a]
    if found > 0.2 * foreseen and found < 5.0 * foreseen and foreseen > 1e-280:
        for a in range(n):
            row, change_a, expected_a = hessian[a], change[a] / found, expected[a] / foreseen
            for b in range(n):
                row[b] += change_a * change[b] - expected_a * expected[b]


@kernel
def _admit(X, problem, mean, scale, lam, state):  # type: ignore[no-untyped-def]
    """Settle the largest violators of |gradient| <= λ; return how many, or -1 where there is no room for them.

    The residuals have moved from the reference, mostly in directions they have taken before, for which the change of
    every gradient is known. By Cauchy and Schwarz a gradient cannot change by more than the length of what is left.
    Most columns are certified by that alone, and the others looked at.
    """
    at, limit = state.at, lam * OPTIMALITY
    left = _predict(problem, state)
    reach = limit - left
    n_features = scale.shape[0]
    doubtful = np.empty(n_features, np.int64)
    n_doubtful, n_unknown = 0, 0
    for j in range(n_features):
        if abs(state.predicted[j]) > reach and scale[j] > 0.0 and not state.is_settled[j]:
            doubtful[n_doubtful] = j
            n_doubtful += 1
            if state.near_slot[j] < 0:
                n_unknown += 1
    sizes = np.empty(n_doubtful)
    if n_unknown * 4 > n_features or n_unknown > state.near.shape[0] - state.counts[NEARBY]:
        _refresh(X, problem, mean, scale, left, state)
        for d in range(n_doubtful):
            sizes[d] = state.reference[doubtful[d]]
    else:
        _copy_near(X, mean, scale, doubtful[:n_doubtful], state)
        for d in range(n_doubtful):
            sizes[d] = dot(state.near[state.near_slot[doubtful[d]]], at.residual)
    violators = _largest(doubtful[:n_doubtful], sizes, limit)
    if state.counts[ENTERED] + violators.shape[0] > state.entered.shape[0]:
        return -1
    n_before = state.counts[ENTERED]
    for v in violators:
        _enter(X, problem, mean, scale, doubtful[v], sizes[v], state)
    if state.counts[ENTERED] > n_before:
        extend_hessian(
            state.columns,
            state.identity,
            state.counts[ENTERED],
            n_before + 1,
            state.weight,
            state.hessian,
            state.work,
        )
    return violators.shape[0]


@kernel
def _predict(problem, state):  # type: ignore[no-untyped-def]
    """Write what the gradients are but for the part of the residuals that is left in `state.work`; return its length."""
    left, predicted = state.work, state.predicted
    for i in range(left.shape[0]):
        left[i] = state.at.residual[i] - state.reference_residual[i]
    length = math.sqrt(_squared_length(left, problem.share))
    predicted[:] = state.reference
    for k in range(min(state.counts[KNOWN], DIRECTIONS)):
        along = dot(left, state.directions[k])
        _subtract(along, problem.share, state.directions[k], left)
        add_multiple(state.images[k], along, predicted)
    return math.sqrt(_squared_length(left, problem.share)) + 1e-13 * length


@kernel
def _squared_length(vector, share):  # type: ignore[no-untyped-def]
    square = 0.0
    for i in range(vector.shape[0]):
        square += np.divide(vector[i] * vector[i], share[i])
    return square


@kernel
def _subtract(factor, share, direction, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] -= factor * share[i] * direction[i]


@kernel
def _refresh(X, problem, mean, scale, left, state):  # type: ignore[no-untyped-def]
    """Make the gradient of every column in one pass, a new reference; what was left is a new direction.

    The near columns are forgotten.
    """
    state.reference_residual[:] = state.at.residual
    products_with_columns(X, mean, scale, state.at.residual, state.reference)
    if left > 0.0:
        k = state.counts[KNOWN] % DIRECTIONS
        for i in range(state.work.shape[0]):
            state.directions[k, i] = np.divide(state.work[i], left * problem.share[i])
        for j in range(scale.shape[0]):
            state.images[k, j] = np.divide(state.reference[j] - state.predicted[j], left)
        state.counts[KNOWN] += 1
    state.near_slot[:] = -1
    state.counts[NEARBY] = 0
    state.counts[PASSES] += 1


@kernel
def _copy_near(X, mean, scale, doubtful, state):  # type: ignore[no-untyped-def]
    first = state.counts[NEARBY]
    last = first
    features = np.empty(state.near.shape[0], np.int64)
    for j in doubtful:
        if state.near_slot[j] < 0:
            state.near_slot[j] = last
            features[last] = j
            last += 1
    if last > first:
        copy_columns(X, mean, scale, features[first:last], state.near[first:last])
    state.counts[NEARBY] = last


@kernel
def _largest(doubtful, sizes, limit):  # type: ignore[no-untyped-def]
    """Return where up to `BATCH` sizes beyond the limit stand, largest first, the lower feature among equals.

    Equal means up to rounding, so that all subsets prefer the same one of two twins.
    """
    found = np.empty(BATCH, np.int64)
    n_found = 0
    for d in range(doubtful.shape[0]):
        size = abs(sizes[d])
        if size <= limit or (n_found == BATCH and size <= abs(sizes[found[BATCH - 1]])):
            continue
        place = n_found if n_found < BATCH else BATCH - 1
        while place > 0 and abs(sizes[found[place - 1]]) * OPTIMALITY < size:
            found[place] = found[place - 1]
            place -= 1
        found[place] = d
        n_found = min(n_found + 1, BATCH)
    return found[:n_found]


@kernel
def _enter(X, problem, mean, scale, feature, size, state):  # type: ignore[no-untyped-def]
    """Settle a feature: enter it, unless an entered one is the same up to sign and stands for both."""
    q = state.counts[ENTERED]
    slot = state.near_slot[feature]
    if slot >= 0:
        state.columns[q] = state.near[slot]
    else:
        copy_columns(X, mean, scale, np.array([feature]), state.columns[q : q + 1])
    state.is_settled[feature] = True
    for r in range(q):
        if abs(abs(state.gradient[r + 1]) - abs(size)) <= 1e-5 * abs(size):
            for i in range(state.work.shape[0]):
                state.work[i] = problem.share[i] * state.columns[r, i]
            if abs(dot(state.columns[q], state.work)) > 1.0 - 0.5 * MIN_PIVOT:
                return
    state.entered[q] = feature
    state.coef[q + 1] = 0.0
    state.gradient[q + 1] = size
    state.counts[ENTERED] = q + 1
