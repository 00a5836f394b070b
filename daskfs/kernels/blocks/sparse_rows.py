"""Convert rows of a dense block to entries."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import kernel


def entries_of(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the nonzero entries of a dense block.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns), C-ordered, float32 or float64

    Returns
    -------
    indptr : ndarray of shape (n_rows + 1,), int64
    indices : ndarray of shape (nnz,), uint32
    data : ndarray of shape (nnz,), float32
    """
    indptr = np.zeros(X.shape[0] + 1, dtype=np.int64)
    _count(X, indptr)
    nnz = int(indptr[-1])
    indices, data = np.empty(nnz, dtype=np.uint32), np.empty(nnz, dtype=np.float32)
    _fill(X, indices, data)
    return indptr, indices, data


def standardised_entries(
    X: np.ndarray, centre: np.ndarray, factor: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all values of a dense block as entries ``(x - centre) * factor``; see `entries_of`.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns), C-ordered, float32 or float64
    centre, factor : ndarray of shape (n_columns,), float64
    """
    n_rows, n_columns = X.shape
    data = np.empty(X.size, dtype=np.float32)
    _standardise(X, centre, factor, data)
    indices = np.tile(np.arange(n_columns, dtype=np.uint32), n_rows)
    return np.arange(0, X.size + 1, n_columns, dtype=np.int64), indices, data


@kernel
def _standardise(X, centre, factor, data):  # type: ignore[no-untyped-def]
    n = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            data[n] = (np.float64(X[i, j]) - centre[j]) * factor[j]
            n += 1


@kernel
def _count(X, indptr):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        n = 0
        for j in range(X.shape[1]):
            n += X[i, j] != 0.0
        indptr[i + 1] = indptr[i] + n


@kernel
def _fill(X, indices, data):  # type: ignore[no-untyped-def]
    n = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            if X[i, j] != 0.0:
                indices[n] = j
                data[n] = X[i, j]
                n += 1
