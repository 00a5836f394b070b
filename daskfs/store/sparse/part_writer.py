"""Writes the rows of a part of a sparse source as runs, in any process, which are sorted later."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.store.plain_files import write_array
from daskfs.store.row_order import keys_of, stored_order
from daskfs.store.sparse.kept import files_of
from daskfs.store.sparse.merging import Collisions, NameGatherer, NameRun
from daskfs.store.sparse.sorted_runs import NO_VALUES, Rows, SortedRun, SortedRunFiles, SortedRunWriter, write_rows


class PartWriter:
    """Writes the rows of one part: entries, names, targets, weights and labels.

    Parameters
    ----------
    files : SortedRunFiles
    prefix : str
        Common prefix of its files.
    memory_limit : int
    """

    def __init__(self, files: SortedRunFiles, prefix: str, memory_limit: int) -> None:
        self._files, self._prefix, self._memory_limit = files, prefix, memory_limit
        self._rows = SortedRunWriter(files)
        self._names = NameGatherer(files.folder, f"{prefix}names", memory_limit // 8)
        self._sorted_runs: list[SortedRun] = []
        self._vectors: dict[str, list[np.ndarray]] = {}
        self._n_rows = 0

    def write(self, block: Any) -> None:
        """Append the next rows.

        Raises
        ------
        DataError
            A value that does not fit the dtype, or features that do not ascend.
        """
        self._rows.add(block, self._n_rows)
        self._names.add(block.names)
        self._n_rows += block.n_rows
        labels = {f"label {name}": texts for name, texts in block.labels.items()}
        for name, values in ({"y": block.y, "weight": block.weight} | labels).items():
            if values is not None:
                self._vectors.setdefault(name, []).append(np.array(values))
        if self._rows.nbytes > self._memory_limit // 3:
            self._end_run()

    def _end_run(self) -> None:
        self._sorted_runs.append(self._rows.finish(f"{self._prefix}{len(self._sorted_runs)}", None))

    def finish(self) -> dict[str, Any]:
        """Write the remaining rows; return the argument of `WrittenPart`."""
        if self._rows.n_rows:
            self._end_run()
        names = self._names.finish()
        texts = []
        for name, pieces in self._vectors.items():
            values = np.concatenate(pieces)
            if name.startswith("label "):
                texts.append(name.removeprefix("label "))
                name, encoded = f"label{len(texts) - 1}", [str(text).encode() for text in values]
                write_array(self._path(f"{name}.ends"), np.cumsum([len(text) for text in encoded], dtype=np.int64))
                values = np.frombuffer(b"".join(encoded), np.uint8)
            np.save(self._path(f"{name}.npy"), values)
        return {
            "stretches": [list(sorted_run) for sorted_run in self._sorted_runs],
            "names": [list(run) for run in names],
            "collisions": self._names.collisions.arguments,
            "n_rows": self._n_rows,
            "prefix": self._prefix,
            "vectors": [name for name in self._vectors if not name.startswith("label ")],
            "labels": texts,
            "files": files_of(self._files.folder, self._prefix),
        }

    def _path(self, name: str) -> Any:
        return self._files.folder / f"{self._prefix}{name}"


class WrittenPart:
    """The rows of a part, in files.

    Parameters
    ----------
    files : SortedRunFiles
    facts : dict
        Result of `PartWriter.finish`.

    Attributes
    ----------
    sorted_runs : list of SortedRun
    names : list of NameRun
    collisions : Collisions
    n_rows : int
    """

    def __init__(self, files: SortedRunFiles, facts: dict[str, Any]) -> None:
        self._files, self._facts = files, facts
        self.sorted_runs = [SortedRun(*fields) for fields in facts["stretches"]]
        self.names = [NameRun(*fields) for fields in facts["names"]]
        self.collisions = Collisions(*facts["collisions"])
        self.n_rows: int = facts["n_rows"]

    def vector(self, name: str) -> np.ndarray | None:
        """Return "y" or "weight" of the rows; None if they have none."""
        return np.load(self._path(f"{name}.npy")) if name in self._facts["vectors"] else None

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """Labels of the rows."""
        return {name: self._texts(f"label{k}") for k, name in enumerate(self._facts["labels"])}

    def _texts(self, name: str) -> np.ndarray:
        ends = np.fromfile(self._path(f"{name}.ends"), np.int64).tolist()
        text = np.load(self._path(f"{name}.npy")).tobytes()
        bounds = zip([0, *ends[:-1]], ends, strict=True)
        return np.array([text[start:stop].decode() for start, stop in bounds], np.dtypes.StringDType())

    def _path(self, name: str) -> Any:
        return self._files.folder / f"{self._facts['prefix']}{name}"


def lengths_of(files: SortedRunFiles, sorted_run: SortedRun) -> np.ndarray:
    """Return the number of entries in each row of a sorted run, in the source's order."""
    return np.fromfile(files.path(sorted_run.name, "lengths"), np.int32)


def sort_run(files: SortedRunFiles, seed: int, part: tuple[SortedRun, int]) -> SortedRun:
    """Sort the rows of a run by their keys; the second item is the number of its first row in the source.

    The result goes to other files, since a task of a lost worker is repeated.
    """
    sorted_run, start = part
    features = np.fromfile(files.path(sorted_run.name, "features"), sorted_run.number_type)
    values = NO_VALUES if sorted_run.are_ones else np.fromfile(files.path(sorted_run.name, "values"), files.dtype)
    rows = Rows(lengths_of(files, sorted_run), features, values)
    write_rows(files, sorted_run.name, rows.taken(stored_order(keys_of(seed, start, sorted_run.n_rows))), "sorted-")
    return sorted_run._replace(order="sorted-")
