"""All moments and correlations of a narrow block in one pass, for blocks with more rows than columns.

Weighted differences from the first row are written to a band with contiguous columns, which include the target and a
column of ones. Sixteen dot products are accumulated at a time in registers: as fast as BLAS, in float64 for any dtype
of the block, and with a fixed order of summation. If most values are zero, as in dummies, only nonzero values are
multiplied (`daskfs.kernels.linear.gram_of_zeros`).
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.gram_of_zeros import mostly_zero, sums_of_few
from daskfs.kernels.linear.gram_tiles import BAND_ROWS, add_products, fill_band, padded
from daskfs.kernels.linear.moments import Moments, deviation, first_moments

WHOLE_GRAM_COLUMNS = 128  # up to this width, all correlations cost less than the passes of a long path


def wants_whole_gram(n_samples: int, n_features: int) -> bool:
    """Return whether a path should start with all correlations."""
    return n_features <= min(WHOLE_GRAM_COLUMNS, n_samples)


@kernel
def moments_and_gram(X, y, weight):  # type: ignore[no-untyped-def]
    """Return the Moments of a block and ⟨z_j, z_k⟩ of all its columns.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    y, weight : ndarray of shape (n_samples,), float64
        Rows of weight zero are not read.

    Returns
    -------
    block_moments : Moments
    gram : ndarray of shape (n_features, n_features), float64
        Symmetric; 0 for columns that are constant or not finite.
    """
    n_features = X.shape[1]
    rows = np.flatnonzero(weight > 0.0)
    total, y_mean, y_variance = first_moments(y, weight, rows)
    origin = X[rows[0]].astype(np.float64)
    is_sparse = mostly_zero(X, rows[:BAND_ROWS])
    if is_sparse.any():
        origin[is_sparse] = 0.0  # a column with zeros is close to 0 in units of its standard deviation
        sums = sums_of_few(X, y, weight, y_mean, origin, rows, is_sparse)
    else:
        sums = _sums(X, y, weight, y_mean, origin, rows)
    mean, scale, cross = sums[:n_features, n_features + 1] / total, np.zeros(n_features), np.zeros(n_features)
    for j in range(n_features):
        scale[j] = deviation(sums[j, j] / total - mean[j] * mean[j], mean[j] + origin[j])
        cross[j] = sums[j, n_features] / (total * scale[j]) if scale[j] > 0.0 else 0.0
    gram = np.zeros((n_features, n_features))
    for j in range(n_features):
        for k in range(j, n_features):
            if scale[j] > 0.0 and scale[k] > 0.0:
                product = (sums[j, k] / total - mean[j] * mean[k]) / (scale[j] * scale[k])
                gram[j, k] = product if k > j else 1.0
                gram[k, j] = gram[j, k]
    return Moments(total, y_mean, y_variance, mean + origin, scale, cross), gram


@kernel
def _sums(X, y, weight, y_mean, origin, rows):  # type: ignore[no-untyped-def]
    """Return Σ_i w_i a_i b_i for all pairs of columns, followed by the target and ones: the upper triangle."""
    n_padded = padded(X.shape[1] + 2)
    sums, columns = np.zeros((n_padded, n_padded)), np.zeros((n_padded, BAND_ROWS))
    for start in range(0, rows.shape[0], BAND_ROWS):
        if is_stopped():
            break
        fill_band(X, y, weight, y_mean, origin, rows[start : start + BAND_ROWS], columns)
        add_products(columns, sums)
    return sums
