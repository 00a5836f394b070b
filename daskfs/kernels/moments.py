"""Weighted moments of a row block and its Gram rows, with the columns standardised in passing, never in memory.

With w the weights, W their sum, m_j and s_j the weighted mean and (population) standard deviation of column j, the
standardised column is z_j = (x_j - m_j) / s_j, and ⟨u, v⟩ = Σ_i w_i u_i v_i / W.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.numba_cache import kernel

PANEL_ROWS = 4
PANEL_COLUMNS = 1024  # a centred panel of 32 KiB stays in the first-level cache
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
    n_samples, n_features = X.shape
    total = 0.0
    y_mean = 0.0
    first = -1
    for i in range(n_samples):
        if weight[i] > 0.0:
            if first < 0:
                first = i
            total += weight[i]
            y_mean += weight[i] * (y[i] - y[first])
    y_mean = y_mean / total + y[first]
    origin = X[first].astype(np.float64)
    mean = np.zeros(n_features)
    scale = np.zeros(n_features)
    cross = np.zeros(n_features)
    y_variance = 0.0
    for i in range(n_samples):
        w = weight[i]
        if w > 0.0:
            residual = w * (y[i] - y_mean)
            y_variance += residual * (y[i] - y_mean)
            _add_row(X[i], origin, w, residual, mean, scale, cross)
    for j in range(n_features):
        mean[j] /= total
        variance = scale[j] / total - mean[j] * mean[j]
        mean[j] += origin[j]
        scale[j] = _deviation(variance, mean[j])
        cross[j] = cross[j] / (total * scale[j]) if scale[j] > 0.0 else 0.0
    return Moments(total, y_mean, y_variance / total, mean, scale, cross)


@kernel
def _add_row(row, origin, w, residual, mean, square, cross):  # type: ignore[no-untyped-def]
    for j in range(row.shape[0]):
        difference = row[j] - origin[j]
        mean[j] += w * difference
        square[j] += w * difference * difference
        cross[j] += residual * difference


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
    mean, scale = block_moments.mean, block_moments.scale
    factors = _weighted_columns(X, weight, block_moments, features)
    panel = np.zeros((PANEL_ROWS, PANEL_COLUMNS))
    out[:] = 0.0
    for left in range(0, n_features, PANEL_COLUMNS):
        right = min(left + PANEL_COLUMNS, n_features)
        for top in range(0, n_samples, PANEL_ROWS):
            bottom = min(top + PANEL_ROWS, n_samples)
            for i in range(top, bottom):
                if weight[i] > 0.0:
                    _centre(X[i, left:right], mean[left:right], panel[i - top, : right - left])
                else:
                    panel[i - top] = 0.0
            for f in range(features.shape[0]):
                _add_panel(panel[:, : right - left], factors[f, top : top + PANEL_ROWS], out[f, left:right])
    for f in range(features.shape[0]):
        for j in range(n_features):
            out[f, j] = out[f, j] / scale[j] if scale[j] > 0.0 else 0.0


@kernel
def _weighted_columns(X, weight, block_moments, features):  # type: ignore[no-untyped-def]
    """Return w_i z_if / W, one row per feature, padded with zeros to whole panels."""
    n_samples = X.shape[0]
    n_panels = (n_samples + PANEL_ROWS - 1) // PANEL_ROWS
    factors = np.zeros((features.shape[0], n_panels * PANEL_ROWS))
    for i in range(n_samples):
        if weight[i] > 0.0:
            share = weight[i] / block_moments.total
            for f in range(features.shape[0]):
                j = features[f]
                factors[f, i] = share * (X[i, j] - block_moments.mean[j]) / block_moments.scale[j]
    return factors


@kernel
def _centre(row, mean, out):  # type: ignore[no-untyped-def]
    for j in range(row.shape[0]):
        out[j] = row[j] - mean[j]


@kernel
def _add_panel(panel, factor, out):  # type: ignore[no-untyped-def]
    """Add four centred rows at once: one load and store of the sums where four would be."""
    row0, row1, row2, row3 = panel[0], panel[1], panel[2], panel[3]
    factor0, factor1, factor2, factor3 = factor[0], factor[1], factor[2], factor[3]
    for j in range(out.shape[0]):
        out[j] += factor0 * row0[j] + factor1 * row1[j] + factor2 * row2[j] + factor3 * row3[j]
