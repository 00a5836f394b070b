"""One pass over a table for what the encoders need: categories, means, standard deviations, years."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.errors import SchemaError
from daskfs.sources.dates import years_of
from daskfs.sources.encoders.base import ColumnFacts
from daskfs.sources.encoders.date import checked_dates
from daskfs.sources.encoders.number import checked_numbers, fill_of
from daskfs.sources.table_schema import ColumnSchema, DateEncoding

if TYPE_CHECKING:
    from daskfs.sources.levels import LevelCounts

MAX_DISTINCT = 1_000_000
"""Maximum number of distinct texts counted per column; a column with more is an id, and would exhaust memory."""


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

    def facts_of(self, name: str) -> ColumnFacts:
        """Return what was found about a column."""
        moments = self.moments.get(name, Moments())
        return ColumnFacts(
            self.counts.get(name, {}), self.n_missing.get(name, 0), self.years.get(name, ()), moments.mean, moments.std
        )

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
            years.update(years_of(checked_dates(name, present, column.date_format, ["year"])))
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


def adds_features(column: ColumnSchema) -> bool:
    """Return whether the column becomes a feature for each level or year that the data have."""
    return is_open(column) or (isinstance(column.encoding, DateEncoding) and needs_survey(column))


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
