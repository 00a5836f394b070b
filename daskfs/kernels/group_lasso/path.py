"""The group Lasso path of one row block, and the model on it chosen by a generalised information criterion.

For a decreasing grid of λ the path minimises, over an intercept b_0 and coefficients of the orthonormal columns Q_g of
each group (`daskfs.kernels.group_lasso.groups`),

    Σ_i w_i loss(b_0 + Σ_g (Q_g b_g)_i, y_i) / Σ_i w_i + λ Σ_g √rank_g ‖b_g‖

by descent over the groups that have entered (Yuan and Lin 2006). As in grpreg and grplasso, the columns of a group are
first orthonormalised, so that the choice of columns that represent a group does not matter. A bound certifies that the
other groups may stay out: ‖Q_gᵀ r‖ cannot have changed by more than the residuals. For groups of one column each, this
is the Lasso path of `daskfs.kernels.lasso.path` and `daskfs.kernels.glm.path` on a grid.

With the squared loss, the path of a narrow block uses only its correlations, computed in one pass. The criterion is ``n
log(RSS / n)``, or the deviance over the dispersion, plus a price per degree of freedom and per group. The degrees of
freedom of the refit are the ranks of its groups; for the shrunk fit they follow Yuan and Lin.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.blocks.any_block import block_moments, rows_of_weight
from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.kernels.blocks.dense_block import as_block
from daskfs.kernels.glm.newton import new_problem
from daskfs.kernels.glm.null_model import fit_null_model
from daskfs.kernels.glm.path import ABOVE, COLUMNS_NBYTES
from daskfs.kernels.group_lasso.descent import reach_of_groups
from daskfs.kernels.group_lasso.groups import (
    ColumnGroups,
    Orthonormal,
    made_orthonormal,
    orthonormal_gram,
)
from daskfs.kernels.group_lasso.screening import measure, take_positions
from daskfs.kernels.group_lasso.state import (
    ENTERED,
    KNOWN,
    KNOWN_DIRECTIONS,
    PASSES,
    POSITIONS,
    SEPARABLE_REFITS,
    UNSOLVED,
    GroupState,
    new_state,
)
from daskfs.kernels.group_lasso.steps import begin, follow
from daskfs.kernels.lasso.gram_cache import GramCache
from daskfs.kernels.lasso.path import lambda_grid
from daskfs.kernels.lasso.result import STOPS, LassoPath
from daskfs.kernels.lasso.steps import new_rule
from daskfs.kernels.linear.gram_matrix import moments_and_gram, wants_whole_gram
from daskfs.kernels.linear.gram_tiles import BAND_ROWS
from daskfs.kernels.linear.moments import Moments
from daskfs.kernels.losses import saturated_values
from daskfs.losses import find_loss

SPARE = 64  # columns that may enter in addition to twice the largest model


def default_max_columns(n_samples: float, n_features: int, n_groups: int) -> int:
    """Return the number of columns of the largest model that may be chosen, for groups with p / G columns on average.

    The model has up to ``n / (2 log G)`` groups, as for the Lasso, but at most n / 3 columns: with three times as many
    samples as columns, a noise column lowers the logarithm of the residual by less than any criterion's penalty. It is
    smaller if copies would exceed 256 MiB, as in `daskfs.kernels.glm.path.default_max_features`.
    """
    by_samples = int(n_samples / max(3.0, 2.0 * math.log(n_groups) * n_groups / n_features)) if n_groups else 1
    return max(1, min(by_samples, n_features, max(64, int(COLUMNS_NBYTES / (16.0 * n_samples)))))


def entered_capacity(n_features: int, max_columns: int) -> int:
    """Return the number of columns that may enter. It is larger than a model, because groups also leave."""
    return min(n_features, 2 * max_columns + SPARE)


def group_path_nbytes(
    n_samples: int, n_features: int, sizes: np.ndarray, n_lambdas: int, max_columns: int, n_entries: int | None = None
) -> int:
    """Return the peak memory in bytes of `group_path` in addition to its block, with `n_entries` entries or dense."""
    of_factors = int((sizes[sizes <= 2 * max_columns].astype(np.float64) ** 2).sum())
    largest = int(min(sizes.max(initial=1), 2 * max_columns))
    capacity = entered_capacity(n_features, max_columns)
    square = 4 * (capacity + 8) ** 2 + (max_columns + 2) ** 2 * 3 + 2 * (capacity + BAND_ROWS) * BAND_ROWS
    copies = n_samples * (max(capacity, largest) + largest + 30)
    if n_entries is None and wants_whole_gram(n_samples, n_features):
        square += 4 * n_features**2
    by_rows = 0 if n_entries is None else 12 * n_entries
    return 8 * (copies + of_factors + square + 2 * largest**2 + n_lambdas * (capacity + 8) + 21 * n_features) + by_rows


def group_path(
    X: np.ndarray | ColumnEntries,
    y: np.ndarray,
    weight: np.ndarray,
    groups: ColumnGroups,
    *,
    loss: str,
    per_column: float,
    per_group: float = 0.0,
    threshold: float | None = None,
    sigma2: float | None = None,
    lambdas: np.ndarray | None = None,
    n_lambdas: int = 100,
    min_ratio: float | None = None,
    gic_rss: str = "refit",
    patience: int | None = 10,
    max_columns: int | None = None,
    tol: float = 1e-6,
    max_cached: int | None = None,
    free: np.ndarray | None = None,
) -> LassoPath:
    """Follow the group Lasso path of one block and select a model.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered and writable; or ColumnEntries
        Not modified. If a column is not finite, there is no path (its `moments.scale` is NaN).
    y : ndarray of shape (n_samples,), float64
        -1 or +1 for the logistic loss, non-negative for the Poisson loss.
    weight : ndarray of shape (n_samples,), float64
        A row of weight 2 counts twice, one of weight 0 not at all.
    groups : ColumnGroups
    loss : {"squared", "logistic", "poisson", "huber"}
    per_column, per_group : float
        Penalties of the criterion for a degree of freedom and, in addition, for a group.
    threshold, sigma2, lambdas, n_lambdas, min_ratio, gic_rss, tol
        See `daskfs.kernels.glm.path.glm_path`; for ``sigma2`` of the squared loss
        `daskfs.kernels.lasso.path.lasso_path`.
    patience : int, optional
        Stop when the models have this many groups more than the best one; None follows the whole grid.
    max_columns : int, optional
        Stop when a model has more degrees of freedom, free ones included; by default `default_max_columns` plus the
        free ones.
    max_cached : int, optional
        Maximum number of columns whose correlations are kept for a refit; None keeps those of all entered groups.
    free : ndarray of shape (n_free,), int64, ascending, optional
        Groups without a penalty, like the intercept. They are in every model, and models count them.

    Returns
    -------
    LassoPath
    """
    X, y, weight = rows_of_weight(X, y, weight)
    record, total, n_features, n_groups = find_loss(loss), float(weight.sum()), X.shape[1], len(groups.bounds) - 1
    free = np.empty(0, dtype=np.int64) if free is None else free
    if max_columns is None:
        max_columns = default_max_columns(total, n_features, n_groups) + int(groups.sizes[free].sum())
    is_squared, block = record.is_quadratic, as_block(X)
    is_whole = is_squared and not isinstance(X, ColumnEntries) and wants_whole_gram(*X.shape)
    problem = new_problem(record, threshold, y, weight)
    capacity = n_features if is_whole else entered_capacity(n_features, max_columns)
    state, gram = new_state(len(y), n_features, n_groups, capacity, max_columns, is_whole), None
    if is_whole:
        m, gram = moments_and_gram(X, y, weight)
        state.coef[0], has_null = m.y_mean, m.y_variance > 0.0
    else:
        has_null = fit_null_model(problem, state.coef, state.at)
        of = y if is_squared else state.at.residual / problem.share
        m = block_moments(X, of, weight)
    if not has_null or np.isnan(m.scale).any():
        none = made_orthonormal(ColumnGroups(groups.members[:0], groups.bounds[:1]), m, block, problem.share, None, 1)
        empty = np.empty((0, len(state.coef)))
        cache = _cache(m, none, state, gram, empty, 0) if is_squared else None
        nothing, no_groups = np.empty(0), np.empty(0, dtype=np.int64)
        return LassoPath(
            m, nothing, no_groups, nothing, nothing, no_groups, empty[:, 1:], nothing, np.empty((0, 0), dtype=bool), -1,
            STOPS[0], loss, problem.threshold, "rss" if is_squared else "deviance", none, cache,
        )  # fmt: skip
    of_block = made_orthonormal(groups, m, block, problem.share, gram, max_columns)
    price = of_block.price.copy()
    price[free] = 0.0
    of_block = of_block._replace(price=price)
    _start(of_block, m, problem.share, gram, state)
    if len(free):
        begin(block, problem, m.y_variance, m.mean, m.scale, of_block, free, total, float(tol), state)
    if lambdas is None:
        sizes = np.divide(state.reference_size, of_block.price, out=np.zeros(n_groups), where=of_block.price > 0.0)
        largest = float(sizes.max(initial=0.0)) * (ABOVE if len(free) else 1.0)
        is_noise = not largest > 1e-14 * math.sqrt(m.y_variance)
        lambdas = lambda_grid(0.0 if is_noise else largest, total, n_features, n_lambdas, min_ratio)
        if not len(lambdas):
            lambdas = np.full(min(1, len(free)), 1e-14 * math.sqrt(m.y_variance))  # free groups only
    rule = new_rule(per_column, sigma2, gic_rss, patience, max_columns, per_group)
    saturated = float(weight @ saturated_values(record.code, y))
    found = follow(
        block, problem, m.y_variance, m.mean, m.scale, of_block, lambdas, rule, total, saturated, float(tol), state
    )
    cache = (
        _cache(m, of_block, state, gram, found[3][: found[4]], n_features if max_cached is None else max_cached)
        if is_squared
        else None
    )
    df, fit, gic, coef, n_followed, best, stop, noise = found
    keep, counts = slice(n_followed), state.counts
    n_entered, coef = int(counts[ENTERED]), coef[keep, : counts[POSITIONS] + 1]
    shrunk = coef[:, 1:].copy()
    starts = state.starts[:n_entered]
    is_active = np.add.reduceat(shrunk != 0.0, starts, axis=1) > 0 if n_entered else np.empty((n_followed, 0), bool)
    return LassoPath(
        m, lambdas[keep], df[keep] if gic_rss == "lasso" else df[keep].astype(np.int64), fit[keep], gic[keep],
        state.entered[:n_entered].copy(), shrunk, coef[:, 0].copy(), is_active, best, STOPS[stop], loss,
        problem.threshold, "rss" if is_squared else "deviance", of_block, cache, dispersion=noise,
        n_separable=int(counts[SEPARABLE_REFITS]), n_passes=int(counts[PASSES]), n_unsolved=int(counts[UNSOLVED]),
    )  # fmt: skip


def _start(groups: Orthonormal, m: Moments, share: np.ndarray, gram: np.ndarray | None, state: GroupState) -> None:
    """Set the state to the null model: gradients of all columns, or with all correlations, all groups."""
    state.is_settled[:] = groups.rank == 0
    measure(groups, m.cross, state)
    state.reference_residual[:] = state.null_residual[:] = state.at.residual
    state.base[0] = state.coef[0]
    if gram is None:
        length = math.sqrt(float(state.null_residual**2 @ (1.0 / share)))
        if length > 0.0:  # the first direction is the residual itself: along a path it mostly shrinks
            np.divide(state.null_residual, length * share, out=state.directions[0])
            np.divide(state.reference, length, out=state.images[0])
            state.counts[KNOWN_DIRECTIONS] = 1
        return
    for g in np.flatnonzero(groups.rank > 0).tolist():
        take_positions(groups, g, state)
        state.counts[ENTERED] += 1
    n_entered = int(state.counts[ENTERED])
    orthonormal_gram(gram, m.cross, groups, state.entered, n_entered, state.hessian, state.null_gradient)
    state.left[:] = state.null_gradient
    state.counts[KNOWN] = state.counts[POSITIONS] + 1
    reach_of_groups(state.hessian, state.starts, n_entered, 0, state.reach)


def _cache(
    m: Moments, groups: Orthonormal, state: GroupState, gram: np.ndarray | None, coef: np.ndarray, most: int
) -> GramCache:
    """Return moments and correlations of the columns of whole groups, first those that became active first."""
    n_entered = int(state.counts[ENTERED])
    starts, entered = state.starts[: n_entered + 1], state.entered[:n_entered]
    first_active = [
        int(np.argmax(is_active)) if is_active.any() else len(coef)
        for is_active in (coef[:, starts[e] + 1 : starts[e + 1] + 1].any(axis=1) for e in range(n_entered))
    ]
    features: list[int] = []
    kept: list[int] = []
    for e in np.argsort(first_active, kind="stable").tolist():
        columns = groups.members[groups.bounds[entered[e]] : groups.bounds[entered[e] + 1]]
        columns = columns[m.scale[columns] > 0.0]
        if len(features) + len(columns) <= most:
            features.extend(columns.tolist())
            kept.append(e)
    order = np.array(features, dtype=np.int64)
    if gram is not None:
        correlations = gram[np.ix_(order, order)]
    else:
        places = np.concatenate([np.empty(0, np.int64), *(np.arange(starts[e], starts[e + 1]) + 1 for e in kept)])
        back, row, column = np.zeros((len(order), len(places))), 0, 0
        for e in kept:
            factor, g = groups.factor(entered[e]), entered[e]
            varies = m.scale[groups.members[groups.bounds[g] : groups.bounds[g + 1]]] > 0.0
            own = factor[np.ix_(varies, np.diag(factor) > 0.0)]
            back[row : row + own.shape[0], column : column + own.shape[1]] = own
            row, column = row + own.shape[0], column + own.shape[1]
        half = np.einsum("ab,bc->ac", back, state.hessian[np.ix_(places, places)])  # no BLAS: fixed order of summation
        correlations = np.einsum("ac,dc->ad", half, back)
        correlations = 0.5 * (correlations + correlations.T)
    if len(order):
        np.fill_diagonal(correlations, 1.0)
    return GramCache(
        m.total, m.y_mean, m.y_variance, order, m.mean[order], m.scale[order], m.cross[order], correlations
    )
