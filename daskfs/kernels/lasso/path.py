"""The Lasso path of one row block, and the model on it chosen by a generalised information criterion.

The path minimises, over coefficients of the standardised columns z_j,

    ½ ⟨y - Σ z_j b_j, y - Σ z_j b_j⟩ + λ Σ |b_j|

for decreasing λ. The homotopy (`daskfs.kernels.lasso.homotopy`) follows it exactly from knot to knot: every model of
the path is seen once. If the homotopy gives up, or if a grid of λ is given, the path is computed on the grid by
coordinate descent with covariance updates (Friedman, Hastie and Tibshirani 2010) on the features entered so far; once
the signs are stable, the solution for these signs is computed exactly. Both certify the optimality conditions for all p
columns from cached Gram rows. A missing Gram row costs a pass over the block, so each pass computes several: those
needed and, as a guess, those needed next. With many rows and few columns, one pass computes all. For sparse blocks only
the columns near λ have Gram rows (`daskfs.kernels.lasso.near_columns`). The refit of the chosen model needs no further
pass (`daskfs.kernels.lasso.gram_cache`). Columns without a penalty are in the model before the path begins
(`daskfs.kernels.lasso.steps.hold`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.blocks.any_block import block_moments
from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.kernels.blocks.dense_block import DenseBlock, as_block
from daskfs.kernels.lasso.gram_cache import GramCache, cache_gram
from daskfs.kernels.lasso.homotopy import COLLINEAR, Knots, follow_knots
from daskfs.kernels.lasso.near_columns import follow_near_knots
from daskfs.kernels.lasso.result import STOPS, LassoPath
from daskfs.kernels.lasso.steps import (
    BATCH,
    ENTERED,
    FREE,
    PASSES,
    UNSOLVED,
    PathState,
    Rule,
    follow,
    hold,
    keep_rows,
    new_rule,
    new_state,
    restart,
)
from daskfs.kernels.linear.gram_matrix import WHOLE_GRAM_COLUMNS, moments_and_gram, wants_whole_gram
from daskfs.kernels.linear.moments import Moments, weighed

GRAM_NBYTES = 256 << 20
MOST_SCREENED = 1024
"""Largest model of a screened path by default: the path and its Gram rows then take a GiB."""
GIVEN_UP = ("collinear columns", "contradictory entries", "conditions of optimality", "too many knots")


def default_max_features(n_samples: float, n_features: int, *, screened: bool = False) -> int:
    """Return the largest model that may be chosen: ``n / (2 log p)``, fewer if Gram rows would exceed 256 MiB.

    Gram rows of a screened path have only the columns near it: such a model has at most `MOST_SCREENED` columns.

    Without a bound, the logarithm of the residual tends to minus infinity as the model approaches n features, and so
    does the criterion.
    """
    by_samples = int(n_samples / (2.0 * math.log(n_features))) if n_features > 1 else n_features
    by_memory = MOST_SCREENED if screened else max(64, GRAM_NBYTES // (16 * n_features))
    return max(1, min(by_samples, by_memory, n_features))


def gram_capacity(n_features: int, max_features: int) -> int:
    """Return the number of Gram rows that a path may compute. Features also leave, and some rows are guesses."""
    return n_features if n_features <= WHOLE_GRAM_COLUMNS else min(n_features, 2 * max_features + 8 * BATCH)


def knot_capacity(max_features: int) -> int:
    """Return the number of knots after which the homotopy gives up: features enter, and some leave again."""
    return 4 * max_features + 64


def path_nbytes(
    n_samples: int, n_features: int, n_lambdas: int, max_features: int, n_entries: int | None = None
) -> int:
    """Return the peak memory in bytes of `lasso_path` in addition to its block, with `n_entries` entries or dense."""
    rows = gram_capacity(n_features, max_features)
    per_feature = rows + 20
    n_steps = n_lambdas + 2 * knot_capacity(max_features)
    small = rows * (3 * rows + 2 * n_steps) + 2 * (max_features + 16) ** 2
    by_rows = 0 if n_entries is None else 12 * n_entries + 8 * (n_samples + 1)
    return 8 * (n_features * per_feature + small + n_samples * (BATCH + 3)) + by_rows


def lasso_path(
    X: np.ndarray | ColumnEntries,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    penalty: float,
    lambdas: np.ndarray | None = None,
    n_lambdas: int = 100,
    min_ratio: float | None = None,
    gic_rss: str = "refit",
    patience: int | None = 10,
    max_features: int | None = None,
    sigma2: float | None = None,
    solver: str = "homotopy",
    max_cached: int | None = None,
    column_weight: np.ndarray | None = None,
    free: np.ndarray | None = None,
) -> LassoPath:
    """Follow the Lasso path of one block and select a model by ``n log(RSS / n) + penalty |M|``.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered and writable; or ColumnEntries
        Not modified. A column that is not finite never enters (its `moments.scale` is NaN).
    y, weight : ndarray of shape (n_samples,), float64
        A row of weight 2 counts twice, one of weight 0 not at all.
    penalty : float
        Penalty of one feature, from `criteria.feature_penalty`.
    lambdas : ndarray, optional
        A decreasing grid, followed by descent.
    n_lambdas : int
        Length of the grid if descent chooses it: evenly spaced in the logarithm, from the smallest λ without a
        penalised feature.
    min_ratio : float, optional
        Ratio of the smallest to the largest λ: by default 1e-2 if there are fewer samples than features, else 1e-4.
    gic_rss : {"refit", "lasso"}
        Whether the criterion uses the residuals of the least-squares refit or of the shrunk Lasso fit.
    patience : int, optional
        Stop when the models have this many features more than the best one; None follows the path to its end.
    max_features : int, optional
        Stop when a model has more features, free ones included; by default `default_max_features` plus the free ones.
    sigma2 : float, optional
        σ², if known: the criterion is then ``RSS / σ² + penalty |M|``.
    solver : {"homotopy", "descent"}
        The homotopy falls back to descent if it gives up; the result says so.
    max_cached : int, optional
        Maximum number of features whose Gram rows are kept for a refit, in order of computation; None keeps all.
    column_weight : ndarray of shape (n_features,), float64, optional
        Above 0, at most 1. The penalty of a column is λ divided by its weight.
    free : ndarray of shape (n_free,), int64, ascending, optional
        Columns without a penalty, like the intercept. They are in every model, except those that are constant or depend
        on earlier ones. Models count them.

    Returns
    -------
    LassoPath
    """
    is_narrow = not isinstance(X, ColumnEntries) and wants_whole_gram(*X.shape)
    m, gram = moments_and_gram(X, y, weight) if is_narrow else (block_moments(X, y, weight), None)
    m, n_features, block = weighed(m, column_weight), X.shape[1], as_block(X)
    free = np.empty(0, dtype=np.int64) if free is None else free
    if max_features is None:
        max_features = min(default_max_features(m.total, n_features) + len(free), n_features)
    rule = new_rule(penalty, sigma2, gic_rss, patience, max_features)
    capacity, largest_model = gram_capacity(n_features, max_features), min(max_features, n_features) + 16
    is_related = lambda_range(m, n_features, min_ratio)[0] > 0.0
    is_exact = lambdas is None and solver == "homotopy" and is_related
    given_up = ""
    if is_exact and isinstance(X, ColumnEntries):
        norm = np.ones(n_features) if column_weight is None else column_weight
        ratio = smallest_ratio(m.total, n_features) if min_ratio is None else min_ratio
        varying = free[m.scale[free] > 0.0]
        path = _by_near_columns(X, y, weight, m, norm, rule, ratio, varying, capacity, largest_model, max_cached)
        if not path.given_up:
            return path
        given_up = path.given_up
    state = new_state(n_features, capacity, largest_model, column_weight)
    if is_narrow:
        if column_weight is not None:
            gram *= column_weight[:, None] * column_weight
        keep_rows(gram, m.scale, state)
    grid = Grid(lambdas, n_lambdas, min_ratio, n_features)
    return follow_path(block, weight, m, free, rule, grid, is_exact and not given_up, given_up, state, max_cached)


class Grid(NamedTuple):
    """Which λ a path visits if it is not followed from knot to knot, and where it ends."""

    lambdas: np.ndarray | None
    """Decreasing; None: chosen from the next three."""
    n_lambdas: int
    min_ratio: float | None
    n_features: int
    """Number of all columns, which may be more than those of the path."""
    lowest: float = 0.0
    """The path does not go below this λ."""


def follow_path(
    block: DenseBlock | ColumnEntries,
    weight: np.ndarray,
    m: Moments,
    free: np.ndarray,
    rule: Rule,
    grid: Grid,
    is_exact: bool,
    given_up: str,
    state: PathState,
    max_cached: int | None,
) -> LassoPath:
    """Follow a path from its beginning: from knot to knot if `is_exact`, or on the grid if this gives up."""
    is_related = lambda_range(m, grid.n_features, grid.min_ratio)[0] > 0.0
    held = free if is_related else free[:0]
    state.gradient[:] = m.cross
    if len(held):
        hold(block, weight, m, held, state)
    left = np.where(state.is_settled, 0.0, state.gradient)
    largest, smallest = lambda_range(m._replace(cross=left), grid.n_features, grid.min_ratio)
    if is_exact and is_related:
        path = by_homotopy(block, weight, m, rule, max(smallest, _noise(m), grid.lowest), state, max_cached)
        if not path.given_up:
            return path
        given_up = path.given_up
        restart(state)
        state.gradient[:] = m.cross
        if len(held):
            hold(block, weight, m, held, state)
    lambdas = grid.lambdas
    if lambdas is None and largest > 0.0:
        lambdas = lambda_grid(largest, m.total, grid.n_features, grid.n_lambdas, grid.min_ratio)
    elif lambdas is None:
        lambdas = np.full(min(1, len(held)), _noise(m))  # free columns only
    lambdas = lambdas[: max(1, np.count_nonzero(lambdas >= grid.lowest))]
    return by_descent(block, weight, m, lambdas, rule, state, given_up, max_cached)


def by_descent(
    X: DenseBlock | ColumnEntries,
    weight: np.ndarray,
    m: Moments,
    lambdas: np.ndarray,
    rule: Rule,
    state: PathState,
    given_up: str,
    max_cached: int | None,
) -> LassoPath:
    """Follow the path on a grid."""
    df, rss, gic, coef, n_followed, best, stop = follow(X, weight, m, lambdas, rule, state)
    keep, entered = slice(n_followed), slice(int(state.counts[ENTERED]))
    coef = coef[keep, entered].copy()
    is_active = coef != 0.0
    is_active[:, : state.counts[FREE]] = True
    return LassoPath(
        m, lambdas[keep], df[keep], rss[keep], gic[keep], state.entered[entered].copy(), coef,
        np.full(n_followed, m.y_mean), is_active, best, STOPS[stop], given_up=given_up,
        gram=cache_gram(m, state, max_cached), n_passes=int(state.counts[PASSES]),
        n_unsolved=int(state.counts[UNSOLVED]),
    )  # fmt: skip


def by_homotopy(
    X: DenseBlock | ColumnEntries,
    weight: np.ndarray,
    m: Moments,
    rule: Rule,
    smallest: float,
    state: PathState,
    max_cached: int | None,
) -> LassoPath:
    """Follow the path from knot to knot."""
    knots, n_knots, best, stop = follow_knots(X, weight, m, rule, smallest, state, knot_capacity(rule.max_df))
    entered, n_passes = state.entered[: state.counts[ENTERED]].copy(), int(state.counts[PASSES])
    return _path_of(m, knots, n_knots, best, stop, entered, n_passes, cache_gram(m, state, max_cached))


def _by_near_columns(
    X: ColumnEntries,
    y: np.ndarray,
    weight: np.ndarray,
    m: Moments,
    norm: np.ndarray,
    rule: Rule,
    ratio: float,
    free: np.ndarray,
    capacity: int,
    largest_model: int,
    max_cached: int | None,
) -> LassoPath:
    knots, n_knots, best, stop, features, of_near, state, n_passes = follow_near_knots(
        X, y, weight, m, norm, rule, ratio, _noise(m), free, capacity, largest_model, knot_capacity(rule.max_df)
    )
    entered, cache = features[state.entered[: state.counts[ENTERED]]], cache_gram(of_near, state, max_cached)
    cache = cache._replace(features=features[cache.features])
    return _path_of(m, knots, n_knots, best, stop, entered, n_passes, cache)


def _path_of(
    m: Moments, knots: Knots, n_knots: int, best: int, stop: int, entered: np.ndarray, n_passes: int, cache: GramCache
) -> LassoPath:
    keep, places = slice(n_knots), slice(len(entered))
    given_up = GIVEN_UP[stop - COLLINEAR] if stop >= COLLINEAR else ""
    return LassoPath(
        m, knots.lambdas[keep], knots.df[keep], knots.rss[keep], knots.gic[keep], entered,
        knots.coef[keep, places].copy(), np.full(n_knots, m.y_mean), knots.is_active[keep, places].copy(), best,
        "" if given_up else STOPS[stop], gram=cache, solver="homotopy", given_up=given_up, n_passes=n_passes,
    )  # fmt: skip


def lambda_range(m: Moments, n_features: int, min_ratio: float | None) -> tuple[float, float]:
    """Return the largest and the smallest λ of the path; 0 if nothing is correlated with y."""
    largest = float(np.max(np.abs(m.cross), initial=0.0))
    if largest <= _noise(m):
        return 0.0, 0.0
    return largest, largest * (smallest_ratio(m.total, n_features) if min_ratio is None else min_ratio)


def _noise(m: Moments) -> float:
    """Return the largest gradient that may be a rounding error."""
    return 1e-14 * math.sqrt(m.y_variance)


def smallest_ratio(n_samples: float, n_features: int) -> float:
    """Return the default ratio of the smallest to the largest λ of a path."""
    return 1e-2 if n_samples < n_features else 1e-4


def lambda_grid(
    largest: float, n_samples: float, n_features: int, n_lambdas: int, min_ratio: float | None
) -> np.ndarray:
    """Return a decreasing grid from the smallest λ without a feature, even in the logarithm; empty if that λ is 0."""
    if not largest > 0.0:
        return np.empty(0)
    ratio = smallest_ratio(n_samples, n_features) if min_ratio is None else min_ratio
    return largest * ratio ** np.linspace(0.0, 1.0, n_lambdas)
