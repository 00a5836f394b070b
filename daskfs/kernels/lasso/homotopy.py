"""The exact Lasso path, from knot to knot without a grid (Osborne, Presnell and Turlach 2000; Efron et al. 2004).

Between two knots the signs are constant and the coefficients are linear in λ, so the knots describe the whole path:
between them the least-squares refit is constant, and the residual of the Lasso fit decreases. One Cholesky factor of
the active features gives the refit, the direction of the path and the criterion. The gradient of all p columns is also
linear in λ and follows from cached Gram rows (`daskfs.kernels.lasso.steps`). At every knot it is recomputed and must
satisfy the optimality conditions. If it does not (a column is nearly a combination of the active ones, or features
enter at the same λ in contradictory directions), the homotopy stops with a reason, and `daskfs.kernels.lasso.path`
falls back to descent. With many sparse columns the block may hold only a few: the others are monitored
(`daskfs.kernels.lasso.near_columns`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.blocks.any_block import n_values
from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.lasso.steps import (
    ENTERED,
    FACTORED,
    FREE,
    GRID_ENDED,
    OUT_OF_PATIENCE,
    ROWS,
    RSS_FLOOR,
    TOO_MANY_FEATURES,
    TOO_MANY_GRAM_ROWS,
    enter,
    make_rows,
    offer,
    rate,
)
from daskfs.kernels.linear.columns import copy_into
from daskfs.kernels.linear.coordinate_descent import OPTIMALITY
from daskfs.kernels.linear.linalg import MIN_PIVOT, extend_cholesky, solve_cholesky

COLLINEAR, CONTRADICTORY, NOT_OPTIMAL, TOO_MANY_KNOTS = range(4, 8)  # reasons to give up; below 4: ends of the path
UNCERTAIN = 8  # columns left out might enter before the next knot
CERTAIN = 1.0 - 1e-6  # share of λ that columns left out may reach; equal columns join together
TWIN = 1.0 - 0.5 * MIN_PIVOT
FIRST_BATCH, WIDE_BATCH, TALL_BATCH = 4, 8, 16  # Gram rows computed per pass: see `_look_at`
NEAR_VALUES = 1 << 20  # values of a block that fits in the CPU's cache: a pass costs no more than the rows it computes
FIRST_KNOTS = 64  # initial capacity
NO_RATE = 1e-10  # a gradient whose rate matches that of λ up to this never meets it


class Knots(NamedTuple):
    """The knots of the path. Row s is the model between the knots s - 1 and s, with its Lasso fit at knot s."""

    lambdas: np.ndarray  # (n_knots,) decreasing
    df: np.ndarray  # (n_knots,) size of the model
    rss: np.ndarray  # (n_knots,)
    gic: np.ndarray  # (n_knots,)
    coef: np.ndarray  # (n_knots, capacity) by position in the order of entry
    is_active: np.ndarray  # (n_knots, capacity)


class Segment(NamedTuple):
    """The path below the current knot: gradient = base + λ slope, coefficients = refit - λ direction."""

    base: np.ndarray  # (p,)
    slope: np.ndarray  # (p,)
    meets: np.ndarray  # (p,) λ at which an inactive feature enters, or 0
    is_open: np.ndarray  # (p,) 1.0 if a feature may enter: not constant, not active, not equal to an entered one
    sign: np.ndarray  # (k,) of the active features, at the positions `PathState.factored`; 0 without a penalty
    refit: np.ndarray  # (k,)
    direction: np.ndarray  # (k,)


class Watch(NamedTuple):
    """Columns outside the block, which the path must certify: none had a larger gradient than `outside`."""

    outside: float  # -inf if there are none
    coef: np.ndarray  # (capacity,) of the entered features at that time
    gradient: np.ndarray  # (p,) of the columns of the block at that time


@kernel
def new_knots(n_knots, capacity):  # type: ignore[no-untyped-def]
    """Return an empty path with room for `n_knots` knots."""
    return Knots(
        np.zeros(n_knots), np.zeros(n_knots, np.int64), np.zeros(n_knots), np.zeros(n_knots),
        np.zeros((n_knots, capacity)), np.zeros((n_knots, capacity), np.bool_),
    )  # fmt: skip


@kernel
def _longer(knots):  # type: ignore[no-untyped-def]
    """Return the knots with twice the capacity."""
    n, capacity = knots.coef.shape
    longer = new_knots(2 * n, capacity)
    for s in range(n):
        longer.lambdas[s], longer.df[s] = knots.lambdas[s], knots.df[s]
        longer.rss[s], longer.gic[s] = knots.rss[s], knots.gic[s]
        for q in range(capacity):
            longer.coef[s, q], longer.is_active[s, q] = knots.coef[s, q], knots.is_active[s, q]
    return longer


@kernel
def follow_knots(X, weight, m, rule, smallest, state, n_knots):  # type: ignore[no-untyped-def]
    """Return the knots down to `smallest` λ, their number, the best of them, and why the path ended.

    It gives up after `n_knots` knots.
    """
    knots, segment, feature, lam = first_knot(m, rule, state, n_knots)
    if lam <= smallest:  # the features without a penalty leave nothing to explain
        return knots, 1, 0, GRID_ENDED
    watch = Watch(-math.inf, state.coef, segment.base)
    knots, n_followed, best, why, _ = follow_on(
        X, weight, m, rule, smallest, state, n_knots, knots, segment, watch, 1, 0, feature, lam
    )
    return knots, n_followed, best, why


@kernel
def first_knot(m, rule, state, n_knots):  # type: ignore[no-untyped-def]
    """Return the knots with the first one written, the segment above it, and the feature that enters and its λ.

    Features without a penalty are always active (`daskfs.kernels.lasso.steps.hold`). They have no sign, their gradient
    is 0 at every λ, and they never leave.
    """
    knots = new_knots(min(n_knots, FIRST_KNOTS), state.entered.shape[0])
    segment = _first_segment(m, state)
    feature = np.argmax(segment.meets)
    lam = segment.meets[feature]
    _write_knot(knots, 0, lam, m, rule, state, segment)
    return knots, segment, feature, lam


@kernel
def follow_on(  # type: ignore[no-untyped-def]
    X, weight, m, rule, smallest, state, n_knots, knots, segment, watch, first, best, feature, lam
):
    """Continue a path from knot `first`, below λ, where `feature` enters; or no feature, if the knot was UNCERTAIN.

    Return what `follow_knots` does, and the λ below which nothing is known.
    """
    leaving = -1
    for step in range(first, n_knots):
        if is_stopped():
            break
        if step == knots.lambdas.shape[0]:
            knots = _longer(knots)
        if leaving >= 0:
            _drop(leaving, state, segment)
        elif feature >= 0:
            if state.counts[FACTORED] == rule.max_df:
                return knots, step, best, TOO_MANY_FEATURES, lam
            n_left = knots.df[best] + rule.patience + 1 - state.counts[FACTORED]  # features until patience ends
            why = _activate(X, weight, m, feature, lam, n_left, state, segment)
            if why != GRID_ENDED:
                return knots, step, best, why, lam
        why = _solve(m.cross, lam, state, segment)
        if why != GRID_ENDED:
            return knots, step, best, why, lam
        feature, leaving, below = next_knot(lam, smallest, state, segment)
        if watch.outside >= 0.0 and not _is_certain(below, state, segment, watch):
            return knots, step, best, UNCERTAIN, lam
        lam = below
        best, is_over = _write_knot(knots, step, lam, m, rule, state, segment)
        if is_over:
            return knots, step + 1, best, OUT_OF_PATIENCE, lam
        if lam <= smallest:
            return knots, step + 1, best, GRID_ENDED, lam
    return knots, 0, -1, TOO_MANY_KNOTS, lam


@kernel
def coefficients_at(lam, state, segment):  # type: ignore[no-untyped-def]
    """Return the coefficients of the entered features at a λ of the segment."""
    coef = np.zeros(state.entered.shape[0])
    for q in range(state.counts[FACTORED]):
        coef[state.factored[q]] = segment.refit[q] - lam * segment.direction[q]
    return coef


@kernel
def _is_certain(lam, state, segment, watch):  # type: ignore[no-untyped-def]
    """Return whether no column left out reaches λ: gradients change by at most the length of the residual's change."""
    coef = coefficients_at(lam, state, segment)
    square = 0.0
    for q in range(state.counts[ENTERED]):
        j = state.entered[q]
        square += (coef[q] - watch.coef[q]) * (watch.gradient[j] - (segment.base[j] + lam * segment.slope[j]))
    return watch.outside + math.sqrt(max(square, 0.0)) <= CERTAIN * lam


@kernel
def _first_segment(m, state):  # type: ignore[no-untyped-def]
    n_features, n = m.scale.shape[0], state.factored.shape[0]
    base, slope, is_open, refit = m.cross.copy(), np.zeros(n_features), np.zeros(n_features), np.zeros(n)
    for j in range(n_features):
        if m.scale[j] > 0.0 and not state.is_settled[j]:
            is_open[j] = 1.0
    segment = Segment(base, slope, np.zeros(n_features), is_open, np.zeros(n), refit, np.zeros(n))
    for q in range(state.counts[FREE]):
        refit[q] = state.coef[q]
        _add_active(state.gram, state.row_of[state.entered[q]], refit[q], 0.0, base, slope)
        _close_twins(state.entered[q], state, segment)
    for j in range(n_features):
        segment.meets[j] = abs(base[j]) * is_open[j]
    return segment


@kernel
def _activate(X, weight, m, feature, lam, n_left, state, segment):  # type: ignore[no-untyped-def]
    """Activate `feature`, or the first column equal to it. Return GRID_ENDED on success."""
    if not _look_at(X, weight, m, feature, n_left, state, segment):
        return TOO_MANY_GRAM_ROWS
    first = _first_twin(feature, state, segment)
    if not _look_at(X, weight, m, first, n_left, state, segment):
        return TOO_MANY_GRAM_ROWS
    position = -1
    for q in range(state.counts[ENTERED]):
        if state.entered[q] == first:
            position = q
    if position < 0:
        if state.counts[ENTERED] == state.entered.shape[0]:
            return TOO_MANY_GRAM_ROWS
        position = state.counts[ENTERED]
        enter(state, first, m.cross[first])
        _close_twins(first, state, segment)
    segment.is_open[first] = 0.0
    n_active = state.counts[FACTORED]
    state.factored[n_active] = position
    segment.sign[n_active] = math.copysign(1.0, segment.base[first] + lam * segment.slope[first])
    state.counts[FACTORED] = n_active + 1
    rank = extend_cholesky(state.entered_gram, state.factored, n_active + 1, n_active, state.factor)
    return GRID_ENDED if rank == n_active + 1 else COLLINEAR


@kernel
def _look_at(X, weight, m, feature, n_left, state, segment):  # type: ignore[no-untyped-def]
    """Compute the Gram row of `feature` unless it is known, and in the same pass those of the next features to meet λ.

    A pass over a large block costs as much as several rows. The first guess is short, because the signals that enter
    first change the gradients strongly. Later, the guess has as many rows as the path will need at least, `n_left`. If
    there are more columns than rows, they correlate by chance, and long guesses are rarely right.
    """
    if state.row_of[feature] >= 0:
        return True
    batch = FIRST_BATCH
    if state.counts[ROWS] > 0 and n_values(X) > NEAR_VALUES:
        is_tall = weight.shape[0] >= m.scale.shape[0]
        batch = max(FIRST_BATCH, min(TALL_BATCH if is_tall else WIDE_BATCH, n_left))
    room = min(batch, state.gram.shape[0] - state.counts[ROWS])
    if room == 0:
        return False
    make_rows(X, weight, m, _next_to_enter(feature, room, state, segment), state)
    return True


@kernel
def _next_to_enter(feature, room, state, segment):  # type: ignore[no-untyped-def]
    """Return `feature` and up to `room` - 1 other features without a Gram row that would enter soonest."""
    found, sizes, meets, row_of = np.empty(room, np.int64), np.empty(room), segment.meets, state.row_of
    n_found = offer(feature, math.inf, 0, found, sizes)
    for j in range(meets.shape[0]):
        if meets[j] > 0.0 and row_of[j] < 0 and j != feature:
            n_found = offer(j, meets[j], n_found, found, sizes)
    return found[:n_found]


@kernel
def _first_twin(feature, state, segment):  # type: ignore[no-untyped-def]
    """Return the first open column that equals `feature` up to sign and rounding, so that all subsets choose it."""
    gram_row, is_open = state.gram[state.row_of[feature]], segment.is_open
    for j in range(feature):
        if is_open[j] > 0.0 and abs(gram_row[j]) > TWIN:
            return j
    return feature


@kernel
def _close_twins(feature, state, segment):  # type: ignore[no-untyped-def]
    gram_row, is_open = state.gram[state.row_of[feature]], segment.is_open
    for j in range(gram_row.shape[0]):
        if abs(gram_row[j]) > TWIN:
            is_open[j] = 0.0


@kernel
def _drop(leaving, state, segment):  # type: ignore[no-untyped-def]
    segment.is_open[state.entered[state.factored[leaving]]] = 1.0
    n_active = state.counts[FACTORED] - 1
    for q in range(leaving, n_active):
        state.factored[q] = state.factored[q + 1]
        segment.sign[q] = segment.sign[q + 1]
    state.counts[FACTORED] = n_active
    extend_cholesky(state.entered_gram, state.factored, n_active, leaving, state.factor)


@kernel
def _solve(cross, lam, state, segment):  # type: ignore[no-untyped-def]
    """Compute the segment below λ and check its optimality at λ. Return GRID_ENDED on success."""
    n_active = state.counts[FACTORED]
    gram, row_of, entered, entered_cross = state.gram, state.row_of, state.entered, state.entered_cross
    factored, factor = state.factored, state.factor
    base, slope, is_open = segment.base, segment.slope, segment.is_open
    sign, refit, direction = segment.sign, segment.refit, segment.direction
    right = np.empty(n_active)
    for q in range(n_active):
        right[q] = entered_cross[factored[q]]
    solve_cholesky(factor, n_active, right, refit)
    solve_cholesky(factor, n_active, sign, direction)
    copy_into(cross, base)
    slope[:] = 0.0
    for q in range(n_active):
        _add_active(gram, row_of[entered[factored[q]]], refit[q], direction[q], base, slope)
    _meet(lam, base, slope, is_open, segment.meets)
    tolerance = (OPTIMALITY - 1.0) * lam
    for q in range(n_active):
        j = entered[factored[q]]
        if not abs(base[j] + lam * (slope[j] - sign[q])) <= tolerance:
            return NOT_OPTIMAL
        shrinkage = lam * direction[q]
        rounding = (OPTIMALITY - 1.0) * (abs(refit[q]) + abs(shrinkage))
        if sign[q] * (refit[q] - shrinkage) < -rounding:
            return CONTRADICTORY
    is_optimal = _is_optimal(lam, lam + tolerance, base, slope, is_open)
    return GRID_ENDED if is_optimal else NOT_OPTIMAL


@inner_loop
def _add_active(gram, row, refit, direction, base, slope):  # type: ignore[no-untyped-def]
    for j in range(base.shape[0]):
        base[j] -= refit * gram[row, j]
        slope[j] += direction * gram[row, j]


@inner_loop
def _meet(lam, base, slope, is_open, meets):  # type: ignore[no-untyped-def]
    """Write the λ at which |base + λ slope| = λ, at most the current one; 0 if their rates match."""
    for j in range(base.shape[0]):
        rate = 1.0 - slope[j] if base[j] > 0.0 else 1.0 + slope[j]
        meets[j] = min(abs(base[j]) / rate, lam) * is_open[j] if rate > NO_RATE else 0.0


@inner_loop
def _is_optimal(lam, bound, base, slope, is_open):  # type: ignore[no-untyped-def]
    """Return whether no gradient of an open feature exceeds `bound` or is NaN."""
    n_fine = 0
    for j in range(base.shape[0]):
        n_fine += abs(base[j] + lam * slope[j]) * is_open[j] <= bound
    return n_fine == base.shape[0]


@kernel
def next_knot(lam, smallest, state, segment):  # type: ignore[no-untyped-def]
    """Return the feature that enters or -1, the active position that leaves or -1, and their λ."""
    feature, leaving = -1, -1
    nearest = smallest
    meets, sign, refit, direction = segment.meets, segment.sign, segment.refit, segment.direction
    for j in range(meets.shape[0]):
        if meets[j] > nearest:
            nearest, feature = meets[j], j
    for q in range(state.counts[FACTORED]):
        if sign[q] * direction[q] < 0.0:  # the coefficient shrinks as λ decreases
            zero = min(refit[q] / direction[q], lam)
            if zero > nearest:
                nearest, leaving = zero, q
    return feature, leaving, nearest


@kernel
def _write_knot(knots, step, lam, m, rule, state, segment):  # type: ignore[no-untyped-def]
    """Write a knot. Return what `rate` does."""
    n_active = state.counts[FACTORED]
    factored, entered_cross, coef, is_active = state.factored, state.entered_cross, knots.coef, knots.is_active
    sign, refit, direction = segment.sign, segment.refit, segment.direction
    explained, shrunk = 0.0, 0.0
    for q in range(n_active):
        position = factored[q]
        explained += refit[q] * entered_cross[position]
        shrunk += sign[q] * direction[q]
        coef[step, position] = refit[q] - lam * direction[q]
        is_active[step, position] = True
    rss = m.y_variance - explained
    if not rule.refit:
        rss += lam * lam * shrunk
    knots.lambdas[step] = lam
    knots.df[step] = n_active
    knots.rss[step] = max(rss, RSS_FLOOR * m.y_variance)
    return rate(step, step, knots.df, knots.df, knots.rss, m.total, rule.noise / m.total, rule, knots.gic)
