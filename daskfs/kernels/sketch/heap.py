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
from daskfs.kernels.linear.columns import copy_into, squared_norm_between
from daskfs.kernels.sketch.count_sketch import A, bucket_of, hash_word, rows_of, updated
from daskfs.kernels.sketch.rows import EMPTY, slot_of, take_steps

FRESH, STALE, FORGETS = range(3)

HYSTERESIS = 1.05
"""In the authors' heap, a feature moves when its absolute weight has changed by this factor."""

_S32 = np.uint64(32)
ALL_ROWS = rows_of(1)
"""Rows for `hash_word`, whose result is the same for any positive number of rows."""

PLACE = np.dtype(
    [("id", np.uint64), ("touches", np.int64), ("stand", np.int64), ("weight", np.float32), ("rank", np.float32)]
)
"""An active feature.

Its rows since it became active, its position in the heap, its weight as of its last occurrence, and the absolute weight
by which it is ordered.
"""


class Heaps(NamedTuple):
    """The active features of each class, and the heap of them."""

    places: np.ndarray  # (n_outputs, k) PLACE
    heap: np.ndarray  # (n_outputs, k) int64: places, that of the smallest rank on top
    keys: np.ndarray  # (n_outputs, n_slots) uint64 ids, EMPTY in free slots
    place_of: np.ndarray  # (n_outputs, n_slots) int64: the place of a slot's id
    n_active: np.ndarray  # (n_outputs,) int64
    heads: np.ndarray  # (n_outputs, n_chains, n_slots) int32: the chains, below; for FRESH one per row of the sketch
    nexts: np.ndarray  # (n_outputs, n_chains, k) int32
    buckets: np.ndarray  # (n_outputs, n_chains, k) int32: bucket of a place's id in each row of the sketch


def empty_heaps(n_outputs: int, k: int, n_slots: int, n_chains: int) -> Heaps:
    """Return heaps for k features of each output, with chains for `n_chains` rows of the sketch."""
    return Heaps(
        places=np.zeros((n_outputs, k), PLACE),
        heap=np.zeros((n_outputs, k), np.int64),
        keys=np.full((n_outputs, n_slots), EMPTY),
        place_of=np.zeros((n_outputs, n_slots), np.int64),
        n_active=np.zeros(n_outputs, np.int64),
        heads=np.full((n_outputs, n_chains, n_slots), -1, np.int32),
        nexts=np.zeros((n_outputs, n_chains, k), np.int32),
        buckets=np.zeros((n_outputs, n_chains, k), np.int32),
    )


@kernel
def _is_less(places, a, b):  # type: ignore[no-untyped-def]
    """Return whether place a is dropped before place b. Ties drop the larger id, so order does not matter."""
    return places[a]["rank"] < places[b]["rank"] or (
        places[a]["rank"] == places[b]["rank"] and places[a]["id"] > places[b]["id"]
    )


@kernel
def _settle(places, heap, n, place):  # type: ignore[no-untyped-def]
    """Move a place up or down in the heap of n places to its position by rank."""
    i = places[place]["stand"]
    while i > 0 and _is_less(places, place, heap[(i - 1) // 2]):
        heap[i] = heap[(i - 1) // 2]
        places[heap[i]]["stand"] = i
        i = (i - 1) // 2
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and _is_less(places, heap[child + 1], heap[child]):
            child += 1
        if not _is_less(places, heap[child], place):
            break
        heap[i] = heap[child]
        places[heap[i]]["stand"] = i
        i = child
    heap[i] = place
    places[place]["stand"] = i


@kernel
def _free(keys, place_of, slot):  # type: ignore[no-untyped-def]
    """Remove a slot from the table. Entries that probed past it move up."""
    mask = np.int64(keys.shape[0] - 1)
    gap, at = np.int64(slot), np.int64(slot)
    while True:
        at = (at + 1) & mask
        if keys[at] == EMPTY:
            break
        home = np.int64((keys[at] * A >> _S32) & np.uint64(mask))
        if ((at - home) & mask) >= ((at - gap) & mask):
            keys[gap], place_of[gap] = keys[at], place_of[at]
            gap = at
    keys[gap] = EMPTY


@kernel
def _is_small(places, heap, n_active, size):  # type: ignore[no-untyped-def]
    """Return whether an inactive feature of this size stays out. A test before `push`, whose call costs more."""
    return n_active[0] == places.shape[0] and size < places[heap[0]]["rank"]


@kernel
def push(places, heap, keys, place_of, n_active, key, weight, hysteresis):  # type: ignore[no-untyped-def]
    """Set the weight of a feature if it is active, or make it active if it is among the k largest.

    Parameters
    ----------
    places, heap, keys, place_of, n_active : the fields of `Heaps`, of one class
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
        place = place_of[slot]
        places[place]["weight"] = weight
        places[place]["touches"] += 1
        rank = places[place]["rank"]
        if size >= hysteresis * rank or size * hysteresis <= rank:
            places[place]["rank"] = size
            _settle(places, heap, n_active[0], place)
        return -1
    if not size > 0.0:
        return -1
    place = n_active[0]
    if place < places.shape[0]:
        places[place]["stand"] = place
        n_active[0] += 1
    else:
        place = heap[0]
        least = hysteresis * places[place]["rank"]
        if size < least or (size == least and key > places[place]["id"]):
            return -1
        _free(keys, place_of, slot_of(keys, places[place]["id"]))
        slot = slot_of(keys, key)
    keys[slot], place_of[slot] = key, place
    places[place]["id"], places[place]["touches"] = key, 1
    places[place]["weight"], places[place]["rank"] = weight, size
    _settle(places, heap, n_active[0], place)
    return place


@kernel
def fill_heap(  # type: ignore[no-untyped-def]
    new_ids, new_weights, new_touches, n_buckets, seed,
    places, heap, keys, place_of, n_active, heads, nexts, buckets,
):  # fmt: skip
    """Make exactly those of these features active that have a nonzero weight."""
    keys[:] = EMPTY
    heads[:] = -1
    n_active[0] = 0
    for j in range(new_ids.shape[0]):
        place = push(places, heap, keys, place_of, n_active, new_ids[j], new_weights[j], 1.0)
        if place >= 0:
            places[place]["touches"] = new_touches[j]
            _link(heads, nexts, buckets, n_buckets, seed, new_ids[j], place)


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
    rows, first, last, rule, sketch, scalars, intercept, work : see `train_rows`
    heaps : Heaps
    policy : int
        FRESH, STALE or FORGETS.

    Returns
    -------
    row : int
    is_finite : bool
    """
    indptr, indices, data, y, row_weight = rows
    cells, n_buckets, hashes, seed = sketch
    places, heap, keys, place_of, n_active, heads, nexts, buckets = heaps
    n_outputs, scale = np.uint64(intercept.shape[0]), np.float32(scalars[0]["tail_scale"])
    words, others, z, derivatives, steps = work.words, work.places, work.z, work.derivatives, work.steps
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
        copy_into(intercept, z)
        for c in range(n_outputs):
            keys_of_class, place_of_key, places_of_class, total = keys[c], place_of[c], places[c], z[c]
            for i in range(stop - start):
                slot = slot_of(keys_of_class, np.uint64(found[i]))
                if keys_of_class[slot] != EMPTY:
                    total += np.float64(places_of_class[place_of_key[slot]]["weight"]) * np.float64(values[i])
            z[c] = total
        take_steps(rule, scalars, intercept, z, y[row], row_weight[row], norm, derivatives, steps)
        # UPDATE(j, -rate ∂loss/∂z_c x_j) for every feature of the row, then the k largest estimates.
        for c in range(n_outputs):
            step, of_class = steps[c], (places[c], heap[c], keys[c], place_of[c], n_active[c : c + 1])
            if policy == FORGETS:
                _step_forgetfully(found, values, others, step, *of_class)
                continue
            tail = cells, n_outputs, c, n_buckets, hashes
            if policy == STALE:
                _step_stalely(found, values, words, step, scale, *tail, *of_class)
            else:
                _step_freshly(found, values, words, step, scale, *tail, *of_class, seed, heads[c], nexts[c], buckets[c])
    return last, True


@kernel
def _step_freshly(  # type: ignore[no-untyped-def]
    found, values, words, step, scale, cells, n_outputs, output, n_buckets, hashes,
    places, heap, keys, place_of, n_active, seed, heads, nexts, buckets,
):  # fmt: skip
    """Add a row's step to the sketch. Then select the k largest of the active features and those of the row.

    The estimates of active features whose cells have changed are recomputed, whether or not they occur in the row.
    """
    zero = np.float32(0.0)
    for i in range(found.shape[0]):
        updated(cells, n_outputs, output, n_buckets, hashes, words[i], np.divide(step * values[i], scale))
    for i in range(found.shape[0]):
        slot = slot_of(keys, np.uint64(found[i]))
        if keys[slot] != EMPTY:
            place = place_of[slot]
            places[place]["touches"] += 1
            weight = updated(cells, n_outputs, output, n_buckets, hashes, words[i], zero) * scale
            _reweigh(places, heap, n_active[0], place, weight)
        for r in range(heads.shape[0]):
            bucket = bucket_of(words[i], r, n_buckets)
            place = heads[r, bucket & (heads.shape[1] - 1)]
            while place >= 0:
                if buckets[r, place] == bucket:
                    h = hash_word(places[place]["id"], seed, hashes)
                    weight = updated(cells, n_outputs, output, n_buckets, hashes, h, zero) * scale
                    _reweigh(places, heap, n_active[0], place, weight)
                place = nexts[r, place]
    for i in range(found.shape[0]):
        key = np.uint64(found[i])
        if keys[slot_of(keys, key)] != EMPTY:
            continue
        is_full = n_active[0] == places.shape[0]
        weight = updated(cells, n_outputs, output, n_buckets, hashes, words[i], zero) * scale
        if _is_small(places, heap, n_active, abs(weight)):
            continue
        place = push(places, heap, keys, place_of, n_active, key, weight, 1.0)
        if place >= 0:
            if is_full:
                _unlink(heads, nexts, buckets, place)
            _link(heads, nexts, buckets, n_buckets, seed, key, place)


@kernel
def _reweigh(places, heap, n, place, weight):  # type: ignore[no-untyped-def]
    """Set an active feature's weight and its position in the heap."""
    places[place]["weight"] = weight
    if places[place]["rank"] != abs(weight):
        places[place]["rank"] = abs(weight)
        _settle(places, heap, n, place)


@kernel
def _step_stalely(  # type: ignore[no-untyped-def]
    found, values, words, step, scale, cells, n_outputs, output, n_buckets, hashes,
    places, heap, keys, place_of, n_active,
):  # fmt: skip
    """Add a row's step to the sketch one feature at a time. Each takes its place in the heap at once."""
    for i in range(found.shape[0]):
        change = np.divide(step * values[i], scale)
        weight = updated(cells, n_outputs, output, n_buckets, hashes, words[i], change) * scale
        push(places, heap, keys, place_of, n_active, np.uint64(found[i]), weight, HYSTERESIS)


@inner_loop
def _step_forgetfully(found, values, others, step, places, heap, keys, place_of, n_active):  # type: ignore[no-untyped-def]
    """Take a step from the weights of active features and from zero for the others. The k largest stay."""
    n_others = 0
    for i in range(found.shape[0]):  # first those with a weight: the k largest are selected from the union
        key = np.uint64(found[i])
        slot = slot_of(keys, key)
        if keys[slot] == EMPTY:
            others[n_others] = i
            n_others += 1
            continue
        weight = places[place_of[slot]]["weight"] + step * values[i]
        push(places, heap, keys, place_of, n_active, key, weight, 1.0)
    for k in range(n_others):
        i = others[k]
        key, weight = np.uint64(found[i]), step * values[i]
        slot = slot_of(keys, key)
        if keys[slot] != EMPTY:  # the id occurs twice in this row
            weight += places[place_of[slot]]["weight"]
        elif _is_small(places, heap, n_active, abs(weight)):
            continue
        push(places, heap, keys, place_of, n_active, key, weight, 1.0)
