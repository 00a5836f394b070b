"""Types of the columns of a CSV file: inferred if no schema gives them, otherwise requested from the parser."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.sources.table_schema import ColumnSchema, TableFormat


def guessed_type(values: pa.ChunkedArray) -> pa.DataType:
    """Return the type of a column; one that mostly holds numbers is numeric, so that a stray text is an error."""
    if pa.types.is_boolean(values.type):
        return pa.string()
    if not pa.types.is_string(values.type) or values.null_count == len(values):
        return values.type
    numeric = pc.mean(pc.cast(pc.match_substring_regex(values, _NUMBER), pa.float64())).as_py()
    return pa.float64() if numeric > 0.5 else pa.string()


_NUMBER = r"^\s*[+-]?(\d+[.,]?\d*|[.,]\d+|\d{1,3}([., '_]\d{3})+([.,]\d*)?)([eE][+-]?\d+)?\s*$"


CURRENCY = (
    r"(?:(?:US|CA|AU|NZ|HK|R)?\$|[€£¥¢₹₽₩₺₴₪₫₱฿₦₡₲₵₸₮]|kr\.?|zł|Kč|Ft|Fr\.|"
    "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RON|BGN|RUB|UAH|TRY|BRL|MXN|ARS|CLP|COP|PEN|"
    "ZAR|KRW|SGD|HKD|TWD|THB|IDR|MYR|PHP|VND|ILS|AED|SAR|QAR|EGP|NGN|KES|PKR|ISK)"
)
"""A regular expression for the symbols and codes of currencies, for `re` and for Arrow."""
_BLANKS = "[ \t\u00a0\u2009\u202f]"


def is_text_of_number(column: ColumnSchema, layout: TableFormat) -> bool:
    """Return whether numbers are read as text: with thousands separators, percent, currency or another decimal sign."""
    own = column.layout_in(layout)
    has_signs = own.thousands or own.decimal != layout.decimal or column.dtype in ("percent", "currency")
    return pa.types.is_floating(arrow_type(column)) and bool(has_signs)


def numbers_of_texts(batch: pa.RecordBatch, columns: Mapping[str, ColumnSchema], layout: TableFormat) -> pa.RecordBatch:
    """Return a batch whose numbers, read as text, are parsed; digits must be in groups of three, or ungrouped.

    Raises
    ------
    pa.ArrowInvalid
        A text is not a number of this form.
    """
    arrays = []
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        if is_text_of_number(columns[name], layout):
            plain = _plain_numbers(values, columns[name].layout_in(layout), columns[name].dtype)
            if plain.null_count > values.null_count:
                raise pa.ArrowInvalid(f"a text in column {name!r} is no number")
            values = pc.cast(plain, pa.float64())
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def without_signs(texts: pa.Array, layout: TableFormat, dtype: str) -> pa.Array:
    """Return texts of numbers without the percent or currency signs that `dtype` allows; accountants' (12) is -12."""
    texts = pc.utf8_trim_whitespace(texts)
    if dtype == "percent":
        texts = pc.replace_substring_regex(texts, f"{_BLANKS}*%$", "")
    if dtype == "currency":
        texts = pc.replace_substring(texts, "\u2212", "-")
        texts = pc.replace_substring_regex(texts, rf"^(\(?[+-]?){_BLANKS}*{CURRENCY}{_BLANKS}*", r"\1")
        texts = pc.replace_substring_regex(texts, rf"{_BLANKS}*{CURRENCY}(\)?)$", r"\1")
        texts = pc.replace_substring_regex(texts, r"^\(([^()+-]+)\)$", r"-\1")
    if layout.thousands == " ":
        texts = pc.replace_substring_regex(texts, _BLANKS, " ")
    elif layout.thousands == "'":
        texts = pc.replace_substring(texts, "\u2019", "'")
    return texts


def _plain_numbers(texts: pa.Array, layout: TableFormat, dtype: str) -> pa.Array:
    """Return texts of numbers in Arrow's form; null if a text is not a number."""
    plain = without_signs(texts, layout, dtype)
    sign, decimal = re.escape(layout.thousands), re.escape(layout.decimal)
    digits = rf"(\d{{1,3}}({sign}\d{{3}})+|\d+)" if sign else r"\d+"
    number = rf"^[+-]?({digits}({decimal}\d*)?|{decimal}\d+)([eE][+-]?\d+)?$"
    is_number = pc.match_substring_regex(plain, number)
    if sign:
        plain = pc.replace_substring(plain, layout.thousands, "")
    plain = pc.replace_substring_regex(pc.replace_substring(plain, layout.decimal, "."), r"^\+", "")
    return pc.if_else(is_number, plain, pa.scalar(None, plain.type))


def arrow_type(column: ColumnSchema) -> pa.DataType:
    """Return the type that a column is parsed to."""
    if column.role in ("id", "split"):
        return pa.string()
    if column.of_levels or column.dtype in ("date", "time"):
        return pa.dictionary(pa.int32(), pa.string())
    return pa.string() if column.dtype == "datetime" else pa.float64()


def trimmed(values: pa.Array) -> pa.Array:
    """Return texts without surrounding spaces."""
    if pa.types.is_dictionary(values.type):
        return pa.DictionaryArray.from_arrays(values.indices, pc.utf8_trim_whitespace(values.dictionary))
    return pc.utf8_trim_whitespace(values) if pa.types.is_string(values.type) else values


def numbers_in(texts: pa.Array, layout: TableFormat, dtype: str | None = None) -> np.ndarray:
    """Return the number that each text represents; NaN if it represents none.

    Parameters
    ----------
    texts : Arrow array of str
    layout : TableFormat
    dtype : {"number", "percent", "currency"}, optional
        Signs allowed around a number; by default both percent and currency.
    """
    found = [as_floats(_plain_numbers(texts, layout, one)) for one in ([dtype] if dtype else ["percent", "currency"])]
    return np.where(np.isnan(found[0]), found[-1], found[0])


def as_floats(values: pa.Array) -> np.ndarray:
    """Return numbers or texts of numbers as float64, with NaN for missing values."""
    return np.asarray(pc.fill_null(pc.cast(values, pa.float64()), np.nan).to_numpy(zero_copy_only=False))
