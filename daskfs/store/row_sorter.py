"""Sorts rows by their keys, on disk if they do not fit in memory: in runs, from which bands of the store are gathered.

A run has consecutive rows of the source that fit into the memory of a process, sorted by their keys. Each band takes
the next rows of every run. So files are read sequentially, and the bytes of the store depend neither on the number of
workers nor on the division into runs.

`RowSorter` writes the runs. A process that reads the whole source knows the keys, and sorts each run before it is
written. A task that encodes a part of the source does not know how many rows precede it: it writes runs in the source's
order, and other tasks sort them. How rows lie in memory and in the files of a run is known to `daskfs.store.dense_runs`
and `daskfs.store.sparse.entry_runs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from daskfs.store.plain_files import write_array

PIECE_NBYTES = 1 << 20
"""Rows are reordered in pieces of this size, which stay in the cache until they are copied to their band."""


def stored_order(keys: np.ndarray) -> np.ndarray:
    """Return the stored order of rows: source rows by ascending key, ties in the source's order."""
    order = np.argsort(keys)  # several times as fast as a stable sort, and random keys are rarely equal
    in_order = keys[order]
    tied = np.flatnonzero(in_order[1:] == in_order[:-1])
    if (np.diff(tied) == 1).any():
        return np.argsort(keys, kind="stable")
    pairs = order[[tied, tied + 1]]
    order[tied], order[tied + 1] = pairs.min(axis=0), pairs.max(axis=0)
    return order


def keys_of(seed: int | None, start: int, n_rows: int) -> np.ndarray:
    """Return the keys of consecutive source rows; the generator jumps ahead to the first."""
    draws = np.random.default_rng(seed)
    draws.bit_generator.advance(start)  # type: ignore[attr-defined]
    return draws.random(n_rows)


def taken(rows: np.ndarray, numbers: np.ndarray, nbytes: int = PIECE_NBYTES) -> Iterator[np.ndarray]:
    """Yield rows by their numbers, in pieces of `nbytes` bytes; each piece reuses the buffer of the last."""
    n_rows = max(1, nbytes // max(1, rows.shape[1] * rows.itemsize))
    piece = np.empty((n_rows, rows.shape[1]), rows.dtype)
    for start in range(0, len(numbers), n_rows):
        wanted = numbers[start : start + n_rows]
        yield np.take(rows, wanted, axis=0, out=piece[: len(wanted)], mode="clip")


class Buffer(Protocol):
    """The rows of a run in memory."""

    n_rows: int

    @property
    def is_full(self) -> bool:
        """Whether the run should end here."""

    def add(self, block: Any, start: int, first_row: int) -> int:
        """Append rows of a block, from `start` on; return how many. `first_row` is the number of the first of them."""

    def write(self, name: str, order: np.ndarray | None) -> Any:
        """Write the rows to files, in this order if one is given, and remove them; return their sorted run."""


BufferT = TypeVar("BufferT", bound=Buffer)


class RowSorter(Generic[BufferT]):
    """Collects consecutive rows of a source, and writes them in runs.

    Parameters
    ----------
    buffer : Buffer
    name : str
        Prefix of the names of the runs.
    seed : int, optional
        Seed of the keys by which each run is sorted, if the rows begin with the source's first. By default rows keep
        their order.

    Attributes
    ----------
    sorted_runs : list
        Those that were written.
    """

    def __init__(self, buffer: BufferT, name: str, seed: int | None = None) -> None:
        self.buffer, self._name, self._seed = buffer, name, seed
        self.sorted_runs: list[Any] = []
        self._n_written = 0

    def add(self, block: Any) -> None:
        """Append the rows of a block; they are copied.

        Raises
        ------
        DataError
            A value that does not fit the dtype, or entries whose features do not ascend within a row.
        """
        start = 0
        while start < block.n_rows:
            start += self.buffer.add(block, start, self._n_written + self.buffer.n_rows)
            if self.buffer.is_full:
                self.end_run()

    def end_run(self) -> None:
        """Write the rows that are in memory, if there are any."""
        n_rows = self.buffer.n_rows
        if n_rows:
            order = None if self._seed is None else stored_order(keys_of(self._seed, self._n_written, n_rows))
            self.sorted_runs.append(self.buffer.write(f"{self._name}{len(self.sorted_runs)}", order))
            self._n_written += n_rows


class Band(NamedTuple):
    """Consecutive stored rows that are gathered together."""

    number: int
    start: int
    stop: int
    offsets: np.ndarray
    """Number of rows of each sorted run in earlier bands; of shape (2, n_runs) with the number of their entries."""


@dataclass(frozen=True)
class SortedRuns:
    """All rows of a source, in its order.

    Parameters
    ----------
    files : DenseFiles or EntryFiles
    runs : sequence of DenseRun or EntryRun
    """

    files: Any
    runs: Sequence[Any]

    @cached_property
    def starts(self) -> np.ndarray:
        """First row of each sorted run, and the total number of rows."""
        return np.cumsum([0, *(run.n_rows for run in self.runs)])

    def owners(self, rows: np.ndarray) -> np.ndarray:
        """Return the sorted run that contains each source row."""
        return np.searchsorted(self.starts, rows, side="right") - 1

    def order_of(self, k: int, seed: int) -> np.ndarray:
        """Return the order in which the rows of a run are sorted."""
        return stored_order(keys_of(seed, int(self.starts[k]), self.runs[k].n_rows))

    def bands(self, order: np.ndarray, stops: Iterable[int], lengths: np.ndarray | None = None) -> Iterator[Band]:
        """Cut the stored order into bands, and write it to a file from which they are gathered.

        Parameters
        ----------
        order : int64 array of shape (n_samples,)
            Source row of each stored row.
        stops : iterable of int
            The end of each band.
        lengths : array of shape (n_samples,), optional
            Number of entries in each row of the source.
        """
        write_array(self.files.folder / "order", order)
        n_runs, start = len(self.runs), 0
        offsets = np.zeros((1 if lengths is None else 2, n_runs), np.int64)
        for number, stop in enumerate(stops):
            yield Band(number, start, stop, offsets.copy())
            rows = order[start:stop]
            owners = self.owners(rows)
            offsets[0] += np.bincount(owners, minlength=n_runs)
            if lengths is not None:
                offsets[1] += np.bincount(owners, lengths[rows], minlength=n_runs).astype(np.int64)
            start = stop

    def gathered(self, band: Band) -> Iterator[tuple[np.ndarray, Any]]:
        """Read the rows of a band, run by run; yield their places in the band, and the rows."""
        order = np.fromfile(self.files.folder / "order", np.int64, band.stop - band.start, offset=8 * band.start)
        owners = self.owners(order)
        by_owner = np.argsort(owners, kind="stable")
        start = 0
        for k, count in enumerate(np.bincount(owners, minlength=len(self.runs)).tolist()):
            if count:
                yield by_owner[start : start + count], self.read(k, count, *band.offsets[:, k].tolist())
                start += count

    def read(self, k: int, n_rows: int, first_row: int, first_entry: int = 0) -> Any:
        """Return consecutive rows of a run, in the order of its files."""
        raise NotImplementedError
