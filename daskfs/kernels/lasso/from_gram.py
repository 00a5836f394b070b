"""The Lasso path from moments and Gram rows alone, for rows that are never in memory together.

`daskfs.kernels.lasso.path.lasso_path` computes the Gram rows that it needs from its block. Here the caller, who has the
blocks, computes them: the path goes as far as the rows allow, and returns the rows that it needs next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.blocks.dense_block import as_block
from daskfs.kernels.lasso.path import Grid, default_max_features, follow_path, gram_capacity
from daskfs.kernels.lasso.result import STOPS, LassoPath
from daskfs.kernels.lasso.steps import ROWS, TOO_MANY_GRAM_ROWS, new_rule, new_state
from daskfs.kernels.linear.linalg import extend_cholesky, minimum_norm, solve_cholesky
from daskfs.kernels.linear.moments import Moments


def lasso_path_from_gram(
    m: Moments,
    features: np.ndarray,
    gram: np.ndarray,
    *,
    penalty: float,
    n_lambdas: int = 100,
    gic_rss: str = "refit",
    patience: int | None = 10,
    max_features: int | None = None,
    sigma2: float | None = None,
    batch: int = 16,
    column_weight: np.ndarray | None = None,
    free: np.ndarray | None = None,
    lowest: float = 0.0,
    n_features: int | None = None,
    max_cached: int | None = 0,
) -> tuple[LassoPath, np.ndarray]:
    """Follow the path as far as the Gram rows allow.

    Parameters
    ----------
    m : Moments
        Moments of all rows. With column weights, those of the weighted columns; the same holds for the Gram rows.
    features : ndarray of shape (n_rows,), int64
        Features of the Gram rows.
    gram : ndarray of shape (n_rows, n_features), float64
        ⟨z_f, z_j⟩ for each feature f.
    penalty, n_lambdas, gic_rss, patience, max_features, sigma2, column_weight, free, max_cached
        See `daskfs.kernels.lasso.path.lasso_path`. The rows of `free` columns that vary are needed.
    batch : int
        Number of rows to request at once. Each request costs a pass over the data.
    lowest : float
        The path ends above this λ.
    n_features : int, optional
        Number of all columns, if these are only some of them. It sets how far the path goes.

    Returns
    -------
    path : LassoPath
        Complete if nothing is wanted, otherwise its beginning.
    wanted : ndarray of shape (<= batch,), int64
        Features without a Gram row and with the largest gradients at the end of the path.
    """
    n_columns = len(m.scale)
    if max_features is None:
        max_features = default_max_features(m.total, n_columns)
    rule = new_rule(penalty, sigma2, gic_rss, patience, max_features)
    state = new_state(n_columns, len(features), min(max_features, n_columns) + 16, column_weight)
    state.gram[:] = gram
    state.row_of[features], state.feature_of[:] = np.arange(len(features)), features
    state.counts[ROWS] = len(features)
    no_rows, free = as_block(np.empty((0, n_columns))), np.empty(0, dtype=np.int64) if free is None else free
    grid = Grid(None, n_lambdas, None, n_columns if n_features is None else n_features, lowest)
    path = follow_path(no_rows, np.empty(0), m, free, rule, grid, True, "", state, max_cached)
    room = gram_capacity(n_columns, max_features) - len(features)
    if path.stop != STOPS[TOO_MANY_GRAM_ROWS] or room <= 0:
        return path, np.empty(0, dtype=np.int64)
    gradient = m.cross.copy()
    if len(path.lambdas):
        row_of = state.row_of[path.entered]
        for row, coef in zip(row_of, path.coef[-1], strict=True):
            gradient -= coef * gram[row]
    return path, wanted_rows(m, features, gradient, min(batch, room))


def wanted_rows(m: Moments, features: np.ndarray, gradient: np.ndarray, batch: int) -> np.ndarray:
    """Return the features with the largest gradients among those that vary and have no Gram row yet.

    Parameters
    ----------
    m : Moments
    features : ndarray of shape (n_rows,), int64
    gradient : ndarray of shape (n_features,)
    batch : int

    Returns
    -------
    ndarray of shape (<= batch,), int64, ascending
    """
    size = np.where(m.scale > 0.0, np.abs(gradient), -1.0)
    size[features] = -1.0
    largest = np.argsort(-size, kind="stable")[:batch]
    return np.sort(largest[size[largest] >= 0.0])


class Fit(NamedTuple):
    """A least-squares fit. The intercept follows from the means."""

    coef: np.ndarray
    """Shape (n_features,), on the scale of the data; NaN for constant columns, which the rows do not determine."""
    is_singular: bool
    """Whether the columns were linearly dependent, so that the solution of least norm was taken."""


def least_squares_from_gram(m: Moments, features: np.ndarray, gram: np.ndarray) -> Fit:
    """Fit y by least squares on all columns of the moments.

    Parameters
    ----------
    m : Moments
    features : ndarray of shape (n_varying,), int64
        Columns that are not constant.
    gram : ndarray of shape (n_varying, n_varying), float64
        Their correlations.

    Returns
    -------
    Fit
        By Cholesky on the standardised columns; if they are linearly dependent, the solution of least norm.
    """
    gram, cross = 0.5 * (gram + gram.T), m.cross[features]
    np.fill_diagonal(gram, 1.0)
    coef, solution, factor = np.full(len(m.scale), np.nan), np.empty(len(features)), np.zeros_like(gram)
    rank = extend_cholesky(gram, np.arange(len(features)), len(features), 0, factor)
    if rank == len(features):
        solve_cholesky(factor, len(features), cross, solution)
    else:
        solution = minimum_norm(gram, cross)
    coef[features] = solution / m.scale[features]
    return Fit(coef, rank < len(features))
