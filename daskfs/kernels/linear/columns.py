"""Columns of a row block: sums over them without a copy, and standardised copies of a few of them.

A copied column is a row of its array, and therefore contiguous.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel


@kernel
def copy_into(values, out):  # type: ignore[no-untyped-def]
    """Copy a vector. ``out[:] = values`` would also compile an error message, which takes a third of a second."""
    for i in range(values.shape[0]):
        out[i] = values[i]


@inner_loop
def dot(a, b):  # type: ignore[no-untyped-def]
    """Return Σ a_i b_i."""
    total = 0.0
    for i in range(b.shape[0]):
        total += a[i] * b[i]
    return total


@inner_loop
def dot_of_first(left, right, length):  # type: ignore[no-untyped-def]
    """Return Σ left_i right_i over the first `length`."""
    total = 0.0
    for i in range(length):
        total += left[i] * right[i]
    return total


@inner_loop
def dots(a0, a1, b):  # type: ignore[no-untyped-def]
    """Return Σ a0_i b_i and Σ a1_i b_i, with three loads instead of four."""
    total0, total1 = 0.0, 0.0
    for i in range(b.shape[0]):
        total0 += a0[i] * b[i]
        total1 += a1[i] * b[i]
    return total0, total1


@inner_loop
def row_dot(rows, a, vector):  # type: ignore[no-untyped-def]
    """Return Σ_i rows[a, i] vector_i. An index is cheaper than a view, which is reference-counted."""
    total = 0.0
    for i in range(vector.shape[0]):
        total += rows[a, i] * vector[i]
    return total


@inner_loop
def row_dot_of_first(rows, a, vector, length):  # type: ignore[no-untyped-def]
    """Return Σ_i rows[a, i] vector_i over the first `length`."""
    total = 0.0
    for i in range(length):
        total += rows[a, i] * vector[i]
    return total


@inner_loop
def dot_of_rows(rows, a, b, length):  # type: ignore[no-untyped-def]
    """Return Σ_i rows[a, i] rows[b, i] over the first `length`."""
    total = 0.0
    for i in range(length):
        total += rows[a, i] * rows[b, i]
    return total


@inner_loop
def four_row_dots(rows, a, b, c, d, vector):  # type: ignore[no-untyped-def]
    """Return the products of four rows with a vector, with five loads instead of eight."""
    total_a, total_b, total_c, total_d = 0.0, 0.0, 0.0, 0.0
    for i in range(vector.shape[0]):
        v = vector[i]
        total_a += rows[a, i] * v
        total_b += rows[b, i] * v
        total_c += rows[c, i] * v
        total_d += rows[d, i] * v
    return total_a, total_b, total_c, total_d


@inner_loop
def sum_of(a):  # type: ignore[no-untyped-def]
    """Return Σ a_i."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i]
    return total


@kernel
def largest_size(a):  # type: ignore[no-untyped-def]
    """Return max_i |a_i|, NaN if any element is. NumPy's version takes half a second to compile."""
    largest = 0.0
    for i in range(a.shape[0]):
        size = abs(a[i])
        if math.isnan(size):
            return size
        largest = max(largest, size)
    return largest


@inner_loop
def squared_norm(a):  # type: ignore[no-untyped-def]
    """Return Σ a_i² in float64, for numbers of any type."""
    total = 0.0
    for i in range(a.shape[0]):
        total += np.float64(a[i]) * np.float64(a[i])
    return total


@inner_loop
def squared_norm_between(a, start, stop):  # type: ignore[no-untyped-def]
    """Return Σ a_i² of ``a[start:stop]`` in order.

    A `start` of unknown sign keeps the compiler from summing in lanes, so the bits differ from `squared_norm`.
    """
    total = 0.0
    for i in range(start, stop):
        total += np.float64(a[i]) * np.float64(a[i])
    return total


@inner_loop
def add_multiple(a, factor, out):  # type: ignore[no-untyped-def]
    """Add ``factor * a`` to `out`."""
    for i in range(out.shape[0]):
        out[i] += factor * a[i]


@inner_loop
def add_four_multiples(a, b, c, d, factor_a, factor_b, factor_c, factor_d, out):  # type: ignore[no-untyped-def]
    """Add four multiples to `out`."""
    for i in range(out.shape[0]):
        out[i] += (factor_a * a[i] + factor_b * b[i]) + (factor_c * c[i] + factor_d * d[i])


@inner_loop
def add_row(rows, a, factor, out):  # type: ignore[no-untyped-def]
    """Add a multiple of row a to `out`."""
    for i in range(out.shape[0]):
        out[i] += factor * rows[a, i]


@inner_loop
def add_first_of_row(rows, a, factor, out, length):  # type: ignore[no-untyped-def]
    """Add a multiple of row a to the first `length` elements of `out`."""
    for i in range(length):
        out[i] += factor * rows[a, i]


@inner_loop
def add_four_rows(rows, a, b, c, d, factor_a, factor_b, factor_c, factor_d, out):  # type: ignore[no-untyped-def]
    """Add multiples of four rows to `out`."""
    for i in range(out.shape[0]):
        out[i] += (factor_a * rows[a, i] + factor_b * rows[b, i]) + (factor_c * rows[c, i] + factor_d * rows[d, i])


@kernel
def add_members(columns, members, n_members, step, factor, z):  # type: ignore[no-untyped-def]
    """Add ``factor * step`` times the columns to z, four at a time. Most steps move few columns."""
    moved = np.empty(n_members, np.int64)
    n_moved = 0
    for q in range(n_members):
        if step[q + 1] != 0.0:
            moved[n_moved] = q
            n_moved += 1
    k = 0
    while k + 4 <= n_moved:
        if is_stopped():
            break
        a, b, c, d = moved[k], moved[k + 1], moved[k + 2], moved[k + 3]
        add_four_rows(
            columns, members[a], members[b], members[c], members[d],
            factor * step[a + 1], factor * step[b + 1], factor * step[c + 1], factor * step[d + 1], z,
        )  # fmt: skip
        k += 4
    while k < n_moved:
        add_row(columns, members[moved[k]], factor * step[moved[k] + 1], z)
        k += 1


@kernel
def weigh_row(rows, a, weight, out):  # type: ignore[no-untyped-def]
    """Write weights times a row."""
    for i in range(out.shape[0]):
        out[i] = weight[i] * rows[a, i]


@kernel
def copy_row(rows, a, source, b):  # type: ignore[no-untyped-def]
    """Copy row b of one array to row a of another."""
    copy_into(source[b], rows[a])


@kernel
def copy_columns(X, mean, scale, features, out):  # type: ignore[no-untyped-def]
    """Write the standardised columns `features` of a block into the rows of `out`, in one pass over its rows.

    Eight rows at a time: their values wait for memory together, and fill a cache line of a column.
    """
    n_eights = X.shape[0] - X.shape[0] % 8
    for i in range(0, n_eights, 8):
        if i % 512 == 0 and is_stopped():
            break
        for f in range(features.shape[0]):
            j = np.uintp(features[f])
            out[f, i], out[f, i + 1], out[f, i + 2], out[f, i + 3] = X[i, j], X[i + 1, j], X[i + 2, j], X[i + 3, j]
            out[f, i + 4], out[f, i + 5] = X[i + 4, j], X[i + 5, j]
            out[f, i + 6], out[f, i + 7] = X[i + 6, j], X[i + 7, j]
    for i in range(n_eights, X.shape[0]):
        for f in range(features.shape[0]):
            out[f, i] = X[i, features[f]]
    for f in range(features.shape[0]):
        _standardise(mean[features[f]], 1.0 / scale[features[f]], out[f])


@kernel
def _standardise(mean, inverse, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] = (out[i] - mean) * inverse


@kernel
def products_with_columns(X, mean, scale, vector, out):  # type: ignore[no-untyped-def]
    """Write Σ_i vector_i z_ij for every standardised column j, in one pass over the block; 0 for constant columns.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    mean, scale : ndarray of shape (n_features,), float64
    vector : ndarray of shape (n_samples,), float64
    out : ndarray of shape (n_features,), float64
    """
    n_samples, n_features = X.shape
    out[:] = 0.0
    n_eights = n_samples - n_samples % 8
    for i in range(0, n_eights, 8):
        if i % 1024 == 0 and is_stopped():
            break
        _add_eight_rows(X, i, vector, mean, out)
    for i in range(n_eights, n_samples):
        _add_centred_row(X[i], vector[i], mean, out)
    for j in range(n_features):
        out[j] = out[j] / scale[j] if scale[j] > 0.0 else 0.0


@inner_loop
def _add_eight_rows(X, i, vector, mean, out):  # type: ignore[no-untyped-def]
    """Add the contribution of rows i to i + 7. Rows are indexed because views are reference-counted."""
    v0, v1, v2, v3 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
    v4, v5, v6, v7 = vector[i + 4], vector[i + 5], vector[i + 6], vector[i + 7]
    for j in range(out.shape[0]):
        m = mean[j]
        out[j] += (
            (v0 * (X[i, j] - m) + v1 * (X[i + 1, j] - m)) + (v2 * (X[i + 2, j] - m) + v3 * (X[i + 3, j] - m))
        ) + ((v4 * (X[i + 4, j] - m) + v5 * (X[i + 5, j] - m)) + (v6 * (X[i + 6, j] - m) + v7 * (X[i + 7, j] - m)))


@inner_loop
def _add_centred_row(row, factor, mean, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[0]):
        out[j] += factor * (row[j] - mean[j])
