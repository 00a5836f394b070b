"""What travels between rooms: row numbers, blocks of rows and of columns, their entries, statistics of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Rows: TypeAlias = slice | np.ndarray
"""Row numbers: a slice with step 1, or an int64 array (any order)."""


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
