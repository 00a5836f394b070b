"""Reads a sparse matrix by rows and by columns, as entries or as dense blocks, and checks everything that it reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from daskfs.errors import CorruptStoreError
from daskfs.kernels.blocks.row_blocks import BLOCK_ROWS, columns_of_block, row_lengths, rows_of_block
from daskfs.matrix.blocks import Rows, SparseColumns, SparseRows, as_slice
from daskfs.objects.ahead import prefetch_cache
from daskfs.store.chunk_objects import is_whole
from daskfs.store.header import SparseHeader
from daskfs.store.layout import Cut, cuts, normalise, selection_length
from daskfs.store.plain_files import REMEDY
from daskfs.store.sparse.layout import RUN_CHUNK, index_type


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of a block (its nonempty columns) that belong to the requested columns."""

    slots: np.ndarray
    """Index of each among the requested columns, int64, ascending."""
    counts: np.ndarray
    """Number of entries of each."""
    entries: Rows
    """Their positions in the store."""


class SparseReader:
    """The matrix of a sparse store; see `daskfs.store.sparse.layout`.

    Parameters
    ----------
    header : SparseHeader
    open_array : callable
        Returns the reader of an array, given its name.
    where : str
        Name of the store, for messages.

    Notes
    -----
    Rows are read in complete blocks of 8,192; each thread caches the last block that it used partly, decoded. Several
    threads may use a reader.
    """

    def __init__(self, header: SparseHeader, open_array: Callable[[str], Any], where: str) -> None:
        self.shape, self.dtype, self._where = header.shape, np.dtype(header.dtype), where
        self._header = header
        self._columns, self._counts = open_array("X/columns"), open_array("X/counts")
        self._offsets = open_array("X/offsets")
        self._values = None if header.values == "ones" else open_array("X/values")
        self._read_array = open_array
        self._kept = threading.local()

    @cached_property
    def _blocks(self) -> np.ndarray:
        """First run and first entry of each block, int64 of shape (n_blocks + 1, 2)."""
        found: np.ndarray = self._read_array("X/blocks").read()
        whole = [self._header.n_runs, self._header.n_entries]
        if found[0].any() or found[-1].tolist() != whole or (np.diff(found, axis=0) < 0).any():
            raise self._contradiction("X/blocks")
        return found

    @cached_property
    def _marks(self) -> np.ndarray:
        """Column and first entry of every `RUN_CHUNK`-th run, int64 of shape (n_marks, 2)."""
        found: np.ndarray = self._read_array("X/marks").read()
        if (np.diff(found[:, 1]) < 0).any() or not ((found >= 0) & (found[:, 1:] <= self._header.n_entries)).all():
            raise self._contradiction("X/marks")
        return found

    def n_entries(self, rows: Rows = slice(None)) -> int:
        """Return an upper bound for the number of entries in these rows: that of their blocks; nothing is decoded."""
        blocks = np.array([cut.tile for cut in cuts(normalise(rows, self.shape[0]), BLOCK_ROWS)], np.int64)
        return int((self._blocks[blocks + 1, 1] - self._blocks[blocks, 1]).sum())

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns]; see `TileReader.read`."""
        row_numbers, column_numbers = normalise(rows, self.shape[0]), normalise(columns, self.shape[1])
        shape = (selection_length(row_numbers), selection_length(column_numbers))
        if out is None:
            out = np.zeros(shape, self.dtype)
        elif out.shape != shape or out.dtype != self.dtype:
            raise ValueError(f"expected `out` of shape {shape} and {self.dtype}, found {out.shape} and {out.dtype}")
        else:
            out[...] = 0
        row_cuts = cuts(row_numbers, BLOCK_ROWS)
        if shape[1] == self.shape[1] and isinstance(column_numbers, slice):
            self._expect_blocks(row_cuts)
            for cut in row_cuts:
                found = self._rows_of(cut)
                lines = np.arange(shape[0])[cut.outside]
                out[np.repeat(lines, np.diff(found.indptr)), found.indices] = found.data
            return out
        chosen, places = _distinct(column_numbers)
        if places is not None:
            return self._spread(row_numbers, chosen, places, out)
        for cut, runs in zip(row_cuts, self._runs_of_all([cut.tile for cut in row_cuts], chosen), strict=True):
            inside, repeats = _distinct(cut.inside)
            lines = np.arange(shape[0])[cut.outside]
            where = np.full(BLOCK_ROWS, -1)
            where[inside] = np.arange(selection_length(inside)) if repeats is not None else lines
            at, values = where[self._offsets.read(runs.entries)], self._values_of(runs.entries)
            is_taken = at >= 0
            slots = np.repeat(runs.slots, runs.counts)[is_taken]
            if repeats is None:
                out[at[is_taken], slots] = values[is_taken]
            else:
                part = np.zeros((selection_length(inside), shape[1]), self.dtype)
                part[at[is_taken], slots] = values[is_taken]
                out[lines] = part[repeats]
        return out

    def _spread(self, rows: Rows, chosen: np.ndarray, places: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Fill columns that are out of order or repeated from a read of the distinct, ascending ones."""
        out[...] = self.read(rows, chosen)[:, places]
        return out

    def strips(self, rows: Rows, columns: slice) -> None:
        """Return None: only entries are stored."""
        return None

    def sparse_rows(self, rows: Rows) -> SparseRows:
        """Return the entries of X[rows], columns ascending.

        Raises
        ------
        CorruptStoreError
            A chunk that they touch is missing, truncated, fails its checksum, or is inconsistent with another.
        """
        numbers = normalise(rows, self.shape[0])
        if not isinstance(numbers, slice):
            ascending, order = _distinct(numbers)
            if order is not None:
                return _taken(self.sparse_rows(ascending), order)
        row_cuts = cuts(numbers, BLOCK_ROWS)
        self._expect_blocks(row_cuts)
        parts = [self._rows_of(cut) for cut in row_cuts]
        if len(parts) == 1:
            return parts[0]
        lengths = [np.diff(part.indptr) for part in parts]
        return SparseRows(
            np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, np.int64), *lengths]))]).astype(np.int64),
            np.concatenate([np.empty(0, index_type(self.shape[1])), *(part.indices for part in parts)]),
            np.concatenate([np.empty(0, self.dtype), *(part.data for part in parts)]),
        )

    def _rows_of(self, cut: Cut) -> SparseRows:
        """Return rows of one block, ascending."""
        block = self._block(cut.tile, keep=selection_length(normalise(cut.inside, BLOCK_ROWS)) < BLOCK_ROWS)
        if not isinstance(cut.inside, slice):
            return _taken(block, cut.inside)
        start, stop = cut.inside.start, cut.inside.stop
        indptr = block.indptr[start : stop + 1]
        entries = slice(int(indptr[0]), int(indptr[-1]))
        return SparseRows(indptr - indptr[0], block.indices[entries], block.data[entries])

    def _block(self, block: int, keep: bool) -> SparseRows:
        """Return all rows of a block, from the cache or decoded."""
        if getattr(self._kept, "block", None) == block:
            return self._kept.rows  # type: ignore[no-any-return]
        (first_run, first), (last_run, last) = self._blocks[block : block + 2].tolist()
        offsets, runs = self._offsets.read(slice(first, last)), slice(first_run, last_run)
        n_rows = min(BLOCK_ROWS, self.shape[0] - block * BLOCK_ROWS)
        lengths = np.zeros(n_rows, np.int64)
        is_right = row_lengths(offsets, lengths)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        indices, data = np.empty(last - first, index_type(self.shape[1])), np.empty(last - first, self.dtype)
        arrays = self._columns.read(runs), self._counts.read(runs), offsets, self._stored_values(slice(first, last))
        if not is_right or not rows_of_block(*arrays, self.shape[1], indptr[:-1].copy(), indices, data):
            raise self._contradiction(f"block {block} of X")
        found = SparseRows(indptr, indices, data)
        if keep:
            self._kept.block, self._kept.rows = block, found
        return found

    def sparse_columns(self, columns: Rows) -> SparseColumns:
        """Return the entries of X[:, columns]; see `sparse_rows`."""
        numbers = normalise(columns, self.shape[1])
        chosen, places = _distinct(numbers)
        n_columns = selection_length(chosen)
        blocks = list(enumerate(self._runs_of_all(range(len(self._blocks) - 1), chosen)))
        lengths = np.zeros(n_columns, np.int64)
        for _, runs in blocks:
            lengths[runs.slots] += runs.counts  # a column has one run in a block
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        indices = np.empty(indptr[-1], index_type(self.shape[0]))
        data, at = np.empty(indptr[-1], self.dtype), indptr[:-1].copy()
        for block, runs in blocks:
            arrays = runs.slots, runs.counts, self._offsets.read(runs.entries), self._stored_values(runs.entries)
            if not columns_of_block(*arrays, block * BLOCK_ROWS, at, indices, data):
                raise self._contradiction(f"block {block} of X")
        found = SparseRows(indptr, indices, data)
        if places is not None:
            found = _taken(found, places)
        starts = found.indptr.astype(index_type(int(found.indptr[-1])), copy=False)
        return SparseColumns(starts, found.indices, found.data, self.shape[0])

    def _expect_blocks(self, row_cuts: list[Cut]) -> None:
        """Prefetch complete blocks, and the next ones if reading is sequential, if the store is in an object store."""
        if not self._columns.is_remote or not row_cuts:
            return
        first, last = row_cuts[0].tile, row_cuts[-1].tile
        goes_on = getattr(self._kept, "last", first - 2) in (first, first - 1)
        self._kept.last = last
        blocks = [cut.tile for cut in row_cuts]
        if goes_on:
            blocks += range(last + 1, min(len(self._blocks) - 1, last + 1 + len(row_cuts)))
        self._expect(read for block in blocks for read in self._reads_of(block))

    def _reads_of(self, block: int) -> Iterator[tuple[Any, Rows]]:
        """Yield the arrays and ranges that are read for a complete block, in order."""
        (first_run, first), (last_run, last) = self._blocks[block : block + 2].tolist()
        runs, entries = slice(first_run, last_run), slice(first, last)
        yield from ((self._offsets, entries), (self._columns, runs), (self._counts, runs))
        if self._values is not None:
            yield self._values, entries

    def _expect(self, reads: Iterable[tuple[Any, Rows]]) -> None:
        prefetch_cache().expect(dict.fromkeys(part for array, rows in reads for part in array.parts(rows)), is_whole)

    def _runs_of_all(self, blocks: Sequence[int], columns: Rows) -> Iterable[_Runs]:
        """Return the runs of some blocks: lazily, or, in an object store, all at once, prefetching their entries."""
        if not self._columns.is_remote:
            return (self._runs(block, columns) for block in blocks)
        needed = [slice(*run) for block in blocks for run in self._runs_needed(block, columns)]
        self._expect((array, runs) for runs in needed for array in (self._columns, self._counts))
        found = [self._runs(block, columns) for block in blocks]
        arrays = [self._offsets, *([] if self._values is None else [self._values])]
        self._expect((array, runs.entries) for runs in found for array in arrays)
        return found

    def _runs_needed(self, block: int, columns: Rows) -> list[tuple[int, int]]:
        """Return the ranges of a block's runs that may contain some columns, one per chunk."""
        first_run, last_run = self._blocks[block : block + 2, 0].tolist()
        if isinstance(columns, slice) and columns.stop - columns.start == self.shape[1]:
            return [(first_run, last_run)]
        if first_run == last_run or not selection_length(columns):
            return []
        # Chunks of runs [low, high) begin within the block; the first column of each is in X/marks.
        low, high = first_run // RUN_CHUNK + 1, (last_run - 1) // RUN_CHUNK + 1
        noted = self._marks[low:high, 0]
        chunks: np.ndarray
        if isinstance(columns, slice):
            begin = np.searchsorted(noted, columns.start, "right")
            chunks = np.arange(begin, np.searchsorted(noted, columns.stop, "left") + 1) + low - 1
        else:
            chunks = np.unique(np.searchsorted(noted, columns, "right")) + low - 1
        return [(max(first_run, k * RUN_CHUNK), min(last_run, (k + 1) * RUN_CHUNK)) for k in chunks.tolist()]

    def _runs(self, block: int, columns: Rows) -> _Runs:
        """Return the runs of a block for these columns, given as a slice or ascending numbers."""
        (first_run, first), (last_run, last) = self._blocks[block : block + 2].tolist()
        if isinstance(columns, slice) and columns.stop - columns.start == self.shape[1]:
            runs = slice(first_run, last_run)
            found = self._columns.read(runs).astype(np.int64)
            return self._held(found, self._counts.read(runs), slice(first, last), self.shape[1])
        needed = self._runs_needed(block, columns)
        if not needed:
            return _Runs(np.empty(0, np.int64), np.empty(0, np.uint16), slice(first, first))
        parts = list(self._runs_of_chunks(needed, first_run, first, columns))
        slots, counts, starts = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self._held(slots, counts, _ranges(starts, counts), selection_length(columns))

    def _runs_of_chunks(
        self, needed: list[tuple[int, int]], first_run: int, first: int, columns: Rows
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield index, number of entries and first entry of the wanted columns in each chunk of a block's runs."""
        for begin, end in needed:
            runs = slice(begin, end)
            found, counts = self._columns.read(runs).astype(np.int64), self._counts.read(runs)
            start = first if begin == first_run else int(self._marks[begin // RUN_CHUNK, 1])
            starts = start + np.cumsum(counts, dtype=np.int64) - counts
            if isinstance(columns, slice):
                part = slice(*np.searchsorted(found, (columns.start, columns.stop)))
                yield found[part] - columns.start, counts[part], starts[part]
            else:
                slots = np.searchsorted(columns, found)
                slots[slots == len(columns)] = 0
                is_wanted = columns[slots] == found
                yield slots[is_wanted], counts[is_wanted], starts[is_wanted]

    def _held(self, slots: np.ndarray, counts: np.ndarray, entries: Rows, n_columns: int) -> _Runs:
        """Return runs of `n_columns` columns, after checking that their entries are within the store."""
        n_entries = int(counts.sum(dtype=np.int64))
        stop = entries.stop if isinstance(entries, slice) else int(entries.max(initial=-1)) + 1
        n_found = entries.stop - entries.start if isinstance(entries, slice) else len(entries)
        if n_found != n_entries or stop > self._header.n_entries or (slots >= n_columns).any() or (slots < 0).any():
            raise self._contradiction("X/counts")
        return _Runs(slots, counts, entries)

    def _stored_values(self, entries: Rows) -> np.ndarray:
        """Return the values of entries as stored; empty if all are 1."""
        return np.empty(0, np.int8) if self._values is None else self._values.read(entries)

    def _values_of(self, entries: Rows) -> np.ndarray:
        if self._values is None:
            return np.ones(selection_length(normalise(entries, self._header.n_entries)), self.dtype)
        found: np.ndarray = self._values.read(entries).astype(self.dtype, copy=False)
        return found

    def _contradiction(self, what: str) -> CorruptStoreError:
        return CorruptStoreError(f"{what} is inconsistent with the rest of the store", self._where, REMEDY)


def _distinct(numbers: Rows) -> tuple[Any, np.ndarray | None]:
    """Return the distinct numbers, ascending, and the index of each original number; None if they were so already."""
    if isinstance(numbers, slice) or (np.diff(numbers) > 0).all():
        return as_slice(numbers), None
    chosen, places = np.unique(numbers, return_inverse=True)
    return as_slice(chosen), places


def _taken(rows: SparseRows, order: np.ndarray) -> SparseRows:
    """Return rows (or columns) in another order."""
    lengths = np.diff(rows.indptr)[order]
    entries = _ranges(rows.indptr[:-1][order], lengths)
    return SparseRows(np.concatenate([[0], np.cumsum(lengths)]), rows.indices[entries], rows.data[entries])


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> Rows:
    """Return the numbers ``start, ..., start + length - 1`` of all ranges, concatenated."""
    ends = np.cumsum(lengths, dtype=np.int64)
    if not len(starts) or (starts[1:] == starts[:-1] + lengths[:-1]).all():
        first = int(starts[0]) if len(starts) else 0
        return slice(first, first + (int(ends[-1]) if len(ends) else 0))
    return np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)
