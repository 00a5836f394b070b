"""Batches whose columns have types already, of Parquet and of data frames: what their texts and NaN mean."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.sources.columns import plain_numbers
from daskfs.sources.csv_types import arrow_type, is_text_of_number, numbers_in
from daskfs.sources.table_schema import ColumnSchema, TableFormat, TableSchema


def layout_of(schema: TableSchema | None) -> TableFormat | None:
    """Return how the texts of a table that has types are to be read; None where nobody says it."""
    return schema.format if schema is not None and "format" in schema.model_fields_set else None


def as_declared(
    batch: pa.RecordBatch, columns: Mapping[str, ColumnSchema], layout: TableFormat | None
) -> pa.RecordBatch:
    """Return a batch with null for what is missing, and numbers where the schema takes texts for numbers.

    NaN is missing, as data frames mean it, and of texts those that the layout says. Texts of which one is no number
    stay what they are: who encodes them says which.
    """
    arrays = []
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        if is_text(values.type):
            values = _read_texts(_without_views(values), columns.get(name), layout)
        arrays.append(_without_nan(values))
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a column holds texts, perhaps encoded by a dictionary."""
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
    """Return texts as Arrow's kernels take them: of views, as polars has them, few do."""
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
