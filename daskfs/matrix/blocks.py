"""What travels between rooms: row numbers, blocks of rows and of columns, their entries, statistics of columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

Rows: TypeAlias = slice | np.ndarray
"""Row numbers: a slice with step 1, or an int64 array (any order)."""


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Ascending row numbers as a bit for each row between the first and the last: see `packed`."""

    start: int
    n_between: int
    bits: np.ndarray

    def unpacked(self) -> np.ndarray:
        """Return the row numbers."""
        return self.start + np.flatnonzero(np.unpackbits(self.bits, count=self.n_between))


def packed(rows: Rows) -> Rows | PackedRows:
    """Return row numbers in little memory, for what is kept long: as bits, where that is less.

    Examples
    --------
    >>> packed(np.arange(0, 1000, 3)).bits.nbytes, packed(np.array([3, 1, 2]))
    (125, array([3, 1, 2]))
    """
    if isinstance(rows, slice) or len(rows) == 0 or np.any(np.diff(rows) <= 0):
        return rows
    n_between = int(rows[-1] - rows[0]) + 1
    if n_between >= 8 * rows.nbytes:
        return rows
    is_one = np.zeros(n_between, dtype=bool)
    is_one[rows - rows[0]] = True
    return PackedRows(int(rows[0]), n_between, np.packbits(is_one))


def unpacked(rows: Rows | PackedRows) -> Rows:
    """Return what was packed."""
    return rows.unpacked() if isinstance(rows, PackedRows) else rows


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Consecutive rows of a matrix: X of shape (stop - start, n_columns), y and weight of shape (stop - start,)."""

    start: int
    stop: int
    X: Any
    y: np.ndarray | None = None
    weight: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class ColumnBlock:
    """Consecutive columns of a matrix: X of shape (n_samples, stop - start)."""

    start: int
    stop: int
    X: Any


@dataclass(frozen=True, slots=True)
class Strip:
    """Consecutive rows of consecutive columns where a reader has them, until it is asked for the next."""

    first: int
    """The first row, counted in what was asked for."""
    columns: slice
    """Counted in what was asked for."""
    values: np.ndarray
    """Shape (n_lines, n_columns); the values of a line lie side by side."""
    lines: np.ndarray | None = None
    """Where each row is among the lines, ascending; None: the lines are the rows."""

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.values) if self.lines is None else len(self.lines)


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Rows as their entries: row i has ``data[indptr[i]:indptr[i + 1]]`` in the columns ``indices[indptr[i]:...]``.

    `indptr` is int64, of shape (n_rows + 1,); `indices` of any integer type, `data` of any number type, (nnz,) both.
    What is not there is zero.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class Heaviest(tuple[int, ...]):
    """Entries of the 1, 2, 4, ... rows (or columns) that have most, together; the last is of all."""

    @classmethod
    def of_counts(cls, pieces: Iterable[np.ndarray]) -> Self:
        """Return it of all rows, or columns, whose entries are counted piece by piece."""
        found: dict[int, int] = {}  # how many have so many: few numbers differ, for all together are the entries
        for counts in pieces:
            for n_entries, n_lines in zip(*np.unique(counts, return_counts=True), strict=True):
                found[int(n_entries)] = found.get(int(n_entries), 0) + int(n_lines)
        sizes = np.array(sorted(found, reverse=True), np.int64)
        lines = np.cumsum([found[size] for size in sizes.tolist()], dtype=np.int64)
        n_lines = int(lines[-1]) if len(lines) else 0
        wanted = np.minimum(1 << np.arange(max(1, n_lines - 1).bit_length() + 1), n_lines)
        before = np.concatenate([[0], lines])
        entries = np.concatenate([[0], np.cumsum(sizes * np.diff(before))])
        at = np.searchsorted(lines, wanted)
        return cls((entries[at] + (wanted - before[at]) * sizes[at]).tolist()) if n_lines else cls()

    def of(self, n: int) -> int:
        """Return at most how many entries n of them have together.

        Examples
        --------
        >>> heaviest = Heaviest.of_counts([np.array([1, 9, 1, 2])])
        >>> heaviest, [heaviest.of(n) for n in range(6)]
        ((9, 11, 13), [0, 9, 11, 13, 13, 13])
        """
        if n <= 0 or not self:
            return 0
        below = min(n.bit_length() - 1, len(self) - 1)
        above = min(below + (n > 1 << below), len(self) - 1)
        return min(self[above], -(-self[below] * n // (1 << below)))  # concave: the first have most


class Crowding(NamedTuple):
    """How unevenly the entries of a sparse matrix lie, for whoever plans to read it."""

    block: int
    """Entries of the block of rows that has most."""
    rows: Heaviest
    columns: Heaviest


@dataclass(frozen=True, slots=True)
class SparseColumns:
    """Columns as their entries, without a copy: column j has ``data[indptr[j]:indptr[j + 1]]`` in ``indices[...]``.

    The rows of a column ascend and stand once. They are numbered as the base matrix numbers them: row i of the matrix
    is row ``taken[i]`` of those; entries of rows that are not taken are there too, and do not count.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    n_base_rows: int
    taken: np.ndarray | None = None
    """None: all rows, as they stand."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of each column without reading it, every row counted once; all of shape (n_features,)."""

    mean: np.ndarray
    std: np.ndarray
    """Population standard deviation."""
    minimum: np.ndarray
    maximum: np.ndarray
    n_missing: np.ndarray


def as_slice(rows: Rows) -> Rows:
    """Return consecutive ascending row numbers as a slice, anything else as it is.

    Examples
    --------
    >>> as_slice(np.array([4, 5, 6]))
    slice(4, 7, None)
    """
    if isinstance(rows, slice) or len(rows) == 0:
        return rows
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == len(rows) and (len(rows) < 2 or bool((np.diff(rows) == 1).all())):
        return slice(first, last + 1)
    return rows
