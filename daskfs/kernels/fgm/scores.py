"""Scores of columns: the products Xᵀ v of a block with one number per row, for dense rows or sparse columns.

The rows are processed in granules of GRANULE rows. Within a granule, rows with the number 0 are skipped, and the others
are added one at a time. float32 and int8 columns are summed in float32 within a granule, and granules in float64. The
sums of an incomplete granule are kept until its other rows arrive, so the bits do not depend on how the rows are
divided. Sparse columns are summed in the same order with the same rounding, and zeros add nothing: they give the same
bits as dense ones. The same holds for the sums behind means and deviations.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel

GRANULE = 256  # rows summed in the precision of the block
ALL_LINES = np.empty(0, np.int64)
PANEL_COLUMNS = 4096  # sums of a panel stay in the L1 cache, and its rows are long enough for prefetching


def scores_of(block: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
    """Add Σ_i v_i x_ij to `out` for every column of a block of consecutive rows that starts a granule.

    Parameters
    ----------
    block : ndarray of shape (n_rows, n_columns), float32, float64 or int8
        Contiguous rows: C-ordered, or some columns of such an array.
    v : ndarray of shape (n_rows,), float64
    out : ndarray of shape (n_columns,), float64
    """
    if block.size:
        sums = np.zeros(block.shape[1], summed_in(block.dtype))
        work = new_granule(sums.dtype)
        add_scores(*flattened(block), ALL_LINES, 0, *block.shape, v.astype(sums.dtype), *work, sums, out)
        out += sums


def summed_in(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which the products of a granule are summed."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def new_granule(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return work arrays for the lines and numbers of a granule's rows."""
    return np.empty(GRANULE, np.int64), np.empty(GRANULE, dtype)


def flattened(block: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the values from the first of a block on as a 1-d array, and the distance between the starts of rows.

    Raises
    ------
    ValueError
        The values of a row are not contiguous.
    """
    if block.flags.c_contiguous:
        return block.reshape(-1), block.shape[1]
    if block.strides[1] != block.itemsize and block.shape[1] > 1:
        raise ValueError("expected rows whose numbers lie one after another")
    stride = block.strides[0] // block.itemsize if block.shape[0] > 1 else block.shape[1]
    length = (block.shape[0] - 1) * stride + block.shape[1]
    return np.lib.stride_tricks.as_strided(block, (length,), (block.itemsize,)), stride


@kernel
def add_scores(flat, stride, lines, first, n_rows, n_columns, v, active, numbers, sums, out):  # type: ignore[no-untyped-def]
    """Add the scores of some rows: of complete granules to `out`, of an incomplete granule to `sums`.

    Parameters
    ----------
    flat : ndarray of shape (>= (n_lines - 1) * stride + n_columns,), float32, float64 or int8
    stride : int
    lines : ndarray of shape (n_rows,), int64
        Row ``first + i`` starts at ``flat[lines[i] * stride]``; if empty, at ``flat[i * stride]``.
    first, n_rows, n_columns : int
        Rows come in order; all earlier rows have been added.
    v : ndarray of shape (>= first + n_rows,), float32 or float64
        One number for each of all rows.
    active, numbers : ndarrays of shape (GRANULE,), int64 and of the type of `v`
        Work arrays.
    sums : ndarray of shape (n_columns,), of the type of `v`
        Sums of the last granule if it is incomplete, otherwise 0.
    out : ndarray of shape (n_columns,), float64
    """
    for left in range(0, n_columns, PANEL_COLUMNS):
        width = min(PANEL_COLUMNS, n_columns - left)
        part, total = sums[left : left + width], out[left : left + width]
        start = 0
        while start < n_rows and not is_stopped():
            stop = min(n_rows, start + GRANULE - (first + start) % GRANULE)
            n_active = 0
            for i in range(start, stop):
                if v[first + i] != 0.0:
                    active[n_active] = lines[i] if lines.shape[0] > 0 else i
                    numbers[n_active] = v[first + i]
                    n_active += 1
            q = 0
            while q + 8 <= n_active:
                _add_eight(flat, stride, left, active, numbers, q, part)
                q += 8
            while q < n_active:
                _add_one(flat, np.uintp(active[q] * stride + left), numbers[q], part)
                q += 1
            if (first + stop) % GRANULE == 0:
                for j in range(width):
                    total[j] += part[j]
                    part[j] = 0.0
            start = stop


@kernel
def _add_eight(flat, stride, left, lines, numbers, q, sums):  # type: ignore[no-untyped-def]
    """Add the rows at positions q to q + 7. They are given by index, because each view would be reference-counted."""
    start0, start1 = np.uintp(lines[q] * stride + left), np.uintp(lines[q + 1] * stride + left)
    start2, start3 = np.uintp(lines[q + 2] * stride + left), np.uintp(lines[q + 3] * stride + left)
    start4, start5 = np.uintp(lines[q + 4] * stride + left), np.uintp(lines[q + 5] * stride + left)
    start6, start7 = np.uintp(lines[q + 6] * stride + left), np.uintp(lines[q + 7] * stride + left)
    v0, v1, v2, v3 = numbers[q], numbers[q + 1], numbers[q + 2], numbers[q + 3]
    v4, v5, v6, v7 = numbers[q + 4], numbers[q + 5], numbers[q + 6], numbers[q + 7]
    number = sums.dtype.type
    for j in range(np.uintp(sums.shape[0])):
        total = sums[j]
        total += v0 * number(flat[start0 + j])
        total += v1 * number(flat[start1 + j])
        total += v2 * number(flat[start2 + j])
        total += v3 * number(flat[start3 + j])
        total += v4 * number(flat[start4 + j])
        total += v5 * number(flat[start5 + j])
        total += v6 * number(flat[start6 + j])
        total += v7 * number(flat[start7 + j])
        sums[j] = total


@kernel
def _add_one(flat, start, v, sums):  # type: ignore[no-untyped-def]
    number = sums.dtype.type
    for j in range(np.uintp(sums.shape[0])):
        sums[j] += v * number(flat[start + j])


@kernel
def sparse_scores(starts, rows, values, v, granule, out):  # type: ignore[no-untyped-def]
    """Write Σ_i v_i x_ij for sparse columns, with the same bits as `add_scores` for them as a dense block.

    Parameters
    ----------
    starts : ndarray of shape (n_columns + 1,), int32 or int64
        Start of each column in `rows` and `values`.
    rows : ndarray of shape (nnz,), int32 or int64
        Ascending within a column.
    values : ndarray of shape (nnz,), float32, float64 or int8
    v : ndarray of shape (n_samples,), float32 or float64
        float64 if the values are.
    granule : ndarray of shape (n_samples,), int64
        The granule of each row.
    out : ndarray of shape (n_columns,), float64
    """
    number = v.dtype.type
    for j in range(out.shape[0]):
        if j % 64 == 0 and is_stopped():
            break
        total, part, current = 0.0, number(0), -1
        for k in range(starts[j], starts[j + 1]):
            i = rows[k]
            if v[i] == 0.0:
                continue
            if granule[i] != current:
                total += part
                part, current = number(0), granule[i]
            part += v[i] * number(values[k])
        out[j] = total + part


@kernel
def column_sums(flat, stride, lines, n_rows, n_columns, weight, origin, total, sums, squares, least, most):  # type: ignore[no-untyped-def]
    """Add the nonzero values of columns, row after row: Σ w_i, Σ w_i (x_ij - o_j) and Σ w_i (x_ij - o_j)².

    Parameters
    ----------
    flat, stride, lines, n_rows, n_columns : see `add_scores`
    weight : ndarray of shape (n_rows,), float64
        Rows of weight 0 are skipped.
    origin : ndarray of shape (n_columns,), float64
        o_j: initially 0, then the first nonzero value of the column.
    total, sums, squares : ndarray of shape (n_columns,), float64
    least : ndarray of shape (n_columns,), float64
        Minimum so far.
    most : ndarray of shape (n_columns,), float64
        Maximum so far.
    """
    for i in range(n_rows):
        if i % 64 == 0 and is_stopped():
            break
        if weight[i] != 0.0:
            line = (lines[i] if lines.shape[0] > 0 else i) * stride
            _add_squares(flat[line : line + n_columns], weight[i], origin, total, sums, squares, least, most)


@kernel
def _add_squares(x, weight, origin, total, sums, squares, least, most):  # type: ignore[no-untyped-def]
    for j in range(sums.shape[0]):
        value = np.float64(x[j])
        least[j] = min(least[j], value)
        most[j] = max(most[j], value)
        origin[j] = value if origin[j] == 0.0 else origin[j]
        w = 0.0 if value == 0.0 else weight
        deviation = value - origin[j]
        total[j] += w
        sums[j] += w * deviation
        squares[j] += w * deviation * deviation


@kernel
def sparse_column_sums(starts, rows, values, weight, origin, total, sums, squares, least, most):  # type: ignore[no-untyped-def]
    """Write the sums of `column_sums` for sparse columns, with the same bits. Rows ascend within a column."""
    n_rows = 0
    for i in range(weight.shape[0]):
        n_rows += weight[i] != 0.0
    for j in range(sums.shape[0]):
        if j % 64 == 0 and is_stopped():
            break
        first, count, one, two = 0.0, 0.0, 0.0, 0.0
        lowest, highest, n_zeros = least[j], most[j], n_rows
        for k in range(starts[j], starts[j + 1]):
            x, w = np.float64(values[k]), weight[rows[k]]
            if x != 0.0 and w != 0.0:
                first = x if first == 0.0 else first
                deviation = x - first
                count += w
                one += w * deviation
                two += w * deviation * deviation
                lowest = min(lowest, x)
                highest = max(highest, x)
                n_zeros -= 1
        least[j] = min(lowest, 0.0) if n_zeros > 0 else lowest
        most[j] = max(highest, 0.0) if n_zeros > 0 else highest
        origin[j], total[j], sums[j], squares[j] = first, count, one, two
