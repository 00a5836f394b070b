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


CURRENCY = (
    r"(?:(?:US|CA|AU|NZ|HK|R)?\$|[€£¥¢₹₽₩₺₴₪₫₱฿₦₡₲₵₸₮]|kr\.?|zł|Kč|Ft|Fr\.|"
    "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RON|BGN|RUB|UAH|TRY|BRL|MXN|ARS|CLP|COP|PEN|"
    "ZAR|KRW|SGD|HKD|TWD|THB|IDR|MYR|PHP|VND|ILS|AED|SAR|QAR|EGP|NGN|KES|PKR|ISK)"
)
"""A regular expression of the signs and codes of currencies, for `re` and for Arrow."""
_BLANKS = "[ \t\u00a0\u2009\u202f]"


def is_text_of_number(column: ColumnSchema, layout: TableFormat) -> bool:
    """Tell whether a column's numbers are read as texts: with signs between groups of digits, a percent or currency."""
    own = column.layout_in(layout)
    has_signs = own.thousands or own.decimal != layout.decimal or column.dtype in ("percent", "currency")
    return pa.types.is_floating(arrow_type(column)) and bool(has_signs)


def numbers_of_texts(batch: pa.RecordBatch, columns: Mapping[str, ColumnSchema], layout: TableFormat) -> pa.RecordBatch:
    """Return a batch whose numbers, read as texts, are numbers: their digits stand in groups of three, or in none.

    Raises
    ------
    pa.ArrowInvalid
        A text is no such number.
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
    """Return texts of numbers without what `dtype` lets stand around them; accountants' (12) is -12."""
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
    """Return numbers as Arrow reads them, null where a text is none."""
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
    """Return texts without the spaces around them."""
    if pa.types.is_dictionary(values.type):
        return pa.DictionaryArray.from_arrays(values.indices, pc.utf8_trim_whitespace(values.dictionary))
    return pc.utf8_trim_whitespace(values) if pa.types.is_string(values.type) else values


def numbers_in(texts: pa.Array, layout: TableFormat, dtype: str | None = None) -> np.ndarray:
    """Return the number that each text is; NaN where it is none.

    Parameters
    ----------
    texts : Arrow array of str
    layout : TableFormat
    dtype : {"number", "percent", "currency"}, optional
        What may stand around a number; by default a percent sign, or what amounts of money have.
    """
    found = [as_floats(_plain_numbers(texts, layout, one)) for one in ([dtype] if dtype else ["percent", "currency"])]
    return np.where(np.isnan(found[0]), found[-1], found[0])


def as_floats(values: pa.Array) -> np.ndarray:
    """Return numbers or texts of numbers as float64, NaN where a value is missing."""
    return np.asarray(pc.fill_null(pc.cast(values, pa.float64()), np.nan).to_numpy(zero_copy_only=False))
