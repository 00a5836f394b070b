"""From rows in sorted runs to the arrays of X, in parallel tasks. The result depends neither on the division into
tasks nor on the workers.

1. A group of blocks of rows is gathered, and each block is sorted by column, into the group's files: a saved step.
2. The totals of a range of columns are summed, block by block.
3. The files of each array are assembled from those of the groups, and compressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.blocks.column_totals import add_to_totals
from daskfs.store.plain_files import write_array
from daskfs.store.row_sorter import Band
from daskfs.store.sparse.encoding import encoded_blocks
from daskfs.store.sparse.entry_runs import NO_VALUES, EntryRuns
from daskfs.store.sparse.layout import CHUNKS_PER_FILE, chunk_length, column_type
from daskfs.store.sparse.vectors import VectorWriter
from daskfs.store.unfinished import files_of

N_TOTALS = 6
_FILES_AT_ONCE, _NUMBERS_AT_ONCE = 4, 1 << 18


def block_type(values: str) -> np.dtype:
    """Return the dtype of values that are stored in this way; see `SparseHeader`."""
    return np.dtype("i1" if values == "ones" else values)


class GroupFiles(NamedTuple):
    """The encoded blocks of a group, concatenated in files: columns, counts, offsets, values."""

    path: str
    """Common prefix of the files."""
    runs: list[int]
    entries: list[int]
    """Number of runs, and of entries, in each block."""

    def read(self, what: str, dtype: Any, start: int, length: int) -> np.ndarray:
        """Return a range of a file."""
        dtype = np.dtype(dtype)
        return np.fromfile(f"{self.path}{what}", dtype, length, offset=dtype.itemsize * start)

    def length(self, what: str) -> int:
        """Return the number of elements in a file."""
        return sum(self.runs if what in ("columns", "counts") else self.entries)


def encode_group(
    sorted_runs: EntryRuns, n_features: int, bounds: np.ndarray, prefix: str, band: Band
) -> dict[str, Any]:
    """Write the blocks of a group: a saved step, with the fields of `GroupFiles` and the prefix of the files' names.

    Parameters
    ----------
    sorted_runs : EntryRuns
    n_features : int
    bounds : int64 array
        First columns of the ranges over which totals are summed, and `n_features`.
    prefix : str
        Common prefix of the files.
    band : Band
        The rows of the group.
    """
    folder, rows = sorted_runs.files.folder, sorted_runs.gathered_rows(band)
    prefix = f"{prefix}group{band.number}."
    runs, entries, stored = [], [], block_type(sorted_runs.values)
    whats = ("columns", "counts", "offsets", "values", "bounds")
    outs = {what: (folder / f"{prefix}{what}").open("wb") for what in whats}
    try:
        for block in encoded_blocks(rows, n_features):
            at = np.searchsorted(block.columns, bounds)
            starts = np.concatenate([[0], np.cumsum(block.counts, dtype=np.int64)])[at]
            values = block.values.astype(stored, copy=False)
            arrays = (block.columns, block.counts, block.offsets, values, np.array([at, starts], np.int64))
            for what, numbers in zip(whats, arrays, strict=True):
                outs[what].write(np.ascontiguousarray(numbers).data)
            runs.append(len(block.columns))
            entries.append(len(block.offsets))
    finally:
        for out in outs.values():
            out.close()
    return {"prefix": prefix, "runs": runs, "entries": entries, "files": files_of(folder, prefix)}


def sum_columns(groups: Sequence[GroupFiles], values: str, bounds: np.ndarray, prefix: str, number: int) -> str:
    """Write the totals of a range of columns, summed in the order of the blocks; return the file's path."""
    first, last = bounds[number : number + 2].tolist()
    totals, dtype = np.zeros((last - first, N_TOTALS)), column_type(int(bounds[-1]))
    for group in groups:
        n_bounds, run, entry = len(bounds), 0, 0
        for k, (n_runs, n_entries) in enumerate(zip(group.runs, group.entries, strict=True)):
            at, starts = group.read("bounds", np.int64, 2 * n_bounds * k, 2 * n_bounds).reshape(2, -1)
            (low, high), (begin, end) = at[number : number + 2].tolist(), starts[number : number + 2].tolist()
            columns = group.read("columns", dtype, run + low, high - low) - dtype.type(first)
            counts = group.read("counts", "u2", run + low, high - low)
            of_entries = NO_VALUES if values == "ones" else group.read("values", values, entry + begin, end - begin)
            add_to_totals(columns, counts, of_entries, totals)
            run, entry = run + n_runs, entry + n_entries
    path = f"{prefix}totals{number}"
    write_array(Path(path), totals)
    return path


class ArrayFiles(NamedTuple):
    """A range of files of an array of X."""

    name: str
    dtype: str
    first: int
    last: int
    """The first file, and the end of the range."""


def array_files(name: str, dtype: Any, length: int) -> list[ArrayFiles]:
    """Divide the files of an array of `length` elements into tasks."""
    n_files = -(-length // (CHUNKS_PER_FILE * chunk_length(name)))
    dtype = np.dtype(dtype).str
    return [
        ArrayFiles(name, dtype, first, min(first + _FILES_AT_ONCE, n_files))
        for first in range(0, n_files, _FILES_AT_ONCE)
    ]


def write_files(store: Path, groups: Sequence[GroupFiles], item: ArrayFiles) -> np.ndarray:
    """Write files of an array; for runs, return the first element and the sum of each chunk, shape (n_chunks, 2)."""
    what, chunk = item.name.removeprefix("X/"), chunk_length(item.name)
    start, stop = (at * CHUNKS_PER_FILE * chunk for at in (item.first, item.last))
    writer, position = VectorWriter(store, item.name, item.dtype, item.first), 0
    noted = np.zeros(((stop - start) // chunk if item.name in ("X/columns", "X/counts") else 0, 2), np.int64)
    for group in groups:
        length = group.length(what)
        low, high = max(start, position), min(stop, position + length)
        for first in range(low, high, _NUMBERS_AT_ONCE):
            some = group.read(what, item.dtype, first - position, min(_NUMBERS_AT_ONCE, high - first))
            writer.append(some)
            if len(noted):
                _note(some, first - start, chunk, noted)
        position += length
    writer.finish()
    return noted[: -(-(min(stop, position) - start) // chunk)]


def _note(some: np.ndarray, position: int, chunk: int, noted: np.ndarray) -> None:
    """Update `noted` with elements that begin at a position."""
    begun = np.arange(-position % chunk, len(some), chunk)
    noted[(position + begun) // chunk, 0] = some[begun]
    pieces = begun if len(begun) and begun[0] == 0 else np.concatenate([[0], begun])
    noted[(position + pieces) // chunk, 1] += np.add.reduceat(some, pieces, dtype=np.int64)
