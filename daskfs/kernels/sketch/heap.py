"""The k largest weights of each class in a heap: MISSION as published, as its authors programmed it, and IHT by rows.

Algorithm 1 of A. Aghazadeh et al., "MISSION: Ultra Large-Scale Feature Selection using Count-Sketches", ICML 2018:
every weight is in the sketch, and only the k whose estimates are largest predict. Each class has cells and a heap of
its own; its active features stand in an open-addressing table and, by the size of their weights, in a heap with the
smallest on top. `policy` says when an active feature's weight is looked at, and what becomes of the others:

    FRESH    as published: the k largest of what the sketch says after every row
    STALE    the authors' program: weights are those of when their feature was last met, and a feature moves when its
             size has changed by a twentieth
    FORGETS  iterative hard thresholding: there is no sketch; what is not active weighs nothing
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.linear.columns import squared_norm_between
from daskfs.kernels.numba_cache import inner_loop, is_stopped, kernel
from daskfs.kernels.sketch.classes import loss_and_derivatives
from daskfs.kernels.sketch.count_sketch import A, hash_word, updated
from daskfs.kernels.sketch.rows import EMPTY, slot_of, step_from, step_of

FRESH, STALE, FORGETS = range(3)

HYSTERESIS = 1.05
"""Of the authors' heap: a feature moves when its size has changed by this factor."""

_ONE, _S32 = np.uint64(1), np.uint64(32)


class Heaps(NamedTuple):
    """The active features of each class, and the heap of them."""

    keys: np.ndarray  # (n_outputs, n_slots) uint64 ids, EMPTY where a slot is free
    weights: np.ndarray  # (n_outputs, n_slots) float32: as they were when the feature was last met
    ranks: np.ndarray  # (n_outputs, n_slots) float32: the size by which a slot stands in the heap
    touches: np.ndarray  # (n_outputs, n_slots) int64: rows that had the feature since it became active
    places: np.ndarray  # (n_outputs, n_slots) int64: where a slot stands in the heap
    heap: np.ndarray  # (n_outputs, k) int64 slots
    n_active: np.ndarray  # (n_outputs,) int64


@kernel
def _is_less(keys, ranks, a, b):  # type: ignore[no-untyped-def]
    """Whether slot a gives way before slot b: of equal sizes the larger id, so that the table's layout is no matter."""
    return ranks[a] < ranks[b] or (ranks[a] == ranks[b] and keys[a] > keys[b])


@kernel
def _stand(heap, places, i, slot):  # type: ignore[no-untyped-def]
    heap[i] = slot
    places[slot] = i


@kernel
def _settle_down(keys, ranks, places, heap, n, i):  # type: ignore[no-untyped-def]
    """Move what stands at place i down to where it belongs among n, whatever stands above it."""
    slot = heap[i]
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and _is_less(keys, ranks, heap[child + 1], heap[child]):
            child += 1
        if not _is_less(keys, ranks, heap[child], slot):
            break
        _stand(heap, places, i, heap[child])
        i = child
    _stand(heap, places, i, slot)


@kernel
def _settle(keys, ranks, places, heap, n, i):  # type: ignore[no-untyped-def]
    """Move what stands at place i up or down to where it belongs among n."""
    slot = heap[i]
    while i > 0 and _is_less(keys, ranks, slot, heap[(i - 1) // 2]):
        _stand(heap, places, i, heap[(i - 1) // 2])
        i = (i - 1) // 2
    _stand(heap, places, i, slot)
    _settle_down(keys, ranks, places, heap, n, i)


@kernel
def _free(keys, weights, ranks, touches, places, heap, slot):  # type: ignore[no-untyped-def]
    """Take a slot out of the table; those that probed past it move up."""
    mask = np.int64(keys.shape[0] - 1)
    gap, at = np.int64(slot), np.int64(slot)
    while True:
        at = (at + 1) & mask
        if keys[at] == EMPTY:
            break
        home = np.int64((keys[at] * A >> _S32) & np.uint64(mask))
        if ((at - home) & mask) >= ((at - gap) & mask):
            keys[gap], weights[gap], ranks[gap], touches[gap] = keys[at], weights[at], ranks[at], touches[at]
            _stand(heap, places, places[at], gap)
            gap = at
    keys[gap] = EMPTY


@kernel
def push(keys, weights, ranks, touches, places, heap, n_active, key, weight, hysteresis):  # type: ignore[no-untyped-def]
    """Set the weight of a feature if it is active, or make it active if it is among the k largest.

    Parameters
    ----------
    keys, weights, ranks, touches, places, heap, n_active : the fields of `Heaps`, of one class
        One by one: a record that is taken apart for every feature of a row costs two thirds more time.
    key : uint64
    weight : float32
    hysteresis : float
        A feature moves in the heap, or into it, when its size has changed by this factor.
    """
    size = abs(weight)
    slot = slot_of(keys, key)
    if keys[slot] == key:
        weights[slot] = weight
        touches[slot] += 1
        rank = ranks[slot]
        if size >= hysteresis * rank or size * hysteresis <= rank:
            ranks[slot] = size
            _settle(keys, ranks, places, heap, n_active[0], places[slot])
        return
    if not size > 0.0:
        return
    if n_active[0] >= heap.shape[0]:
        least = hysteresis * ranks[heap[0]]
        if size < least or (size == least and key > keys[heap[0]]):
            return
        last = n_active[0] - 1
        out = heap[0]
        _stand(heap, places, 0, heap[last])
        n_active[0] = last
        if last > 0:
            _settle(keys, ranks, places, heap, last, 0)
        _free(keys, weights, ranks, touches, places, heap, out)
        slot = slot_of(keys, key)
    keys[slot], weights[slot], ranks[slot], touches[slot] = key, weight, size, 1
    _stand(heap, places, n_active[0], np.int64(slot))
    n_active[0] += 1
    _settle(keys, ranks, places, heap, n_active[0], n_active[0] - 1)


@kernel
def fill_heap(new_keys, new_weights, new_touches, keys, weights, ranks, touches, places, heap, n_active):  # type: ignore[no-untyped-def]
    """Make features active in an empty heap: those that weigh anything, with their touches."""
    for j in range(new_keys.shape[0]):
        push(keys, weights, ranks, touches, places, heap, n_active, new_keys[j], new_weights[j], 1.0)
        slot = slot_of(keys, new_keys[j])
        if keys[slot] != EMPTY:
            touches[slot] = new_touches[j]


@kernel
def _look_again(cells, n_buckets, hashes, seed, scale, keys, weights, ranks, places, heap, n):  # type: ignore[no-untyped-def]
    """Rank all active features by what the sketch says of them now."""
    for i in range(n):
        slot = heap[i]
        h = hash_word(keys[slot], seed, hashes)
        weights[slot] = updated(cells, n_buckets, hashes, h, np.float32(0.0)) * scale
        ranks[slot] = abs(weights[slot])
    for i in range(n // 2 - 1, -1, -1):
        _settle_down(keys, ranks, places, heap, n, i)


@inner_loop
def train_rows_with_heaps(rows, first, last, rule, sketch, heaps, scalars, intercept, policy, work):  # type: ignore[no-untyped-def]
    """Take rows as `daskfs.kernels.sketch.rows.train_rows` does, of one output or one for each class.

    Parameters
    ----------
    rows, first, last, rule, scalars : as in `train_rows`
    sketch : Sketch
        With cells of shape (n_hashes * n_buckets, n_outputs).
    heaps : Heaps
    intercept : ndarray of shape (n_outputs,), float64
    policy : int
        FRESH, STALE or FORGETS.
    work : Work

    Returns
    -------
    row : int
    is_finite : bool
    """
    indptr, indices, data, y, row_weight = rows
    all_cells, n_buckets, hashes, seed = sketch
    all_keys, all_weights, ranks, touches, places, heap, n_active = heaps
    n_outputs = intercept.shape[0]
    words, is_other = work.words, work.places
    scale = np.float32(scalars[0].tail_scale)
    z, derivatives, steps = np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs, np.float32)
    for row in range(first, last):
        if is_stopped():
            break
        start, stop = indptr[row], indptr[row + 1]
        norm = squared_norm_between(data, start, stop)
        if not math.isfinite(norm):
            return row, False
        ids, values = indices[start:stop], data[start:stop]
        for i in range(stop - start):
            words[i] = hash_word(np.uint64(ids[i]), seed, hashes)
        # The predictions z_c = intercept_c + Σ QUERY_c(j) x_j over the active features of each class.
        for c in range(n_outputs):
            cells, keys, weights = all_cells[:, c], all_keys[c], all_weights[c]
            total = intercept[c]
            for i in range(stop - start):
                slot = slot_of(keys, np.uint64(ids[i]))
                if keys[slot] != EMPTY:
                    weight = weights[slot]
                    if policy == FRESH:
                        weight = updated(cells, n_buckets, hashes, words[i], np.float32(0.0)) * scale
                    total += np.float64(weight) * np.float64(values[i])
            z[c] = total
        # The gradient in z, and the step of each class's weights for x = 1.
        if n_outputs == 1:
            steps[0] = step_from(rule, scalars, intercept, z[0], y[row], row_weight[row], norm)
        else:
            scalars[0].loss_sum += row_weight[row] * loss_and_derivatives(rule.loss, z, y[row], derivatives)
            scalars[0].weight_sum += row_weight[row]
            rate = step_of(rule, scalars[0].rows_seen, row_weight[row], norm)
            scalars[0].rows_seen += rule.row_count
            for c in range(n_outputs):
                steps[c] = -rate * derivatives[c]
                intercept[c] -= rule.intercept_ratio * rate * derivatives[c]
        # UPDATE(j, -rate ∂loss/∂z_c x_j) for every feature of the row, and the k largest of what is then there.
        for c in range(n_outputs):
            table = (
                all_keys[c], all_weights[c], ranks[c], touches[c], places[c], heap[c], n_active[c : c + 1],
            )  # fmt: skip
            cells = all_cells[:, c]
            if policy == FRESH:
                _step_freshly(ids, values, words, steps[c], cells, n_buckets, hashes, seed, scale, *table)
            elif policy == STALE:
                _step_stalely(ids, values, words, steps[c], cells, n_buckets, hashes, scale, *table)
            else:
                _step_forgetfully(ids, values, is_other, steps[c], *table)
    return last, True


@kernel
def _step_freshly(  # type: ignore[no-untyped-def]
    ids, values, words, step, cells, n_buckets, hashes, seed, scale,
    keys, weights, ranks, touches, places, heap, n_active,
):  # fmt: skip
    """Add a row's step to the sketch; then the k largest are of the active features and those of the row.

    Active features that are not of the row share cells with it: they are looked at again before one has to give way.
    """
    for i in range(ids.shape[0]):
        updated(cells, n_buckets, hashes, words[i], np.divide(step * values[i], scale))
    is_ranked = False
    for i in range(ids.shape[0]):
        key = np.uint64(ids[i])
        weight = updated(cells, n_buckets, hashes, words[i], np.float32(0.0)) * scale
        slot = slot_of(keys, key)
        if keys[slot] == key:
            touches[slot] += 1
            continue
        if n_active[0] == heap.shape[0] and not is_ranked:
            _look_again(cells, n_buckets, hashes, seed, scale, keys, weights, ranks, places, heap, n_active[0])
            is_ranked = True
        push(keys, weights, ranks, touches, places, heap, n_active, key, weight, 1.0)


@kernel
def _step_stalely(  # type: ignore[no-untyped-def]
    ids, values, words, step, cells, n_buckets, hashes, scale,
    keys, weights, ranks, touches, places, heap, n_active,
):  # fmt: skip
    """Add a row's step to the sketch feature by feature, each of which takes its place in the heap at once."""
    for i in range(ids.shape[0]):
        weight = updated(cells, n_buckets, hashes, words[i], np.divide(step * values[i], scale)) * scale
        push(keys, weights, ranks, touches, places, heap, n_active, np.uint64(ids[i]), weight, HYSTERESIS)


@inner_loop
def _step_forgetfully(  # type: ignore[no-untyped-def]
    ids, values, others, step, keys, weights, ranks, touches, places, heap, n_active
):
    """Take a step from the weights of the active features, and from zero of the others; the k largest stay."""
    n_others = 0
    for i in range(ids.shape[0]):  # first those that have a weight: the k largest are of the sum of both
        key = np.uint64(ids[i])
        slot = slot_of(keys, key)
        if keys[slot] == EMPTY:
            others[n_others] = i
            n_others += 1
            continue
        push(keys, weights, ranks, touches, places, heap, n_active, key, weights[slot] + step * values[i], 1.0)
    for k in range(n_others):
        i = others[k]
        key, weight = np.uint64(ids[i]), step * values[i]
        slot = slot_of(keys, key)
        if keys[slot] != EMPTY:  # the id stands twice in this row
            weight += weights[slot]
        push(keys, weights, ranks, touches, places, heap, n_active, key, weight, 1.0)
