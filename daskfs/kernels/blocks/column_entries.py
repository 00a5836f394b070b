"""A block of rows as the entries of its columns, with the operations of paths: moments, Gram rows, products, copies.

Columns are standardised on the fly. A value that is not an entry is zero and becomes -mean / scale, which the sums
account for without reading it. The conventions are those of `daskfs.kernels.linear.moments`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.moments import Moments, deviation, first_moments

SPARSE = 0.1  # largest share of entries at which they are cheaper than a dense block


class ColumnEntries(NamedTuple):
    """Column j has `values` in the rows ``rows[starts[j]:starts[j + 1]]``, which ascend."""

    starts: np.ndarray
    """Shape (n_features + 1,), int64."""
    rows: np.ndarray
    """Shape (nnz,), int32."""
    values: np.ndarray
    """Shape (nnz,), float32 or float64."""
    n_samples: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_features)."""
        return int(self.n_samples), len(self.starts) - 1


def column_entries(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, n_features: int) -> ColumnEntries:
    """Return the entries of rows as those of columns. Values of duplicate positions are added.

    Parameters
    ----------
    indptr : ndarray of shape (n_samples + 1,), int64
        Need not start at 0.
    indices : ndarray, of integers
        Column of each entry.
    data : ndarray, of numbers
    n_features : int

    Returns
    -------
    ColumnEntries
    """
    entries = slice(int(indptr[0]), int(indptr[-1]))
    values = data[entries]
    values = np.ascontiguousarray(values, dtype=values.dtype if values.dtype in (np.float32, np.float64) else "f4")
    columns = np.ascontiguousarray(indices[entries], dtype=np.int64)
    starts = np.zeros(n_features + 1, dtype=np.int64)
    rows, sorted_values = np.empty(len(values), dtype=np.int32), np.empty_like(values)
    n = _sort_by_column(np.asarray(indptr, dtype=np.int64) - indptr[0], columns, values, starts, rows, sorted_values)
    return ColumnEntries(starts, rows[:n], sorted_values[:n], len(indptr) - 1)


def dense_block(X: ColumnEntries) -> np.ndarray:
    """Return the block as an array of shape (n_samples, n_features)."""
    out = np.zeros(X.shape, dtype=X.values.dtype)
    _fill(X, out)
    return out


def of_rows(X: ColumnEntries, keep: np.ndarray) -> ColumnEntries:
    """Return the block with only the rows of a mask."""
    kept = keep[X.rows]
    starts = np.concatenate([[0], np.cumsum(kept)])[X.starts]
    return ColumnEntries(starts, (np.cumsum(keep) - 1)[X.rows[kept]].astype(np.int32), X.values[kept], int(keep.sum()))


@kernel
def _sort_by_column(indptr, columns, values, starts, out_rows, out_values):  # type: ignore[no-untyped-def]
    """Write the entries by column. Return the number of distinct positions."""
    for j in columns:
        starts[j + 1] += 1
    for j in range(starts.shape[0] - 1):
        starts[j + 1] += starts[j]
    place = starts[:-1].copy()
    for i in range(indptr.shape[0] - 1):
        if i % 1024 == 0 and is_stopped():
            break
        for e in range(indptr[i], indptr[i + 1]):
            j = columns[e]
            if place[j] > starts[j] and out_rows[place[j] - 1] == i:
                out_values[place[j] - 1] += values[e]
            else:
                out_rows[place[j]] = i
                out_values[place[j]] = values[e]
                place[j] += 1
    n = 0
    for j in range(starts.shape[0] - 1):  # close the gaps left by duplicates
        first, last = starts[j], place[j]
        starts[j] = n
        for e in range(first, last):
            out_rows[n] = out_rows[e]
            out_values[n] = out_values[e]
            n += 1
    starts[-1] = n
    return n


@kernel
def _fill(X, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[1]):
        for e in range(X.starts[j], X.starts[j + 1]):
            out[X.rows[e], j] = X.values[e]


@kernel
def moments_of_entries(X, y, weight):  # type: ignore[no-untyped-def]
    """Return the Moments of a block; see `daskfs.kernels.linear.moments.moments`."""
    n_features = X.starts.shape[0] - 1
    total, y_mean, y_variance = first_moments(y, weight, np.flatnonzero(weight > 0.0))
    mean, scale, cross = np.zeros(n_features), np.zeros(n_features), np.zeros(n_features)
    for j in range(n_features):
        if j % 64 == 0 and is_stopped():
            break
        first, last = X.starts[j], X.starts[j + 1]
        weight_here = 0.0
        for e in range(first, last):
            mean[j] += weight[X.rows[e]] * X.values[e]
            weight_here += weight[X.rows[e]]
        mean[j] /= total
        square = max(total - weight_here, 0.0) * mean[j] * mean[j] if last - first < X.n_samples else 0.0
        centre = mean[j] if last - first == X.n_samples else 0.0  # differences of y from its mean add up to zero
        for e in range(first, last):
            w, x = weight[X.rows[e]], np.float64(X.values[e])
            square += w * (x - mean[j]) * (x - mean[j])
            cross[j] += w * (x - centre) * (y[X.rows[e]] - y_mean)
        scale[j] = deviation(square / total, mean[j])
        cross[j] = cross[j] / (total * scale[j]) if scale[j] > 0.0 else 0.0
    return Moments(total, y_mean, y_variance, mean, scale, cross)


@kernel
def gram_rows_of_entries(X, weight, block_moments, features, out):  # type: ignore[no-untyped-def]
    """Write ⟨z_f, z_j⟩ for a few features f against every column; see `daskfs.kernels.linear.moments.gram_rows`."""
    mean, scale = block_moments.mean, block_moments.scale
    factors, whole, sums = np.empty((weight.shape[0], 4)), np.zeros(4), np.zeros((4, mean.shape[0]))
    for first in range(0, features.shape[0], 4):
        if is_stopped():
            break
        n_rows = min(4, features.shape[0] - first)
        factors[:] = 0.0
        for f in range(n_rows):
            _weigh_column(X, weight, block_moments, features[first + f], factors[:, f])
            whole[f] = factors[:, f].sum()
        _multiply_four(X, mean, factors, whole, sums)
        for f in range(n_rows):
            for j in range(mean.shape[0]):
                out[first + f, j] = sums[f, j] / scale[j] if scale[j] > 0.0 else 0.0


@kernel
def _weigh_column(X, weight, block_moments, j, out):  # type: ignore[no-untyped-def]
    """Write w_i z_ij / W for every row."""
    mean, factor = block_moments.mean[j], 1.0 / (block_moments.scale[j] * block_moments.total)
    for i in range(weight.shape[0]):
        out[i] = -weight[i] * mean * factor
    for e in range(X.starts[j], X.starts[j + 1]):
        out[X.rows[e]] = weight[X.rows[e]] * (X.values[e] - mean) * factor


@inner_loop
def _multiply_four(X, mean, factors, whole, sums):  # type: ignore[no-untyped-def]
    """Write Σ_i factors_if (x_ij - mean_j) for four features f; values that are not entries count as -mean_j."""
    for j in range(mean.shape[0]):
        m = mean[j]
        a = b = c = d = here_a = here_b = here_c = here_d = 0.0
        for e in range(X.starts[j], X.starts[j + 1]):
            i = X.rows[e]
            x = X.values[e] - m
            a, here_a = a + x * factors[i, 0], here_a + factors[i, 0]
            b, here_b = b + x * factors[i, 1], here_b + factors[i, 1]
            c, here_c = c + x * factors[i, 2], here_c + factors[i, 2]
            d, here_d = d + x * factors[i, 3], here_d + factors[i, 3]
        sums[0, j] = a - m * (whole[0] - here_a)
        sums[1, j] = b - m * (whole[1] - here_b)
        sums[2, j] = c - m * (whole[2] - here_c)
        sums[3, j] = d - m * (whole[3] - here_d)


@kernel
def products_with_entries(X, mean, scale, vector, out):  # type: ignore[no-untyped-def]
    """Write Σ_i vector_i z_ij for every column; see `daskfs.kernels.linear.columns.products_with_columns`."""
    whole = vector.sum()
    for j in range(mean.shape[0]):
        if j % 64 == 0 and is_stopped():
            break
        product, here = 0.0, 0.0
        for e in range(X.starts[j], X.starts[j + 1]):
            v = vector[X.rows[e]]
            product += v * (X.values[e] - mean[j])
            here += v
        out[j] = (product - mean[j] * (whole - here)) / scale[j] if scale[j] > 0.0 else 0.0


@kernel
def copy_of_entries(X, mean, scale, features, out):  # type: ignore[no-untyped-def]
    """Write standardised columns into the rows of `out`; see `daskfs.kernels.linear.columns.copy_columns`."""
    for f in range(features.shape[0]):
        j = features[f]
        out[f] = -mean[j] / scale[j]
        for e in range(X.starts[j], X.starts[j + 1]):
            out[f, X.rows[e]] = (X.values[e] - mean[j]) / scale[j]
