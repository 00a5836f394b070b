"""Sums over the entries of some columns, found by their ids among sparse rows."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.numba_cache import kernel


@kernel
def add_column_sums(indptr, indices, data, weight, keys, sums):  # type: ignore[no-untyped-def]
    """Add how often each column has an entry, and the weighted sums of its values and of their squares.

    Parameters
    ----------
    indptr, indices, data : the rows' entries: int64, any unsigned integers, float32
    weight : ndarray of shape (n_rows,), float64
    keys : ndarray of shape (n_columns,), uint64, ascending
    sums : ndarray of shape (n_columns, 3), float64
        Written to: entries, Σ w x, Σ w x².
    """
    for row in range(indptr.shape[0] - 1):
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
