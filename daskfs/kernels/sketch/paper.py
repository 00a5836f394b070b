"""MISSION's step as the paper has it: every weight is in the sketch, those of the active features too.

Algorithm 1 of A. Aghazadeh et al., "MISSION: Ultra Large-Scale Feature Selection using Count-Sketches", ICML 2018.
The table names the active features; its weights are not used.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.linear.columns import squared_norm_between
from daskfs.kernels.numba_cache import inner_loop
from daskfs.kernels.sketch.count_sketch import hash_word, updated
from daskfs.kernels.sketch.rows import (
    EMPTY,
    slot_of,
    step_from,
)


@inner_loop
def train_rows_of_paper(  # type: ignore[no-untyped-def]
    rows, first, last, rule, sketch, table, scalars, intercept, frozen, work
):
    """Take rows as `daskfs.kernels.sketch.rows.train_rows` does, with the same arguments and results.

    Of each row: predict with the estimates of its active features; add the step of every feature to the sketch; a
    feature whose estimate then reaches the threshold becomes active.
    """
    indptr, indices, data, y, row_weight = rows
    cells, n_buckets, hashes, seed = sketch
    keys, _, touches, n_active, full = table
    slots, words, _ = work
    capacity = keys.shape[0] // 2
    to_cells = np.float32(np.divide(1.0, scalars[0].tail_scale))
    threshold = np.float32(np.divide(scalars[0].threshold, scalars[0].tail_scale))
    for row in range(first, last):
        if n_active[0] >= full:
            return row, True
        start, stop = indptr[row], indptr[row + 1]
        norm = squared_norm_between(data, start, stop)
        if not math.isfinite(norm):
            return row, False
        # The prediction z = intercept + Σ QUERY(j) x_j over the active features.
        total = 0.0
        for i in range(start, stop):
            key = np.uint64(indices[i])
            words[i - start] = hash_word(key, seed, hashes)
            slots[i - start] = slot_of(keys, key)
            if keys[slots[i - start]] == key:
                weight = updated(cells, n_buckets, hashes, words[i - start], np.float32(0.0))
                total += np.float64(weight) * np.float64(data[i])
                touches[slots[i - start]] += 1
        z = intercept[0] + total * scalars[0].tail_scale
        step = step_from(rule, scalars, intercept, z, y[row], row_weight[row], norm)
        # UPDATE(j, -rate ∂loss/∂z x_j) for every feature of the row.
        for i in range(start, stop):
            value = step * data[i] * to_cells
            tail = updated(cells, n_buckets, hashes, words[i - start], value)
            if keys[slots[i - start]] != np.uint64(indices[i]) and abs(tail) >= threshold and n_active[0] < capacity:
                key = np.uint64(indices[i])
                slot = slot_of(keys, key)  # another feature of this row may have taken the slot seen before
                if keys[slot] == EMPTY:
                    keys[slot] = key
                    touches[slot] = 1
                    n_active[0] += 1
    return last, True
