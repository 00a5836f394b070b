"""Column sums of sparse rows with ids, moments of dense rows, and row norms."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import squared_norm_between


@kernel
def add_column_sums(indptr, indices, data, weight, keys, sums):  # type: ignore[no-untyped-def]
    """Add the number of entries of each column, and the weighted sums of its values and of their squares.

    Parameters
    ----------
    indptr, indices, data : the rows' entries: int64, any unsigned integers, float32
    weight : ndarray of shape (n_rows,), float64
    keys : ndarray of shape (n_columns,), uint64, ascending
    sums : ndarray of shape (n_columns, 3), float64
        Incremented: entries, Σ w x, Σ w x².
    """
    for row in range(indptr.shape[0] - 1):
        if row % 256 == 0 and is_stopped():
            break
        for i in range(indptr[row], indptr[row + 1]):
            key = np.uint64(indices[i])
            low, high = 0, keys.shape[0]
            while low < high:
                middle = (low + high) // 2
                if keys[middle] < key:
                    low = middle + 1
                else:
                    high = middle
            if low < keys.shape[0] and keys[low] == key:
                x = np.float64(data[i])
                sums[low, 0] += 1.0
                sums[low, 1] += weight[row] * x
                sums[low, 2] += weight[row] * x * x


@kernel
def add_moments(X, shift, weight, sums, squares):  # type: ignore[no-untyped-def]
    """Add Σ w (x - shift) and Σ w (x - shift)² of every column, row by row, so rows may be split in any way.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns), float32 or float64
    shift, sums, squares : ndarray of shape (n_columns,), float64
        The last two are incremented.
    weight : ndarray of shape (n_rows,), float64
    """
    for i in range(X.shape[0]):
        if i % 256 == 0 and is_stopped():
            break
        for j in range(X.shape[1]):
            x = np.float64(X[i, j]) - shift[j]
            sums[j] += weight[i] * x
            squares[j] += weight[i] * x * x


@kernel
def row_norms(indptr, data, norms):  # type: ignore[no-untyped-def]
    """Write the squared norm of every row of entries into `norms`, float64 of shape (n_rows,)."""
    for row in range(norms.shape[0]):
        norms[row] = squared_norm_between(data, indptr[row], indptr[row + 1])
