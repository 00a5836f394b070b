"""All moments and correlations of a narrow block in one pass: for blocks with more rows than columns.

Differences from the first row are weighed into a band whose columns lie one after the other, the target and a column of
ones among them, and sixteen dot products are summed at a time in registers: the speed of BLAS, in float64 whatever the
block holds, and one order of summation.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.moments import Moments, deviation, first_moments
from daskfs.kernels.numba_cache import inner_loop, kernel

WHOLE_GRAM_COLUMNS = 128  # up to these, all correlations cost less than the passes that a long path makes
BAND_ROWS = 264  # no power of two: columns of a band must not share the lines of the cache
GROUP = 8  # rows transposed together
TILE = 4


def wants_whole_gram(n_samples: int, n_features: int) -> bool:
    """Return whether a path should begin with all correlations."""
    return n_features <= min(WHOLE_GRAM_COLUMNS, n_samples)


@kernel
def moments_and_gram(X, y, weight):  # type: ignore[no-untyped-def]
    """Return the Moments of a block and ⟨z_j, z_k⟩ of all its columns.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    y, weight : ndarray of shape (n_samples,), float64
        A row of weight zero is not looked at.

    Returns
    -------
    block_moments : Moments
    gram : ndarray of shape (n_features, n_features), float64
        Symmetric; 0 at columns that are constant or not finite.
    """
    n_features = X.shape[1]
    rows = np.flatnonzero(weight > 0.0)
    total, y_mean, y_variance = first_moments(y, weight, rows)
    origin = X[rows[0]].astype(np.float64)
    n_padded = (n_features + 2 + TILE - 1) // TILE * TILE
    sums = np.zeros((n_padded, n_padded))
    columns = np.zeros((n_padded, BAND_ROWS))
    for start in range(0, rows.shape[0], BAND_ROWS):
        _fill(X, y, weight, y_mean, origin, rows[start : start + BAND_ROWS], columns)
        for a in range(0, n_padded, TILE):
            for b in range(a, n_padded, TILE):
                _add_tile(columns, a, b, sums)
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
def _fill(X, y, weight, y_mean, origin, rows, out):  # type: ignore[no-untyped-def]
    """Write √w_i (x_ij - origin_j), √w_i (y_i - y_mean) and √w_i, one row per column, 0 beyond the last row."""
    n_features, n_rows = X.shape[1], rows.shape[0]
    share = np.zeros(BAND_ROWS)
    out[n_features] = 0.0
    for i in range(n_rows):
        share[i] = math.sqrt(weight[rows[i]])
        out[n_features, i] = share[i] * (y[rows[i]] - y_mean)
    out[n_features + 1] = share
    for i in range(0, BAND_ROWS, GROUP):
        if i >= n_rows:
            out[:, i:] = 0.0
            break
        last = n_rows - 1
        _transpose(
            X[rows[i]], X[rows[min(i + 1, last)]], X[rows[min(i + 2, last)]], X[rows[min(i + 3, last)]],
            X[rows[min(i + 4, last)]], X[rows[min(i + 5, last)]], X[rows[min(i + 6, last)]], X[rows[min(i + 7, last)]],
            origin, share, i, out,
        )  # fmt: skip


@inner_loop
def _transpose(row0, row1, row2, row3, row4, row5, row6, row7, origin, share, i, out):  # type: ignore[no-untyped-def]
    share0, share1, share2, share3 = share[i], share[i + 1], share[i + 2], share[i + 3]
    share4, share5, share6, share7 = share[i + 4], share[i + 5], share[i + 6], share[i + 7]
    for j in range(origin.shape[0]):
        o = origin[j]
        out[j, i] = (row0[j] - o) * share0
        out[j, i + 1] = (row1[j] - o) * share1
        out[j, i + 2] = (row2[j] - o) * share2
        out[j, i + 3] = (row3[j] - o) * share3
        out[j, i + 4] = (row4[j] - o) * share4
        out[j, i + 5] = (row5[j] - o) * share5
        out[j, i + 6] = (row6[j] - o) * share6
        out[j, i + 7] = (row7[j] - o) * share7


@inner_loop
def _add_tile(columns, a, b, sums):  # type: ignore[no-untyped-def]
    """Add the dot products of columns a to a + 3 with columns b to b + 3."""
    a0, a1, a2, a3 = columns[a], columns[a + 1], columns[a + 2], columns[a + 3]
    b0, b1, b2, b3 = columns[b], columns[b + 1], columns[b + 2], columns[b + 3]
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = 0.0
    for i in range(columns.shape[1]):
        x0, x1, x2, x3 = a0[i], a1[i], a2[i], a3[i]
        y0, y1, y2, y3 = b0[i], b1[i], b2[i], b3[i]
        s00, s01, s02, s03 = s00 + x0 * y0, s01 + x0 * y1, s02 + x0 * y2, s03 + x0 * y3
        s10, s11, s12, s13 = s10 + x1 * y0, s11 + x1 * y1, s12 + x1 * y2, s13 + x1 * y3
        s20, s21, s22, s23 = s20 + x2 * y0, s21 + x2 * y1, s22 + x2 * y2, s23 + x2 * y3
        s30, s31, s32, s33 = s30 + x3 * y0, s31 + x3 * y1, s32 + x3 * y2, s33 + x3 * y3
    for q, found in enumerate(((s00, s01, s02, s03), (s10, s11, s12, s13), (s20, s21, s22, s23), (s30, s31, s32, s33))):
        for r in range(TILE):
            sums[a + q, b + r] += found[r]
