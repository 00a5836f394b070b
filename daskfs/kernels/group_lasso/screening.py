"""Screening: certify, mostly without reading them, which groups stay out of a path, and enter the others."""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.blocks.any_block import multiply_columns
from daskfs.kernels.glm.screening import add_direction, predict
from daskfs.kernels.group_lasso.groups import copy_group, gradient_size
from daskfs.kernels.group_lasso.some_columns import multiply_some_columns
from daskfs.kernels.group_lasso.state import ENTERED, KNOWN_DIRECTIONS, PASSES, POSITIONS
from daskfs.kernels.jit import kernel
from daskfs.kernels.lasso.steps import offer
from daskfs.kernels.linear.columns import copy_into, row_dot, squared_norm_between
from daskfs.kernels.linear.coordinate_descent import OPTIMALITY

BATCH = 16  # largest number of groups entered at once
FEW = 0.125  # share of the columns, below which they are read separately


@kernel
def admit(X, share, mean, scale, groups, lam, state):  # type: ignore[no-untyped-def]
    """Enter the groups that violate ‖Q_gᵀ r‖ <= λ price_g most. Return their number, or -1 without room for them.

    As in `daskfs.kernels.glm.screening`, Q_gᵀ r is predicted from earlier residuals. By the Cauchy-Schwarz inequality,
    it differs from the prediction by no more than the length of what these have left of the residuals.
    """
    n_groups, n_features, bounds = groups.rank.shape[0], scale.shape[0], groups.bounds
    left = predict(share, state.counts[KNOWN_DIRECTIONS], state)
    doubtful, sizes, n_doubtful, n_columns = np.empty(n_groups, np.int64), np.empty(n_groups), 0, 0
    for g in range(n_groups):
        if not state.is_settled[g]:
            size = math.sqrt(squared_norm_between(state.predicted, bounds[g], bounds[g + 1]))
            if size + left > lam * groups.price[g] * OPTIMALITY:
                doubtful[n_doubtful], sizes[n_doubtful] = g, size
                n_doubtful += 1
                n_columns += bounds[g + 1] - bounds[g]
    if n_doubtful == 0:
        return 0
    if n_columns > FEW * n_features and left > 0.0:
        refresh(X, share, mean, scale, groups, left, state)
        for d in range(n_doubtful):
            sizes[d] = state.reference_size[doubtful[d]]
    elif left > 0.0:
        _measure_some(X, mean, scale, groups, doubtful[:n_doubtful], n_columns, sizes, state)
    found, n_found = _largest(groups, doubtful[:n_doubtful], sizes, lam)
    for v in range(n_found):
        if state.counts[POSITIONS] + groups.rank[found[v]] > state.columns.shape[0]:
            return -1
        enter(X, mean, scale, groups, found[v], state)
    return n_found


@kernel
def refresh(X, share, mean, scale, groups, left, state):  # type: ignore[no-untyped-def]
    """Compute Q_gᵀ r of all groups in one pass, as a new reference. What `predict` has left becomes a direction."""
    gradient = np.empty(scale.shape[0])
    copy_into(state.at.residual, state.reference_residual)
    multiply_columns(X, mean, scale, state.at.residual, gradient)
    state.counts[PASSES] += 1
    measure(groups, gradient, state)
    if left > 0.0:
        add_direction(share, left, state.counts[KNOWN_DIRECTIONS], state)
        state.counts[KNOWN_DIRECTIONS] += 1


@kernel
def measure(groups, gradient, state):  # type: ignore[no-untyped-def]
    """Write Q_gᵀ r and its length for every group that may enter, from the gradient of all columns."""
    right = np.empty(gradient.shape[0])
    for g in range(state.reference_size.shape[0]):
        if not state.is_settled[g]:
            own = state.reference[groups.bounds[g] : groups.bounds[g + 1]]
            state.reference_size[g] = gradient_size(groups, g, gradient, right, own)


@kernel
def _measure_some(X, mean, scale, groups, some, n_columns, sizes, state):  # type: ignore[no-untyped-def]
    """Write ‖Q_gᵀ r‖ of some groups, from their columns alone."""
    columns, n = np.empty(n_columns, np.int64), 0
    for g in some:
        for k in range(groups.bounds[g], groups.bounds[g + 1]):
            columns[n] = groups.members[k]
            n += 1
    gradient, right, out = np.empty(scale.shape[0]), np.empty(n_columns), np.empty(n_columns)
    multiply_some_columns(X, mean, scale, state.at.residual, columns, gradient)
    for d in range(some.shape[0]):
        sizes[d] = gradient_size(groups, some[d], gradient, right, out)


@kernel
def _largest(groups, doubtful, sizes, lam):  # type: ignore[no-untyped-def]
    """Return up to `BATCH` groups above λ, largest relative to their prices first."""
    found, largest, n_found = np.empty(BATCH, np.int64), np.empty(BATCH), 0
    for d in range(doubtful.shape[0]):
        size = sizes[d] / groups.price[doubtful[d]]
        if size > lam * OPTIMALITY:
            n_found = offer(doubtful[d], size, n_found, found, largest)
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
