"""Base class of the writers of dense and sparse stores: they write a complete store, or nothing."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from daskfs import interrupts
from daskfs.cluster.workers import Here, Workers
from daskfs.errors import StoreError
from daskfs.files import location
from daskfs.objects.path import ObjectPath
from daskfs.store.header import versions
from daskfs.store.kept import KeptSteps
from daskfs.store.manifest import ENCODER, ENCODER_DIGEST
from daskfs.store.published import unfinished_store
from daskfs.store.row_order import draw_seed, stored_order
from daskfs.store.row_vectors import RowVectors
from daskfs.store.spec import StoreSpec
from daskfs.store.unfinished import DISK_FULL, ROWS, explained_disk_full
from daskfs.watching.base import Progress, Silent


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
        self.random_state = draw_seed(spec.random_state) if spec.shuffle else None
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
                self._keys: list[np.ndarray] = [np.empty(0)]
                self._workers: Workers = Here()
                folder = self._site.folder / ROWS
                folder.mkdir(exist_ok=True)
                self.kept = KeptSteps(folder)
                if self.kept.identity is not None:
                    self.random_state = self.kept.identity["random_state"]
                self.prefix = f"{self.kept.attempt}-"
                self._prepare()
                self._rng = np.random.default_rng(self.random_state)
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
            self._keys = []
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

    @abstractmethod
    def _let_go(self) -> None:
        """Release files and memory."""

    def _stored_order(self) -> np.ndarray | None:
        """Return the source row of each stored row, from the keys of all rows; None if the order is the same."""
        order = stored_order(np.concatenate(self._keys)) if self.spec.shuffle else None
        self._keys = []
        return order

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
