"""Constant columns: features, targets and weights that have one value in all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.matrix.target import WholeValues
from daskfs.sources.base import Source, SourceBlock
from daskfs.sources.sparse.base import SparseBlock
from daskfs.store.whole_writer import WholeWriter
from daskfs.store.written_part import WrittenPart

DataError = errors.DataError.about("target")

_NAMED_IN_A_NOTE = 10
_FIRST_ROWS = 64


class Constants:
    """Columns that have had a single value so far; few are left to check after the first block."""

    def __init__(self) -> None:
        self._columns: np.ndarray | None = None
        self._first = np.empty(0)
        self._target_first: np.ndarray | None = None
        self._target_constant = np.empty(0, dtype=bool)
        self._all_weightless: bool | None = None
        self.target_values = WholeValues()

    @property
    def of_features(self) -> tuple[list[int], list[float]] | None:
        """The constant features so far and their values, JSON-compatible; None before the first block."""
        return None if self._columns is None else (self._columns.tolist(), self._first.tolist())

    def update_features(self, X: np.ndarray) -> None:
        """Check the features of another block of rows."""
        if self._columns is None:
            self._columns, self._first = np.arange(X.shape[1]), np.array(X[0])
        for rows in (X[:_FIRST_ROWS], X[_FIRST_ROWS:]):  # the first rows rule out most columns
            if len(self._columns) and len(rows):
                self._keep((rows[:, self._columns] == self._first).all(axis=0))

    def merge_features(self, later: Sequence[Any] | None) -> None:
        """Merge `of_features` of the rows that follow."""
        if later is None:
            return
        columns, first = np.array(later[0], np.int64), np.array(later[1])
        if self._columns is None:
            self._columns, self._first = columns, first
            return
        _, mine, theirs = np.intersect1d(self._columns, columns, assume_unique=True, return_indices=True)
        is_same = np.zeros(len(self._columns), bool)
        is_same[mine] = self._first[mine] == first[theirs]
        self._keep(is_same)

    def _keep(self, is_same: np.ndarray) -> None:
        assert self._columns is not None
        self._columns, self._first = self._columns[is_same], self._first[is_same]

    def update_target(self, block: SourceBlock | SparseBlock | WrittenPart) -> None:
        """Check the targets and weights of another block of rows."""
        if block.weight is not None:
            self._all_weightless = self._all_weightless is not False and not block.weight.any()
        if block.y is None:
            return
        y = block.y.reshape(len(block.y), -1)
        self.target_values.update(y[:, 0])
        if self._target_first is None:
            self._target_first, self._target_constant = y[0].copy(), np.ones(y.shape[1], dtype=bool)
        self._target_constant &= (y == self._target_first).all(axis=0)

    def conclude(self, rows: Source, writer: WholeWriter) -> None:
        """Refuse a constant target or zero weights; pass notes and facts to the store."""
        for k in np.flatnonzero(self._target_constant).tolist():
            value = self._target_first[k] if self._target_first is not None else None
            problem = f"expected a target that varies, found {value:g} in every row"
            raise DataError(problem, f"target '{rows.target_names[k]}'", "choose another")
        if self._all_weightless:
            raise DataError("expected weights above 0, found 0 in every row", "weight", "choose another column")
        writer.source["n_target_values"] = self.target_values.count
        if rows.missing:
            writer.source["missing"] = [*rows.missing]
        writer.annotations = rows.annotations
        writer.notes += rows.notes
        if self._columns is not None:
            writer.notes += self.notes(rows.feature_names)

    def notes(self, names: Sequence[str]) -> list[str]:
        """Return a note that names the constant features."""
        if self._columns is None or not len(self._columns):
            return []
        listed = ", ".join(repr(names[j]) for j in self._columns[:_NAMED_IN_A_NOTE])
        n_more = len(self._columns) - _NAMED_IN_A_NOTE
        more = f" and {n_more} more" if n_more > 0 else ""
        return [f"{len(self._columns)} constant feature(s), kept but never selected: {listed}{more}"]
