"""A block of a table that is being filled with encoded rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from daskfs.sources.base import SourceBlock
from daskfs.sources.encoders.arrow_values import write_numbers
from daskfs.sources.encoders.base import Encoder
from daskfs.sources.row_metadata import RowMetadata

BlockT = TypeVar("BlockT", covariant=True)


class Filling(Protocol[BlockT]):
    """A block of a table that is being filled."""

    n_rows: int

    @property
    def stop(self) -> int:
        """Number of the first row after the block."""

    def append(self, table: pa.RecordBatch) -> None:
        """Encode and add rows."""

    def finished(self) -> BlockT:
        """Return the block, cut to the rows added."""


class EncodedBlock:
    """A dense block that is being filled with encoded rows."""

    def __init__(
        self,
        start: int,
        length: int,
        n_features: int,
        dtype: np.dtype,
        source: Any,
        encoders: Mapping[str, Encoder],
    ) -> None:
        self.start, self.n_rows = start, 0
        self._X = np.empty((length, n_features), dtype)
        self._features, self._encoders = source.named("feature"), encoders
        self._metadata = RowMetadata(length, source, encoders)

    @property
    def stop(self) -> int:
        """Number of the first row after the block."""
        return self.start + self.n_rows

    def append(self, table: pa.RecordBatch) -> None:
        """Encode and add rows."""
        rows = slice(self.n_rows, self.n_rows + table.num_rows)
        X, start, encoders = self._X[rows], 0, self._encoders
        together: dict[str, np.ndarray] = {}
        for name in self._features:
            encoder, values = encoders[name], table[name]
            numbers = encoder.unchanged(values)
            if numbers is not None:
                together[name] = numbers
                continue
            start = self._append_numbers(table, together, X, start)
            together = {}
            stop = start + len(encoder.feature_names)
            encoder.encode(values, X[:, start:stop])
            start = stop
        self._append_numbers(table, together, X, start)
        self._metadata.write(rows, table)
        self.n_rows = rows.stop

    def _append_numbers(
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
        return SourceBlock(self.start, self._X[: self.n_rows], *self._metadata.of(self.n_rows))
