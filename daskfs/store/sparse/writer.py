"""Writes a sparse store from rows of entries in the source's order: a complete store, or nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import errors, interrupts
from daskfs.errors import PlanError
from daskfs.kernels.blocks.column_totals import mean_and_deviation
from daskfs.matrix.blocks import Crowding, Heaviest
from daskfs.objects.path import ObjectPath
from daskfs.store.header import SPARSE_FORMAT_VERSION, SparseHeader, content_digest
from daskfs.store.row_sorter import RowSorter
from daskfs.store.sparse.encoding import ENTRY_NBYTES
from daskfs.store.sparse.entry_runs import EntryBuffer, EntryFiles, EntryRuns, sort_entry_run
from daskfs.store.sparse.finishing import (
    N_TOTALS,
    GroupFiles,
    array_files,
    block_type,
    encode_group,
    sum_columns,
    write_files,
)
from daskfs.store.sparse.layout import BLOCK_ROWS, ENTRY_CHUNK, column_type
from daskfs.store.sparse.merging import NameGatherer, NameWriters, merge_ids, merge_names
from daskfs.store.sparse.vectors import VectorWriter, describe
from daskfs.store.stored_arrays import seal
from daskfs.store.tables import write_vector
from daskfs.store.whole_writer import StoreSpec, WholeWriter
from daskfs.store.written_part import WrittenPart
from daskfs.watching.base import Progress

DataError = errors.DataError.about("shapes")

_PIECE = 1 << 16
_MOST_ENTRIES = 1 << 21
"""Maximum number of entries that a task gathers and sorts; independent of memory, so that there are enough tasks."""
_N_RANGES = 16
"""Minimum number of column ranges whose totals are summed in parallel."""
_STATISTICS = ("mean", "std", "minimum", "maximum")


class SparseStoreWriter(WholeWriter):
    """Writes a sparse store; a context manager.

    Parameters
    ----------
    path : path-like
        Path of the store; nothing may exist there.
    n_features : int, optional
        Number of columns; by default the number of ids, or one more than the largest column number.
    dtype : {"float32", "float64", "int8"}
        The dtype in which X is read. On disk, values have the smallest type that fits all of them.
    has_ids : bool
        Whether features are 64-bit ids; those that occur become columns, in ascending order.
    first_number : int, optional
        Name of the first column, from which the other names count up, if columns have no names.
    memory_limit : int
        Maximum memory for all of the writer's arrays together, in bytes. In addition, target, weights, keys, labels and
        numbers of entries of all rows are in memory.
    goes_on_from : callable, optional
        Returns whether a folder with `KeptSteps` was started by the same ingest in a process that is dead.
    progress : Progress, optional
    **facts
        The other fields of `StoreSpec`. Rows have the order that `daskfs.store.writer.StoreWriter` would give them.

    Raises
    ------
    StoreExistsError, StoreError
        See `UnfinishedStore`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | ObjectPath,
        n_features: int | None = None,
        dtype: Any = "float32",
        *,
        has_ids: bool = False,
        first_number: int | None = None,
        memory_limit: int = 1 << 30,
        progress: Progress | None = None,
        goes_on_from: Callable[[Path], bool] | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(path, StoreSpec(dtype=dtype, **facts), memory_limit, progress, goes_on_from)
        self.n_features, self.has_ids = n_features, has_ids
        self._first_number = first_number

    def _prepare(self) -> None:
        memory_limit = self.memory_limit
        self.files = EntryFiles(self.kept.folder, self.dtype, self.has_ids, self.n_features, memory_limit // 3)
        self._sorter = RowSorter(EntryBuffer(self.files), self.prefix, self.random_state)
        self._sorted_runs: EntryRuns | None = None
        self._names = NameGatherer(self.kept.folder, f"{self.prefix}names", memory_limit // 8)

    def _checked_length(self, block: Any) -> int:
        return int(block.n_rows)

    def _add(self, block: Any) -> None:
        self._sorter.add(block)
        self._names.add(block.names)
        self._n_rows += block.n_rows

    def take_written(self, parts: Sequence[WrittenPart]) -> None:
        """Append all rows of the source at once, as written by tasks: its parts, in its order."""
        super().take_written(parts)
        for part in parts:
            self._names.runs.extend(part.names)
            self._names.collisions.merge(part.collisions)
        runs = [sorted_run for part in parts for sorted_run in part.sorted_runs]
        if self.random_state is not None:
            shared = (EntryRuns(self.files, runs), self.random_state)
            items, runs = range(len(runs)), list(runs)
            for k, found in self.kept.map(self.workers, sort_entry_run, items, name="ingest-sort", shared=shared):
                interrupts.check()
                runs[k] = self.files.run_of(found["run"])
        self._sorted_runs = EntryRuns(self.files, runs)

    def _finish(self) -> None:
        if self._sorted_runs is None:
            self._sorter.end_run()
            self._sorted_runs = EntryRuns(self.files, self._sorter.sorted_runs)
        self._names.finish()
        sorted_runs, order = self._sorted_runs, self._stored_order()
        lengths = np.concatenate([np.empty(0, np.int32), *map(self.files.lengths_of, sorted_runs.runs)])
        for name in ("X", "statistics", "names"):
            if name != "names" or self._names.runs:
                with interrupts.held():  # Zarr writes in a thread of its own
                    self._group.create_group(name)
        n_features = self._number_columns(sorted_runs)
        bounds = self._bounds(n_features)
        stored_rows = np.arange(self._n_rows) if order is None else order
        groups = self._encode(sorted_runs, stored_rows, lengths, bounds)
        paths = self._sum_columns(groups, sorted_runs.values, bounds)
        n_runs, n_entries = self._write_matrix(groups, sorted_runs.values, n_features, lengths[stored_rows])
        self._write_statistics(paths)
        names = self._write_names(n_features)
        if self.spec.label_names:
            with interrupts.held():  # Zarr writes in a thread of its own
                self._group.create_group("labels")
        for name, values in self._vectors.in_order(order).items():
            write_vector(self._group, name, values)
        counts = (totals[:, 1] for totals in _pieces_of(paths))
        crowding = Crowding(
            max((most for group in groups for most in group.entries), default=0),
            Heaviest.of_counts([lengths]),
            Heaviest.of_counts(counts),
        )
        sizes = {"n_entries": n_entries, "n_runs": n_runs, "values": sorted_runs.values, "crowding": crowding}
        header = self._header(n_features, names, sizes).to_dict()
        with interrupts.held():  # Zarr writes in a thread of its own
            self._group.attrs["daskfs"] = header
        seal(self._site.folder)
        self._site.finish()

    def _number_columns(self, sorted_runs: EntryRuns) -> int:
        """Merge the ids of the sorted runs; return the number of columns."""
        if not self.has_ids:
            most = max((run.n_features for run in sorted_runs.runs), default=0)
            return most if self.n_features is None else self.n_features
        ids = VectorWriter(self._site.folder, "ids", "u8")
        self._ids = merge_ids(self.files, sorted_runs.runs, ids, self.memory_limit // 4)
        ids.close(self._group)
        return ids.length

    def _bounds(self, n_features: int) -> np.ndarray:
        """Divide the columns into ranges whose totals fit into memory."""
        n_ranges = max(_N_RANGES, -(-8 * N_TOTALS * n_features // max(1, self.memory_limit // 8)))
        return np.linspace(0, n_features, min(n_ranges, max(1, n_features)) + 1).astype(np.int64)

    def _encode(
        self, sorted_runs: EntryRuns, order: np.ndarray, lengths: np.ndarray, bounds: np.ndarray
    ) -> list[GroupFiles]:
        """Gather the rows in the stored order, and sort each block by column."""
        ends = self._ends_of_groups(lengths[order], max(1, self.memory_limit // 3 // ENTRY_NBYTES))
        bands = list(sorted_runs.bands(order, ends, lengths))
        groups: dict[int, GroupFiles] = {}
        self.progress.start("blocks", len(order))
        shared = (sorted_runs, int(bounds[-1]), bounds, self.prefix)
        for k, written in self.kept.map(self.workers, encode_group, bands, name="ingest-blocks", shared=shared):
            interrupts.check()
            groups[k] = GroupFiles(str(self.files.folder / written["prefix"]), written["runs"], written["entries"])
            self.progress.advance(bands[k].stop - bands[k].start)
        self.progress.finish()
        return [groups[k] for k in sorted(groups)]

    def _ends_of_groups(self, lengths: np.ndarray, most: int) -> list[int]:
        """Return the ends of groups of complete blocks of stored rows, with at most `most` entries, or of one block.

        Raises
        ------
        PlanError
            A block needs more memory than there is.
        """
        starts = np.arange(0, len(lengths), BLOCK_ROWS)
        n_entries = np.add.reduceat(lengths, starts, dtype=np.int64) if len(lengths) else np.empty(0, np.int64)
        largest = int(n_entries.max(initial=0))
        if largest > 2 * most:
            needed = 3 * ENTRY_NBYTES * largest // 2 + 1
            problem = f"{BLOCK_ROWS:,} rows have {largest:,} entries, and writing them takes {needed:,} bytes"
            raise PlanError(f"{problem}; the memory limit is {self.memory_limit:,}", "memory_limit", "increase it")
        ends, total = list[int](), 0
        for block, more in enumerate(n_entries.tolist()):
            if block and total + more > min(most, _MOST_ENTRIES):
                ends.append(block * BLOCK_ROWS)
                total = 0
            total += more
        return [*ends, len(lengths)] if len(lengths) else []

    def _sum_columns(self, groups: list[GroupFiles], values: str, bounds: np.ndarray) -> list[str]:
        """Sum the totals of all columns; return the paths of the results, by range."""
        shared = (groups, values, bounds, str(self.files.folder / self.prefix))
        ranges = range(len(bounds) - 1)
        paths = dict(self.workers.map_blocks(sum_columns, ranges, name="ingest-totals", shared=shared))
        return [paths[k] for k in ranges]

    def _write_matrix(
        self, groups: list[GroupFiles], values: str, n_features: int, lengths: np.ndarray
    ) -> tuple[int, int]:
        """Write the arrays of X; return the numbers of runs and entries."""
        starts = np.array([(0, 0), *(two for group in groups for two in zip(group.runs, group.entries, strict=True))])
        starts = np.cumsum(starts, axis=0, dtype=np.int64)
        n_runs, n_entries = starts[-1].tolist()
        arrays = {"X/columns": (column_type(n_features), n_runs), "X/counts": (np.dtype("u2"), n_runs)}
        arrays["X/offsets"] = np.dtype("u2"), n_entries
        if values != "ones":
            arrays["X/values"] = block_type(values), n_entries
        items = [files for name, (dtype, length) in arrays.items() for files in array_files(name, dtype, length)]
        noted: dict[str, dict[int, np.ndarray]] = {name: {} for name in arrays}
        shared = (self._site.folder, groups)
        for k, found in self.workers.map_blocks(write_files, items, name="ingest-arrays", shared=shared):
            interrupts.check()
            noted[items[k].name][items[k].first] = found
        for name, (dtype, length) in arrays.items():
            describe(self._group, name, dtype, length)
        row_lengths = VectorWriter(self._site.folder, "X/lengths", "u4")
        row_lengths.append(lengths)
        row_lengths.close(self._group)
        columns, counts = (
            np.concatenate([np.empty((0, 2), np.int64), *(noted[name][k] for k in sorted(noted[name]))])
            for name in ("X/columns", "X/counts")
        )
        before = np.cumsum(counts[:, 1]) - counts[:, 1]
        write_vector(self._group["X"], "blocks", starts)
        write_vector(self._group["X"], "marks", np.column_stack([columns[:, 0], before]))
        return n_runs, n_entries

    def _write_statistics(self, paths: Sequence[str]) -> None:
        writers = {name: VectorWriter(self._site.folder, f"statistics/{name}", "f8") for name in _STATISTICS}
        n_rows, n_constant = float(self._n_rows), 0
        for totals in _pieces_of(paths):
            first, n_entries, sums, squares, least, most = totals.T
            mean, std = mean_and_deviation(first, n_entries, sums, squares, n_rows)
            is_full = n_entries == n_rows
            minimum = np.where(is_full, least, np.minimum(least, 0.0))
            maximum = np.where(is_full, most, np.maximum(most, 0.0))
            n_constant += int((minimum == maximum).sum())
            for name, values in zip(_STATISTICS, (mean, std, minimum, maximum), strict=True):
                writers[name].append(values)
        for writer in writers.values():
            writer.close(self._group)
        if n_constant:
            self.notes.append(f"{n_constant:,} constant feature(s), kept but never selected")

    def _write_names(self, n_features: int) -> tuple[int, int]:
        """Write the names; return the number of columns with a name, and the size of all names in bytes."""
        if not self._names.runs:
            return 0, 0
        folder, collisions = self._site.folder, self._names.collisions
        kinds = {"columns": "i8", "ends": "i8", "text": "u1"}
        writers = NameWriters(*(VectorWriter(folder, f"names/{name}", kind) for name, kind in kinds.items()))
        ids = np.memmap(self._ids, np.uint64, "r", shape=(n_features,)) if self.has_ids and n_features else None
        memory_nbytes = self.memory_limit // 4
        merge_names(self.files.folder, self._names.runs, ids, n_features, writers, collisions, memory_nbytes)
        for writer in writers:
            writer.close(self._group)
        n_names = writers.columns.length
        if n_names in (0, n_features):
            shutil.rmtree(folder / "names" / ("columns" if n_names else ""))
        if collisions.kept is not None:
            self.notes.append(f"several names have the same id; the first one is kept, for example {collisions.kept!r}")
        return n_names, writers.text.length

    def _header(self, n_features: int, names: tuple[int, int], sizes: dict[str, Any]) -> SparseHeader:
        n_blocks, n_entries = -(-self._n_rows // BLOCK_ROWS) + 1, sizes["n_entries"]
        n_columns = max(1, min(n_features, n_features * ENTRY_CHUNK * n_blocks // max(1, n_entries)))
        header = SparseHeader(
            format_version=SPARSE_FORMAT_VERSION,
            shape=(self._n_rows, n_features),
            tile_shape=(BLOCK_ROWS, n_columns),
            shard_shape=None,
            codec="lz4",
            has_ids=self.has_ids,
            n_names=names[0],
            names_nbytes=names[1],
            first_number=self._first_number,
            **sizes,
            **self._common_header(),
        )
        return replace(header, digest=content_digest(header))


def _pieces_of(paths: Sequence[str]) -> Iterator[np.ndarray]:
    """Yield the totals of consecutive columns, of shape (n_columns, N_TOTALS)."""
    for path in paths:
        with Path(path).open("rb") as file:
            while len(totals := np.fromfile(file, np.float64, _PIECE * N_TOTALS)):
                yield totals.reshape(-1, N_TOTALS)
