"""Scores of columns: the products Xᵀ v of a block with one number for each row, dense rows or sparse columns.

The rows are taken in granules of GRANULE rows. Within a granule those whose number is 0 are left out, the others are
added one after another; float32 and int8 columns are summed in float32 within a granule, granules in float64. A piece
of rows that starts at a multiple of GRANULE adds what the whole would: the bits do not depend on how a block is cut.
Sparse columns are summed in the same order, each step rounded as there, and zeros add nothing: they give the bits of
dense ones. The same holds for the sums behind means and deviations.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.numba_cache import is_stopped, kernel

GRANULE = 256  # rows that are summed in the precision of the block
PANEL_COLUMNS = 4096  # sums of a panel stay in the first-level cache, its rows are long enough to be fetched ahead


def scores_of(block: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
    """Add Σ_i v_i x_ij to `out` for every column of a block of consecutive rows.

    Parameters
    ----------
    block : ndarray of shape (n_rows, n_columns), float32, float64 or int8
        Rows contiguous: C-ordered, or some columns of an array that is.
    v : ndarray of shape (n_rows,), float64
    out : ndarray of shape (n_columns,), float64
    """
    n_rows, n_columns = block.shape
    if n_rows == 0 or n_columns == 0:
        return
    narrow = np.float64 if block.dtype == np.float64 else np.float32
    flat, stride = flattened(block)
    panel = np.empty(min(n_columns, PANEL_COLUMNS), narrow)
    add_scores(flat, stride, n_rows, n_columns, v.astype(narrow), panel, np.empty(GRANULE, np.int64), out)


def flattened(block: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the numbers from the first of a block on, contiguous, and how far apart its rows start.

    Raises
    ------
    ValueError
        The numbers of a row do not lie one after another.
    """
    if block.strides[1] != block.itemsize and block.shape[1] > 1:
        raise ValueError("expected rows whose numbers lie one after another")
    stride = block.strides[0] // block.itemsize if block.shape[0] > 1 else block.shape[1]
    length = (block.shape[0] - 1) * stride + block.shape[1]
    return np.lib.stride_tricks.as_strided(block, (length,), (block.itemsize,)), stride


@kernel
def add_scores(flat, stride, n_rows, n_columns, v, panel, active, out):  # type: ignore[no-untyped-def]
    """Add the scores of a block given by its numbers in a row.

    Parameters
    ----------
    flat : ndarray of shape (>= (n_rows - 1) * stride + n_columns,), float32, float64 or int8
    stride, n_rows, n_columns : int
    v : ndarray of shape (n_rows,), float32 or float64
    panel : ndarray of shape (>= min(n_columns, PANEL_COLUMNS),), of the type of `v`
        To work in.
    active : ndarray of shape (GRANULE,), int64
        To work in.
    out : ndarray of shape (n_columns,), float64
    """
    for left in range(0, n_columns, panel.shape[0]):
        width = min(panel.shape[0], n_columns - left)
        sums = panel[:width]
        total = out[left : left + width]
        for start in range(0, n_rows, GRANULE):
            if is_stopped():
                break
            n_active = 0
            for i in range(start, min(start + GRANULE, n_rows)):
                if v[i] != 0.0:
                    active[n_active] = i
                    n_active += 1
            if n_active == 0:
                continue
            sums[:] = 0.0
            q = 0
            while q + 8 <= n_active:
                _add_eight(flat, stride, left, width, v, active[q : q + 8], sums)
                q += 8
            while q < n_active:
                i = active[q]
                _add_one(flat[i * stride + left : i * stride + left + width], v[i], sums)
                q += 1
            for j in range(width):
                total[j] += sums[j]


@kernel
def _add_eight(flat, stride, left, width, v, rows, sums):  # type: ignore[no-untyped-def]
    a, b, c, d, e, f, g, h = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7]
    _add_rows(
        flat[a * stride + left : a * stride + left + width], flat[b * stride + left : b * stride + left + width],
        flat[c * stride + left : c * stride + left + width], flat[d * stride + left : d * stride + left + width],
        flat[e * stride + left : e * stride + left + width], flat[f * stride + left : f * stride + left + width],
        flat[g * stride + left : g * stride + left + width], flat[h * stride + left : h * stride + left + width],
        v[a], v[b], v[c], v[d], v[e], v[f], v[g], v[h], sums,
    )  # fmt: skip


@kernel
def _add_rows(x0, x1, x2, x3, x4, x5, x6, x7, v0, v1, v2, v3, v4, v5, v6, v7, sums):  # type: ignore[no-untyped-def]
    number = sums.dtype.type
    for j in range(sums.shape[0]):
        total = sums[j]
        total += v0 * number(x0[j])
        total += v1 * number(x1[j])
        total += v2 * number(x2[j])
        total += v3 * number(x3[j])
        total += v4 * number(x4[j])
        total += v5 * number(x5[j])
        total += v6 * number(x6[j])
        total += v7 * number(x7[j])
        sums[j] = total


@kernel
def _add_one(x, v, sums):  # type: ignore[no-untyped-def]
    number = sums.dtype.type
    for j in range(sums.shape[0]):
        sums[j] += v * number(x[j])


@kernel
def sparse_scores(starts, rows, values, v, granule, out):  # type: ignore[no-untyped-def]
    """Write Σ_i v_i x_ij for sparse columns: the bits that `add_scores` gives for them as a dense block.

    Parameters
    ----------
    starts : ndarray of shape (n_columns + 1,), int32 or int64
        Where each column starts in `rows` and `values`.
    rows : ndarray of shape (nnz,), int32 or int64
        Ascending within a column.
    values : ndarray of shape (nnz,), float32, float64 or int8
    v : ndarray of shape (n_samples,), float32 or float64
        float64 where the values are.
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
def column_sums(flat, stride, n_rows, n_columns, weight, origin, total, sums, squares, least):  # type: ignore[no-untyped-def]
    """Add up the values of columns that are not 0, row after row: Σ w_i, Σ w_i (x_ij - o_j) and Σ w_i (x_ij - o_j)².

    Parameters
    ----------
    flat, stride, n_rows, n_columns : see `add_scores`
    weight : ndarray of shape (n_rows,), float64
        Rows of weight 0 are left out.
    origin : ndarray of shape (n_columns,), float64
        o_j: 0, then the first value of the column that is not 0.
    total, sums, squares : ndarray of shape (n_columns,), float64
    least : ndarray of shape (n_columns,), float64
        The least value so far.
    """
    for i in range(n_rows):
        if i % 64 == 0 and is_stopped():
            break
        if weight[i] != 0.0:
            _add_squares(flat[i * stride : i * stride + n_columns], weight[i], origin, total, sums, squares, least)


@kernel
def _add_squares(x, weight, origin, total, sums, squares, least):  # type: ignore[no-untyped-def]
    for j in range(sums.shape[0]):
        value = np.float64(x[j])
        least[j] = min(least[j], value)
        origin[j] = value if origin[j] == 0.0 else origin[j]
        w = 0.0 if value == 0.0 else weight
        deviation = value - origin[j]
        total[j] += w
        sums[j] += w * deviation
        squares[j] += w * deviation * deviation


@kernel
def sparse_column_sums(starts, rows, values, weight, origin, total, sums, squares, least):  # type: ignore[no-untyped-def]
    """Write the sums of `column_sums` for sparse columns, bit for bit; rows ascending within a column."""
    n_rows = 0
    for i in range(weight.shape[0]):
        n_rows += weight[i] != 0.0
    for j in range(sums.shape[0]):
        if j % 64 == 0 and is_stopped():
            break
        first, count, one, two = 0.0, 0.0, 0.0, 0.0
        lowest, n_zeros = least[j], n_rows
        for k in range(starts[j], starts[j + 1]):
            x, w = np.float64(values[k]), weight[rows[k]]
            if x != 0.0 and w != 0.0:
                first = x if first == 0.0 else first
                deviation = x - first
                count += w
                one += w * deviation
                two += w * deviation * deviation
                lowest = min(lowest, x)
                n_zeros -= 1
        least[j] = min(lowest, 0.0) if n_zeros > 0 else lowest
        origin[j], total[j], sums[j], squares[j] = first, count, one, two
