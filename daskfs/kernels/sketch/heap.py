"""The k largest weights of each class in a heap: MISSION as published, as its authors programmed it, and IHT by rows.

Algorithm 1 of A. Aghazadeh et al., "MISSION: Ultra Large-Scale Feature Selection using Count-Sketches", ICML 2018:
every weight is in the sketch, and only the k with the largest estimates predict. Each class has its own cells and heap:
k places, an open-addressing table that finds a feature's place by its id, and a heap of the places with the smallest
weight on top. `policy` says when an active feature's weight is updated, and what happens to the others:

    FRESH    as published: after every row, the k largest estimates of the sketch
    STALE    the authors' program: a weight is that of its feature's last occurrence, and a feature moves when its
             absolute weight has changed by a twentieth
    FORGETS  iterative hard thresholding: there is no sketch, and inactive features have weight 0
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import squared_norm_between
from daskfs.kernels.losses import loss_and_derivatives
from daskfs.kernels.sketch.count_sketch import A, bucket_of, hash_word, rows_of, updated
from daskfs.kernels.sketch.rows import EMPTY, slot_of, step_from, step_of

FRESH, STALE, FORGETS = range(3)

HYSTERESIS = 1.05
"""In the authors' heap, a feature moves when its absolute weight has changed by this factor."""

_S32 = np.uint64(32)
ALL_ROWS = rows_of(1)
"""Rows for `hash_word`, whose result is the same for any positive number of rows."""


class Heaps(NamedTuple):
    """The active features of each class, and the heap of them."""

    ids: np.ndarray  # (n_outputs, k) uint64, by place
    weights: np.ndarray  # (n_outputs, k) float32: as of the feature's last occurrence
    ranks: np.ndarray  # (n_outputs, k) float32: the absolute weight by which a place is ordered in the heap
    touches: np.ndarray  # (n_outputs, k) int64: rows with the feature since it became active
    heap: np.ndarray  # (n_outputs, k) int64 places
    stands: np.ndarray  # (n_outputs, k) int64: position of a place in the heap
    keys: np.ndarray  # (n_outputs, n_slots) uint64 ids, EMPTY in free slots
    places: np.ndarray  # (n_outputs, n_slots) int64: the place of a slot's id
    n_active: np.ndarray  # (n_outputs,) int64
    heads: np.ndarray  # (n_outputs, n_chains, n_slots) int32: the chains, below; for FRESH one per row of the sketch
    nexts: np.ndarray  # (n_outputs, n_chains, k) int32
    buckets: np.ndarray  # (n_outputs, n_chains, k) int32: bucket of a place's id in each row of the sketch


def empty_heaps(n_outputs: int, k: int, n_slots: int, n_chains: int) -> Heaps:
    """Return heaps for k features of each output, with chains for `n_chains` rows of the sketch."""
    by_place, by_slot = (n_outputs, k), (n_outputs, n_slots)
    return Heaps(
        ids=np.zeros(by_place, dtype=np.uint64),
        weights=np.zeros(by_place, dtype=np.float32),
        ranks=np.zeros(by_place, dtype=np.float32),
        touches=np.zeros(by_place, dtype=np.int64),
        heap=np.zeros(by_place, dtype=np.int64),
        stands=np.zeros(by_place, dtype=np.int64),
        keys=np.full(by_slot, EMPTY, dtype=np.uint64),
        places=np.zeros(by_slot, dtype=np.int64),
        n_active=np.zeros(n_outputs, dtype=np.int64),
        heads=np.full((n_outputs, n_chains, n_slots), -1, dtype=np.int32),
        nexts=np.zeros((n_outputs, n_chains, k), dtype=np.int32),
        buckets=np.zeros((n_outputs, n_chains, k), dtype=np.int32),
    )


@kernel
def _is_less(ids, ranks, a, b):  # type: ignore[no-untyped-def]
    """Return whether place a is dropped before place b. Ties drop the larger id, so order does not matter."""
    return ranks[a] < ranks[b] or (ranks[a] == ranks[b] and ids[a] > ids[b])


@kernel
def _settle(ids, ranks, heap, stands, n, place):  # type: ignore[no-untyped-def]
    """Move a place up or down in the heap of n places to its position by rank."""
    i = stands[place]
    while i > 0 and _is_less(ids, ranks, place, heap[(i - 1) // 2]):
        heap[i] = heap[(i - 1) // 2]
        stands[heap[i]] = i
        i = (i - 1) // 2
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and _is_less(ids, ranks, heap[child + 1], heap[child]):
            child += 1
        if not _is_less(ids, ranks, heap[child], place):
            break
        heap[i] = heap[child]
        stands[heap[i]] = i
        i = child
    heap[i] = place
    stands[place] = i


@kernel
def _free(keys, places, slot):  # type: ignore[no-untyped-def]
    """Remove a slot from the table. Entries that probed past it move up."""
    mask = np.int64(keys.shape[0] - 1)
    gap, at = np.int64(slot), np.int64(slot)
    while True:
        at = (at + 1) & mask
        if keys[at] == EMPTY:
            break
        home = np.int64((keys[at] * A >> _S32) & np.uint64(mask))
        if ((at - home) & mask) >= ((at - gap) & mask):
            keys[gap], places[gap] = keys[at], places[at]
            gap = at
    keys[gap] = EMPTY


@kernel
def _is_small(ids, ranks, heap, n_active, size):  # type: ignore[no-untyped-def]
    """Return whether an inactive feature of this size stays out. A test before `push`, whose call costs more."""
    return n_active[0] == ids.shape[0] and size < ranks[heap[0]]


@kernel
def push(  # type: ignore[no-untyped-def]
    ids, weights, ranks, touches, heap, stands, keys, places, n_active, key, weight, hysteresis
):
    """Set the weight of a feature if it is active, or make it active if it is among the k largest.

    Parameters
    ----------
    ids, weights, ranks, touches, heap, stands, keys, places, n_active : the fields of `Heaps`, of one class
        Passed one at a time: unpacking a record for every feature of a row takes two thirds more time.
    key : uint64
    weight : float32
    hysteresis : float
        A feature moves within or into the heap when its absolute weight has changed by this factor.

    Returns
    -------
    place : int
        Place of a feature that has become active, otherwise -1.
    """
    size, slot = abs(weight), slot_of(keys, key)
    if keys[slot] == key:
        place = places[slot]
        weights[place] = weight
        touches[place] += 1
        if size >= hysteresis * ranks[place] or size * hysteresis <= ranks[place]:
            ranks[place] = size
            _settle(ids, ranks, heap, stands, n_active[0], place)
        return -1
    if not size > 0.0:
        return -1
    place = n_active[0]
    if place < ids.shape[0]:
        stands[place] = place
        n_active[0] += 1
    else:
        place = heap[0]
        least = hysteresis * ranks[place]
        if size < least or (size == least and key > ids[place]):
            return -1
        _free(keys, places, slot_of(keys, ids[place]))
        slot = slot_of(keys, key)
    keys[slot], places[slot] = key, place
    ids[place], weights[place], ranks[place], touches[place] = key, weight, size, 1
    _settle(ids, ranks, heap, stands, n_active[0], place)
    return place


@kernel
def fill_heap(  # type: ignore[no-untyped-def]
    new_ids, new_weights, new_touches, n_buckets, seed,
    ids, weights, ranks, touches, heap, stands, keys, places, n_active, heads, nexts, buckets,
):  # fmt: skip
    """Make exactly those of these features active that have a nonzero weight."""
    keys[:] = EMPTY
    heads[:] = -1
    n_active[0] = 0
    for j in range(new_ids.shape[0]):
        key, weight = new_ids[j], new_weights[j]
        place = push(ids, weights, ranks, touches, heap, stands, keys, places, n_active, key, weight, 1.0)
        if place >= 0:
            touches[place] = new_touches[j]
            _link(heads, nexts, buckets, n_buckets, seed, key, place)


# Chains find the active features of a cell. For each row of the sketch, the places whose buckets agree in the last bits
# form a chain: heads[row, last bits of the bucket], nexts[row, place], ..., -1.


@kernel
def _link(heads, nexts, buckets, n_buckets, seed, key, place):  # type: ignore[no-untyped-def]
    h, mask = hash_word(key, seed, ALL_ROWS), heads.shape[1] - 1
    for r in range(heads.shape[0]):
        buckets[r, place] = bucket_of(h, r, n_buckets)
        nexts[r, place] = heads[r, buckets[r, place] & mask]
        heads[r, buckets[r, place] & mask] = place


@kernel
def _unlink(heads, nexts, buckets, place):  # type: ignore[no-untyped-def]
    for r in range(heads.shape[0]):
        end = buckets[r, place] & (heads.shape[1] - 1)
        if heads[r, end] == place:
            heads[r, end] = nexts[r, place]
            continue
        before = heads[r, end]
        while nexts[r, before] != place:
            before = nexts[r, before]
        nexts[r, before] = nexts[r, place]


@inner_loop
def train_rows_with_heaps(rows, first, last, rule, sketch, heaps, scalars, intercept, policy, work):  # type: ignore[no-untyped-def]
    """Process rows like `daskfs.kernels.sketch.rows.train_rows`, with one output or one per class.

    Parameters
    ----------
    rows, first, last, rule, scalars : see `train_rows`
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
    ids, weights, ranks, touches, heap, stands, keys, places, n_active, heads, nexts, buckets = heaps
    n_outputs = intercept.shape[0]
    words, is_other = work.words, work.places
    scale = np.float32(scalars[0]["tail_scale"])
    z, derivatives, steps = np.empty(n_outputs), np.empty(n_outputs), np.empty(n_outputs, np.float32)
    for row in range(first, last):
        if is_stopped():
            break
        start, stop = indptr[row], indptr[row + 1]
        norm = squared_norm_between(data, start, stop)
        if not math.isfinite(norm):
            return row, False
        found, values = indices[start:stop], data[start:stop]
        for i in range(stop - start):
            words[i] = hash_word(np.uint64(found[i]), seed, hashes)
        # The predictions z_c = intercept_c + Σ QUERY_c(j) x_j over the active features of each class.
        for c in range(n_outputs):
            keys_of_class, places_of_class, weights_of_class = keys[c], places[c], weights[c]
            total = intercept[c]
            for i in range(stop - start):
                slot = slot_of(keys_of_class, np.uint64(found[i]))
                if keys_of_class[slot] != EMPTY:
                    total += np.float64(weights_of_class[places_of_class[slot]]) * np.float64(values[i])
            z[c] = total
        # The gradient in z, and the step of each class's weights for x = 1.
        if n_outputs == 1:
            steps[0] = step_from(rule, scalars, intercept, z[0], y[row], row_weight[row], norm)
        else:
            scalars[0]["loss_sum"] += row_weight[row] * loss_and_derivatives(rule.loss, z, y[row], derivatives)
            scalars[0]["weight_sum"] += row_weight[row]
            rate = step_of(rule, scalars[0]["rows_seen"], row_weight[row], norm)
            scalars[0]["rows_seen"] += rule.row_count
            for c in range(n_outputs):
                steps[c] = -rate * derivatives[c]
                intercept[c] -= rule.intercept_ratio * rate * derivatives[c]
        # UPDATE(j, -rate ∂loss/∂z_c x_j) for every feature of the row, then the k largest estimates.
        for c in range(n_outputs):
            places_and_table = (
                ids[c], weights[c], ranks[c], touches[c], heap[c], stands[c], keys[c], places[c], n_active[c : c + 1],
            )  # fmt: skip
            cells = all_cells[:, c]
            if policy == FRESH:
                chains = heads[c], nexts[c], buckets[c]
                _step_freshly(
                    found, values, words, steps[c], cells, n_buckets, hashes, seed, scale, *places_and_table, *chains
                )
            elif policy == STALE:
                _step_stalely(found, values, words, steps[c], cells, n_buckets, hashes, scale, *places_and_table)
            else:
                _step_forgetfully(found, values, is_other, steps[c], *places_and_table)
    return last, True


@kernel
def _step_freshly(  # type: ignore[no-untyped-def]
    found, values, words, step, cells, n_buckets, hashes, seed, scale,
    ids, weights, ranks, touches, heap, stands, keys, places, n_active, heads, nexts, buckets,
):  # fmt: skip
    """Add a row's step to the sketch. Then select the k largest of the active features and those of the row.

    The estimates of active features whose cells have changed are recomputed, whether or not they occur in the row.
    """
    for i in range(found.shape[0]):
        updated(cells, n_buckets, hashes, words[i], np.divide(step * values[i], scale))
    sketch, heap_of = (cells, n_buckets, hashes, seed, scale), (ids, weights, ranks, heap, stands, n_active[0])
    for i in range(found.shape[0]):
        slot = slot_of(keys, np.uint64(found[i]))
        if keys[slot] != EMPTY:
            touches[places[slot]] += 1
            _look_again(*sketch, *heap_of, places[slot])
        for r in range(heads.shape[0]):
            bucket = bucket_of(words[i], r, n_buckets)
            place = heads[r, bucket & (heads.shape[1] - 1)]
            while place >= 0:
                if buckets[r, place] == bucket:
                    _look_again(*sketch, *heap_of, place)
                place = nexts[r, place]
    for i in range(found.shape[0]):
        key = np.uint64(found[i])
        if keys[slot_of(keys, key)] != EMPTY:
            continue
        is_full = n_active[0] == ids.shape[0]
        weight = updated(cells, n_buckets, hashes, words[i], np.float32(0.0)) * scale
        if _is_small(ids, ranks, heap, n_active, abs(weight)):
            continue
        place = push(ids, weights, ranks, touches, heap, stands, keys, places, n_active, key, weight, 1.0)
        if place >= 0:
            if is_full:
                _unlink(heads, nexts, buckets, place)
            _link(heads, nexts, buckets, n_buckets, seed, key, place)


@kernel
def _look_again(  # type: ignore[no-untyped-def]
    cells, n_buckets, hashes, seed, scale, ids, weights, ranks, heap, stands, n, place
):
    """Update an active feature's weight and its position in the heap to the sketch's current estimate."""
    h = hash_word(ids[place], seed, hashes)
    weights[place] = updated(cells, n_buckets, hashes, h, np.float32(0.0)) * scale
    if ranks[place] != abs(weights[place]):
        ranks[place] = abs(weights[place])
        _settle(ids, ranks, heap, stands, n, place)


@kernel
def _step_stalely(  # type: ignore[no-untyped-def]
    found, values, words, step, cells, n_buckets, hashes, scale,
    ids, weights, ranks, touches, heap, stands, keys, places, n_active,
):  # fmt: skip
    """Add a row's step to the sketch one feature at a time. Each takes its place in the heap at once."""
    for i in range(found.shape[0]):
        key = np.uint64(found[i])
        weight = updated(cells, n_buckets, hashes, words[i], np.divide(step * values[i], scale)) * scale
        push(ids, weights, ranks, touches, heap, stands, keys, places, n_active, key, weight, HYSTERESIS)


@inner_loop
def _step_forgetfully(  # type: ignore[no-untyped-def]
    found, values, others, step, ids, weights, ranks, touches, heap, stands, keys, places, n_active
):
    """Take a step from the weights of active features and from zero for the others. The k largest stay."""
    n_others = 0
    for i in range(found.shape[0]):  # first those with a weight: the k largest are selected from the union
        key = np.uint64(found[i])
        slot = slot_of(keys, key)
        if keys[slot] == EMPTY:
            others[n_others] = i
            n_others += 1
            continue
        weight = weights[places[slot]] + step * values[i]
        push(ids, weights, ranks, touches, heap, stands, keys, places, n_active, key, weight, 1.0)
    for k in range(n_others):
        i = others[k]
        key, weight = np.uint64(found[i]), step * values[i]
        slot = slot_of(keys, key)
        if keys[slot] != EMPTY:  # the id occurs twice in this row
            weight += weights[places[slot]]
        elif _is_small(ids, ranks, heap, n_active, abs(weight)):
            continue
        push(ids, weights, ranks, touches, heap, stands, keys, places, n_active, key, weight, 1.0)
