"""Numbers: unchanged, standardised, or with an indicator of missing values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.sources.encoders.base import MISSING, BadValue, ColumnFacts, Encoder, numbers_of, plain_numbers, shown
from daskfs.sources.encoders.sql import quoted, signed
from daskfs.sources.table_schema import ColumnSchema


def fill_of(column: ColumnSchema, mean: float) -> float | None:
    """Return the number that replaces a missing one; None if missing values are not allowed."""
    if isinstance(column.missing, (int, float)):
        return float(column.missing)
    return {"mean": mean, "zero": 0.0}.get(column.missing)


@dataclass
class NumberEncoder(Encoder):
    """A number, unchanged or standardised."""

    integer: bool = False
    fill: float | None = None
    centre: float = 0.0
    scale: float = 1.0
    has_indicator: bool = False

    kind: ClassVar[str] = "number"
    missing_as_zero: ClassVar[Mapping[str, Any]] = {"fill": 0.0}
    noun: ClassVar[str] = "number"
    how_to_fill: ClassVar[str] = "set missing: drop, mean, zero or a number for the column"

    @classmethod
    def fault_of(cls, value: float, column: ColumnSchema) -> tuple[str, str] | None:
        """Return the problem and the remedy of infinity, NaN, or a fraction in a column of integers."""
        integer = column.dtype == "integer"
        is_right = math.isfinite(value) and not (integer and value != math.floor(value))
        return None if is_right else _fault_of_number(value, integer)

    @classmethod
    def learnt(cls, name: str, column: ColumnSchema, facts: ColumnFacts, notes: list[str]) -> Self:
        """Return the encoder of a column."""
        encoder = cls(
            name, column.dtype == "integer", fill_of(column, facts.mean), has_indicator=column.missing_indicator
        )
        if column.resolved_encoding == "standardised":
            encoder.centre, encoder.scale = facts.mean, facts.std or 1.0
        return encoder

    @property
    def feature_names(self) -> list[str]:
        """The column's name, and the name of the missing indicator if there is one."""
        return [self.name, f"{self.name}={MISSING}"][: 1 + self.has_indicator]

    def unchanged(self, values: pa.Array) -> np.ndarray | None:
        """Return the numbers if they can be written unchanged (finite or not); None if they need encoding."""
        is_whole = not self.integer or pa.types.is_integer(values.type)
        is_plain = is_whole and not self._is_scaled and not self.has_indicator
        return plain_numbers(values) if is_plain else None

    def encode(self, values: pa.Array, out: np.ndarray) -> None:
        """Write the number, and the missing indicator."""
        if self.has_indicator:
            out[:, 1] = pc.is_null(values).to_numpy(zero_copy_only=False)
        numbers = checked_numbers(self.name, values, integer=self.integer, fill=self.fill)
        if self._is_scaled:
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

    @property
    def filled_with(self) -> float | None:
        """The number that replaces a missing one, if there is one."""
        return self.fill

    @property
    def _is_scaled(self) -> bool:
        return self.centre != 0.0 or self.scale != 1.0

    def sql(self, place: int, dialect: str) -> str:
        """Return the number, or the indicator of a missing one."""
        column = quoted(self.name)
        if place == 1:
            return f"CASE WHEN {column} IS NULL THEN 1 ELSE 0 END"
        text = column if self.fill is None else f"COALESCE({column}, {self.fill!r})"
        return f"({text} - {signed(self.centre)}) / {self.scale!r}" if self._is_scaled else text

    def python(self, place: int) -> str:
        """Return the number, or the indicator of a missing one."""
        column = f"frame[{self.name!r}]"
        return f"{column}.isna()" if place == 1 else f"number({column}, {self.fill!r}, {self.centre!r}, {self.scale!r})"


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
        problem = f"expected a number, found {shown(values[row].as_py())}"
        raise BadValue(name, row, problem, "set dtype: string, or fix the value") from None
    if values.null_count:
        null = pc.is_null(values).to_numpy(zero_copy_only=False)
        if fill is None:
            row = int(np.flatnonzero(null)[0])
            raise BadValue(name, row, *NumberEncoder.missing_value(is_feature=is_feature))
        numbers = np.where(null, fill, numbers)
    is_right = np.isfinite(numbers)
    if integer:
        is_right &= numbers == np.floor(numbers)
    if not is_right.all():
        row = int(np.argmin(is_right))
        raise BadValue(name, row, *_fault_of_number(numbers[row], integer))
    return numbers


def _first_that_is_no_number(values: pa.Array) -> int:
    for row in range(len(values)):
        try:
            numbers_of(values.slice(row, 1))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return row
    return 0


def _fault_of_number(number: float, integer: bool) -> tuple[str, str]:
    if not math.isfinite(number):
        return f"expected a finite number, found {number}", "name it in format.missing, or fix the value"
    return f"expected an integer, found {number:g}", "set dtype: number"
