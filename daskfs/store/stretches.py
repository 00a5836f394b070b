"""Rows that several processes encode: stretches of consecutive rows, each a file, that tasks sort and cut into tiles.

A stretch fits in the memory of a task. Once it is known how many rows stand before it, its rows are sorted by their
keys (the draws of `StoreWriter`, to which a generator jumps), and each band of the store takes the next rows of every
stretch. So files are read from front to back, and neither the number of workers nor the cuts change a byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from daskfs.store import band_writer
from daskfs.store.column_statistics import BlockStatistics, statistics_of
from daskfs.store.layout import Layout
from daskfs.store.row_checks import convert_rows
from daskfs.store.spool import stored_order

_PIECE_NBYTES = 1 << 20


class Stretch(NamedTuple):
    """Consecutive rows of the source in a file."""

    name: str
    n_rows: int


@dataclass(frozen=True)
class StretchFiles:
    """Where stretches are written, and what of.

    Parameters
    ----------
    folder : Path
        Exists.
    feature_names : tuple of str
    dtype : dtype
        Of the store.
    stretch_rows : int
        Rows of a stretch, at most.
    """

    folder: Path
    feature_names: tuple[str, ...]
    dtype: np.dtype
    stretch_rows: int

    @property
    def n_features(self) -> int:
        """Columns."""
        return len(self.feature_names)

    def read(self, name: str, start: int, n_rows: int) -> np.ndarray:
        """Return consecutive rows of a file."""
        offset = start * self.n_features * self.dtype.itemsize
        rows = np.fromfile(self.folder / name, self.dtype, n_rows * self.n_features, offset=offset)
        return rows.reshape(n_rows, self.n_features)


class StretchWriter:
    """Writes the rows of a part of a source, as they come, as stretches."""

    def __init__(self, files: StretchFiles, part: int) -> None:
        self.stretches: list[Stretch] = []
        self._files, self._part = files, part
        self._rows = np.empty((files.stretch_rows, files.n_features), files.dtype)
        self._n_filled = self._n_written = 0

    def write(self, X: np.ndarray) -> None:
        """Take the next rows.

        Raises
        ------
        DataError
            Values that do not fit.
        """
        start, names = 0, self._files.feature_names
        while start < len(X):
            rows = X[start : start + len(self._rows) - self._n_filled]
            room = self._rows[self._n_filled : self._n_filled + len(rows)]
            convert_rows(rows, room, names=names, first_row=self._n_written, allow_missing=False)
            self._n_filled += len(rows)
            start += len(rows)
            if self._n_filled == len(self._rows):
                self.finish()

    def finish(self) -> None:
        """Write what is left."""
        if self._n_filled:
            stretch = Stretch(f"{self._part}-{len(self.stretches)}", self._n_filled)
            self._rows[: self._n_filled].tofile(self._files.folder / stretch.name)
            self.stretches.append(stretch)
            self._n_written, self._n_filled = self._n_written + self._n_filled, 0


@dataclass(frozen=True)
class Stretches:
    """All rows of a source, in its order.

    Parameters
    ----------
    files : StretchFiles
    parts : sequence of Stretch
    seed : int or None
        Of the order in which rows are stored; None: as they come.
    """

    files: StretchFiles
    parts: Sequence[Stretch]
    seed: int | None

    @cached_property
    def starts(self) -> np.ndarray:
        """The first row of each, and the number of all."""
        return np.cumsum([0, *(part.n_rows for part in self.parts)])

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return consecutive rows of the source."""
        found = []
        for k, part in enumerate(self.parts):
            low, high = max(start, int(self.starts[k])), min(stop, int(self.starts[k + 1]))
            if low < high:
                found.append(self.files.read(part.name, low - int(self.starts[k]), high - low))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def name_of(self, k: int) -> str:
        """Return the file from which bands are taken."""
        return self.parts[k].name if self.seed is None else f"{self.parts[k].name}-sorted"

    def owners(self, rows: np.ndarray) -> np.ndarray:
        """Return in which stretch each row of the source stands."""
        return np.searchsorted(self.starts, rows, side="right") - 1


def put_in_order(stretches: Stretches, block_rows: int, k: int) -> list[BlockStatistics]:
    """Sort the rows of a stretch; return the statistics of the blocks of `block_rows` rows that begin in it."""
    start, stop, n_samples = int(stretches.starts[k]), int(stretches.starts[k + 1]), int(stretches.starts[-1])
    found = []
    for first in range(-(-start // block_rows) * block_rows, stop, block_rows):
        found.append(statistics_of(stretches.rows(first, min(first + block_rows, n_samples))))
    if stretches.seed is None:
        return found
    draws = np.random.default_rng(stretches.seed)
    draws.bit_generator.advance(start)  # type: ignore[attr-defined]
    order = stored_order(draws.random(stop - start))
    rows = stretches.rows(start, stop)
    step = max(1, _PIECE_NBYTES // max(1, rows.shape[1] * rows.itemsize))
    with (stretches.files.folder / stretches.name_of(k)).open("wb") as file:
        for first in range(0, len(order), step):
            file.write(rows[order[first : first + step]].data)
    return found


class Band(NamedTuple):
    """Rows that are stored together: of one file from top to bottom, or of several."""

    first_row: int
    source_rows: np.ndarray
    """The row of the source that each is."""
    offsets: np.ndarray
    """How many rows of each stretch were stored before."""


def bands_of(stretches: Stretches, order: np.ndarray, height: int, n_together: int) -> list[Band]:
    """Cut the stored order into one band of `height` rows, and the others by `n_together`."""
    bands: list[Band] = []
    offsets, start = np.zeros(len(stretches.parts), np.int64), 0
    while start < len(order) or not bands:
        rows = order[start : start + (height * n_together if start else height)]
        bands.append(Band(start, rows, offsets.copy()))
        offsets += np.bincount(stretches.owners(rows), minlength=len(offsets))
        start += len(rows)
    return bands


def gathered(stretches: Stretches, band: Band) -> np.ndarray:
    """Return the rows of a band."""
    files, owners = stretches.files, stretches.owners(band.source_rows)
    by_owner = np.argsort(owners, kind="stable")
    rows, start = np.empty((len(owners), files.n_features), files.dtype), 0
    for k, count in enumerate(np.bincount(owners, minlength=len(stretches.parts)).tolist()):
        if count:
            place = by_owner[start : start + count]
            rows[place] = files.read(stretches.name_of(k), int(band.offsets[k]), count)
            start += count
    return rows


def store_band(stretches: Stretches, folder: Path, layout: Layout, band: Band) -> int:
    """Write the tiles of some bands; return how many rows it has."""
    rows = gathered(stretches, band)
    room = band_writer.Band(layout, rows.shape, rows.dtype)
    for start in range(0, len(rows), room.height):
        part = rows[start : start + room.height]
        room.put(slice(0, len(part)), part)
        room.write(folder / "X", layout, band.first_row + start, len(part))
    return len(band.source_rows)
