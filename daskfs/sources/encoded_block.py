"""A block of a table while it is filled with encoded rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.sources.base import SourceBlock
from daskfs.sources.columns import BadValue, CategoryEncoder, Encoder, NumberEncoder, checked_numbers, write_numbers


class EncodedBlock:
    """A block being filled."""

    def __init__(self, start: int, length: int, n_features: int, dtype: np.dtype, source: Any) -> None:
        self.start, self.n_rows = start, 0
        self._X = np.empty((length, n_features), dtype)
        self._targets, self._weights = source.target_names, source.named("weight")
        self._features, self._columns = source.named("feature"), source.columns
        self._y = np.empty((length, len(self._targets)))
        self._weight = np.empty(length) if self._weights else None
        self._labels: dict[str, list[np.ndarray]] = {name: [] for name in source.label_names}

    @property
    def stop(self) -> int:
        """Number of the first row behind the block."""
        return self.start + self.n_rows

    def append(self, table: pa.RecordBatch, encoders: Mapping[str, Encoder]) -> None:
        """Encode some more rows."""
        rows = slice(self.n_rows, self.n_rows + table.num_rows)
        X, start = self._X[rows], 0
        together: dict[str, np.ndarray] = {}
        for name in self._features:
            encoder, values = encoders[name], table[name]
            numbers = encoder.unchanged(values) if isinstance(encoder, NumberEncoder) else None
            if numbers is not None:
                together[name] = numbers
                continue
            start = self._append_numbers(table, encoders, together, X, start)
            together = {}
            stop = start + len(encoder.feature_names)
            encoder.encode(values, X[:, start:stop])
            start = stop
        self._append_numbers(table, encoders, together, X, start)
        for k, name in enumerate(self._targets):
            self._y[rows, k] = self._target(name, table[name], encoders)
        for name in self._weights:
            self._weight[rows] = _checked_weights(name, table[name])  # type: ignore[index]
        for name, texts in self._labels.items():
            texts.append(_as_text(table[name]))
        self.n_rows = rows.stop

    def _append_numbers(
        self,
        table: pa.RecordBatch,
        encoders: Mapping[str, Encoder],
        together: Mapping[str, np.ndarray],
        X: np.ndarray,
        start: int,
    ) -> int:
        """Write columns that are written as they are, all at once; return where the next begins."""
        stop = start + len(together)
        if together and not write_numbers(list(together.values()), X[:, start:stop]):
            for k, name in enumerate(together, start):  # which says what is wrong
                encoders[name].encode(table[name], X[:, k : k + 1])
        return stop

    def _target(self, name: str, values: pa.Array, encoders: Mapping[str, Encoder]) -> np.ndarray:
        encoder = encoders.get(name)
        if isinstance(encoder, CategoryEncoder):
            return encoder.codes(values)
        return checked_numbers(name, values, integer=self._columns[name].dtype == "integer", is_feature=False)

    def finished(self) -> SourceBlock:
        """Return the block, cut to its rows."""
        y = self._y[: self.n_rows]
        return SourceBlock(
            self.start,
            self._X[: self.n_rows],
            y[:, 0] if y.shape[1] == 1 else y,
            None if self._weight is None else self._weight[: self.n_rows],
            {name: np.concatenate(texts) for name, texts in self._labels.items()},
        )


def _checked_weights(name: str, values: pa.Array) -> np.ndarray:
    weights = checked_numbers(name, values, is_feature=False)
    if (weights < 0).any():
        row = int(np.flatnonzero(weights < 0)[0])
        raise BadValue(name, row, f"expected a weight of at least 0, found {weights[row]:g}", "fix the value")
    return weights


def _as_text(values: pa.Array) -> np.ndarray:
    texts = pc.fill_null(pc.cast(values, pa.string()), "")
    return np.asarray(texts.to_numpy(zero_copy_only=False), dtype=object)
