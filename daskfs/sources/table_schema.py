"""The schema of a table's columns: role, type, encoding and missing values, as users write it in YAML.

version: 1
name: household-power
format: {delimiter: ",", missing: ["", "?"]}
columns:
Global_active_power: {role: target, missing: drop}
Voltage: {missing: drop}
Date: {dtype: date, format: "%d/%m/%Y", encoding: {date_parts: [year, month, day]}, drop_first: true}
other_columns: error
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from daskfs.documents import Document, check_document, read_yaml
from daskfs.errors import SchemaError

DEFAULT_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
DATE_FORMATS = {"date": "%Y-%m-%d", "time": "%H:%M:%S", "datetime": "%Y-%m-%d %H:%M:%S"}
THOUSANDS = ("", ",", ".", " ", "'", "_")
DATE_PARTS = ("year", "quarter", "month", "day", "weekday")
TIME_PARTS = ("hour", "minute", "second")

DatePart: TypeAlias = Literal["year", "quarter", "month", "day", "weekday", "hour", "minute", "second"]
MissingPolicy: TypeAlias = Annotated[
    Annotated[Literal["error", "drop", "mean", "zero", "category"], Tag("word")] | Annotated[float, Tag("number")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "number"),
]


class TableFormat(Document):
    """Text format of a CSV file."""

    delimiter: str = Field(",", min_length=1, max_length=1, description='One character; "\\t" for tabs')
    quote: str = Field('"', max_length=1, description="Character around quoted values; empty: no quoting")
    header: bool = Field(
        True, description="The first line has the column names; if false, the schema has them, in order"
    )
    encoding: str = Field("utf-8", description="Encoding of the text, e.g. latin-1")
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'", "_"] = Field("", description="Thousands separator; empty: none")
    comment: str = Field("", max_length=1, description="Character that starts a comment line; empty: no comments")
    skip_initial_space: bool = Field(False, description="Strip spaces around names and values")
    missing: list[str] = Field(DEFAULT_MISSING, description="Texts that mean a missing value")

    @field_validator("delimiter", mode="before")
    @classmethod
    def _tab(cls, delimiter: Any) -> Any:
        """Accept the two characters of an escaped tab, as messages and some shells write it."""
        return "\t" if delimiter == "\\t" else delimiter

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, encoding: str) -> str:
        try:
            "".encode(encoding)
        except LookupError:
            raise ValueError(f"expected the name of an encoding such as utf-8 or latin-1, found {encoding!r}") from None
        return encoding

    @model_validator(mode="after")
    def _distinct_characters(self) -> TableFormat:
        if self.delimiter in (self.quote, self.decimal):
            raise ValueError(f"expected a delimiter other than the quote and decimal sign, found {self.delimiter!r}")
        for sign in self.delimiter + self.quote:
            if not sign.isascii() or sign in "\r\n\0":
                raise ValueError(
                    f"expected an ASCII character that is no line end as delimiter and quote, found {sign!r}"
                )
        if self.thousands and self.thousands in (self.decimal, self.delimiter):
            signs = "decimal sign and the delimiter"
            raise ValueError(f"expected a thousands separator that differs from the {signs}, found {self.thousands!r}")
        return self

    def to_document(self) -> dict[str, Any]:
        """Return the document that identifies the encoding; newer fields are left out at their defaults."""
        return self.model_dump(exclude=None if self.thousands else {"thousands"})

    def readings(self, text: str) -> dict[str, float]:
        """Return the numbers that a text can represent, by the settings that read it so; empty for other texts.

        Examples
        --------
        >>> layout = TableFormat.model_validate({})
        >>> layout.readings("17,711")
        {"format.thousands: ','": 17711.0, "format.decimal: ','": 17.711}
        >>> layout.readings("1.234,5")
        {"format.decimal: ',' and format.thousands: '.'": 1234.5}
        >>> layout.readings("1,5"), layout.readings("abc")
        ({"format.decimal: ','": 1.5}, {})
        """
        found: dict[str, float] = {}
        for decimal in (self.decimal, *({".", ","} - {self.decimal})):
            for thousands in (self.thousands, *(sign for sign in THOUSANDS if sign != self.thousands)):
                grouped = rf"\d{{1,3}}({re.escape(thousands)}\d{{3}})+" if thousands else r"\d+"
                number = rf"[+-]?{grouped}({re.escape(decimal)}\d*)?([eE][+-]?\d+)?"
                if thousands == decimal or not re.fullmatch(number, text.strip(), re.ASCII):
                    continue
                changed = [f"format.decimal: {decimal!r}"] * (decimal != self.decimal)
                changed += [f"format.thousands: {thousands!r}"] * (thousands != self.thousands)
                plain = float(text.strip().replace(thousands, "").replace(decimal, "."))
                if plain not in found.values():
                    found[" and ".join(changed)] = plain
        return found


class DateEncoding(Document):
    """Parts of a date as dummies or numbers."""

    date_parts: list[DatePart] = Field(min_length=1)
    as_: Literal["dummies", "number"] = Field("dummies", alias="as")
    years: list[int] | None = Field(None, description="Years with a dummy; default: those in the data")


class HashedEncoding(Document):
    """Levels of a category, in any number, encoded as dummies shared by levels with the same hash."""

    hashed: int = Field(ge=2, le=65536, description="Number of columns")


class ColumnSchema(Document):
    """Schema of a column of a table."""

    role: Literal["feature", "target", "weight", "id", "split", "ignore"] = "feature"
    dtype: Literal["number", "integer", "percent", "currency", "string", "date", "time", "datetime"] = Field(
        "number",
        description='percent: text such as "12.5 %", read as 12.5; currency: text such as "$1,234.50", "12 EUR" or '
        '"(3.20)", which is negative, read as the number',
    )
    format: str | None = Field(
        None,
        description="Format of dates and times, as for strptime; ISO by default; if several are given, separated by |, "
        "each text is read by the first that matches",
    )
    encoding: (
        Literal["number", "standardised", "category", "counts", "log_bins"] | DateEncoding | HashedEncoding | None
    ) = Field(
        None,
        description="Encoding as columns; by default numbers unchanged, strings as categories. counts: number of rows "
        "of the fit with the same level, ignoring the target; {hashed: 64}: a dummy for each of 64 hashes of levels; "
        "log_bins: one feature for each bin of a squared logarithm, with one_hot: sparse",
    )
    decimal: Literal[".", ","] | None = Field(None, description="Decimal sign in this column; default: as in format")
    thousands: Literal["", ",", ".", " ", "'", "_"] | None = Field(
        None, description="Thousands separator in this column; default: as in format"
    )
    missing: MissingPolicy = "error"
    missing_indicator: bool = Field(False, description="Add a feature that is 1 if the number or date is missing")
    categories: list[str] | None = Field(None, min_length=1, description="The categories; default: those in the data")
    min_count: int = Field(1, ge=1, description="Categories with fewer rows are pooled into one named other")
    max_categories: int | None = Field(None, ge=1, description="Keep the most frequent categories and pool the rest")
    unseen: Literal["error", "zero", "other"] = Field(
        "error", description="Treatment of a category outside the list, or a year without a dummy"
    )
    required: bool = Field(True, description="Refuse a table without this column")
    drop_first: bool = Field(False, description="Omit the first dummy, as the reference category")
    look_at: list[str] = Field(
        default=[], description="What daskfs init found suspicious: reports repeat it; delete it once it is resolved"
    )

    @field_validator("categories", mode="before")
    @classmethod
    def _categories_as_text(cls, categories: Any) -> Any:
        if isinstance(categories, list):
            return [item if isinstance(item, str) else _plain(item) for item in categories]
        return categories

    @field_validator("missing", mode="before")
    @classmethod
    def _number_or_word(cls, missing: Any) -> Any:
        if isinstance(missing, bool):
            raise ValueError(f"expected error, drop, mean, zero, category or a number, found {missing!r}")
        return missing

    @model_validator(mode="after")
    def _consistent(self) -> ColumnSchema:
        self._check_dates()
        is_category = self.resolved_encoding == "category"
        if self.role == "target" and self.of_levels and not is_category:
            raise ValueError(f"a target must be a number or a category, found encoding {self.resolved_encoding}")
        if self.dtype == "string" and self.role in ("feature", "target") and not self.of_levels:
            raise ValueError(
                f"a string column can only be encoded as category, counts or hashed, not {self.encoding!r}"
            )
        if not is_category and self.role in ("feature", "target"):
            given = self.model_fields_set & {"categories", "min_count", "max_categories", "unseen"}
            if self.resolved_encoding == "date" and self.unseen != "other":
                given -= {"unseen"}
            if given:
                raise ValueError(f"{', '.join(sorted(given))}: only allowed with encoding: category")
            if self.missing == "category" and not self.of_levels and self.encoding != "log_bins":
                raise ValueError("missing: category needs encoding: category; use drop, mean, zero or a number")
        is_number = self.role in ("feature", "target") and not self.of_levels
        if not is_number and (self.missing == "mean" or isinstance(self.missing, float)):
            raise ValueError(f"missing: {self.missing} is only for numbers; use error, drop, zero or category")
        if self.encoding == "log_bins" and self.role in ("target", "weight"):
            raise ValueError(f"a {self.role} must be a number, found encoding log_bins")
        if self.categories is not None and self.model_fields_set & {"min_count", "max_categories"}:
            raise ValueError("set either categories, or min_count and max_categories, which choose them")
        if self.role in ("target", "weight") and self.missing not in ("error", "drop"):
            raise ValueError(f"a {self.role} is never imputed: expected missing: error or drop, found {self.missing!r}")
        if self.missing_indicator and (self.role != "feature" or self.missing in ("error", "drop")):
            raise ValueError("missing_indicator: only allowed for a feature with missing: mean, zero or a number")
        if self.missing_indicator and (self.of_levels or self.encoding == "log_bins"):
            raise ValueError("missing_indicator: only allowed for numbers and dates; set missing: category instead")
        if self.categories is not None and len(set(self.categories)) < len(self.categories):
            raise ValueError("categories: duplicate category; name each once")
        return self

    def _check_dates(self) -> None:
        is_date = self.dtype in DATE_FORMATS
        parts = self.encoding.date_parts if isinstance(self.encoding, DateEncoding) else None
        if self.format is not None and not is_date:
            raise ValueError(f"format is for dates and times, not for dtype: {self.dtype}")
        if parts is not None and not is_date:
            raise ValueError(f"date_parts need dtype: date, time or datetime, found dtype: {self.dtype}")
        if not is_date:
            return
        if self.role in ("target", "weight"):
            raise ValueError(f"a {self.dtype} cannot be a {self.role}")
        if self.role != "feature":
            return
        if parts is None:
            raise ValueError(f"a {self.dtype} needs parts: set encoding: {{date_parts: [year, month, ...]}}")
        absent = {"date": TIME_PARTS, "time": DATE_PARTS}.get(self.dtype, ())
        wrong = [part for part in parts if part in absent]
        if wrong:
            raise ValueError(f"a {self.dtype} has no {' and no '.join(wrong)}")
        as_dummies = isinstance(self.encoding, DateEncoding) and self.encoding.as_ == "dummies"
        if self.missing not in ("error", "drop") and not (as_dummies and self.missing == "zero"):
            allowed = "error, drop or zero" if as_dummies else "error or drop"
            raise ValueError(f"expected missing: {allowed} for dates, found {self.missing!r}")

    @property
    def resolved_encoding(self) -> str:
        """One of number, standardised, category, counts, hashed, log_bins, date."""
        if isinstance(self.encoding, DateEncoding):
            return "date"
        if isinstance(self.encoding, HashedEncoding):
            return "hashed"
        if self.encoding is not None:
            return self.encoding
        if self.dtype in DATE_FORMATS:
            return "date"
        return "category" if self.dtype == "string" else "number"

    @property
    def of_levels(self) -> bool:
        """Whether its values are category levels, which are texts."""
        return self.resolved_encoding in ("category", "counts", "hashed")

    def to_document(self) -> dict[str, Any]:
        """Return the document that identifies the encoding; newer fields are left out at their defaults."""
        unchanged = {"look_at"} | {
            name
            for name, value in (
                ("missing_indicator", self.missing_indicator or None),
                ("decimal", self.decimal),
                ("thousands", self.thousands),
            )
            if value is None
        }
        return self.model_dump(mode="json", by_alias=True, exclude=unchanged)

    def layout_in(self, layout: TableFormat) -> TableFormat:
        """Return the number format of this column in a table with this format."""
        signs = {"decimal": self.decimal, "thousands": self.thousands}
        return layout.model_copy(update={key: sign for key, sign in signs.items() if sign is not None})

    @property
    def date_format(self) -> str:
        """Format of dates and times: the given one, or ISO."""
        return self.format or DATE_FORMATS[self.dtype]


class TableSchema(Document):
    """Schema of a table: its format, and the role, type and encoding of its columns."""

    version: Literal[1] = 1
    name: str = ""
    description: str = ""
    format: TableFormat = Field(default_factory=lambda: TableFormat.model_validate({}))
    columns: dict[str, ColumnSchema] = Field(min_length=1)
    other_columns: Literal["error", "ignore", "feature"] = Field(
        "error", description="Treatment of columns that the schema does not name"
    )

    @model_validator(mode="after")
    def _roles(self) -> TableSchema:
        weights = [name for name, column in self.columns.items() if column.role == "weight"]
        if len(weights) > 1:
            raise ValueError(f"expected at most one column with role: weight, found {', '.join(weights)}")
        if self.other_columns == "feature" or any(column.role == "feature" for column in self.columns.values()):
            return self
        raise ValueError("columns: no column has role: feature, so there is nothing to select from")


def by_text(suspicions: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the suspicions of columns, each text once, with its columns.

    Examples
    --------
    >>> by_text({"a": ["is constant"], "b": [], "c": ["is constant", "is an identifier"]})
    ["'a', 'c': is constant", "'c': is an identifier"]
    """
    columns: dict[str, list[str]] = {}
    for name, texts in suspicions.items():
        for text in texts:
            columns.setdefault(text, []).append(repr(name))
    return [f"{', '.join(names)}: {text}" for text, names in columns.items()]


def load_table_schema(schema: str | os.PathLike[str] | Mapping[str, Any] | TableSchema) -> TableSchema:
    """Return a checked table schema from a YAML file or a mapping.

    Raises
    ------
    SchemaError
        One line per fault, each with its place and the most similar valid word.
    """
    if isinstance(schema, TableSchema):
        return schema
    if isinstance(schema, Mapping):
        return check_document(TableSchema, schema, "schema", SchemaError)
    path = Path(schema)
    return check_document(TableSchema, read_yaml(path, SchemaError), str(path), SchemaError)


def _plain(value: Any) -> str:
    """Return a YAML scalar as a table would write it: 3 -> "3", true -> "true"."""
    return str(value).lower() if isinstance(value, bool) else str(value)
