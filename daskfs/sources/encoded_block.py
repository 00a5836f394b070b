"""A block of a table that is being filled with encoded rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.sources.base import SourceBlock
from daskfs.sources.encoders.base import BadValue, write_numbers
from daskfs.sources.encoders.number import checked_numbers

BlockT = TypeVar("BlockT")


class FilledBlock(ABC, Generic[BlockT]):
    """A block of a table that is being filled with encoded rows, and with their targets, weights and labels.

    Parameters
    ----------
    start : int
        Number of its first row.
    length : int
        Capacity, in rows.
    source : TableSource
    """

    def __init__(self, start: int, length: int, source: Any) -> None:
        self.start, self.n_rows = start, 0
        self._columns, self._encoders, self._targets = source.columns, source.encoders, source.target_names
        self._y = np.empty((length, len(self._targets)))
        self._weights = {name: np.empty(length) for name in source.named("weight")}
        self._labels: dict[str, list[np.ndarray]] = {name: [] for name in source.label_names}

    def append(self, table: pa.RecordBatch) -> None:
        """Encode and add rows."""
        rows = slice(self.n_rows, self.n_rows + table.num_rows)
        self._encode(rows, table)
        for k, name in enumerate(self._targets):
            if (encoder := self._encoders.get(name)) is not None:
                self._y[rows, k] = encoder.codes(table[name])
            else:
                is_integer = self._columns[name].dtype == "integer"
                self._y[rows, k] = checked_numbers(name, table[name], integer=is_integer, is_feature=False)
        for name, weights in self._weights.items():
            weights[rows] = found = checked_numbers(name, table[name], is_feature=False)
            if (found < 0).any():
                row = int(np.flatnonzero(found < 0)[0])
                raise BadValue(name, row, f"expected a weight of at least 0, found {found[row]:g}", "fix the value")
        for name, texts in self._labels.items():
            filled = pc.fill_null(pc.cast(table[name], pa.string()), "")
            texts.append(np.asarray(filled.to_numpy(zero_copy_only=False), dtype=object))
        self.n_rows = rows.stop

    @abstractmethod
    def _encode(self, rows: slice, table: pa.RecordBatch) -> None:
        """Encode the features of these rows of the block."""

    @abstractmethod
    def finished(self) -> BlockT:
        """Return the block, cut to the rows added."""

    def _beside(self) -> tuple[np.ndarray, np.ndarray | None, dict[str, np.ndarray]]:
        """Return targets, weights and labels of the rows added."""
        y = self._y[: self.n_rows, 0 if len(self._targets) == 1 else slice(None)]
        weight = next((weights[: self.n_rows] for weights in self._weights.values()), None)
        return y, weight, {name: np.concatenate(texts) for name, texts in self._labels.items()}


class EncodedBlock(FilledBlock[SourceBlock]):
    """A dense block that is being filled with encoded rows."""

    def __init__(self, start: int, length: int, n_features: int, dtype: np.dtype, source: Any) -> None:
        super().__init__(start, length, source)
        self._X, self._features = np.empty((length, n_features), dtype), source.named("feature")

    def _encode(self, rows: slice, table: pa.RecordBatch) -> None:
        X, start, encoders = self._X[rows], 0, self._encoders
        together: dict[str, np.ndarray] = {}
        for name in self._features:
            encoder, values = encoders[name], table[name]
            numbers = encoder.unchanged(values)
            if numbers is not None:
                together[name] = numbers
                continue
            start = self._write_numbers(table, together, X, start)
            together = {}
            stop = start + len(encoder.feature_names)
            encoder.encode(values, X[:, start:stop])
            start = stop
        self._write_numbers(table, together, X, start)

    def _write_numbers(
        self,
        table: pa.RecordBatch,
        together: Mapping[str, np.ndarray],
        X: np.ndarray,
        start: int,
    ) -> int:
        """Write columns of unchanged numbers all at once; return where the next column begins."""
        stop = start + len(together)
        if together and not write_numbers(list(together.values()), X[:, start:stop]):
            for k, name in enumerate(together, start):  # the encoder raises the error
                self._encoders[name].encode(table[name], X[:, k : k + 1])
        return stop

    def finished(self) -> SourceBlock:
        """Return the block, cut to the rows added."""
        return SourceBlock(self.start, self._X[: self.n_rows], *self._beside())
