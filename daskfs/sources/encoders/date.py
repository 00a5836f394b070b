"""Dates as parts: numbers, or dummies of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.sources.dates import RANGES, date_part, have_parts, parse_dates
from daskfs.sources.encoders.base import MISSING, BadValue, ColumnFacts, Encoder, shown, write_dummies
from daskfs.sources.encoders.sql import part_of_date, quoted
from daskfs.sources.table_schema import ColumnSchema, DateEncoding


@dataclass
class DateEncoder(Encoder):
    """Parts of a date, as numbers or dummies."""

    date_format: str
    parts: Sequence[str]
    years: Sequence[int] = ()
    dummies: bool = True
    drop_first: bool = False
    may_be_missing: bool = False
    has_indicator: bool = False
    unseen: str = "error"

    kind: ClassVar[str] = "date"
    missing_as_zero: ClassVar[Mapping[str, Any]] = {"may_be_missing": True}
    noun: ClassVar[str] = "date"
    how_to_fill: ClassVar[str] = "set missing: drop, or zero where its parts are dummies"

    @classmethod
    def fault_of(cls, value: str, column: ColumnSchema) -> tuple[str, str] | None:
        """Return the problem and the remedy of a text that does not match the column's format."""
        is_date = not parse_dates(pa.array([value]), column.date_format).null_count
        return None if is_date else _unreadable(value, column.date_format)

    @classmethod
    def learnt(cls, name: str, column: ColumnSchema, facts: ColumnFacts, notes: list[str]) -> Self:
        """Return the encoder of a column."""
        assert isinstance(column.encoding, DateEncoding)
        return cls(
            name,
            column.date_format,
            column.encoding.date_parts,
            sorted(facts.years if column.encoding.years is None else column.encoding.years),
            dummies=column.encoding.as_ == "dummies",
            drop_first=column.drop_first,
            may_be_missing=column.missing == "zero",
            has_indicator=column.missing_indicator,
            unseen=column.unseen,
        )

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
        dates = checked_dates(self.name, values, self.date_format, self.parts)
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
        if wrong.any():
            years, counts = np.unique(numbers[wrong], return_counts=True)
            self.count_unseen(int(wrong.sum()), dict(zip(map(str, years.tolist()), counts.tolist(), strict=True)))
        codes[wrong] = -1
        return codes

    def _unseen_as(self) -> str:
        return "years encoded as zeros"

    def _is_indicator(self, place: int) -> bool:
        return self.has_indicator and place == len(self.feature_names) - 1

    def _part_and_value(self, place: int) -> tuple[str, str]:
        part, _, value = self.feature_names[place].removeprefix(f"{self.name}.").partition("=")
        return part, value

    def sql(self, place: int, dialect: str) -> str:
        """Return a part of a date, or the indicator of a value of it."""
        column = quoted(self.name)
        if self._is_indicator(place):
            return f"CASE WHEN {column} IS NULL THEN 1 ELSE 0 END"
        part, value = self._part_and_value(place)
        number = part_of_date(column, part, dialect)
        if not self.dummies:
            return number
        missing = "" if self.may_be_missing else f"WHEN {column} IS NULL THEN NULL "
        return f"CASE {missing}WHEN {number} = {int(value)} THEN 1 ELSE 0 END"

    def python(self, place: int) -> str:
        """Return a part of a date, or the indicator of a value of it."""
        column = f"frame[{self.name!r}]"
        if self._is_indicator(place):
            return f"{column}.isna()"
        part, value = self._part_and_value(place)
        found = f"part({column}, {self.date_format!r}, {part!r})"
        return f"{found} == {int(value)}" if self.dummies else found


def checked_dates(name: str, values: pa.Array, date_format: str, parts: Sequence[str]) -> pa.Array:
    """Return timestamps without nulls.

    Raises
    ------
    BadValue
        A missing value, a text that does not match the format, or values that lack a part, as numbers do.
    """
    if values.null_count < len(values) and not have_parts(values, parts):
        row = int(np.argmax(pc.is_valid(values).to_numpy(zero_copy_only=False)))
        raise BadValue(name, row, *_unreadable(values[row].as_py(), date_format))
    dates = parse_dates(values, date_format)
    if dates.null_count:
        null = pc.is_null(dates).to_numpy(zero_copy_only=False)
        unreadable = null & pc.is_valid(values).to_numpy(zero_copy_only=False)
        if not unreadable.any():
            raise BadValue(name, int(np.flatnonzero(null)[0]), *DateEncoder.missing_value())
        row = int(np.flatnonzero(unreadable)[0])
        raise BadValue(name, row, *_unreadable(values[row].as_py(), date_format))
    return dates


def _unreadable(text: str, date_format: str) -> tuple[str, str]:
    return f"expected a date like {date_format!r}, found {shown(text)}", "fix the value, or set the column's format"
