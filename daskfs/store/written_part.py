"""Targets, weights and labels of the rows that a task has encoded from a part of a source, in files of the task."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.store.plain_files import write_array


class PartVectors:
    """Writes targets, weights and labels of a part.

    Parameters
    ----------
    folder : Path
    prefix : str
        Common prefix of its files.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder, self._prefix, self._n_rows = folder, prefix, 0
        self._vectors: dict[str, list[np.ndarray]] = {}

    def append(self, block: Any, n_rows: int) -> None:
        """Append those of a block of `n_rows` rows, which are copied."""
        self._n_rows += n_rows
        labels = {f"label {name}": texts for name, texts in block.labels.items()}
        for name, values in ({"y": block.y, "weight": block.weight} | labels).items():
            if values is not None:
                self._vectors.setdefault(name, []).append(np.array(values))

    def finish(self) -> dict[str, Any]:
        """Write the files; return the argument of `WrittenPart`."""
        texts = []
        for name, pieces in self._vectors.items():
            values = np.concatenate(pieces)
            if name.startswith("label "):
                texts.append(name.removeprefix("label "))
                name, encoded = f"label{len(texts) - 1}", [str(text).encode() for text in values]
                ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
                write_array(self._folder / f"{self._prefix}{name}.ends", ends)
                values = np.frombuffer(b"".join(encoded), np.uint8)
            np.save(self._folder / f"{self._prefix}{name}.npy", values)
        vectors = [name for name in self._vectors if not name.startswith("label ")]
        return {"n_rows": self._n_rows, "prefix": self._prefix, "vectors": vectors, "labels": texts}


class WrittenPart:
    """Targets, weights and labels of a part, read from its files.

    Parameters
    ----------
    folder : Path
    facts : mapping
        Result of `PartVectors.finish`.
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        self._folder, self._facts = folder, facts
        self.n_rows: int = facts["n_rows"]

    @cached_property
    def y(self) -> np.ndarray | None:
        """Targets of the rows."""
        return self._vector("y")

    @cached_property
    def weight(self) -> np.ndarray | None:
        """Weights of the rows."""
        return self._vector("weight")

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """Labels of the rows."""
        return {name: self._texts(f"label{k}") for k, name in enumerate(self._facts["labels"])}

    def _vector(self, name: str) -> np.ndarray | None:
        return np.load(self._path(f"{name}.npy")) if name in self._facts["vectors"] else None

    def _texts(self, name: str) -> np.ndarray:
        ends = np.fromfile(self._path(f"{name}.ends"), np.int64).tolist()
        text = np.load(self._path(f"{name}.npy")).tobytes()
        bounds = zip([0, *ends[:-1]], ends, strict=True)
        return np.array([text[start:stop].decode() for start, stop in bounds], np.dtypes.StringDType())

    def _path(self, name: str) -> Path:
        return self._folder / f"{self._facts['prefix']}{name}"
