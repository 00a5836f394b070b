"""The k largest weights in a heap: MISSION as its authors programmed it, and iterative hard thresholding by rows.

The active features stand in an open-addressing table and, by their size, in a heap with the smallest on top.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.linear.columns import squared_norm_between
from daskfs.kernels.numba_cache import inner_loop, kernel
from daskfs.kernels.sketch.count_sketch import A, hash_word, updated
from daskfs.kernels.sketch.rows import (
    EMPTY,
    slot_of,
    step_from,
)

_ONE, _S32 = np.uint64(1), np.uint64(32)


class HeapTable(NamedTuple):
    """The active features, and the heap of them."""

    keys: np.ndarray  # (n_slots,) uint64 ids, EMPTY where a slot is free
    weights: np.ndarray  # (n_slots,) float32
    ranks: np.ndarray  # (n_slots,) float32: the size by which a slot stands in the heap
    heap: np.ndarray  # (most,) int64 slots
    places: np.ndarray  # (n_slots,) int64: where a slot stands in the heap
    n_active: np.ndarray  # (1,) int64
    most: int  # k


@kernel
def _stand(heap, places, i, slot):  # type: ignore[no-untyped-def]
    heap[i] = slot
    places[slot] = i


@kernel
def _settle(heap, places, ranks, n, i):  # type: ignore[no-untyped-def]
    """Move what stands at place i up or down to where it belongs among n."""
    slot = heap[i]
    rank = ranks[slot]
    while i > 0 and ranks[heap[(i - 1) // 2]] > rank:
        _stand(heap, places, i, heap[(i - 1) // 2])
        i = (i - 1) // 2
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and ranks[heap[child + 1]] < ranks[heap[child]]:
            child += 1
        if ranks[heap[child]] >= rank:
            break
        _stand(heap, places, i, heap[child])
        i = child
    _stand(heap, places, i, slot)


@kernel
def _free(keys, weights, ranks, heap, places, slot):  # type: ignore[no-untyped-def]
    """Take a slot out of the table; those that probed past it move up."""
    mask = np.int64(keys.shape[0] - 1)
    gap, at = np.int64(slot), np.int64(slot)
    while True:
        at = (at + 1) & mask
        if keys[at] == EMPTY:
            break
        home = np.int64((keys[at] * A >> _S32) & np.uint64(mask))
        if ((at - home) & mask) >= ((at - gap) & mask):
            keys[gap], weights[gap], ranks[gap] = keys[at], weights[at], ranks[at]
            _stand(heap, places, places[at], gap)
            gap = at
    keys[gap] = EMPTY


@kernel
def push(keys, weights, ranks, heap, places, n_active, most, key, weight, hysteresis):  # type: ignore[no-untyped-def]
    """Set the weight of a feature if it is active, or make it active if it is among the largest.

    Parameters
    ----------
    keys, weights, ranks, heap, places, n_active, most : the fields of `HeapTable`
        One by one: a record that is taken apart for every feature of a row costs two thirds more time.
    key : uint64
    weight : float32
    hysteresis : float
        A feature moves in the heap, or into it, when its size has changed by this factor (the authors' 1.05).
    """
    size = abs(weight)
    slot = slot_of(keys, key)
    if keys[slot] == key:
        weights[slot] = weight
        rank = ranks[slot]
        if size >= hysteresis * rank or size * hysteresis <= rank:
            ranks[slot] = size
            _settle(heap, places, ranks, n_active[0], places[slot])
        return
    if n_active[0] >= most:
        if size <= hysteresis * ranks[heap[0]]:
            return
        last = n_active[0] - 1
        out = heap[0]
        _stand(heap, places, 0, heap[last])
        n_active[0] = last
        if last > 0:
            _settle(heap, places, ranks, last, 0)
        _free(keys, weights, ranks, heap, places, out)
        slot = slot_of(keys, key)
    keys[slot], weights[slot], ranks[slot] = key, weight, size
    _stand(heap, places, n_active[0], np.int64(slot))
    n_active[0] += 1
    _settle(heap, places, ranks, n_active[0], n_active[0] - 1)


@inner_loop
def train_rows_with_heap(  # type: ignore[no-untyped-def]
    rows, first, last, rule, sketch, table, scalars, intercept, forgets, hysteresis, others
):
    """Take rows as `daskfs.kernels.sketch.rows.train_rows` does, with a `HeapTable`.

    Of each row: predict with the weights as they were when their feature was last met; then for every feature the
    step, in the sketch or, where it `forgets`, from its weight or zero, and its place among the k largest. `others`,
    uint64 of shape (longest row,), is to work in.

    Returns
    -------
    row : int
    is_finite : bool
    """
    indptr, indices, data, y, row_weight = rows
    cells, n_buckets, hashes, seed = sketch
    keys, weights, ranks, heap, places, n_active, most = table
    scale = np.float32(scalars[0].tail_scale)
    for row in range(first, last):
        start, stop = indptr[row], indptr[row + 1]
        norm = squared_norm_between(data, start, stop)
        if not math.isfinite(norm):
            return row, False
        z, n_others = intercept[0], 0
        for i in range(start, stop):
            slot = slot_of(keys, np.uint64(indices[i]))
            if keys[slot] != EMPTY:
                z += np.float64(weights[slot]) * np.float64(data[i])
            else:
                others[n_others] = i
                n_others += 1
        step = step_from(rule, scalars, intercept, z, y[row], row_weight[row], norm)
        if not forgets:
            for i in range(start, stop):
                h = hash_word(np.uint64(indices[i]), seed, hashes)
                value = step * data[i]
                weight = updated(cells, n_buckets, hashes, h, np.divide(value, scale)) * scale
                push(keys, weights, ranks, heap, places, n_active, most, np.uint64(indices[i]), weight, hysteresis)
            continue
        for i in range(start, stop):  # first those that have a weight: the k largest are of the sum of both
            slot = slot_of(keys, np.uint64(indices[i]))
            if keys[slot] != EMPTY:
                weight = weights[slot] + step * data[i]
                push(keys, weights, ranks, heap, places, n_active, most, np.uint64(indices[i]), weight, hysteresis)
        for k in range(n_others):
            i = others[k]
            weight = step * data[i]
            slot = slot_of(keys, np.uint64(indices[i]))
            if keys[slot] != EMPTY:  # the id stands twice in this row
                weight += weights[slot]
            push(keys, weights, ranks, heap, places, n_active, most, np.uint64(indices[i]), weight, hysteresis)
    return last, True
