"""Inspection of an unknown file: its kind, its format, its first rows, and the inferred schema of its columns."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from daskfs.errors import SourceError
from daskfs.files import location
from daskfs.sources.byte_streams import text_ratio
from daskfs.sources.files import PathLike, expand_paths
from daskfs.sources.other_formats import command_of_json_lines
from daskfs.sources.registry import find_source, kind_of
from daskfs.sources.schema_inference import InferredSchema, infer_schema
from daskfs.sources.sniffing import HEAD_RECORDS, layout_of_texts, sniff
from daskfs.sources.table import FileTable, TableSource
from daskfs.sources.table_schema import ColumnSchema, TableFormat
from daskfs.sources.text import open_text, read_header
from daskfs.sources.typed_batches import is_text, without_missing_texts

MAX_ROWS = 200_000
_MAX_NBYTES = 2**26
_MOST_FILES = 32
TABLES = ("csv", "parquet", "feather")


@dataclass
class Look:
    """Result of the inspection of a table.

    Attributes
    ----------
    kind : {"csv", "parquet", "feather"}
    files : list of Path
    layout : TableFormat
        Format of a text table; otherwise the default number format.
    inferred : InferredSchema
    n_rows : int
        Approximate number of rows of the table; exact if all rows were examined.
    is_whole : bool
        Whether all rows were examined.
    remarks : list of str
        Remarks about the whole file.
    """

    kind: str
    files: list[Path]
    layout: TableFormat
    inferred: InferredSchema
    n_rows: int
    is_whole: bool
    remarks: list[str]


def look_at(path: PathLike, target: str | None = None) -> Look:
    """Inspect the beginning of a table, a folder of tables, or files that match a pattern.

    Parameters
    ----------
    path : path-like
    target : str, optional
        The column to predict.

    Raises
    ------
    SourceError
        The path is not a table, or cannot be read.
    SchemaError
        The target does not exist, or nothing can be predicted or selected.
    """
    kind = kind_of(str(path))
    if kind not in TABLES:
        ingested = f"`daskfs ingest {shlex.quote(str(path))} STORE.zarr`"
        remedy = f"its columns need no schema: {ingested}, or source: {{kind: {kind}}} in a pipeline"
        if kind == "text":
            remedy = f"texts need no schema: {ingested}; convert a table in JSON lines: "
            remedy += f"`{command_of_json_lines(location(path))}`"
        raise SourceError(f"expected a table (text or Parquet), found a {kind} source", str(path), remedy)
    if kind == "csv":
        files = expand_paths(path, find_source(kind).endings)  # type: ignore[attr-defined]
        layout, columns, n_read, n_rows, remarks = _text_rows(files[0], target)
        if len(files) > 1:
            remarks.append(f"{len(files)} files; only the first, {files[0].name}, was examined")
            n_rows = int(n_rows * sum(file.stat().st_size for file in files) / files[0].stat().st_size)
    else:
        source: Any = find_source(kind)(path)  # type: ignore[call-arg]
        table, remarks = head_of_table(source), []
        layout, columns = read_typed(table, remarks)
        files, n_read, n_rows = source.files, len(table), source.estimate_n_samples()
        if len(files) > 1 and n_read < n_rows:
            remarks.append(f"{len(files)} files; the first rows of several were examined")
    inferred = infer_schema(columns, layout, target)
    if inferred.missing_texts:
        missing = [*layout.missing, *inferred.missing_texts]
        layout = layout.model_copy(update={"missing": missing})
    return Look(kind, files, layout, inferred, n_rows, n_read == n_rows, remarks)


def head_of_table(source: TableSource) -> pa.Table:
    """Return the first rows of a table with typed columns; of many files, the first ones of several."""
    columns = dict.fromkeys(source.header(), ColumnSchema.model_validate({}))
    tables: list[TableSource] = [source]
    if isinstance(source, FileTable):
        tables = [source.of_file(file) for file in source.files[:: math.ceil(len(source.files) / _MOST_FILES)]]
    found = [_first_rows(table, columns, math.ceil(MAX_ROWS / len(tables))) for table in tables]
    heads = [head for head in found if head is not None]
    if not heads:
        raise SourceError("expected rows, found none", source.place, "check how it was made")
    try:
        return pa.concat_tables(heads, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):  # types that differ are for the ingest to refuse, with their row
        return heads[0]


def _first_rows(source: TableSource, columns: Mapping[str, ColumnSchema], n_rows: int) -> pa.Table | None:
    batches: list[pa.RecordBatch] = []
    for batch in source.batches(columns):
        if batch.table.num_rows:
            batches.append(batch.table)
        if sum(one.num_rows for one in batches) >= n_rows:
            break
    return pa.Table.from_batches(batches) if batches else None


def read_typed(table: pa.Table, remarks: list[str]) -> tuple[TableFormat, dict[str, pa.Array]]:
    """Return the format of the texts of a typed table, and its columns with texts for missing values made null."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    texts = {}
    for name, values in columns.items():
        if is_text(values.type):
            head = values.slice(0, HEAD_RECORDS)
            head = head.dictionary_decode() if pa.types.is_dictionary(head.type) else head
            texts[name] = pc.fill_null(pc.cast(head, pa.string()), "").to_pylist()
    layout = layout_of_texts(texts, remarks)
    return layout, {
        name: without_missing_texts(columns[name], layout) if name in texts else columns[name] for name in columns
    }


def _text_rows(file: Path, target: str | None) -> tuple[TableFormat, Mapping[str, pa.Array], int, int, list[str]]:
    """Return format, text columns, number of rows read, approximate number of rows, and remarks."""
    sniffed = sniff(file, target)
    layout, names, remarks = sniffed.layout, list(sniffed.names), sniffed.remarks
    if twice := next((name for k, name in enumerate(names) if name in names[:k]), None):
        raise SourceError(
            f"two columns are called {twice!r}", f"{file}:1", "rename one of them: features are identified by name"
        )
    if "" in names:
        remarks.append("a column has no name, like the index of a data frame; it is called ''")
    with open_text(file, layout) as (stream, _):
        if layout.header:
            read_header(stream, file, layout)
        head = stream.read(_MAX_NBYTES)
        is_whole = not stream.peek(1)
    whole = head if is_whole else head[: head.rfind(b"\n") + 1]
    if not whole.strip():
        raise SourceError("expected rows, found none after the header", str(file), "check how the file was made")
    # in this thread: Arrow's own threads may still run when an error ends the process, which would then be aborted
    read = arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=max(2**22, 4 * len(whole) // 8))
    parse = arrow_csv.ParseOptions(
        delimiter=layout.delimiter,
        quote_char=layout.quote or False,
        newlines_in_values=True,
        invalid_row_handler=lambda row: "skip",
    )
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=layout.missing, strings_can_be_null=True
    )
    try:
        table = arrow_csv.read_csv(pa.BufferReader(whole), read, parse, convert)
    except pa.ArrowInvalid as fault:
        raise SourceError(f"the text cannot be parsed ({fault})", str(file), "check the file and its format") from None
    n_read = min(len(table), MAX_ROWS)
    columns = {name: _stripped(table[name].slice(0, n_read), layout) for name in names}
    n_rows = len(table)
    if not is_whole and len(whole):
        n_rows = max(n_rows, int(n_rows * text_ratio(file, 2**24) * file.stat().st_size / len(whole)))
    return layout, columns, n_read, n_rows, remarks


def _stripped(values: pa.ChunkedArray, layout: TableFormat) -> pa.Array:
    texts = values.combine_chunks()
    if layout.skip_initial_space:
        texts = pc.utf8_trim_whitespace(texts)
        texts = pc.if_else(pc.is_in(texts, value_set=pa.array(layout.missing)), pa.scalar(None, pa.string()), texts)
    return texts
