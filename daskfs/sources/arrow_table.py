"""Arrow tables, and tables that export an Arrow stream: polars, DuckDB."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from daskfs import errors
from daskfs.errors import DataError
from daskfs.sources.dataframe import free_name, target_name
from daskfs.sources.roles import Names, is_number
from daskfs.sources.table import TableBatch, TableSource
from daskfs.sources.table_schema import ColumnSchema
from daskfs.sources.typed_batches import as_declared, layout_of, typed_columns

SourceError = errors.SourceError.about("frames")

_BATCH_ROWS = 65536


class ArrowSource(TableSource):
    """A table in memory that has the Arrow stream interface (``__arrow_c_stream__``).

    Parameters
    ----------
    table : pyarrow.Table, polars.DataFrame, ...
    schema, target, weight, missing
        See `daskfs.sources.table.TableSource`. NaN counts as missing.
    y : array-like of shape (n_samples,), optional
        The target, if it is not a column of the table. `weight` may be an array too.
    """

    kind = "arrow"

    def __init__(
        self,
        table: Any,
        schema: Any = None,
        target: Names = None,
        weight: Any = None,
        missing: Any = "error",
        y: Any = None,
    ) -> None:
        found = table if isinstance(table, pa.Table) else pa.RecordBatchReader.from_stream(table).read_all()
        if y is not None:
            target = target or target_name(y, found.column_names)
            if len(np.asarray(y)) != found.num_rows:
                raise DataError(f"expected {found.num_rows} targets, one per row of X, found {len(np.asarray(y))}", "y")
            name = target if isinstance(target, str) else next(iter(target))
            found = found.append_column(name, pa.array(np.asarray(y)))
        if weight is not None and not isinstance(weight, str):
            name = free_name("weight", found.column_names)
            found, weight = found.append_column(name, pa.array(np.asarray(weight))), name
        super().__init__(schema, target, weight, missing)
        self._table = found

    @property
    def place(self) -> str:
        """Name of the table, for messages."""
        return "Arrow table"

    def describe(self) -> dict[str, Any]:
        """Return kind and shape."""
        return {"kind": self.kind, "description": self.place, "shape": list(self._table.shape)}

    @cached_property
    def _digest(self) -> str:
        hashed = hashlib.sha256()
        with pa.ipc.new_stream(pa.PythonFile(_Hashing(hashed), mode="w"), self._table.schema) as stream:
            stream.write_table(self._table.combine_chunks(), max_chunksize=_BATCH_ROWS)
        return hashed.hexdigest()

    def digest(self) -> str:
        """Return the SHA-256 of names, types and values."""
        return self._digest

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of rows; unknown if rows may be dropped."""
        if any(column.missing == "drop" for column in self.columns.values()):
            return super().n_samples
        return int(self._table.num_rows)

    def estimate_n_samples(self) -> int | None:
        """Return the number of rows."""
        return int(self._table.num_rows)

    def header(self) -> Mapping[str, pa.DataType | None]:
        """Return names and types."""
        names = self._table.column_names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise SourceError(f"two columns are called {twice!r}", self.place, "rename one of them")
        return typed_columns(self._table.schema, self.declared)

    def batches(self, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield slices of the table."""
        first_row = 0
        for batch in self._table.select(list(columns)).to_batches(max_chunksize=_BATCH_ROWS):
            yield TableBatch(as_declared(batch, columns, layout_of(self.schema)), self.place, first_row)
            first_row += batch.num_rows


def has_numbers_alone(table: Any) -> bool:
    """Return whether all columns are numeric or boolean."""
    schema = table.schema if isinstance(table, pa.Table) else pa.RecordBatchReader.from_stream(table).schema
    return all(is_number(field.type) for field in schema)


class _Hashing:
    """A file-like object that hashes what is written to it."""

    closed = False

    def __init__(self, hashed: Any) -> None:
        self._hashed = hashed

    def write(self, data: Any) -> int:
        self._hashed.update(data)
        return len(data)

    def flush(self) -> None:
        return
