"""Weighted least squares with an intercept on the few columns of a row block."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.linalg import extend_cholesky, minimum_norm, solve_cholesky
from daskfs.kernels.moments import Moments, gram_rows, moments


class Fit(NamedTuple):
    """A least-squares fit; the intercept follows from the means."""

    moments: Moments
    coef: np.ndarray
    """Shape (n_features,), on the scale of the data; NaN at constant columns, which the block says nothing about."""
    is_singular: bool
    """Whether columns were combinations of each other, so that the shortest solution was taken."""


def least_squares(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Fit:
    """Fit y on all columns of a block.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered and writable
    y, weight : ndarray of shape (n_samples,), float64

    Returns
    -------
    Fit
        By Cholesky on the standardised columns; where one depends on the others, the solution that is shortest there.
    """
    m = moments(X, y, weight)
    features = np.flatnonzero(m.scale > 0.0)
    coef = np.full(X.shape[1], np.nan)
    rows = np.empty((len(features), X.shape[1]))
    gram_rows(X, weight, m, features, rows)
    gram = np.ascontiguousarray(rows[:, features])
    gram = 0.5 * (gram + gram.T)
    np.fill_diagonal(gram, 1.0)
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
    """Return the memory in bytes that `least_squares` takes beside its block, at most."""
    return 8 * (n_features * (6 * n_features + 16) + n_samples * (n_features + 4))
