"""Weighted least squares with an intercept, on a few columns of a row block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.lasso.gram_cache import GramCache
from daskfs.kernels.linear.linalg import extend_cholesky, minimum_norm, solve_cholesky
from daskfs.kernels.linear.moments import Moments, gram_rows, moments


class Fit(NamedTuple):
    """A least-squares fit. The intercept follows from the means."""

    moments: Moments
    coef: np.ndarray
    """Shape (n_features,), on the scale of the data; NaN for constant columns, which the block does not determine."""
    is_singular: bool
    """Whether the columns were linearly dependent, so that the solution of least norm was taken."""


def least_squares(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Fit:
    """Fit y on all columns of a block.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered and writable
    y, weight : ndarray of shape (n_samples,), float64

    Returns
    -------
    Fit
        By Cholesky on the standardised columns; if they are linearly dependent, the solution of least norm.
    """
    m = moments(X, y, weight)
    features = np.flatnonzero(m.scale > 0.0)
    rows = np.empty((len(features), X.shape[1]))
    gram_rows(X, weight, m, features, rows)
    gram = np.ascontiguousarray(rows[:, features])
    gram = 0.5 * (gram + gram.T)
    np.fill_diagonal(gram, 1.0)
    return _fit(m, features, gram)


def least_squares_from_cache(cache: GramCache, columns: np.ndarray, constant: np.ndarray | None = None) -> Fit | None:
    """Fit y on `columns` of the block that a path has seen, without its rows.

    Parameters
    ----------
    cache : GramCache
    columns : ndarray of shape (n_columns,), int64
    constant : ndarray, int64, optional
        Columns known to be constant on this block. They are in no cache.

    Returns
    -------
    Fit or None
        See `least_squares`, except that mean and scale of constant columns are NaN and 0. None if the cache lacks a
        column that is not constant.
    """
    varies = np.ones(len(columns), dtype=bool) if constant is None else ~np.isin(columns, constant)
    features = np.flatnonzero(varies)
    places = cache.places(columns[features])
    if places is None:
        return None
    mean, scale, cross = np.full(len(columns), np.nan), np.zeros(len(columns)), np.zeros(len(columns))
    mean[features], scale[features], cross[features] = cache.mean[places], cache.scale[places], cache.cross[places]
    m = Moments(cache.total, cache.y_mean, cache.y_variance, mean, scale, cross)
    return _fit(m, features, cache.gram[np.ix_(places, places)])


def _fit(m: Moments, features: np.ndarray, gram: np.ndarray) -> Fit:
    """Fit the `features` that vary, whose correlations are `gram`."""
    coef = np.full(len(m.scale), np.nan)
    cross = m.cross[features]
    factor = np.zeros_like(gram)
    rank = extend_cholesky(gram, np.arange(len(features)), len(features), 0, factor)
    if rank == len(features):
        solution = np.empty(len(features))
        solve_cholesky(factor, len(features), cross, solution)
    else:
        solution = minimum_norm(gram, cross)
    coef[features] = solution / m.scale[features]
    return Fit(m, coef, rank < len(features))


def least_squares_nbytes(n_samples: int, n_features: int) -> int:
    """Return the peak memory in bytes of `least_squares` in addition to its block."""
    return 8 * (n_features * (6 * n_features + 16) + 4 * n_samples)
