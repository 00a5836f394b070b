"""Screening: certify, mostly without reading them, which groups stay out of a path, and enter the others."""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.blocks.any_block import multiply_columns
from daskfs.kernels.group_lasso.groups import copy_group, gradient_size
from daskfs.kernels.group_lasso.some_columns import multiply_some_columns
from daskfs.kernels.group_lasso.state import ENTERED, PASSES, POSITIONS
from daskfs.kernels.jit import inner_loop, kernel
from daskfs.kernels.lasso.steps import offer
from daskfs.kernels.linear.columns import copy_into, row_dot
from daskfs.kernels.linear.coordinate_descent import OPTIMALITY

BATCH = 16  # largest number of groups entered at once
FEW = 0.25  # share of the columns, below which they are read separately


@kernel
def admit(X, share, mean, scale, groups, lam, state):  # type: ignore[no-untyped-def]
    """Enter the groups that violate ‖Q_gᵀ r‖ <= λ price_g most. Return their number, or -1 without room for them.

    By the Cauchy-Schwarz inequality, ‖Q_gᵀ r‖ has changed by no more than the residuals since the reference.
    """
    residual, sizes = state.at.residual, state.reference_size
    n_groups, n_features = sizes.shape[0], scale.shape[0]
    length = _distance(residual, state.reference_residual, share)
    doubtful, n_doubtful, n_columns = np.empty(n_groups, np.int64), 0, 0
    for g in range(n_groups):
        if not state.is_settled[g] and sizes[g] + length > lam * groups.price[g] * OPTIMALITY:
            doubtful[n_doubtful] = g
            n_doubtful += 1
            n_columns += groups.bounds[g + 1] - groups.bounds[g]
    if n_doubtful == 0:
        return 0
    gradient = state.reference
    if n_columns > FEW * n_features:
        refresh(X, mean, scale, groups, state)
    elif length > 0.0:
        some, n = np.empty(n_columns, np.int64), 0
        for d in range(n_doubtful):
            for k in range(groups.bounds[doubtful[d]], groups.bounds[doubtful[d] + 1]):
                some[n] = groups.members[k]
                n += 1
        gradient = np.empty(n_features)
        multiply_some_columns(X, mean, scale, residual, some, gradient)
    found, n_found = _largest(groups, doubtful[:n_doubtful], gradient, lam)
    for v in range(n_found):
        if state.counts[POSITIONS] + groups.rank[found[v]] > state.columns.shape[0]:
            return -1
        enter(X, mean, scale, groups, found[v], state)
    return n_found


@inner_loop
def _distance(residual, reference, share):  # type: ignore[no-untyped-def]
    """Return the distance between two residual vectors with row shares, plus a bound of its rounding error."""
    square, whole = 0.0, 0.0
    for i in range(residual.shape[0]):
        move = residual[i] - reference[i]
        square += np.divide(move * move, share[i])
        whole += np.divide(residual[i] * residual[i], share[i])
    return math.sqrt(square) + 1e-13 * math.sqrt(whole) if square > 0.0 else 0.0


@kernel
def refresh(X, mean, scale, groups, state):  # type: ignore[no-untyped-def]
    """Compute the gradient of every column in one pass, as a new reference."""
    copy_into(state.at.residual, state.reference_residual)
    multiply_columns(X, mean, scale, state.at.residual, state.reference)
    state.counts[PASSES] += 1
    measure(groups, state)


@kernel
def measure(groups, state):  # type: ignore[no-untyped-def]
    """Write ‖Q_gᵀ r‖ for every group that may enter, from the gradient at the reference."""
    right, out = np.empty(state.reference.shape[0]), np.empty(state.reference.shape[0])
    for g in range(state.reference_size.shape[0]):
        if not state.is_settled[g]:
            state.reference_size[g] = gradient_size(groups, g, state.reference, right, out)


@kernel
def _largest(groups, doubtful, gradient, lam):  # type: ignore[no-untyped-def]
    """Return up to `BATCH` groups above λ, largest relative to their prices first."""
    right, out = np.empty(gradient.shape[0]), np.empty(gradient.shape[0])
    found, sizes, n_found = np.empty(BATCH, np.int64), np.empty(BATCH), 0
    for g in doubtful:
        size = gradient_size(groups, g, gradient, right, out) / groups.price[g]
        if size > lam * OPTIMALITY:
            n_found = offer(g, size, n_found, found, sizes)
    return found, n_found


@kernel
def enter(X, mean, scale, groups, g, state):  # type: ignore[no-untyped-def]
    """Assign the next positions to a group."""
    e, first = state.counts[ENTERED], state.counts[POSITIONS]
    copy_group(X, mean, scale, groups, g, state.columns, first)
    take_positions(groups, g, state)
    for q in range(first, first + groups.rank[g]):
        state.gradient[q + 1] = row_dot(state.columns, q, state.at.residual)
        state.null_gradient[q + 1] = row_dot(state.columns, q, state.null_residual)
    state.counts[ENTERED] = e + 1


@kernel
def take_positions(groups, g, state):  # type: ignore[no-untyped-def]
    """Record a group as the next one that entered. The caller increments the count."""
    e = state.counts[ENTERED]
    state.entered[e], state.prices[e], state.is_settled[g] = g, groups.price[g], True
    state.counts[POSITIONS] += groups.rank[g]
    state.starts[e + 1] = state.counts[POSITIONS]
