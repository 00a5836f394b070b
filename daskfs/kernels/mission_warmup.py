"""Compiles what MISSION runs."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.blocks.sparse_rows import entries_of, standardised_entries
from daskfs.kernels.linear.column_sums import add_column_sums, add_moments, row_norms
from daskfs.kernels.row_losses import LOGISTIC
from daskfs.kernels.sketch.classes import MULTINOMIAL, train_classes
from daskfs.kernels.sketch.count_sketch import add, estimate, rows_of, seed_word
from daskfs.kernels.sketch.paper import train_rows_of_paper
from daskfs.kernels.sketch.rows import EMPTY, N_NUMBERS, N_RATES, fill_table, squared_norm, train_rows

N_BUCKETS, N_SLOTS = 16, 32


def warm_up_mission(dtype: type) -> None:
    """Run MISSION's kernels on a few rows, dense of a type, with a sketch of three rows; others compile when first met.

    With float32, sparse rows of both widths of ids too.
    """
    X: np.ndarray = np.array([[1.0, 2.0], [2.0, 0.0], [0.0, 1.0], [4.0, 5.0]], dtype)
    add_moments(X, np.zeros(2), np.ones(4), np.zeros(2), np.zeros(2))
    standardised_entries(X, np.zeros(2), np.ones(2))
    indptr, indices, data = entries_of(X)
    if dtype != np.float32:
        return
    squared_norm(data, 0, 2)
    row_norms(indptr, data, np.empty(4))
    numbers, rates = np.ones(N_NUMBERS), np.zeros(N_RATES)
    hashing = (np.uint64(N_BUCKETS), rows_of(3), seed_word(0))
    for ids in (indices, indices.astype(np.uint64)):
        add_column_sums(indptr, ids, data, np.ones(4), np.arange(2, dtype=np.uint64), np.zeros((2, 3)))
        for n_outputs in (1, 3):
            keys, touches = np.full(N_SLOTS, EMPTY), np.zeros(N_SLOTS, np.int64)
            weights = np.zeros((N_SLOTS, n_outputs), np.float32)
            cells = np.zeros((3 * N_BUCKETS, n_outputs), np.float32)
            fill_table(keys[:0], weights[:0], touches[:0], keys, weights, touches)
            given = (indptr, ids, data, np.ones(4), np.ones(4), 0, 4)
            rest = (touches, np.zeros(1, np.int64), 8, np.zeros(n_outputs), numbers, False)
            work = tuple(np.empty(2, np.uint64) for _ in range(3))
            if n_outputs > 1:
                train_classes(*given, MULTINOMIAL, rates, cells, *hashing, keys, weights, *rest, *work)
            else:
                for train in (train_rows, train_rows_of_paper):
                    train(*given, LOGISTIC, rates, cells.reshape(-1), *hashing, keys, weights.reshape(-1), *rest, *work)
            of_one = cells.reshape(-1) if n_outputs == 1 else cells[:, 0]
            add(of_one, *hashing, keys[:1], np.zeros(1, np.float32))
            estimate(of_one, *hashing, keys[:1], np.zeros(1, np.float32))
