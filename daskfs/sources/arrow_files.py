"""Feather, Arrow IPC and ORC files, read batch by batch or stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import orc

from daskfs import errors
from daskfs.files import Location
from daskfs.sources.files import as_file
from daskfs.sources.table import FileTable, TableBatch, TableOptions
from daskfs.sources.table_schema import ColumnSchema
from daskfs.sources.typed_batches import as_declared, layout_of, typed_columns

SourceError = errors.SourceError.about("frames")

_BATCH_ROWS = 65536


class FeatherOptions(TableOptions):
    """Feather, Arrow IPC and ORC: one file, several, a glob or a folder."""


class FeatherSource(FileTable):
    """One or several Feather, Arrow IPC or ORC files with the same columns.

    Parameters
    ----------
    path : path-like or list of path-like
        A file, several, a pattern or a folder.
    schema, target, weight, missing
        See `daskfs.sources.table.TableSource`. NaN counts as missing.

    Raises
    ------
    SourceError
        A missing, empty or unreadable file.

    Notes
    -----
    One record batch, or one ORC stripe, is in memory at a time.
    """

    kind, options, endings = "feather", FeatherOptions, (".feather", ".arrow", ".ipc", ".orc")

    @cached_property
    def _n_rows(self) -> int:
        n_rows = 0
        for file in self.files:
            with _opened(file) as table:
                n_rows += table.n_rows
        return n_rows

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Rows of all files; unknown if rows may be dropped."""
        if any(column.missing == "drop" for column in self.columns.values()):
            return super().n_samples
        return self._n_rows

    def estimate_n_samples(self) -> int | None:
        """Return the number of rows."""
        return self._n_rows

    def header(self) -> Mapping[str, pa.DataType | None]:
        """Return names and types; all files must have the same names."""
        first: dict[str, pa.DataType] = {}
        for file in self.files:
            with _opened(file) as table:
                names = typed_columns(table.schema, self.declared)
                if len(set(table.schema.names)) < len(table.schema):
                    raise SourceError("two columns have the same name", str(file), "rename one of them")
            first = first or names
            if set(names) != set(first):
                differing = ", ".join(repr(name) for name in sorted(set(names) ^ set(first))[:8])
                problem = f"expected the columns of {self.files[0].name}; {differing} are in one file only"
                raise SourceError(problem, str(file), "give all files the same columns, or ingest them separately")
        return first

    def batches(self, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield batches; long ones are split."""
        for file in self.files:
            first_row = 0
            with _opened(file) as table:
                for k in range(table.n_batches):
                    batch = table.batch(k, list(columns))
                    for start in range(0, batch.num_rows, _BATCH_ROWS):
                        piece = batch.slice(start, _BATCH_ROWS)
                        yield TableBatch(as_declared(piece, columns, layout_of(self.schema)), str(file), first_row)
                        first_row += piece.num_rows


class _ArrowFile:
    """An Arrow IPC file."""

    def __init__(self, opened: Any) -> None:
        self._file = pa.ipc.open_file(opened)
        self.schema, self.n_batches = self._file.schema, self._file.num_record_batches

    @property
    def n_rows(self) -> int:
        return sum(self._file.get_batch(k).num_rows for k in range(self.n_batches))

    def batch(self, k: int, columns: list[str]) -> pa.RecordBatch:
        return self._file.get_batch(k).select(columns)


class _OrcFile:
    """An ORC file."""

    def __init__(self, opened: Any) -> None:
        self._file = orc.ORCFile(opened)
        self.schema, self.n_batches, self.n_rows = self._file.schema, self._file.nstripes, self._file.nrows

    def batch(self, k: int, columns: list[str]) -> pa.RecordBatch:
        return self._file.read_stripe(k, columns=columns).select(columns)


@contextmanager
def _opened(file: Location) -> Iterator[Any]:
    kind = _OrcFile if file.suffix == ".orc" else _ArrowFile
    try:
        source = as_file(file)
        with pa.PythonFile(source) if hasattr(source, "read") else pa.memory_map(str(source)) as opened:
            yield kind(opened)
    except (pa.ArrowException, OSError) as fault:
        what = "an ORC file" if kind is _OrcFile else "an Arrow file (Feather 2, IPC)"
        raise SourceError(f"expected {what}, found none ({fault})", str(file), "copy or write the file again") from None
