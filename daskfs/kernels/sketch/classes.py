"""MISSION's step with several outputs, one per class: cross-entropy, or one class against the rest.

A feature has a vector of weights, one per class. The feature is active as a whole, by the Euclidean norm of the vector.
In the sketch each class has its own cells with the same hash.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped
from daskfs.kernels.linear.columns import copy_into, squared_norm_between
from daskfs.kernels.losses import loss_and_derivatives
from daskfs.kernels.sketch.count_sketch import fetch, hash_word, updated
from daskfs.kernels.sketch.rows import EMPTY, slot_of, step_of


@inner_loop
def train_classes(rows, first, last, rule, sketch, table, scalars, intercept, frozen, work):  # type: ignore[no-untyped-def]
    """Process rows like `daskfs.kernels.sketch.rows.train_rows`, with the same results, for several outputs.

    `rows.y` holds the class numbers, `rule.loss` is a code for `loss_and_derivatives`, and the sketch's cells, the
    table's weights and the intercept have a column, or an element, per class.
    """
    indptr, indices, data, y, row_weight = rows
    cells, n_buckets, hashes, seed = sketch
    keys, weights, touches, n_active, full = table
    slots, words, places = work
    n_classes, flat = intercept.shape[0], cells.reshape(-1)
    capacity = keys.shape[0] // 2
    # Cells hold weights divided by the tail's scale: divide on input, multiply on output.
    to_cells = np.float32(np.divide(1.0, scalars[0]["tail_scale"]))
    from_cells = np.float32(scalars[0]["tail_scale"])
    threshold = np.divide(scalars[0]["threshold"], scalars[0]["tail_scale"])
    z, derivatives = np.empty(n_classes), np.empty(n_classes)
    steps, tail = np.empty(n_classes, np.float32), np.empty(n_classes, np.float32)
    for row in range(first, last):
        if is_stopped():
            break
        if n_active[0] >= full and not frozen:
            return row, True
        start, stop = indptr[row], indptr[row + 1]
        norm = squared_norm_between(data, start, stop)
        if not math.isfinite(norm):
            return row, False
        # The predictions z_c = intercept_c + Σ w_jc x_j over the active features. `places` holds these from the front,
        # and the other features from the back.
        copy_into(intercept, z)
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
                if not frozen:
                    words[n_other] = hash_word(np.uint64(indices[i]), seed, hashes)
                    fetch(flat, n_buckets, hashes, words[n_other], np.uint64(n_classes))
        if frozen:  # features without a step do not limit it
            norm = 0.0
            for k in range(n_found):
                norm += np.float64(data[places[k]]) * np.float64(data[places[k]])
        # The gradient in z, and the step of each class's weight for x = 1.
        scalars[0]["loss_sum"] += row_weight[row] * loss_and_derivatives(rule.loss, z, y[row], derivatives)
        scalars[0]["weight_sum"] += row_weight[row]
        rate = step_of(rule, scalars[0]["rows_seen"], row_weight[row], norm)
        scalars[0]["rows_seen"] += rule.row_count
        for c in range(n_classes):
            steps[c] = -rate * derivatives[c]
            intercept[c] -= rule.intercept_ratio * rate * derivatives[c]
        # The weights of the active features take it exactly.
        for k in range(n_found):
            for c in range(n_classes):
                weights[slots[k], c] += steps[c] * data[places[k]]
            touches[slots[k]] += 1
        if frozen:
            continue
        # The weights of the others take it in the sketch, in the order of the row: UPDATE, then QUERY.
        for k in range(stop - start - 1, n_other - 1, -1):
            i = places[k]
            key = np.uint64(indices[i])
            slot = slot_of(keys, key)
            if keys[slot] == key:  # it became active in this row
                for c in range(n_classes):
                    weights[slot, c] += steps[c] * data[i]
                continue
            h = words[k]
            size = 0.0
            for c in range(n_classes):
                tail[c] = updated(cells[:, c], n_buckets, hashes, h, steps[c] * data[i] * to_cells)
                size += np.float64(tail[c]) * np.float64(tail[c])
            # A feature becomes active by the norm of its vector, and leaves the sketch.
            if size >= threshold * threshold and size > 0.0 and n_active[0] < capacity:
                keys[slot] = key
                touches[slot] = 1
                n_active[0] += 1
                for c in range(n_classes):
                    updated(cells[:, c], n_buckets, hashes, h, -tail[c])
                    weights[slot, c] = tail[c] * from_cells
    return last, True
