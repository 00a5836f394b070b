"""Grafting: a column whose gradient exceeds the penalty joins the model, the model is refitted, and zeros leave it.

The fit is that of `daskfs.kernels.glm.proximal`, on a state whose entered columns may leave again.
"""

from __future__ import annotations

import math

from daskfs.kernels.glm.proximal import solve_entered
from daskfs.kernels.glm.state import ENTERED
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import dot
from daskfs.kernels.linear.weighted_gram import extend_hessian


@kernel
def graft_block(problem, block, first, lam, tol, slot, state):  # type: ignore[no-untyped-def]
    """Process every column of a block once.

    Parameters
    ----------
    problem : Problem
    block : ndarray of shape (n_columns, n_samples), float64
        Standardised.
    first : int
        Number of the first column.
    lam, tol : float
        Penalty, and the step (in the norm of the Hessian's diagonal) at which a fit stops.
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
        state.coef[k + 1] = 0.0
        state.gradient[k + 1] = gradient
        state.counts[ENTERED] = k + 1
        extend_hessian(state.columns, state.identity, k + 1, k + 1, state.weight, state.hessian, state.work)
        solve_entered(problem, lam, tol, math.inf, state)
        drop_zeros(slot, state)
        n_grafted += 1
    return n_grafted, n_refused


@kernel
def drop_zeros(slot, state):  # type: ignore[no-untyped-def]
    """Remove columns with a coefficient of 0. The last column takes the position of each."""
    q = 1
    while q <= state.counts[ENTERED]:
        if state.coef[q] != 0.0:
            q += 1
            continue
        last = state.counts[ENTERED]
        slot[state.entered[q - 1]] = -1
        if q < last:
            state.columns[q - 1] = state.columns[last - 1]
            state.entered[q - 1] = state.entered[last - 1]
            slot[state.entered[q - 1]] = q - 1
            state.coef[q] = state.coef[last]
            state.gradient[q] = state.gradient[last]
            for r in range(last + 1):
                state.hessian[q, r] = state.hessian[last, r]
            for r in range(last + 1):
                state.hessian[r, q] = state.hessian[q, r]
            state.hessian[q, q] = state.hessian[last, last]
        state.counts[ENTERED] = last - 1
