"""Sums over rows by the position of each value in its column's range: all that maps of single variables need of data.

A range is divided into bins. A value at share f of bin q adds v fᵏ to ``sums[q, k]``, k = 0, 1, ... The sums of every
function that is linear between the edges of the bins follow from these. Row values v are integers, and shares are
integer multiples of 2⁻¹⁴, so the sums are exact for any order of rows, any tiles, and whether or not zeros are stored.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel

SHARE_BITS = 14
PANEL_COLUMNS = 16  # columns whose sums stay in the L2 cache during a pass over rows


def whole_numbers(v: np.ndarray) -> tuple[np.ndarray, float]:
    """Return row values as integers, and their unit.

    Parameters
    ----------
    v : ndarray of shape (..., n_samples), float64
        Values; sums run over the last axis.

    Returns
    -------
    numbers : ndarray of v's shape, int64
        Rounded to a unit that keeps the sums below 2⁶².
    unit : float
        A power of two; ``v`` is about ``numbers * unit``.

    Examples
    --------
    >>> numbers, unit = whole_numbers(np.array([0.5, -0.25, 0.0]))
    >>> numbers * unit
    array([ 0.5 , -0.25,  0.  ])
    """
    largest = float(np.abs(v).max(initial=0.0))
    bits = min(62 - SHARE_BITS - max(1, math.ceil(math.log2(max(2, v.shape[-1])))), 40)
    unit = math.ldexp(1.0, math.frexp(largest)[1] - bits) if largest > 0.0 else 1.0
    return np.rint(v / unit).astype(np.int64), unit


@kernel
def _bin_and_share(value, low, inverse, is_root, n_bins):  # type: ignore[no-untyped-def]
    """Return the bin of a value and its share of it. Values outside the range are clipped."""
    place = (float(value) - low) * inverse
    if not place > 0.0:
        place = 0.0
    if place > 1.0:
        place = 1.0
    if is_root:
        place = math.sqrt(place)
    place *= n_bins
    q = min(int(place), n_bins - 1)
    return q, place - q


@kernel
def _add_powers(sums, number, share):  # type: ignore[no-untyped-def]
    """Add v fᵏ to the sums of a bin, where f is an integer multiple of 2⁻¹⁴."""
    power = 1 << SHARE_BITS
    for k in range(sums.shape[0]):
        sums[k] += number * power
        power = (power * share) >> SHARE_BITS


@kernel
def add_levels(flat, stride, lines, rows, n_columns, numbers, low, inverse, is_root, sums):  # type: ignore[no-untyped-def]
    """Add some rows of dense columns to the sums.

    Parameters
    ----------
    flat : ndarray of shape (>= (n_lines - 1) * stride + n_columns,), float32, float64 or int8
    stride : int
    lines : ndarray of shape (n_rows,), int64
        Row i starts at ``flat[lines[i] * stride]``; if empty, at ``flat[i * stride]``.
    rows : ndarray of int64
        Rows to add.
    n_columns : int
    numbers : ndarray of shape (n_vectors, n_rows), int64
        Value v of each row.
    low, inverse : ndarrays of shape (n_columns,), float64
        Start of a column's range, and 1 / its length.
    is_root : bool
        Whether positions within a range are replaced by their square roots.
    sums : ndarray of shape (n_columns, n_vectors, n_bins, n_powers), int64
    """
    n_bins = sums.shape[2]
    for left in range(0, n_columns, PANEL_COLUMNS):
        right = min(n_columns, left + PANEL_COLUMNS)
        for r in range(rows.shape[0]):
            if r % 4096 == 0 and is_stopped():
                return
            i = rows[r]
            line = (lines[i] if lines.shape[0] > 0 else i) * stride
            for j in range(left, right):
                q, share = _bin_and_share(flat[line + j], low[j], inverse[j], is_root, n_bins)
                whole = int(share * (1 << SHARE_BITS) + 0.5)
                for c in range(numbers.shape[0]):
                    _add_powers(sums[j, c, q], numbers[c, i], whole)


@kernel
def add_sparse_levels(starts, rows, values, numbers, totals, low, inverse, is_root, sums):  # type: ignore[no-untyped-def]
    """Add sparse columns to the sums: their entries, and all other rows as zeros.

    Parameters
    ----------
    starts : ndarray of shape (n_columns + 1,), int32 or int64
    rows : ndarray of shape (nnz,), int32 or int64
    values : ndarray of shape (nnz,), float32, float64 or int8
    numbers : ndarray of shape (n_vectors, n_base_rows), int64
        0 in rows that are ignored.
    totals : ndarray of shape (n_vectors,), int64
        Sums of `numbers`.
    low, inverse, is_root, sums : see `add_levels`
    """
    n_bins, n_vectors = sums.shape[2], numbers.shape[0]
    rest = np.empty(n_vectors, np.int64)
    for j in range(sums.shape[0]):
        if j % 64 == 0 and is_stopped():
            return
        for c in range(n_vectors):
            rest[c] = totals[c]
        for k in range(starts[j], starts[j + 1]):
            i = rows[k]
            q, share = _bin_and_share(values[k], low[j], inverse[j], is_root, n_bins)
            whole = int(share * (1 << SHARE_BITS) + 0.5)
            for c in range(n_vectors):
                if numbers[c, i] != 0:
                    _add_powers(sums[j, c, q], numbers[c, i], whole)
                    rest[c] -= numbers[c, i]
        q, share = _bin_and_share(0.0, low[j], inverse[j], is_root, n_bins)
        whole = int(share * (1 << SHARE_BITS) + 0.5)
        for c in range(n_vectors):
            _add_powers(sums[j, c, q], rest[c], whole)


@kernel
def products_with_table(sums, table, out):  # type: ignore[no-untyped-def]
    """Write Σ_i v_i φ_l(x_ij) for every column j, vector, and component l of a map.

    Parameters
    ----------
    sums : ndarray of shape (n_columns, n_vectors, n_bins, >= 2), int64
        In units of 2⁻¹⁴.
    table : ndarray of shape (n_bins + 1, width), float64
        φ at the edges of the bins; linear in between.
    out : ndarray of shape (n_columns, n_vectors, width), float64
    """
    n_columns, n_vectors, n_bins, _ = sums.shape
    unit = 1.0 / (1 << SHARE_BITS)
    for j in range(n_columns):
        for c in range(n_vectors):
            of_column = out[j, c]
            of_column[:] = 0.0
            for q in range(n_bins):
                if sums[j, c, q, 0] != 0 or sums[j, c, q, 1] != 0:
                    whole, share = unit * sums[j, c, q, 0], unit * sums[j, c, q, 1]
                    for k in range(table.shape[1]):
                        of_column[k] += whole * table[q, k] + share * (table[q + 1, k] - table[q, k])


@kernel
def squares_with_table(sums, table, origin, out):  # type: ignore[no-untyped-def]
    """Write Σ_i v_i ‖φ(x_ij) - origin_j‖² for every column j.

    Parameters
    ----------
    sums : ndarray of shape (n_columns, n_bins, 3), int64
        In units of 2⁻¹⁴.
    table : ndarray of shape (n_bins + 1, width), float64
    origin : ndarray of shape (n_columns, width), float64
    out : ndarray of shape (n_columns,), float64
    """
    unit = 1.0 / (1 << SHARE_BITS)
    for j in range(sums.shape[0]):
        total = 0.0
        for q in range(sums.shape[1]):
            if sums[j, q, 0] != 0:
                whole, share, square = unit * sums[j, q, 0], unit * sums[j, q, 1], unit * sums[j, q, 2]
                for k in range(table.shape[1]):
                    start = table[q, k] - origin[j, k]
                    step = table[q + 1, k] - table[q, k]
                    total += whole * start * start + 2.0 * share * start * step + square * step * step
        out[j] = total


@kernel
def components_at(values, low, inverse, is_root, table, which, out):  # type: ignore[no-untyped-def]
    """Write some components of a map at the values of one column.

    Parameters
    ----------
    values : ndarray of shape (n_rows,), float32, float64 or int8
    low, inverse : float
    is_root : bool
    table : ndarray of shape (n_bins + 1, width), float64
    which : ndarray of shape (n_components,), int64
        Components to write.
    out : ndarray of shape (n_rows, n_components), float32 or float64
    """
    n_bins = table.shape[0] - 1
    for i in range(values.shape[0]):
        q, share = _bin_and_share(values[i], low, inverse, is_root, n_bins)
        for k in range(which.shape[0]):
            start = table[q, which[k]]
            out[i, k] = start + share * (table[q + 1, which[k]] - start)
