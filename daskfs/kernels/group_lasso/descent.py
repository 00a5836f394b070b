"""Block coordinate descent on a quadratic function plus λ times the norms of the groups' coefficients."""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import add_row
from daskfs.kernels.linear.coordinate_descent import OPTIMALITY

MAX_SWEEPS = 20_000


@kernel
def reach_of_groups(hessian, starts, n_entered, first, reach):  # type: ignore[no-untyped-def]
    """Write an upper bound of the largest eigenvalue of each group's block of the Hessian (Gershgorin)."""
    for e in range(first, n_entered):
        most, trace = 0.0, 0.0
        for q in range(starts[e] + 1, starts[e + 1] + 1):
            total = 0.0
            for r in range(starts[e] + 1, starts[e + 1] + 1):
                total += abs(hessian[q, r])
            most = max(most, total)
            trace += hessian[q, q]
        reach[e] = min(most, trace)


@kernel
def descend(hessian, starts, n_entered, prices, reach, left, coef, lam, tol):  # type: ignore[no-untyped-def]
    """Minimise ½ d'Hd - left'd + λ Σ_e price_e ‖(coef + d)_e‖, in place. Return whether it converged.

    Parameters
    ----------
    hessian : ndarray of shape (>= n, >= n), float64
        Position 0 is not penalised.
    starts : ndarray of shape (>= n_entered + 1,), int64
        Group e has the positions [1 + starts[e], 1 + starts[e + 1]).
    n_entered : int
    prices, reach : ndarray of shape (>= n_entered,)
    left : ndarray of shape (n,)
        Minus the gradient, kept up to date.
    coef : ndarray of shape (>= n,)
    lam : float
    tol : float
        Stop after a sweep whose longest step is shorter than this in the norm of the Hessian.
    """
    is_whole = True  # sweeps over all groups confirm what sweeps over the active ones have found
    for _ in range(MAX_SWEEPS):
        if is_stopped():
            break
        largest = 0.0
        if hessian[0, 0] > 0.0 and left[0] != 0.0:
            move = left[0] / hessian[0, 0]
            coef[0] += move
            largest = abs(move) * math.sqrt(hessian[0, 0])
            add_row(hessian, 0, -move, left)
        for e in range(n_entered):
            limit, first, stop = lam * prices[e], starts[e] + 1, starts[e + 1] + 1
            largest = max(largest, _step(hessian, first, stop, limit, reach[e], is_whole, left, coef))
        if largest <= tol:
            if is_whole:
                return True
            is_whole = True
        else:
            is_whole = False
    return False


@kernel
def _step(hessian, first, stop, limit, reach, is_whole, left, coef):  # type: ignore[no-untyped-def]
    """Move one group's coefficients to the minimum of a bound of the quadratic. Return the length of the step."""
    square, is_active = 0.0, False
    for q in range(first, stop):
        is_active = is_active or coef[q] != 0.0
        free = left[q] + reach * coef[q]
        square += free * free
    if not is_active and (not is_whole or reach <= 0.0):
        return 0.0
    size = math.sqrt(square)
    if not is_active and size <= limit * OPTIMALITY:
        return 0.0
    kept = (size - limit) / (size * reach) if size > limit else 0.0
    moved = 0.0
    moves = np.empty(stop - first)
    for q in range(first, stop):
        moves[q - first] = kept * (left[q] + reach * coef[q]) - coef[q]
    for q in range(first, stop):
        move = moves[q - first]
        if move != 0.0:
            coef[q] = coef[q] + move if kept > 0.0 else 0.0
            moved += move * move
            add_row(hessian, q, -move, left)
    return math.sqrt(reach * moved)
