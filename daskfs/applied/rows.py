"""Rows of other data as a model takes them: encoded as those of the fit, in blocks, only the columns that are read.

What became of the fit's rows is its encoder (`Source.encoder`, a store's ``encoder.json``). Columns are found by name
in tables, by id or number in entries, by name or place in arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from daskfs.errors import DataError, SchemaError, SourceError, did_you_mean
from daskfs.sources.applied_genotypes import AppliedGenotypes
from daskfs.sources.applied_table import AppliedTable
from daskfs.sources.arrow_table import ArrowSource
from daskfs.sources.base import Source, SourceBlock
from daskfs.sources.columns import NumberEncoder
from daskfs.sources.csv import CsvSource
from daskfs.sources.dataframe import DaskFrameSource, FrameSource
from daskfs.sources.genotypes import GenotypeSource
from daskfs.sources.registry import PLACES, as_source, find_source, is_path, kind_of, make_source, options_of
from daskfs.sources.sparse.base import SparseBlock, SparseSource
from daskfs.sources.sparse.one_hot import OneHotSource
from daskfs.sources.sparse.pairs import PairsSource
from daskfs.sources.table import TableSource
from daskfs.sources.table_encoder import TableEncoder
from daskfs.sources.table_schema import ColumnSchema, TableFormat

BLOCK_NBYTES = 16 * 2**20
"""Of a block of rows, all features of the columns that are read."""
BLOCK_ROWS, BLOCK_ENTRIES = 1 << 14, 1 << 20
OF_TABLES = ("csv", "parquet")
OF_GENOTYPES = ("plink", "vcf_zarr")
OF_LINES = ("text", "clicks", "libsvm", "vw", "fasta")
"""Kinds of files that may have any name."""
ALIKE = (OF_GENOTYPES, ("fasta", "fragments"))
"""Kinds that have options in common."""
BESIDE_GENOTYPES = ("covariates", "missing")
ROW = "row"
"""The column of the rows' numbers, where they have no ids."""
_NAMED = 8


class Columns(NamedTuple):
    """The columns of X that a model reads, ascending."""

    numbers: np.ndarray
    """int64; of a stream of ids, the ids."""
    names: list[str]
    n_features: int
    """Of X."""
    dtype: str
    """As which X was stored, and rounded."""
    is_sparse: bool
    ids: np.ndarray | None = None
    """uint64, where columns are 64-bit ids."""


class Entries(NamedTuple):
    """What is not zero: row in the block, place among the columns that are read, value."""

    rows: np.ndarray
    places: np.ndarray
    values: np.ndarray


class RowBlock(NamedTuple):
    """Consecutive rows."""

    n_rows: int
    X: np.ndarray | Entries
    """float64 of shape (n_rows, n_columns), or entries where the fit read entries."""
    is_void: np.ndarray
    """Rows that the fit would have dropped: they have no prediction."""
    y: np.ndarray
    """NaN where there is no target."""
    weight: np.ndarray
    handed_on: dict[str, Any] = {}  # noqa: RUF012 - a tuple's default, which nobody changes
    """Columns that are handed on as they are."""

    def dense(self, n_columns: int) -> np.ndarray:
        """Return X with all of its zeros."""
        if isinstance(self.X, np.ndarray):
            return self.X
        X = np.zeros((self.n_rows, n_columns))
        X[self.X.rows, self.X.places] = self.X.values
        return X


class AppliedRows:
    """Rows of some data, encoded as those of a fit.

    Parameters
    ----------
    encoder : mapping
        Of the fit.
    columns : Columns
    data : path, URL or list of them, data frame, Arrow table, array or sparse matrix
    kind : str, optional
        Of files whose name does not say it.
    options : mapping, optional
        Of the kind of file, where they differ from those of the fit: delimiter, encoding ...
    kept : sequence of str
        Columns of a table that are handed on as they are.
    unseen : {"zero", "other"}, optional
        What becomes of categories that the fit did not have, where they would be an error.
    labels : sequence of str, optional
        What the codes 0, 1, ... of the fit's target stand for.

    Raises
    ------
    SchemaError, SourceError, DataError
        A column is missing, named; or the data cannot be read.
    """

    def __init__(
        self,
        encoder: Mapping[str, Any],
        columns: Columns,
        data: Any,
        kind: str | None = None,
        options: Mapping[str, Any] | None = None,
        kept: Sequence[str] = (),
        unseen: str | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        self.columns, self._labels = columns, labels
        self._source = source = _source_like(encoder, columns, _Given(data, kind, dict(options or {}), kept, unseen))
        self._table = _table_in(source)
        self._places: np.ndarray | None = None
        if not isinstance(source, (SparseSource, AppliedTable, AppliedGenotypes)):
            self._places = _places_in(source, columns)

    @property
    def extra(self) -> list[str]:
        """Columns of a table that the fit did not have."""
        return [] if self._table is None else self._table.extra

    @property
    def notes(self) -> list[str]:
        """What reading has shown: unseen categories, the end of a file."""
        return list(self._source.notes)

    def estimate_n_samples(self) -> int:
        """Return about how many rows there are, 0 where nobody knows."""
        estimate = getattr(self._table or self._source, "estimate_n_samples", lambda: self._source.n_samples)
        return estimate() or 0

    def blocks(self) -> Iterator[RowBlock]:
        """Yield all rows in order."""
        first = 0
        for block in self._sparse_blocks() if isinstance(self._source, SparseSource) else self._dense_blocks():
            values = block.X if isinstance(block.X, np.ndarray) else block.X.values
            if not np.isfinite(values[~block.is_void] if isinstance(block.X, np.ndarray) else values).all():
                raise self._bad_value(block, first)
            if not block.handed_on:
                block = block._replace(handed_on={ROW: np.arange(first, first + block.n_rows)})
            first += block.n_rows
            yield block

    def _dense_blocks(self) -> Iterator[RowBlock]:
        source, k = self._source, len(self.columns.numbers)
        if isinstance(source, AppliedTable) and not source.columns:  # nothing was selected: rows are counted
            for batch in source.batches({}):
                yield self._block(np.zeros((batch.table.num_rows, 0)), None, batch.table.num_rows)
            return
        width = len(source.feature_names)
        dtype = np.float32 if self.columns.dtype == "float32" else np.float64
        block_rows = max(1, min(BLOCK_ROWS, BLOCK_NBYTES // (np.dtype(dtype).itemsize * max(1, width))))
        for block in source.row_blocks(block_rows, dtype):
            X = block.X if self._places is None else block.X[:, self._places]
            with np.errstate(over="ignore"):
                X = np.ascontiguousarray(X, dtype).astype(np.float64)
            made: Any = X.reshape(len(X), k)
            if self.columns.is_sparse:
                rows, places = np.nonzero(X)
                made = Entries(rows, places, X[rows, places])
            found = self._block(made, block, len(X))
            if isinstance(source, AppliedGenotypes):
                found = found._replace(is_void=np.isnan(X[:, source.void_columns]).any(axis=1))
            yield found

    def _sparse_blocks(self) -> Iterator[RowBlock]:
        assert isinstance(self._source, SparseSource)
        wanted, order = self.columns.ids, None
        if wanted is None:
            places = _columns_in(self._source, self.columns)
            order = np.argsort(places)
            wanted = places[order].astype(np.uint64)
        for block in self._source.sparse_blocks(BLOCK_ROWS, BLOCK_ENTRIES):
            entries = _entries_of(block, wanted)
            if order is not None:
                entries = entries._replace(places=order[entries.places])
            made = self._block(entries, block, block.n_rows)
            yield made if self.columns.is_sparse else made._replace(X=made.dense(len(wanted)))

    def _block(self, X: Any, block: SourceBlock | SparseBlock | None, n_rows: int) -> RowBlock:
        if self._table is not None:
            return RowBlock(n_rows, X, *self._table.beside(n_rows), self._table.handed_on(n_rows))
        assert block is not None  # of a table alone
        has_target = block.y is not None and block.y.ndim == 1
        targets = self._coded(np.asarray(block.y, dtype=np.float64)) if has_target else np.full(n_rows, np.nan)
        weight = np.ones(n_rows) if block.weight is None else block.weight
        return RowBlock(n_rows, X, np.zeros(n_rows, bool), targets, weight, block.labels)

    def _coded(self, y: np.ndarray) -> np.ndarray:
        """Return targets with the fit's code of each class; NaN where the fit did not have the class."""
        if self._labels is None:
            return y
        code_of = {str(label): float(code) for code, label in enumerate(self._labels)}
        found, places = np.unique(y, return_inverse=True)
        known = self._source.target_classes
        names = ["" if np.isnan(code) else f"{code:g}" if known is None else known[int(code)] for code in found]
        return np.array([code_of.get(str(name), np.nan) for name in names])[places]

    def _bad_value(self, block: RowBlock, first: int) -> DataError:
        X = block.dense(len(self.columns.numbers))
        row, column = np.argwhere(~np.isfinite(X) & ~block.is_void[:, None])[0].tolist()
        problem = f"expected a finite number, found {X[row, column]}"
        where = f"column {self.columns.names[column]!r}, row {first + row}"
        if isinstance(self._source, AppliedGenotypes) and np.isnan(X[row, column]):
            problem = "expected a dosage, found none; the fit had none missing"
        return DataError(problem, where, "impute it as the data of the fit were")


class _Given(NamedTuple):
    """The data, and how they are to be read."""

    data: Any
    kind: str | None
    options: dict[str, Any]
    kept: Sequence[str]
    unseen: str | None

    @property
    def found_kind(self) -> str | None:
        """The kind of files, as asked for or by their name; None of what is in memory."""
        is_list = isinstance(self.data, list) and bool(self.data) and is_path(self.data[0])
        if not (is_path(self.data) or is_list):
            return None
        return self.kind or kind_of(self.data[0] if is_list else self.data)

    def kind_for(self, encoder: Mapping[str, Any]) -> str | None:
        """Return the kind of files: of those whose name does not say it, that of the fit."""
        found, word = self.found_kind, encoder["kind"]
        return word if self.kind is None and found == "csv" and word in OF_LINES else found

    def table(self, encoder: TableEncoder, features: Any = None) -> AppliedTable:
        """Return the rows of a table, encoded."""
        return AppliedTable(encoder, _table_source(encoder, self), features, self.kept, self.unseen)


def _source_like(encoder: Mapping[str, Any], columns: Columns, given: _Given) -> Source:
    """Return a source of rows whose features are those of an encoder; of dense tables only those that are read."""
    word = encoder["kind"]
    if word == "table":
        return given.table(TableEncoder.from_document(encoder["table"]), columns.numbers)
    if word == "one_hot":
        return OneHotSource(given.table(TableEncoder.from_document(encoder["of"]["table"])))
    if word == "pairs":
        inner: Any = _source_like(encoder["of"], columns, given)
        return PairsSource(inner, encoder["interactions"])
    data, kind = given.data, given.kind_for(encoder)
    if kind in OF_TABLES or (kind is None and (hasattr(data, "columns") or hasattr(data, "__arrow_c_stream__"))):
        return given.table(_of_numbers(columns.names), np.arange(len(columns.names)))
    if given.kept:
        raise SourceError("expected a table, whose columns can be handed on", str(data), "leave --keep out")
    if kind is not None:
        is_alike = word == kind or any({word, kind} <= {*alike} for alike in ALIKE)
        options = dict(encoder["options"]) if is_alike else {}
        if word != kind:
            options = {name: value for name, value in options.items() if name in options_of(kind) and name != "allele"}
        options = {name: value for name, value in options.items() if name not in (*PLACES, "covariate_names")}
        options |= given.options
        covariates, missing = (options.pop(name, None) if kind in OF_GENOTYPES else None for name in BESIDE_GENOTYPES)
        if "unlabelled" in options_of(kind):
            options["unlabelled"] = "keep"
        source = make_source(kind, path=data, **options)
        if isinstance(source, GenotypeSource) and "variants" in encoder:
            return AppliedGenotypes(
                source, columns.names, encoder["variants"], missing, covariates, encoder.get("levels")
            )
    else:
        source = as_source(data)
    source.check()
    return source


def _of_numbers(names: Sequence[str]) -> TableEncoder:
    """Return the encoder of a table whose columns are numbers as they are."""
    number = ColumnSchema.model_validate({})
    layout = TableFormat.model_validate({})
    return TableEncoder(
        dict.fromkeys(names, number), {name: NumberEncoder(name) for name in names}, layout, list(names)
    )


def _table_source(table: TableEncoder, given: _Given) -> TableSource:
    """Return the source of a table's rows, before they are encoded."""
    data, kind = given.data, given.found_kind
    module = type(data).__module__.partition(".")[0]
    if kind == "csv":
        return CsvSource(data, schema=table.schema(), **given.options)
    if kind is not None and issubclass(other := find_source(kind), TableSource):
        return other(data, **given.options)
    if kind is not None:
        problem = f"expected a table (csv or parquet), as in the fit, found {find_source(kind).kind}"
        raise SourceError(problem, str(data), "name its kind if it is another")
    if module == "dask":
        return DaskFrameSource(data)
    if module == "pandas" and hasattr(data, "columns"):
        return FrameSource(data)
    if hasattr(data, "__arrow_c_stream__"):
        return ArrowSource(data)
    import pandas as pd

    names, array = table.feature_columns, np.asarray(data)
    if array.ndim != 2 or array.shape[1] != len(names):
        problem = f"expected a table, or an array of its {len(names)} columns, found shape {array.shape}"
        raise DataError(problem, "X", "pass a data frame, whose columns have names")
    frame = pd.DataFrame(array, columns=names)
    return FrameSource(frame.infer_objects() if array.dtype == object else frame)


def _table_in(source: Any) -> AppliedTable | None:
    """Return the table of which a source is made, if it is one."""
    while hasattr(source, "source"):
        source = source.source
    return source if isinstance(source, AppliedTable) else None


def _columns_in(source: SparseSource, columns: Columns) -> np.ndarray:
    """Return the columns of a sparse source that a model reads: by name where both have names, else by number."""
    known = source.column_names
    if known is None:
        return columns.numbers
    place = {name: j for j, name in enumerate(known)}
    if lacking := [name for name in columns.names if name not in place]:
        raise lacking_columns(lacking, place, str(source.describe().get("description", "X")))
    return np.array([place[name] for name in columns.names], np.int64)


def _places_in(source: Source, columns: Columns) -> np.ndarray:
    """Return where the columns stand in an array: by name where all are there, else by place.

    Raises
    ------
    DataError
        There are others.
    """
    names, wanted = source.feature_names, columns.names
    place = {name: k for k, name in enumerate(names)}
    if all(name in place for name in wanted):
        return np.array([place[name] for name in wanted], np.int64)
    is_named = any(name != f"x{k}" for k, name in enumerate(names[:_NAMED]))
    if is_named:
        raise lacking_columns([name for name in wanted if name not in place], place, "X")
    if len(names) != columns.n_features:
        problem = f"expected {columns.n_features:,} columns, found {len(names):,}"
        raise DataError(problem, "X", "pass the columns of the fit in its order, or names with them")
    return columns.numbers


def lacking_columns(lacking: Sequence[str], known: Iterable[str], where: str) -> SchemaError:
    """Return the error for columns that a model reads and that are not there."""
    problem = f"the data lack {', '.join(map(repr, lacking[:_NAMED]))}{did_you_mean(lacking[0], known)}"
    return SchemaError(problem, where, "pass the columns of the fit")


def _entries_of(block: SparseBlock, wanted: np.ndarray) -> Entries:
    """Return the entries of columns that are wanted, ascending numbers or ids."""
    place = np.minimum(np.searchsorted(wanted, block.features), max(len(wanted) - 1, 0))
    is_wanted = wanted[place] == block.features if len(wanted) else np.zeros(len(place), bool)
    rows = np.repeat(np.arange(block.n_rows), np.diff(block.indptr))[is_wanted]
    values = np.ones(len(rows)) if block.data is None else block.data[is_wanted].astype(np.float64)
    return Entries(rows, place[is_wanted], values)
