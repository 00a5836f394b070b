"""Writes a sparse store: rows as entries, in the source's order, come in; a whole store or nothing comes out."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from daskfs import interrupts
from daskfs.cluster.workers import Workers
from daskfs.errors import DataError, PlanError, StoreError
from daskfs.kernels.blocks.column_totals import add_to_totals, mean_and_deviation
from daskfs.matrix.base import Progress, Silent
from daskfs.matrix.blocks import Crowding, Heaviest
from daskfs.store.header import SPARSE_FORMAT_VERSION, SparseHeader, content_digest, versions
from daskfs.store.row_vectors import RowVectors, write_vector
from daskfs.store.sparse.encoding import ENTRY_NBYTES, EncodedBlock, encoded_blocks, gathered, groups_of
from daskfs.store.sparse.layout import BLOCK_ROWS, ENTRY_CHUNK, RUN_CHUNK, column_type
from daskfs.store.sparse.merging import NameGatherer, NameWriters, merge_ids, merge_names
from daskfs.store.sparse.part_writer import WrittenRows, sort_stretch
from daskfs.store.sparse.stretches import Stretch, Stretches, StretchFiles, StretchWriter
from daskfs.store.sparse.vectors import VectorWriter
from daskfs.store.spool import draw_seed, stored_order
from daskfs.store.stored_arrays import seal
from daskfs.store.unfinished import UnfinishedStore

_PIECE = 1 << 16
_STATISTICS = ("mean", "std", "minimum", "maximum")


class SparseStoreWriter:
    """Writes a sparse store; a context manager.

    Parameters
    ----------
    path : path-like
        Path of the store; nothing may exist there.
    n_features : int, optional
        Columns; by default as many as there are ids, or one more than the largest number of a column.
    dtype : {"float32", "float64", "int8"}
        dtype of X as it is read. On disk values are as small as all of them allow.
    has_ids : bool
        Features are 64-bit ids, of which those that occur become columns, in ascending order.
    target_names, has_weight, label_names, shuffle, random_state, source, encoding_digest, notes, progress
        As of `daskfs.store.writer.StoreWriter`. Rows are stored in the order in which it would store them.
    memory_limit : int
        Bytes that the writer's arrays may take together. In addition, the target, weights, keys, labels and numbers
        of entries of all rows are in memory.

    Raises
    ------
    StoreExistsError, StoreError
        See `UnfinishedStore`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        n_features: int | None = None,
        dtype: Any = "float32",
        *,
        has_ids: bool = False,
        target_names: Sequence[str] = (),
        has_weight: bool = False,
        label_names: Sequence[str] = (),
        shuffle: bool = True,
        random_state: int | None = 0,
        source: Mapping[str, Any],
        encoding_digest: str = "",
        memory_limit: int = 1 << 30,
        notes: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> None:
        self.path, self.n_features, self.dtype = Path(path).expanduser().absolute(), n_features, np.dtype(dtype)
        self.has_ids, self.target_names, self.label_names = has_ids, tuple(target_names), tuple(label_names)
        self.has_weight, self.shuffle = has_weight, shuffle
        self.random_state = draw_seed(random_state) if shuffle else None
        self.source, self.encoding_digest, self.notes = dict(source), encoding_digest, list(notes)
        self.memory_limit, self.progress = memory_limit, progress or Silent()

    def __enter__(self) -> SparseStoreWriter:
        import zarr

        is_begun = False
        try:
            with interrupts.held():
                self._site, is_begun = UnfinishedStore(self.path), True
            self.notes += self._site.notes
            self._group: Any = zarr.create_group(str(self._site.folder), zarr_format=3)
            self._folder = self._site.folder / "rows"
            self._folder.mkdir()
            self._files = StretchFiles(self._folder, self.dtype, self.has_ids, self.n_features)
            self._stretch, self._parts = StretchWriter(self._files), list[Stretch]()
            self._names = NameGatherer(self._folder, "names", self.memory_limit // 8)
            self._vectors = RowVectors(self.target_names, self.has_weight, self.label_names)
            self._rng = np.random.default_rng(self.random_state)
            self._keys, self._lengths = [np.empty(0)], [np.empty(0, np.int32)]
            self._n_rows, self._is_whole = 0, True
        except BaseException:
            if is_begun:
                self._site.remove()
            raise
        return self

    def write(self, block: Any, labels: Mapping[str, Any] | None = None) -> None:
        """Take the next rows of the source.

        Parameters
        ----------
        block : SparseBlock
            Nothing of it is kept: buffers may be used again.
        labels : dict of str to array of str, optional
            Default: the block's own.

        Raises
        ------
        DataError
            Values that do not fit, features that do not ascend in a row, with the place.
        StoreError
            The disk is full.
        """
        with self._explain_disk_full():
            if block.start != self._n_rows:
                raise DataError(f"expected rows from {self._n_rows} on, found {block.start}", "X", "write in order")
            self._is_whole = False
            self._vectors.append(block, block.n_rows, labels, self._n_rows)
            self._stretch.add(block, self._n_rows)
            self._names.add(block.names)
            self._n_rows += block.n_rows
            if self._stretch.nbytes > self.memory_limit // 3:
                self._end_stretch()
            self._is_whole = True

    def _end_stretch(self) -> None:
        """Write the rows so far to files, by the keys that `StoreWriter` would draw for them."""
        keys = self._rng.random(self._stretch.n_rows) if self.shuffle else np.empty(0)
        lengths = self._stretch.lengths
        self._parts.append(self._stretch.finish(str(len(self._parts)), keys if self.shuffle else None))
        self._keys.append(keys)
        self._lengths.append(lengths)

    @property
    def files(self) -> StretchFiles:
        """Where other processes are to write rows."""
        return self._files

    def take_written(self, parts: Sequence[WrittenRows], blocks: Sequence[Any], workers: Workers) -> None:
        """Take all rows of the source at once, as other processes have written them.

        Parameters
        ----------
        parts : sequence of WrittenRows
            In the source's order.
        blocks : sequence of SparseBlock
            Targets, weights and labels of all rows.
        workers : Workers
            On which they are put in order.
        """
        for block in blocks:
            self._vectors.append(block, block.n_rows, None, self._n_rows)
            self._n_rows += block.n_rows
        self._parts = [stretch for part in parts for stretch in part.stretches]
        self._lengths += [part.lengths for part in parts]
        for part in parts:
            self._names.runs.extend(part.names)
            self._names.collisions.merge(part.collisions)
        if self.random_state is not None:
            starts = np.cumsum([0, *(stretch.n_rows for stretch in self._parts)]).tolist()
            items = list(zip(self._parts, starts, strict=False))
            shared = (self._files, self.random_state)
            for k, stretch in workers.map_blocks(sort_stretch, items, name="ingest-sort", shared=shared):
                interrupts.check()
                self._parts[k] = stretch
            self._keys.append(self._rng.random(self._n_rows))

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_done = False
        try:
            if kind is None:
                with self._explain_disk_full():
                    self._finish()
                is_done = True
        finally:
            self._keys, self._lengths = [], []
            if not is_done:
                with interrupts.held():
                    self._site.remove()

    def _finish(self) -> None:
        if not self._is_whole:
            raise StoreError("a block was refused, so rows are missing", str(self.path), "let the error end it")
        if self._stretch.n_rows or not self._parts:
            self._end_stretch()
        self._names.finish()
        order = stored_order(np.concatenate(self._keys)) if self.shuffle else None
        lengths = np.concatenate(self._lengths)
        stretches = Stretches(self._files, self._parts)
        for name in ("X", "statistics", "names"):
            if name != "names" or self._names.runs:
                self._group.create_group(name)
        n_features = self._number_columns()
        totals = self._totals(n_features)
        matrix = self._write_matrix(stretches, np.arange(self._n_rows) if order is None else order, lengths, totals)
        self._write_statistics(totals)
        names = self._write_names(n_features)
        self._vectors.write(self._group, order)
        counts = (totals[start : start + _PIECE, 1] for start in range(0, n_features, _PIECE))
        fullest = int(np.diff([first for _, first in matrix.starts]).max(initial=0))
        crowding = Crowding(fullest, Heaviest.of_counts([lengths]), Heaviest.of_counts(counts))
        header = self._header(n_features, stretches.values, matrix, names)
        self._group.attrs["daskfs"] = replace(header, crowding=crowding).to_dict()
        del totals
        shutil.rmtree(self._folder)
        seal(self._site.folder)
        self._site.finish()

    def _number_columns(self) -> int:
        """Merge the stretches' ids; return how many columns there are."""
        if not self.has_ids:
            most = max((part.n_features for part in self._parts), default=0)
            return most if self.n_features is None else self.n_features
        ids = VectorWriter(self._site.folder, "ids", "u8")
        self._ids = merge_ids(self._files, self._parts, ids, self.memory_limit // 4)
        ids.close(self._group)
        return ids.length

    def _totals(self, n_features: int) -> np.ndarray:
        """Return room for the sums of all columns: on disk, where memory is short."""
        shape = (n_features, 6)
        if 48 * n_features <= self.memory_limit // 8:
            return np.zeros(shape)
        path = self._folder / "totals"
        with path.open("wb") as file:  # room on the disk now: a page that cannot be written later ends the process
            os.posix_fallocate(file.fileno(), 0, 48 * n_features)
        return np.memmap(path, np.float64, "r+", shape=shape)

    def _write_matrix(
        self, stretches: Stretches, order: np.ndarray, lengths: np.ndarray, totals: np.ndarray
    ) -> _MatrixWriter:
        most = max(1, self.memory_limit // 3 // ENTRY_NBYTES)
        self._check_memory(lengths, order, most)
        self.progress.start("blocks", len(order))
        matrix = _MatrixWriter(self._site.folder, len(totals), stretches.values)
        for group in groups_of(stretches, order, lengths, most):
            interrupts.check()
            for block in encoded_blocks(gathered(stretches, group), len(totals)):
                matrix.append(block)
                add_to_totals(block.columns, block.counts, block.values, totals)
            self.progress.advance(len(group.source_rows))
        matrix.close(self._group, lengths[order])
        self.progress.finish()
        return matrix

    def _check_memory(self, lengths: np.ndarray, order: np.ndarray, most: int) -> None:
        """Refuse a limit in which one block of rows has no room."""
        starts = np.arange(0, len(order), BLOCK_ROWS)
        n_entries = int(np.add.reduceat(lengths[order], starts, dtype=np.int64).max()) if len(order) else 0
        if n_entries > 2 * most:
            needed = 3 * ENTRY_NBYTES * n_entries // 2 + 1
            problem = f"{BLOCK_ROWS:,} rows have {n_entries:,} entries, and writing them takes {needed:,} bytes"
            raise PlanError(f"{problem}; the memory limit is {self.memory_limit:,}", "memory_limit", "allow as many")

    def _write_statistics(self, totals: np.ndarray) -> None:
        writers = {name: VectorWriter(self._site.folder, f"statistics/{name}", "f8") for name in _STATISTICS}
        n_rows, n_constant = float(self._n_rows), 0
        for start in range(0, len(totals), _PIECE):
            first, n_entries, sums, squares, least, most = totals[start : start + _PIECE].T
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
        """Return how many columns have a name, and the bytes of all names."""
        if not self._names.runs:
            return 0, 0
        folder, collisions = self._site.folder, self._names.collisions
        kinds = {"columns": "i8", "ends": "i8", "text": "u1"}
        writers = NameWriters(*(VectorWriter(folder, f"names/{name}", kind) for name, kind in kinds.items()))
        ids = np.memmap(self._ids, np.uint64, "r", shape=(n_features,)) if self.has_ids and n_features else None
        memory_nbytes = self.memory_limit // 4
        merge_names(self._folder, self._names.runs, ids, n_features, writers, collisions, memory_nbytes)
        for writer in writers:
            writer.close(self._group)
        n_names = writers.columns.length
        if n_names in (0, n_features):
            shutil.rmtree(folder / "names" / ("columns" if n_names else ""))
        if collisions.kept is not None:
            self.notes.append(f"several names have the same id, the first is kept: {collisions.kept!r}, for example")
        return n_names, writers.text.length

    def _header(self, n_features: int, values: str, matrix: _MatrixWriter, names: tuple[int, int]) -> SparseHeader:
        n_columns = max(1, min(n_features, n_features * ENTRY_CHUNK * len(matrix.starts) // max(1, matrix.n_entries)))
        header = SparseHeader(
            format_version=SPARSE_FORMAT_VERSION,
            shape=(self._n_rows, n_features),
            dtype=self.dtype.name,
            tile_shape=(BLOCK_ROWS, n_columns),
            shard_shape=None,
            codec="lz4",
            shuffled=self.shuffle,
            random_state=self.random_state,
            target_names=self.target_names,
            label_names=self.label_names,
            has_weight=self.has_weight,
            source=self.source,
            encoding_digest=self.encoding_digest,
            digest="",
            notes=tuple(self.notes),
            created_with=versions(),
            n_entries=matrix.n_entries,
            n_runs=matrix.n_runs,
            values=values,
            has_ids=self.has_ids,
            n_names=names[0],
            names_nbytes=names[1],
        )
        return replace(header, digest=content_digest(header))

    @contextmanager
    def _explain_disk_full(self) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            if fault.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            found = os.strerror(fault.errno).lower()
            remedy = "free disk space, or choose another disk"
            raise StoreError(f"the disk is full ({found})", str(self.path), remedy) from None


class _MatrixWriter:
    """The arrays of X, to which blocks are appended.

    Parameters
    ----------
    folder : Path
        Of the store.
    n_features : int
    values : str
        As what they are stored; see `SparseHeader`.
    """

    def __init__(self, folder: Path, n_features: int, values: str) -> None:
        self._columns = VectorWriter(folder, "X/columns", column_type(n_features))
        self._counts = VectorWriter(folder, "X/counts", "u2")
        self._offsets = VectorWriter(folder, "X/offsets", "u2")
        self._lengths = VectorWriter(folder, "X/lengths", "u4")
        self._values = None if values == "ones" else VectorWriter(folder, "X/values", values)
        self.starts: list[tuple[int, int]] = [(0, 0)]
        self._marks: list[np.ndarray] = [np.empty((0, 2), np.int64)]

    @property
    def n_runs(self) -> int:
        """Runs so far."""
        return self._columns.length

    @property
    def n_entries(self) -> int:
        """Entries so far."""
        return self._offsets.length

    def append(self, block: EncodedBlock) -> None:
        """Take the next block of rows."""
        first = -self.n_runs % RUN_CHUNK
        starts = self.n_entries + np.cumsum(block.counts, dtype=np.int64) - block.counts
        marked = slice(first, None, RUN_CHUNK)
        self._marks.append(np.column_stack([block.columns[marked].astype(np.int64), starts[marked]]))
        self._columns.append(block.columns)
        self._counts.append(block.counts)
        self._offsets.append(block.offsets)
        if self._values is not None:
            self._values.append(block.values)
        self.starts.append((self.n_runs, self.n_entries))

    def close(self, group: Any, lengths: np.ndarray) -> None:
        """Write what is left, and the numbers of entries of all rows."""
        self._lengths.append(lengths)
        for writer in (self._columns, self._counts, self._offsets, self._lengths, self._values):
            if writer is not None:
                writer.close(group)
        write_vector(group["X"], "blocks", np.array(self.starts, np.int64))
        write_vector(group["X"], "marks", np.concatenate(self._marks))
