"""MISSION's step, one row at a time, with exact weights for the active features (`train_rows`).

The active features are in an open-addressing table. The weights of all others are in a count-sketch, whose cells must
be multiplied by the model's `tail_scale`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import squared_norm, squared_norm_between
from daskfs.kernels.losses import row_derivative, row_value
from daskfs.kernels.sketch.count_sketch import A, fetch, hash_word, updated

EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
"""A free slot; no feature has this id."""


class LabelledRows(NamedTuple):
    """Rows of entries with their targets."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) uint32 or uint64 ids, which may repeat within a row
    data: np.ndarray  # (nnz,) float32
    y: np.ndarray  # (n_rows,) float64: a number, -1 or +1, or the class number
    weight: np.ndarray  # (n_rows,) float64


class StepRule(NamedTuple):
    """The loss and the step sizes.

    Row t has the learning rate ``rate / sqrt(1 + t inverse_period)``, limited so that rate ‖x‖² is at most
    `step_limit`. The intercept's rate is `intercept_ratio` times that. A row advances t by `row_count`.
    """

    loss: int  # a code of `daskfs.losses`
    rate: float
    inverse_period: float
    step_limit: float
    intercept_ratio: float
    row_count: float


class Sketch(NamedTuple):
    """A count-sketch, see `count_sketch.add`."""

    cells: np.ndarray  # (n_hashes * n_buckets,) float32; with several outputs (n_hashes * n_buckets, n_outputs)
    n_buckets: np.uint64
    rows: tuple[int, ...]
    seed: np.uint64


class Table(NamedTuple):
    """The active features, in an open-addressing table whose length is a power of two."""

    keys: np.ndarray  # (n_slots,) uint64 ids, EMPTY in free slots
    weights: np.ndarray  # (n_slots,) float32; with several outputs (n_slots, n_outputs)
    touches: np.ndarray  # (n_slots,) int64: rows with the feature since it became active
    n_active: np.ndarray  # (1,) int64
    full: int  # number of active features at which the table needs a selection; it has room for half of its slots


class Work(NamedTuple):
    """Work arrays of the length of the longest row, uint64."""

    slots: np.ndarray
    words: np.ndarray
    places: np.ndarray


SCALARS = np.dtype([(name, np.float64) for name in ("threshold", "tail_scale", "rows_seen", "loss_sum", "weight_sum")])
"""The scalars of a model. Kernels take an array with one such record and update it."""

SMALLEST = np.float32(1e-45)
"""Smallest weight of an active feature, whatever the threshold."""

_ZERO, _ONE, _LAST_BIT = np.uint64(0), np.uint64(1), np.uint64(63)
_S32, _S52, _S58 = np.uint64(32), np.uint64(52), np.uint64(58)


@kernel
def slot_of(keys, key):  # type: ignore[no-untyped-def]
    """Return the slot that holds an id, or else the free slot for it."""
    mask = np.uint64(keys.shape[0] - 1)
    slot = (key * A >> _S32) & mask
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + _ONE) & mask
    return slot


@kernel
def place_keys(new_keys, keys):  # type: ignore[no-untyped-def]
    """Clear the table's keys and insert these ids. Return the slot of each."""
    keys[:] = EMPTY
    slots = np.empty(new_keys.shape[0], np.int64)
    for j in range(new_keys.shape[0]):
        slot = slot_of(keys, new_keys[j])
        keys[slot] = new_keys[j]
        slots[j] = slot
    return slots


@kernel
def _mark(marks, key):  # type: ignore[no-untyped-def]
    """Set an id's two bits, both in the same word."""
    h = key * A
    bits = (_ONE << ((h >> _S52) & _LAST_BIT)) | (_ONE << (h >> _S58))
    marks[(h >> _S32) & np.uint64(marks.shape[0] - 1)] |= bits


@kernel
def marks_of(keys):  # type: ignore[no-untyped-def]
    """Return a Bloom filter of a table's ids, uint64 of shape (n_slots / 16,).

    It is small enough to stay in the cache, and answers without a branch. An id without its bits is not in the table;
    about one in fifty ids that are not in the table also has them.
    """
    marks = np.zeros(max(keys.shape[0] // 16, 1), np.uint64)
    for slot in range(keys.shape[0]):
        if keys[slot] != EMPTY:
            _mark(marks, keys[slot])
    return marks


@kernel
def set_apart(ids, marks, marked, others):  # type: ignore[no-untyped-def]
    """Write the positions of a row whose ids are marked, and of the others, in order. Return their numbers."""
    mask = np.uint64(marks.shape[0] - 1)
    n_marked, n_others = _ZERO, _ZERO
    for i in range(np.uint64(ids.shape[0])):
        h = np.uint64(ids[i]) * A
        word = marks[(h >> _S32) & mask]
        is_marked = (word >> ((h >> _S52) & _LAST_BIT)) & (word >> (h >> _S58)) & _ONE
        marked[n_marked] = i
        others[n_others] = i
        n_marked += is_marked
        n_others += _ONE - is_marked
    return n_marked, n_others


@kernel
def _put_among(others, n_others, place):  # type: ignore[no-untyped-def]
    """Insert a position in order: about one in fifty ids is marked without being in the table."""
    k = n_others
    while k > _ZERO and others[k - _ONE] > place:
        others[k] = others[k - _ONE]
        k -= _ONE
    others[k] = place


@kernel
def step_of(rule, rows_seen, row_weight, norm):  # type: ignore[no-untyped-def]
    """Return the learning rate of a row times its weight, limited against overshooting."""
    rate = row_weight * rule.rate / math.sqrt(1.0 + rows_seen * rule.inverse_period)
    return np.divide(rule.step_limit, norm) if rate * norm > rule.step_limit else rate


@inner_loop
def step_from(rule, scalars, intercept, z, y, row_weight, norm):  # type: ignore[no-untyped-def]
    """Count a row with its loss, move the intercept, and return the step of a weight for x = 1, float32.

    Parameters
    ----------
    rule : StepRule
    scalars, intercept : see `train_rows`
        Updated.
    z, y, row_weight, norm : float
        The row's prediction, target, weight and squared norm.
    """
    scalars[0]["loss_sum"] += row_weight * row_value(rule.loss, z, y)
    scalars[0]["weight_sum"] += row_weight
    step = -step_of(rule, scalars[0]["rows_seen"], row_weight, norm) * row_derivative(rule.loss, z, y)
    scalars[0]["rows_seen"] += rule.row_count
    intercept[0] += rule.intercept_ratio * step
    return np.float32(step)


@inner_loop
def train_rows(  # type: ignore[no-untyped-def]
    rows, first, last, rule, sketch, table, scalars, intercept, frozen, work
):
    """Process rows ``first, first + 1, ...``. Stop before `last` if the table needs a selection or a row is not finite.

    For each row: predict with the active features. Their weights take the step exactly, the others in the sketch. A
    feature whose estimate reaches the threshold becomes active at once, and leaves the sketch.

    Parameters
    ----------
    rows : LabelledRows
    first, last : int
    rule : StepRule
    sketch : Sketch
    table : Table
    scalars : ndarray of shape (1,), SCALARS
    intercept : ndarray of shape (1,), float64
    frozen : bool
        Whether the set of active features is fixed and the sketch is not used.
    work : Work

    Returns
    -------
    row : int
        The next row to process.
    is_finite : bool
        False if this row contains NaN or infinity.
    """
    indptr, indices, data, y, row_weight = rows
    cells, n_buckets, hashes, seed = sketch
    keys, weights, touches, n_active, full = table
    slots, words, places = work
    capacity = keys.shape[0] // 2
    # Cells hold weights divided by the tail's scale: divide on input, multiply on output.
    to_cells = np.float32(np.divide(1.0, scalars[0]["tail_scale"]))
    threshold = max(np.float32(np.divide(scalars[0]["threshold"], scalars[0]["tail_scale"])), SMALLEST)
    from_cells = np.float32(scalars[0]["tail_scale"])
    marks = marks_of(keys)
    found = np.empty(slots.shape[0], np.float32)
    for row in range(first, last):
        if is_stopped():
            break
        if n_active[0] >= full and not frozen:
            return row, True
        ids, values = indices[indptr[row] : indptr[row + 1]], data[indptr[row] : indptr[row + 1]]
        norm = squared_norm(values)
        if not math.isfinite(norm):
            return row, False
        # The prediction z = intercept + Σ w_j x_j over the active features that the filter lets through.
        n_marked, n_others = set_apart(ids, marks, slots, places)
        z, n_found = intercept[0], _ZERO
        for k in range(n_marked):
            i = slots[k]
            slot = slot_of(keys, np.uint64(ids[i]))
            if keys[slot] == EMPTY:
                _put_among(places, n_others, i)
                n_others += _ONE
                continue
            z += np.float64(weights[slot]) * np.float64(values[i])
            slots[n_found] = slot
            found[n_found] = values[i]
            n_found += _ONE
        if not frozen:
            for k in range(n_others):
                h = hash_word(np.uint64(ids[places[k]]), seed, hashes)
                words[k] = h
                fetch(cells, n_buckets, hashes, h, _ONE)
        if frozen:  # features without a step do not limit it
            norm = squared_norm_between(found, _ZERO, n_found)
        # w_j -= rate ∂loss/∂z x_j, exactly.
        step = step_from(rule, scalars, intercept, z, y[row], row_weight[row], norm)
        for k in range(n_found):
            weights[slots[k]] += step * found[k]
            touches[slots[k]] += 1
        if frozen:
            continue
        # The same step for the other features, in the sketch: UPDATE, then QUERY.
        has_grown = False
        for k in range(n_others):
            i = places[k]
            value = step * values[i]
            if has_grown:  # the id may occur twice in this row
                slot = slot_of(keys, np.uint64(ids[i]))
                if keys[slot] != EMPTY:
                    weights[slot] += value
                    continue
            h = words[k]
            tail = updated(cells, n_buckets, hashes, h, value * to_cells)
            if abs(tail) >= threshold and n_active[0] < capacity:
                updated(cells, n_buckets, hashes, h, -tail)
                key = np.uint64(ids[i])
                slot = slot_of(keys, key)
                keys[slot] = key
                weights[slot] = tail * from_cells
                touches[slot] = 1
                n_active[0] += 1
                _mark(marks, key)
                has_grown = True
    return last, True
