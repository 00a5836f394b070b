"""Sorts rows by their keys, on disk if they do not fit in memory: in runs, which are merged into tiles band by band.

A run is a file of consecutive rows that fits into the memory of a process. Its rows are sorted by their keys, and each
band of the store takes the next rows of every run. So files are read sequentially, and the bytes of the store depend
neither on the number of workers nor on the division into runs.

`RowSorter` is fed by one process, which knows the keys. Workers encode parts before the number of preceding rows is
known: `SortedRunWriter` writes runs in the source's order, and `put_in_order` sorts them later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daskfs.store.band_writer import BandFiles, BandWriter
from daskfs.store.column_statistics import BlockStatistics, by_kernel, statistics_of
from daskfs.store.kept import files_of
from daskfs.store.layout import Layout
from daskfs.store.plain_files import write_array
from daskfs.store.row_checks import convert_rows
from daskfs.store.row_order import PIECE_NBYTES, keys_of, stored_order, taken
from daskfs.store.written_part import PartVectors, WrittenPart


class SortedRun(NamedTuple):
    """Consecutive rows of the source in a file."""

    name: str
    n_rows: int


@dataclass(frozen=True)
class SortedRunFiles:
    """Where sorted runs are written, and their columns.

    Parameters
    ----------
    folder : Path
    feature_names : tuple of str
    dtype : dtype
        The dtype of the store.
    run_rows : int
        Maximum number of rows in a sorted run.
    """

    folder: Path
    feature_names: tuple[str, ...]
    dtype: np.dtype
    run_rows: int

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.feature_names)

    def read(self, name: str, start: int, n_rows: int) -> np.ndarray:
        """Return consecutive rows of a file."""
        offset = start * self.n_features * self.dtype.itemsize
        rows = np.fromfile(self.folder / name, self.dtype, n_rows * self.n_features, offset=offset)
        return rows.reshape(n_rows, self.n_features)

    def write(self, name: str, pieces: Iterator[np.ndarray]) -> None:
        """Write rows to a file."""
        with (self.folder / name).open("wb") as file:
            for piece in pieces:
                file.write(piece.data)


class SortedRunWriter:
    """Writes the rows of a part of a source, in their order, as sorted runs."""

    def __init__(self, files: SortedRunFiles, prefix: str) -> None:
        self._sorted_runs: list[SortedRun] = []
        self._files, self._prefix, self._vectors = files, prefix, PartVectors(files.folder, prefix)
        self._rows = np.empty((files.run_rows, files.n_features), files.dtype)
        self._n_filled = self._n_written = 0

    def write(self, block: Any) -> None:
        """Append the next rows, with their targets, weights and labels.

        Raises
        ------
        DataError
            A value that does not fit the dtype.
        """
        X, start, names = block.X, 0, self._files.feature_names
        self._vectors.append(block, len(X))
        while start < len(X):
            rows = X[start : start + len(self._rows) - self._n_filled]
            room = self._rows[self._n_filled : self._n_filled + len(rows)]
            convert_rows(rows, room, names=names, first_row=self._n_written, allow_missing=False)
            self._n_filled += len(rows)
            start += len(rows)
            if self._n_filled == len(self._rows):
                self._end_run()

    def _end_run(self) -> None:
        sorted_run = SortedRun(f"{self._prefix}{len(self._sorted_runs)}", self._n_filled)
        write_array(self._files.folder / sorted_run.name, self._rows[: self._n_filled])
        self._sorted_runs.append(sorted_run)
        self._n_written, self._n_filled = self._n_written + self._n_filled, 0

    def finish(self) -> dict[str, Any]:
        """Write the remaining rows; return the argument of `DensePart`."""
        if self._n_filled:
            self._end_run()
        runs = [list(sorted_run) for sorted_run in self._sorted_runs]
        return {"runs": runs, **self._vectors.finish(), "files": files_of(self._files.folder, self._prefix)}


class DensePart(WrittenPart):
    """The rows of a part, in files.

    Attributes
    ----------
    sorted_runs : list of SortedRun
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        super().__init__(folder, facts)
        self.sorted_runs = [SortedRun(*fields) for fields in facts["runs"]]


@dataclass(frozen=True)
class SortedRuns:
    """All rows of a source, in its order.

    Parameters
    ----------
    files : SortedRunFiles
    parts : sequence of SortedRun
    seed : int or None
        Seed of the stored order, if `put_in_order` sorts the runs; None: bands take the rows in the order of the files.
    """

    files: SortedRunFiles
    parts: Sequence[SortedRun]
    seed: int | None

    @cached_property
    def starts(self) -> np.ndarray:
        """First row of each sorted run, and the total number of rows."""
        return np.cumsum([0, *(part.n_rows for part in self.parts)])

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return a range of the source's rows."""
        found = []
        for k, part in enumerate(self.parts):
            low, high = max(start, int(self.starts[k])), min(stop, int(self.starts[k + 1]))
            if low < high:
                found.append(self.files.read(part.name, low - int(self.starts[k]), high - low))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def name_of(self, k: int) -> str:
        """Return the name of the file from which bands are read."""
        return self.parts[k].name if self.seed is None else f"{self.parts[k].name}-sorted"

    def owners(self, rows: np.ndarray) -> np.ndarray:
        """Return the sorted run that contains each source row."""
        return np.searchsorted(self.starts, rows, side="right") - 1


def put_in_order(sorted_runs: SortedRuns, block_rows: int, k: int) -> list[BlockStatistics]:
    """Sort the rows of a run; return the statistics of the blocks of `block_rows` rows that begin in it."""
    start, stop, n_samples = int(sorted_runs.starts[k]), int(sorted_runs.starts[k + 1]), int(sorted_runs.starts[-1])
    rows = sorted_runs.rows(start, stop)
    is_fast = by_kernel(n_samples * rows.shape[1] * rows.itemsize)
    found = []
    for first in range(-(-start // block_rows) * block_rows, stop, block_rows):
        last = min(first + block_rows, n_samples)
        block = rows[first - start : last - start] if last <= stop else sorted_runs.rows(first, last)
        found.append(statistics_of(block, is_fast))
    if sorted_runs.seed is None:
        return found
    order = stored_order(keys_of(sorted_runs.seed, start, stop - start))
    sorted_runs.files.write(sorted_runs.name_of(k), taken(rows, order))
    return found


class Band(NamedTuple):
    """Rows that are stored in the same files."""

    first_row: int
    source_rows: np.ndarray
    """Source row of each row."""
    offsets: np.ndarray
    """Number of rows of each sorted run in earlier bands."""


def bands_of(sorted_runs: SortedRuns, order: np.ndarray, height: int) -> Iterator[Band]:
    """Cut the stored order into bands of `height` rows."""
    offsets = np.zeros(len(sorted_runs.parts), np.int64)
    for start in range(0, max(1, len(order)), height):
        rows = order[start : start + height]
        yield Band(start, rows, offsets.copy())
        offsets += np.bincount(sorted_runs.owners(rows), minlength=len(offsets))


def gather(sorted_runs: SortedRuns, band: Band, put: Callable[[np.ndarray, np.ndarray], None]) -> None:
    """Read the rows of a band, run by run, and pass them to `put` with their places in the band."""
    owners = sorted_runs.owners(band.source_rows)
    by_owner = np.argsort(owners, kind="stable")
    start = 0
    for k, count in enumerate(np.bincount(owners, minlength=len(sorted_runs.parts)).tolist()):
        if count:
            rows = sorted_runs.files.read(sorted_runs.name_of(k), int(band.offsets[k]), count)
            put(by_owner[start : start + count], rows)
            start += count


def store_bands(sorted_runs: SortedRuns, folder: Path, layout: Layout, bands: Sequence[Band]) -> int:
    """Write the tiles of some bands; return their total number of rows."""
    shape = int(sorted_runs.starts[-1]), sorted_runs.files.n_features
    room = BandFiles(layout, shape, sorted_runs.files.dtype)
    for band in bands:
        gather(sorted_runs, band, room.put)
        room.write(folder / "X", layout, band.first_row, len(band.source_rows))
    return sum(len(band.source_rows) for band in bands)


class RowSorter:
    """Sorts the rows that one process writes: in memory if all fit, otherwise in runs.

    Parameters
    ----------
    files : SortedRunFiles
        Its folder exists.
    block_rows : int
        Maximum number of rows appended at a time.
    n_samples : int, optional
        Total number of rows, if known.
    """

    def __init__(self, files: SortedRunFiles, block_rows: int, n_samples: int | None = None) -> None:
        self.files, self.sorted_runs = files, list[SortedRun]()
        n_rows = max(block_rows, files.run_rows)
        self._holds_all = n_samples is not None and n_samples <= n_rows
        self._rows = np.empty(
            (n_samples if n_samples is not None and self._holds_all else n_rows, files.n_features), files.dtype
        )
        self._piece_nbytes = min(PIECE_NBYTES, self._rows.nbytes // 8)
        self._block_rows, self._n_filled = block_rows, 0
        self._keys: list[np.ndarray] = []

    def room(self) -> np.ndarray:
        """Return the buffer for the next rows, of shape (block_rows, n_features), or fewer rows at the end."""
        if self._n_filled + self._block_rows > len(self._rows) and not self._holds_all:
            self._end_run()
        return self._rows[self._n_filled : self._n_filled + self._block_rows]

    def append(self, n_rows: int, keys: np.ndarray) -> None:
        """Append the first `n_rows` rows of the buffer returned by `room`; no keys: rows keep their order."""
        self._n_filled += n_rows
        self._keys.append(keys)

    def write(self, order: np.ndarray, bands: BandWriter) -> Iterator[int]:
        """Write the tiles of all rows, and yield how many rows were written; to be called once.

        Parameters
        ----------
        order : int64 array of shape (n_samples,)
            `stored_order` of all keys, or ``arange`` to keep the order.
        bands : BandWriter
        """
        if not self.sorted_runs:
            for rows in taken(self._rows, order, self._piece_nbytes):
                bands.write(rows)
                yield len(rows)
            return
        self._end_run()
        del self._rows
        sorted_runs = SortedRuns(self.files, self.sorted_runs, None)
        for band in bands_of(sorted_runs, order, bands.height):
            gather(sorted_runs, band, bands.put)
            bands.end_band()
            yield len(band.source_rows)

    def _end_run(self) -> None:
        if not self._n_filled:
            return
        keys, sorted_run = np.concatenate(self._keys), SortedRun(str(len(self.sorted_runs)), self._n_filled)
        order = stored_order(keys) if len(keys) else np.arange(self._n_filled)
        self.files.write(sorted_run.name, taken(self._rows, order, self._piece_nbytes))
        self.sorted_runs.append(sorted_run)
        self._n_filled, self._keys = 0, []
