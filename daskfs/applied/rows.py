"""New rows for a model: encoded like the training data, in blocks, with only the columns that the model reads.

The encoder of the training data is `Source.encoder` or a store's ``encoder.json``. Columns are matched by name in
tables, by id or number in sparse rows, and by name or position in arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from daskfs import errors
from daskfs.errors import did_you_mean
from daskfs.sources.applied_genotypes import AppliedGenotypes
from daskfs.sources.applied_table import AppliedTable
from daskfs.sources.arrow_table import ArrowSource
from daskfs.sources.base import Source, SourceBlock
from daskfs.sources.csv import CsvSource
from daskfs.sources.dataframe import DaskFrameSource, FrameSource
from daskfs.sources.encoders.number import NumberEncoder
from daskfs.sources.files import is_path
from daskfs.sources.genotypes import GenotypeSource
from daskfs.sources.registry import PLACES, as_source, find_source, kind_of, make_source, options_of
from daskfs.sources.sparse.base import SparseBlock, SparseSource
from daskfs.sources.sparse.one_hot import OneHotSource
from daskfs.sources.sparse.pairs import PairsSource
from daskfs.sources.table import TableSource
from daskfs.sources.table_encoder import TableEncoder
from daskfs.sources.table_schema import ColumnSchema, TableFormat

DataError = errors.DataError.about("new-rows")
SchemaError = errors.SchemaError.about("new-rows")
SourceError = errors.SourceError.about("new-rows")

BLOCK_NBYTES = 16 * 2**20
"""Size of a block of rows, with all features of the columns that are read."""
BLOCK_ROWS, BLOCK_ENTRIES = 1 << 14, 1 << 20
OF_TABLES = ("csv", "parquet")
OF_GENOTYPES = ("plink", "vcf_zarr", "pgen", "bgen")
OF_LINES = ("text", "clicks", "libsvm", "vw", "fasta")
"""Kinds of files without a fixed file extension."""
ALIKE = (OF_GENOTYPES, ("fasta", "fragments"))
"""Kinds that share options."""
BESIDE_GENOTYPES = ("covariates", "missing")
OF_FIT = ("covariate_names", "min_frequency", "max_missing", "related_above")
"""Options that chose the features of the fit."""
ROW = "row"
"""Column of row numbers, for rows without ids."""
_NAMED = 8


class Columns(NamedTuple):
    """The columns of X that a model reads, ascending."""

    numbers: np.ndarray
    """int64; for a stream of ids, the ids."""
    names: list[str]
    n_features: int
    """Number of columns of X."""
    dtype: str
    """dtype in which X was stored and rounded."""
    is_sparse: bool
    ids: np.ndarray | None = None
    """uint64, if columns are 64-bit ids."""


class Entries(NamedTuple):
    """Non-zero entries: row in the block, position among the columns that are read, value."""

    rows: np.ndarray
    places: np.ndarray
    values: np.ndarray


class RowBlock(NamedTuple):
    """Consecutive rows."""

    n_rows: int
    X: np.ndarray | Entries
    """float64 of shape (n_rows, n_columns), or entries if the training data were sparse."""
    is_void: np.ndarray
    """Rows that the fit would have dropped; they have no prediction."""
    y: np.ndarray
    """NaN without a target."""
    weight: np.ndarray
    handed_on: dict[str, Any] = {}  # noqa: RUF012 - the default of a tuple, never modified
    """Columns that are copied to the output."""

    def dense(self, n_columns: int) -> np.ndarray:
        """Return X as a dense array."""
        if isinstance(self.X, np.ndarray):
            return self.X
        X = np.zeros((self.n_rows, n_columns))
        X[self.X.rows, self.X.places] = self.X.values
        return X


class AppliedRows:
    """Rows of new data, encoded like the training data.

    Parameters
    ----------
    encoder : mapping
        Encoder of the training data.
    columns : Columns
    data : path, URL or list of them, data frame, Arrow table, array or sparse matrix
    kind : str, optional
        Kind of file, if its name does not show it.
    options : mapping, optional
        Options of the kind of file that differ from those of the training data: delimiter, encoding ...
    kept : sequence of str
        Columns of a table that are copied to the output.
    unseen : {"zero", "other"}, optional
        Encoding of categories that the training data did not have, if they would be an error.
    labels : sequence of str, optional
        Labels of the codes 0, 1, ... of the training target.

    Raises
    ------
    SchemaError, SourceError, DataError
        A column is missing, which the message names, or the data cannot be read.
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
        """Columns of a table that the training data did not have."""
        return [] if self._table is None else self._table.extra

    @property
    def notes(self) -> list[str]:
        """Notes from reading, for example on unseen categories or a truncated file."""
        return list(self._source.notes)

    def estimate_n_samples(self) -> int:
        """Return the estimated number of rows; 0 if unknown."""
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
        if isinstance(source, AppliedTable) and not source.columns:  # nothing was selected: only count rows
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
        assert block is not None  # it is None only for a table
        has_target = block.y is not None and block.y.ndim == 1
        targets = self._coded(np.asarray(block.y, dtype=np.float64)) if has_target else np.full(n_rows, np.nan)
        weight = np.ones(n_rows) if block.weight is None else block.weight
        return RowBlock(n_rows, X, np.zeros(n_rows, bool), targets, weight, block.labels)

    def _coded(self, y: np.ndarray) -> np.ndarray:
        """Return targets with the class codes of the training data; NaN for classes that these did not have."""
        if self._labels is None:
            return y
        code_of = {str(label): float(code) for code, label in enumerate(self._labels)}
        found, places = np.unique(y, return_inverse=True)
        known = self._source.target_classes
        names = ["" if np.isnan(code) else f"{code:g}" if known is None else known[int(code)] for code in found]
        return np.array([code_of.get(str(name), np.nan) for name in names])[places]

    def _bad_value(self, block: RowBlock, first: int) -> errors.DataError:
        X = block.dense(len(self.columns.numbers))
        row, column = np.argwhere(~np.isfinite(X) & ~block.is_void[:, None])[0].tolist()
        problem = f"expected a finite number, found {X[row, column]}"
        where = f"column {self.columns.names[column]!r}, row {first + row}"
        if isinstance(self._source, AppliedGenotypes) and np.isnan(X[row, column]):
            problem = "expected a dosage, found none; the training data had no missing dosages"
        return DataError(problem, where, "impute it like the training data")


class _Given(NamedTuple):
    """New data and the options for reading them."""

    data: Any
    kind: str | None
    options: dict[str, Any]
    kept: Sequence[str]
    unseen: str | None

    @property
    def found_kind(self) -> str | None:
        """The given kind of files, or the kind by their name; None for data in memory."""
        is_list = isinstance(self.data, list) and bool(self.data) and is_path(self.data[0])
        if not (is_path(self.data) or is_list):
            return None
        return self.kind or kind_of(self.data[0] if is_list else self.data)

    def kind_for(self, encoder: Mapping[str, Any]) -> str | None:
        """Return the kind of files; that of the training data if the name does not show it."""
        found, word = self.found_kind, encoder["kind"]
        return word if self.kind is None and found == "csv" and word in OF_LINES else found

    def table(self, encoder: TableEncoder, features: Any = None) -> AppliedTable:
        """Return the encoded rows of a table."""
        return AppliedTable(encoder, _table_source(encoder, self), features, self.kept, self.unseen)


def _source_like(encoder: Mapping[str, Any], columns: Columns, given: _Given) -> Source:
    """Return a source of new rows with the features of an encoder; for dense tables only those that are read."""
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
        raise SourceError("--keep needs a table, found another kind of data", str(data), "leave --keep out")
    if kind is not None:
        is_alike = word == kind or any({word, kind} <= {*alike} for alike in ALIKE)
        options = dict(encoder["options"]) if is_alike else {}
        if word != kind:
            options = {name: value for name, value in options.items() if name in options_of(kind) and name != "allele"}
        options = {name: value for name, value in options.items() if name not in (*PLACES, *OF_FIT)}
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
    """Return the encoder of a table of numbers."""
    number = ColumnSchema.model_validate({})
    layout = TableFormat.model_validate({})
    return TableEncoder(
        dict.fromkeys(names, number), {name: NumberEncoder(name) for name in names}, layout, list(names)
    )


def _table_source(table: TableEncoder, given: _Given) -> TableSource:
    """Return the source of a table's rows before encoding."""
    data, kind = given.data, given.found_kind
    module = type(data).__module__.partition(".")[0]
    if kind == "csv":
        return CsvSource(data, schema=table.schema(), **given.options)
    if kind is not None and issubclass(other := find_source(kind), TableSource):
        return other(data, **given.options)
    if kind is not None:
        problem = f"expected a table (csv or parquet) like the training data, found {find_source(kind).kind}"
        raise SourceError(problem, str(data), "set --kind if this is wrong")
    if module == "dask":
        return DaskFrameSource(data)
    if module == "pandas" and hasattr(data, "columns"):
        return FrameSource(data)
    if hasattr(data, "__arrow_c_stream__"):
        return ArrowSource(data)
    import pandas as pd

    names, array = table.feature_columns, np.asarray(data)
    if array.ndim != 2 or array.shape[1] != len(names):
        problem = f"expected a table, or an array with {len(names)} columns, found shape {array.shape}"
        raise DataError(problem, "X", "pass a data frame with column names")
    frame = pd.DataFrame(array, columns=names)
    return FrameSource(frame.infer_objects() if array.dtype == object else frame)


def _table_in(source: Any) -> AppliedTable | None:
    """Return the table from which a source is made; None if there is no table."""
    while hasattr(source, "source"):
        source = source.source
    return source if isinstance(source, AppliedTable) else None


def _columns_in(source: SparseSource, columns: Columns) -> np.ndarray:
    """Return the columns of a sparse source that a model reads: by name if both have names, else by number."""
    known = source.column_names
    if known is None:
        return columns.numbers
    place = {name: j for j, name in enumerate(known)}
    if lacking := [name for name in columns.names if name not in place]:
        raise lacking_columns(lacking, place, str(source.describe().get("description", "X")))
    return np.array([place[name] for name in columns.names], np.int64)


def _places_in(source: Source, columns: Columns) -> np.ndarray:
    """Return the positions of the columns in an array: by name if all are found, else by position.

    Raises
    ------
    DataError
        Columns are missing, or their number differs.
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
        raise DataError(problem, "X", "pass all columns of the training data in the same order, or column names")
    return columns.numbers


def lacking_columns(lacking: Sequence[str], known: Iterable[str], where: str) -> errors.SchemaError:
    """Return the error for missing columns that a model reads."""
    problem = f"the data lack {', '.join(map(repr, lacking[:_NAMED]))}{did_you_mean(lacking[0], known)}"
    return SchemaError(problem, where, "pass the columns of the training data")


def _entries_of(block: SparseBlock, wanted: np.ndarray) -> Entries:
    """Return the entries of the columns `wanted`, which are ascending numbers or ids."""
    place = np.minimum(np.searchsorted(wanted, block.features), max(len(wanted) - 1, 0))
    is_wanted = wanted[place] == block.features if len(wanted) else np.zeros(len(place), bool)
    rows = np.repeat(np.arange(block.n_rows), np.diff(block.indptr))[is_wanted]
    values = np.ones(len(rows)) if block.data is None else block.data[is_wanted].astype(np.float64)
    return Entries(rows, place[is_wanted], values)
