"""The exact Lasso path over many sparse columns, of which few ever come near λ.

The path is followed over the near columns alone as long as the others are certain to stay out: at a reference all their
gradients were at most `outside`, and by the Cauchy-Schwarz inequality none changes by more than the length of the
residual's change. If that does not suffice, the gradients of all columns are computed in one pass as a new reference,
and those near λ join. A knot is written only when it is certain. Gradients are linear in λ between two knots, so every
λ is certified.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.blocks.any_block import multiply_columns
from daskfs.kernels.blocks.near_entries import gram_row_of, near_entries
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.lasso.homotopy import (
    TWIN,
    UNCERTAIN,
    Segment,
    Watch,
    coefficients_at,
    first_knot,
    follow_on,
    next_knot,
)
from daskfs.kernels.lasso.steps import ENTERED, GRID_ENDED, ROWS, PathState, hold
from daskfs.kernels.linear.moments import Moments

NEAR = 0.6  # share of λ: columns with larger gradients join
STRIDE = 0.6  # smallest ratio of λ between two references: at the smallest λ all columns would be near


@kernel
def follow_near_knots(  # type: ignore[no-untyped-def]
    X, y, weight, m, norm, rule, ratio, noise, free, capacity, largest_model, n_knots
):
    """Return what `follow_knots` does for a block of entries, then numbers, moments and state of the near columns.

    The knots go down to `ratio` times the first λ; gradients below `noise` are rounding errors. Columns that are `free`
    of the penalty are always near. The last item is the number of passes over the block.
    """
    room = np.empty(capacity * m.scale.shape[0])  # memory pages are used only when rows are computed
    places, values = np.empty(X.rows.shape[0], np.int32), np.empty(X.rows.shape[0])
    gradient, n_passes = m.cross.copy(), 0
    if free.shape[0] > 0:
        of_free = _moments_of(m, free)
        alone = _first_state(room, norm[free], capacity, largest_model)
        hold(near_entries(X, of_free, free, places, values), weight, of_free, np.arange(free.shape[0]), alone)
        residual = _residual(X, y, weight, m, free, alone.coef, alone)
        multiply_columns(X, m.mean, m.scale, residual, gradient)
        gradient[free] = 0.0
        n_passes = 1
    largest = max(np.max(np.abs(gradient)), noise)
    features, outside = _near(gradient, NEAR * largest, free)
    of_near = _moments_of(m, features)
    near = near_entries(X, of_near, features, places, values)
    state = _first_state(room, norm[features], capacity, largest_model)
    hold(near, weight, of_near, np.searchsorted(features, free), state)
    knots, segment, feature, lam = first_knot(of_near, rule, state, n_knots)
    smallest = max(ratio * lam, noise)
    if lam <= smallest:
        return knots, 1, 0, GRID_ENDED, features, of_near, state, n_passes
    watch = Watch(outside, state.coef.copy(), gradient[features])
    last, step, best = lam, 1, 0
    while True:
        knots, step, best, why, lam = follow_on(
            near, weight, of_near, rule, smallest, state, n_knots, knots, segment, watch, step, best, feature, lam
        )
        if why != UNCERTAIN or is_stopped():
            return knots, step, best, why, features, of_near, state, n_passes
        _, _, below = next_knot(lam, smallest, state, segment)
        last = max(below, STRIDE * min(lam, last))
        coef = coefficients_at(last, state, segment)
        multiply_columns(X, m.mean, m.scale, _residual(X, y, weight, m, features, coef, state), gradient)
        n_passes += 1
        joined, outside = _near(gradient, NEAR * last, features)
        if joined.shape[0] > features.shape[0]:
            state, segment = _widen(X, weight, m, norm, features, joined, room, places, values, state, segment)
            features, of_near = joined, _moments_of(m, joined)
            near = near_entries(X, of_near, features, places, values)
        watch = Watch(outside, coef, gradient[features])
        feature = -1


@kernel
def _near(gradient, limit, features):  # type: ignore[no-untyped-def]
    """Return the features in `features` or with gradients over `limit`, ascending, and the largest other gradient."""
    is_near = np.abs(gradient) >= limit
    is_near[features] = True
    outside = 0.0 if np.all(is_near) else np.max(np.abs(gradient[~is_near]))
    return np.flatnonzero(is_near), outside


@kernel
def _moments_of(m, features):  # type: ignore[no-untyped-def]
    return Moments(m.total, m.y_mean, m.y_variance, m.mean[features], m.scale[features], m.cross[features])


@kernel
def _first_state(room, norm, capacity, largest_model):  # type: ignore[no-untyped-def]
    n_features = norm.shape[0]
    return PathState(
        np.zeros(n_features), room[: capacity * n_features].reshape(capacity, n_features),
        np.full(n_features, -1, np.int64), np.zeros(capacity, np.int64), np.zeros(n_features, np.bool_),
        np.zeros(capacity, np.int64), np.empty((capacity, capacity)), np.zeros(capacity), np.zeros(capacity),
        np.zeros(capacity), np.full(largest_model, -1, np.int64), np.zeros((largest_model, largest_model)),
        np.zeros(6, np.int64), norm,
    )  # fmt: skip


@kernel
def _residual(X, y, weight, m, features, coef, state):  # type: ignore[no-untyped-def]
    """Return the residuals for coefficients of the entered features, times the rows' shares of the weight."""
    residual = y - m.y_mean
    for q in range(state.counts[ENTERED]):
        if coef[q] != 0.0:
            j = features[state.entered[q]]
            factor = coef[q] / m.scale[j]
            residual += factor * m.mean[j]
            for e in range(X.starts[j], X.starts[j + 1]):
                residual[X.rows[e]] -= factor * X.values[e]
    return residual * weight / m.total


@kernel
def _widen(X, weight, m, norm, features, joined, room, places, values, state, segment):  # type: ignore[no-untyped-def]
    """Return state and segment with room for the columns that joined, and compute their part of every Gram row."""
    n_before, n_near, n_rows, capacity = features.shape[0], joined.shape[0], state.counts[ROWS], state.gram.shape[0]
    place = np.searchsorted(joined, features)
    is_new = np.ones(n_near, np.bool_)
    is_new[place] = False
    new = np.flatnonzero(is_new)
    near, new_rows = (
        near_entries(X, _moments_of(m, joined[new]), joined[new], places, values),
        np.empty((n_rows, new.size)),
    )
    for row in range(n_rows):
        j = features[state.feature_of[row]]
        gram_row_of(near, weight, m.total, j, m.mean[j], m.scale[j], new_rows[row])
    gram = room[: capacity * n_near].reshape(capacity, n_near)
    for row in range(n_rows - 1, -1, -1):  # in place: writes stay behind the reads still to come
        for j in range(n_before - 1, -1, -1):
            gram[row, place[j]] = state.gram[row, j]
    for row in range(n_rows):
        for a in range(new.shape[0]):
            gram[row, new[a]] = new_rows[row, a]
    row_of, is_settled = np.full(n_near, -1, np.int64), np.zeros(n_near, np.bool_)
    row_of[place], is_settled[place] = state.row_of, state.is_settled
    state.feature_of[:n_rows] = place[state.feature_of[:n_rows]]
    n_entered = state.counts[ENTERED]
    state.entered[:n_entered] = place[state.entered[:n_entered]]
    is_open = np.zeros(n_near)
    is_open[place] = segment.is_open
    for j in new:
        is_open[j] = 1.0 if m.scale[joined[j]] > 0.0 else 0.0
        for q in range(n_entered):
            if abs(gram[row_of[state.entered[q]], j]) > TWIN:
                is_open[j] = 0.0
    wider = PathState(
        np.zeros(n_near), gram, row_of, state.feature_of, is_settled, state.entered, state.entered_gram,
        state.entered_cross, state.entered_gradient, state.coef, state.factored, state.factor, state.counts,
        norm[joined],
    )  # fmt: skip
    return wider, Segment(
        np.zeros(n_near), np.zeros(n_near), np.zeros(n_near), is_open, segment.sign, segment.refit, segment.direction
    )
