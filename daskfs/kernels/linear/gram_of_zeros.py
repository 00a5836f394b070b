"""Products of all pairs of columns of a block in which most values are zero: dummies, word counts.

Columns that are mostly zero are not shifted. Only their nonzero values in each row are multiplied: with the row's dense
columns, and with each other.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into
from daskfs.kernels.linear.gram_tiles import BAND_ROWS, add_products, fill_band, padded

ZERO_SHARE = 0.5  # share of zeros in a band's rows for a column to count as sparse
TILE_PRODUCTS = 16.0  # products per step: dense tiles relative to the steps over a row's nonzero values
MARGIN = 0.7
TOO_MANY = 0.5  # share of nonzero values in a band's sparse columns: later bands are processed as dense


@kernel
def mostly_zero(X, rows):  # type: ignore[no-untyped-def]
    """Return which columns to process as sparse; none if dense tiles are as fast.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    rows : ndarray of shape (n_rows,), int64
        A band of rows on which the decision is based.

    Returns
    -------
    ndarray of shape (n_features,), bool
    """
    n_features = X.shape[1]
    n_other = np.zeros(n_features)
    for i in rows:
        for j in range(n_features):
            n_other[j] += X[i, j] != 0.0
    is_sparse = n_other < (1.0 - ZERO_SHARE) * rows.shape[0]
    n_sparse, n_values = 0, 0.0
    for j in range(n_features):
        if is_sparse[j]:
            n_sparse += 1
            n_values += n_other[j] / rows.shape[0]
    n_dense = n_features - n_sparse + 2
    here = 2.0 * n_sparse + n_values * (n_dense / 4.0 + 4.0 + 2.0 * n_values) + n_dense * n_dense / TILE_PRODUCTS
    if here > MARGIN * n_features * n_features / TILE_PRODUCTS:
        is_sparse[:] = False
    return is_sparse


@kernel
def sums_of_few(X, y, weight, y_mean, origin, rows, is_sparse):  # type: ignore[no-untyped-def]
    """Return Σ_i w_i a_i b_i for all pairs of columns, followed by the target and ones: the upper triangle.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    y, weight : ndarray of shape (n_samples,), float64
    y_mean : float
    origin : ndarray of shape (n_features,), float64
        0 for the sparse columns.
    rows : ndarray of shape (n_rows,), int64
    is_sparse : ndarray of shape (n_features,), bool

    Returns
    -------
    ndarray of shape (>= n_features + 2, >= n_features + 2), float64
    """
    n_features = X.shape[1]
    sparse, dense = np.flatnonzero(is_sparse), np.flatnonzero(~is_sparse)
    n_beside = padded(dense.shape[0] + 2)
    beside, columns = np.zeros((BAND_ROWS, n_beside)), np.zeros((n_beside, BAND_ROWS))
    of_dense, of_both = np.zeros((n_beside, n_beside)), np.zeros((sparse.shape[0], n_beside))
    of_sparse = np.zeros((sparse.shape[0], sparse.shape[0]))
    place, value = np.empty(sparse.shape[0] + 1, np.int64), np.empty(sparse.shape[0] + 1)
    sums = np.zeros((padded(n_features + 2), padded(n_features + 2)))
    whole = np.zeros((0, BAND_ROWS))
    for start in range(0, rows.shape[0], BAND_ROWS):
        if is_stopped():
            break
        band = rows[start : start + BAND_ROWS]
        if whole.shape[0] > 0:
            fill_band(X, y, weight, y_mean, origin, band, whole)
            add_products(whole, sums)
            continue
        _fill_dense(X, y, weight, y_mean, origin, band, dense, beside, columns)
        add_products(columns, of_dense)
        n_values = 0
        for r in range(band.shape[0]):
            n = _values(X[band[r]], sparse, math.sqrt(weight[band[r]]), place, value)
            n_values += n
            for a in range(n):
                _add_multiple(beside, r, value[a], of_both, place[a])
                for b in range(a + 1):
                    of_sparse[place[a], place[b]] += value[a] * value[b]
        if n_values > TOO_MANY * band.shape[0] * sparse.shape[0]:
            whole = np.zeros((sums.shape[0], BAND_ROWS))
    _gather(of_dense, of_both, of_sparse, sparse, dense, n_features, sums)
    return sums


@kernel
def _fill_dense(X, y, weight, y_mean, origin, rows, dense, beside, columns):  # type: ignore[no-untyped-def]
    """Write the weighted dense columns, target and ones of a band to `beside` by row, and to `columns` transposed."""
    n_dense = dense.shape[0]
    beside[rows.shape[0] :] = 0.0
    for r in range(rows.shape[0]):
        i = rows[r]
        share = math.sqrt(weight[i])
        for c in range(n_dense):
            beside[r, c] = share * (X[i, dense[c]] - origin[dense[c]])
        beside[r, n_dense] = share * (y[i] - y_mean)
        beside[r, n_dense + 1] = share
    for c in range(n_dense + 2):
        for r in range(BAND_ROWS):
            columns[c, r] = beside[r, c]


@kernel
def _values(row, columns, share, place, value):  # type: ignore[no-untyped-def]
    """Write the positions of a row's nonzero values in the columns and the values times `share`; return the count."""
    n = 0
    for q in range(columns.shape[0]):
        found = row[columns[q]]
        place[n] = q
        value[n] = share * found
        n += found != 0.0  # no branch that could be mispredicted
    return n


@inner_loop
def _add_multiple(beside, r, factor, sums, q):  # type: ignore[no-untyped-def]
    for c in range(sums.shape[1]):
        sums[q, c] += factor * beside[r, c]


@kernel
def _gather(of_dense, of_both, of_sparse, sparse, dense, n_features, sums):  # type: ignore[no-untyped-def]
    """Add the three parts to the sums of all pairs, lower column first."""
    n_dense = dense.shape[0]
    number = np.empty(n_dense + 2, np.int64)  # numbers of the dense columns, the target and ones
    copy_into(dense, number[:n_dense])
    number[n_dense], number[n_dense + 1] = n_features, n_features + 1
    for a in range(n_dense + 2):
        for b in range(a, n_dense + 2):
            sums[number[a], number[b]] += of_dense[a, b]
        for q in range(sparse.shape[0]):
            sums[min(number[a], sparse[q]), max(number[a], sparse[q])] += of_both[q, a]
    for a in range(sparse.shape[0]):
        for b in range(a + 1):
            sums[sparse[b], sparse[a]] += of_sparse[a, b]
