"""What an encoder is: it turns one column of a table into features, and explains them.

An encoder knows its feature names before it sees a row (`daskfs.sources.survey` has read the data if that is needed),
and writes into the block it is given. A value it cannot use raises `BadValue`, which `daskfs.sources.table` turns into
an error with file and line.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.errors import Caution
from daskfs.sources.table_schema import ColumnSchema

OTHER, MISSING = "other", "missing"
_LONGEST_SHOWN = 60


class BadValue(Exception):
    """A value that cannot be used: its row in the batch, the problem, the remedy."""

    def __init__(self, column: str, row: int, problem: str, remedy: str) -> None:
        super().__init__(column, row, problem, remedy)
        self.column, self.row, self.problem, self.remedy = column, row, problem, remedy


def shown(text: Any) -> str:
    """Return a value as messages show it: quoted if it is a text, and not too long."""
    is_long = isinstance(text, str) and len(text) > _LONGEST_SHOWN
    return repr(text[: _LONGEST_SHOWN - 3] + "..." if is_long else text)


class ColumnFacts(NamedTuple):
    """What a pass over the rows has found about a column, as far as its encoding needs it."""

    counts: Mapping[str, int] = {}
    """Rows of each level."""
    n_missing: int = 0
    years: Collection[int] = ()
    mean: float = 0.0
    std: float = 0.0


_LISTED = 8
"""Number of unseen levels, at most, whose rows are counted separately."""


def counted_levels(known: Mapping[str, int], rows: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of the first few levels, with more rows added.

    Examples
    --------
    >>> counted_levels({"a": 2}, {"a": 1, "b": 4})
    {'a': 3, 'b': 4}
    """
    found = {**known}
    for level, count in rows.items():
        if level in found or len(found) < _LISTED:
            found[level] = found.get(level, 0) + count
    return found


def listed_levels(rows: Mapping[str, int], n_rows: int | None = None) -> str:
    """Return levels with their numbers of rows as text, the most frequent first; `n_rows` is the total of all levels.

    Examples
    --------
    >>> listed_levels({"Oslo": 1, "Rome": 1200}, 1300)
    "'Rome' (1,200 rows), 'Oslo' (1 row), others (99 rows)"
    """
    first = sorted(rows.items(), key=lambda level: (-level[1], level[0]))[:_LISTED]
    counts = [(repr(level), count) for level, count in first]
    rest = (sum(rows.values()) if n_rows is None else n_rows) - sum(count for _, count in first)
    counts += [("others", rest)] if rest else []
    return ", ".join(f"{level} ({count:,} row{'' if count == 1 else 's'})" for level, count in counts)


@dataclass
class Encoder(ABC):
    """Turns one column into features.

    Attributes
    ----------
    name : str
        The column.
    n_unseen : int
        Rows with a level that the fit has not seen, encoded since the count began.
    unseen_levels : dict of str to int
        Rows of the first few of these levels.
    """

    name: str
    n_unseen: int = field(default=0, compare=False, kw_only=True)
    unseen_levels: dict[str, int] = field(default_factory=dict, compare=False, kw_only=True)

    kind: ClassVar[str]
    """Its name in documents."""
    missing_as_zero: ClassVar[Mapping[str, Any]]
    """Attributes with which missing values become zeros."""
    noun: ClassVar[str] = "category"
    """What errors call a value."""
    how_to_fill: ClassVar[str] = "set missing: drop, zero or category"

    @classmethod
    def missing_value(cls, *, is_feature: bool = True) -> tuple[str, str]:
        """Return the problem and the remedy of a missing value."""
        remedy = cls.how_to_fill if is_feature else "set missing: drop for the column, or fix the value"
        return f"expected a {cls.noun}, found a missing value", remedy

    @classmethod
    def fault_of(cls, value: Any, column: ColumnSchema) -> tuple[str, str] | None:
        """Return the problem and the remedy of a value that the column cannot have; None if it can."""
        return None

    @classmethod
    @abstractmethod
    def learnt(cls, name: str, column: ColumnSchema, facts: ColumnFacts, notes: list[str]) -> Self:
        """Return the encoder of a column; decisions made for it are appended to `notes`.

        Raises
        ------
        SchemaError
            The column cannot be encoded so.
        """

    @property
    @abstractmethod
    def feature_names(self) -> list[str]:
        """Names of the features that it writes."""

    @abstractmethod
    def encode(self, values: pa.Array, out: np.ndarray) -> None:
        """Write the features of these rows into `out` of shape (n_rows, n_features)."""

    @abstractmethod
    def sql(self, place: int, dialect: str) -> str | None:
        """Return the SQL expression of a feature, by its place among the features; None if SQL cannot express it."""

    @abstractmethod
    def python(self, place: int) -> str | None:
        """Return the expression of a feature in an exported Python file, of a column of a frame; None if there is none.

        It may use the functions of that file, see `daskfs.applied.export`.
        """

    @property
    def classes(self) -> list[str] | None:
        """Names of the codes, for categories as targets or as entries; None for other encodings."""
        return None

    def codes(self, values: pa.Array) -> np.ndarray:
        """Return the number of each row's class, int64; -1 if it has none."""
        raise NotImplementedError(f"{self.kind} has no classes")

    @property
    def filled_with(self) -> float | None:
        """The number that replaces a missing one, if there is one."""
        return None

    def unchanged(self, values: pa.Array) -> np.ndarray | None:
        """Return the numbers if they can be written unchanged (finite or not); None if they need encoding."""
        return None

    def booleans_as_text(self, values: pa.Array) -> pa.Array:
        """Return booleans as the fit has seen them."""
        return values

    def for_new_rows(self, *, missing_to_zero: bool, unseen: str | None = None) -> Self:
        """Return a copy that counts anew, for rows that the fit has not seen.

        Parameters
        ----------
        missing_to_zero : bool
            Whether missing values become zeros.
        unseen : {"zero", "other"}, optional
            Encoding of levels that the fit would refuse, where that depends on a list of levels.
        """
        changes = self.missing_as_zero if missing_to_zero else {}
        return dataclasses.replace(self, n_unseen=0, unseen_levels={}, **changes)

    def count_unseen(self, n_rows: int, levels: Mapping[str, int]) -> None:
        """Add rows of levels that the fit has not seen."""
        self.n_unseen += n_rows
        self.unseen_levels = counted_levels(self.unseen_levels, levels)

    def take_note_of_unseen(self) -> Caution | None:
        """Return a note on the levels that the fit has not seen, and count anew; None if there were none."""
        if not self.n_unseen:
            return None
        levels = listed_levels(self.unseen_levels, self.n_unseen)
        rows = f"{self.n_unseen:,} row{'' if self.n_unseen == 1 else 's'}"
        note = f"column '{self.name}': {rows} of unseen {self._unseen_as()}: {levels}"
        self.n_unseen, self.unseen_levels = 0, {}
        return Caution(note)

    def _unseen_as(self) -> str:
        """Return what kind of level is unseen, and as what it is encoded."""
        return "categories encoded as zeros"

    def to_document(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults, except the name."""
        found: dict[str, Any] = {"kind": self.kind}
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            if one.name not in ("name", "n_unseen", "unseen_levels") and value != one.default:
                found[one.name] = sorted(value) if isinstance(value, frozenset) else _plain(value)
        return found


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, (list, tuple, range)) else value


def refuse_missing(name: str, missing: str, levels: np.ndarray) -> None:
    """Refuse rows without a level (-1) unless missing values are allowed.

    Raises
    ------
    BadValue
    """
    if missing in ("error", "drop") and len(rows := np.flatnonzero(levels < 0)):
        raise BadValue(name, int(rows[0]), *Encoder.missing_value())


def write_dummies(codes: np.ndarray, out: np.ndarray, drop_first: bool) -> None:
    """Set out[i, codes[i]] to one and the rest to zero; with `drop_first`, level 0 has no column."""
    out[...] = 0
    columns = codes - int(drop_first)
    rows = np.flatnonzero(columns >= 0)
    out[rows, columns[rows]] = 1


_PLAIN = {
    getattr(pa, name)(): np.dtype(name)
    for name in ("float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
}
_PIECE_NBYTES = 1 << 17
"""Columns are transposed in pieces of this size, which stay in the processor's cache."""


def plain_numbers(values: pa.Array) -> np.ndarray | None:
    """Return a view of a numeric Arrow array, without loading pandas as Arrow does; None if a value is missing."""
    dtype = _PLAIN.get(values.type)
    if dtype is None or values.null_count:
        return None
    if not len(values):
        return np.empty(0, dtype)
    return np.frombuffer(values.buffers()[1], dtype, len(values), values.offset * dtype.itemsize)


def write_numbers(columns: Sequence[np.ndarray], out: np.ndarray) -> bool:
    """Write numeric columns side by side; return whether all are finite, both before and after the cast.

    Parameters
    ----------
    columns : sequence of ndarray of shape (n_rows,)
    out : float32 or float64 array of shape (n_rows, n_columns)
    """
    bound = np.finfo(out.dtype).max
    step = max(1, _PIECE_NBYTES // (8 * len(columns)))
    room = np.empty((len(columns), step))
    for start in range(0, len(out), step):
        piece = room[:, : len(out) - start]
        for values, row in zip(columns, piece, strict=True):
            row[:] = values[start : start + step]
        if not (piece.min() >= -bound and piece.max() <= bound):
            return False
        out[start : start + step] = piece.T
    return True


def numbers_of(values: pa.Array) -> np.ndarray:
    """Return a numeric Arrow array as float64, with NaN for missing values."""
    if (plain := plain_numbers(values)) is not None:
        return np.asarray(plain, dtype=np.float64)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        values = pc.cast(values, pa.float64())
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def levels_of(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the distinct texts of a column, and the index of each row's text, int64; -1 if missing."""
    values = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    texts, rows = pc.cast(values.dictionary, pa.string()), or_minus_one(values.indices)
    if texts.null_count:
        rows[(rows >= 0) & pc.is_null(texts).to_numpy(zero_copy_only=False)[rows]] = -1
    return texts, rows


def or_minus_one(indices: pa.Array) -> np.ndarray:
    """Return indices as int64, -1 where they are missing."""
    filled = pc.fill_null(pc.cast(indices, pa.int64()), -1)  # polars uses unsigned indices
    return np.array(filled.to_numpy(zero_copy_only=False), dtype=np.int64)
