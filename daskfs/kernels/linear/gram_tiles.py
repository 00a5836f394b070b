"""Products of all pairs of columns of a band of rows: sixteen dot products at a time in registers, as fast as BLAS."""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into

BAND_ROWS = 264  # not a power of two: columns of a band must not compete for cache lines
GROUP = 8  # rows transposed together
TILE = 4


@kernel
def padded(n_columns):  # type: ignore[no-untyped-def]
    """Return the number of columns rounded up to whole tiles."""
    return (n_columns + TILE - 1) // TILE * TILE


@kernel
def add_products(columns, sums):  # type: ignore[no-untyped-def]
    """Add the dot products of all pairs of rows a <= b of `columns` to ``sums[a, b]``.

    Parameters
    ----------
    columns : ndarray of shape (n_padded, BAND_ROWS), float64
    sums : ndarray of shape (n_padded, n_padded), float64
        The lower triangle is undefined.
    """
    for a in range(0, columns.shape[0], TILE):
        if is_stopped():
            break
        add_tiles(columns, a, columns, a, columns.shape[0], 0.0, sums)


@kernel
def fill_band(X, y, weight, y_mean, origin, rows, out):  # type: ignore[no-untyped-def]
    """Write √w_i (x_ij - origin_j), √w_i (y_i - y_mean) and √w_i, one row per column, and 0 beyond the last row.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    y, weight : ndarray of shape (n_samples,), float64
    y_mean : float
    origin : ndarray of shape (n_features,), float64
    rows : ndarray of shape (<= BAND_ROWS,), int64
    out : ndarray of shape (>= n_features + 2, BAND_ROWS), float64
    """
    n_features, n_rows = X.shape[1], rows.shape[0]
    share = np.zeros(BAND_ROWS)
    out[n_features] = 0.0
    for i in range(n_rows):
        share[i] = math.sqrt(weight[rows[i]])
        out[n_features, i] = share[i] * (y[rows[i]] - y_mean)
    copy_into(share, out[n_features + 1])
    for i in range(0, BAND_ROWS, GROUP):
        if i >= n_rows:
            out[:, i:] = 0.0
            break
        _transpose(X, rows, i, origin, share, out)


@inner_loop
def _transpose(X, rows, i, origin, share, out):  # type: ignore[no-untyped-def]
    """Write eight rows of a band. Rows are indexed because each view would be reference-counted atomically."""
    last = rows.shape[0] - 1
    i0, i1, i2, i3 = rows[i], rows[min(i + 1, last)], rows[min(i + 2, last)], rows[min(i + 3, last)]
    i4, i5, i6, i7 = rows[min(i + 4, last)], rows[min(i + 5, last)], rows[min(i + 6, last)], rows[min(i + 7, last)]
    share0, share1, share2, share3 = share[i], share[i + 1], share[i + 2], share[i + 3]
    share4, share5, share6, share7 = share[i + 4], share[i + 5], share[i + 6], share[i + 7]
    for j in range(origin.shape[0]):
        o = origin[j]
        out[j, i] = (X[i0, j] - o) * share0
        out[j, i + 1] = (X[i1, j] - o) * share1
        out[j, i + 2] = (X[i2, j] - o) * share2
        out[j, i + 3] = (X[i3, j] - o) * share3
        out[j, i + 4] = (X[i4, j] - o) * share4
        out[j, i + 5] = (X[i5, j] - o) * share5
        out[j, i + 6] = (X[i6, j] - o) * share6
        out[j, i + 7] = (X[i7, j] - o) * share7


@inner_loop
def add_tiles(left, a, right, first, last, zero, sums):  # type: ignore[no-untyped-def]
    """Add the dot products of rows a to a + 3 with rows `first` to `last` of `right`. `zero` has the type of the sums.

    The loop over tiles is in this function, because each array passed to a function is reference-counted.
    """
    for b in range(first, last, TILE):
        s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = zero
        s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = zero
        for i in range(left.shape[1]):
            x0, x1, x2, x3 = left[a, i], left[a + 1, i], left[a + 2, i], left[a + 3, i]
            y0, y1, y2, y3 = right[b, i], right[b + 1, i], right[b + 2, i], right[b + 3, i]
            s00, s01, s02, s03 = s00 + x0 * y0, s01 + x0 * y1, s02 + x0 * y2, s03 + x0 * y3
            s10, s11, s12, s13 = s10 + x1 * y0, s11 + x1 * y1, s12 + x1 * y2, s13 + x1 * y3
            s20, s21, s22, s23 = s20 + x2 * y0, s21 + x2 * y1, s22 + x2 * y2, s23 + x2 * y3
            s30, s31, s32, s33 = s30 + x3 * y0, s31 + x3 * y1, s32 + x3 * y2, s33 + x3 * y3
        found = (s00, s01, s02, s03), (s10, s11, s12, s13), (s20, s21, s22, s23), (s30, s31, s32, s33)
        for q in range(TILE):
            for r in range(TILE):
                sums[a + q, b + r] += found[q][r]
