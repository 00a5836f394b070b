"""Rows of another table, encoded as in a fit; see `daskfs.sources.table_encoder`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs import errors
from daskfs.errors import did_you_mean
from daskfs.sources.base import SourceBlock
from daskfs.sources.csv_types import numbers_in
from daskfs.sources.encoders.base import BadValue, numbers_of
from daskfs.sources.encoders.category import CategoryEncoder
from daskfs.sources.survey import Moments, Survey
from daskfs.sources.table import TableBatch, TableSource
from daskfs.sources.table_encoder import TableEncoder
from daskfs.sources.table_schema import ColumnSchema

SchemaError = errors.SchemaError.about("new-rows")

_NAMED = 8
_AS_TEXT = ColumnSchema.model_validate({"role": "id", "dtype": "string"})


class KnownLevels:
    """The category levels that were frequent in the fit, by their ids: see `levels.LevelCounts`."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = np.array(ids, np.uint64)

    def frequent(self, min_count: int, most: int | None) -> tuple[np.ndarray, int, int]:
        """Return these levels; nothing is known about others."""
        return self.ids, 0, 0


class AppliedTable(TableSource):
    """Rows of a table, encoded as in a fit.

    Rows that the fit would have dropped (``missing: drop``) are kept, with missing values as 0: the output has the
    rows of the input, and `beside` tells which ones these are.

    Parameters
    ----------
    encoder : TableEncoder
    source : TableSource
        The new rows. The columns may be in any order; unknown ones are ignored.
    features : sequence of int, optional
        Numbers of the requested features, in the order in which blocks should have them: only the columns that they
        are made from need to be present. By default all.
    kept : sequence of str
        Columns that are passed through unchanged, beside the ids.
    unseen : {"zero", "other"}, optional
        Encoding of categories that the fit did not have, where they would be an error.

    Attributes
    ----------
    extra : list of str
        Columns that the fit did not have.
    target : str or None
        The target's column, if present.

    Raises
    ------
    SchemaError
        A required column is missing.
    """

    kind = "table"

    def __init__(
        self,
        encoder: TableEncoder,
        source: TableSource,
        features: Any = None,
        kept: Sequence[str] = (),
        unseen: str | None = None,
    ) -> None:
        super().__init__()
        self._encoder, self._source = encoder, source
        self._places: np.ndarray | None = None
        header, chosen = source.header(), set(encoder.feature_columns)
        if features is not None:
            chosen, self._places = _places(encoder.spans, np.asarray(features, dtype=np.int64))
        needed = {name: column for name, column in encoder.columns.items() if name in chosen}
        self._refuse_lacking([*(name for name in (*needed, *kept) if name not in header)], header)
        of_fit = set(encoder.names)
        self.extra = [str(name) for name in header if name not in of_fit]
        self.target = encoder.target if encoder.target in header else None
        weights = [name for name, column in encoder.columns.items() if column.role == "weight"]
        self._weight_name = weights[0] if weights and weights[0] in header else None
        beside = [name for name in (self.target, self._weight_name) if name is not None]
        self._void_without = frozenset(name for name, column in needed.items() if column.missing == "drop")
        ids = [name for name, column in encoder.columns.items() if column.role == "id" and name in header]
        self.kept = [*dict.fromkeys([*ids, *kept])]
        self._read = {name: _tolerant(column, unseen) for name, column in needed.items()}
        self._read |= {name: encoder.columns[name].model_copy(update={"missing": "drop"}) for name in beside}
        self._read = {name: _AS_TEXT for name in self.kept if name not in self._read} | self._read
        known = {name: encoder.encoders[name] for name in needed if name in encoder.encoders}
        survey = Survey({})
        survey.level_counts = {name: KnownLevels(ids) for name, ids in encoder.levels.items()}  # type: ignore[misc]
        survey.moments = {name: _moments(mean) for name, mean in encoder.means.items()}
        self.columns = {name: _kept(column) for name, column in needed.items()}  # not learnt from these rows
        self.encoders = {
            name: one.for_new_rows(missing_to_zero=name in self._void_without, unseen=unseen)
            for name, one in known.items()
        }
        self._survey = survey
        self._source = source.reading(self._read)
        self._void: list[np.ndarray] = []
        self._targets: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self._handed_on: dict[str, list[pa.Array]] = {name: [] for name in self.kept}

    def _refuse_lacking(self, lacking: list[str], header: Collection[str]) -> None:
        if not lacking:
            return
        more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
        shown = ", ".join(map(repr, lacking[:_NAMED])) + more
        remedy = f"its columns are {', '.join(map(repr, [*header][:12]))}"
        if len(header) == 1:
            remedy = f"it has one column, {next(iter(header))!r}: is its delimiter {self._encoder.layout.delimiter!r}?"
        problem = f"the table lacks {shown}{did_you_mean(lacking[0], set(header) - set(self._encoder.names))}"
        raise SchemaError(problem, self.place, remedy)

    @property
    def place(self) -> str:
        """The name of the table, for messages."""
        return self._source.place

    def header(self) -> Mapping[str, pa.DataType | None]:
        """Return the columns of the table."""
        return self._source.header()

    def refusal(self, fault: BadValue, batch: TableBatch, row: int) -> errors.SourceError:
        """Return the error of a bad value."""
        return self._source.refusal(fault, batch, row)

    def describe(self) -> dict[str, Any]:
        """Return what identifies the table."""
        return self._source.describe()

    def digest(self) -> str:
        """Return the digest of the table."""
        return self._source.digest()

    def estimate_n_samples(self) -> int | None:
        """Return the approximate number of rows."""
        known = self._source.n_samples
        return known if known is not None else self._source.estimate_n_samples()

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """None: unknown until the rows are read."""
        return None

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield the requested features of all rows, in the requested order."""
        for block in super().row_blocks(block_rows, dtype):
            if self._places is not None:
                block.X = block.X[:, self._places]
            yield block

    def batches(self, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield the rows in the types that the encoders expect; `beside` keeps their other values."""
        for batch in self._source.batches(self._read):
            with self._placed(batch, np.arange(batch.table.num_rows)):
                arrays = {name: self._as_in_fit(name, batch.table[name]) for name in self.columns}
            n_rows = batch.table.num_rows
            void = np.zeros(n_rows, bool)
            for name in self._void_without:
                void |= pc.is_null(arrays[name]).to_numpy(zero_copy_only=False)
            self._void.append(void)
            self._targets.append(self._target_of(batch.table))
            for name, parts in self._handed_on.items():
                parts.append(batch.table[name])
            self._weights.append(_floats(batch.table[self._weight_name]) if self._weight_name else np.ones(n_rows))
            known = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)) if arrays else batch.table
            yield dataclasses.replace(batch, table=known)

    def beside(self, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return, for the next rows, whether the fit would drop them, their targets (NaN: none) and their weights."""
        return tuple(_taken(parts, n_rows) for parts in (self._void, self._targets, self._weights))  # type: ignore[return-value]

    def handed_on(self, n_rows: int) -> dict[str, pa.Array]:
        """Return the pass-through columns of the next rows."""
        return {name: _first(parts, n_rows) for name, parts in self._handed_on.items()}

    def _as_in_fit(self, name: str, values: pa.Array) -> pa.Array:
        """Return a column in the fit's type: numbers given as text as numbers, booleans in the fit's spelling."""
        column, encoder = self.columns[name], self.encoders.get(name)
        is_text = _is_text(values.type)
        if column.resolved_encoding in ("number", "standardised", "log_bins"):
            return self._numbers(name, values) if is_text else values
        if encoder is not None:
            values = encoder.booleans_as_text(values)
        if column.resolved_encoding == "category" and pa.types.is_floating(values.type):
            whole = pc.if_else(pc.equal(values, pc.floor(values)), True, False)
            if pc.all(pc.fill_null(whole, True)).as_py():  # integer codes, stored as floats because some are missing
                return pc.cast(pc.cast(values, pa.int64(), safe=False), pa.string())
        return values

    def _numbers(self, name: str, values: pa.Array) -> pa.Array:
        texts = pc.cast(values.dictionary_decode() if pa.types.is_dictionary(values.type) else values, pa.string())
        missing = pa.array(self._encoder.layout.missing, pa.string())
        texts = pc.if_else(pc.is_in(texts, value_set=missing), pa.scalar(None, pa.string()), texts)
        numbers = numbers_in(texts, self._encoder.columns[name].layout_in(self._encoder.layout))
        is_null = pc.is_null(texts).to_numpy(zero_copy_only=False)
        if len(wrong := np.flatnonzero(np.isnan(numbers) & ~is_null)):
            row = int(wrong[0])
            raise BadValue(name, row, f"expected a number, found {texts[row].as_py()!r}", "fix the value")
        return pa.array(numbers, mask=is_null)

    def _target_of(self, table: pa.RecordBatch) -> np.ndarray:
        """Return the targets as in the fit; NaN if missing or unknown to the fit."""
        if self.target is None:
            return np.full(table.num_rows, np.nan)
        values, encoder = table[self.target], self._encoder.encoders.get(self.target)
        if not isinstance(encoder, CategoryEncoder):
            if _is_text(values.type):
                texts = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
                layout = self._encoder.columns[self.target].layout_in(self._encoder.layout)
                return numbers_in(pc.cast(texts, pa.string()), layout)
            return _floats(values)
        lenient = dataclasses.replace(encoder, unseen="zero", missing="zero")
        codes = lenient.codes(encoder.booleans_as_text(values)).astype(float)
        return np.where(codes < 0, np.nan, codes)


def _moments(mean: float) -> Moments:
    made = Moments()
    made.mean = mean
    return made


def _tolerant(column: ColumnSchema, unseen: str | None) -> ColumnSchema:
    """Return a column that refuses the values that the fit refuses, unless `unseen` overrides this."""
    return _kept(column if unseen is None else column.model_copy(update={"unseen": unseen}))


def _kept(column: ColumnSchema) -> ColumnSchema:
    """Return a column definition that drops no rows."""
    return column.model_copy(update={"missing": "zero"}) if column.missing == "drop" else column


def _places(spans: Mapping[str, tuple[int, int]], features: np.ndarray) -> tuple[set[str], np.ndarray]:
    """Return the columns behind the features, and the features' positions among all features of these columns."""
    names, starts = list(spans), np.array([start for start, _ in spans.values()], np.int64)
    stops = np.array([stop for _, stop in spans.values()], np.int64)
    of = np.searchsorted(stops, features, side="right")
    is_chosen = np.isin(np.arange(len(names)), of)
    before = np.cumsum(np.where(is_chosen, 0, stops - starts))  # number of features of columns that are not needed
    return {names[k] for k in np.flatnonzero(is_chosen).tolist()}, features - before[of]


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _floats(values: pa.Array) -> np.ndarray:
    numbers = numbers_of(values)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _first(parts: list[pa.Array], n_rows: int) -> pa.Array:
    """Remove the first `n_rows` values from a list of Arrow arrays, and return them."""
    found, n_left = [], n_rows
    while n_left:
        found.append(parts[0].slice(0, n_left))
        n_left -= len(found[-1])
        parts[0] = parts[0].slice(len(found[-1]))
        if not len(parts[0]):
            parts.pop(0)
    return found[0] if len(found) == 1 else pa.concat_arrays(found) if found else pa.nulls(0)


def _taken(parts: list[np.ndarray], n_rows: int) -> np.ndarray:
    """Remove the first `n_rows` values from a list of arrays, and return them."""
    found, n_left = [], n_rows
    while n_left:
        head = parts[0]
        found.append(head[:n_left])
        parts[0] = head[n_left:]
        n_left -= len(found[-1])
        if not len(parts[0]):
            parts.pop(0)
    return np.concatenate(found) if found else np.empty(0)
