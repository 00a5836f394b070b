"""Stochastic gradient descent on hashed features: all that share a cell share a weight (feature hashing)."""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.numba_cache import inner_loop
from daskfs.kernels.row_losses import row_derivative, row_value
from daskfs.kernels.sketch.classes import loss_and_derivatives
from daskfs.kernels.sketch.count_sketch import hash_word, rows_of
from daskfs.kernels.sketch.rows import (
    INTERCEPT_RATIO,
    LOSS_SUM,
    ROW_COUNT,
    ROWS_SEEN,
    WEIGHT_SUM,
    squared_norm,
    step_of,
)

ONE_ROW = rows_of(1)
_ONE, _S31 = np.uint64(1), np.uint64(31)


@inner_loop
def train_hashed_rows(  # type: ignore[no-untyped-def]
    indptr, indices, data, y, row_weight, first, last, loss, rates, cells, n_buckets, seed, intercept, numbers, words
):
    """Take rows ``first, first + 1, ...``, predicting with the signed weights of all their cells.

    Parameters
    ----------
    cells : ndarray of shape (n_buckets, n_outputs), float32
        Of a sketch with one row, as `count_sketch` places ids in it.
    words : ndarray of shape (longest row,), uint64
        To work in. The other arguments and the result are those of `mission_rows.train_rows` and `mission_classes`.
    """
    n_outputs = intercept.shape[0]
    z, derivatives = np.empty(n_outputs), np.empty(n_outputs)
    mask = n_buckets - _ONE
    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        norm = squared_norm(data, start, stop)
        if not math.isfinite(norm):
            return row, False
        z[:] = intercept
        for i in range(start, stop):
            h = hash_word(np.uint64(indices[i]), seed, ONE_ROW)
            words[i - start] = h
            x = np.float64(data[i]) * (1.0 - 2.0 * np.float64(np.int64((h >> _S31) & _ONE)))
            for c in range(n_outputs):
                z[c] += np.float64(cells[h & mask, c]) * x
        if n_outputs == 1:
            numbers[LOSS_SUM] += row_weight[row] * row_value(loss, z[0], y[row])
            derivatives[0] = row_derivative(loss, z[0], y[row])
        else:
            numbers[LOSS_SUM] += row_weight[row] * loss_and_derivatives(loss, z, y[row], derivatives)
        numbers[WEIGHT_SUM] += row_weight[row]
        rate = step_of(rates, numbers[ROWS_SEEN], row_weight[row], norm)
        numbers[ROWS_SEEN] += rates[ROW_COUNT]
        for c in range(n_outputs):
            intercept[c] -= rates[INTERCEPT_RATIO] * rate * derivatives[c]
        for i in range(start, stop):
            h = words[i - start]
            x = np.float64(data[i]) * (1.0 - 2.0 * np.float64(np.int64((h >> _S31) & _ONE)))
            for c in range(n_outputs):
                cells[h & mask, c] -= np.float32(rate * derivatives[c] * x)
    return last, True
