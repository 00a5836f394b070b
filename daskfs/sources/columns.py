"""One encoder per column of a table: it turns an Arrow array into columns of X with Arrow's kernels and numpy.

An encoder knows its feature names before it sees a row (`survey.py` has read the data if that is needed), and writes
into the block it is given. A value it cannot use raises `BadValue`, which `table.py` turns into an error with file and
line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.sources.dates import RANGES, date_part, parse_dates

OTHER, MISSING = "other", "missing"


class BadValue(Exception):
    """A value that cannot be used: its row in the batch, the problem, the remedy."""

    def __init__(self, column: str, row: int, problem: str, remedy: str) -> None:
        super().__init__(column, row, problem, remedy)
        self.column, self.row, self.problem, self.remedy = column, row, problem, remedy


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


class Encoder(Protocol):
    """Turns one column into features."""

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns that it writes."""

    def encode(self, values: pa.Array, out: np.ndarray) -> None:
        """Write the features of these rows into `out` of shape (n_rows, n_features)."""


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


def checked_numbers(
    name: str, values: pa.Array, *, integer: bool = False, fill: float | None = None, is_feature: bool = True
) -> np.ndarray:
    """Return finite float64 numbers, with missing values filled.

    Raises
    ------
    BadValue
        A missing value and no `fill`, NaN or infinity, or a fraction where integers are expected.
    """
    try:
        numbers = numbers_of(values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row = _first_that_is_no_number(values)
        raise BadValue(
            name, row, f"expected a number, found {values[row].as_py()!r}", "set dtype: string, or fix the value"
        ) from None
    if values.null_count:
        null = pc.is_null(values).to_numpy(zero_copy_only=False)
        if fill is None:
            row = int(np.flatnonzero(null)[0])
            remedy = _HOW_TO_FILL if is_feature else "set missing: drop for the column, or fix the value"
            raise BadValue(name, row, "expected a number, found a missing value", remedy)
        numbers = np.where(null, fill, numbers)
    finite = np.isfinite(numbers)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise BadValue(
            name, row, f"expected a finite number, found {numbers[row]}", "name it in format.missing, or fix the value"
        )
    if integer and (fractions := numbers != np.floor(numbers)).any():
        row = int(np.flatnonzero(fractions)[0])
        raise BadValue(name, row, f"expected an integer, found {numbers[row]:g}", "set dtype: number")
    return numbers


def _first_that_is_no_number(values: pa.Array) -> int:
    for row in range(len(values)):
        try:
            numbers_of(values.slice(row, 1))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return row
    return 0


_HOW_TO_FILL = "set missing: drop, mean, zero or a number for the column"


@dataclass
class NumberEncoder:
    """A number, unchanged or standardised."""

    name: str
    integer: bool = False
    fill: float | None = None
    centre: float = 0.0
    scale: float = 1.0
    has_indicator: bool = False

    @property
    def feature_names(self) -> list[str]:
        """The column's name, and the name of the missing indicator if there is one."""
        return [self.name, f"{self.name}={MISSING}"][: 1 + self.has_indicator]

    def unchanged(self, values: pa.Array) -> np.ndarray | None:
        """Return the numbers if they can be written unchanged (finite or not); None if they need encoding."""
        is_whole = not self.integer or pa.types.is_integer(values.type)
        is_plain = is_whole and self.centre == 0.0 and self.scale == 1.0 and not self.has_indicator
        return plain_numbers(values) if is_plain else None

    def encode(self, values: pa.Array, out: np.ndarray) -> None:
        """Write the number, and the missing indicator."""
        if self.has_indicator:
            out[:, 1] = pc.is_null(values).to_numpy(zero_copy_only=False)
        numbers = checked_numbers(self.name, values, integer=self.integer, fill=self.fill)
        if self.centre != 0.0 or self.scale != 1.0:
            numbers = (numbers - self.centre) / self.scale
        with np.errstate(over="ignore"):
            out[:, 0] = numbers
        if out.dtype != np.float64 and not np.isfinite(out[:, 0]).all():
            row = int(np.flatnonzero(~np.isfinite(out[:, 0]))[0])
            raise BadValue(
                self.name,
                row,
                f"expected a number that fits {out.dtype}, found {numbers[row]:g}",
                "use dtype float64 (--dtype float64, or store: {dtype: float64} in the pipeline)",
            )


def name_beside(word: str, categories: Sequence[str]) -> str:
    """Return a name for an added level that differs from the existing categories.

    Examples
    --------
    >>> name_beside("other", ["a", "b"]), name_beside("other", ["a", "other"])
    ('other', '(other)')
    """
    while word in categories:
        word = f"({word})"
    return word


@dataclass
class CategoryEncoder:
    """A category as dummies.

    Attributes
    ----------
    categories : sequence of str
        Those with their own dummy.
    pooled : frozenset of str
        Rare categories, which share the dummy "other", or "(other)" if a category is called "other".
    unseen : {"error", "zero", "other"}
        Encoding of any other text.
    missing : {"error", "zero", "category", "drop"}
    drop_first : bool
    """

    name: str
    categories: Sequence[str]
    pooled: frozenset[str] = frozenset()
    unseen: str = "error"
    missing: str = "error"
    drop_first: bool = False
    n_unseen: int = field(default=0, compare=False)
    unseen_levels: dict[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        self.levels = list(self.categories)
        self._other = self._missing = -1
        if self.pooled or self.unseen == "other":
            self._other = len(self.levels)
            self.levels.append(name_beside(OTHER, self.categories))
        if self.missing == "category":
            self._missing = len(self.levels)
            self.levels.append(name_beside(MISSING, self.categories))
        self._value_set = pa.array(self.categories, pa.string())
        self._pooled_set = pa.array(sorted(self.pooled), pa.string())

    @property
    def feature_names(self) -> list[str]:
        """name=category for every dummy."""
        return [f"{self.name}={level}" for level in self.levels[self.drop_first :]]

    def codes(self, values: pa.Array) -> np.ndarray:
        """Return the level of each row, int64; -1 if all dummies are zero."""
        texts, indices = _levels(values)
        level_of_text = _or_minus_one(pc.index_in(texts, value_set=self._value_set))
        if self.pooled:
            pooled = pc.is_in(texts, value_set=self._pooled_set).to_numpy(zero_copy_only=False)
            level_of_text[pooled & (level_of_text < 0)] = self._other
        null = indices < 0
        codes = np.full(len(values), -1, dtype=np.int64)
        codes[~null] = level_of_text[indices[~null]]
        self._settle_unseen(codes, ~null & (codes < 0), texts, indices)
        self._settle_missing(codes, null)
        return codes

    def _settle_unseen(self, codes: np.ndarray, unseen: np.ndarray, texts: pa.Array, indices: np.ndarray) -> None:
        n_unseen = int(unseen.sum())
        if n_unseen and self.unseen == "error":
            row = int(np.flatnonzero(unseen)[0])
            text = texts[int(indices[row])].as_py()
            some = ", ".join(repr(category) for category in self.categories[:5])
            raise BadValue(
                self.name,
                row,
                f"expected one of {len(self.categories)} categories ({some} ...), found {text!r}",
                "add it to categories, or set unseen: zero or other",
            )
        codes[unseen] = self._other if self.unseen == "other" else -1
        self.n_unseen += n_unseen
        if n_unseen:
            places, counts = np.unique(indices[unseen], return_counts=True)
            rows = zip(texts.take(pa.array(places)).to_pylist(), counts.tolist(), strict=True)
            self.unseen_levels = counted_levels(self.unseen_levels, dict(rows))

    def _settle_missing(self, codes: np.ndarray, null: np.ndarray) -> None:
        refuse_missing(self.name, self.missing, np.where(null, -1, 0))
        codes[null] = self._missing

    def encode(self, values: pa.Array, out: np.ndarray) -> None:
        """Write one column per dummy."""
        write_dummies(self.codes(values), out, self.drop_first)


@dataclass
class CountEncoder:
    """A category as its level's number of rows in the fit, whatever the number of levels; ignores the target.

    Attributes
    ----------
    counts : dict of str to int
        Rows of each level; unknown levels count 0.
    n_missing : int
        Rows without a value, if missing values form a level.
    missing : {"error", "zero", "category", "drop"}
    """

    name: str
    counts: dict[str, int]
    n_missing: int = 0
    missing: str = "error"
    n_unseen: int = field(default=0, compare=False)
    unseen_levels: dict[str, int] = field(default_factory=dict, compare=False)
    unseen = "zero"

    @property
    def feature_names(self) -> list[str]:
        """name.count."""
        return [f"{self.name}.count"]

    def encode(self, values: pa.Array, out: np.ndarray) -> None:
        """Write the number of rows."""
        texts, level_of_row = _levels(values)
        refuse_missing(self.name, self.missing, level_of_row)
        levels = texts.to_pylist()
        found = [self.counts.get(text, 0) for text in levels]
        if unseen := {k: text for k, text in enumerate(levels) if text is not None and text not in self.counts}:
            rows = np.bincount(level_of_row[level_of_row >= 0], minlength=len(levels))
            counted = {text: int(rows[k]) for k, text in unseen.items() if rows[k]}
            self.n_unseen += sum(counted.values())
            self.unseen_levels = counted_levels(self.unseen_levels, counted)
        out[:, 0] = np.array([*found, self.n_missing], dtype=np.float64)[level_of_row]  # -1 is the last


@dataclass
class HashedEncoder:
    """A category as dummies shared by levels with the same hash; works for any number of levels, stores none of them.

    Attributes
    ----------
    n_columns : int
    missing : {"error", "zero", "category", "drop"}
        With "category", missing values form the level "missing".
    """

    name: str
    n_columns: int
    missing: str = "error"

    @property
    def feature_names(self) -> list[str]:
        """name#0, name#1, ..."""
        return [f"{self.name}#{k}" for k in range(self.n_columns)]

    def encode(self, values: pa.Array, out: np.ndarray) -> None:
        """Write one column per hash: ``xxh64(level, seed=xxh64(column, seed=0)) % 2**63 % n_columns``."""
        from daskfs.sources.levels import bytes_of, ids_of, seed_of  # loads numba, which the other encoders do not need

        texts, level_of_row = _levels(values)
        refuse_missing(self.name, self.missing, level_of_row)
        known = pa.array([*texts.to_pylist(), MISSING], pa.large_string())
        hashes = (ids_of(*bytes_of(known), seed_of(self.name)) % np.uint64(self.n_columns)).astype(np.int64)
        if self.missing != "category":
            hashes[-1] = -1
        write_dummies(hashes[level_of_row], out, False)


@dataclass
class DateEncoder:
    """Parts of a date, as numbers or dummies."""

    name: str
    date_format: str
    parts: Sequence[str]
    years: Sequence[int] = ()
    dummies: bool = True
    drop_first: bool = False
    may_be_missing: bool = False
    has_indicator: bool = False
    unseen: str = "error"
    n_unseen: int = field(default=0, compare=False)
    unseen_levels: dict[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        self._values = {part: list(self.years if part == "year" else RANGES[part]) for part in self.parts}

    @property
    def feature_names(self) -> list[str]:
        """name.part, or name.part=value for every dummy."""
        if not self.dummies:
            return [f"{self.name}.{part}" for part in self.parts]
        names = [
            f"{self.name}.{part}={value}" for part in self.parts for value in self._values[part][self.drop_first :]
        ]
        return [*names, f"{self.name}={MISSING}"] if self.has_indicator else names

    def encode(self, values: pa.Array, out: np.ndarray) -> None:
        """Write the parts side by side; zeros if there is no date."""
        present = np.ones(len(values), dtype=bool)
        if self.may_be_missing:
            present = pc.is_valid(values).to_numpy(zero_copy_only=False)
            values = values.filter(pa.array(present))
        if self.has_indicator:
            out[:, -1] = ~present
        dates = checked_dates(self.name, values, self.date_format)
        start = 0
        for part in self.parts:
            numbers = date_part(dates, part)
            if not self.dummies:
                out[:, start] = numbers
                start += 1
                continue
            known = np.asarray(self._values[part], dtype=np.int64)
            stop = start + len(known) - self.drop_first
            codes = np.full(len(present), -1, dtype=np.int64)
            codes[present] = self._codes(part, known, numbers, np.flatnonzero(present))
            write_dummies(codes, out[:, start:stop], self.drop_first)
            start = stop

    def _codes(self, part: str, known: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
        codes = np.searchsorted(known, numbers)
        wrong = known[np.minimum(codes, len(known) - 1)] != numbers
        if wrong.any() and self.unseen == "error":
            k = int(np.flatnonzero(wrong)[0])
            problem = f"expected a {part} among {known.tolist()}, found {numbers[k]}"
            raise BadValue(self.name, int(rows[k]), problem, "add it to years, or set unseen: zero")
        self.n_unseen += int(wrong.sum())
        if wrong.any():
            years, counts = np.unique(numbers[wrong], return_counts=True)
            rows_of = dict(zip(map(str, years.tolist()), counts.tolist(), strict=True))
            self.unseen_levels = counted_levels(self.unseen_levels, rows_of)
        codes[wrong] = -1
        return codes


def checked_dates(name: str, values: pa.Array, date_format: str) -> pa.Array:
    """Return timestamps without nulls.

    Raises
    ------
    BadValue
        A missing value, or a text that does not match the format.
    """
    dates = parse_dates(values, date_format)
    if dates.null_count:
        null = pc.is_null(dates).to_numpy(zero_copy_only=False)
        unreadable = null & pc.is_valid(values).to_numpy(zero_copy_only=False)
        if not unreadable.any():
            remedy = "set missing: drop, or zero where its parts are dummies"
            raise BadValue(name, int(np.flatnonzero(null)[0]), "expected a date, found a missing value", remedy)
        row = int(np.flatnonzero(unreadable)[0])
        raise BadValue(
            name,
            row,
            f"expected a date like {date_format!r}, found {values[row].as_py()!r}",
            "fix the value, or set the column's format",
        )
    return dates


def refuse_missing(name: str, missing: str, levels: np.ndarray) -> None:
    """Refuse rows without a level (-1) unless missing values are allowed.

    Raises
    ------
    BadValue
    """
    if missing in ("error", "drop") and len(rows := np.flatnonzero(levels < 0)):
        problem = "expected a category, found a missing value"
        raise BadValue(name, int(rows[0]), problem, "set missing: drop, zero or category")


def _levels(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the distinct texts of a column, and the index of each row's text, int64; -1 if missing."""
    values = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    texts, rows = pc.cast(values.dictionary, pa.string()), _or_minus_one(values.indices)
    if texts.null_count:
        rows[(rows >= 0) & pc.is_null(texts).to_numpy(zero_copy_only=False)[rows]] = -1
    return texts, rows


def write_dummies(codes: np.ndarray, out: np.ndarray, drop_first: bool) -> None:
    """Set out[i, codes[i]] to one and the rest to zero; with `drop_first`, level 0 has no column."""
    out[...] = 0
    columns = codes - int(drop_first)
    rows = np.flatnonzero(columns >= 0)
    out[rows, columns[rows]] = 1


def _or_minus_one(indices: pa.Array) -> np.ndarray:
    filled = pc.fill_null(pc.cast(indices, pa.int64()), -1)  # polars uses unsigned indices
    return np.array(filled.to_numpy(zero_copy_only=False), dtype=np.int64)
