"""What every source offers: names, a digest of its content, and its rows in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from daskfs.losses import PLAIN_NUMBERS, TargetKind

if TYPE_CHECKING:
    from daskfs.sources.options import SourceOptions


MIN_PART_NBYTES, MOST_PARTS = 2**24, 256


@dataclass(slots=True)
class SourceBlock:
    """Consecutive rows of a source, in the source's order, after rows were dropped.

    Attributes
    ----------
    start : int
        Number of the first row among the rows that are kept.
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


class InPlace(NamedTuple):
    """A matrix that is read out of the files of a source."""

    dtype: np.dtype
    tile_columns: int
    """Columns that are read together."""
    nbytes: int
    """Of the files."""


def part_nbytes(nbytes: int) -> int:
    """Return how much of a source of so many bytes is read apart: few parts, which a few processes can share."""
    return max(MIN_PART_NBYTES, nbytes // MOST_PARTS)


class Source(ABC):
    """Rows that can be read, once or several times, in blocks of bounded size.

    Attributes
    ----------
    kind : str
        Name of this kind of source in a pipeline file.
    exchangeable : bool
        True where the rows are in random order already, so that a store need not permute them.
    n_samples : int or None
        Number of rows, or None while it is not known.
    feature_names : list of str
        Names of the columns of X; a table may have to be read once to know its categories.
    target_names : sequence of str
        Empty where there is no target.
    label_names : sequence of str
        Names of the id and split columns.
    notes : list of str
        Facts for the reader of a result: rows dropped, categories pooled, columns left out. Grows while reading.
    missing : sequence of dict
        What was missing in which column, and by what it was replaced, once the rows have been read: the fields of
        `daskfs.evidence.MissingRecord`.
    suspicions : sequence of str
        What people were told to look at before a run, and have not settled.
    """

    kind: ClassVar[str]
    options: ClassVar[type[SourceOptions]]
    """Its options in a pipeline file, by the names of its constructor's parameters."""
    knows_true_features: ClassVar[bool] = False
    """True where recall and precision of a selection can be measured."""
    is_read_in_place: ClassVar[bool] = False
    """True of one that has `in_place` and `as_matrix`, so that no store need be made."""
    is_sparse: ClassVar[bool] = False
    """True of `daskfs.sources.sparse.base.SparseSource`, whose rows are read as entries."""
    exchangeable: bool = False
    has_weight: bool = False
    n_samples: int | None = None
    feature_names: list[str]
    target_names: Sequence[str] = ()
    label_names: Sequence[str] = ()
    notes: list[str]
    missing: Sequence[dict[str, Any]] = ()
    suspicions: Sequence[str] = ()

    def stamps(self) -> list[Any]:
        """Return what tells files that were changed from these, without reading them; nothing where there are none."""
        return []

    def leave_off(self) -> None:  # noqa: B027 - few wait
        """Have a thread that waits for more rows return: they are not wanted any more."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what identifies the source to a reader, as JSON can hold it."""

    @abstractmethod
    def digest(self) -> str:
        """Return the SHA-256 of the content: equal content, equal digest."""

    def check(self) -> None:  # noqa: B027 - nothing left to check where the constructor has
        """Check, by the header only, that the source exists, is complete as far as visible, and has the expected form.

        Raises
        ------
        DaskfsError
            With place and remedy.
        """

    @property
    def target_classes(self) -> list[str] | None:
        """Texts that the target's codes 0, 1, ... stand for; None where it is of numbers, or there are several."""
        return None

    @property
    def table_columns(self) -> dict[str, tuple[int, int]] | None:
        """Columns of the table that became several features, with the first of these and the end; None: no table."""
        return None

    @property
    def annotations(self) -> dict[str, np.ndarray]:
        """What is known of the features beside their names, once the rows have been read: see `Matrix.annotations`."""
        return {}

    @property
    def resident(self) -> np.ndarray | None:
        """All rows, where they lie in memory one after the other; None where they do not."""
        return None

    @property
    def encoding(self) -> dict[str, Any]:
        """How the content becomes numbers, as JSON can hold it: part of a store's identity."""
        return {}

    made_with: dict[str, Any] | None = None
    """Options of a pipeline file that it was made with, but its place."""

    @property
    def encoder(self) -> dict[str, Any]:
        """What encodes other rows as these were encoded, as JSON can hold it."""
        return {"kind": self.kind, "options": self.made_with or {}}

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return (n_samples, n_features) without reading the whole source; an estimate for text tables."""
        return self.n_samples, len(self.feature_names)

    def estimate_columns(self) -> tuple[list[str], dict[str, tuple[int, int]]] | None:
        """Return the features' names and `table_columns` without reading the whole table; None: no table."""
        return None

    def may_have(self, feature: int | str) -> bool:
        """Return whether a feature of this number or name may come, that `estimate_columns` does not know of."""
        return False

    @property
    def held_nbytes(self) -> int:
        """Bytes of what is held of names and the like, beside blocks, where they grow with the source."""
        return 0

    @property
    def in_place(self) -> InPlace | None:
        """How rows and columns are read out of the files, as far as is known; None where a store must be made."""
        return None

    def as_matrix(self) -> Any:
        """Return a `daskfs.matrix.base.Matrix` that reads where the data lie; None where a store must be made."""
        return None

    def estimate_target(self) -> TargetKind:
        """Return what the target is taken for, as far as is known without reading the whole source."""
        return PLAIN_NUMBERS

    def tell(self, notes: Sequence[str]) -> None:
        """Add notes to those of reading."""
        self.notes.extend(notes)

    def is_unchanged(self, description: dict[str, Any], digest: str) -> bool:
        """Tell whether a store made from `description` with `digest` holds this content."""
        return self.digest() == digest

    @property
    def has_parts(self) -> bool:
        """Whether there are `parts`, as far as is known without reading."""
        return False

    def parts(self) -> Sequence[Any]:
        """Return parts that processes can read apart, in order; none where there are none.

        Parts and sources are sent to the processes. What a part cannot tell (a fault in it, for one) is found by
        reading the whole.
        """
        return ()

    def part_blocks(self, part: Any, block_rows: int, dtype: np.dtype | type) -> Iterator[SourceBlock]:
        """Yield the rows of a part as `row_blocks` does, numbered within the part.

        Raises
        ------
        DaskfsError
            The source is to be read as a whole.
        """
        raise NotImplementedError

    def part_facts(self) -> Any:  # noqa: B027 - a source without parts has none
        """Return what reading a part has shown, for `conclude`."""

    def conclude(self, facts: Sequence[Any], n_samples: int) -> None:  # noqa: B027 - as above
        """Take what reading all parts has shown, in order, as if this had read them."""

    @abstractmethod
    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield the rows in order, in blocks of `block_rows` rows, the last one shorter; memory stays bounded.

        Parameters
        ----------
        block_rows : int
        dtype : dtype
            float32 or float64, of X. Arrays may keep a dtype of their own.

        Raises
        ------
        SourceError, SchemaError, DataError
            Each with the place (file, line, column, value) and the remedy.
        """
