"""Screening: certify, mostly without reading them, which columns stay out of a path, and enter the others."""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.blocks.any_block import multiply_columns
from daskfs.kernels.blocks.any_columns import column_product, column_products, enter_columns, take_column, weigh_column
from daskfs.kernels.glm.curvatures import extend_hessians
from daskfs.kernels.glm.state import DIRECTIONS, ENTERED, KNOWN, NEAR, NEARBY, PASSES
from daskfs.kernels.jit import inner_loop, kernel
from daskfs.kernels.lasso.steps import offer
from daskfs.kernels.linear.columns import add_row, copy_into, row_dot
from daskfs.kernels.linear.coordinate_descent import OPTIMALITY
from daskfs.kernels.linear.linalg import MIN_PIVOT

BATCH = 16  # largest number of features entered at once


@kernel
def admit(X, problem, mean, scale, lam, state):  # type: ignore[no-untyped-def]
    """Settle the largest violators of |gradient| <= λ. Return their number, or -1 if there is no room for them.

    The residuals have moved from the reference mostly in earlier directions, for which the change of every gradient is
    known. By the Cauchy-Schwarz inequality, a gradient changes by at most the length of the remaining part. This bound
    certifies most columns. The others are computed.
    """
    at = state.at
    n_features = scale.shape[0]
    n_near = state.near_features.shape[0]
    is_narrow = n_features <= NEAR  # all columns enter, which costs less than predicting gradients
    limit = 0.0 if is_narrow else lam * OPTIMALITY
    left = math.inf if is_narrow else predict(problem.share, state.counts[KNOWN], state)
    reach = limit - left
    doubtful = np.empty(n_features, np.int64)
    n_doubtful, n_unknown = 0, 0
    predicted, is_settled, near_slot = state.predicted, state.is_settled, state.near_slot
    for j in range(n_features):
        if abs(predicted[j]) > reach and scale[j] > 0.0 and not is_settled[j]:
            doubtful[n_doubtful] = j
            n_doubtful += 1
            if near_slot[j] < 0:
                n_unknown += 1
    room = n_near - state.counts[NEARBY]
    if not is_narrow and (n_unknown * 4 > n_features or n_unknown > room):
        refresh(X, problem, mean, scale, left, state)
        sizes = state.reference[doubtful[:n_doubtful]]
    else:
        first = state.counts[NEARBY]
        last = first
        for d in range(n_doubtful):
            if near_slot[doubtful[d]] < 0:
                near_slot[doubtful[d]], state.near_features[last] = last, doubtful[d]
                last += 1
        if last > first:
            enter_columns(state.near, X, mean, scale, state.near_features[first:last], first)
        state.counts[NEARBY] = last
        products = np.empty(1 + n_doubtful)
        column_products(state.near, near_slot[doubtful[:n_doubtful]], n_doubtful, at.residual, products)
        sizes = products[1:]
    violators = _largest(doubtful[:n_doubtful], sizes, limit)
    if state.counts[ENTERED] + violators.shape[0] > state.entered.shape[0]:
        return -1
    n_before = state.counts[ENTERED]
    for v in violators:
        _enter(X, problem, mean, scale, doubtful[v], sizes[v], state)
    if state.counts[ENTERED] > n_before:
        extend_hessians(n_before + 1, state)
        left_at, hessian, coef, base = state.left, state.hessian, state.coef, state.base
        for q in range(n_before + 1, state.counts[ENTERED] + 1):  # from the predictions to the coefficients
            left_at[q] = state.gradient[q]
            for r in range(n_before + 1):
                left_at[q] -= hessian[q, r] * (coef[r] - base[r])
    return violators.shape[0]


@kernel
def predict(share, n_known, state):  # type: ignore[no-untyped-def]
    """Write the gradients without the part of the residuals left in `state.work`. Return the length of that part.

    `state` is that of a path over columns or over groups. So far it has had `n_known` directions.
    """
    left, predicted = state.work, state.predicted
    residual, reference = state.at.residual, state.reference_residual
    for i in range(left.shape[0]):
        left[i] = residual[i] - reference[i]
    length = math.sqrt(_squared_length(left, share))
    copy_into(state.reference, predicted)
    for k in range(min(n_known, DIRECTIONS)):
        along = row_dot(state.directions, k, left)
        for i in range(left.shape[0]):
            left[i] -= along * share[i] * state.directions[k, i]
        add_row(state.images, k, along, predicted)
    return math.sqrt(_squared_length(left, share)) + 1e-13 * length


@inner_loop
def _squared_length(vector, share):  # type: ignore[no-untyped-def]
    square = 0.0
    for i in range(vector.shape[0]):
        square += np.divide(vector[i] * vector[i], share[i])
    return square


@kernel
def refresh(X, problem, mean, scale, left, state):  # type: ignore[no-untyped-def]
    """Compute the gradient of every column in one pass as a new reference. The remaining part is a new direction.

    The near columns are dropped.
    """
    copy_into(state.at.residual, state.reference_residual)
    multiply_columns(X, mean, scale, state.at.residual, state.reference)
    if left > 0.0:
        add_direction(problem.share, left, state.counts[KNOWN], state)
        state.counts[KNOWN] += 1
    state.near_slot[:] = -1
    state.counts[NEARBY] = 0
    state.counts[PASSES] += 1


@kernel
def add_direction(share, left, n_known, state):  # type: ignore[no-untyped-def]
    """Make the part of the residuals that `predict` has left, of this length, a direction in place of the oldest."""
    work, reference, predicted = state.work, state.reference, state.predicted
    direction, image = state.directions[n_known % DIRECTIONS], state.images[n_known % DIRECTIONS]
    for i in range(work.shape[0]):
        direction[i] = np.divide(work[i], left * share[i])
    for j in range(reference.shape[0]):
        image[j] = np.divide(reference[j] - predicted[j], left)


@kernel
def _largest(doubtful, sizes, limit):  # type: ignore[no-untyped-def]
    """Return the positions of up to `BATCH` sizes above the limit, largest first."""
    found, largest, n_found = np.empty(BATCH, np.int64), np.empty(BATCH), 0
    for d in range(doubtful.shape[0]):
        if abs(sizes[d]) > limit:
            n_found = offer(d, abs(sizes[d]), n_found, found, largest)
    return found[:n_found]


@kernel
def _enter(X, problem, mean, scale, feature, size, state):  # type: ignore[no-untyped-def]
    """Settle a feature: enter it, unless an entered column equals it up to sign and represents both."""
    q = state.counts[ENTERED]
    slot = state.near_slot[feature]
    if slot >= 0:
        take_column(state.columns, q, state.near, slot)
    else:
        enter_columns(state.columns, X, mean, scale, np.array([feature]), q)
    state.is_settled[feature] = True
    for r in range(q):
        if abs(abs(state.gradient[r + 1]) - abs(size)) <= 1e-5 * abs(size):
            weigh_column(state.columns, r, problem.share, state.work)
            if abs(column_product(state.columns, q, state.work)) > 1.0 - 0.5 * MIN_PIVOT:
                return
    state.entered[q] = feature
    state.coef[q + 1] = 0.0
    state.base[q + 1] = 0.0
    state.gradient[q + 1] = size
    state.counts[ENTERED] = q + 1
