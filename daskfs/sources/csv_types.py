"""Types of the columns of a CSV file: guessed where no schema names them, asked of the parser where one does."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.sources.table_schema import ColumnSchema, TableFormat


def guessed_type(values: pa.ChunkedArray) -> pa.DataType:
    """Return the type of a column; one that mostly holds numbers is a number, so that a stray text is an error."""
    if pa.types.is_boolean(values.type):
        return pa.string()
    if not pa.types.is_string(values.type) or values.null_count == len(values):
        return values.type
    numeric = pc.mean(pc.cast(pc.match_substring_regex(values, _NUMBER), pa.float64())).as_py()
    return pa.float64() if numeric > 0.5 else pa.string()


_NUMBER = r"^\s*[+-]?(\d+[.,]?\d*|[.,]\d+|\d{1,3}([., '_]\d{3})+([.,]\d*)?)([eE][+-]?\d+)?\s*$"


def is_text_of_number(column: ColumnSchema, layout: TableFormat) -> bool:
    """Tell whether a column's numbers are read as texts: with signs between groups of digits, or a percent sign."""
    return pa.types.is_floating(arrow_type(column)) and (bool(layout.thousands) or column.dtype == "percent")


def numbers_of_texts(batch: pa.RecordBatch, columns: Mapping[str, ColumnSchema], layout: TableFormat) -> pa.RecordBatch:
    """Return a batch whose numbers, read as texts, are numbers: their digits stand in groups of three, or in none.

    Raises
    ------
    pa.ArrowInvalid
        A text is no such number.
    """
    sign, decimal = re.escape(layout.thousands), re.escape(layout.decimal)
    digits = rf"(\d{{1,3}}({sign}\d{{3}})+|\d+)?" if sign else r"\d*"
    number = rf"^\s*[+-]?{digits}({decimal}\d*)?([eE][+-]?\d+)?\s*"
    arrays = []
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        if is_text_of_number(columns[name], layout):
            ending = r"%?\s*$" if columns[name].dtype == "percent" else "$"
            if not pc.all(pc.match_substring_regex(values, number + ending)).as_py() and values.null_count < len(
                values
            ):
                raise pa.ArrowInvalid(f"a text in column {name!r} is no number")
            plain = pc.replace_substring(values, layout.thousands, "") if sign else values
            if columns[name].dtype == "percent":
                plain = pc.replace_substring(plain, "%", "")
            values = pc.cast(pc.utf8_trim_whitespace(pc.replace_substring(plain, layout.decimal, ".")), pa.float64())
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def arrow_type(column: ColumnSchema) -> pa.DataType:
    """Return the type that a column is parsed to."""
    if column.role in ("id", "split"):
        return pa.string()
    if column.of_levels or column.dtype in ("date", "time"):
        return pa.dictionary(pa.int32(), pa.string())
    return pa.string() if column.dtype == "datetime" else pa.float64()


def trimmed(values: pa.Array) -> pa.Array:
    """Return texts without the spaces around them."""
    if pa.types.is_dictionary(values.type):
        return pa.DictionaryArray.from_arrays(values.indices, pc.utf8_trim_whitespace(values.dictionary))
    return pc.utf8_trim_whitespace(values) if pa.types.is_string(values.type) else values


def numbers_in(texts: pa.Array, layout: TableFormat) -> np.ndarray:
    """Return the number that each text is, with a percent sign or without; NaN where it is none."""
    plain = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"\s*%$", "")
    sign, decimal = re.escape(layout.thousands), re.escape(layout.decimal)
    digits = rf"(\d{{1,3}}({sign}\d{{3}})+|\d+)" if sign else r"\d+"
    number = rf"^[+-]?({digits}({decimal}\d*)?|{decimal}\d+)([eE][+-]?\d+)?$"
    is_number = pc.match_substring_regex(plain, number)
    if sign:
        plain = pc.replace_substring(plain, layout.thousands, "")
    plain = pc.replace_substring(plain, layout.decimal, ".")
    return as_floats(pc.if_else(is_number, plain, pa.scalar(None, plain.type)))


def as_floats(values: pa.Array) -> np.ndarray:
    """Return numbers or texts of numbers as float64, NaN where a value is missing."""
    return np.asarray(pc.fill_null(pc.cast(values, pa.float64()), np.nan).to_numpy(zero_copy_only=False))
