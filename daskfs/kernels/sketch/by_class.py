"""MISSION's step with several classes, each with its own active features: those with its largest weights.

An entry of the table is a pair of feature and class. All entries of a feature are between its first slot and the next
free one, so one probe finds all its classes. In the sketch each class has its own cells with the same hash, as in
`daskfs.kernels.sketch.classes`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into, squared_norm_between
from daskfs.kernels.losses import loss_and_derivatives
from daskfs.kernels.sketch.count_sketch import A, fetch, hash_word, updated
from daskfs.kernels.sketch.rows import EMPTY, step_of

_ONE, _S32 = np.uint64(1), np.uint64(32)


class ClassTable(NamedTuple):
    """The active features of each class, in an open-addressing table whose length is a power of two."""

    keys: np.ndarray  # (n_slots,) uint64 ids, EMPTY in free slots
    classes: np.ndarray  # (n_slots,) int32
    weights: np.ndarray  # (n_slots,) float32
    touches: np.ndarray  # (n_slots,) uint32
    n_active: np.ndarray  # (n_classes,) int64
    thresholds: np.ndarray  # (n_classes,) float64: smallest weight of an active feature


def empty_entries(n_classes: int, n_slots: int) -> ClassTable:
    """Return a table without entries."""
    return ClassTable(
        keys=np.full(n_slots, EMPTY, np.uint64),
        classes=np.zeros(n_slots, np.int32),
        weights=np.zeros(n_slots, np.float32),
        touches=np.zeros(n_slots, np.uint32),
        n_active=np.zeros(n_classes, np.int64),
        thresholds=np.zeros(n_classes),
    )


@kernel
def first_slot(keys, key):  # type: ignore[no-untyped-def]
    """Return the slot at which the probe for a feature's entries starts."""
    return (key * A >> _S32) & np.uint64(keys.shape[0] - 1)


@kernel
def fill_entries(new_keys, new_classes, new_weights, new_touches, n_selected, table):  # type: ignore[no-untyped-def]
    """Clear the table and insert these distinct entries.

    A class with `n_selected` of them has their smallest weight as its threshold; the others have 0.
    """
    keys, classes, weights, touches, n_active, thresholds = table
    mask = np.uint64(keys.shape[0] - 1)
    keys[:] = EMPTY
    n_active[:] = 0
    thresholds[:] = np.inf
    for j in range(new_keys.shape[0]):
        slot, c = first_slot(keys, new_keys[j]), new_classes[j]
        while keys[slot] != EMPTY:
            slot = (slot + _ONE) & mask
        keys[slot], classes[slot] = new_keys[j], c
        weights[slot], touches[slot] = new_weights[j], new_touches[j]
        n_active[c] += 1
        thresholds[c] = min(thresholds[c], abs(np.float64(new_weights[j])))
    for c in range(n_active.shape[0]):
        if n_active[c] < n_selected:
            thresholds[c] = 0.0


@kernel
def count_features(keys):  # type: ignore[no-untyped-def]
    """Return the number of distinct ids among a table's entries."""
    mask, n = np.uint64(keys.shape[0] - 1), 0
    for slot in range(np.uint64(keys.shape[0])):
        if keys[slot] != EMPTY:
            first = first_slot(keys, keys[slot])
            while keys[first] != keys[slot]:
                first = (first + _ONE) & mask
            n += first == slot
    return n


@kernel
def _sort_out(table, places, out_keys, out_weights, out_touches):  # type: ignore[no-untyped-def]
    keys, classes, weights, touches, _, _ = table
    for slot in range(keys.shape[0]):
        if keys[slot] != EMPTY:
            place = places[classes[slot]]
            out_keys[place], out_weights[place], out_touches[place] = keys[slot], weights[slot], touches[slot]
            places[classes[slot]] = place + 1


def entries_by_class(table: ClassTable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids, weights and touches of all entries, concatenated by class."""
    n_entries = int(table.n_active.sum())
    found = np.empty(n_entries, np.uint64), np.empty(n_entries, np.float32), np.empty(n_entries, np.uint32)
    _sort_out(table, np.cumsum(table.n_active) - table.n_active, *found)
    return found


@inner_loop
def train_by_class(rows, first, last, rule, sketch, table, full, scalars, intercept, words):  # type: ignore[no-untyped-def]
    """Process rows like `daskfs.kernels.sketch.classes.train_classes`, with active features of each class.

    Parameters
    ----------
    table : ClassTable
    full : int
        Number of entries at which the table needs a selection; it has room for half of its slots.
    words : ndarray of shape (longest row,), uint64
        Work array. The other arguments and the result are those of `train_classes`.
    """
    indptr, indices, data, y, row_weight = rows
    cells, n_buckets, hashes, seed = sketch
    keys, classes, weights, touches, n_active, thresholds = table
    n_classes, flat = intercept.shape[0], cells.reshape(-1)
    mask, capacity, n_entries = np.uint64(keys.shape[0] - 1), keys.shape[0] // 2, n_active.sum()
    to_cells = np.float32(np.divide(1.0, scalars[0]["tail_scale"]))
    from_cells = np.float32(scalars[0]["tail_scale"])
    z, derivatives = np.empty(n_classes), np.empty(n_classes)
    steps, is_active = np.empty(n_classes, np.float32), np.empty(n_classes, np.bool_)
    for row in range(first, last):
        if is_stopped():
            break
        if n_entries >= full:
            return row, True
        start, stop = indptr[row], indptr[row + 1]
        norm = squared_norm_between(data, start, stop)
        if not math.isfinite(norm):
            return row, False
        # The predictions z_c = intercept_c + Σ w_jc x_j over the features j that are active for class c.
        copy_into(intercept, z)
        for i in range(start, stop):
            key, x = np.uint64(indices[i]), np.float64(data[i])
            words[i - start] = hash_word(key, seed, hashes)
            fetch(flat, n_buckets, hashes, words[i - start], np.uint64(n_classes))
            slot = first_slot(keys, key)
            while keys[slot] != EMPTY:
                if keys[slot] == key:
                    z[classes[slot]] += np.float64(weights[slot]) * x
                slot = (slot + _ONE) & mask
        # The gradient in z, and the step of each class's weight for x = 1.
        scalars[0]["loss_sum"] += row_weight[row] * loss_and_derivatives(rule.loss, z, y[row], derivatives)
        scalars[0]["weight_sum"] += row_weight[row]
        rate = step_of(rule, scalars[0]["rows_seen"], row_weight[row], norm)
        scalars[0]["rows_seen"] += rule.row_count
        for c in range(n_classes):
            steps[c] = -rate * derivatives[c]
            intercept[c] -= rule.intercept_ratio * rate * derivatives[c]
        for i in range(start, stop):
            # The feature's weight for a class takes the step exactly if it is active for the class.
            key, x, h = np.uint64(indices[i]), data[i], words[i - start]
            is_active[:] = False
            slot = first_slot(keys, key)
            while keys[slot] != EMPTY:
                if keys[slot] == key:
                    weights[slot] += steps[classes[slot]] * x
                    touches[slot] += np.uint32(1)
                    is_active[classes[slot]] = True
                slot = (slot + _ONE) & mask
            # For the other classes in the sketch: UPDATE, then QUERY.
            for c in range(n_classes):
                if is_active[c]:
                    continue
                tail = updated(cells[:, c], n_buckets, hashes, h, steps[c] * x * to_cells)
                weight = tail * from_cells
                if abs(weight) >= thresholds[c] and weight != 0.0 and n_entries < capacity:
                    updated(cells[:, c], n_buckets, hashes, h, -tail)
                    keys[slot], classes[slot], weights[slot], touches[slot] = key, c, weight, np.uint32(1)
                    n_active[c] += 1
                    n_entries += 1
                    while keys[slot] != EMPTY:
                        slot = (slot + _ONE) & mask
    return last, True
