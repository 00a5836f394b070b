"""Sparse columns with their entries by column and by row, the longest columns first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from daskfs.kernels.fgm.pairs_sparse import Entries, by_rows, counted, reordered
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import SparseColumns

READ_ENTRIES = 1 << 22
"""Entries read at a time."""


@dataclass(frozen=True, slots=True)
class SparseRange:
    """The nonempty columns of a range, over rows of positive weight."""

    columns: Entries
    """Entries by column. Rows are numbered as in the base matrix."""
    rows: Entries
    """The same entries by row."""
    ids: np.ndarray
    """Column numbers of the matrix, int64, the longest columns first."""
    weight: np.ndarray
    """Weights of the base's rows."""
    taken: np.ndarray | None
    """See `SparseColumns`."""

    @classmethod
    def of(cls, matrix: Matrix, columns: slice | np.ndarray, weight: np.ndarray, by_squares: bool) -> Self:
        """Read a range of columns.

        Parameters
        ----------
        matrix : Matrix
        columns : slice, or ndarray of int64
            Consecutive columns, or a few.
        weight : ndarray of shape (n_samples,), float64
        by_squares : bool
            Whether columns are ordered by their sum of squares instead of their number of entries.
        """
        parts, counts, squares = [], [], []
        for found in _read(matrix, columns):
            of_base = of_base_rows(weight[None], found.n_base_rows, found.taken)[0]
            entries = found.indptr, found.indices, found.data
            square, count = counted(*entries, of_base)
            parts.append(reordered(*entries, of_base, np.arange(len(count)), count))
            squares.append(square)
            counts.append(count)
        n_entries, size = np.concatenate(counts), np.concatenate(squares if by_squares else counts)
        order = np.argsort(-size, kind="stable")[: int((n_entries > 0).sum())]
        together = parts[0]
        if len(parts) > 1:
            starts = np.concatenate([[0], np.cumsum(n_entries)])
            together = Entries(starts, *(np.concatenate(arrays) for arrays in list(zip(*parts, strict=True))[1:]))
        del parts
        ordered = reordered(*together, of_base, order, n_entries)
        ids = order + columns.start if isinstance(columns, slice) else columns[order]
        return cls(ordered, by_rows(ordered, len(of_base)), ids, of_base, found.taken)

    def few(self, columns: np.ndarray) -> Self:
        """Return some of the columns, given by their numbers in the matrix, with all rows."""
        places = np.flatnonzero(np.isin(self.ids, columns))
        spans = [slice(*self.columns.starts[a : a + 2]) for a in places.tolist()]
        starts = np.cumsum([0, *(span.stop - span.start for span in spans)])
        kept = [np.concatenate([array[:0], *(array[span] for span in spans)]) for array in self.columns[1:]]
        return replace(self, columns=Entries(starts, *kept), ids=self.ids[places])

    def of_base(self, vectors: np.ndarray) -> np.ndarray:
        """Return vectors over the rows of the matrix, shape (n_vectors, n_samples), as vectors over `rows`."""
        return of_base_rows(vectors, len(self.weight), self.taken)


def of_base_rows(vectors: np.ndarray, n_base_rows: int, taken: np.ndarray | None) -> np.ndarray:
    """Return vectors over rows as vectors over the base's rows. Values of rows taken repeatedly are added."""
    if taken is None:
        return vectors
    found = np.zeros((len(vectors), n_base_rows))
    for vector, of_base in zip(vectors, found, strict=True):
        np.add.at(of_base, taken, vector)
    return found


def _read(matrix: Matrix, columns: slice | np.ndarray) -> Iterator[SparseColumns]:
    """Yield columns in consecutive pieces of about READ_ENTRIES entries."""
    if not isinstance(columns, slice):
        yield _entries(matrix, columns)
        return
    counts = matrix.entry_counts()
    n_entries = 0 if counts is None or matrix.is_resident else int(counts.sum())
    n_pieces = max(1, -(-n_entries * (columns.stop - columns.start) // (matrix.shape[1] * READ_ENTRIES)))
    step = max(1, -(-(columns.stop - columns.start) // n_pieces))
    for start in range(columns.start, columns.stop, step):
        yield _entries(matrix, slice(start, min(start + step, columns.stop)))


def _entries(matrix: Matrix, columns: slice | np.ndarray) -> SparseColumns:
    found = matrix.sparse_columns(columns)
    if found is None:
        raise ValueError("expected sparse columns")
    return found
