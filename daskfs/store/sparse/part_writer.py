"""Writes the rows of a part of a sparse source as stretches, in any process, and puts them in order later."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.store.sparse.merging import Collisions, NameGatherer, NameRun
from daskfs.store.sparse.stretches import NO_VALUES, Rows, Stretch, StretchFiles, StretchWriter, write_rows
from daskfs.store.spool import stored_order


class WrittenRows(NamedTuple):
    """The rows of a part, in files."""

    stretches: list[Stretch]
    lengths: np.ndarray
    """How many entries each row has."""
    names: list[NameRun]
    collisions: Collisions


class PartWriter:
    """Writes the rows of one part.

    Parameters
    ----------
    files : StretchFiles
    part : int
    memory_limit : int
    """

    def __init__(self, files: StretchFiles, part: int, memory_limit: int) -> None:
        self._rows, self._part, self._memory_limit = StretchWriter(files), part, memory_limit
        self._names = NameGatherer(files.folder, f"names-{part}", memory_limit // 8)
        self._stretches: list[Stretch] = []
        self._lengths = [np.empty(0, np.int32)]
        self._n_rows = 0

    def write(self, block: Any) -> None:
        """Take the next rows.

        Raises
        ------
        DataError
            Values that do not fit, features that do not ascend.
        """
        self._rows.add(block, self._n_rows)
        self._names.add(block.names)
        self._n_rows += block.n_rows
        if self._rows.nbytes > self._memory_limit // 3:
            self._end_stretch()

    def _end_stretch(self) -> None:
        self._lengths.append(self._rows.lengths)
        self._stretches.append(self._rows.finish(f"{self._part}-{len(self._stretches)}", None))

    def finish(self) -> WrittenRows:
        """Write what is left."""
        if self._rows.n_rows:
            self._end_stretch()
        return WrittenRows(self._stretches, np.concatenate(self._lengths), self._names.finish(), self._names.collisions)


def sort_stretch(files: StretchFiles, seed: int, part: tuple[Stretch, int]) -> Stretch:
    """Write the rows of a stretch, the first of which has this number in the source, in the order of their keys.

    Into other files: a task of a lost worker runs again.
    """
    stretch, start = part
    draws = np.random.default_rng(seed)
    draws.bit_generator.advance(start)  # type: ignore[attr-defined]
    lengths = np.fromfile(files.path(stretch.name, "lengths"), np.int32)
    features = np.fromfile(files.path(stretch.name, "features"), stretch.number_type)
    values = NO_VALUES if stretch.are_ones else np.fromfile(files.path(stretch.name, "values"), files.dtype)
    rows = Rows(lengths, features, values)
    write_rows(files, stretch.name, rows.taken(stored_order(draws.random(stretch.n_rows))), "sorted-")
    return stretch._replace(order="sorted-")
