"""Writes a feature store from rows in the source's order: a complete store, or nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import errors, interrupts
from daskfs.errors import PlanError
from daskfs.objects.path import ObjectPath
from daskfs.store.band_writer import BandWriter
from daskfs.store.column_statistics import RunningStatistics, statistics_rows
from daskfs.store.dense_runs import DenseBuffer, DenseFiles, DenseRuns, sort_dense_run, store_bands
from daskfs.store.header import ANNOTATION_DTYPES, FORMAT_VERSION, StoreHeader, content_digest
from daskfs.store.layout import BAND_NBYTES, MAX_FILES, SHARD_NBYTES, Codec, Layout, choose_layout, store_nbytes
from daskfs.store.row_checks import check_names, convert_rows, fit_at_a_glance
from daskfs.store.row_sorter import PIECE_NBYTES, RowSorter, taken
from daskfs.store.stored_arrays import seal, tables_of
from daskfs.store.tables import CLASSES, STATISTICS, consolidate
from daskfs.store.unfinished import disk_full
from daskfs.store.whole_writer import StoreSpec, WholeWriter
from daskfs.store.written_part import WrittenPart
from daskfs.watching.base import Progress

DataError = errors.DataError.about("shapes")

_MOST_TASKS = 64
"""Maximum number of tasks in which tiles are written."""


class StoreWriter(WholeWriter):
    """Writes a feature store; a context manager.

    Rows are checked, added to the column statistics, put in random order (out of core if they do not fit in memory) and
    written tile by tile. The folder is called `<name>.unfinished` until it is complete; after a failure, nothing is
    left.

    Parameters
    ----------
    path : path-like or URL
        Path of the store; nothing may exist there.
    n_features : int
    dtype : dtype
        dtype of X: floating point or integer.
    feature_names : sequence of str, optional
        Must be unique; default x0, x1, ...
    codec : {"raw", "lz4"}, optional
        Default: "lz4" for integers, and if it halves the first tile; otherwise "raw".
    n_samples : int, optional
        Number of rows, if known; saves a copy on disk when rows keep their order.
    n_expected : int, optional
        Estimated number of rows, if it is unknown; determines how the statistics are computed.
    memory_limit : int
        Maximum memory for all of the writer's blocks together, in bytes. In addition, target, weights, keys and labels
        of all rows are in memory: 32 bytes per row, and more for labels.
    tile_shape : tuple of int, optional
    allow_missing : bool
        Whether to allow NaN in X; it is counted per column.
    max_files, shard_nbytes : int
        See `choose_layout`.
    resident : ndarray of shape (n_samples, n_features), optional
        All rows, if they stay in memory until the store is written: they are read from this array, and only the length
        of the blocks' X is used.
    progress : Progress, optional
        Shows how many tiles are written while rows are reordered.
    goes_on_from : callable, optional
        Returns whether a folder with `KeptSteps` was started by the same ingest in a process that is dead.
    **facts
        The other fields of `StoreSpec`: source, target_names, shuffle ...

    Raises
    ------
    StoreExistsError
        Something exists at the path, or another process is writing there.
    StoreError
        The disk is full, or the folder cannot be created.
    DataError
        Names that are not unique, or values that do not fit (raised by `write`).
    PlanError
        `memory_limit` is too small for even a few rows.

    Notes
    -----
    Row i of the source has the key ``u_i``, the i-th double of ``np.random.default_rng(random_state)``, and the rows
    are stored by ascending key. So the order depends neither on the size of the blocks nor on the memory.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from daskfs.matrix.blocks import RowBlock
    >>> from daskfs.store.feature_store import open_store
    >>> path = tempfile.mkdtemp() + "/genes.zarr"
    >>> with StoreWriter(path, 3, "float32", target_names=["y"], source={"digest": "1"}) as writer:
    ...     writer.write(RowBlock(0, 2, np.eye(2, 3), y=np.array([1.0, 2.0])))
    >>> open_store(path).shape
    (2, 3)
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | ObjectPath,
        n_features: int,
        dtype: np.dtype | str = "float32",
        *,
        feature_names: Sequence[str] | None = None,
        codec: Codec | None = None,
        n_samples: int | None = None,
        n_expected: int | None = None,
        memory_limit: int = 1 << 30,
        tile_shape: tuple[int, int] | None = None,
        allow_missing: bool = False,
        max_files: int = MAX_FILES,
        shard_nbytes: int = SHARD_NBYTES,
        resident: np.ndarray | None = None,
        progress: Progress | None = None,
        goes_on_from: Callable[[Path], bool] | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(path, StoreSpec(dtype=dtype, **facts), memory_limit, progress, goes_on_from)
        self.n_features = n_features
        if self.dtype.kind not in "iuf" or self.dtype.itemsize > 8:
            raise DataError(f"expected a numeric dtype, found {self.dtype}", "dtype", "float32, float64 or int8")
        self.feature_names = check_names(feature_names, n_features)
        self.allow_missing = allow_missing
        self.codec: Codec | None = codec or ("lz4" if self.dtype.kind in "iu" else None)
        self.n_samples, self.tile_shape = n_samples, tile_shape
        self._n_expected = 2 * n_expected if n_samples is None and n_expected is not None else n_samples
        self.max_files, self.shard_nbytes = max_files, shard_nbytes
        self._resident = resident
        self._row_nbytes = n_features * self.dtype.itemsize
        if 8 * self._row_nbytes > memory_limit:
            raise PlanError(
                f"one row takes {self._row_nbytes:,} bytes, and writing needs memory for 8; "
                f"the memory limit is {memory_limit:,} bytes",
                "memory_limit",
                f"allow at least {8 * self._row_nbytes:,} bytes",
            )

    def _prepare(self) -> None:
        self._statistics = RunningStatistics(self.n_features, (self._n_expected or 0) * self._row_nbytes)
        self._block_rows = min(
            statistics_rows(self.n_features, self.dtype.itemsize),
            max(1, self.memory_limit // 8 // max(1, self._row_nbytes)),
        )
        self._block: np.ndarray | None = None
        self._n_filled = 0
        self._bands: BandWriter | None = None
        self._sorter: RowSorter[DenseBuffer] | None = None
        self._sorted_runs: DenseRuns | None = None
        if not self.spec.shuffle and self.n_samples is not None:
            self._bands = self._new_bands(self.n_samples)
        if self._bands is not None or self._resident is not None:
            return
        memory_nbytes = self.memory_limit // 4
        if self.spec.shuffle and self.n_samples is not None:
            nbytes = self.n_samples * self._row_nbytes
            self._check_disk(nbytes if nbytes > memory_nbytes else 0)
        files = self._run_files(memory_nbytes)
        n_rows = max(self._block_rows, files.run_rows)
        n_rows = n_rows if self.n_samples is None else min(n_rows, self.n_samples)
        self._sorter = RowSorter(DenseBuffer(files, n_rows), "", self.random_state)

    def _run_files(self, nbytes: int) -> DenseFiles:
        n_rows = max(1, nbytes // max(1, self._row_nbytes))
        return DenseFiles(self.kept.folder, tuple(self.feature_names), self.dtype, n_rows)

    def _checked_length(self, block: Any) -> int:
        shape = block.X.shape
        if len(shape) != 2 or shape[1] != self.n_features:
            raise DataError(f"expected {self.n_features} columns, found shape {shape}", "X")
        if self.n_samples is not None and self._n_rows + shape[0] > self.n_samples:
            raise self._wrong_length(f"at least {self._n_rows + shape[0]}")
        return int(shape[0])

    def _add(self, block: Any) -> None:
        X, start = block.X, 0
        while start < X.shape[0]:
            rows = slice(start, start + self._block_rows - self._n_filled)
            start += self._convert(X[rows]) if self._resident is None else self._pass(len(X[rows]))

    @property
    def files(self) -> DenseFiles:
        """Files that tasks write the rows to, in runs that they sort later."""
        return self._run_files(self.memory_limit // 3)

    def take_written(self, parts: Sequence[WrittenPart]) -> None:
        """Append all rows of the source at once, as written by tasks: its parts, in its order."""
        super().take_written(parts)
        if self.spec.shuffle:
            self._check_disk(self._n_rows * self._row_nbytes)
        self._sorted_runs = DenseRuns(self.files, [sorted_run for part in parts for sorted_run in part.sorted_runs])

    def _pass(self, n_rows: int) -> int:
        """Process resident rows, one complete block at a time."""
        assert self._resident is not None
        self._n_filled += n_rows
        self._n_rows += n_rows
        if self._n_filled == self._block_rows or self._n_rows == len(self._resident):
            rows = self._resident[self._n_rows - self._n_filled : self._n_rows]
            self._take_block(self._converted(rows, self._n_rows - self._n_filled))
        return n_rows

    def _converted(self, rows: np.ndarray, first_row: int) -> np.ndarray:
        """Return resident rows in the store's dtype, without a copy if they have it already."""
        if rows.dtype == self.dtype and fit_at_a_glance(rows):
            return rows
        converted = np.empty(rows.shape, self.dtype)
        convert_rows(rows, converted, names=self.feature_names, first_row=first_row, allow_missing=self.allow_missing)
        return converted

    def _convert(self, rows: Any) -> int:
        """Copy rows to the block for the statistics; return how many."""
        if self._block is None and self._sorter is not None:  # rows are collected where they are sorted
            buffer = self._sorter.buffer
            if buffer.n_rows + self._block_rows > len(buffer.rows) != self.n_samples:
                self._sorter.end_run()
            self._block = buffer.rows[buffer.n_rows : buffer.n_rows + self._block_rows]
        elif self._block is None:
            self._block = np.empty((self._block_rows, self.n_features), self.dtype)
        part = self._block[self._n_filled : self._n_filled + rows.shape[0]]
        convert_rows(rows, part, names=self.feature_names, first_row=self._n_rows, allow_missing=self.allow_missing)
        self._n_filled += len(part)
        self._n_rows += len(part)
        if self._n_filled == self._block_rows:
            self._take_block(self._block)
        return len(part)

    def _take_block(self, block: np.ndarray) -> None:
        rows = block[: self._n_filled]
        self._statistics.update(rows)
        if self._bands is not None:
            self._bands.write(rows)
        elif self._sorter is not None:
            self._sorter.buffer.n_rows += len(rows)
        self._block, self._n_filled = None, 0

    def _let_go(self) -> None:
        self._bands, self._sorter, self._block, self._resident = None, None, None, None

    def _finish(self) -> None:
        if self._block is not None:
            self._take_block(self._block)
        if self.n_samples not in (None, self._n_rows):
            raise self._wrong_length(str(self._n_rows))
        order = self._stored_order()
        self._write_matrix(order)
        header = self._header()
        self._write_tables(header, np.arange(self._n_rows) if order is None else order)
        with interrupts.held():  # Zarr writes in a thread of its own
            self._group.attrs["daskfs"] = header.to_dict()
        consolidate(self._site.folder)
        seal(self._site.folder)
        self._site.finish()

    def _wrong_length(self, found: str) -> errors.DataError:
        return DataError(f"expected {self.n_samples} rows, found {found}", "X", "check whether the source has changed")

    def _write_matrix(self, order: np.ndarray | None) -> None:
        bands = self._bands or self._new_bands(self._n_rows)
        order = np.arange(self._n_rows) if order is None else order
        if self._sorted_runs is not None:
            self._store_sorted_runs(bands, self._sorted_runs, order)
        elif self._bands is None:
            self.progress.start("tiles", self._n_rows)
            for n_rows in self._write_bands(bands, order):
                self.progress.advance(n_rows)
            self.progress.finish()
        bands.close()
        self._layout = bands.layout

    def _write_bands(self, bands: BandWriter, order: np.ndarray) -> Iterator[int]:
        """Write the tiles of all rows from this process, and yield how many rows were written."""
        if self._sorter is None or not self._sorter.sorted_runs:
            in_memory, nbytes = self._resident, PIECE_NBYTES
            if self._sorter is not None:
                in_memory, nbytes = self._sorter.buffer.rows, self._sorter.buffer.piece_nbytes
            assert in_memory is not None
            for rows in taken(in_memory, order, nbytes):
                bands.write(rows)
                yield len(rows)
            return
        self._sorter.end_run()
        sorted_runs = DenseRuns(self.files, self._sorter.sorted_runs)
        self._let_go()
        for band in sorted_runs.bands(order, self._ends_of_bands(bands)):
            for place, rows in sorted_runs.gathered(band):
                bands.put(place, rows)
            bands.end_band()
            yield band.stop - band.start

    def _ends_of_bands(self, bands: BandWriter) -> list[int]:
        starts = range(0, max(1, self._n_rows), bands.height)
        return [min(start + bands.height, self._n_rows) for start in starts]

    def _store_sorted_runs(self, bands: BandWriter, sorted_runs: DenseRuns, order: np.ndarray) -> None:
        """Sort the runs that tasks have written, and write the tiles of all rows, in tasks."""
        steps = partial(self.kept.map, self.workers)
        self.progress.start("tiles", 2 * self._n_rows)
        runs = list(sorted_runs.runs)
        shared: tuple[Any, ...] = (sorted_runs, self.random_state, self._block_rows)
        for k, found in steps(sort_dense_run, range(len(runs)), name="ingest-sort", shared=shared):
            runs[k] = self.files.run_of(found["run"])
            self.progress.advance(runs[k].n_rows)
        for run in sorted_runs.runs:
            for block in self.files.statistics_of(run):
                self._statistics.merge(block)
        sorted_runs = DenseRuns(self.files, runs)
        first, *others = sorted_runs.bands(order, self._ends_of_bands(bands))
        for place, rows in sorted_runs.gathered(first):  # its values determine the codec
            bands.put(place, rows)
        bands.close()
        self.progress.advance(first.stop)
        n_together = -(-len(others) // _MOST_TASKS) or 1
        tasks = [others[start : start + n_together] for start in range(0, len(others), n_together)]
        shared = (sorted_runs, self._site.folder, bands.layout)
        for _, found in steps(store_bands, tasks, name="ingest-tiles", shared=shared):
            self.progress.advance(found["n_rows"])
        self.progress.finish()

    def _write_tables(self, header: StoreHeader, order: np.ndarray) -> None:
        """Write what describes the rows, in the stored order, and the columns."""
        tables = tables_of(header)
        assert tables is not None
        of_columns = {"feature_names": np.array(self.feature_names, dtype=np.dtypes.StringDType())}
        of_columns |= {f"statistics/{name}": getattr(self._statistics, name) for name in STATISTICS}
        of_columns |= {f"annotations/{number}": values for number, values in enumerate(self.annotations.values())}
        if tables.has_classes:
            of_columns[CLASSES] = np.array(tables.classes, dtype=np.dtypes.StringDType())
        tables.write(self._group, self._vectors.in_order(order) | of_columns)

    def _header(self) -> StoreHeader:
        kind_of = {dtype: kind for kind, dtype in ANNOTATION_DTYPES.items()}
        kinds = {name: kind_of[values.dtype] for name, values in self.annotations.items()}
        header = StoreHeader(
            format_version=FORMAT_VERSION,
            annotations=kinds,
            shape=(self._n_rows, self.n_features),
            tile_shape=self._layout.tile_shape,
            shard_shape=self._layout.shard_shape,
            codec=self._layout.codec,
            **self._common_header(),
        )
        return replace(header, digest=content_digest(header, self.feature_names))

    def _new_bands(self, n_samples: int) -> BandWriter:
        def make_layout(codec: Codec | None) -> Layout:
            return choose_layout(
                n_samples,
                self.n_features,
                self.dtype,
                codec,
                tile_shape=self.tile_shape,
                band_nbytes=min(BAND_NBYTES, self.memory_limit // 8),
                max_files=self.max_files,
                shard_nbytes=self.shard_nbytes,
            )

        return BandWriter(
            self._group, self._site.folder, (n_samples, self.n_features), self.dtype, make_layout, self.codec
        )

    def _check_disk(self, nbytes: int) -> None:
        """Raise an error at once if the uncompressed spooled rows cannot fit on the disk."""
        free = shutil.disk_usage(self._site.folder.parent).free
        if nbytes > free:
            raise disk_full(f"{free:,} bytes are free", str(self.path), self._needed())

    def _needed(self) -> str:
        n_rows = self._n_rows if self.n_samples is None else self.n_samples
        if not n_rows:
            return ""
        layout = choose_layout(n_rows, self.n_features, self.dtype, self.codec, tile_shape=self.tile_shape)
        nbytes = store_nbytes(n_rows, self.n_features, self.dtype, layout)
        so_far = " for the rows read so far" if self.n_samples is None else ""
        # rows in parts are written as they come and, later, in order
        more = "about as much again" if self.kept.identity is None else "about twice as much again"
        return f"; {nbytes:,} bytes are needed{so_far}, and {more} while rows are reordered"
