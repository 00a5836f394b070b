"""Coordinate descent on a quadratic function plus λ times the sizes of the coefficients."""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.linalg import factorise, solve_cholesky

MAX_SWEEPS = 2000
ASTRAY = 1e30  # standard deviations: a step this long is invalid
OPTIMALITY = 1.0 + 1e-9  # only rounding may make |gradient| exceed λ
SWEEPS_BETWEEN = 16  # before the system of the active features is solved


@kernel
def descend(hessian, n, n_free, left, coef, lam, tol):  # type: ignore[no-untyped-def]
    """Minimise ½ d'Hd - left'd + λ Σ |coef + d| by coordinate descent, in place. Return whether it converged.

    Descent is slow if columns nearly depend on each other; therefore it moves at intervals towards the minimum for the
    current signs. A Hessian that is a combination of others need not have a minimum.

    Parameters
    ----------
    hessian : ndarray of shape (>= n, >= n), float64
        H, symmetric. A position without curvature is left out.
    n, n_free : int
        Number of positions, and of those without a penalty, which come first.
    left : ndarray of shape (>= n,), float64
        Minus the gradient, kept up to date.
    coef : ndarray of shape (>= n,), float64
    lam : float
        λ.
    tol : float
        Largest step of the last sweep, in the norm of the Hessian's diagonal.
    """
    for sweep in range(1, MAX_SWEEPS + 1):
        if is_stopped():
            break
        largest = 0.0
        for q in range(n):
            curvature = hessian[q, q]
            old = coef[q]
            if curvature <= 0.0 or (q >= n_free and old == 0.0 and abs(left[q]) <= lam * OPTIMALITY):
                continue
            new = old + left[q] / curvature
            if q >= n_free:
                excess = abs(new) - lam / curvature
                new = math.copysign(excess, new) if excess > 0.0 else 0.0
            move = new - old
            if move != 0.0:
                coef[q] = new
                for r in range(n):
                    left[r] -= move * hessian[q, r]
                largest = max(largest, abs(move) * math.sqrt(curvature))
        if largest <= tol or not largest < ASTRAY:
            return largest <= tol
        if sweep % SWEEPS_BETWEEN == 0:
            _towards_minimum_of_signs(hessian, n, n_free, left, coef, lam)
    return False


@kernel
def _towards_minimum_of_signs(hessian, n, n_free, left, coef, lam):  # type: ignore[no-untyped-def]
    """Move to the minimum for the current signs, or towards it until the first sign would change."""
    active = np.empty(n, np.int64)
    n_active = 0
    for q in range(n):
        if q < n_free or coef[q] != 0.0:
            active[n_active] = q
            n_active += 1
    inner, factor = np.empty((n_active, n_active)), np.zeros((n_active, n_active))
    slope, step = np.empty(n_active), np.zeros(n_active)
    for a in range(n_active):
        q = active[a]
        slope[a] = left[q] - (math.copysign(lam, coef[q]) if q >= n_free else 0.0)
        for b in range(n_active):
            inner[a, b] = hessian[q, active[b]]
    if factorise(inner, n_active, 0.0, factor) < n_active:
        return
    solve_cholesky(factor, n_active, slope, step)
    length, first = 1.0, -1
    for a in range(n_free, n_active):
        old = coef[active[a]]
        if (old + length * step[a]) * old < 0.0:
            length, first = -old / step[a], a
    for a in range(n_active):
        q = active[a]
        move = -coef[q] if a == first else length * step[a]
        coef[q] = 0.0 if a == first else coef[q] + move
        for r in range(n):
            left[r] -= move * hessian[q, r]
