"""Correlations of all columns of a row block: the left side of its normal equations."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.linear.moments import Moments, gram_rows


def correlations(X: np.ndarray, weight: np.ndarray, m: Moments) -> np.ndarray:
    """Return the weighted correlations of all columns.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    weight : ndarray of shape (n_samples,), float64
    m : Moments
        Moments of the block.

    Returns
    -------
    ndarray of shape (n_features, n_features), float64
        Symmetric; 0 for constant columns, except for their diagonal of 1.
    """
    varies = np.flatnonzero(m.scale > 0.0)
    rows = np.empty((len(varies), X.shape[1]))
    gram_rows(X, weight, m, varies, rows)
    gram = np.zeros((X.shape[1], X.shape[1]))
    gram[varies] = rows
    gram = 0.5 * (gram + gram.T)
    np.fill_diagonal(gram, 1.0)
    return gram


def correlations_nbytes(n_samples: int, n_features: int) -> int:
    """Return the peak memory in bytes of `correlations` and of the moments, in addition to the block."""
    return 8 * (n_features * (4 * n_features + 40) + 4 * n_samples)
