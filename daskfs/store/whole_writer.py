"""Base class of the writers of dense and sparse stores: they write a complete store, or nothing."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from daskfs import errors, interrupts
from daskfs.cluster.workers import Here, Workers
from daskfs.errors import StoreError
from daskfs.files import location
from daskfs.objects.path import ObjectPath
from daskfs.store.header import versions
from daskfs.store.kept import KeptSteps
from daskfs.store.manifest import ENCODER, ENCODER_DIGEST
from daskfs.store.published import unfinished_store
from daskfs.store.row_order import keys_of, stored_order
from daskfs.store.row_vectors import RowVectors
from daskfs.store.spec import StoreSpec
from daskfs.store.unfinished import DISK_FULL, ROWS, explained_disk_full
from daskfs.store.written_part import WrittenPart
from daskfs.watching.base import Progress, Silent

DataError = errors.DataError.about("shapes")


class WholeWriter(ABC):
    """Writes a store; a context manager.

    Parameters
    ----------
    path : path-like or URL
        Path of the store; nothing may exist there.
    spec : StoreSpec
    memory_limit : int
        See `daskfs.store.writer.StoreWriter`.
    progress : Progress, optional
    goes_on_from : callable, optional
        Returns whether a folder with `KeptSteps` was started by the same ingest in a process that is dead.

    Attributes
    ----------
    source, notes : dict, list
        Those of `spec`, to which may be added until the store is finished.
    annotations : mapping of str to ndarray
        Facts about the features, see `Matrix.annotations`; sparse stores keep none.
    kept : KeptSteps
        The steps from which the next process resumes, after `begin`.
    prefix : str
        Prefix of the files that tasks of this process write.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | ObjectPath,
        spec: StoreSpec,
        memory_limit: int,
        progress: Progress | None,
        goes_on_from: Callable[[Path], bool] | None = None,
    ) -> None:
        self._goes_on_from = goes_on_from or (lambda folder: False)
        self.path, self.dtype, self.spec = location(path).absolute(), np.dtype(spec.dtype), spec
        seed = np.random.SeedSequence().generate_state(1)[0] if spec.random_state is None else spec.random_state
        self.random_state = int(seed) if spec.shuffle else None
        self.source, self.notes = dict(spec.source), list(spec.notes)
        self.annotations: Mapping[str, np.ndarray] = {}
        self.memory_limit, self.progress = memory_limit, progress or Silent()

    def __enter__(self) -> Self:
        spec = self.spec
        is_begun, self._n_rows, self._is_whole = False, 0, True
        try:
            with self._explain_disk_full():
                with interrupts.held():
                    self._site = unfinished_store(self.path, lambda folder: self._goes_on_from(folder / ROWS))
                    is_begun = True
                self.notes += self._site.notes
                self._group = self._site.new_group()
                self._vectors = RowVectors(tuple(spec.target_names), spec.has_weight, tuple(spec.label_names))
                self._workers: Workers = Here()
                folder = self._site.folder / ROWS
                folder.mkdir(exist_ok=True)
                self.kept = KeptSteps(folder)
                if self.kept.identity is not None:
                    self.random_state = self.kept.identity["random_state"]
                self.prefix = f"{self.kept.attempt}-"
                self._prepare()
        except BaseException:
            if is_begun:
                self._site.remove()
            raise
        return self

    def use(self, workers: Workers) -> None:
        """Run all tasks on these workers."""
        self._workers = workers

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Save steps of the ingest with this identity (JSON-compatible); rows are added with `take_written`."""
        with self._explain_disk_full():
            self.kept.begin({**identity, "random_state": self.random_state})

    @abstractmethod
    def _prepare(self) -> None:
        """Create what is needed to accept rows."""

    def write(self, block: Any, labels: Mapping[str, Any] | None = None) -> None:
        """Append the next rows of the source.

        Parameters
        ----------
        block : RowBlock, SourceBlock or SparseBlock
            For dense stores with X of shape (n_rows, n_features), dense or sparse; y of shape (n_rows,) or (n_rows,
            n_targets); weight of shape (n_rows,). Values are copied, so that buffers may be reused.
        labels : dict of str to array of str, optional
            Default: those of the block.

        Raises
        ------
        DataError
            A value that does not fit, or features that do not ascend within a row, with the place.
        StoreError
            The disk is full.
        """
        with self._explain_disk_full():
            n_rows = self._checked_length(block)
            if block.start != self._n_rows:
                raise DataError(f"expected rows from {self._n_rows} on, found {block.start}", "X", "write in order")
            self._is_whole = False
            self._vectors.append(block, n_rows, labels, self._n_rows)
            self._add(block)
            self._is_whole = True

    @abstractmethod
    def _checked_length(self, block: Any) -> int:
        """Return the number of rows in a block; refuse it if it has another shape than the store."""

    @abstractmethod
    def _add(self, block: Any) -> None:
        """Append the rows of a block, and count them."""

    def take_written(self, parts: Sequence[WrittenPart]) -> None:
        """Append all rows of the source at once, as written by tasks: its parts, in its order."""
        for part in parts:
            self._vectors.append(part, part.n_rows, None, self._n_rows)
            self._n_rows += part.n_rows

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_done = False
        try:
            if kind is None:
                with self._explain_disk_full():
                    if not self._is_whole:
                        problem = "a block was refused, so that rows are missing"
                        raise StoreError(problem, str(self.path), "let the error end it")
                    self._finish()
                is_done = True
        finally:
            self._let_go()
            if not is_done:
                with interrupts.held():
                    self._workers.settle("ingest-")
                    self._site.remove()
        with self._explain_disk_full():
            if isinstance(fault, OSError) and fault.errno in DISK_FULL:  # raised by a task, for example
                raise fault

    @abstractmethod
    def _finish(self) -> None:
        """Write the rest, and give the store its name."""

    def _source_fields(self) -> dict[str, Any]:
        """Write the encoder to a file, and return the source's description with the file's digest instead."""
        source = {key: value for key, value in self.source.items() if key != "encoder"}
        if "encoder" not in self.source:
            return source
        content = json.dumps(self.source["encoder"], ensure_ascii=False).encode()
        (self._site.folder / ENCODER).write_bytes(content)
        return source | {ENCODER_DIGEST: hashlib.sha256(content).hexdigest()}

    def _let_go(self) -> None:  # noqa: B027
        """Release memory that is not needed once rows are written, or not written."""

    def _stored_order(self) -> np.ndarray | None:
        """Return the source row of each stored row; None if the order is the same."""
        return stored_order(keys_of(self.random_state, 0, self._n_rows)) if self.spec.shuffle else None

    def _common_header(self) -> dict[str, Any]:
        """Return the header fields that dense and sparse stores have in common."""
        return {
            "dtype": self.dtype.name,
            "shuffled": self.spec.shuffle,
            "random_state": self.random_state,
            "target_names": tuple(self.spec.target_names),
            "label_names": tuple(self.spec.label_names),
            "has_weight": self.spec.has_weight,
            "source": self._source_fields(),
            "encoding_digest": self.spec.encoding_digest,
            "digest": "",
            "notes": tuple(self.notes),
            "created_with": versions(),
        }

    def _explain_disk_full(self) -> AbstractContextManager[None]:
        return explained_disk_full(str(self.path), self._needed)

    def _needed(self) -> str:
        """Return how much disk space is needed, for a message, if it is known."""
        return ""
