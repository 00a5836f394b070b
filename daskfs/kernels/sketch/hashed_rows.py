"""Stochastic gradient descent on hashed features: features in the same cell share a weight (feature hashing)."""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into, squared_norm_between
from daskfs.kernels.sketch.count_sketch import hash_word, rows_of
from daskfs.kernels.sketch.rows import take_steps

ONE_ROW = rows_of(1)
_ONE, _S31 = np.uint64(1), np.uint64(31)


@kernel
def signed(value, word):  # type: ignore[no-untyped-def]
    """Return a value with the sign given by its feature's hash."""
    return np.float64(value) * (1.0 - 2.0 * np.float64(np.int64((word >> _S31) & _ONE)))


@kernel
def predict_hashed_rows(indptr, indices, data, cells, n_buckets, seed, z):  # type: ignore[no-untyped-def]
    """Add the signed weights of the features' cells to the predictions of rows.

    Parameters
    ----------
    indptr, indices, data : ndarray
        Entries of rows, `indices` uint64.
    cells, n_buckets, seed
        See `train_hashed_rows`; the scale is 1.
    z : ndarray of shape (n_rows, n_outputs), float64
    """
    mask = n_buckets - _ONE
    for row in range(z.shape[0]):
        if is_stopped():
            break
        for i in range(indptr[row], indptr[row + 1]):
            h = hash_word(indices[i], seed, ONE_ROW)
            x = signed(data[i], h)
            for c in range(z.shape[1]):
                z[row, c] += np.float64(cells[h & mask, c]) * x


@inner_loop
def train_hashed_rows(  # type: ignore[no-untyped-def]
    rows, first, last, rule, cells, n_buckets, seed, scalars, intercept, work
):
    """Process rows ``first, first + 1, ...``, predicting with the signed weights of all their cells.

    Parameters
    ----------
    cells : ndarray of shape (n_buckets, n_outputs), float32
        Cells of a sketch with one row, in which `count_sketch` places ids.
        The other arguments and the result are those of `daskfs.kernels.sketch.rows.train_rows`.
    """
    indptr, indices, data, y, row_weight = rows
    words, z, derivatives, steps = work.words, work.z, work.derivatives, work.steps
    mask = n_buckets - _ONE
    for row in range(first, last):
        if is_stopped():
            break
        start, stop = indptr[row], indptr[row + 1]
        norm = squared_norm_between(data, start, stop)
        if not math.isfinite(norm):
            return row, False
        copy_into(intercept, z)
        for i in range(start, stop):
            h = hash_word(np.uint64(indices[i]), seed, ONE_ROW)
            words[i - start] = h
            x = signed(data[i], h)
            for c in range(z.shape[0]):
                z[c] += np.float64(cells[h & mask, c]) * x
        take_steps(rule, scalars, intercept, z, y[row], row_weight[row], norm, derivatives, steps)
        for i in range(start, stop):
            h = words[i - start]
            x = signed(data[i], h)
            for c in range(z.shape[0]):
                cells[h & mask, c] += np.float32(steps[c] * x)
    return last, True
