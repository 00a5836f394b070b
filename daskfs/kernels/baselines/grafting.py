"""Grafting: a column whose gradient exceeds the penalty joins the model, the model is refitted, and zeros leave it.

The fit is that of `daskfs.kernels.glm.minimise`, on a state whose entered columns may leave again.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.glm.curvatures import extend_hessians, update_hessian
from daskfs.kernels.glm.minimise import solve_entered
from daskfs.kernels.glm.newton import advance
from daskfs.kernels.glm.state import ENTERED
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into, dot


@kernel
def graft_block(problem, block, first, lam, tol, far, slot, state):  # type: ignore[no-untyped-def]
    """Process every column of a block once.

    Parameters
    ----------
    problem : Problem
    block : ndarray of shape (n_columns, n_samples), float64
        Standardised.
    first : int
        Number of the first column.
    lam, tol, far : float
        Penalty, and the tolerances of `daskfs.kernels.glm.minimise.solve_entered`.
    slot : ndarray of shape (n_features,), int64
        Position of each column in the model, or -1; updated.
    state : GlmState
        Updated.

    Returns
    -------
    n_grafted, n_refused : int
        Number of columns that joined, and of columns refused for lack of room.
    """
    capacity = state.columns.shape[0]
    n_grafted, n_refused = 0, 0
    for f in range(block.shape[0]):
        if is_stopped():
            break
        j = first + f
        if slot[j] >= 0:
            continue
        gradient = dot(block[f], state.at.residual)
        if abs(gradient) <= lam:
            continue
        k = state.counts[ENTERED]
        if k == capacity:
            n_refused += 1
            continue
        state.columns[k] = block[f]
        state.entered[k] = j
        slot[j] = k
        state.coef[k + 1] = state.base[k + 1] = 0.0
        state.gradient[k + 1] = state.left[k + 1] = gradient
        state.counts[ENTERED] = k + 1
        extend_hessians(k + 1, state)
        fit_entered(problem, lam, tol, far, slot, state)
        n_grafted += 1
    return n_grafted, n_refused


@kernel
def fit_entered(problem, lam, tol, far, slot, state):  # type: ignore[no-untyped-def]
    """Fit the entered columns, and remove those with a coefficient of 0. The last column takes the place of each."""
    solve_entered(problem, lam, tol, far, state)
    coef, base, gradient = state.coef, state.base, state.gradient
    n = state.counts[ENTERED]
    step = np.empty(n + 1)
    for q in range(n + 1):
        step[q] = coef[q] - base[q]
    advance(problem, state.columns, state.identity, n, step, 1.0, state.at, gradient)
    q = 1
    while q <= state.counts[ENTERED]:
        if coef[q] != 0.0:
            q += 1
            continue
        last = state.counts[ENTERED]
        slot[state.entered[q - 1]] = -1
        if q < last:
            copy_into(state.columns[last - 1], state.columns[q - 1])
            state.entered[q - 1] = state.entered[last - 1]
            slot[state.entered[q - 1]] = q - 1
            coef[q], gradient[q] = coef[last], gradient[last]
        state.counts[ENTERED] = last - 1
    copy_into(coef[: n + 1], base)
    copy_into(gradient[: n + 1], state.left)
    if state.counts[ENTERED] < n:
        update_hessian(problem, True, state)
