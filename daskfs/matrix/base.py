"""The types that travel between rooms: blocks of rows and columns, what a matrix must offer, who hears of progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

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
class SparseRows:
    """Rows as their entries: row i has ``data[indptr[i]:indptr[i + 1]]`` in the columns ``indices[indptr[i]:...]``.

    `indptr` is int64, of shape (n_rows + 1,); `indices` of any integer type, `data` of any number type, (nnz,) both.
    What is not there is zero.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class Matrix(Protocol):
    """What selectors read: a feature store, rows of one, or arrays in memory.

    Pickled, a store is an address: tasks carry it and read where they run.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_features)."""

    @property
    def dtype(self) -> np.dtype:
        """Of the blocks that `read` returns."""

    @property
    def feature_names(self) -> np.ndarray | None:
        """Names of shape (n_features,), or None where nobody gave any."""

    @property
    def shuffled(self) -> bool:
        """Whether the rows stand in random order, so that consecutive rows are a random subset."""

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense C-ordered block X[rows][:, columns]; into `out` where given."""

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows], float64 of shape (n_rows,)."""

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the sample weights of these rows, float64 of shape (n_rows,), or None."""


class Progress(Protocol):
    """Told how a long step goes on."""

    def start(self, name: str, total: int) -> None:
        """Begin a step of `total` parts (an estimate, where a source does not know its rows)."""

    def advance(self, k: int = 1) -> None:
        """Say that `k` more parts are done."""

    def finish(self) -> None:
        """End the step."""


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
