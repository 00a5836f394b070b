"""Proximal Newton steps over the entered features of a path: a quadratic approximation plus the exact penalty."""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.blocks.any_columns import extend_hessian_of
from daskfs.kernels.glm.newton import MAX_SHORTENINGS, OVERSHOT, advance, hessian_weights
from daskfs.kernels.glm.state import ENTERED, HESSIANS, NEWTON_STEPS, UNSOLVED
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into

MAX_NEWTON_STEPS = 200
MAX_SWEEPS = 2000
ASTRAY = 1e30  # standard deviations: a step this long is invalid


@kernel
def descend(hessian, n, n_free, gradient, coef, lam, tol, step):  # type: ignore[no-untyped-def]
    """Minimise ½ d'Hd - gradient'd + λ Σ |coef + d| over d, and write d.

    The first position and the following `n_free` are not penalised.

    `gradient` is overwritten by the remaining gradient. Components are measured in the norm of the Hessian's diagonal.

    Returns
    -------
    size : float
        The largest component of d.
    is_settled : bool
        False if the sweeps did not converge: BFGS corrections, or rows of features that entered since, may make the
        Hessian indefinite, so that it has no minimum. d is then arbitrary.
    """
    step[:n] = 0.0
    is_settled = False
    for _ in range(MAX_SWEEPS):
        if is_stopped():
            break
        largest = 0.0
        for q in range(n):
            curvature = hessian[q, q]
            if curvature <= 0.0:
                continue
            old = coef[q] + step[q]
            new = old + gradient[q] / curvature
            if q > n_free:
                excess = abs(new) - lam / curvature
                new = math.copysign(excess, new) if excess > 0.0 else 0.0
            move = new - old
            if move != 0.0:
                step[q] += move
                for r in range(n):
                    gradient[r] -= move * hessian[q, r]
                largest = max(largest, abs(move) * math.sqrt(curvature))
        if largest <= tol or not largest < ASTRAY:
            is_settled = largest <= tol
            break
    largest = 0.0
    for q in range(n):
        largest = max(largest, abs(step[q]) * math.sqrt(max(hessian[q, q], 0.0)))
    return largest, is_settled


@kernel
def solve_entered(problem, lam, tol, far, state):  # type: ignore[no-untyped-def]
    """Minimise over the entered features by proximal Newton steps.

    The Hessian is an old one, corrected after each step by the change of the gradients (BFGS). It is recomputed only if
    steps do not shrink, if the first step is longer than `far`, or if it has no minimum.
    """
    n_entered = state.counts[ENTERED]
    if n_entered == 0:
        return
    n = n_entered + 1
    gradient, coef, hessian = state.gradient, state.coef, state.hessian
    step, before = np.empty(n), np.empty(n)
    last = math.inf
    is_exact = False
    for iteration in range(MAX_NEWTON_STEPS):
        if is_stopped():
            break
        copy_into(gradient[:n], before)
        size, is_settled = descend(hessian, n, 0, gradient[:n], coef, lam, 0.1 * tol, step)
        if is_settled and size <= 0.1 * tol:
            copy_into(before, gradient[:n])
            return
        slope = slope_along(before, coef, step, 0.0, lam, 0)
        if not (is_settled and slope < 0.0) and not is_exact:  # the corrected Hessian is not usable
            copy_into(before, gradient[:n])
            _make_hessian(problem, n_entered, state)
            is_exact = True
            continue
        if not slope < 0.0:  # with the true Hessian: only rounding errors are left
            copy_into(before, gradient[:n])
            break
        length = take_step(
            problem, lam, slope, step, coef, state.columns, state.identity, n_entered, 0, state.at, gradient
        )
        state.counts[NEWTON_STEPS] += 1
        for q in range(n):
            coef[q] += length * step[q]
        if size <= tol and length == 1.0:
            return
        is_exact = length < 1.0 or size > 0.3 * last or (iteration == 0 and size > far)
        if is_exact:
            _make_hessian(problem, n_entered, state)
        else:
            _correct(hessian, n, step, before, gradient)
        last = size
    state.counts[UNSOLVED] += 1


@kernel
def _make_hessian(problem, n_entered, state):  # type: ignore[no-untyped-def]
    hessian_weights(problem, state.at, state.weight)
    extend_hessian_of(state.columns, state.identity, n_entered, 0, state.weight, state.hessian, state.work)
    state.counts[HESSIANS] += 1


@kernel
def take_step(  # type: ignore[no-untyped-def]
    problem, lam, slope, step, coef, columns, identity, n_entered, n_free, at, gradient
):
    """Take `step`, or the part of it after which the derivative is reversed by at most half. Return that part."""
    length = 1.0
    advance(problem, columns, identity, n_entered, step, 1.0, at, gradient)
    for _ in range(MAX_SHORTENINGS):
        if is_stopped():
            break
        turned = slope_along(gradient, coef, step, length, lam, n_free)
        if turned <= -OVERSHOT * slope:
            break
        shorter = length * min(0.5, max(0.1, slope / (slope - turned)))
        advance(problem, columns, identity, n_entered, step, shorter - length, at, gradient)
        length = shorter
    return length


@kernel
def slope_along(gradient, coef, step, share, lam, n_free):  # type: ignore[no-untyped-def]
    """Return the derivative of the objective along `step` at ``coef + share * step``; at a kink the left derivative."""
    slope = 0.0
    for q in range(n_free + 1):
        slope -= gradient[q] * step[q]
    for q in range(n_free + 1, step.shape[0]):
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
    """Update the Hessian to match the change of the gradient over a step (BFGS)."""
    change, expected = np.empty(n), np.empty(n)
    found, foreseen = 0.0, 0.0
    for a in range(n):
        product = 0.0
        for b in range(n):
            product += hessian[a, b] * step[b]
        expected[a] = product
        change[a] = before[a] - gradient[a]
        foreseen += step[a] * product
        found += step[a] * change[a]
    if found > 0.2 * foreseen and found < 5.0 * foreseen and foreseen > 1e-280:
        for a in range(n):
            change_a, expected_a = change[a] / found, expected[a] / foreseen
            for b in range(n):
                hessian[a, b] += change_a * change[b] - expected_a * expected[b]
