"""One pass over a table for what the encoders need: categories, means, standard deviations, years."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.errors import SchemaError
from daskfs.sources.columns import (
    OTHER,
    CategoryEncoder,
    CountEncoder,
    DateEncoder,
    Encoder,
    HashedEncoder,
    NumberEncoder,
    checked_dates,
    checked_numbers,
    name_beside,
)
from daskfs.sources.dates import years_of
from daskfs.sources.table_schema import ColumnSchema, DateEncoding, HashedEncoding

if TYPE_CHECKING:
    from daskfs.sources.levels import LevelCounts

MAX_CATEGORIES = 1000
"""Maximum number of dummies of a column, unless the schema sets another."""
MAX_DISTINCT = 1_000_000
"""Maximum number of distinct texts counted per column; a column with more is an id, and would exhaust memory."""
_NAMED_IN_A_NOTE = 10


class Survey:
    """Counts and moments of the columns that need them, accumulated batch by batch.

    Parameters
    ----------
    columns : mapping of str to ColumnSchema
        All used columns of the table.
    by_id : bool
        Whether to count categories of features, which may be numerous, by their ids.
    """

    def __init__(self, columns: Mapping[str, ColumnSchema], *, by_id: bool = False) -> None:
        self.columns = {name: column for name, column in columns.items() if needs_survey(column, by_id=by_id)}
        counted_by_id = [name for name, column in self.columns.items() if by_id and is_open(column)]
        self.level_counts: dict[str, LevelCounts] = {}
        if counted_by_id:  # loads numba, which processes that encode dense columns do not need
            from daskfs.sources.levels import LevelCounts

            self.level_counts = {name: LevelCounts(name) for name in counted_by_id}
        self.counts: dict[str, dict[str, int]] = {
            name: {} for name in (*self._of("category"), *self._of("counts")) if name not in counted_by_id
        }
        self.n_missing = dict.fromkeys(self._of("counts"), 0)
        self.years: dict[str, set[int]] = {name: set() for name in self._of("date")}
        self.moments = {
            name: Moments() for name in (*self._of("number"), *self._of("standardised"), *self._of("log_bins"))
        }
        self.n_samples = 0

    def _of(self, encoding: str) -> list[str]:
        return [name for name, column in self.columns.items() if column.resolved_encoding == encoding]

    def update(self, table: pa.RecordBatch) -> None:
        """Count the rows of a batch; dropped rows must have been removed.

        Raises
        ------
        BadValue
            A value that cannot be used.
        SchemaError
            A categorical column with more than a million distinct texts.
        """
        self.n_samples += table.num_rows
        for name, counts in self.counts.items():
            self._count(name, counts, table[name])
        for name in self.n_missing:
            self.n_missing[name] += table[name].null_count
        for name, levels in self.level_counts.items():
            levels.update(table[name])
        for name, years in self.years.items():
            column = self.columns[name]
            present = table[name].drop_null() if column.missing == "zero" else table[name]
            years.update(years_of(checked_dates(name, present, column.date_format)))
        for name, moments in self.moments.items():
            column = self.columns[name]
            present = table[name].drop_null() if column.missing == "mean" else table[name]
            moments.update(checked_numbers(name, present, integer=column.dtype == "integer", fill=fill_of(column, 0.0)))

    def merge(self, later: Survey) -> None:
        """Include what was found in the rows that follow.

        Raises
        ------
        SchemaError
            As by `update`.
        """
        self.n_samples += later.n_samples
        for name, counts in self.counts.items():
            for text, count in later.counts[name].items():
                counts[text] = counts.get(text, 0) + count
            _check_distinct(name, counts)
        for name in self.n_missing:
            self.n_missing[name] += later.n_missing[name]
        for name, levels in self.level_counts.items():
            levels.merge(later.level_counts[name])
        for name, years in self.years.items():
            years |= later.years[name]
        for name, moments in self.moments.items():
            moments.merge(later.moments[name])

    def _count(self, name: str, counts: dict[str, int], values: pa.Array) -> None:
        tallied = pc.value_counts(values.dictionary_decode() if pa.types.is_dictionary(values.type) else values)
        texts = pc.cast(tallied.field("values"), pa.string()).to_pylist()
        for text, count in zip(texts, tallied.field("counts").to_pylist(), strict=True):
            if text is not None:
                counts[text] = counts.get(text, 0) + count
        _check_distinct(name, counts)


def _check_distinct(name: str, counts: Mapping[str, int]) -> None:
    if len(counts) > MAX_DISTINCT:
        raise SchemaError(
            f"more than {MAX_DISTINCT:,} different values in a category",
            f"column '{name}'",
            "set one_hot: sparse in the source, or role: ignore or id",
        )


class Moments:
    """Mean and population variance of numbers that arrive in batches (Chan, Golub and LeVeque 1983)."""

    def __init__(self, count: int = 0, mean: float = 0.0, squares: float = 0.0) -> None:
        self.count, self.mean, self.squares = count, mean, squares

    def update(self, numbers: np.ndarray) -> None:
        """Include more numbers."""
        if len(numbers):
            mean = float(numbers.mean())
            self.merge(Moments(len(numbers), mean, float(np.square(numbers - mean).sum())))

    def merge(self, later: Moments) -> None:
        """Include other numbers, given by their moments."""
        if later.count == 0:
            return
        total = self.count + later.count
        shift = later.mean - self.mean
        self.squares += later.squares + shift * shift * self.count * later.count / total
        self.mean += shift * later.count / total
        self.count = total

    @property
    def std(self) -> float:
        """Population standard deviation; 0.0 if there are no numbers."""
        return float(np.sqrt(self.squares / self.count)) if self.count else 0.0


def is_open(column: ColumnSchema) -> bool:
    """Return whether the column is a categorical feature whose levels come from the data."""
    return column.role == "feature" and column.resolved_encoding == "category" and column.categories is None


def needs_survey(column: ColumnSchema, *, by_id: bool = False) -> bool:
    """Return whether the column must be read once before it can be encoded.

    Parameters
    ----------
    column : ColumnSchema
    by_id : bool
        Whether categories become features by their ids, for which no list is needed.
    """
    if column.role not in ("feature", "target"):
        return False
    if by_id and is_open(column):
        return column.min_count > 1 or column.max_categories is not None
    encoding = column.resolved_encoding
    if isinstance(column.encoding, DateEncoding):
        return (
            column.encoding.as_ == "dummies" and "year" in column.encoding.date_parts and column.encoding.years is None
        )
    return (
        (encoding == "category" and column.categories is None)
        or encoding == "counts"
        or (encoding == "standardised" and column.role == "feature")
        or column.missing == "mean"
    )


def make_encoder(name: str, column: ColumnSchema, survey: Survey, notes: list[str]) -> Encoder:
    """Return the encoder of a feature; decisions made for it are appended to `notes`.

    Raises
    ------
    SchemaError
        More categories than allowed.
    """
    encoding = column.resolved_encoding
    if encoding == "category":
        return _category_encoder(name, column, survey, notes)
    policy = column.missing if isinstance(column.missing, str) else "error"
    if encoding == "counts":
        n_missing = survey.n_missing.get(name, 0) if policy == "category" else 0
        return CountEncoder(name, dict(survey.counts.get(name, {})), n_missing, policy)
    if isinstance(column.encoding, HashedEncoding):
        return HashedEncoder(name, column.encoding.hashed, policy)
    if isinstance(column.encoding, DateEncoding):
        years = sorted(survey.years.get(name, ())) if column.encoding.years is None else sorted(column.encoding.years)
        return DateEncoder(
            name,
            column.date_format,
            column.encoding.date_parts,
            years,
            dummies=column.encoding.as_ == "dummies",
            drop_first=column.drop_first,
            may_be_missing=column.missing == "zero",
            has_indicator=column.missing_indicator,
            unseen=column.unseen,
        )
    moments = survey.moments.get(name, Moments())
    if encoding == "log_bins":
        raise SchemaError("bins need sparse rows", f"column '{name}'", "set one_hot: sparse in the source")
    fill = fill_of(column, moments.mean)
    encoder = NumberEncoder(name, column.dtype == "integer", fill, has_indicator=column.missing_indicator)
    if encoding == "standardised":
        encoder.centre, encoder.scale = moments.mean, moments.std or 1.0
    return encoder


def fill_of(column: ColumnSchema, mean: float) -> float | None:
    """Return the number that replaces a missing one; None if missing values are not allowed."""
    if isinstance(column.missing, (int, float)):
        return float(column.missing)
    return {"mean": mean, "zero": 0.0}.get(column.missing)


def _category_encoder(name: str, column: ColumnSchema, survey: Survey, notes: list[str]) -> CategoryEncoder:
    if column.categories is not None:
        categories, pooled = list(column.categories), frozenset[str]()
    else:
        categories, pooled = _choose_categories(name, column, survey.counts[name], notes)
    missing = column.missing if isinstance(column.missing, str) else "error"
    return CategoryEncoder(name, categories, pooled, column.unseen, missing, column.drop_first)


def _choose_categories(
    name: str, column: ColumnSchema, counts: dict[str, int], notes: list[str]
) -> tuple[list[str], frozenset[str]]:
    by_frequency = sorted(counts, key=lambda text: (-counts[text], text))
    kept = [text for text in by_frequency if counts[text] >= column.min_count]
    if column.max_categories is not None:
        kept = kept[: column.max_categories]
    elif len(kept) > MAX_CATEGORIES:
        raise SchemaError(
            f"{len(kept):,} different values, more than the maximum of {MAX_CATEGORIES:,} dummies",
            f"column '{name}'",
            "set one_hot: sparse in the source, role: ignore, or min_count or max_categories in the table schema",
        )
    pooled = frozenset(counts) - frozenset(kept)
    if pooled:
        n_rows = sum(counts[text] for text in pooled)
        listed = [repr(text) for text in by_frequency if text in pooled]
        more = f" and {len(listed) - _NAMED_IN_A_NOTE} more" if len(listed) > _NAMED_IN_A_NOTE else ""
        notes.append(
            f"column '{name}': {len(pooled)} rare categories ({n_rows:,} rows) are pooled into "
            f"'{name}={name_beside(OTHER, kept)}': "
            f"{', '.join(listed[:_NAMED_IN_A_NOTE])}{more}"
        )
    return _in_order(kept), pooled


def _in_order(texts: list[str]) -> list[str]:
    """Sort numerically if all texts are numbers, otherwise alphabetically."""
    try:
        return sorted(texts, key=lambda text: (float(text), text))
    except ValueError:
        return sorted(texts)
