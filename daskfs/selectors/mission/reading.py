"""Rows on their way to a model: tiles are decoded once, in spans, and pieces of these become entries.

Workers import this file, so it is light.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from daskfs.kernels.blocks.sparse_rows import entries_of, standardised_entries
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, SparseRows
from daskfs.matrix.buffers import BufferPool
from daskfs.matrix.spans import Spans
from daskfs.selectors.shared.record import Record


@dataclass(frozen=True, slots=True)
class Scaling(Record):
    """Standardisation of dense columns before training: (x - centre) * factor."""

    centre: np.ndarray
    factor: np.ndarray
    """One over the standard deviation; 1 for a constant column."""


class Cuts(NamedTuple):
    """How rows are cut for reading. It does not affect the result."""

    piece_rows: int
    """Rows of a piece, which are entries at one time."""
    spans: Spans | None = None
    """Rows that are decoded at once; None: a piece."""


class Piece(NamedTuple):
    """Rows that are entries at one time."""

    rows: Rows
    span: Rows
    """The rows that are decoded together with them: one object for all pieces of a span."""
    within: slice
    """Their position there."""
    ends_block: bool = False


def pieces_of(blocks: Sequence[Rows], cuts: Cuts) -> Iterator[Piece]:
    """Yield the pieces of blocks of rows in order. No piece crosses the end of a block, but spans do."""
    for rows, ends in _runs(blocks):
        length = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        decoded = [(0, length)] if cuts.spans is None else cuts.spans.cut(rows)
        for first, last in decoded:
            span = _taken(rows, first, last)
            inner = ends[bisect_left(ends, first + 1) : bisect_left(ends, last)]
            for start, stop in pairwise([first, *inner, last]):
                for at in range(start, stop, cuts.piece_rows):
                    to = min(at + cuts.piece_rows, stop)
                    ends_block = to == stop and ends[bisect_left(ends, stop)] == stop
                    if cuts.spans is None:
                        piece = _taken(rows, at, to)
                        yield Piece(piece, piece, slice(0, to - at), ends_block)
                    else:
                        yield Piece(_taken(rows, at, to), span, slice(at - first, to - first), ends_block)


def _runs(blocks: Sequence[Rows]) -> Iterator[tuple[Rows, list[int]]]:
    """Yield runs of consecutive rows, and the ends of blocks within them."""
    run, ends = slice(0, 0), list[int]()
    for block in blocks:
        if not isinstance(block, slice):
            if ends:
                yield run, ends
            yield block, [len(block)]
            ends = []
        elif ends and block.start == run.stop:
            run = slice(run.start, block.stop)
            ends.append(run.stop - run.start)
        else:
            if ends:
                yield run, ends
            run, ends = block, [block.stop - block.start]
    if ends:
        yield run, ends


def _taken(rows: Rows, start: int, stop: int) -> Rows:
    return slice(rows.start + start, rows.start + stop) if isinstance(rows, slice) else rows[start:stop]


class RowReader:
    """Reads pieces of rows; the last decoded span is kept until a piece of another one is requested.

    Parameters
    ----------
    matrix : Matrix
    """

    def __init__(self, matrix: Matrix) -> None:
        self.matrix, self._buffers = matrix, BufferPool()
        self._span: Rows | None = None
        self._decoded = np.empty((0, 0))

    def dense(self, piece: Piece) -> np.ndarray:
        """Return a piece of a dense matrix, in floating point."""
        if self._span is not piece.span:
            self._span, self._decoded = None, np.empty((0, 0))  # otherwise its buffer counts as in use
            rows, out = piece.span, None
            if not self.matrix.is_resident:
                n_rows = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
                out = self._buffers.take((n_rows, self.matrix.shape[1]), np.dtype(self.matrix.dtype))
            self._decoded, self._span = self.matrix.read(rows, slice(None), out), rows
        X = self._decoded[piece.within]
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float32)
        return np.require(X, dtype=dtype, requirements=["C", "W"])

    def entries(self, piece: Piece, scaling: Scaling | None = None) -> SparseRows:
        """Return a piece in the form of the kernels: unsigned ids, float32 values, from sparse or dense rows."""
        found = self.matrix.sparse_rows(piece.rows)
        if found is not None:
            return _for_kernels(found)
        X = self.dense(piece)
        if scaling is None:
            return SparseRows(*entries_of(X))
        return SparseRows(*standardised_entries(X, scaling.centre, scaling.factor))


def read_entries(matrix: Matrix, rows: Rows, scaling: Scaling | None = None) -> SparseRows:
    """Return rows in the form of the kernels; see `RowReader`."""
    n_rows = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    return RowReader(matrix).entries(Piece(rows, rows, slice(0, n_rows)), scaling)


def _for_kernels(found: SparseRows) -> SparseRows:
    indices = found.indices
    if indices.dtype.itemsize not in (4, 8) or indices.dtype.kind not in "iu":
        indices = indices.astype(np.uint64)
    with np.errstate(over="ignore"):
        data = found.data.astype(np.float32, copy=False)
    unsigned = indices.view(np.uint32 if indices.dtype.itemsize == 4 else np.uint64)
    return SparseRows(_writable(found.indptr), _writable(unsigned), _writable(data))


def _writable(values: np.ndarray) -> np.ndarray:
    """Return a contiguous and writable array: numba compiles again for read-only arrays."""
    return np.require(values, requirements=["C", "W"])
