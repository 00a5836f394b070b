"""What a table has beside the features of a row: targets, weight, labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.sources.encoders.base import BadValue, Encoder
from daskfs.sources.encoders.number import checked_numbers


class RowMetadata:
    """Targets, weights and labels of the rows of a block.

    Parameters
    ----------
    length : int
        Capacity, in rows.
    source : TableSource
    encoders : mapping of str to Encoder
        Encoders of categorical targets.
    """

    def __init__(self, length: int, source: Any, encoders: Mapping[str, Encoder]) -> None:
        self._targets, self._weights = source.target_names, source.named("weight")
        self._columns, self._encoders = source.columns, encoders
        self._y = np.empty((length, len(self._targets)))
        self._weight = np.empty(length) if self._weights else None
        self._labels: dict[str, list[np.ndarray]] = {name: [] for name in source.label_names}

    def write(self, rows: slice, table: pa.RecordBatch) -> None:
        """Write the targets, weights and labels of some rows."""
        for k, name in enumerate(self._targets):
            self._y[rows, k] = self._target(name, table[name])
        for name in self._weights:
            self._weight[rows] = _checked_weights(name, table[name])  # type: ignore[index]
        for name, texts in self._labels.items():
            filled = pc.fill_null(pc.cast(table[name], pa.string()), "")
            texts.append(np.asarray(filled.to_numpy(zero_copy_only=False), dtype=object))

    def _target(self, name: str, values: pa.Array) -> np.ndarray:
        encoder = self._encoders.get(name)
        if encoder is not None:
            return encoder.codes(values)
        return checked_numbers(name, values, integer=self._columns[name].dtype == "integer", is_feature=False)

    def of(self, n_rows: int) -> tuple[np.ndarray, np.ndarray | None, dict[str, np.ndarray]]:
        """Return targets, weights and labels of the first `n_rows` rows."""
        y = self._y[:n_rows]
        weight = None if self._weight is None else self._weight[:n_rows]
        labels = {name: np.concatenate(texts) for name, texts in self._labels.items()}
        return (y[:, 0] if y.shape[1] == 1 else y), weight, labels


def _checked_weights(name: str, values: pa.Array) -> np.ndarray:
    weights = checked_numbers(name, values, is_feature=False)
    if (weights < 0).any():
        row = int(np.flatnonzero(weights < 0)[0])
        raise BadValue(name, row, f"expected a weight of at least 0, found {weights[row]:g}", "fix the value")
    return weights
