"""Parquet files, one or many, streamed in batches that stay small even if row groups are large.

The files of a folder may lie in subfolders that are named ``column=value``, as Hive, Spark and Dask write a table that
is partitioned by a column: the column has this value in all their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from daskfs import errors
from daskfs.sources.base import part_nbytes
from daskfs.sources.files import Location, PathLike, as_file, files_below, is_path, location
from daskfs.sources.table import FileTable, TableBatch, TableOptions
from daskfs.sources.table_schema import ColumnSchema
from daskfs.sources.typed_batches import as_declared, layout_of, typed_columns

SourceError = errors.SourceError.about("frames")

_BATCH_NBYTES = 4 * 2**20
_BUFFER_NBYTES = 2**20
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


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
        A file, several, a pattern or a folder, with or without subfolders ``column=value``.
    schema, target, weight, missing
        See `daskfs.sources.table.TableSource`. NaN counts as missing.

    Raises
    ------
    SourceError
        A missing, empty or unreadable file; files in a folder that are partitioned by different columns.
    """

    kind, options, endings = "parquet", ParquetOptions, (".parquet", ".pq")

    def found(self, path: PathLike | Sequence[PathLike]) -> list[Any]:
        """Return the files of a path, also of a folder that is partitioned by columns."""
        self._of_folders = partitions(location(path), self.endings) if is_path(path) else {}  # type: ignore[arg-type]
        """Values of the columns that folders name, by file."""
        return super().found(list(self._of_folders) or path)

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
            names = typed_columns(schema, self.declared)
            if len(set(schema.names)) < len(schema):
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
        of_folders = self._of_folders.get(self.files[0], {})
        if both := sorted(of_folders.keys() & first.keys()):
            problem = f"column {both[0]!r} is in the file and in the name of its folder"
            raise SourceError(problem, str(self.files[0]), "rename the folders, or name the files")
        return first | {name: value.type for name, value in of_folders.items()}

    def batches(self, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield batches of about 4 MiB."""
        for file in self.files:
            yield from self._batches_of(file, columns)

    def _batches_of(
        self, file: Path, columns: Mapping[str, ColumnSchema], row_groups: range | None = None
    ) -> Iterator[TableBatch]:
        batch_rows = max(64, min(65536, _BATCH_NBYTES // (8 * len(columns))))
        of_folders = {name: value for name, value in self._of_folders.get(file, {}).items() if name in columns}
        with _reading(file), pq.ParquetFile(as_file(file), buffer_size=_BUFFER_NBYTES, pre_buffer=False) as table:
            names = [name for name in columns if name not in of_folders] or table.schema_arrow.names[:1]
            before = range(row_groups.start if row_groups is not None else 0)
            first_row = sum(table.metadata.row_group(k).num_rows for k in before)
            for batch in table.iter_batches(batch_rows, row_groups=row_groups, columns=names):
                for name, value in of_folders.items():
                    batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
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


def partitions(folder: Location, endings: tuple[str, ...]) -> dict[Location, dict[str, pa.Scalar]]:
    """Return the files of a partitioned table with the values that the names of their folders give to columns.

    Values are integers if all of a column are, otherwise texts. The result is empty for other paths.
    """
    is_listed = isinstance(folder, Path) or not folder.is_read_only
    if not is_listed or not folder.is_dir() or any(one.name.endswith(endings) for one in folder.iterdir()):
        return {}
    files = [file for file in files_below(folder) if file.name.endswith(endings)]
    depth = len(str(folder).rstrip("/")) + 1
    named = [[one.partition("=") for one in str(file)[depth:].split("/")[:-1]] for file in files]
    if not files or not all(equals for of_file in named for _, equals, _ in of_file):
        return {}
    columns = [unquote(name) for name, _, _ in named[0]]
    found: dict[Location, dict[str, pa.Scalar]] = {file: {} for file in files}
    for k, column in enumerate(columns):
        for file, of_file in zip(files, named, strict=True):
            if [unquote(name) for name, _, _ in of_file] != columns:
                problem = f"expected folders of {', '.join(columns)}, as of {files[0].name}"
                raise SourceError(problem, str(file), "move the file, or name the files")
        texts = pa.array([None if (text := of_file[k][2]) == _NO_VALUE else unquote(text) for of_file in named])
        are_whole = pc.all(pc.match_substring_regex(texts, r"^-?(0|[1-9]\d{0,17})$")).as_py()
        for file, value in zip(files, texts.cast(pa.int64()) if are_whole else texts, strict=True):
            found[file][column] = value
    return found


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as fault:
        raise SourceError(
            f"expected a complete Parquet file ({fault})", str(file), "copy or write the file again"
        ) from None
