"""MISSION's step, one row at a time, with exact weights for the active features (`train_rows`).

The active features are in an open-addressing table. The weights of all others are in a count-sketch, whose cells must
be multiplied by the model's `tail_scale`. With several outputs, a feature has a weight for each: they are adjacent in
the table and in the cells.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into, squared_norm, squared_norm_between
from daskfs.kernels.losses import loss_and_derivatives, row_derivative, row_value
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
    """A count-sketch, see `count_sketch.updated`."""

    cells: np.ndarray  # (n_hashes * n_buckets * n_outputs,) float32
    n_buckets: np.uint64
    rows: tuple[int, ...]
    seed: np.uint64


class Table(NamedTuple):
    """Entries of active features, in an open-addressing table whose length is a power of two.

    An entry has the weights of a feature for all outputs; by class, one weight for one class, which is active for this
    class. All entries of a feature are between its first slot and the next free one.
    """

    keys: np.ndarray  # (n_slots,) uint64 ids, EMPTY in free slots
    classes: np.ndarray  # (n_slots,) int32; only by class, else (0,)
    weights: np.ndarray  # (n_slots * n_weights,) float32, where n_weights is n_outputs, or by class 1
    touches: np.ndarray  # (n_slots,) int64: rows with the feature since the entry became active
    thresholds: np.ndarray  # (1,) float64, by class (n_outputs,): size from which an entry becomes active
    n_active: np.ndarray  # (1,) int64 entries
    full: int  # number of entries at which the table needs a selection; it has room for half of its slots


class Work(NamedTuple):
    """Work arrays of the length of the longest row, and of the number of outputs."""

    slots: np.ndarray  # uint64
    words: np.ndarray  # uint64
    places: np.ndarray  # uint64
    found: np.ndarray  # float32
    z: np.ndarray  # (n_outputs,) float64: predictions
    derivatives: np.ndarray  # (n_outputs,) float64
    steps: np.ndarray  # (n_outputs,) float32
    tails: np.ndarray  # (n_outputs,) float32
    is_active: np.ndarray  # (n_outputs,) bool


def work_arrays(longest: int, n_outputs: int) -> Work:
    """Return work arrays for rows with at most `longest` entries."""
    return Work(
        slots=np.empty(longest, np.uint64),
        words=np.empty(longest, np.uint64),
        places=np.empty(longest, np.uint64),
        found=np.empty(longest, np.float32),
        z=np.empty(n_outputs),
        derivatives=np.empty(n_outputs),
        steps=np.empty(n_outputs, np.float32),
        tails=np.empty(n_outputs, np.float32),
        is_active=np.empty(n_outputs, np.bool_),
    )


SCALARS = np.dtype([(name, np.float64) for name in ("tail_scale", "rows_seen", "loss_sum", "weight_sum")])
"""The scalars of a model. Kernels take an array with one such record and update it."""

SMALLEST = np.float32(1e-45)
"""Smallest weight of an active feature, whatever the threshold."""

_ZERO, _ONE, _LAST_BIT = np.uint64(0), np.uint64(1), np.uint64(63)
_S32, _S52, _S58 = np.uint64(32), np.uint64(52), np.uint64(58)


@kernel
def slot_of(keys, key):  # type: ignore[no-untyped-def]
    """Return the first slot that holds an id, or else the free slot for it."""
    mask = np.uint64(keys.shape[0] - 1)
    slot = (key * A >> _S32) & mask
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + _ONE) & mask
    return slot


@kernel
def slot_from(keys, slot, key):  # type: ignore[no-untyped-def]
    """Return the first slot from this one on that holds an id or is free."""
    mask = np.uint64(keys.shape[0] - 1)
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + _ONE) & mask
    return slot


@kernel
def place_keys(new_keys, keys):  # type: ignore[no-untyped-def]
    """Clear the table's keys and insert these ids. Return the slot of each."""
    keys[:] = EMPTY
    mask, slots = np.uint64(keys.shape[0] - 1), np.empty(new_keys.shape[0], np.int64)
    for j in range(new_keys.shape[0]):
        slot = slot_of(keys, new_keys[j])
        while keys[slot] != EMPTY:  # another entry of the feature
            slot = (slot + _ONE) & mask
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
        Updated; of one output.
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
def take_steps(rule, scalars, intercept, z, y, row_weight, norm, derivatives, steps):  # type: ignore[no-untyped-def]
    """Write the step of each output's weights for x = 1 to `steps`, float32; see `step_from`.

    The predictions z and the work array `derivatives` are of shape (n_outputs,), float64.
    """
    if intercept.shape[0] == 1:
        steps[0] = step_from(rule, scalars, intercept, z[0], y, row_weight, norm)
        return
    scalars[0]["loss_sum"] += row_weight * loss_and_derivatives(rule.loss, z, y, derivatives)
    scalars[0]["weight_sum"] += row_weight
    rate = step_of(rule, scalars[0]["rows_seen"], row_weight, norm)
    scalars[0]["rows_seen"] += rule.row_count
    for c in range(intercept.shape[0]):
        steps[c] = -rate * derivatives[c]
        intercept[c] -= rule.intercept_ratio * rate * derivatives[c]


@inner_loop
def train_rows(  # type: ignore[no-untyped-def]
    rows, first, last, rule, sketch, table, scalars, intercept, one, frozen, work
):
    """Process rows ``first, first + 1, ...``. Stop before `last` if the table needs a selection or a row is not finite.

    For each row: predict with the active features. Their weights take the step exactly, the others in the sketch. A
    feature becomes active at once if its estimate reaches the threshold, and leaves the sketch. With several outputs
    (classes), a feature is active for all, by the norm of its weights.

    Parameters
    ----------
    rows : LabelledRows
    first, last : int
    rule : StepRule
        With several outputs, its loss is one of `loss_and_derivatives`.
    sketch : Sketch
    table : Table
    scalars : ndarray of shape (1,), SCALARS
    intercept : ndarray of shape (n_outputs,), float64
    one : tuple of int
        Of length 1 if there is one output, else 0: kernels are compiled for one output without loops over outputs.
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
    keys, _, weights, touches, thresholds, n_active, full = table
    slots, words, places, found, z, derivatives, steps, tails, _ = work
    n_outputs, capacity = _ONE if len(one) == 1 else np.uint64(intercept.shape[0]), keys.shape[0] // 2
    # Cells hold weights divided by the tail's scale: divide on input, multiply on output.
    to_cells = np.float32(np.divide(1.0, scalars[0]["tail_scale"]))
    threshold = max(np.float32(np.divide(thresholds[0], scalars[0]["tail_scale"])), SMALLEST)
    from_cells = np.float32(scalars[0]["tail_scale"])
    marks = marks_of(keys)
    for row in range(first, last):
        if is_stopped():
            break
        if n_active[0] >= full and not frozen:
            return row, True
        ids, values = indices[indptr[row] : indptr[row + 1]], data[indptr[row] : indptr[row + 1]]
        norm = squared_norm(values)
        if not math.isfinite(norm):
            return row, False
        # The predictions z_c = intercept_c + Σ w_jc x_j over the active features that the filter lets through.
        n_marked, n_others = set_apart(ids, marks, slots, places)
        n_found, total = _ZERO, intercept[0]
        if n_outputs != _ONE:
            copy_into(intercept, z)
        for k in range(n_marked):
            i = slots[k]
            slot = slot_of(keys, np.uint64(ids[i]))
            if keys[slot] == EMPTY:
                _put_among(places, n_others, i)
                n_others += _ONE
                continue
            if n_outputs == _ONE:
                total += np.float64(weights[slot]) * np.float64(values[i])
            else:
                for c in range(n_outputs):
                    z[c] += np.float64(weights[slot * n_outputs + c]) * np.float64(values[i])
            slots[n_found] = slot
            found[n_found] = values[i]
            n_found += _ONE
        if not frozen:
            for k in range(n_others):
                h = hash_word(np.uint64(ids[places[k]]), seed, hashes)
                words[k] = h
                fetch(cells, n_buckets, hashes, h, n_outputs)
        if frozen:  # features without a step do not limit it
            norm = squared_norm_between(found, _ZERO, n_found)
        # w_jc -= rate ∂loss/∂z_c x_j, exactly.
        if n_outputs == _ONE:
            step = step_from(rule, scalars, intercept, total, y[row], row_weight[row], norm)
        else:
            step = np.float32(0.0)
            take_steps(rule, scalars, intercept, z, y[row], row_weight[row], norm, derivatives, steps)
        for k in range(n_found):
            _move(weights, n_outputs, slots[k], step, steps, found[k])
            touches[slots[k]] += 1
        if frozen:
            continue
        # The same step for the other features, in the sketch: UPDATE, then QUERY.
        has_grown = False
        for k in range(n_others):
            i, h = places[k], words[k]
            x = values[i]
            if has_grown:  # the id may occur twice in this row
                slot = slot_of(keys, np.uint64(ids[i]))
                if keys[slot] != EMPTY:
                    _move(weights, n_outputs, slot, step, steps, x)
                    continue
            if n_outputs == _ONE:
                tail = updated(cells, _ONE, _ZERO, n_buckets, hashes, h, step * x * to_cells)
                tails[0] = tail
                is_large = abs(tail) >= threshold
            else:
                square = 0.0
                for c in range(n_outputs):
                    tails[c] = updated(cells, n_outputs, c, n_buckets, hashes, h, steps[c] * x * to_cells)
                    square += np.float64(tails[c]) * np.float64(tails[c])
                is_large = square >= np.float64(threshold) * np.float64(threshold)
            if is_large and n_active[0] < capacity:
                key = np.uint64(ids[i])
                slot = slot_of(keys, key)
                keys[slot], touches[slot] = key, 1
                for c in range(n_outputs):
                    updated(cells, n_outputs, c, n_buckets, hashes, h, -tails[c])
                    weights[slot * n_outputs + c] = tails[c] * from_cells
                n_active[0] += 1
                _mark(marks, key)
                has_grown = True
    return last, True


@inner_loop
def _move(weights, n_outputs, slot, step, steps, x):  # type: ignore[no-untyped-def]
    """Add the steps times x to a feature's weights. One step is an argument of its own, which needs no memory."""
    if n_outputs == _ONE:
        weights[slot] += step * x
        return
    for c in range(n_outputs):
        weights[slot * n_outputs + c] += steps[c] * x


@inner_loop
def train_by_class(rows, first, last, rule, sketch, table, scalars, intercept, work):  # type: ignore[no-untyped-def]
    """Process rows like `train_rows`, with an entry of the table for each pair of a feature and a class.

    A feature is active for some classes; its weights for the others are in the sketch.
    """
    indptr, indices, data, y, row_weight = rows
    cells, n_buckets, hashes, seed = sketch
    keys, classes, weights, touches, thresholds, n_active, full = table
    _, words, _, _, z, derivatives, steps, _, is_active = work
    n_outputs, mask = np.uint64(intercept.shape[0]), np.uint64(keys.shape[0] - 1)
    capacity, n_entries = keys.shape[0] // 2, n_active[0]
    to_cells = np.float32(np.divide(1.0, scalars[0]["tail_scale"]))
    from_cells = np.float32(scalars[0]["tail_scale"])
    for row in range(first, last):
        if is_stopped():
            break
        n_active[0] = n_entries
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
            fetch(cells, n_buckets, hashes, words[i - start], n_outputs)
            slot = slot_of(keys, key)
            while keys[slot] != EMPTY:
                z[classes[slot]] += np.float64(weights[slot]) * x
                slot = slot_from(keys, (slot + _ONE) & mask, key)
        take_steps(rule, scalars, intercept, z, y[row], row_weight[row], norm, derivatives, steps)
        for i in range(start, stop):
            # The feature's weight for a class takes the step exactly if it is active for the class.
            key, x, h = np.uint64(indices[i]), data[i], words[i - start]
            for c in range(n_outputs):
                is_active[c] = False
            slot = slot_of(keys, key)
            while keys[slot] != EMPTY:
                weights[slot] += steps[classes[slot]] * x
                touches[slot] += 1
                is_active[classes[slot]] = True
                slot = slot_from(keys, (slot + _ONE) & mask, key)
            # For the other classes in the sketch: UPDATE, then QUERY.
            for c in range(n_outputs):
                if is_active[c]:
                    continue
                tail = updated(cells, n_outputs, c, n_buckets, hashes, h, steps[c] * x * to_cells)
                weight = tail * from_cells
                if abs(weight) >= thresholds[c] and weight != 0.0 and n_entries < capacity:
                    updated(cells, n_outputs, c, n_buckets, hashes, h, -tail)
                    keys[slot], classes[slot], weights[slot], touches[slot] = key, c, weight, 1
                    n_entries += 1
                    slot = slot_from(keys, slot, EMPTY)
    n_active[0] = n_entries
    return last, True
