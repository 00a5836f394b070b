"""Sums over the rows by where each value lies in its column's range: all that maps of single variables need of data.

A range is cut into bins. A value at the share f of bin q counts in ``sums[q, k]`` with v fᵏ, k = 0, 1, ...; whatever
function is linear between the edges of the bins has its sums made of these. Rows count with whole numbers, and shares
are whole numbers of 2⁻¹⁴: the sums are exact, whatever the order of rows, the cut into tiles, and whether zeros are
stored.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel

SHARE_BITS = 14
PANEL_COLUMNS = 16  # whose sums stay in the second-level cache while the rows pass


def whole_numbers(v: np.ndarray) -> tuple[np.ndarray, float]:
    """Return numbers of rows as whole numbers, and what one of these is worth.

    Parameters
    ----------
    v : ndarray of shape (..., n_samples), float64
        Of the last axis as many are summed as there are.

    Returns
    -------
    numbers : ndarray of v's shape, int64
        Rounded to a share of the largest that lets the sums stay below 2⁶².
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
    """Return the bin of a value and its share of it, beyond the ends of the range those of the end."""
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
    """Add v fᵏ to the sums of a bin, f a whole number of 2⁻¹⁴."""
    power = 1 << SHARE_BITS
    for k in range(sums.shape[0]):
        sums[k] += number * power
        power = (power * share) >> SHARE_BITS


@kernel
def add_levels(flat, stride, lines, rows, n_columns, numbers, low, inverse, is_root, sums):  # type: ignore[no-untyped-def]
    """Add some rows of dense columns to their sums.

    Parameters
    ----------
    flat : ndarray of shape (>= (n_lines - 1) * stride + n_columns,), float32, float64 or int8
    stride : int
    lines : ndarray of shape (n_rows,), int64
        Row i starts at ``flat[lines[i] * stride]``; of no length: i for every i.
    rows : ndarray of int64
        Those that count.
    n_columns : int
    numbers : ndarray of shape (n_vectors, n_rows), int64
        What each row counts with.
    low, inverse : ndarrays of shape (n_columns,), float64
        Where a column's range starts, and 1 / its length.
    is_root : bool
        Whether the places within a range are the square roots of what they were.
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
    """Add sparse columns to their sums: their entries, and all other rows as zeros.

    Parameters
    ----------
    starts : ndarray of shape (n_columns + 1,), int32 or int64
    rows : ndarray of shape (nnz,), int32 or int64
    values : ndarray of shape (nnz,), float32, float64 or int8
    numbers : ndarray of shape (n_vectors, n_base_rows), int64
        0 in rows that do not count.
    totals : ndarray of shape (n_vectors,), int64
        Their sums.
    low, inverse, is_root, sums : as in `add_levels`
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
    """Write Σ_i v_i φ_l(x_ij) for every column j, vector and component l of a map.

    Parameters
    ----------
    sums : ndarray of shape (n_columns, n_vectors, n_bins, >= 2), int64
        In units of 2⁻¹⁴.
    table : ndarray of shape (n_bins + 1, width), float64
        φ at the edges of the bins, between which it is linear.
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
    """Write components of a map at values of one column.

    Parameters
    ----------
    values : ndarray of shape (n_rows,), float32, float64 or int8
    low, inverse : float
    is_root : bool
    table : ndarray of shape (n_bins + 1, width), float64
    which : ndarray of shape (n_components,), int64
        Components that are wanted.
    out : ndarray of shape (n_rows, n_components), float32 or float64
    """
    n_bins = table.shape[0] - 1
    for i in range(values.shape[0]):
        q, share = _bin_and_share(values[i], low, inverse, is_root, n_bins)
        for k in range(which.shape[0]):
            start = table[q, which[k]]
            out[i, k] = start + share * (table[q + 1, which[k]] - start)
