"""The minimum over the entered features of a path: a quadratic approximation of the loss plus the exact penalty.

The total of the steps still to come is extrapolated from the rate at which steps shrink. The last step is applied to
the coefficients only; the predictions follow together with the first step at the next λ.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.glm.curvatures import update_hessian
from daskfs.kernels.glm.newton import MAX_SHORTENINGS, OVERSHOT, advance
from daskfs.kernels.glm.state import ENTERED, FREE, NEWTON_STEPS, UNSOLVED
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into
from daskfs.kernels.linear.coordinate_descent import descend

MAX_NEWTON_STEPS = 200
CLOSE = 0.01  # relative to `far`: after a shorter step the Hessian is unchanged
SLOWEST = 0.3  # ratio to the step before: a slower decrease requests the Hessian at the current point


@kernel
def solve_entered(problem, lam, tol, far, state):  # type: ignore[no-untyped-def]
    """Minimise over the entered features by proximal Newton steps, until the remaining steps are below `tol`.

    Coefficients and steps are measured in the norm of the Hessian's diagonal. The Hessian is recomputed if steps do not
    shrink, if the first step is longer than `far`, or if the Hessian has no minimum.
    """
    n, n_free = state.counts[ENTERED] + 1, state.counts[FREE]
    if n == 1:
        return
    coef, base, gradient, left, hessian = state.coef, state.base, state.gradient, state.left, state.hessian
    step = np.empty(n)
    last = math.inf
    is_exact = False
    for iteration in range(MAX_NEWTON_STEPS):
        if is_stopped():
            break
        is_settled = descend(hessian, n, n_free + 1, left, coef, lam, 0.1 * tol)
        size = 0.0
        for q in range(n):
            step[q] = coef[q] - base[q]
            size = max(size, abs(step[q]) * math.sqrt(max(hessian[q, q], 0.0)))
        if is_settled and (size <= 0.1 * tol or (size * min(size / last, SLOWEST) <= tol and iteration > 0)):
            return
        slope = _slope_along(gradient, base, step, 0.0, lam, n_free)
        if not slope < 0.0 or not (is_settled or is_exact):
            copy_into(base[:n], coef[:n])
            copy_into(gradient[:n], left[:n])
            if is_exact:  # only rounding errors are left
                break
            update_hessian(problem, True, state)  # the combination is not usable
            is_exact = True
            continue
        length = _take_step(
            problem, lam, slope, step, base, state.columns, state.identity, n - 1, n_free, state.at, gradient
        )
        state.counts[NEWTON_STEPS] += 1
        if length != 1.0:
            for q in range(n):
                coef[q] = base[q] + length * step[q]
        copy_into(coef[:n], base[:n])
        copy_into(gradient[:n], left[:n])
        is_exact = length < 1.0 or size > SLOWEST * last or (iteration == 0 and size > far)
        if is_exact or size > CLOSE * far:
            update_hessian(problem, is_exact, state)
        last = size
    state.counts[UNSOLVED] += 1


@kernel
def _take_step(  # type: ignore[no-untyped-def]
    problem, lam, slope, step, coef, columns, identity, n_entered, n_free, at, gradient
):
    """Take `step`, or the part of it after which the derivative is reversed by at most half. Return that part."""
    length = 1.0
    advance(problem, columns, identity, n_entered, step, 1.0, at, gradient)
    for _ in range(MAX_SHORTENINGS):
        if is_stopped():
            break
        turned = _slope_along(gradient, coef, step, length, lam, n_free)
        if turned <= -OVERSHOT * slope:
            break
        shorter = length * min(0.5, max(0.1, slope / (slope - turned)))
        advance(problem, columns, identity, n_entered, step, shorter - length, at, gradient)
        length = shorter
    return length


@kernel
def _slope_along(gradient, coef, step, share, lam, n_free):  # type: ignore[no-untyped-def]
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
