"""Row blocks of a sparse store: entries in column order, and their conversion to rows, columns and totals.

The entries of a block are sorted by column, and by row within a column. A run is a column with entries in the block:
its number, the number of entries, and for each entry the row within the block (uint16). Nothing read from a file is
used as an index unchecked: kernels that scatter return False if a run or an entry is out of range.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel

ROW_BITS = 13
BLOCK_ROWS = 1 << ROW_BITS
"""Number of rows of a block."""
DIGIT_BITS = 11
N_DIGITS = 1 << DIGIT_BITS
"""Number of values of a digit in the sort by column: their counters stay in the L1 cache."""


@kernel
def row_lengths(offsets, lengths):  # type: ignore[no-untyped-def]
    """Count the entries of each row. Return False if an entry is beyond the last row.

    Parameters
    ----------
    offsets : ndarray of shape (nnz,), uint16
    lengths : ndarray of shape (n_rows,), int64
        Incremented.
    """
    n_rows = lengths.shape[0]
    for e in range(offsets.shape[0]):
        row = offsets[e]
        if row >= n_rows:
            return False
        lengths[row] += 1
    return True


@kernel
def rows_of_block(columns, counts, offsets, values, n_features, at, indices, data):  # type: ignore[no-untyped-def]
    """Write the entries by row, columns ascending. Return False if a count or a column is out of range.

    Parameters
    ----------
    columns, counts : ndarray of shape (n_runs,), unsigned
    offsets : ndarray of shape (nnz,), uint16
        Already checked by `row_lengths`.
    values : ndarray of shape (nnz,), or (0,) if every entry is one
    n_features : int
    at : ndarray of shape (n_rows,), int64
        Position of the next entry of each row; updated.
    indices, data : ndarray of shape (nnz,)
    """
    e, is_one = 0, values.shape[0] == 0
    for r in range(columns.shape[0]):
        stop = e + np.int64(counts[r])
        if stop > offsets.shape[0] or columns[r] >= n_features:
            return False
        column = columns[r]
        while e < stop:
            k = at[offsets[e]]
            at[offsets[e]] = k + 1
            indices[k] = column
            if is_one:
                data[k] = 1
            else:
                data[k] = values[e]
            e += 1
    return e == offsets.shape[0]


@kernel
def columns_of_block(slots, counts, offsets, values, first_row, at, indices, data):  # type: ignore[no-untyped-def]
    """Append the entries of a block to those of some columns. Return False if counts do not match.

    Parameters
    ----------
    slots, counts : ndarray of shape (n_runs,)
        For each run, the position of its column among the wanted ones, and its number of entries.
    offsets : ndarray of shape (nnz,), uint16
    values : ndarray of shape (nnz,), or (0,) if every entry is one
    first_row : int
        First row of the block.
    at : ndarray of shape (n_columns,), int64
        Position of the next entry of each column; updated.
    indices, data : ndarray
    """
    e, is_one = np.int64(0), values.shape[0] == 0
    for r in range(slots.shape[0]):
        if slots[r] < 0 or slots[r] >= at.shape[0]:
            return False
        k, n = at[slots[r]], np.int64(counts[r])
        if e + n > offsets.shape[0] or k + n > indices.shape[0]:
            return False
        for i in range(n):
            indices[k + i] = first_row + offsets[e + i]
            if is_one:
                data[k + i] = 1
            else:
                data[k + i] = values[e + i]
        at[slots[r]] = k + n
        e = e + n
    return e == offsets.shape[0]


@kernel
def taken_rows(indptr, features, data, order, out_features, out_data):  # type: ignore[no-untyped-def]
    """Write rows in another order. `data` and `out_data` are empty if every entry is one."""
    e, is_one = 0, data.shape[0] == 0
    for i in order:
        for k in range(indptr[i], indptr[i + 1]):
            out_features[e] = features[k]
            if not is_one:
                out_data[e] = data[k]
            e += 1


@kernel
def keys_of_entries(indptr, columns, keys):  # type: ignore[no-untyped-def]
    """Write column and row of each entry of a block as one number, the sort key of `sorted_by_column`."""
    for i in range(indptr.shape[0] - 1):
        for k in range(indptr[i], indptr[i + 1]):
            keys[k] = (np.int64(columns[k]) << ROW_BITS) | i


@kernel
def sorted_by_column(keys, data, other_keys, other_data, n_bits, starts):  # type: ignore[no-untyped-def]
    """Sort the entries of a block, given by row, by their columns of `n_bits` bits.

    It is a radix sort that alternates between the two pairs of arrays.

    Parameters
    ----------
    keys, other_keys : ndarray of shape (nnz,), int64
    data, other_data : ndarray of shape (nnz,), or (0,) if every entry is one
    n_bits : int
    starts : ndarray of shape (`N_DIGITS` + 1,), int64
        Work array.

    Returns
    -------
    bool
        Whether the result is in the other pair.
    """
    n, is_one, is_other = keys.shape[0], data.shape[0] == 0, False
    for first in range(0, n_bits, DIGIT_BITS):
        if is_stopped():
            break
        shift = ROW_BITS + first
        starts[:] = 0
        for e in range(n):
            starts[((keys[e] >> shift) & (N_DIGITS - 1)) + 1] += 1
        for digit in range(N_DIGITS):
            starts[digit + 1] += starts[digit]
        for e in range(n):
            digit = (keys[e] >> shift) & (N_DIGITS - 1)
            k = starts[digit]
            starts[digit] = k + 1
            other_keys[k] = keys[e]
            if not is_one:
                other_data[k] = data[e]
        keys, other_keys = other_keys, keys
        data, other_data = other_data, data
        is_other = not is_other
    return is_other


@kernel
def runs_of(keys, columns, counts, offsets):  # type: ignore[no-untyped-def]
    """Write sorted entries as runs. Return the number of runs."""
    n_runs = 0
    for e in range(keys.shape[0]):
        column = keys[e] >> ROW_BITS
        offsets[e] = keys[e] & (BLOCK_ROWS - 1)
        if e == 0 or column != keys[e - 1] >> ROW_BITS:
            columns[n_runs], counts[n_runs] = column, 0
            n_runs += 1
        counts[n_runs - 1] += 1
    return n_runs
