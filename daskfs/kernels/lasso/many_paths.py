"""The paths of many small blocks in one call: what `daskfs.kernels.lasso.path` does for one, by the same kernels.

A call from Python takes a tenth of a millisecond with all that surrounds it, which is what a path of 400 rows takes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.lasso.gram_cache import gather
from daskfs.kernels.lasso.homotopy import COLLINEAR, follow_knots
from daskfs.kernels.lasso.path import default_max_features, gram_capacity, smallest_ratio
from daskfs.kernels.lasso.steps import ENTERED, PathState, Rule, keep_rows, new_rule, new_state
from daskfs.kernels.linear.columns import copy_into
from daskfs.kernels.linear.gram_matrix import WHOLE_GRAM_COLUMNS, moments_and_gram
from daskfs.kernels.linear.moments import moments


class Found(NamedTuple):
    """What so many blocks found, one after the other; what a block has several of, it has as many as a count says."""

    total: np.ndarray
    """Shape (n_blocks,), as are the next five: sum of the weights, moments of the target, counts."""
    y_mean: np.ndarray
    y_variance: np.ndarray
    n_models: np.ndarray
    n_constant: np.ndarray
    n_met: np.ndarray
    least_penalty: np.ndarray
    """Of every model, as is the next."""
    n_selected: np.ndarray
    selected: np.ndarray
    """Of every feature in a model, ascending, as are the next two."""
    coef: np.ndarray
    centre: np.ndarray
    constant: np.ndarray
    """Of every constant column, as is the next."""
    constant_value: np.ndarray
    features: np.ndarray
    """Of every feature whose Gram row is kept, as are the next three."""
    mean: np.ndarray
    scale: np.ndarray
    cross: np.ndarray
    gram_below: np.ndarray
    """Of every pair of these: correlations below the diagonal, row by row."""
    lambdas: np.ndarray
    """Of every knot of the first block, as are the next three."""
    df: np.ndarray
    rss: np.ndarray
    gic: np.ndarray


def follow_blocks(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    bounds: np.ndarray,
    *,
    total: np.ndarray,
    penalty: np.ndarray,
    least: np.ndarray,
    gic_rss: str = "refit",
    patience: int | None = 10,
    max_features: int | None = None,
    sigma2: float | None = None,
    max_cached: int = 64,
) -> Found:
    """Follow the path of every block and choose on it, by `penalty` and by any smaller one down to `least`.

    Parameters
    ----------
    X, y, weight : as `daskfs.kernels.lasso.path.lasso_path` takes them
    bounds : ndarray of shape (n_blocks + 1,), int64
        Block i has rows [bounds[i], bounds[i + 1]).
    total, penalty, least : ndarray of shape (n_blocks,)
        Of the blocks: sums of the weights, penalties of a feature.
    gic_rss, patience, max_features, sigma2, max_cached : as `lasso_path` takes them

    Returns
    -------
    Found
        Of the blocks before the first that has to be looked at by itself: one with a value that is not finite, with a
        target that nothing is related to, or whose homotopy gives up.
    """
    n_features = X.shape[1]
    each, place = np.unique(total, return_inverse=True)
    most = [default_max_features(one, n_features) if max_features is None else max_features for one in each]
    largest = max(most)
    state = new_state(n_features, gram_capacity(n_features, largest), min(largest, n_features) + 16)
    rule = new_rule(0.0, sigma2, gic_rss, patience, largest)
    capacity = np.array([gram_capacity(n_features, one) for one in most])[place]
    ratio = np.array([smallest_ratio(one, n_features) for one in each])[place]
    found: Found = _follow_all(
        X, y, weight, bounds, penalty, least, np.array(most)[place], capacity, ratio, rule, state, max_cached
    )
    return found


@kernel
def _follow_all(X, y, weight, bounds, penalty, least, most, capacity, ratio, rule, state, max_cached):  # type: ignore[no-untyped-def]
    n_blocks, n_features = bounds.shape[0] - 1, X.shape[1]
    n_met = min(max_cached, n_features)
    total, y_mean, y_variance = np.empty(n_blocks), np.empty(n_blocks), np.empty(n_blocks)
    counts = np.zeros((3, n_blocks), np.int64)  # of models, constant columns and features met
    sizes = np.empty(4 * n_blocks, np.int64)
    least_penalty, selected = np.empty(4 * n_blocks), np.empty(64 * n_blocks, np.int64)
    coef, centre = np.empty(64 * n_blocks), np.empty(64 * n_blocks)
    constant, constant_value = np.empty(n_blocks * n_features, np.int64), np.empty(n_blocks * n_features)
    features, mean = np.empty(n_blocks * n_met, np.int64), np.empty(n_blocks * n_met)
    scale, cross = np.empty(n_blocks * n_met), np.empty(n_blocks * n_met)
    below = np.empty(n_blocks * (n_met * (n_met - 1) // 2))
    first = np.empty((3, 0))
    first_df = np.empty(0, np.int64)
    n_models, n_chosen, n_constant, n_features_met, n_below, n_done = 0, 0, 0, 0, 0, 0
    position = np.full(n_features, -1, np.int64)
    for i in range(n_blocks):
        if is_stopped():
            break
        start, stop = bounds[i], bounds[i + 1]
        block, w = X[start:stop], weight[start:stop]
        here = _begin(state, capacity[i])
        if n_features <= min(WHOLE_GRAM_COLUMNS, stop - start):
            m, gram = moments_and_gram(block, y[start:stop], w)
            keep_rows(gram, m.scale, here)
        else:
            m = moments(block, y[start:stop], w)
        largest = _largest(m)
        if not largest > 0.0:
            break
        one = Rule(least[i], rule.noise_variance, rule.refit, rule.patience, most[i])
        knots, n_knots, best, stop_of = follow_knots(block, w, m, one, largest * ratio[i], here, 4 * most[i] + 64)
        if stop_of >= COLLINEAR:
            break
        if i == 0:
            first, first_df = np.empty((3, n_knots)), knots.df[:n_knots].copy()
            copy_into(knots.lambdas[:n_knots], first[0])
            copy_into(knots.rss[:n_knots], first[1])
            copy_into(knots.gic[:n_knots], first[2])

        step = best if penalty[i] <= least[i] else _best_step(knots, n_knots, penalty[i], least[i])
        while step >= 0:
            until, larger = least[i], -1
            if penalty[i] > least[i]:
                until, larger = _next_step(knots, n_knots, step, least[i])
            sizes, least_penalty = _with_room(sizes, n_models + 1), _with_room(least_penalty, n_models + 1)
            sizes[n_models], least_penalty[n_models] = knots.df[step], until
            most_chosen = n_chosen + knots.df[step]
            selected, coef = _with_room(selected, most_chosen), _with_room(coef, most_chosen)
            centre = _with_room(centre, most_chosen)
            for q in range(here.counts[ENTERED]):
                if knots.is_active[step, q]:
                    position[here.entered[q]] = q
            for j in range(n_features):
                if position[j] >= 0:
                    selected[n_chosen] = j
                    coef[n_chosen] = knots.coef[step, position[j]] / m.scale[j]
                    centre[n_chosen] = m.mean[j]
                    position[j] = -1
                    n_chosen += 1
            n_models += 1
            counts[0, i] += 1
            step = larger

        for j in range(n_features):
            if m.scale[j] == 0.0:
                constant[n_constant], constant_value[n_constant] = j, m.mean[j]
                n_constant += 1
                counts[1, i] += 1
        met, met_mean, met_scale, met_cross, met_gram = gather(m.mean, m.scale, m.cross, here, max_cached)
        for q in range(met.shape[0]):
            features[n_features_met], mean[n_features_met] = met[q], met_mean[q]
            scale[n_features_met], cross[n_features_met] = met_scale[q], met_cross[q]
            n_features_met += 1
            for r in range(q):
                below[n_below + r] = met_gram[q, r]
            n_below += q
        counts[2, i] = met.shape[0]
        total[i], y_mean[i], y_variance[i] = m.total, m.y_mean, m.y_variance
        n_done += 1
    return Found(
        total[:n_done], y_mean[:n_done], y_variance[:n_done], counts[0, :n_done], counts[1, :n_done],
        counts[2, :n_done], least_penalty[:n_models], sizes[:n_models], selected[:n_chosen], coef[:n_chosen],
        centre[:n_chosen], constant[:n_constant], constant_value[:n_constant], features[:n_features_met],
        mean[:n_features_met], scale[:n_features_met], cross[:n_features_met], below[:n_below],
        first[0], first_df, first[1], first[2],
    )  # fmt: skip


@kernel
def _begin(state, capacity):  # type: ignore[no-untyped-def]
    """Return the state before the first step, with room for `capacity` Gram rows: what `new_state` returns."""
    state.gradient[:] = 0.0
    state.row_of[:] = -1
    state.is_settled[:] = False
    state.coef[:] = 0.0
    state.factored[:] = -1
    state.counts[:] = 0
    return PathState(
        state.gradient, state.gram[:capacity], state.row_of, state.feature_of, state.is_settled,
        state.entered[:capacity], state.entered_gram, state.entered_cross, state.entered_gradient, state.coef,
        state.factored, state.factor, state.counts, state.norm,
    )  # fmt: skip


@kernel
def _largest(m):  # type: ignore[no-untyped-def]
    """Return the largest λ; 0 where nothing is related to y, or a column is not finite."""
    largest = 0.0
    for j in range(m.scale.shape[0]):
        if math.isnan(m.scale[j]):
            return 0.0
        largest = max(largest, abs(m.cross[j]))
    return largest if largest > 1e-14 * math.sqrt(m.y_variance) else 0.0


@kernel
def _best_step(knots, n_knots, penalty, least):  # type: ignore[no-untyped-def]
    """Return the step that a penalty chooses, the criterion being made with `least`."""
    best, smallest = -1, math.inf
    for s in range(n_knots):
        value = knots.gic[s] - least * knots.df[s] + penalty * knots.df[s]
        if value < smallest:
            best, smallest = s, value
    return best


@kernel
def _next_step(knots, n_knots, step, least):  # type: ignore[no-untyped-def]
    """Return the smallest penalty that chooses a step, and the larger model that smaller penalties choose, or -1."""
    penalty, larger = least, -1
    fit = knots.gic[step] - least * knots.df[step]
    for s in range(n_knots):
        if knots.df[s] > knots.df[step]:
            equal = (fit - (knots.gic[s] - least * knots.df[s])) / (knots.df[s] - knots.df[step])
            if equal > penalty:
                penalty, larger = equal, s
    return penalty, larger


@kernel
def _with_room(values, n):  # type: ignore[no-untyped-def]
    """Return a vector with room for n numbers."""
    if n <= values.shape[0]:
        return values
    longer = np.empty(max(n, 2 * values.shape[0]), values.dtype)
    copy_into(values, longer[: values.shape[0]])
    return longer
