"""The tasks of FGM: sums and scores of a block of columns, and the values of a few columns.

Workers import this file, so it is light: numpy and the kernels. Tiles of a store are scored strip by strip as they are
decoded, arrays in memory in place, sparse columns one by one, genotypes from their codes. Other matrices are read in
pieces of rows; the next piece is read while the present one is scored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from daskfs.feature_maps.base import ImplicitMatrix
from daskfs.kernels.blocks.column_totals import mean_and_deviation
from daskfs.kernels.fgm.scores import (
    ALL_LINES,
    GRANULE,
    add_scores,
    column_sums,
    flattened,
    new_granule,
    sparse_column_sums,
    sparse_scores,
    summed_in,
)
from daskfs.kernels.fgm.topk import largest, merged
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Strip
from daskfs.matrix.buffers import BufferPool
from daskfs.matrix.streaming import prefetched
from daskfs.selectors.shared.record import Record


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """Consecutive columns that one task scores, with their scaling."""

    start: int
    stop: int
    piece_rows: int
    """Rows read at a time, if columns are read in pieces."""
    centre: np.ndarray | float = 0.0
    """Shape (stop - start,); 0 if columns are not centred."""
    inverse: np.ndarray | float = 1.0
    """1 / scale, 0 for a constant column; 1 if columns are not normalised."""

    def scaled(self, centre: np.ndarray, inverse: np.ndarray) -> ColumnRange:
        """Return the same columns with their scaling."""
        return replace(self, centre=centre, inverse=inverse)

    @property
    def name(self) -> str:
        """Name of the columns in a checkpoint."""
        return f"{self.start}-{self.stop}"


@dataclass(frozen=True, slots=True)
class ColumnMoments(Record):
    """Moments of consecutive columns, over rows of positive weight."""

    mean: np.ndarray
    deviation: np.ndarray
    """Population standard deviation, exactly 0 for a constant column."""
    minimum: np.ndarray
    maximum: np.ndarray

    def put(self, at: slice, part: ColumnMoments) -> None:
        """Fill in the moments of some of the columns."""
        self.mean[at], self.deviation[at] = part.mean, part.deviation
        self.minimum[at], self.maximum[at] = part.minimum, part.maximum


def sums_of_block(matrix: Matrix, weight: np.ndarray, columns: ColumnRange) -> ColumnMoments:
    """Return mean, standard deviation and extremes of the columns of a block, over rows of positive weight.

    Parameters
    ----------
    matrix : Matrix
    weight : ndarray of shape (n_samples,), float64
    columns : ColumnRange

    Returns
    -------
    ColumnMoments

    Raises
    ------
    DataError
        NaN or infinity, with the column's name.
    """
    moments = matrix.column_moments(slice(columns.start, columns.stop), weight)
    if moments is not None:
        return ColumnMoments(*moments)
    origin, total, sums, squares = np.zeros((4, columns.stop - columns.start))
    least, most = np.full(len(sums), np.inf), np.full(len(sums), -np.inf)
    sparse = sparse_block(matrix, columns.start, columns.stop, weight[None])
    if sparse is not None:
        sparse_column_sums(
            sparse.starts, sparse.rows, sparse.values, sparse.vectors[0], origin, total, sums, squares, least,
            most,
        )  # fmt: skip
    else:
        for strip in _strips(matrix, columns):
            at, lines = strip.columns, ALL_LINES if strip.lines is None else strip.lines
            n_rows, n_columns = strip.n_rows, at.stop - at.start
            column_sums(
                *flattened(strip.values), lines, n_rows, n_columns, weight[strip.first : strip.first + n_rows],
                origin[at], total[at], sums[at], squares[at], least[at],
                most[at],
            )  # fmt: skip
    if not np.isfinite(squares).all():
        raise matrix.bad_column(columns.start + int(np.flatnonzero(~np.isfinite(squares))[0]))
    whole = float(np.cumsum(weight)[-1])  # summed in the kernels' order, so that without zeros nothing remains
    return ColumnMoments(*mean_and_deviation(origin, total, sums, squares, whole), least, most)


class Best(NamedTuple):
    """The columns with the largest scores, and the values of some of them."""

    columns: np.ndarray
    """Shape (<= n_wanted,), int64, sorted as by `daskfs.kernels.fgm.topk.largest`."""
    scores: np.ndarray
    """Scores of the columns."""
    kept: np.ndarray
    """Columns whose values are here, int64."""
    values: np.ndarray
    """Shape (n_kept, n_samples)."""


def best_of_both(one: Best, other: Best, n_wanted: int) -> Best:
    """Return the best columns of two sets."""
    columns, scores = merged(one[:2], other[:2], n_wanted)
    kept, values = np.concatenate([one.kept, other.kept]), np.concatenate([one.values, other.values])
    return Best(columns, scores, kept, values)


def best_of_block(matrix: Matrix, v: np.ndarray, n_wanted: int, likely: np.ndarray, columns: ColumnRange) -> Best:
    """Return the columns of a block with the largest scores: see `scores_of_block`.

    Parameters
    ----------
    matrix, v, likely, columns : as in `scores_of_block`
    n_wanted : int

    Raises
    ------
    DataError
        NaN or infinity, with the column's name.
    """
    scores, kept, values = scores_of_block(matrix, v, likely, columns)
    return Best(*largest(scores, columns.start, n_wanted), kept, values)


def best_of_part(
    matrix: Matrix, implicit: ImplicitMatrix, v: np.ndarray, n_wanted: int, floor: float, part: Any
) -> Best:
    """Return the units with the largest scores, in one part of a map's columns."""
    units, scores = implicit.on(matrix).score_columns(v, n_wanted, floor, part)
    return Best(units, scores, np.empty(0, np.int64), np.empty((0, 0), implicit.dtype))


def make_columns(matrix: Matrix, implicit: ImplicitMatrix, columns: np.ndarray) -> np.ndarray:
    """Return a few of the columns that a map makes of a matrix, one per row."""
    return read_columns(implicit.on(matrix), columns)


class ScoredBlock(NamedTuple):
    """The scores of a block of columns, and the values of some of them."""

    scores: np.ndarray
    """Shape (n_columns,), float64."""
    kept: np.ndarray
    """Columns whose values are here, int64."""
    values: np.ndarray
    """Shape (n_kept, n_samples)."""


def scores_of_block(matrix: Matrix, v: np.ndarray, likely: np.ndarray, columns: ColumnRange) -> ScoredBlock:
    """Return the scores ``Σ_c (Σ_i v_ci (x_ij - centre_j) / scale_j)²`` of a block of columns.

    Parameters
    ----------
    matrix : Matrix
    v : ndarray of shape (n_classes, n_samples), float64
        Dual variables with the sign of the class; rows with 0 take no part.
    likely : ndarray of int64, ascending
        Columns whose values are kept while their tiles are decoded.
    columns : ColumnRange

    Raises
    ------
    DataError
        NaN or infinity, with the column's name.
    """
    kept = likely[slice(*np.searchsorted(likely, (columns.start, columns.stop)))]
    known = matrix.column_products(slice(columns.start, columns.stop), v)
    products = np.zeros((len(v), columns.stop - columns.start)) if known is None else known
    values = np.empty((len(kept), matrix.shape[0]), matrix.dtype) if known is None else read_columns(matrix, kept)
    sparse = sparse_block(matrix, columns.start, columns.stop, v) if known is None else None
    if sparse is not None:
        numbers = sparse.vectors.astype(summed_in(sparse.values.dtype))
        for vector, of_class in zip(numbers, products, strict=True):
            sparse_scores(sparse.starts, sparse.rows, sparse.values, vector, sparse.granule, of_class)
    elif known is None:
        numbers = v.astype(summed_in(matrix.dtype))
        sums, work = np.zeros(products.shape, numbers.dtype), new_granule(numbers.dtype)
        places = (kept - columns.start).tolist()
        for strip in _strips(matrix, columns):
            at, lines = strip.columns, ALL_LINES if strip.lines is None else strip.lines
            n_rows, n_columns = strip.n_rows, at.stop - at.start
            flat, stride = flattened(strip.values)
            for c, vector in enumerate(numbers):
                add_scores(
                    flat, stride, lines, strip.first, n_rows, n_columns, vector, *work, sums[c, at], products[c, at]
                )  # fmt: skip
            low, high = bisect_left(places, at.start), bisect_left(places, at.stop)
            if low < high:
                few = strip.values[:, kept[low:high] - (columns.start + at.start)]
                values[low:high, strip.first : strip.first + n_rows] = (few if strip.lines is None else few[lines]).T
        products += sums
    if not np.isfinite(products).all():
        raise matrix.bad_column(columns.start + int(np.flatnonzero(~np.isfinite(products).all(axis=0))[0]))
    for vector, of_class in zip(v, products, strict=True):
        of_class -= columns.centre * vector.sum()
        of_class *= columns.inverse
    return ScoredBlock((products * products).sum(axis=0), kept, values)


def read_columns(matrix: Matrix, columns: np.ndarray) -> np.ndarray:
    """Return a few columns, one per row.

    Parameters
    ----------
    matrix : Matrix
    columns : ndarray of shape (n_columns,), int64, ascending

    Returns
    -------
    ndarray of shape (n_columns, n_samples)
    """
    entries = matrix.sparse_columns(columns)
    if entries is None:
        found = np.empty((len(columns), matrix.shape[0]), matrix.dtype)
        matrix.read(slice(None), columns, found.T)
        return found
    out = np.zeros((len(columns), entries.n_base_rows), entries.data.dtype)
    for k in range(len(columns)):
        here = slice(entries.indptr[k], entries.indptr[k + 1])
        np.add.at(out[k], entries.indices[here], entries.data[here])
    return out if entries.taken is None else np.ascontiguousarray(out[:, entries.taken])


@dataclass(frozen=True, slots=True)
class SparseBlock:
    """Consecutive sparse columns, and vectors over the rows of the matrix that holds them."""

    starts: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    """Shape (n_vectors, n_base_rows), float64; 0 in rows that do not take part."""
    granule: np.ndarray
    """Shape (n_base_rows,), int64: the granule in which dense rows would be summed."""


def sparse_block(matrix: Matrix, start: int, stop: int, vectors: np.ndarray) -> SparseBlock | None:
    """Return sparse columns with vectors over the rows of a matrix; None if the columns are dense."""
    entries = matrix.sparse_columns(slice(start, stop))
    if entries is None:
        return None
    granule = np.arange(vectors.shape[1]) // GRANULE
    if entries.taken is not None:
        whole, granules = np.zeros((len(vectors), entries.n_base_rows)), np.zeros(entries.n_base_rows, np.int64)
        for vector, of_base in zip(vectors, whole, strict=True):
            np.add.at(of_base, entries.taken, vector)
        granules[entries.taken] = granule
        vectors, granule = whole, granules
    return SparseBlock(entries.indptr, entries.indices, entries.data, vectors, granule)


def scored_in_place(matrix: Matrix, columns: slice) -> np.ndarray | None:
    """Return a view of columns in memory if the values of a row are contiguous, else None."""
    view = matrix.column_view(columns)
    return view if view is not None and view.strides[1] == view.itemsize else None


def _strips(matrix: Matrix, columns: ColumnRange) -> Iterator[Strip]:
    """Yield a block of columns strip by strip: the whole array in memory, tiles as they are decoded, or pieces."""
    n_samples, part = matrix.shape[0], slice(columns.start, columns.stop)
    whole = scored_in_place(matrix, part)
    if whole is not None:
        yield Strip(0, slice(0, whole.shape[1]), whole)
        return
    passing = matrix.strips(slice(None), part)
    if passing is not None:
        yield from passing
        return
    pool = BufferPool()

    def read(first: int) -> Strip:
        rows = slice(first, min(first + columns.piece_rows, n_samples))
        width = part.stop - part.start
        out = pool.take((rows.stop - first, width), matrix.dtype)
        return Strip(first, slice(0, width), matrix.read(rows, part, out))

    starts = range(0, n_samples, columns.piece_rows)
    yield from prefetched(read, starts, 1 if len(starts) > 1 else 0)
