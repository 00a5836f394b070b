"""Batches with typed columns, from Parquet or data frames: parses their texts and handles NaN."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.sources.csv_types import arrow_type, is_text_of_number, numbers_in
from daskfs.sources.encoders.base import plain_numbers
from daskfs.sources.table_schema import ColumnSchema, TableFormat, TableSchema

_INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__")


def typed_columns(schema: pa.Schema, declared: Collection[str] = ()) -> dict[str, pa.DataType]:
    """Return the columns of a table with their types, as pandas would read them.

    pandas and Dask store the index of their rows as a column, which is no property of the rows. It is left out unless
    it has a name of its own or is declared.
    """
    of_pandas = (schema.pandas_metadata or {}).get("index_columns", [])
    index = {name for name in of_pandas if isinstance(name, str) and _INDEX.fullmatch(name)}
    return {field.name: field.type for field in schema if field.name not in index or field.name in declared}


def layout_of(schema: TableSchema | None) -> TableFormat | None:
    """Return the text format of a typed table; None if the schema does not give it."""
    return schema.format if schema is not None and "format" in schema.model_fields_set else None


def as_declared(
    batch: pa.RecordBatch, columns: Mapping[str, ColumnSchema], layout: TableFormat | None
) -> pa.RecordBatch:
    """Return a batch with null for missing values, and numbers parsed from texts if the schema says so.

    NaN is missing, as in data frames, and so are the texts that the format lists. If a text in a column is not a
    number, the column stays as it is: its encoder raises the error.
    """
    arrays = []
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        if is_text(values.type):
            values = _read_texts(_without_views(values), columns.get(name), layout)
        arrays.append(_without_nan(values))
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column has texts, dictionary-encoded or not."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def without_missing_texts(texts: pa.Array, layout: TableFormat) -> pa.Array:
    """Return texts with null for those that mean a missing value."""
    if pa.types.is_dictionary(texts.type):
        return pa.DictionaryArray.from_arrays(texts.indices, without_missing_texts(texts.dictionary, layout))
    texts = pc.cast(texts, pa.string())
    return pc.if_else(pc.is_in(texts, value_set=pa.array(layout.missing)), pa.scalar(None, pa.string()), texts)


def _without_views(texts: pa.Array) -> pa.Array:
    """Return texts without string views, which polars uses and few of Arrow's kernels support."""
    if pa.types.is_dictionary(texts.type):
        return pa.DictionaryArray.from_arrays(texts.indices, _without_views(texts.dictionary))
    return pc.cast(texts, pa.large_string()) if pa.types.is_string_view(texts.type) else texts


def _read_texts(values: pa.Array, column: ColumnSchema | None, layout: TableFormat | None) -> pa.Array:
    has_signs = column is not None and is_text_of_number(column, TableFormat.model_validate({}))
    if layout is not None:
        values = without_missing_texts(values, layout)
    elif not has_signs:
        return values
    if column is None or not pa.types.is_floating(arrow_type(column)):
        return values
    texts = pc.cast(values.dictionary_decode() if pa.types.is_dictionary(values.type) else values, pa.string())
    numbers = numbers_in(texts, column.layout_in(layout or TableFormat.model_validate({})))
    is_null = pc.is_null(texts).to_numpy(zero_copy_only=False)
    return values if np.isnan(numbers[~is_null]).any() else pa.array(numbers, mask=is_null)


def _without_nan(values: pa.Array) -> pa.Array:
    plain = plain_numbers(values)
    if not pa.types.is_floating(values.type) or (plain is not None and not (plain.size and np.isnan(plain.max()))):
        return values
    is_nan = pc.is_nan(values)
    return pc.if_else(is_nan, pa.scalar(None, values.type), values) if pc.any(is_nan).as_py() else values
