"""What the writers of dense and sparse stores have in common: they write a complete store, or none.

`StoreSpec` has the facts of a store, `WholeWriter` the folder and its life, `RowVectors` target, weight and labels.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from daskfs import errors, interrupts
from daskfs.cluster.workers import Here, Workers
from daskfs.errors import StoreError, keeps_work
from daskfs.files import location
from daskfs.objects.path import ObjectPath
from daskfs.store.header import versions
from daskfs.store.manifest import ENCODER, ENCODER_DIGEST, ROWS
from daskfs.store.published import PublishedStore
from daskfs.store.row_sorter import keys_of, stored_order
from daskfs.store.unfinished import DISK_FULL, KeptSteps, UnfinishedStore, explained_disk_full
from daskfs.store.written_part import WrittenPart
from daskfs.watching.base import Progress, Silent

DataError = errors.DataError.about("shapes")


@dataclass(frozen=True, kw_only=True)
class StoreSpec:
    """Facts of a store, dense or sparse; writers take them as keyword arguments.

    Parameters
    ----------
    dtype : dtype
        dtype of X.
    source : mapping
        JSON-compatible description of the source; its entry "digest" is its identity.
    target_names : sequence of str
        Empty if the store has no target.
    has_weight : bool
    label_names : sequence of str
        Text columns kept beside X (for splits or as identifiers).
    shuffle : bool
        Whether to put the rows in random order.
    random_state : int or None
        Seed of the random order; if None, one is drawn and kept in the header.
    encoding_digest : str
        Identity of the encoding of the source as numbers.
    notes : sequence of str
    """

    dtype: Any
    source: Mapping[str, Any]
    target_names: Sequence[str] = ()
    has_weight: bool = False
    label_names: Sequence[str] = ()
    shuffle: bool = True
    random_state: int | None = 0
    encoding_digest: str = ""
    notes: Sequence[str] = ()


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
    workers : Workers
        Where tasks run; by default in this thread.
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
        self.workers: Workers = Here()

    def __enter__(self) -> Self:
        spec = self.spec
        is_begun, self._n_rows, self._is_whole = False, 0, True
        try:
            with self._explain_disk_full():
                with interrupts.held():
                    unfinished: Any = PublishedStore if isinstance(self.path, ObjectPath) else UnfinishedStore
                    self._site: UnfinishedStore = unfinished(self.path, lambda at: self._goes_on_from(at / ROWS))
                    is_begun = True
                self.notes += self._site.notes
                self._group = self._site.new_group()
                self._vectors = RowVectors(tuple(spec.target_names), spec.has_weight, tuple(spec.label_names))
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
                    self.workers.settle("ingest-")
                    self._leave_or_remove(sys.exception())
        with self._explain_disk_full():
            if isinstance(fault, OSError) and fault.errno in DISK_FULL:  # raised by a task, for example
                raise fault

    def _leave_or_remove(self, fault: BaseException | None) -> None:
        """Keep the saved steps after an interrupt or a lost cluster; remove everything after other errors."""
        is_full = isinstance(fault, OSError) and fault.errno in DISK_FULL
        if fault is not None and keeps_work(fault) and not is_full and self.kept.has_some:
            self._site.leave()
            fault.add_note(
                f"the finished parts are kept in {self._site.folder}; the same ingest or run continues from them"
            )
        else:
            self._site.remove()

    @abstractmethod
    def _finish(self) -> None:
        """Write the rest, and give the store its name."""

    def _let_go(self) -> None:  # noqa: B027
        """Release memory that is not needed once rows are written, or not written."""

    def _stored_order(self) -> np.ndarray | None:
        """Return the source row of each stored row; None if the order is the same."""
        return stored_order(keys_of(self.random_state, 0, self._n_rows)) if self.spec.shuffle else None

    def _common_header(self) -> dict[str, Any]:
        """Return the header fields that dense and sparse stores have in common; the encoder is written to a file."""
        source = {key: value for key, value in self.source.items() if key != "encoder"}
        if "encoder" in self.source:
            content = json.dumps(self.source["encoder"], ensure_ascii=False).encode()
            (self._site.folder / ENCODER).write_bytes(content)
            source[ENCODER_DIGEST] = hashlib.sha256(content).hexdigest()
        return {
            "dtype": self.dtype.name,
            "shuffled": self.spec.shuffle,
            "random_state": self.random_state,
            "target_names": tuple(self.spec.target_names),
            "label_names": tuple(self.spec.label_names),
            "has_weight": self.spec.has_weight,
            "source": source,
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


class RowVectors:
    """Collects target, weight and labels of all rows in the source's order and returns them in the stored order.

    Notes
    -----
    All are in memory: 8 bytes per row for each target and for the weight, and the text of the labels.
    """

    def __init__(self, target_names: tuple[str, ...], has_weight: bool, label_names: tuple[str, ...]) -> None:
        self.target_names, self.has_weight, self.label_names = target_names, has_weight, label_names
        self._target: list[np.ndarray] = [np.empty((0, len(target_names)))]
        self._weight: list[np.ndarray] = [np.empty(0)]
        self._labels: dict[str, list[np.ndarray]] = {
            name: [np.empty(0, dtype=np.dtypes.StringDType())] for name in label_names
        }

    def append(self, block: Any, n_rows: int, labels: Mapping[str, Any] | None, first_row: int) -> None:
        """Append y, weight and labels of a block of `n_rows` rows.

        Raises
        ------
        DataError
            A vector is missing or unexpected, has the wrong length, or contains invalid values.
        """
        if (block.y is None) != (not self.target_names):
            found = "none" if block.y is None else "y"
            raise DataError(f"expected targets {list(self.target_names)}, found {found}", "y", "name the target")
        if self.target_names:
            what = f"target {', '.join(map(repr, self.target_names))}"
            y = _checked_vector(block.y, n_rows, what, first_row)
            if y.size != n_rows * len(self.target_names):
                raise DataError(f"expected {len(self.target_names)} columns, found shape {y.shape}", what)
            self._target.append(y.reshape(n_rows, len(self.target_names)))
        if (block.weight is None) == self.has_weight:
            raise DataError("weights must come with every block or with none", "weight", "set has_weight")
        if self.has_weight:
            self._weight.append(_checked_vector(block.weight, n_rows, "weight", first_row, least=0.0).reshape(n_rows))
        labels = labels if labels is not None else getattr(block, "labels", None) or {}
        if set(labels) != set(self.label_names):
            raise DataError(f"expected labels {sorted(self.label_names)}, found {sorted(labels)}", "labels")
        for name, values in labels.items():
            text = np.asarray(values).astype(np.dtypes.StringDType())
            if text.shape != (n_rows,):
                raise DataError(f"expected {n_rows} values, found shape {text.shape}", f"labels {name!r}")
            self._labels[name].append(text)

    def in_order(self, order: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return all vectors by name; `order` is the source row of each stored row (None: the same)."""
        taken: Any = slice(None) if order is None else order
        vectors: dict[str, np.ndarray] = {}
        if self.target_names:
            target = np.concatenate(self._target)[taken]
            vectors["target"] = target[:, 0] if target.shape[1] == 1 else target
        if self.has_weight:
            vectors["weight"] = np.concatenate(self._weight)[taken]
        if order is not None:
            vectors["source_rows"] = order.astype(np.int64)
        for number, name in enumerate(self.label_names):
            vectors[f"labels/{number}"] = np.concatenate(self._labels[name])[taken]
        return vectors


def _checked_vector(values: Any, n_rows: int, what: str, first_row: int, *, least: float | None = None) -> np.ndarray:
    """Return a target or weight as float64.

    Parameters
    ----------
    values : array_like of shape (n_rows,) or (n_rows, n_targets)
    n_rows : int
    what : str
        Name of the vector, for messages.
    first_row : int
    least : float, optional
        Smallest value allowed.

    Raises
    ------
    DataError
        Wrong length, NaN, infinity, or a value below `least`.
    """
    try:
        array = np.array(values, dtype=np.float64)  # a copy: the caller may use its buffer again
    except (TypeError, ValueError):
        raise errors.DataError("expected numbers", what, "encode classes as numbers first") from None
    if len(array) != n_rows:
        raise errors.DataError(f"expected {n_rows} values, found {len(array)}", what, "give one value per row of X")
    wrong = ~np.isfinite(array) if least is None else ~(np.isfinite(array) & (array >= least))
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0].tolist())
        bound = "" if least is None else f" of at least {least:g}"
        raise errors.DataError(
            f"expected a finite number{bound}, found {array[at]}", f"{what}, row {first_row + at[0]}", "drop these rows"
        )
    return array
