"""Runs of dense rows: a file each. See `daskfs.store.row_sorter`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daskfs.store.band_writer import BandFiles
from daskfs.store.column_statistics import BlockStatistics, by_kernel, statistics_of
from daskfs.store.layout import Layout
from daskfs.store.row_checks import convert_rows
from daskfs.store.row_sorter import PIECE_NBYTES, Band, SortedRuns, taken
from daskfs.store.unfinished import TILES, files_of

STATISTICS, SORTED = "statistics", "sorted"


class DenseRun(NamedTuple):
    """Consecutive rows of the source in a file."""

    name: str
    n_rows: int


@dataclass(frozen=True)
class DenseFiles:
    """Where sorted runs are written, and their columns.

    Parameters
    ----------
    folder : Path
        An existing folder.
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

    def buffer(self) -> DenseBuffer:
        """Return a buffer for a run."""
        return DenseBuffer(self, self.run_rows)

    def run_of(self, facts: Sequence[Any]) -> DenseRun:
        """Return a run from the list of its fields."""
        return DenseRun(*facts)

    def statistics_of(self, run: DenseRun) -> Iterator[BlockStatistics]:
        """Yield the statistics of the blocks of rows that begin in a run, as `sort_dense_run` has written them."""
        path, fields = self.folder / f"{run.name}.{STATISTICS}", len(BlockStatistics._fields)
        for block in np.fromfile(path).reshape(-1, fields, max(1, self.n_features)):
            found = BlockStatistics(*block)
            counts, n_missing = found.counts.astype(np.int64), found.n_missing.astype(np.int64)
            yield found._replace(counts=counts, n_missing=n_missing)

    def write(self, name: str, rows: np.ndarray, order: np.ndarray | None, piece_nbytes: int = PIECE_NBYTES) -> None:
        """Write rows to a file, in this order if one is given."""
        with (self.folder / name).open("wb") as file:
            for piece in [rows] if order is None else taken(rows, order, piece_nbytes):
                file.write(piece.data)


class DenseBuffer:
    """The rows of a run in memory.

    Attributes
    ----------
    rows : ndarray of shape (most_rows, n_features)
    n_rows : int
        How many of them are filled.
    """

    def __init__(self, files: DenseFiles, most_rows: int) -> None:
        self._files = files
        self.rows, self.n_rows = np.empty((most_rows, files.n_features), files.dtype), 0
        self.piece_nbytes = min(PIECE_NBYTES, self.rows.nbytes // 8)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another row."""
        return self.n_rows == len(self.rows)

    def add(self, block: Any, start: int, first_row: int) -> int:
        """Append the rows of a block for which there is room, from `start` on; return how many."""
        rows = block.X[start : start + len(self.rows) - self.n_rows]
        room = self.rows[self.n_rows : self.n_rows + len(rows)]
        convert_rows(rows, room, names=self._files.feature_names, first_row=first_row, allow_missing=False)
        self.n_rows += len(rows)
        return len(rows)

    def write(self, name: str, order: np.ndarray | None) -> DenseRun:
        """Write the rows to a file, and remove them."""
        sorted_run = DenseRun(name, self.n_rows)
        self._files.write(name, self.rows[: self.n_rows], order, self.piece_nbytes)
        self.n_rows = 0
        return sorted_run


class DenseRuns(SortedRuns):
    """All dense rows of a source, in its order."""

    def read(self, k: int, n_rows: int, first_row: int, first_entry: int = 0) -> np.ndarray:
        """Return consecutive rows of a run, in the order of its file."""
        files: DenseFiles = self.files
        offset = first_row * files.n_features * files.dtype.itemsize
        rows = np.fromfile(files.folder / self.runs[k].name, files.dtype, n_rows * files.n_features, offset=offset)
        return rows.reshape(n_rows, files.n_features)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return a range of the source's rows, if the runs are in its order."""
        found = []
        for k, (first, last) in enumerate(zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)):
            low, high = max(start, first), min(stop, last)
            if low < high:
                found.append(self.read(k, high - low, low - first))
        return found[0] if len(found) == 1 else np.concatenate(found)


def sort_dense_run(sorted_runs: DenseRuns, seed: int | None, block_rows: int, k: int) -> dict[str, Any]:
    """Sort the rows of a run, and write the statistics of the blocks of rows that begin in it.

    This is a saved step, with the sorted run as ``"run"``; `DenseFiles.statistics_of` reads the statistics.

    Parameters
    ----------
    sorted_runs : DenseRuns
        In the source's order.
    seed : int or None
        None: rows keep their order.
    block_rows : int
        Number of rows in a block.
    k : int
        Which run.
    """
    start, stop, n_samples = int(sorted_runs.starts[k]), int(sorted_runs.starts[k + 1]), int(sorted_runs.starts[-1])
    rows = sorted_runs.rows(start, stop)
    is_fast = by_kernel(n_samples * rows.shape[1] * rows.itemsize)
    run, files = sorted_runs.runs[k], sorted_runs.files
    with (files.folder / f"{run.name}.{STATISTICS}").open("wb") as out:
        for first in range(-(-start // block_rows) * block_rows, stop, block_rows):
            last = min(first + block_rows, n_samples)
            block = rows[first - start : last - start] if last <= stop else sorted_runs.rows(first, last)
            out.write(np.array(statistics_of(block, is_fast)).data)
    if seed is not None:
        run = run._replace(name=f"{run.name}.{SORTED}")
        files.write(run.name, rows, sorted_runs.order_of(k, seed))
    return {"run": run, "files": files_of(files.folder, f"{sorted_runs.runs[k].name}.")}


def store_bands(sorted_runs: DenseRuns, folder: Path, layout: Layout, bands: Sequence[Band]) -> dict[str, Any]:
    """Write the tiles of some bands: a saved step, with their total number of rows."""
    files: DenseFiles = sorted_runs.files
    room = BandFiles(layout, (int(sorted_runs.starts[-1]), files.n_features), files.dtype)
    for band in bands:
        for place, rows in sorted_runs.gathered(band):
            room.put(place, rows)
        room.write(folder / "X", layout, band.start, band.stop - band.start)
    written = [f"{TILES}/{band.start // layout.file_shape[0]}" for band in bands]
    tiles = {f"../{at}/{name}": check for at in written for name, check in files_of(folder / at, "").items()}
    return {"n_rows": sum(band.stop - band.start for band in bands), "files": tiles}
