"""Tables: encodes batches of Arrow columns as blocks of numbers, according to the table schema, in bounded memory."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Discriminator, Field, Tag

from daskfs import errors, interrupts
from daskfs.cluster.workers import Here, Workers
from daskfs.documents import PATH, Words
from daskfs.files import Location
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.target import kind_of
from daskfs.sources.base import NotInPartsError, Source, SourceBlock, survey_part, until_fault
from daskfs.sources.encoded_block import BlockT, EncodedBlock, FilledBlock
from daskfs.sources.encoders.base import BadValue, Encoder
from daskfs.sources.encoders.number import checked_numbers
from daskfs.sources.files import OfFiles, PathLike, expand_paths
from daskfs.sources.options import SparseOptions
from daskfs.sources.roles import Names, resolve_columns
from daskfs.sources.sniffing import refuse_numbers_as_classes
from daskfs.sources.survey import Survey, adds_features, is_open, needs_survey
from daskfs.sources.table_encoder import TableEncoder, make_encoder
from daskfs.sources.table_schema import ColumnSchema, MissingPolicy, TableSchema, by_text, load_table_schema

DataError = errors.DataError.about("frames")
SourceError = errors.SourceError.about("frames")


@dataclass(frozen=True, slots=True)
class TableBatch:
    """Some rows of a file; `first_row` counts from 0 after the header, or from the beginning of `part`."""

    table: pa.RecordBatch
    file: str
    first_row: int
    part: Any = None
    """The part that was read, if its rows are numbered from its beginning."""


PartFacts: TypeAlias = tuple[dict[str, int], dict[str, tuple[int, dict[str, int]]]]
"""Number of missing values per column; and per column, rows with unseen levels: in total, and for a few levels."""
Fill: TypeAlias = Annotated[
    Annotated[Literal["error", "drop", "mean", "zero", "category"], Tag("word")] | Annotated[float, Tag("number")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "number"),
]


class TableOptions(SparseOptions):
    """A table on disk."""

    path: Annotated[Words, PATH]
    table_schema: Annotated[str | None, PATH] = Field(
        default=None, alias="schema", description="table schema (YAML): names, types and roles of the columns"
    )
    target: Words | None = Field(default=None, description="target column; overrides the schema")
    weight: str | None = Field(default=None, description="column of sample weights")
    missing: Fill | None = Field(
        default=None, description="treatment of missing values in columns that the schema does not name"
    )
    one_hot: Literal["dense", "sparse"] | None = Field(
        default=None,
        description="categories as columns of a dense store (default), or as sparse rows with any number of levels, "
        "written to a sparse store or used without one",
    )


class TableSource(Source):
    """A table that a subclass reads in batches, with a schema that describes its columns.

    Parameters
    ----------
    schema : path, mapping or TableSchema, optional
        Without a schema, numeric columns are numbers and text columns are categories.
    target : str or list of str, optional
        The target column; overrides the schema.
    weight : str, optional
        Column of sample weights.
    missing : {"error", "drop", "mean", "zero", "category"} or float
        Treatment of missing values in columns that the schema does not name. For text columns: "drop", "zero" (all
        dummies are 0) or "category" (a separate level).
    """

    header_names: list[str]
    """All columns of the table, in order; set when `columns` is computed."""
    by_id: bool = False
    """Whether categories of features become entries by their ids (`daskfs.sources.sparse.one_hot`), without a list."""
    _survey: Survey | None = None

    def __init__(
        self,
        schema: Any = None,
        target: Names = None,
        weight: str | None = None,
        missing: MissingPolicy = "error",
    ) -> None:
        self.schema: TableSchema | None = None if schema is None else load_table_schema(schema)
        self._target, self._weight, self._missing = target, weight, missing
        self.notes = []
        self._plan_notes: list[str] = []  # which every reading returns
        self.missing: list[dict[str, Any]] = []
        self.reading_notes: dict[str, None] = {}  # notes made while reading, without duplicates

    @property
    @abstractmethod
    def place(self) -> str:
        """Name of the table, for messages."""

    @abstractmethod
    def header(self) -> Mapping[str, pa.DataType | None]:
        """Return the columns in order with their types; None if only a schema can tell the type.

        Raises
        ------
        SourceError
            The header shows that the table is not as expected.
        """

    @abstractmethod
    def batches(self, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield these columns in batches of bounded size."""

    def refusal(self, fault: BadValue, batch: TableBatch, row: int) -> errors.SourceError:
        """Return the error for a bad value in a row of a batch, numbered as `first_row`; rows before it are good."""
        return SourceError(fault.problem, f"{batch.file}, row {row}, column '{fault.column}'", fault.remedy)

    def tell(self, notes: Sequence[str]) -> None:
        """Add notes that every reading returns."""
        self._plan_notes.extend(notes)

    def check(self) -> None:
        """Check the header against the schema."""
        _ = self.columns

    @cached_property
    def columns(self) -> dict[str, ColumnSchema]:
        """The used columns, in the table's order, with their schema."""
        header = self.header()
        self.header_names = [str(name) for name in header]
        return resolve_columns(
            header, self.schema, self.place, self._target, self._weight, self._missing, self._plan_notes
        )

    @property
    def declared(self) -> set[str]:
        """Columns that the schema or an option names."""
        targets = [self._target] if isinstance(self._target, str) else self._target or ()
        return {*targets, *([self._weight] if self._weight else ()), *(self.schema.columns if self.schema else ())}

    def named(self, *roles: str) -> list[str]:
        """Return the columns with these roles."""
        return [name for name, column in self.columns.items() if column.role in roles]

    @cached_property
    def _may_drop(self) -> frozenset[str]:
        return frozenset(name for name, column in self.columns.items() if column.missing == "drop")

    @property
    def suspicions(self) -> Sequence[str]:  # type: ignore[override]
        """Warnings that the schema repeats from `daskfs init`, each text once with its columns."""
        return [] if self.schema is None else by_text({n: one.look_at for n, one in self.schema.columns.items()})

    @property
    def target_names(self) -> list[str]:  # type: ignore[override]
        """Target columns."""
        return self.named("target")

    @property
    def label_names(self) -> list[str]:  # type: ignore[override]
        """Columns with role id or split."""
        return self.named("id", "split")

    @property
    def has_weight(self) -> bool:  # type: ignore[override]
        """Whether there is a column of weights."""
        return bool(self.named("weight"))

    @property
    def encoding(self) -> dict[str, Any]:
        """The used columns with their schema."""
        return {name: column.to_document() for name, column in self.columns.items()}

    @property
    def encoder(self) -> dict[str, Any]:
        """How each column was encoded, including what was learnt from the data; reads the table once if necessary."""
        return {"kind": "table", "table": TableEncoder.of(self).to_document()}

    def reading(self, columns: Mapping[str, ColumnSchema]) -> Self:
        """Return a copy that reads these columns, whatever its own schema says."""
        return self._changed(columns=dict(columns))

    def by_ids(self) -> Self:
        """Return a copy whose open categories are entries by their ids."""
        return self._changed(by_id=True)

    def _changed(self, **changes: Any) -> Self:
        other = object.__new__(type(self))  # what is pickled may lack the frame
        vars(other).update(vars(self), **changes)
        return other

    @property
    def survey(self) -> Survey:
        """Statistics that the encoders need; takes one pass over the table if any are needed."""
        self.learn(Here())
        assert self._survey is not None
        return self._survey

    def learn(self, workers: Workers) -> None:
        """Survey the parts of the table on the workers, once, if anything is needed."""
        if self._survey is not None:
            return
        if not any(needs_survey(column, by_id=self.by_id) for column in self.columns.values()):
            self._survey = Survey({})
            return
        if parts := self.parts():
            with suppress(NotInPartsError):
                self._survey = self._surveyed(parts, workers)
                return
        self._survey = self._surveyed([None], Here())

    def _surveyed(self, parts: Sequence[Any], workers: Workers) -> Survey:
        """Return the statistics of all parts, merged in order so that they are the same on any workers."""
        waiting: dict[int, Survey] = {}
        found, n_merged = Survey({}), 0
        results = workers.map_blocks(survey_part, parts, name="ingest-learn", shared=(self,))
        for number, survey in until_fault(self, results):
            interrupts.check()
            waiting[number] = survey
            while (later := waiting.pop(n_merged, None)) is not None:
                if n_merged:
                    found.merge(later)
                else:
                    found = later
                n_merged += 1
        return found

    def survey_part(self, part: Any) -> Survey:
        """Return the statistics of a part; None is the whole table."""
        survey, columns = Survey(self.columns, by_id=self.by_id), self._columns_to_survey
        for batch in self.batches(columns) if part is None else self.part_batches(part, columns):
            self._survey_batch(survey, batch)
        return survey

    @property
    def _columns_to_survey(self) -> dict[str, ColumnSchema]:
        """The columns that need a survey, and those that decide which rows are kept."""
        return {
            name: column
            for name, column in self.columns.items()
            if needs_survey(column, by_id=self.by_id) or column.missing == "drop"
        }

    def _survey_batch(self, survey: Survey, batch: TableBatch) -> None:
        table, kept = self._drop_missing(batch.table, {})
        with self._placed(batch, kept):
            survey.update(table)

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of kept rows, known only after a survey."""
        return self._survey.n_samples if self._survey is not None and self._survey.columns else None

    @cached_property
    def encoders(self) -> dict[str, Encoder]:
        """Encoders of features and of categorical targets, by column."""
        return self._encoders_from(self.survey, self._plan_notes)

    def _encoders_from(self, survey: Survey, notes: list[str]) -> dict[str, Encoder]:
        encoders = {
            name: make_encoder(name, column, survey.facts_of(name), notes)
            for name, column in self.columns.items()
            if (column.role == "feature" and not (self.by_id and (is_open(column) or column.encoding == "log_bins")))
            or (column.role == "target" and column.resolved_encoding == "category")
        }
        for name in self.target_names:
            encoder = encoders.get(name)
            if encoder is not None and (classes := encoder.classes):
                coded = ", ".join(f"{text!r} is {code}" for code, text in enumerate(classes))
                if self.schema is None and self.n_samples is not None:
                    refuse_numbers_as_classes(classes, self.n_samples, f"{self.place}, column '{name}'")
                notes.append(f"target '{name}' is coded: {coded}")
        return encoders

    @property
    def target_classes(self) -> list[str] | None:
        """Categories of the target, by code."""
        encoder = self.encoders.get(self.target_names[0]) if len(self.target_names) == 1 else None
        return None if encoder is None else encoder.classes

    def _features(self, encoders: dict[str, Encoder]) -> tuple[list[str], dict[str, tuple[int, int]]]:
        """Return the names of the features, and the span (first, end) of each column that became several."""
        names, spans = list[str](), {}
        for name in self.named("feature"):
            first = len(names)
            names += encoders[name].feature_names
            if len(names) - first > 1:
                spans[name] = (first, len(names))
        if len(set(names)) < len(names):
            seen: set[str] = set()
            twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise DataError(f"two features are called {twice!r}", self.place, "rename a column or a category")
        return names, spans

    @cached_property
    def feature_names(self) -> list[str]:  # type: ignore[override]
        """Names of the features; reads the table once if categories, means or years are needed."""
        return self._features(self.encoders)[0]

    @property
    def table_columns(self) -> dict[str, tuple[int, int]]:  # type: ignore[override]
        """Span (first, end) of the features of each column that became several features."""
        return self._features(self.encoders)[1]

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return (n_samples, n_features), estimated from the first batch of the table."""
        return self.n_samples or self.estimate_n_samples(), len(self._features(self._first_encoders)[0])

    def estimate_columns(self) -> tuple[list[str], dict[str, tuple[int, int]]]:
        """Return the features' names and `table_columns`, estimated from the first batch of the table."""
        return self._features(self._first_encoders)

    def may_have(self, feature: int | str) -> bool:
        """Return whether the feature may be a category or year that first appears after the first batch."""
        if self._survey is not None:
            return False
        begins = tuple(f"{name}{sign}" for name in self.named("feature") for sign in "=.")
        return isinstance(feature, int) or feature.startswith(begins)

    @property
    def _first_encoders(self) -> dict[str, Encoder]:
        """Encoders from the whole table if it has been read, otherwise from its first batch."""
        return self.encoders if self._survey is not None else self._of_first_batch[0]

    @property
    def growing_columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns of which rows after the first batch may have further levels or years."""
        return () if self._survey is not None else self._of_first_batch[1]

    @cached_property
    def _of_first_batch(self) -> tuple[dict[str, Encoder], tuple[str, ...]]:
        """Encoders from the first batch of the table, and `growing_columns`."""
        survey, growing = Survey(self.columns, by_id=self.by_id), list[str]()
        if survey.columns:
            batches = iter(self.batches(self._columns_to_survey))
            for batch in islice(batches, 1):
                self._survey_batch(survey, batch)
            if next(batches, None) is not None:
                growing = [name for name, column in survey.columns.items() if adds_features(column)]
        return self._encoders_from(survey, []), tuple(growing)

    def estimate_target(self) -> TargetKind:
        """Return the kind of target, inferred from the first batch of the table."""
        targets = {name: self.columns[name] for name in self.target_names}
        if len(targets) != 1:
            return PLAIN_NUMBERS
        ((name, column),) = targets.items()
        if column.resolved_encoding == "category" and column.categories is not None:
            return TargetKind(len(column.categories), is_declared=True)
        for batch in self.batches(targets):
            values = batch.table[name].drop_null()
            if column.resolved_encoding == "category":
                return TargetKind(len(pc.unique(values)), is_declared=True)
            with self._placed(batch, np.arange(len(values))):
                return kind_of(checked_numbers(name, values, is_feature=False))
        return PLAIN_NUMBERS

    def estimate_n_samples(self) -> int | None:
        """Return the approximate number of rows without reading them; None if unknown."""
        return None

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield encoded rows in blocks of `block_rows`; one block and one batch are in memory at a time."""
        return self.filled(block_rows, self._new_block(block_rows, dtype))

    def _new_block(self, block_rows: int, dtype: np.dtype | type) -> Callable[[int], EncodedBlock]:
        n_features = len(self.feature_names)
        return lambda start: EncodedBlock(start, block_rows, n_features, np.dtype(dtype), self)

    def filled(
        self, block_rows: int, new_block: Callable[[int], FilledBlock[BlockT]], part: Any = None
    ) -> Iterator[BlockT]:
        """Yield blocks of `block_rows` rows, filled with slices of the batches of the table; or of a part, begun."""
        is_whole = part is None
        missing = {} if is_whole else self._missing_in_part
        batches = self.batches(self.columns) if is_whole else self.part_batches(part, self.columns)
        imputed = [name for name in self.named("feature") if self.columns[name].missing not in ("error", "drop")]
        block = new_block(0)
        for batch in batches:
            table, kept = self._drop_missing(batch.table, missing)
            for name in imputed:
                if n_missing := table[name].null_count:
                    missing[name] = missing.get(name, 0) + n_missing
            start = 0
            while start < table.num_rows:
                piece = table.slice(start, block_rows - block.n_rows)
                with self._placed(batch, kept[start:]):
                    block.append(piece)
                start += piece.num_rows
                if block.n_rows == block_rows:
                    yield block.finished()
                    block = new_block(block.start + block_rows)
        if block.n_rows:
            yield block.finished()
        if is_whole:
            self._note(missing, block.start + block.n_rows)

    def part_batches(self, part: Any, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield these columns of a part, in batches."""
        raise NotImplementedError

    def part_blocks(self, part: Any, block_rows: int, dtype: np.dtype | type) -> Iterator[SourceBlock]:
        """Yield the encoded rows of a part."""
        self.begin_part()
        return self.filled(block_rows, self._new_block(block_rows, dtype), part)

    def begin_part(self) -> None:
        """Reset the counts for a new part."""
        self._missing_in_part: dict[str, int] = {}
        self.encoders = {name: copy.copy(encoder) for name, encoder in self.encoders.items()}  # encoders keep counts

    def part_facts(self) -> PartFacts:
        """Return the number of missing values per column, and the rows with unseen levels."""
        unseen = {one.name: (one.n_unseen, one.unseen_levels) for one in self.encoders.values() if one.n_unseen}
        return self._missing_in_part, unseen

    def conclude(self, facts: Sequence[PartFacts], n_samples: int) -> None:
        """Add the notes on what the parts have shown."""
        dropped: dict[str, int] = {}
        for of_part, n_unseen in facts:
            for name, count in of_part.items():
                dropped[name] = dropped.get(name, 0) + count
            for name, unseen in n_unseen.items():
                self.encoders[name].count_unseen(*unseen)
        self._note(dropped, n_samples)

    def _drop_missing(self, table: pa.RecordBatch, dropped: dict[str, int]) -> tuple[pa.RecordBatch, np.ndarray]:
        """Return the kept rows, and their numbers in the batch."""
        if not self._may_drop:
            return table, np.arange(table.num_rows)
        keep = np.ones(table.num_rows, dtype=bool)
        for name in table.schema.names:
            if name in self._may_drop and table[name].null_count:
                null = pc.is_null(table[name]).to_numpy(zero_copy_only=False)
                if n_more := int((null & keep).sum()):
                    dropped[name] = dropped.get(name, 0) + n_more
                keep &= ~null
        rows = np.flatnonzero(keep)
        return (table if len(rows) == table.num_rows else table.filter(pa.array(keep))), rows

    @contextmanager
    def _placed(self, batch: TableBatch, kept: np.ndarray) -> Iterator[None]:
        """Turn `BadValue` into an error with file and row."""
        try:
            yield
        except BadValue as fault:
            row = batch.first_row + int(kept[fault.row])
            raise self.refusal(fault, batch, row) from None

    def _note(self, missing: dict[str, int], n_samples: int) -> None:
        dropped = {name: count for name, count in missing.items() if name in self._may_drop}
        n_dropped = sum(dropped.values())
        if n_samples == 0:
            found = f"all {n_dropped:,} have missing values" if n_dropped else "found none after the header"
            raise SourceError(f"expected rows, {found}", self.place, "check the file, and format.missing in the schema")
        notes = [*self._plan_notes, *self.reading_notes]
        if n_dropped:
            which = ", ".join(f"'{name}': {count:,}" for name, count in dropped.items())
            notes.append(f"{n_dropped:,} rows dropped because of missing values ({which})")
        notes += filter(None, (encoder.take_note_of_unseen() for encoder in self.encoders.values()))
        self.notes[:] = notes
        self.missing[:] = [self._replaced(name, missing[name]) for name in self.columns if name in missing]

    def _replaced(self, name: str, n_missing: int) -> dict[str, Any]:
        """Return how the missing values of a column were replaced: see `daskfs.evidence.MissingRecord`."""
        column, encoder = self.columns[name], self.encoders.get(name)
        by = column.missing if isinstance(column.missing, str) else "number"
        value = None if encoder is None or by == "drop" else encoder.filled_with
        return {
            "column": name,
            "n_missing": n_missing,
            "by": by,
            "value": value,
            "has_indicator": column.missing_indicator,
        }


class FileTable(OfFiles, TableSource):
    """A table of one or several files with the same columns.

    Parameters
    ----------
    path : path-like or list of path-like
        A file, several, a pattern or a folder, from which files with one of the class's `endings` are read.
    schema, target, weight, missing
        See `TableSource`.
    """

    endings: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        schema: Any = None,
        target: Names = None,
        weight: str | None = None,
        missing: Any = "error",
    ) -> None:
        super().__init__(schema, target, weight, missing)
        self.files = self.found(path)

    def found(self, path: PathLike | Sequence[PathLike]) -> list[Any]:
        """Return the files of a path."""
        return expand_paths(path, self.endings)

    def of_file(self, file: Location) -> Self:
        """Return a copy that reads one of the files."""
        return self._changed(files=[file])
