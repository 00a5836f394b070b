"""Weighted moments of a row block and its Gram rows, with the columns standardised in passing, never in memory.

With w the weights, W their sum, m_j and s_j the weighted mean and (population) standard deviation of column j, the
standardised column is z_j = (x_j - m_j) / s_j, and ⟨u, v⟩ = Σ_i w_i u_i v_i / W.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.numba_cache import inner_loop, kernel

PANEL_ROWS = 4
PANEL_COLUMNS = 512  # a centred panel of 16 KiB and the sums of two features stay in the first-level cache
BAND_ROWS = 16  # rows are taken in bands, so that every page of memory is looked at once
LANES = 16  # panels are padded to these, so that every column is summed by the same instructions
CONSTANT_RATIO = 1e-12  # a deviation below this part of the mean is rounding


class Moments(NamedTuple):
    """Of one block; `scale` is 0 where a column is constant and NaN where it holds a value that is not finite."""

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


@kernel
def moments(X, y, weight):  # type: ignore[no-untyped-def]
    """Return the Moments of a block in one pass.

    Sums are of differences from the first row, so that an offset of 1e6 costs no digits.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    y, weight : ndarray of shape (n_samples,), float64
        Weights are not negative and not all zero; a row of weight zero is not looked at.

    Returns
    -------
    Moments
    """
    n_features = X.shape[1]
    rows = np.flatnonzero(weight > 0.0)
    first = rows[0]
    total = 0.0
    y_mean = 0.0
    for i in rows:
        total += weight[i]
        y_mean += weight[i] * (y[i] - y[first])
    y_mean = y_mean / total + y[first]
    origin = X[first].astype(np.float64)
    mean = np.zeros(n_features)
    scale = np.zeros(n_features)
    cross = np.zeros(n_features)
    y_variance = 0.0
    for i in rows:
        y_variance += weight[i] * (y[i] - y_mean) ** 2
    _add_differences(X, y, weight, rows, y_mean, origin, mean, scale, cross)
    for j in range(n_features):
        mean[j] /= total
        variance = scale[j] / total - mean[j] * mean[j]
        mean[j] += origin[j]
        scale[j] = _deviation(variance, mean[j])
        cross[j] = cross[j] / (total * scale[j]) if scale[j] > 0.0 else 0.0
    return Moments(total, y_mean, y_variance / total, mean, scale, cross)


@kernel
def _add_differences(X, y, weight, rows, y_mean, origin, mean, square, cross):  # type: ignore[no-untyped-def]
    """Add up the weighted differences from `origin`, their squares and their products with y, four rows at a time."""
    n_features = X.shape[1]
    panel = np.zeros((PANEL_ROWS, PANEL_COLUMNS))
    sums = np.zeros((3, _padded(n_features)))
    w = np.zeros(PANEL_ROWS)
    residual = np.zeros(PANEL_ROWS)
    for band in range(0, rows.shape[0], BAND_ROWS):
        bottom = min(band + BAND_ROWS, rows.shape[0])
        for left in range(0, n_features, PANEL_COLUMNS):
            right = min(left + PANEL_COLUMNS, n_features)
            width = _padded(right - left)
            end = left + width
            for top in range(band, bottom, PANEL_ROWS):
                for r in range(PANEL_ROWS):
                    w[r], residual[r] = 0.0, 0.0
                    if top + r < bottom:
                        i = rows[top + r]
                        _centre(X[i, left:right], origin[left:right], panel[r])
                        w[r] = weight[i]
                        residual[r] = weight[i] * (y[i] - y_mean)
                _add_moments(
                    panel[0, :width], panel[1, :width], panel[2, :width], panel[3, :width],
                    w, residual, sums[0, left:end], sums[1, left:end], sums[2, left:end],
                )  # fmt: skip
    mean[:] = sums[0, :n_features]
    square[:] = sums[1, :n_features]
    cross[:] = sums[2, :n_features]


@kernel
def _padded(width):  # type: ignore[no-untyped-def]
    return (width + LANES - 1) // LANES * LANES


@inner_loop
def _add_moments(row0, row1, row2, row3, w, residual, mean, square, cross):  # type: ignore[no-untyped-def]
    w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
    residual0, residual1, residual2, residual3 = residual[0], residual[1], residual[2], residual[3]
    for j in range(mean.shape[0]):
        d0, d1, d2, d3 = row0[j], row1[j], row2[j], row3[j]
        c, m, s = cross[j], mean[j], square[j]
        c += residual0 * d0
        c += residual1 * d1
        c += residual2 * d2
        c += residual3 * d3
        e0, e1, e2, e3 = w0 * d0, w1 * d1, w2 * d2, w3 * d3
        m += e0
        m += e1
        m += e2
        m += e3
        s += e0 * d0
        s += e1 * d1
        s += e2 * d2
        s += e3 * d3
        cross[j], mean[j], square[j] = c, m, s


@kernel
def _deviation(variance, mean):  # type: ignore[no-untyped-def]
    """Return the standard deviation: 0 where it is rounding, NaN where the column is not finite."""
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
        Of this block.
    features : ndarray of shape (n_rows,), int64
        Not constant ones.
    out : ndarray of shape (n_rows, n_features), float64
        Written; 0 at constant columns.
    """
    n_samples, n_features = X.shape
    n_rows = features.shape[0]
    mean, scale = block_moments.mean, block_moments.scale
    factors = np.zeros((n_rows + n_rows % 2, BAND_ROWS))
    panel = np.zeros((PANEL_ROWS, PANEL_COLUMNS))
    sums = np.zeros((factors.shape[0], _padded(n_features)))
    for band in range(0, n_samples, BAND_ROWS):
        bottom = min(band + BAND_ROWS, n_samples)
        _weigh_columns(X[band:bottom], weight[band:bottom], block_moments, features, factors)
        for left in range(0, n_features, PANEL_COLUMNS):
            right = min(left + PANEL_COLUMNS, n_features)
            width = _padded(right - left)  # what is beyond `right` is not used
            end = left + width
            for top in range(band, bottom, PANEL_ROWS):
                for r in range(PANEL_ROWS):
                    if top + r < bottom and weight[top + r] > 0.0:
                        _centre(X[top + r, left:right], mean[left:right], panel[r])
                    else:
                        panel[r] = 0.0
                for f in range(0, n_rows, 2):
                    _add_panel(
                        panel[0, :width], panel[1, :width], panel[2, :width], panel[3, :width],
                        factors, f, top - band, sums[f, left:end], sums[f + 1, left:end],
                    )  # fmt: skip
    for f in range(n_rows):
        for j in range(n_features):
            out[f, j] = sums[f, j] / scale[j] if scale[j] > 0.0 else 0.0


@kernel
def _weigh_columns(X, weight, block_moments, features, out):  # type: ignore[no-untyped-def]
    """Write w_i z_if / W for the rows of a band, one row per feature, 0 beyond the last."""
    mean, scale = block_moments.mean, block_moments.scale
    out[:] = 0.0
    for i in range(X.shape[0]):
        if weight[i] > 0.0:
            share = weight[i] / block_moments.total
            for f in range(features.shape[0]):
                j = features[f]
                out[f, i] = share * (X[i, j] - mean[j]) / scale[j]


@inner_loop
def _centre(row, mean, out):  # type: ignore[no-untyped-def]
    for j in range(row.shape[0]):
        out[j] = row[j] - mean[j]


@inner_loop
def _add_panel(row0, row1, row2, row3, factors, f, top, sum0, sum1):  # type: ignore[no-untyped-def]
    """Add four centred rows to the sums of two features: eight products for six loads and two stores."""
    a0, a1, a2, a3 = factors[f, top], factors[f, top + 1], factors[f, top + 2], factors[f, top + 3]
    b0, b1, b2, b3 = factors[f + 1, top], factors[f + 1, top + 1], factors[f + 1, top + 2], factors[f + 1, top + 3]
    for j in range(sum0.shape[0]):
        x0, x1, x2, x3 = row0[j], row1[j], row2[j], row3[j]
        s = sum0[j]
        s += a0 * x0
        s += a1 * x1
        s += a2 * x2
        s += a3 * x3
        sum0[j] = s
        s = sum1[j]
        s += b0 * x0
        s += b1 * x1
        s += b2 * x2
        s += b3 * x3
        sum1[j] = s
