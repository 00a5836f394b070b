"""The rows that a task has encoded from a part of a source, in files of the task: runs, vectors and names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.store.plain_files import write_array
from daskfs.store.row_sorter import RowSorter
from daskfs.store.sparse.merging import Collisions, NameGatherer, NameRun
from daskfs.store.unfinished import files_of


class PartWriter:
    """Writes the rows of a part in their order, with targets, weights, labels and the names of entries.

    Parameters
    ----------
    files : DenseFiles or EntryFiles
    prefix : str
        Common prefix of its files.
    memory_limit : int
        Memory for all arrays, in bytes.
    """

    def __init__(self, files: Any, prefix: str, memory_limit: int) -> None:
        self._folder, self._prefix = files.folder, prefix
        self._sorter = RowSorter(files.buffer(), prefix)
        self._names = NameGatherer(files.folder, f"{prefix}names", memory_limit // 8)
        self._vectors = PartVectors(files.folder, prefix)

    def write(self, block: Any) -> None:
        """Append the rows of a `SourceBlock` or `SparseBlock`, which are copied.

        Raises
        ------
        DataError
            A value that does not fit the dtype, or features that do not ascend.
        """
        self._sorter.add(block)
        self._names.add(getattr(block, "names", None))
        self._vectors.append(block)

    def finish(self) -> dict[str, Any]:
        """Write the remaining rows; return the argument of `WrittenPart`."""
        self._sorter.end_run()
        return {
            "runs": [list(sorted_run) for sorted_run in self._sorter.sorted_runs],
            "names": [list(run) for run in self._names.finish()],
            "collisions": self._names.collisions.arguments,
            **self._vectors.finish(),
            "files": files_of(self._folder, self._prefix),
        }


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

    def append(self, block: Any) -> None:
        """Append those of a block, which are copied."""
        self._n_rows += block.n_rows
        labels = {f"label {name}": texts for name, texts in block.labels.items()}
        for name, values in ({"y": block.y, "weight": block.weight} | labels).items():
            if values is not None:
                self._vectors.setdefault(name, []).append(np.array(values))

    def finish(self) -> dict[str, Any]:
        """Write the files; return facts on them for `WrittenPart`."""
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
    """The rows of a part, read from its files.

    Parameters
    ----------
    files : DenseFiles or EntryFiles
    facts : mapping
        Result of `PartWriter.finish`.

    Attributes
    ----------
    n_rows : int
    sorted_runs : list of DenseRun or EntryRun
        In the source's order.
    names : list of NameRun
    collisions : Collisions
    """

    def __init__(self, files: Any, facts: Mapping[str, Any]) -> None:
        self._folder, self._facts = files.folder, facts
        self.n_rows: int = facts["n_rows"]
        self.sorted_runs = [files.run_of(fields) for fields in facts["runs"]]
        self.names = [NameRun(*fields) for fields in facts["names"]]
        self.collisions = Collisions(*facts["collisions"])

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
