"""All correlations of a narrow block in one pass: for blocks with more rows than columns.

Rows are standardised in passing into a band whose columns lie one after the other, and sixteen dot products are summed
at a time in registers: the speed of BLAS, in float64 whatever the block holds, and one order of summation.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.numba_cache import inner_loop, kernel

WHOLE_GRAM_COLUMNS = 128  # up to these, all correlations cost less than the passes that a long path makes
BAND_ROWS = 264  # no power of two: columns of a band must not share the lines of the cache
GROUP = 8  # rows transposed together
TILE = 4


def wants_whole_gram(n_samples: int, n_features: int) -> bool:
    """Return whether a path should begin with all correlations."""
    return n_features <= min(WHOLE_GRAM_COLUMNS, n_samples)


@kernel
def gram_matrix(X, weight, block_moments):  # type: ignore[no-untyped-def]
    """Return ⟨z_j, z_k⟩ of all columns.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    weight : ndarray of shape (n_samples,), float64
        A row of weight zero is not looked at.
    block_moments : Moments
        Of this block.

    Returns
    -------
    ndarray of shape (n_features, n_features), float64
        Symmetric; 0 at columns that are constant or not finite.
    """
    n_features = X.shape[1]
    rows = np.flatnonzero(weight > 0.0)
    n_padded = (n_features + TILE - 1) // TILE * TILE
    sums = np.zeros((n_padded, n_padded))
    columns = np.zeros((n_padded, BAND_ROWS))
    for start in range(0, rows.shape[0], BAND_ROWS):
        _standardise(X, weight, block_moments, rows[start : start + BAND_ROWS], columns)
        for a in range(0, n_padded, TILE):
            for b in range(a, n_padded, TILE):
                _add_tile(columns, a, b, sums)
    out = np.zeros((n_features, n_features))
    for j in range(n_features):
        for k in range(j, n_features):
            if block_moments.scale[j] > 0.0 and block_moments.scale[k] > 0.0:
                out[j, k] = sums[j, k]
                out[k, j] = sums[j, k]
    return out


@kernel
def _standardise(X, weight, block_moments, rows, out):  # type: ignore[no-untyped-def]
    """Write √(w_i / W) z_ij into `out`, one row per column of the block, 0 beyond the last row."""
    share = np.zeros(BAND_ROWS)
    n_rows = rows.shape[0]
    for i in range(n_rows):
        share[i] = math.sqrt(weight[rows[i]] / block_moments.total)
    factor = np.zeros(X.shape[1])
    for j in range(X.shape[1]):
        factor[j] = 1.0 / block_moments.scale[j] if block_moments.scale[j] > 0.0 else 0.0
    for i in range(0, BAND_ROWS, GROUP):
        if i >= n_rows:
            out[:, i:] = 0.0
            break
        last = n_rows - 1
        _transpose(
            X[rows[i]], X[rows[min(i + 1, last)]], X[rows[min(i + 2, last)]], X[rows[min(i + 3, last)]],
            X[rows[min(i + 4, last)]], X[rows[min(i + 5, last)]], X[rows[min(i + 6, last)]], X[rows[min(i + 7, last)]],
            block_moments.mean, factor, share, i, out,
        )  # fmt: skip


@inner_loop
def _transpose(row0, row1, row2, row3, row4, row5, row6, row7, mean, factor, share, i, out):  # type: ignore[no-untyped-def]
    share0, share1, share2, share3 = share[i], share[i + 1], share[i + 2], share[i + 3]
    share4, share5, share6, share7 = share[i + 4], share[i + 5], share[i + 6], share[i + 7]
    for j in range(mean.shape[0]):
        m, f = mean[j], factor[j]
        column = out[j]
        column[i] = (row0[j] - m) * (f * share0)
        column[i + 1] = (row1[j] - m) * (f * share1)
        column[i + 2] = (row2[j] - m) * (f * share2)
        column[i + 3] = (row3[j] - m) * (f * share3)
        column[i + 4] = (row4[j] - m) * (f * share4)
        column[i + 5] = (row5[j] - m) * (f * share5)
        column[i + 6] = (row6[j] - m) * (f * share6)
        column[i + 7] = (row7[j] - m) * (f * share7)


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
