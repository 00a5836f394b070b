"""Writes the rows of a part of a sparse source as runs, in any process, which are sorted later."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.store.kept import files_of
from daskfs.store.row_order import keys_of, stored_order
from daskfs.store.sparse.merging import Collisions, NameGatherer, NameRun
from daskfs.store.sparse.sorted_runs import NO_VALUES, Rows, SortedRun, SortedRunFiles, SortedRunWriter, write_rows
from daskfs.store.written_part import PartVectors, WrittenPart


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
        self._vectors = PartVectors(files.folder, prefix)
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
        self._vectors.append(block, block.n_rows)
        if self._rows.nbytes > self._memory_limit // 3:
            self._end_run()

    def _end_run(self) -> None:
        self._sorted_runs.append(self._rows.finish(f"{self._prefix}{len(self._sorted_runs)}", None))

    def finish(self) -> dict[str, Any]:
        """Write the remaining rows; return the argument of `SparsePart`."""
        if self._rows.n_rows:
            self._end_run()
        return {
            "runs": [list(sorted_run) for sorted_run in self._sorted_runs],
            "names": [list(run) for run in self._names.finish()],
            "collisions": self._names.collisions.arguments,
            **self._vectors.finish(),
            "files": files_of(self._files.folder, self._prefix),
        }


class SparsePart(WrittenPart):
    """The rows of a part, in files.

    Attributes
    ----------
    sorted_runs : list of SortedRun
    names : list of NameRun
    collisions : Collisions
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        super().__init__(folder, facts)
        self.sorted_runs = [SortedRun(*fields) for fields in facts["runs"]]
        self.names = [NameRun(*fields) for fields in facts["names"]]
        self.collisions = Collisions(*facts["collisions"])


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
