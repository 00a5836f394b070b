"""Interface of all sources: names, a digest of the content, and the rows in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from daskfs.errors import DaskfsError, SourceError
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.sources.files import changed

if TYPE_CHECKING:
    from collections.abc import Generator

    from daskfs.cluster.workers import Workers
    from daskfs.sources.options import SourceOptions


MIN_PART_NBYTES, MOST_PARTS = 2**24, 256


@dataclass(slots=True)
class SourceBlock:
    """Consecutive rows of a source in the source's order, without dropped rows.

    Attributes
    ----------
    start : int
        Number of the first row, not counting dropped rows.
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,) or (n_rows, n_targets), or None
        Targets, float64.
    weight : ndarray of shape (n_rows,), or None
        Sample weights, float64.
    labels : dict of str to ndarray of shape (n_rows,)
        The id and split columns, as text.
    """

    start: int
    X: np.ndarray
    y: np.ndarray | None = None
    weight: np.ndarray | None = None
    labels: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.shape[0]


class InPlace(NamedTuple):
    """A matrix that is read directly from the files of a source."""

    dtype: np.dtype
    tile_columns: int
    """Columns that are read together."""
    nbytes: int
    """Total size of the files."""


def part_nbytes(nbytes: int) -> int:
    """Return the size of the parts of a source of `nbytes` bytes: few parts, but enough for several processes."""
    return max(MIN_PART_NBYTES, nbytes // MOST_PARTS)


class NotInPartsError(SourceError):
    """A part shows that the source must be read as a whole."""


def attempted(task: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a task on a part returns, or its error, for `until_fault`."""
    try:
        return task(*arguments)
    except DaskfsError as fault:
        return fault
    except FileNotFoundError as fault:
        return NotInPartsError("a worker cannot read this file", str(fault.filename), "put it on a shared disk")


def until_fault(
    rows: Source, results: Generator[tuple[int, Any], None, None], first: int = 0
) -> Iterator[tuple[int, Any]]:
    """Yield the results of `attempted` as they come; raise the error of the first part that has one.

    Which part that is does not depend on the order of completion, and all parts before it were read without an error.

    Parameters
    ----------
    rows : Source
    results : generator
        Numbers and results of tasks; those from `first` on read the parts in order.
    first : int
        Number of the task that reads the first part.

    Raises
    ------
    DaskfsError
        The error of the part, or that a file changed while it was read.
    """
    stamps, done, faults = rows.stamps(), set[int](), dict[int, DaskfsError]()
    with closing(results):
        for k, found in results:
            done.add(k)
            if isinstance(found, DaskfsError):
                faults[k] = found
            else:
                yield k, found
            if faults and done.issuperset(range(first, min(faults))):
                for before, now in zip(stamps, rows.stamps(), strict=True):
                    if before != now:
                        raise changed(before[0])
                raise faults[min(faults)]


def survey_part(source: Any, part: Any) -> Any:
    """Return what a part shows that must be known of all rows, on a worker; this module is light to import."""
    return attempted(source.survey_part, part)


class Source(ABC):
    """Rows that can be read, once or several times, in blocks of bounded size.

    Attributes
    ----------
    kind : str
        Name of this kind of source in a pipeline file.
    exchangeable : bool
        True if the rows are already in random order, so that a store need not permute them.
    n_samples : int or None
        Number of rows, or None while it is not known.
    feature_names : list of str
        Names of the columns of X; a table may have to be read once to find its categories.
    target_names : sequence of str
        Empty if there is no target.
    label_names : sequence of str
        Names of the id and split columns.
    notes : list of str
        Facts for the reader of a result: rows dropped, categories pooled, columns ignored. Grows while reading.
    missing : sequence of dict
        What was missing in each column and how it was replaced, once the rows have been read: the fields of
        `daskfs.evidence.MissingRecord`.
    suspicions : sequence of str
        Warnings of `daskfs init` that the user has not resolved.
    """

    kind: ClassVar[str]
    options: ClassVar[type[SourceOptions]]
    """Its options in a pipeline file; they have the names of the constructor's parameters."""
    knows_true_features: ClassVar[bool] = False
    """Whether recall and precision of a selection can be measured."""
    is_read_in_place: ClassVar[bool] = False
    """Whether it has `in_place` and `as_matrix`, so that no store is needed."""
    is_sparse: ClassVar[bool] = False
    """Whether it is a `daskfs.sources.sparse.base.SparseSource`, whose rows are read as entries."""
    exchangeable: bool = False
    has_weight: bool = False
    n_samples: int | None = None
    feature_names: list[str]
    target_names: Sequence[str] = ()
    label_names: Sequence[str] = ()
    notes: list[str]
    filters: Sequence[str] = ()
    """What leaves out rows and features, for the plan."""
    missing: Sequence[dict[str, Any]] = ()
    suspicions: Sequence[str] = ()
    table_columns: dict[str, tuple[int, int]] | None = None
    """Span (first, end) of the features of each column of the table; None if it is no table."""
    growing_columns: tuple[str, ...] = ()
    """Columns of a table that may become more features than `estimate_shape` counts."""
    annotations: Mapping[str, np.ndarray] = MappingProxyType({})
    """Further facts about the features, once the rows have been read: see `Matrix.annotations`."""
    resident: np.ndarray | None = None
    """All rows as one C-contiguous array, if they are in memory."""
    held_nbytes: int = 0
    """Memory for names and the like, in bytes, beside blocks, if it grows with the source."""
    in_place: InPlace | None = None
    """How rows and columns are read directly from the files, as far as is known; None if a store is needed."""

    def stamps(self) -> list[Any]:
        """Return values that change when the files change, found without reading them; empty if there are none."""
        return []

    def leave_off(self) -> None:  # noqa: B027 - few wait
        """Cancel reading: a thread that waits for more rows returns."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return a JSON-compatible description that identifies the source to a reader."""

    @abstractmethod
    def digest(self) -> str:
        """Return the SHA-256 of the content: equal content, equal digest."""

    def learn(self, workers: Workers) -> None:  # noqa: B027 - most have nothing to learn
        """Learn from all rows what must be known before any row is encoded, in parts on the workers if there are parts.

        Without this call it is learnt in this process when it is first needed, from the same parts: the result is the
        same, bit for bit.
        """

    def check(self) -> None:  # noqa: B027 - nothing left to check where the constructor has
        """Check, from the header only, that the source exists, is complete as far as visible, and has the right format.

        Raises
        ------
        DaskfsError
            Says where the fault is and what to do.
        """

    @property
    def target_classes(self) -> list[str] | None:
        """Texts that the target's codes 0, 1, ... stand for; None if it is numeric or there are several targets."""
        return None

    @property
    def encoding(self) -> dict[str, Any]:
        """JSON-compatible description of how the content becomes numbers: part of a store's identity."""
        return {}

    made_with: dict[str, Any] | None = None
    """Options of the pipeline file that it was made with, except its path."""

    @property
    def encoder(self) -> dict[str, Any]:
        """JSON-compatible description that lets other rows be encoded in the same way."""
        return {"kind": self.kind, "options": self.made_with or {}}

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return (n_samples, n_features) without reading the whole source; an estimate for text tables."""
        return self.n_samples, len(self.feature_names)

    def estimate_columns(self) -> tuple[list[str], dict[str, tuple[int, int]]] | None:
        """Return the features' names and `table_columns` without reading the whole table; None if it is no table."""
        return None

    def may_have(self, feature: int | str) -> bool:
        """Return whether a feature that `estimate_columns` does not list may appear under this number or name."""
        return False

    def as_matrix(self) -> Any:
        """Return a `daskfs.matrix.base.Matrix` that reads the files directly; None if a store is needed."""
        return None

    def estimate_target(self) -> TargetKind:
        """Return the inferred kind of target, as far as is known without reading the whole source."""
        return PLAIN_NUMBERS

    def tell(self, notes: Sequence[str]) -> None:
        """Append notes to `notes`."""
        self.notes.extend(notes)

    def is_unchanged(self, description: dict[str, Any], digest: str) -> bool:
        """Return whether a store made from `description` with `digest` has the content of this source."""
        return self.digest() == digest

    @property
    def has_parts(self) -> bool:
        """Whether `parts` returns any, as far as is known without reading."""
        return False

    def parts(self) -> Sequence[Any]:
        """Return parts that processes can read independently, in order; empty if the source cannot be split.

        Parts and the source are sent to the processes.
        """
        return ()

    def part_blocks(self, part: Any, block_rows: int, dtype: np.dtype | type) -> Iterator[SourceBlock]:
        """Yield the rows of a part as `row_blocks` does, numbered within the part.

        Raises
        ------
        NotInPartsError
            The source must be read as a whole.
        SourceError, SchemaError, DataError
            As by `row_blocks`, if no part before this one has a fault.
        """
        raise NotImplementedError

    def part_facts(self) -> Any:  # noqa: B027 - a source without parts has none
        """Return what was learnt from reading a part, for `conclude`."""

    def conclude(self, facts: Sequence[Any], n_samples: int) -> None:  # noqa: B027 - as above
        """Combine the facts from all parts, in order, as if this source had read them."""

    @abstractmethod
    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield the rows in order, in blocks of `block_rows` rows (the last may be shorter); memory stays bounded.

        Parameters
        ----------
        block_rows : int
        dtype : dtype
            float32 or float64: the dtype of X. Arrays may keep their own dtype.

        Raises
        ------
        SourceError, SchemaError, DataError
            With the place (file, line, column, value) and the remedy.
        """
