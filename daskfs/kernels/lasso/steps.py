"""The steps of a Lasso path: descend over the entered features, certify all columns, enter the violators.

Everything is in units of the standardised columns; see `daskfs.kernels.lasso.path`. The homotopy shares the state and
the Gram rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.blocks.any_block import make_gram_rows
from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into
from daskfs.kernels.linear.coordinate_descent import OPTIMALITY, descend
from daskfs.kernels.linear.linalg import MIN_PIVOT, extend_cholesky, forward_substitution, solve_cholesky

BATCH = 8  # Gram rows computed in one pass
STEP_TOLERANCE = 1e-12  # of coordinate descent, in standard deviations of y
RSS_FLOOR = 1e-13  # share of the variance of y; below it everything is rounding

GRID_ENDED, OUT_OF_PATIENCE, TOO_MANY_FEATURES, TOO_MANY_GRAM_ROWS = range(4)
ROWS, ENTERED, FACTORED, PASSES, UNSOLVED, FREE = range(6)  # indices of PathState.counts


class Rule(NamedTuple):
    """Selection of a model on the path of any loss, over columns or groups, and stopping."""

    per_df: float  # penalty of a degree of freedom: of a column
    per_group: float  # additional penalty of a group
    noise: float  # σ² or the dispersion; 0 if it is estimated
    refit: bool
    patience: int  # features, or groups, more than the best model, or -1
    max_df: int


def new_rule(
    penalty: float, sigma2: float | None, gic_rss: str, patience: int | None, max_df: int, per_group: float = 0.0
) -> Rule:
    """Return the rule for parameters of `daskfs.kernels.lasso.path.lasso_path`."""
    noise, most_worse = 0.0 if sigma2 is None else float(sigma2), -1 if patience is None else int(patience)
    return Rule(float(penalty), float(per_group), noise, gic_rss == "refit", most_worse, int(max_df))


class PathState(NamedTuple):
    """State shared by the steps of one path.

    `counts` holds the numbers of Gram rows computed, features entered, features factored, passes over the block,
    descents that did not converge, and entered features without a penalty, which come first.
    """

    gradient: np.ndarray  # (p,) ⟨z_j, residual⟩
    gram: np.ndarray  # (capacity, p) rows made so far
    row_of: np.ndarray  # (p,) feature -> row of gram, or -1
    feature_of: np.ndarray  # (capacity,) row of gram -> feature
    is_settled: np.ndarray  # (p,) entered, or equal to an entered column
    entered: np.ndarray  # (capacity,) features in order of entry; the arrays below follow this order
    entered_gram: np.ndarray  # (capacity, capacity)
    entered_cross: np.ndarray  # (capacity,)
    entered_gradient: np.ndarray  # (capacity,)
    coef: np.ndarray  # (capacity,)
    factored: np.ndarray  # (k,) positions of the entered features whose Cholesky factor is in `factor`
    factor: np.ndarray  # (k, k)
    counts: np.ndarray  # (6,)
    norm: np.ndarray  # (p,) √⟨z_j, z_j⟩: 1, or the weight of the column, at most 1


def new_state(n_features: int, capacity: int, largest_model: int, column_weight: np.ndarray | None = None) -> PathState:
    """Return the initial state, with room for `capacity` Gram rows and models of `largest_model` features."""
    return PathState(
        gradient=np.zeros(n_features),
        gram=np.empty((capacity, n_features)),  # memory pages are used only when rows are computed
        row_of=np.full(n_features, -1, dtype=np.int64),
        feature_of=np.zeros(capacity, dtype=np.int64),
        is_settled=np.zeros(n_features, dtype=np.bool_),
        entered=np.zeros(capacity, dtype=np.int64),
        entered_gram=np.empty((capacity, capacity)),
        entered_cross=np.zeros(capacity),
        entered_gradient=np.zeros(capacity),
        coef=np.zeros(capacity),
        factored=np.full(largest_model, -1, dtype=np.int64),
        factor=np.zeros((largest_model, largest_model)),
        counts=np.zeros(6, dtype=np.int64),
        norm=np.ones(n_features) if column_weight is None else column_weight,
    )


@kernel
def rate(first, step, df, n_units, fit, total, noise, rule, gic):  # type: ignore[no-untyped-def]
    """Write the criterion of the models from `first` to `step`. Return the best so far, and whether patience ended.

    `fit` is the deviance and `noise` its dispersion, or the mean squared residual with a noise of 0.
    """
    for s in range(first, step + 1):
        gic[s] = (fit[s] / noise if noise > 0.0 else total * math.log(fit[s])) + rule.per_df * df[s]
        gic[s] += rule.per_group * n_units[s]
    best = 0
    for s in range(step + 1):
        if gic[s] < gic[best]:
            best = s
    return best, rule.patience >= 0 and n_units[step] > n_units[best] + rule.patience


@kernel
def offer(item, size, n_found, found, sizes):  # type: ignore[no-untyped-def]
    """Insert an item into those of largest sizes, in this order. Return their number.

    Sizes count as ties up to rounding, so that all subsets prefer the same one of two equal columns: the first.
    """
    n = found.shape[0]
    if n_found == n and size <= sizes[n - 1]:
        return n
    place = min(n_found, n - 1)
    while place > 0 and sizes[place - 1] * OPTIMALITY < size:
        sizes[place], found[place] = sizes[place - 1], found[place - 1]
        place -= 1
    sizes[place], found[place] = size, item
    return min(n_found + 1, n)


@kernel
def restart(state):  # type: ignore[no-untyped-def]
    """Discard a path, but keep its Gram rows."""
    state.is_settled[:] = False
    state.coef[:] = 0.0
    state.counts[ENTERED] = 0
    state.counts[FACTORED] = 0
    state.counts[FREE] = 0


@kernel
def hold(X, weight, m, free, state):  # type: ignore[no-untyped-def]
    """Enter the features without a penalty and fit y on them. `state.gradient` becomes that of the residual.

    Features that are constant or depend on earlier ones are left out. Call this before any other feature has entered.
    """
    missing = np.empty(free.shape[0], np.int64)
    n_missing = 0
    for j in free:
        state.is_settled[j] = True
        if state.row_of[j] < 0 and m.scale[j] > 0.0:
            missing[n_missing] = j
            n_missing += 1
    for first in range(0, n_missing, BATCH):
        make_rows(X, weight, m, missing[first : min(first + BATCH, n_missing)], state)
    for j in free:
        q = state.counts[ENTERED]
        if m.scale[j] > 0.0:
            enter(state, j, m.cross[j])
            state.factored[q] = q
            if extend_cholesky(state.entered_gram, state.factored, q + 1, q, state.factor) <= q:
                state.counts[ENTERED] = q
    n_free = state.counts[ENTERED]
    state.counts[FREE] = n_free
    state.counts[FACTORED] = n_free
    solve_cholesky(state.factor, n_free, state.entered_cross, state.coef)
    _update_gradient(state, m.cross)


@kernel
def follow(X, weight, m, lambdas, rule, state):  # type: ignore[no-untyped-def]
    """Return df, RSS, GIC and coefficients at each λ, the number of λ, the best of them, and why the path ended."""
    n_lambdas = lambdas.shape[0]
    df = np.zeros(n_lambdas, np.int64)
    rss = np.zeros(n_lambdas)
    gic = np.zeros(n_lambdas)
    coef = np.zeros((n_lambdas, state.coef.shape[0]))
    tolerance = STEP_TOLERANCE * math.sqrt(m.y_variance)
    best = -1
    for step in range(n_lambdas):
        if is_stopped():
            break
        while True:
            is_solved = descend(
                state.entered_gram, state.counts[ENTERED], state.counts[FREE], state.entered_gradient, state.coef,
                lambdas[step], tolerance,
            )  # fmt: skip
            state.counts[UNSOLVED] += not is_solved
            _update_gradient(state, m.cross)
            n_added = _admit(X, weight, m, lambdas[step], state)
            if n_added <= 0 or is_stopped():
                break
        if n_added < 0:
            return df, rss, gic, coef, step, best, TOO_MANY_GRAM_ROWS
        n_active = _count_active(state)
        if n_active > rule.max_df:
            return df, rss, gic, coef, step, best, TOO_MANY_FEATURES
        df[step] = n_active
        rss[step] = _residual_variance(state, m.y_variance, rule.refit)
        copy_into(state.coef, coef[step])
        best, is_over = rate(step, step, df, df, rss, m.total, rule.noise / m.total, rule, gic)
        if is_over:
            return df, rss, gic, coef, step + 1, best, OUT_OF_PATIENCE
    return df, rss, gic, coef, n_lambdas, best, GRID_ENDED


@kernel
def _factor_active(state):  # type: ignore[no-untyped-def]
    """Update the Cholesky factor to the active features. Return their number and rank; a rank of -1 means too many."""
    n_active = 0
    n_kept = 0
    for q in range(state.counts[ENTERED]):
        if state.coef[q] != 0.0 or q < state.counts[FREE]:
            if n_active >= state.factored.shape[0]:
                state.counts[FACTORED] = 0
                return n_active, -1
            if n_kept == n_active and n_active < state.counts[FACTORED] and state.factored[n_active] == q:
                n_kept += 1
            state.factored[n_active] = q
            n_active += 1
    state.counts[FACTORED] = n_active
    rank = extend_cholesky(state.entered_gram, state.factored, n_active, n_kept, state.factor)
    return n_active, rank


@kernel
def _update_gradient(state, cross):  # type: ignore[no-untyped-def]
    gradient = state.gradient
    copy_into(cross, gradient)
    for q in range(state.counts[ENTERED]):
        coef = state.coef[q]
        if coef != 0.0:
            _subtract(gradient, coef, state.gram[state.row_of[state.entered[q]]])
    for q in range(state.counts[ENTERED]):
        state.entered_gradient[q] = gradient[state.entered[q]]


@inner_loop
def _subtract(gradient, coef, gram_row):  # type: ignore[no-untyped-def]
    for j in range(gradient.shape[0]):
        gradient[j] -= coef * gram_row[j]


@kernel
def _admit(X, weight, m, lam, state):  # type: ignore[no-untyped-def]
    """Settle the largest violators of |gradient| <= λ. Return their number, or -1 without room for their Gram rows."""
    violators = _largest_gradients(state, m.scale, lam * OPTIMALITY, state.is_settled)
    missing = False
    for j in violators:
        missing = missing or state.row_of[j] < 0
    if missing:
        batch = _largest_gradients(state, m.scale, 0.0, state.row_of >= 0)
        make_rows(X, weight, m, batch[: state.gram.shape[0] - state.counts[ROWS]], state)
    for j in violators:
        if state.row_of[j] < 0:
            return -1
        state.is_settled[j] = True
        if not _has_twin(state, j):
            enter(state, j, m.cross[j])
    return violators.shape[0]


@kernel
def make_rows(X, weight, m, features, state):  # type: ignore[no-untyped-def]
    """Compute the Gram rows of a few features in one pass over the block."""
    n_rows = state.counts[ROWS]
    make_gram_rows(X, weight, m, features, state.gram[n_rows : n_rows + features.shape[0]])
    for b in range(features.shape[0]):
        state.row_of[features[b]] = n_rows + b
        state.feature_of[n_rows + b] = features[b]
    state.counts[ROWS] += features.shape[0]
    state.counts[PASSES] += 1


@kernel
def keep_rows(gram, scale, state):  # type: ignore[no-untyped-def]
    """Store the Gram rows of all columns, computed in one pass."""
    kept, row_of, feature_of, row = state.gram, state.row_of, state.feature_of, state.counts[ROWS]
    for j in range(scale.shape[0]):
        if scale[j] > 0.0:
            for k in range(scale.shape[0]):
                kept[row, k] = gram[j, k]
            row_of[j], feature_of[row] = row, j
            row += 1
    state.counts[ROWS] = row
    state.counts[PASSES] += 1


@kernel
def _has_twin(state, feature):  # type: ignore[no-untyped-def]
    """Return whether an entered feature is equal up to sign (as dummies of two categories are) and represents both."""
    gram_row = state.gram[state.row_of[feature]]
    largest = 0.0
    for q in range(state.counts[ENTERED]):
        largest = max(largest, abs(gram_row[state.entered[q]]))
    return largest > 1.0 - 0.5 * MIN_PIVOT


@kernel
def _largest_gradients(state, scale, threshold, excluded):  # type: ignore[no-untyped-def]
    """Return up to `BATCH` features with |gradient| > threshold, largest first."""
    found, sizes, n_found = np.empty(BATCH, np.int64), np.empty(BATCH), 0
    for j in range(scale.shape[0]):
        size = abs(state.gradient[j])
        if size > threshold and not excluded[j] and scale[j] > 0.0:
            n_found = offer(j, size, n_found, found, sizes)
    return found[:n_found]


@kernel
def enter(state, feature, cross):  # type: ignore[no-untyped-def]
    """Append a feature with a known Gram row to the entered ones."""
    q = state.counts[ENTERED]
    state.entered[q] = feature
    gram_row = state.gram[state.row_of[feature]]
    for r in range(q):
        state.entered_gram[q, r] = gram_row[state.entered[r]]
        state.entered_gram[r, q] = gram_row[state.entered[r]]
    state.entered_gram[q, q] = state.norm[feature] * state.norm[feature]
    state.entered_cross[q] = cross
    state.entered_gradient[q] = state.gradient[feature]
    state.coef[q] = 0.0
    state.counts[ENTERED] = q + 1


@kernel
def _count_active(state):  # type: ignore[no-untyped-def]
    n_active = 0
    for q in range(state.counts[ENTERED]):
        if state.coef[q] != 0.0 or q < state.counts[FREE]:
            n_active += 1
    return n_active


@kernel
def _residual_variance(state, y_variance, refit):  # type: ignore[no-untyped-def]
    """Return ⟨residual, residual⟩ of the refit on the active features, or of the Lasso fit."""
    explained = 0.0
    if refit:
        n_active, _ = _factor_active(state)
        right = np.empty(n_active)
        for q in range(n_active):
            right[q] = state.entered_cross[state.factored[q]]
        explained = forward_substitution(state.factor, n_active, right, np.empty(n_active))
    else:
        for q in range(state.counts[ENTERED]):
            explained += state.coef[q] * (state.entered_cross[q] + state.entered_gradient[q])
    return max(y_variance - explained, RSS_FLOOR * y_variance)
