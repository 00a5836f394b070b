"""Merges sorted lists of ids, with or without names, on disk: no list is ever entirely in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daskfs.store.plain_files import write_array
from daskfs.store.sparse.entry_runs import EntryFiles, EntryRun
from daskfs.store.sparse.vectors import VectorWriter

_LEAST_READ = 1 << 10


class _Run:
    """A sorted file of ids, read piece by piece."""

    def __init__(self, path: Path, n_ids: int, at_once: int) -> None:
        self._path, self._n_ids, self._at_once, self._n_read = path, n_ids, at_once, 0
        self.ids = np.empty(0, np.uint64)
        self.first = 0
        """Position in the file of the first of `ids`."""

    def fill(self) -> None:
        """Read the next piece if nothing is left."""
        if not len(self.ids) and self._n_read < self._n_ids:
            self.first = self._n_read
            self.ids = np.fromfile(self._path, np.uint64, self._at_once, offset=8 * self._n_read)
            self._n_read += len(self.ids)

    @property
    def is_at_end(self) -> bool:
        """Whether all remaining ids are in memory."""
        return self._n_read == self._n_ids

    def take(self, last: np.uint64) -> tuple[np.ndarray, int]:
        """Remove and return the ids up to `last`, and the position of the first."""
        n_taken = int(np.searchsorted(self.ids, last, "right"))
        taken, first = self.ids[:n_taken], self.first
        self.ids, self.first = self.ids[n_taken:], first + n_taken
        return taken, first


def _merged(paths: Sequence[tuple[Path, int]], memory_nbytes: int) -> Iterator[list[tuple[np.ndarray, int]]]:
    """Yield, for each run, all ids up to a common bound, and the position of the first."""
    at_once = max(_LEAST_READ, memory_nbytes // 32 // max(1, len(paths)))
    runs = [_Run(path, n_ids, at_once) for path, n_ids in paths]
    while True:
        for run in runs:
            run.fill()
        lasts = [run.ids[-1] for run in runs if len(run.ids) and not run.is_at_end]
        rest = [run.ids[-1] for run in runs if len(run.ids)]
        if not rest:
            return
        last = min(lasts) if lasts else max(rest)
        yield [run.take(last) for run in runs]


def merge_ids(files: EntryFiles, runs: Sequence[EntryRun], ids: VectorWriter, memory_nbytes: int) -> Path:
    """Write all ids, ascending, to the store, and for each sorted run the columns of its ids.

    Returns
    -------
    Path
        A temporary file of all ids, for lookups.
    """
    path = files.folder / "ids"
    paths = [(files.path(run.name, "ids"), run.n_ids) for run in runs]
    with ExitStack() as stack:
        outs = [stack.enter_context(files.path(run.name, "columns").open("wb")) for run in runs]
        whole = stack.enter_context(path.open("wb"))
        for taken in _merged(paths, memory_nbytes):
            found = _each_once([run for run, _ in taken if len(run)])
            for out, (run, _) in zip(outs, taken, strict=True):
                out.write((ids.length + np.searchsorted(found, run)).astype(np.int64).data)
            ids.append(found)
            whole.write(found.data)
    return path


def _each_once(runs: list[np.ndarray]) -> np.ndarray:
    """Return the distinct ids of several sorted runs, ascending: a merge, where `np.unique` would use hashing."""
    if len(runs) == 1:
        return runs[0]
    ids = np.concatenate(runs)
    ids.sort(kind="stable")
    return ids[np.concatenate([[True], ids[1:] != ids[:-1]])]


class NameRun(NamedTuple):
    """A sorted file of ids with their names: `<name>.ids`, `<name>.ends` (int64) and `<name>.text` (UTF-8)."""

    name: str
    n_names: int


class Collisions:
    """Records whether different names have the same id; the first name is kept.

    Attributes
    ----------
    kept : str or None
        The kept name of the smallest such id: it does not depend on how the names are divided.
    """

    def __init__(self, kept: str | None = None, least: int = 2**64) -> None:
        self.kept, self._least = kept, least

    @property
    def arguments(self) -> tuple[str | None, int]:
        """Arguments for a copy."""
        return self.kept, self._least

    def note(self, ids: np.ndarray, texts: _Texts, kept: np.ndarray, later: np.ndarray) -> None:
        """Compare kept names with later names of the same ids, given by their positions."""
        is_other = texts.lengths[kept] != texts.lengths[later]
        same = np.flatnonzero(~is_other)
        differs = np.concatenate([[0], np.cumsum(texts.taken(kept[same]).text != texts.taken(later[same]).text)])
        ends = np.cumsum(texts.lengths[kept[same]])
        is_other[same] = differs[ends] > differs[ends - texts.lengths[kept[same]]]
        colliding = kept[is_other]
        if len(colliding) and int(ids[colliding].min()) < self._least:
            first = int(colliding[np.argmin(ids[colliding])])
            self._least, self.kept = int(ids[first]), texts.of(first)

    def merge(self, other: Collisions) -> None:
        """Include the collisions found elsewhere."""
        if other._least < self._least:
            self._least, self.kept = other._least, other.kept


class _Texts(NamedTuple):
    """Names in UTF-8, concatenated."""

    lengths: np.ndarray
    text: np.ndarray

    def taken(self, positions: np.ndarray) -> _Texts:
        """Return the names at some positions."""
        lengths = self.lengths[positions]
        ends = np.cumsum(lengths)
        if not len(ends):
            return _Texts(lengths, self.text[:0])
        starts = (np.cumsum(self.lengths) - self.lengths)[positions]
        return _Texts(lengths, self.text[np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)])

    def of(self, position: int) -> str:
        """Return the name at a position."""
        start = int(self.lengths[:position].sum())
        return bytes(self.text[start : start + int(self.lengths[position])]).decode(errors="replace")


def _distinct(ids: np.ndarray, texts: _Texts, collisions: Collisions) -> tuple[np.ndarray, _Texts]:
    """Return the distinct ids, ascending, each with the name that came first."""
    chosen, first, number = np.unique(ids, return_index=True, return_inverse=True)
    later = np.flatnonzero(first[number] != np.arange(len(ids)))
    if len(later):
        collisions.note(ids, texts, first[number[later]], later)
    return chosen, texts.taken(first)


class NameGatherer:
    """Collects the names from blocks, the first of each id, and writes them as sorted runs.

    Parameters
    ----------
    folder : Path
        An existing folder.
    name : str
        Common prefix of its files.
    memory_nbytes : int
    """

    def __init__(self, folder: Path, name: str, memory_nbytes: int) -> None:
        self.runs: list[NameRun] = []
        self.collisions = Collisions()
        self._folder, self._name, self._memory_nbytes = folder, name, memory_nbytes
        self._clear()

    def _clear(self) -> None:
        self._ids: list[np.ndarray] = []
        self._texts: list[_Texts] = []
        self._nbytes = self._nbytes_distinct = 0

    def add(self, named: Any) -> None:
        """Add the `NamedIds` of a block; they are copied."""
        if named is None or not len(named.ids):
            return
        text = np.array(named.text[named.offsets[0] : named.offsets[-1]], np.uint8)
        self._take(np.array(named.ids, np.uint64), _Texts(np.diff(named.offsets), text))
        if self._nbytes > self._memory_nbytes // 8 and self._nbytes > 2 * self._nbytes_distinct:
            ids, texts = self._gathered()
            self._clear()
            self._take(ids, texts)
            self._nbytes_distinct = self._nbytes
            if self._nbytes > self._memory_nbytes // 8:
                self._write()

    def _take(self, ids: np.ndarray, texts: _Texts) -> None:
        self._ids.append(ids)
        self._texts.append(texts)
        self._nbytes += 16 * len(ids) + len(texts.text)

    def _gathered(self) -> tuple[np.ndarray, _Texts]:
        lengths, text = (np.concatenate(part) for part in zip(*self._texts, strict=True))
        return _distinct(np.concatenate(self._ids), _Texts(lengths, text), self.collisions)

    def _write(self) -> None:
        ids, texts = self._gathered()
        run = NameRun(f"{self._name}-{len(self.runs)}", len(ids))
        write_array(self._folder / f"{run.name}.ids", ids)
        write_array(self._folder / f"{run.name}.ends", np.cumsum(texts.lengths, dtype=np.int64))
        write_array(self._folder / f"{run.name}.text", texts.text)
        self.runs.append(run)
        self._clear()

    def finish(self) -> list[NameRun]:
        """Write the remaining names; return all runs."""
        if self._ids:
            self._write()
        return self.runs


class NameWriters(NamedTuple):
    """Writers of the arrays of names, see `daskfs.store.sparse.names`."""

    columns: VectorWriter
    ends: VectorWriter
    text: VectorWriter


def merge_names(
    folder: Path,
    runs: Sequence[NameRun],
    ids: np.ndarray | None,
    n_features: int,
    writers: NameWriters,
    collisions: Collisions,
    memory_nbytes: int,
) -> None:
    """Write the names of columns, by column; if a column has several, the first one.

    Parameters
    ----------
    folder : Path
    runs : sequence of NameRun
        In the source's order.
    ids : array of shape (n_features,), uint64, or None
        The id of each column, ascending; None if ids are column numbers.
    n_features : int
    writers : NameWriters
    collisions : Collisions
    memory_nbytes : int
    """
    ends = [np.memmap(folder / f"{run.name}.ends", np.int64, "r", shape=(run.n_names,)) for run in runs]
    paths = [(folder / f"{run.name}.ids", run.n_names) for run in runs]
    for taken in _merged(paths, memory_nbytes // 4):
        pieces = [
            _texts_at(folder / f"{run.name}.text", ends[k], first, len(some))
            for k, (run, (some, first)) in enumerate(zip(runs, taken, strict=True))
        ]
        lengths, text = (np.concatenate(part) for part in zip(*pieces, strict=True))
        chosen, texts = _distinct(np.concatenate([some for some, _ in taken]), _Texts(lengths, text), collisions)
        if ids is None:
            columns, is_there = chosen.astype(np.int64), chosen < n_features
        else:
            columns = np.searchsorted(ids, chosen)
            is_there = (columns < n_features) & (ids[np.minimum(columns, n_features - 1)] == chosen)
        texts = texts.taken(np.flatnonzero(is_there))
        writers.columns.append(columns[is_there])
        writers.ends.append(writers.text.length + np.cumsum(texts.lengths, dtype=np.int64))
        writers.text.append(texts.text)


def _texts_at(path: Path, ends: np.ndarray, first: int, n_names: int) -> _Texts:
    """Return consecutive names of a run."""
    begin = int(ends[first - 1]) if first else 0
    some = np.array(ends[first : first + n_names])
    stop = int(some[-1]) if n_names else begin
    return _Texts(np.diff(some, prepend=begin), np.fromfile(path, np.uint8, stop - begin, offset=begin))
