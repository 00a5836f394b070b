"""MISSION's step with several outputs, one for each class: cross-entropy, or one class against the rest.

A feature has a vector of weights, one for each class; it is active as a whole, by the Euclidean norm of its vector. In
the sketch each class has its own cells behind the same hash.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.numba_cache import inner_loop, kernel
from daskfs.kernels.row_losses import row_derivative, row_value
from daskfs.kernels.sketch.count_sketch import hash_word, updated
from daskfs.kernels.sketch.rows import (
    EMPTY,
    INTERCEPT_RATIO,
    LOSS_SUM,
    ROW_COUNT,
    ROWS_SEEN,
    TAIL_SCALE,
    THRESHOLD,
    WEIGHT_SUM,
    slot_of,
    squared_norm,
    step_of,
)

MULTINOMIAL = 4  # after the losses of `row_losses`, which are taken one class against the rest


@kernel
def loss_and_derivatives(loss, z, label, derivatives):  # type: ignore[no-untyped-def]
    """Return the loss of one row and write its derivatives in z.

    Parameters
    ----------
    loss : int
        MULTINOMIAL, or a position in `row_losses.ROW_LOSSES` for the sum over the classes, one against the rest.
    z, derivatives : ndarray of shape (n_classes,), float64
    label : float
        The class's number.
    """
    right = int(label)
    if loss != MULTINOMIAL:
        value = 0.0
        for c in range(z.shape[0]):
            sign = 1.0 if c == right else -1.0
            value += row_value(loss, z[c], sign)
            derivatives[c] = row_derivative(loss, z[c], sign)
        return value
    top = z.max()
    total = 0.0
    for c in range(z.shape[0]):
        derivatives[c] = math.exp(z[c] - top)
        total += derivatives[c]
    for c in range(z.shape[0]):
        derivatives[c] = np.divide(derivatives[c], total)
    derivatives[right] -= 1.0
    return math.log(total) + top - z[right]


@inner_loop
def train_classes(  # type: ignore[no-untyped-def]
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
    rows,
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
    """Take rows as `mission_rows.train_rows` does, with the same results and these arguments of another shape.

    Parameters
    ----------
    y : ndarray of shape (n_rows,), float64
        Numbers of the classes.
    loss : int
        As `loss_and_derivatives` takes it.
    cells : ndarray of shape (n_hashes * n_buckets, n_classes), float32
    weights : ndarray of shape (n_slots, n_classes), float32
    intercept : ndarray of shape (n_classes,), float64
    """
    n_classes = intercept.shape[0]
    capacity = keys.shape[0] // 2
    to_cells = np.float32(np.divide(1.0, numbers[TAIL_SCALE]))
    from_cells = np.float32(numbers[TAIL_SCALE])
    threshold = np.divide(numbers[THRESHOLD], numbers[TAIL_SCALE])
    z, derivatives = np.empty(n_classes), np.empty(n_classes)
    steps, tail = np.empty(n_classes, np.float32), np.empty(n_classes, np.float32)
    for row in range(first, last):
        if n_active[0] >= full and not frozen:
            return row, True
        start, stop = indptr[row], indptr[row + 1]
        norm = squared_norm(data, start, stop)
        if not math.isfinite(norm):
            return row, False
        z[:] = intercept
        n_found, n_other = 0, stop - start
        for i in range(start, stop):
            slot = slot_of(keys, np.uint64(indices[i]))
            if keys[slot] != EMPTY:
                x = np.float64(data[i])
                for c in range(n_classes):
                    z[c] += np.float64(weights[slot, c]) * x
                slots[n_found] = slot
                places[n_found] = i
                n_found += 1
            else:
                n_other -= 1
                places[n_other] = i
        numbers[LOSS_SUM] += row_weight[row] * loss_and_derivatives(loss, z, y[row], derivatives)
        numbers[WEIGHT_SUM] += row_weight[row]
        rate = step_of(rates, numbers[ROWS_SEEN], row_weight[row], norm)
        numbers[ROWS_SEEN] += rates[ROW_COUNT]
        for c in range(n_classes):
            steps[c] = -rate * derivatives[c]
            intercept[c] -= rates[INTERCEPT_RATIO] * rate * derivatives[c]
        for k in range(n_found):
            for c in range(n_classes):
                weights[slots[k], c] += steps[c] * data[places[k]]
            touches[slots[k]] += 1
        if frozen:
            continue
        for k in range(stop - start - 1, n_other - 1, -1):  # in the order of the row
            i = places[k]
            key = np.uint64(indices[i])
            slot = slot_of(keys, key)
            if keys[slot] == key:  # it became active in this row
                for c in range(n_classes):
                    weights[slot, c] += steps[c] * data[i]
                continue
            h = hash_word(key, seed, rows)
            size = 0.0
            for c in range(n_classes):
                tail[c] = updated(cells[:, c], n_buckets, rows, h, steps[c] * data[i] * to_cells)
                size += np.float64(tail[c]) * np.float64(tail[c])
            if size >= threshold * threshold and n_active[0] < capacity:
                keys[slot] = key
                touches[slot] = 1
                n_active[0] += 1
                for c in range(n_classes):
                    updated(cells[:, c], n_buckets, rows, h, -tail[c])
                    weights[slot, c] = tail[c] * from_cells
    return last, True
