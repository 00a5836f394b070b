"""MISSION's step for one row after the other, with exact weights for the active features (`train_rows`).

The active features stand in an open-addressing table: `keys` (uint64, EMPTY where a slot is free), `weights` and
`touches` (rows that had the feature since it became active), all of a length that is a power of two. All other
features' weights are in a count-sketch, whose cells are to be multiplied by ``numbers[TAIL_SCALE]``.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.count_sketch import A, fetch, hash_word, updated
from daskfs.kernels.numba_cache import inner_loop, kernel
from daskfs.kernels.row_losses import row_derivative, row_value

EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
"""Marks a free slot; no feature has this id."""

THRESHOLD, TAIL_SCALE, ROWS_SEEN, LOSS_SUM, WEIGHT_SUM = range(5)
"""Places in `numbers`: the model's scalars, float64."""
N_NUMBERS = 5

RATE, INVERSE_PERIOD, STEP_LIMIT, INTERCEPT_RATIO, ROW_COUNT = range(5)
"""Places in `rates`: of row t the learning rate is RATE / sqrt(1 + t INVERSE_PERIOD), cut so that rate ‖x‖² does not
exceed STEP_LIMIT; the intercept's is INTERCEPT_RATIO times that; a row advances t by ROW_COUNT."""
N_RATES = 5

_ONE, _S32 = np.uint64(1), np.uint64(32)


@kernel
def slot_of(keys, key):  # type: ignore[no-untyped-def]
    """Return the slot that holds an id, or else the free slot where it belongs."""
    mask = np.uint64(keys.shape[0] - 1)
    slot = (key * A >> _S32) & mask
    while keys[slot] != key and keys[slot] != EMPTY:
        slot = (slot + _ONE) & mask
    return slot


@kernel
def fill_table(new_keys, new_weights, new_touches, keys, weights, touches):  # type: ignore[no-untyped-def]
    """Empty the table and put these ids in, with their weights and touches."""
    keys[:] = EMPTY
    for j in range(new_keys.shape[0]):
        slot = slot_of(keys, new_keys[j])
        keys[slot] = new_keys[j]
        weights[slot] = new_weights[j]
        touches[slot] = new_touches[j]


@inner_loop
def squared_norm(data, start, stop):  # type: ignore[no-untyped-def]
    """Return the sum of squares of ``data[start:stop]``."""
    total = 0.0
    for i in range(start, stop):
        total += np.float64(data[i]) * np.float64(data[i])
    return total


@kernel
def step_of(rates, rows_seen, row_weight, norm):  # type: ignore[no-untyped-def]
    """Return the learning rate of a row times its weight, cut where it would overshoot."""
    rate = row_weight * rates[RATE] / math.sqrt(1.0 + rows_seen * rates[INVERSE_PERIOD])
    return np.divide(rates[STEP_LIMIT], norm) if rate * norm > rates[STEP_LIMIT] else rate


@inner_loop
def train_rows(  # type: ignore[no-untyped-def]
    indptr,
    indices,
    data,
    y,
    row_weight,
    first,
    last,
    loss,
    rates,
    cells,
    n_buckets,
    n_hashes,
    seed,
    keys,
    weights,
    touches,
    n_active,
    full,
    intercept,
    numbers,
    frozen,
    slots,
    words,
    places,
):
    """Take rows ``first, first + 1, ...``; stop before `last` where the table wants a selection or a row is not finite.

    Of each row: predict with the active features; the active weights take their step exactly, the others theirs in
    the sketch; a feature whose estimate reaches the threshold becomes active at once, and leaves the sketch.

    Parameters
    ----------
    indptr : ndarray of shape (n_rows + 1,), int64
    indices : ndarray of shape (nnz,), uint32 or uint64
        Ids; one may stand several times in a row.
    data : ndarray of shape (nnz,), float32
    y : ndarray of shape (n_rows,), float64
    row_weight : ndarray of shape (n_rows,), float64
    first, last : int
    loss : int
        A position in `row_losses.ROW_LOSSES`.
    rates : ndarray of shape (N_RATES,), float64
    cells, n_buckets, n_hashes, seed : the sketch, as in `count_sketch.add`
    keys, weights, touches : the table, uint64, float32 and int64
    n_active : ndarray of shape (1,), int64
    full : int
        Active features from which on the table wants a selection; it has room for half of its slots.
    intercept : ndarray of shape (1,), float64
    numbers : ndarray of shape (N_NUMBERS,), float64
    frozen : bool
        Whether the set of active features stays as it is, and the sketch is left alone.
    slots, words, places : ndarray of shape (longest row,), uint64, uint64 and int64
        To work in.

    Returns
    -------
    row : int
        The next one to take.
    is_finite : bool
        False where this row holds NaN or infinity.
    """
    capacity = keys.shape[0] // 2
    to_cells = np.float32(np.divide(1.0, numbers[TAIL_SCALE]))
    threshold = np.float32(np.divide(numbers[THRESHOLD], numbers[TAIL_SCALE]))
    from_cells = np.float32(numbers[TAIL_SCALE])
    for row in range(first, last):
        if n_active[0] >= full and not frozen:
            return row, True
        start, stop = indptr[row], indptr[row + 1]
        norm = squared_norm(data, start, stop)
        if not math.isfinite(norm):
            return row, False
        z, n_found, n_other = intercept[0], 0, stop - start
        for i in range(start, stop):
            slot = slot_of(keys, np.uint64(indices[i]))
            if keys[slot] != EMPTY:
                z += np.float64(weights[slot]) * np.float64(data[i])
                slots[n_found] = slot
                places[n_found] = i
                n_found += 1
            else:
                n_other -= 1
                places[n_other] = i
                if not frozen:
                    h = hash_word(np.uint64(indices[i]), seed, n_hashes)
                    words[n_other] = h
                    fetch(cells, n_buckets, n_hashes, h)
        numbers[LOSS_SUM] += row_weight[row] * row_value(loss, z, y[row])
        numbers[WEIGHT_SUM] += row_weight[row]
        step = -step_of(rates, numbers[ROWS_SEEN], row_weight[row], norm) * row_derivative(loss, z, y[row])
        numbers[ROWS_SEEN] += rates[ROW_COUNT]
        intercept[0] += rates[INTERCEPT_RATIO] * step
        for k in range(n_found):
            weights[slots[k]] += np.float32(step) * data[places[k]]
            touches[slots[k]] += 1
        if frozen:
            continue
        has_grown = False
        for k in range(stop - start - 1, n_other - 1, -1):  # in the order of the row
            i = places[k]
            value = np.float32(step) * data[i]
            if has_grown:  # the id may stand twice in this row
                slot = slot_of(keys, np.uint64(indices[i]))
                if keys[slot] != EMPTY:
                    weights[slot] += value
                    continue
            h = words[k]
            tail = updated(cells, n_buckets, n_hashes, h, value * to_cells)
            if abs(tail) >= threshold and n_active[0] < capacity:
                updated(cells, n_buckets, n_hashes, h, -tail)
                slot = slot_of(keys, np.uint64(indices[i]))
                keys[slot] = np.uint64(indices[i])
                weights[slot] = tail * from_cells
                touches[slot] = 1
                n_active[0] += 1
                has_grown = True
    return last, True
