"""Writes the rows of a source to a store: in one stream, or in parts encoded by tasks into the same store.

Finished parts survive if the process is killed: the next ingest of the same source to the same path goes on from them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import errors, interrupts
from daskfs.cluster.workers import Workers
from daskfs.matrix.target import WholeValues
from daskfs.sources.base import NotInPartsError, Source, SourceBlock, attempted, until_fault
from daskfs.sources.sparse.base import SparseBlock, SparseSource
from daskfs.store.unfinished import DESCRIPTION, KeptSteps
from daskfs.store.whole_writer import WholeWriter
from daskfs.store.written_part import PartWriter, WrittenPart

DataError = errors.DataError.about("target")

MAX_BLOCK_NBYTES = 32 * 2**20
MOST_ROWS, MOST_ENTRIES = 1 << 16, 1 << 20
"""Maximum numbers of rows and entries in a sparse block."""
_FIRST_ROWS, _NAMED_IN_A_NOTE = 64, 10


def described(rows: Source) -> dict[str, Any]:
    """Return the description of a source that a store keeps."""
    classes = {} if rows.target_classes is None else {"target_classes": rows.target_classes}
    several = {} if rows.table_columns is None else {"table_columns": rows.table_columns}
    return {**rows.describe(), "digest": rows.digest(), **classes, **several, "encoder": rows.encoder}


def blocks_of(
    rows: Source, dtype: np.dtype, memory_limit: int, part: Any = None
) -> Iterator[SourceBlock] | Iterator[SparseBlock]:
    """Return the rows of a source, or of one of its parts, in blocks whose size suits a store's dtype and a process.

    Parameters
    ----------
    rows : Source
    dtype : dtype
        The dtype of the store.
    memory_limit : int
        Bytes for all buffers of the process.
    part : object, optional
        From `Source.parts`; by default all rows.
    """
    if isinstance(rows, SparseSource):
        shape = MOST_ROWS, min(MOST_ENTRIES, max(1, memory_limit // 128))
        return rows.sparse_blocks(*shape) if part is None else rows.sparse_part_blocks(part, *shape)
    encoded = np.dtype(np.float32 if dtype == np.float32 else np.float64)
    row_nbytes = max(1, len(rows.feature_names) * encoded.itemsize)
    n_rows = max(1, min(memory_limit // 8, MAX_BLOCK_NBYTES) // row_nbytes)
    return rows.row_blocks(n_rows, encoded) if part is None else rows.part_blocks(part, n_rows, encoded)


def write_whole(rows: Source, writer: Any, memory_limit: int, workers: Workers) -> None:
    """Write all rows in one stream."""
    constants, progress = Constants(), writer.progress
    writer.workers = workers
    with writer:
        progress.start("ingest", rows.n_samples or rows.estimate_shape()[0] or 0)
        for block in blocks_of(rows, writer.dtype, memory_limit):
            interrupts.check()  # pyarrow swallows a KeyboardInterrupt while it imports pandas
            writer.write(block)
            constants.update_features(block)
            constants.update_target(block)
            progress.advance(block.n_rows)
        constants.conclude(rows, writer)
        interrupts.check()
        progress.finish()


def write_in_parts(
    rows: Source, parts: Sequence[Any], writer: Any, identity: Mapping[str, Any], limit: int, workers: Workers
) -> None:
    """Let workers encode the parts of a source.

    Parameters
    ----------
    rows : Source
    parts : sequence
        From `Source.parts`.
    writer : StoreWriter or SparseStoreWriter
    identity : mapping
        Identity of the ingest; see `KeptSteps`.
    limit : int
        Bytes for each process.
    workers : Workers

    Raises
    ------
    NotInPartsError
        The source must be read as a whole.
    SourceError, SchemaError, DataError
        With the place.
    """
    constants, progress = Constants(), writer.progress
    writer.workers = workers
    with writer:
        writer.begin(identity)
        progress.start("ingest", rows.n_samples or rows.estimate_shape()[0] or 0)
        tasks, found = [None, *enumerate(parts)], dict[int, Any]()  # None: describe the source, which reads all files
        shared = (rows, writer.files, writer.prefix, limit)
        steps = writer.kept.map(workers, encode_part, tasks, name="ingest-encode", shared=shared)
        for k, found[k] in until_fault(rows, steps, first=1):
            interrupts.check()
            progress.advance(found[k]["n_rows"] if k else 0)
        writer.source = found.pop(0)["source"]
        facts = [found[k]["facts"] for k in sorted(found)]
        results = [found[k] for k in sorted(found) if found[k]["n_rows"]]  # others do not know their targets
        written = [WrittenPart(writer.files, one) for one in results]
        for part, result in zip(written, results, strict=True):
            constants.merge_features(result["constants"])
            constants.update_target(part)
        rows.conclude(facts, sum(part.n_rows for part in written))
        constants.conclude(rows, writer)
        interrupts.check()
        progress.finish()
        writer.take_written(written)


def is_begun_by(rows: Source, identity: Mapping[str, Any], random_state: int | None) -> Callable[[Path], bool]:
    """Return a function that tells whether a folder has steps of this ingest, from the same unchanged source.

    Parameters
    ----------
    rows : Source
    identity : mapping
    random_state : int or None
        Seed of the stored order; None: any.
    """

    def is_begun(folder: Path) -> bool:
        kept = KeptSteps(folder)
        found = kept.found(DESCRIPTION)
        if kept.identity is None or found is None:
            return False
        seed = kept.identity["random_state"] if random_state is None else random_state
        is_same = kept.identity == {**identity, "random_state": seed}
        return is_same and rows.is_unchanged(found["source"], str(found["source"].get("digest", "")))

    return is_begun


def encode_part(rows: Source, files: Any, prefix: str, limit: int, part: tuple[int, Any] | None) -> Any:
    """Encode a part on a worker, or describe the source if `part` is None; the result is saved by `KeptSteps`.

    An error of the source is returned, for `until_fault`.
    """
    rows = copy.copy(rows)  # it keeps notes on what it reads, and is shared by this process's tasks
    return attempted(_encoded, rows, files, prefix, limit, part)


def _encoded(rows: Source, files: Any, prefix: str, limit: int, part: tuple[int, Any] | None) -> dict[str, Any]:
    if part is None:
        return {"source": described(rows), "files": {}}
    number, place = part
    name, constants = f"{prefix}{number}-", Constants()
    writer = PartWriter(files, name, 3 * limit // 4)
    for block in blocks_of(rows, files.dtype, limit, place):
        interrupts.check()
        try:
            writer.write(block)
        except errors.DataError as fault:  # its rows are numbered from the beginning of the part
            raise NotInPartsError(*fault.args) from None
        constants.update_features(block)
    return {**writer.finish(), "constants": constants.of_features, "facts": rows.part_facts()}


class Constants:
    """Columns that have had a single value so far; few are left to check after the first block."""

    def __init__(self) -> None:
        self._columns: np.ndarray | None = None
        self._first = np.empty(0)
        self._target_first: np.ndarray | None = None
        self._target_constant = np.empty(0, dtype=bool)
        self._all_weightless: bool | None = None
        self.target_values = WholeValues()

    @property
    def of_features(self) -> tuple[list[int], list[float]] | None:
        """The constant features so far and their values, JSON-compatible; None before the first block."""
        return None if self._columns is None else (self._columns.tolist(), self._first.tolist())

    def update_features(self, block: SourceBlock | SparseBlock) -> None:
        """Check the features of another block of rows; entries are checked when their columns are summed."""
        if isinstance(block, SparseBlock):
            return
        X = block.X
        if self._columns is None:
            self._columns, self._first = np.arange(X.shape[1]), np.array(X[0])
        for rows in (X[:_FIRST_ROWS], X[_FIRST_ROWS:]):  # the first rows rule out most columns
            if len(self._columns) and len(rows):
                self._keep((rows[:, self._columns] == self._first).all(axis=0))

    def merge_features(self, later: Sequence[Any] | None) -> None:
        """Merge `of_features` of the rows that follow."""
        if later is None:
            return
        columns, first = np.array(later[0], np.int64), np.array(later[1])
        if self._columns is None:
            self._columns, self._first = columns, first
            return
        _, mine, theirs = np.intersect1d(self._columns, columns, assume_unique=True, return_indices=True)
        is_same = np.zeros(len(self._columns), bool)
        is_same[mine] = self._first[mine] == first[theirs]
        self._keep(is_same)

    def _keep(self, is_same: np.ndarray) -> None:
        assert self._columns is not None
        self._columns, self._first = self._columns[is_same], self._first[is_same]

    def update_target(self, block: SourceBlock | SparseBlock | WrittenPart) -> None:
        """Check the targets and weights of another block of rows."""
        if block.weight is not None:
            self._all_weightless = self._all_weightless is not False and not block.weight.any()
        if block.y is None:
            return
        y = block.y.reshape(len(block.y), -1)
        self.target_values.update(y[:, 0])
        if self._target_first is None:
            self._target_first, self._target_constant = y[0].copy(), np.ones(y.shape[1], dtype=bool)
        self._target_constant &= (y == self._target_first).all(axis=0)

    def conclude(self, rows: Source, writer: WholeWriter) -> None:
        """Refuse a constant target or zero weights; pass notes and facts to the store."""
        for k in np.flatnonzero(self._target_constant).tolist():
            value = self._target_first[k] if self._target_first is not None else None
            problem = f"expected a target that varies, found {value:g} in every row"
            raise DataError(problem, f"target '{rows.target_names[k]}'", "choose another")
        if self._all_weightless:
            raise DataError("expected weights above 0, found 0 in every row", "weight", "choose another column")
        writer.source["n_target_values"] = self.target_values.count
        if rows.missing:
            writer.source["missing"] = [*rows.missing]
        writer.annotations = rows.annotations
        writer.notes += rows.notes
        if self._columns is not None and len(self._columns):
            listed = ", ".join(repr(rows.feature_names[j]) for j in self._columns[:_NAMED_IN_A_NOTE])
            n_more = len(self._columns) - _NAMED_IN_A_NOTE
            more = f" and {n_more} more" if n_more > 0 else ""
            note = f"{len(self._columns)} constant feature(s), kept but never selected: {listed}{more}"
            writer.notes.append(note)
