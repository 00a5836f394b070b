"""Weighted moments of a row block and its Gram rows, with columns standardised on the fly, never in memory.

With w the weights, W their sum, m_j and s_j the weighted mean and (population) standard deviation of column j, the
standardised column is z_j = (x_j - m_j) / s_j, and ⟨u, v⟩ = Σ_i w_i u_i v_i / W.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel

GROUP = 8  # rows whose moments are added together
PANEL_COLUMNS = 1024  # four rows of a panel and the sums of four features stay in the cache
BAND_ROWS = 16  # rows whose factors are computed together
FAR = 1e3  # distance of a mean from 0 in standard deviations, beyond which a product loses digits
CONSTANT_RATIO = 1e-12  # a deviation below this share of the mean is rounding


class Moments(NamedTuple):
    """Moments of one block. `scale` is 0 for a constant column and NaN for a column that is not finite."""

    total: float
    """W, the sum of the weights."""
    y_mean: float
    y_variance: float
    mean: np.ndarray
    """m, of shape (n_features,)."""
    scale: np.ndarray
    """s, of shape (n_features,)."""
    cross: np.ndarray
    """⟨z_j, y - y_mean⟩, of shape (n_features,)."""


def weighed(m: Moments, column_weight: np.ndarray | None) -> Moments:
    """Return the moments of columns w_j z_j, whose coefficients an l1 penalty penalises 1 / w_j times as much."""
    if column_weight is None:
        return m
    return m._replace(scale=m.scale / column_weight, cross=m.cross * column_weight)


@kernel
def moments(X, y, weight):  # type: ignore[no-untyped-def]
    """Return the Moments of a block in one pass.

    Sums are of differences from the first row, so an offset of 1e6 loses no digits.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    y, weight : ndarray of shape (n_samples,), float64
        Weights are non-negative and not all zero. Rows of weight zero are not read.

    Returns
    -------
    Moments
    """
    n_features = X.shape[1]
    rows = np.flatnonzero(weight > 0.0)
    total, y_mean, y_variance = first_moments(y, weight, rows)
    origin = X[rows[0]].astype(np.float64)
    mean = np.zeros(n_features)
    scale = np.zeros(n_features)
    cross = np.zeros(n_features)
    _add_differences(X, y, weight, rows, y_mean, origin, mean, scale, cross)
    for j in range(n_features):
        mean[j] /= total
        variance = scale[j] / total - mean[j] * mean[j]
        mean[j] += origin[j]
        scale[j] = deviation(variance, mean[j])
        cross[j] = cross[j] / (total * scale[j]) if scale[j] > 0.0 else 0.0
    return Moments(total, y_mean, y_variance, mean, scale, cross)


@kernel
def first_moments(y, weight, rows):  # type: ignore[no-untyped-def]
    """Return the sum of the weights of `rows`, and the mean and variance of y on them."""
    first = rows[0]
    total, y_mean, y_variance = 0.0, 0.0, 0.0
    for i in rows:
        total += weight[i]
        y_mean += weight[i] * (y[i] - y[first])
    y_mean = y_mean / total + y[first]
    for i in rows:
        y_variance += weight[i] * (y[i] - y_mean) ** 2
    return total, y_mean, y_variance / total


@kernel
def _add_differences(X, y, weight, rows, y_mean, origin, mean, square, cross):  # type: ignore[no-untyped-def]
    """Add the weighted differences from `origin`, their squares and their products with y, eight rows at a time."""
    n_rows = rows.shape[0]
    take, w, residual = np.empty(GROUP, np.int64), np.empty(GROUP), np.empty(GROUP)
    for top in range(0, n_rows, GROUP):
        if top % 1024 == 0 and is_stopped():
            break
        for r in range(GROUP):
            i = rows[min(top + r, n_rows - 1)]  # beyond the last row: that row again with weight 0
            take[r] = i
            w[r] = weight[i] if top + r < n_rows else 0.0
            residual[r] = w[r] * (y[i] - y_mean)
        _add_moments(X, take, w, residual, origin, mean, square, cross)


@inner_loop
def _add_moments(X, take, w, residual, origin, mean, square, cross):  # type: ignore[no-untyped-def]
    """Add the moments of eight rows. Rows are indexed because each view would be reference-counted atomically."""
    i0, i1, i2, i3, i4, i5, i6, i7 = take[0], take[1], take[2], take[3], take[4], take[5], take[6], take[7]
    w0, w1, w2, w3, w4, w5, w6, w7 = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]
    a0, a1, a2, a3 = residual[0], residual[1], residual[2], residual[3]
    a4, a5, a6, a7 = residual[4], residual[5], residual[6], residual[7]
    for j in range(mean.shape[0]):
        o = origin[j]
        d0, d1, d2, d3 = X[i0, j] - o, X[i1, j] - o, X[i2, j] - o, X[i3, j] - o
        d4, d5, d6, d7 = X[i4, j] - o, X[i5, j] - o, X[i6, j] - o, X[i7, j] - o
        e0, e1, e2, e3, e4, e5, e6, e7 = w0 * d0, w1 * d1, w2 * d2, w3 * d3, w4 * d4, w5 * d5, w6 * d6, w7 * d7
        cross[j] += ((a0 * d0 + a1 * d1) + (a2 * d2 + a3 * d3)) + ((a4 * d4 + a5 * d5) + (a6 * d6 + a7 * d7))
        mean[j] += ((e0 + e1) + (e2 + e3)) + ((e4 + e5) + (e6 + e7))
        square[j] += ((e0 * d0 + e1 * d1) + (e2 * d2 + e3 * d3)) + ((e4 * d4 + e5 * d5) + (e6 * d6 + e7 * d7))


@kernel
def deviation(variance, mean):  # type: ignore[no-untyped-def]
    """Return the standard deviation: 0 if it is rounding, NaN if the column is not finite."""
    if not math.isfinite(variance):
        return math.nan
    if variance <= (CONSTANT_RATIO * mean) ** 2 or variance < 1e-280:
        return 0.0
    return math.sqrt(variance)


@kernel
def gram_rows(X, weight, block_moments, features, out):  # type: ignore[no-untyped-def]
    """Write ⟨z_f, z_j⟩ for a few features f against every column j, in one pass over the block.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    weight : ndarray of shape (n_samples,), float64
    block_moments : Moments
        Moments of this block.
    features : ndarray of shape (n_rows,), int64
        Features that are not constant.
    out : ndarray of shape (n_rows, n_features), float64
        Output; 0 for constant columns.
    """
    n_features, n_rows = X.shape[1], features.shape[0]
    mean, scale = block_moments.mean, block_moments.scale
    rows = np.flatnonzero(weight > 0.0)
    last = rows.shape[0] - 1
    factors = np.zeros(((n_rows + 3) // 4 * 4, BAND_ROWS))
    sums = np.zeros((factors.shape[0], n_features))
    panel = np.empty((4, PANEL_COLUMNS))
    far = _far_panels(mean, scale)
    for top in range(0, rows.shape[0], 4):
        if top % BAND_ROWS == 0:
            if is_stopped():
                break
            _weigh_columns(X, weight, block_moments, features, rows[top : top + BAND_ROWS], factors)
        a, b = rows[top], rows[min(top + 1, last)]
        c, d = rows[min(top + 2, last)], rows[min(top + 3, last)]
        for k in range(far.shape[0]):
            left, right = k * PANEL_COLUMNS, min((k + 1) * PANEL_COLUMNS, n_features)
            if far[k]:
                for r, i in enumerate((a, b, c, d)):
                    _centre(X[i, left:right], mean[left:right], panel[r])
                _add_rows(panel, 0, 1, 2, 3, 0, factors, top % BAND_ROWS, sums, left, right)
            else:
                _add_rows(X, a, b, c, d, left, factors, top % BAND_ROWS, sums, left, right)
    for f in range(n_rows):
        for j in range(n_features):
            out[f, j] = sums[f, j] / scale[j] if scale[j] > 0.0 else 0.0


@kernel
def _far_panels(mean, scale):  # type: ignore[no-untyped-def]
    """Return which panels have a mean so far from 0 that their columns must be centred before multiplication.

    The weighted z_if sum to 0 over the rows, except for rounding, so otherwise the mean of the other column adds
    nothing.
    """
    far = np.zeros((mean.shape[0] + PANEL_COLUMNS - 1) // PANEL_COLUMNS, np.bool_)
    for j in range(mean.shape[0]):
        if abs(mean[j]) > FAR * scale[j] and scale[j] > 0.0:
            far[j // PANEL_COLUMNS] = True
    return far


@kernel
def _weigh_columns(X, weight, block_moments, features, rows, out):  # type: ignore[no-untyped-def]
    """Write w_i z_if / W for the rows of a band, one row per feature, and 0 beyond the last row."""
    mean, scale = block_moments.mean, block_moments.scale
    out[:] = 0.0
    for r in range(rows.shape[0]):
        i = rows[r]
        share = weight[i] / block_moments.total
        for f in range(features.shape[0]):
            j = features[f]
            out[f, r] = share * (X[i, j] - mean[j]) / scale[j]


@inner_loop
def _centre(row, mean, out):  # type: ignore[no-untyped-def]
    for j in range(row.shape[0]):
        out[j] = row[j] - mean[j]


@kernel
def _add_rows(rows, i0, i1, i2, i3, first, factors, top, sums, left, right):  # type: ignore[no-untyped-def]
    """Add four rows, from column `first` on, to columns `left` to `right` of the sums of all features."""
    for f in range(0, factors.shape[0], 4):
        _add_four_rows(
            rows, i0, i1, i2, i3, np.uintp(first), factors, f, top, sums, np.uintp(left), np.uintp(right - left)
        )


@inner_loop
def _add_four_rows(  # type: ignore[no-untyped-def]
    rows, i0, i1, i2, i3, first, factors, f, top, sums, left, width
):
    """Add four rows to the sums of four features: sixteen products with eight loads and four stores.

    Rows are indexed because each view would be reference-counted atomically. Column indices are unsigned; otherwise
    numba would test their sign in every step.
    """
    a0, a1, a2, a3 = factors[f, top], factors[f, top + 1], factors[f, top + 2], factors[f, top + 3]
    b0, b1, b2, b3 = factors[f + 1, top], factors[f + 1, top + 1], factors[f + 1, top + 2], factors[f + 1, top + 3]
    c0, c1, c2, c3 = factors[f + 2, top], factors[f + 2, top + 1], factors[f + 2, top + 2], factors[f + 2, top + 3]
    d0, d1, d2, d3 = factors[f + 3, top], factors[f + 3, top + 1], factors[f + 3, top + 2], factors[f + 3, top + 3]
    for j in range(width):
        x0, x1, x2, x3 = rows[i0, first + j], rows[i1, first + j], rows[i2, first + j], rows[i3, first + j]
        sums[f, left + j] += (a0 * x0 + a1 * x1) + (a2 * x2 + a3 * x3)
        sums[f + 1, left + j] += (b0 * x0 + b1 * x1) + (b2 * x2 + b3 * x3)
        sums[f + 2, left + j] += (c0 * x0 + c1 * x1) + (c2 * x2 + c3 * x3)
        sums[f + 3, left + j] += (d0 * x0 + d1 * x1) + (d2 * x2 + d3 * x3)
