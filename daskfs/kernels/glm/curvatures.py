"""The Hessian of the entered features, as a linear combination of earlier Hessians.

A Hessian Σ_i w_i z_i z_i' is linear in its weights. Along a path the weights change slowly and in similar directions,
so a least-squares combination of the weights at a few earlier points nearly equals the current weights. The same
combination of their Hessians approximates the current Hessian, at the cost of a few dot products. A new Hessian is
computed only if the remainder is too large.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.blocks.any_columns import make_hessian_of
from daskfs.kernels.glm.newton import hessian_weights
from daskfs.kernels.glm.state import COMBINED, ENTERED, KNOWN_HESSIANS
from daskfs.kernels.jit import inner_loop, kernel
from daskfs.kernels.linear.columns import copy_into, dot, four_row_dots, sum_of
from daskfs.kernels.linear.linalg import factorise, solve_cholesky

LEFT = 0.05  # largest share of the weights that a combination may leave


@kernel
def update_hessian(problem, is_exact, state):  # type: ignore[no-untyped-def]
    """Update the Hessian to the current predictions: a combination of earlier ones, if the remainder is small.

    With `is_exact`, or else, it is computed, and replaces the oldest one.
    """
    weight, mix = state.weight, state.mix
    hessian_weights(problem, state.at, weight)
    if is_exact or combine_weights(weight, mix, state) > LEFT * sum_of(weight):
        slot = state.counts[KNOWN_HESSIANS] % COMBINED
        state.counts[KNOWN_HESSIANS] += 1
        copy_into(weight, state.weights[slot])
        make_hessian_of(
            state.columns, state.identity, state.counts[ENTERED], 0, weight, state.hessians[slot], state.work
        )
        mix[:] = 0.0
        mix[slot] = 1.0
        for m in range(min(state.counts[KNOWN_HESSIANS], COMBINED)):
            state.weight_products[m, slot] = dot(state.weights[m], weight)
            state.weight_products[slot, m] = state.weight_products[m, slot]
    _mix_rows(0, state)


@kernel
def combine_weights(weight, mix, state):  # type: ignore[no-untyped-def]
    """Write the closest combination of earlier weights. Return the sum of the absolute remainder."""
    n_known = min(state.counts[KNOWN_HESSIANS], COMBINED)
    products, factor = np.empty(COMBINED), np.zeros((COMBINED, COMBINED))
    products[0], products[1], products[2], products[3] = four_row_dots(state.weights, 0, 1, 2, 3, weight)
    factorise(state.weight_products, n_known, 0.0, factor)
    mix[:] = 0.0
    solve_cholesky(factor, n_known, products, mix)
    return _left(state.weights, mix[0], mix[1], mix[2], mix[3], weight)


@inner_loop
def _left(weights, mix0, mix1, mix2, mix3, weight):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(weight.shape[0]):
        combined = (mix0 * weights[0, i] + mix1 * weights[1, i]) + (mix2 * weights[2, i] + mix3 * weights[3, i])
        total += abs(weight[i] - combined)
    return total


@kernel
def extend_hessians(first, state):  # type: ignore[no-untyped-def]
    """Extend the newest Hessian by the rows of newly entered features, from position `first`. Drop the others.

    Until the next combination, the new rows of the combined Hessian are scaled copies of these.
    """
    newest = (state.counts[KNOWN_HESSIANS] - 1) % COMBINED
    make_hessian_of(
        state.columns, state.identity, state.counts[ENTERED], first, state.weights[newest], state.hessians[newest],
        state.work,
    )  # fmt: skip
    if newest != 0:
        copy_into(state.weights[newest], state.weights[0])
        for a in range(state.counts[ENTERED] + 1):
            copy_into(state.hessians[newest, a, : a + 1], state.hessians[0, a])
        state.weight_products[0, 0] = state.weight_products[newest, newest]
    state.weights[1:] = 0.0
    state.counts[KNOWN_HESSIANS] = 1
    state.mix[:] = 0.0
    state.mix[0] = sum_of(state.weight) / sum_of(state.weights[0])
    _mix_rows(first, state)


@kernel
def _mix_rows(first, state):  # type: ignore[no-untyped-def]
    """Combine the rows of the Hessians from `first` on, and the mirrored columns."""
    hessian, hessians, mix = state.hessian, state.hessians, state.mix
    for a in range(first, state.counts[ENTERED] + 1):
        for b in range(a + 1):
            hessian[a, b] = 0.0
        for m in range(COMBINED):
            if mix[m] != 0.0:
                _add_row_of(hessians, m, mix[m], a, hessian)
        for b in range(a):
            hessian[b, a] = hessian[a, b]


@inner_loop
def _add_row_of(hessians, m, factor, a, hessian):  # type: ignore[no-untyped-def]
    """Add a multiple of row a of one of the Hessians. Rows are indexed because views are reference-counted."""
    for b in range(a + 1):
        hessian[a, b] += factor * hessians[m, a, b]
