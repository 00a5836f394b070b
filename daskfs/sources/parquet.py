"""Parquet files, one or many, streamed in batches that stay small even if row groups are large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from daskfs import errors
from daskfs.sources.base import part_nbytes
from daskfs.sources.files import as_file
from daskfs.sources.table import FileTable, TableBatch, TableOptions
from daskfs.sources.table_schema import ColumnSchema
from daskfs.sources.typed_batches import as_declared, layout_of

SourceError = errors.SourceError.about("frames")

_BATCH_NBYTES = 4 * 2**20
_BUFFER_NBYTES = 2**20


class RowGroups(NamedTuple):
    """Consecutive row groups of a file."""

    file: Path
    start: int
    stop: int


class ParquetOptions(TableOptions):
    """Parquet: one file, several, a glob or a folder."""


class ParquetSource(FileTable):
    """One or several Parquet files with the same columns.

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
    """

    kind, options, endings = "parquet", ParquetOptions, (".parquet", ".pq")

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of rows of all files; unknown if rows may be dropped."""
        if any(column.missing == "drop" for column in self.columns.values()):
            return super().n_samples
        return self._n_rows

    @cached_property
    def _n_rows(self) -> int:
        n_rows = 0
        for file in self.files:
            with _reading(file), pq.ParquetFile(as_file(file)) as table:
                n_rows += table.metadata.num_rows
        return n_rows

    def estimate_n_samples(self) -> int | None:
        """Return the number of rows."""
        return self._n_rows

    def header(self) -> Mapping[str, pa.DataType | None]:
        """Return names and types; all files must have the same names."""
        first: dict[str, pa.DataType] = {}
        for file in self.files:
            with _reading(file), pq.ParquetFile(as_file(file)) as table:
                schema = table.schema_arrow
            names = {field.name: field.type for field in schema}
            if len(names) < len(schema):
                twice = next(name for name in schema.names if schema.names.count(name) > 1)
                raise SourceError(f"two columns are called {twice!r}", str(file), "rename one of them")
            first = first or names
            if set(names) != set(first):
                differing = ", ".join(repr(name) for name in sorted(set(names) ^ set(first))[:8])
                raise SourceError(
                    f"expected the columns of {self.files[0].name}; {differing} are in one file only",
                    str(file),
                    "give all files the same columns, or ingest them separately",
                )
        return first

    def batches(self, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield batches of about 4 MiB."""
        for file in self.files:
            yield from self._batches_of(file, columns)

    def _batches_of(
        self, file: Path, columns: Mapping[str, ColumnSchema], row_groups: range | None = None
    ) -> Iterator[TableBatch]:
        batch_rows = max(64, min(65536, _BATCH_NBYTES // (8 * len(columns))))
        with _reading(file), pq.ParquetFile(as_file(file), buffer_size=_BUFFER_NBYTES, pre_buffer=False) as table:
            before = range(row_groups.start if row_groups is not None else 0)
            first_row = sum(table.metadata.row_group(k).num_rows for k in before)
            for batch in table.iter_batches(batch_rows, row_groups=row_groups, columns=list(columns)):
                yield TableBatch(as_declared(batch, columns, layout_of(self.schema)), str(file), first_row)
                first_row += batch.num_rows

    @property
    def has_parts(self) -> bool:
        """True: row groups can be read independently."""
        return True

    def parts(self) -> Sequence[RowGroups]:
        """Return row groups of each file, combined up to a minimum size."""
        parts: list[RowGroups] = []
        nbytes = part_nbytes(sum(file.stat().st_size for file in self.files))
        for file in self.files:
            start = n_together = 0
            with _reading(file), pq.ParquetFile(as_file(file)) as table:
                for k in range(n_groups := table.num_row_groups):
                    n_together += table.metadata.row_group(k).total_byte_size
                    if n_together >= nbytes or k + 1 == n_groups:
                        parts.append(RowGroups(file, start, k + 1))
                        start, n_together = k + 1, 0
        return parts

    def part_batches(self, part: RowGroups, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield the batches of some row groups."""
        yield from self._batches_of(part.file, columns, range(part.start, part.stop))


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as fault:
        raise SourceError(
            f"expected a complete Parquet file ({fault})", str(file), "copy or write the file again"
        ) from None
