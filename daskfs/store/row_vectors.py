"""Row vectors of a store: target, weight, labels and the number of each row in the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from daskfs import interrupts
from daskfs.errors import DataError
from daskfs.store.row_checks import check_vector
from daskfs.store.strings import write_strings

_CHUNK_LENGTH = 1 << 20


class RowVectors:
    """Collects the vectors of all rows in the source's order and writes them in the stored order.

    Notes
    -----
    All are in memory: 8 bytes per row for each target and for the weight, and the text of the labels.
    """

    def __init__(self, target_names: tuple[str, ...], has_weight: bool, label_names: tuple[str, ...]) -> None:
        self.target_names, self.has_weight, self.label_names = target_names, has_weight, label_names
        self._target: list[np.ndarray] = [np.empty((0, len(target_names)))]
        self._weight: list[np.ndarray] = [np.empty(0)]
        self._labels: dict[str, list[np.ndarray]] = {
            name: [np.empty(0, dtype=np.dtypes.StringDType())] for name in label_names
        }

    def append(self, block: Any, n_rows: int, labels: Mapping[str, Any] | None, first_row: int) -> None:
        """Append y, weight and labels of a block of `n_rows` rows.

        Raises
        ------
        DataError
            A vector is missing or unexpected, has the wrong length, or contains invalid values.
        """
        if (block.y is None) != (not self.target_names):
            found = "none" if block.y is None else "y"
            raise DataError(f"expected targets {list(self.target_names)}, found {found}", "y", "name the target")
        if self.target_names:
            what = f"target {', '.join(map(repr, self.target_names))}"
            y = check_vector(block.y, n_rows, what, first_row)
            if y.size != n_rows * len(self.target_names):
                raise DataError(f"expected {len(self.target_names)} columns, found shape {y.shape}", what)
            self._target.append(y.reshape(n_rows, len(self.target_names)))
        if (block.weight is None) == self.has_weight:
            raise DataError("weights must come with every block or with none", "weight", "set has_weight")
        if self.has_weight:
            self._weight.append(check_vector(block.weight, n_rows, "weight", first_row, least=0.0).reshape(n_rows))
        self._append_labels(labels if labels is not None else getattr(block, "labels", None) or {}, n_rows)

    def _append_labels(self, labels: Mapping[str, Any], n_rows: int) -> None:
        if set(labels) != set(self.label_names):
            raise DataError(f"expected labels {sorted(self.label_names)}, found {sorted(labels)}", "labels")
        for name, values in labels.items():
            text = np.asarray(values).astype(np.dtypes.StringDType())
            if text.shape != (n_rows,):
                raise DataError(f"expected {n_rows} values, found shape {text.shape}", f"labels {name!r}")
            self._labels[name].append(text)

    def write(self, group: Any, order: np.ndarray | None) -> None:
        """Write all vectors as arrays of a Zarr group; `order` is the source row of each stored row (None: same)."""
        taken: Any = slice(None) if order is None else order
        if self.target_names:
            target = np.concatenate(self._target)[taken]
            write_vector(group, "target", target[:, 0] if target.shape[1] == 1 else target)
        if self.has_weight:
            write_vector(group, "weight", np.concatenate(self._weight)[taken])
        if order is not None:
            write_vector(group, "source_rows", order.astype(np.int64))
        if self.label_names:
            with interrupts.held():  # Zarr writes in a thread of its own
                labels = group.create_group("labels")
            for number, name in enumerate(self.label_names):  # a label's name may be invalid for a folder
                write_strings(labels, str(number), np.concatenate(self._labels[name])[taken])


def write_vector(group: Any, name: str, values: np.ndarray) -> None:
    """Write a vector (or several as columns) as an uncompressed array of a Zarr group, with a checksum per chunk."""
    from zarr.codecs import Crc32cCodec

    with interrupts.held():  # Zarr writes in a thread of its own
        array = group.create_array(
            name,
            shape=values.shape,
            chunks=(max(1, min(len(values), _CHUNK_LENGTH)), *values.shape[1:]),
            dtype=values.dtype,
            filters=None,
            compressors=[Crc32cCodec()],
            config={"write_empty_chunks": True},
        )
        if values.size:
            array[...] = values
