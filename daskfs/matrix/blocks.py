"""Data passed between packages: row numbers, blocks of rows and columns, their entries, column statistics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

Rows: TypeAlias = slice | np.ndarray
"""Row numbers: a slice with step 1, or an int64 array (any order)."""


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Ascending row numbers, stored as one bit per row between the first and the last: see `packed`."""

    start: int
    n_between: int
    bits: np.ndarray

    def unpacked(self) -> np.ndarray:
        """Return the row numbers."""
        return self.start + np.flatnonzero(np.unpackbits(self.bits, count=self.n_between))


def packed(rows: Rows) -> Rows | PackedRows:
    """Return row numbers in compact form for long-term storage: as bits if that is smaller.

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
    """Return the row numbers that were packed."""
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
    """Consecutive rows of consecutive columns in a reader's buffer, valid until the next strip is requested."""

    first: int
    """The first row, relative to the request."""
    columns: slice
    """The first column, relative to the request."""
    values: np.ndarray
    """Shape (n_lines, n_columns), C-contiguous lines."""
    lines: np.ndarray | None = None
    """The line of each row, ascending; None if the lines are the rows."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values) if self.lines is None else len(self.lines)


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Rows as their entries: row i has ``data[indptr[i]:indptr[i + 1]]`` in the columns ``indices[indptr[i]:...]``.

    `indptr` is int64 of shape (n_rows + 1,), `indices` is of any integer type, `data` of any number type, both (nnz,).
    All other values are zero.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class Heaviest(tuple[int, ...]):
    """Total entries of the 1, 2, 4, ... rows (or columns) with the most entries; the last item is the total of all."""

    @classmethod
    def of_counts(cls, pieces: Iterable[np.ndarray]) -> Self:
        """Build it from the entry counts of all rows, or columns, given in pieces."""
        found: dict[int, int] = {}  # count -> number of lines with it; there are few distinct counts
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
        """Return an upper bound of the total entries of any n of them.

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
        return min(self[above], -(-self[below] * n // (1 << below)))  # the totals are concave in n


class Crowding(NamedTuple):
    """How unevenly the entries of a sparse matrix are distributed, for planning its reading."""

    block: int
    """Entries of the row block with the most."""
    rows: Heaviest
    columns: Heaviest


@dataclass(frozen=True, slots=True)
class SparseColumns:
    """Columns as their entries, without a copy: column j has ``data[indptr[j]:indptr[j + 1]]`` in ``indices[...]``.

    The rows of a column are sorted and distinct. They are numbered as in the base matrix: row i of the matrix is row
    ``taken[i]`` of the base. Entries of rows that are not taken are present too, and must be ignored.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    n_base_rows: int
    taken: np.ndarray | None = None
    """None if all rows are taken, in order."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Known statistics of each column, every row counted once; all of shape (n_features,)."""

    mean: np.ndarray
    std: np.ndarray
    """Population standard deviation."""
    minimum: np.ndarray
    maximum: np.ndarray
    n_missing: np.ndarray


class Moments(NamedTuple):
    """Weighted moments of some columns, over the rows of positive weight: float64 of shape (n_columns,).

    With several weights, the shape is (n_weights, n_columns).
    """

    mean: np.ndarray
    std: np.ndarray
    """Population standard deviation, exactly 0 for a constant column."""
    minimum: np.ndarray
    maximum: np.ndarray


def as_slice(rows: Rows) -> Rows:
    """Return consecutive ascending row numbers as a slice, anything else unchanged.

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


def as_vector(values: Any) -> np.ndarray:
    """Return float64, contiguous and writable: numba compiles again for read-only arrays."""
    return np.require(values, dtype=np.float64, requirements=["C", "W"])


def as_kernels_take_it(X: np.ndarray) -> np.ndarray:
    """Return float32 (which holds int8 exactly) or float64, C-ordered and writable; copy only if necessary."""
    is_taken = X.dtype in (np.float32, np.float64)
    if is_taken and X.flags.carray:
        return X
    return np.require(X, dtype=X.dtype if is_taken else np.float32, requirements=["C", "W"])
