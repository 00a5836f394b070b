"""Row vectors of a store: target, weight, labels and the number of each row in the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from daskfs import errors, interrupts
from daskfs.store.row_checks import check_vector

DataError = errors.DataError.about("shapes")

STRINGS_PER_CHUNK = 100_000
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

    def in_order(self, order: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return all vectors by name; `order` is the source row of each stored row (None: the same)."""
        taken: Any = slice(None) if order is None else order
        vectors: dict[str, np.ndarray] = {}
        if self.target_names:
            target = np.concatenate(self._target)[taken]
            vectors["target"] = target[:, 0] if target.shape[1] == 1 else target
        if self.has_weight:
            vectors["weight"] = np.concatenate(self._weight)[taken]
        if order is not None:
            vectors["source_rows"] = order.astype(np.int64)
        for number, name in enumerate(self.label_names):
            vectors[f"labels/{number}"] = np.concatenate(self._labels[name])[taken]
        return vectors


def write_vector(group: Any, path: str, values: np.ndarray, **facts: Any) -> None:
    """Write strings, a vector, or several vectors as columns, as an array of a Zarr group.

    Arrays are not compressed, and each chunk has a checksum.

    Parameters
    ----------
    group : zarr.Group
    path : str
        Path of the array in the group.
    values : ndarray of shape (n,) or (n, k)
        Strings have the dtype `numpy.dtypes.StringDType`, or object.
    **facts
        Further options of Zarr: names of the dimensions, attributes.
    """
    from zarr.codecs import Crc32cCodec

    is_text = values.dtype.kind in "OT"
    length = STRINGS_PER_CHUNK if is_text else _CHUNK_LENGTH
    with interrupts.held():  # Zarr writes in a thread of its own
        array = group.create_array(
            path,
            shape=values.shape,
            chunks=(max(1, min(len(values), length)), *values.shape[1:]),
            dtype="string" if is_text else values.dtype,
            filters="auto" if is_text else None,
            compressors=[Crc32cCodec()],
            config={"write_empty_chunks": True},
            **facts,
        )
        if values.size:
            array[...] = values.astype(np.dtypes.StringDType()) if is_text else values
