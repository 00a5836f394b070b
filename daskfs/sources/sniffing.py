"""Format of a text table, inferred from its beginning: encoding, delimiter, header, number format, missing values."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from daskfs import errors
from daskfs.sources.byte_streams import open_bytes
from daskfs.sources.csv_types import CURRENCY, numbers_in, without_signs
from daskfs.sources.table_schema import DEFAULT_MISSING, TableFormat

DataError = errors.DataError.about("text-tables")
SourceError = errors.SourceError.about("text-tables")

HEAD_NBYTES = 2**20
HEAD_RECORDS = 2_000
_DELIMITERS = ",;\t|"
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_DIGITS = r"[\d.,'\u2019 \u00a0\u2009\u202f_]"
_NUMBER_SIGNS = re.compile(
    rf"\(?[+\u2212-]?\s*({CURRENCY}\s*)?[+-]?{_DIGITS}*\d{_DIGITS}*([eE][+-]?\d+)?\s*(%|{CURRENCY})?\)?",
)
_MAYBE_MISSING = (
    "?",
    "-",
    "--",
    ".",
    "*",
    "n/a",
    "N.A.",
    "na",
    "#N/A",
    "#NA",
    "NULL",
    "null",
    "nil",
    "missing",
    "<NA>",
)
"""Texts that mean a missing value if the rest of a column is numeric."""


@dataclass
class Sniffed:
    """A text table's format, and remarks.

    Attributes
    ----------
    layout : TableFormat
    names : list of str
        Column names; x0, x1, ... if there is no header.
    records : list of list of str
        The first records after the header.
    remarks : list of str
        Differences from a standard CSV file, and ambiguities.
    """

    layout: TableFormat
    names: list[str]
    records: list[list[str]]
    remarks: list[str] = field(default_factory=list)


def sniff(path: Path, target: str | None = None) -> Sniffed:
    """Infer the format of a text file, compressed or not.

    Parameters
    ----------
    path : Path
    target : str, optional
        A name that the header, if there is one, contains.

    Raises
    ------
    SourceError
        It is not text, or not a table.
    """
    with open_bytes(path) as stream:
        head = stream.read(HEAD_NBYTES)
    is_whole = len(head) < HEAD_NBYTES
    remarks: list[str] = []
    encoding, text = _decoded(path, head, remarks, is_whole=is_whole)
    if not is_whole:
        text = text[: text.rfind("\n") + 1] or text
    comment = "#" if text.startswith("#") and not _is_header_behind_a_sign(text) else ""
    lines = [line for line in text.splitlines(keepends=True) if not (comment and line.startswith(comment))]
    if comment:
        remarks.append("lines that begin with # are comments")
    delimiter, records = _split(path, "".join(lines), remarks)
    if not records:
        raise SourceError("expected a header and rows, found only blank lines", str(path), "check how it was made")
    padded = sum(value != value.strip() for record in records[:200] for value in record)
    skip = 4 * padded > sum(len(record) for record in records[:200])
    if skip or any(name != name.strip() for name in records[0]):
        skip = True
        remarks.append("values have spaces around them, which are removed")
        records = [[value.strip() for value in record] for record in records]
    header = target in records[0] or has_header(records)
    names, rows = (records[0], records[1:]) if header else ([f"x{j}" for j in range(len(records[0]))], records)
    if not header:
        remarks.append("the first line has values, not names: columns are called x0, x1, ...")
    decimal, thousands = _number_signs(names, rows, delimiter, remarks)
    missing = _missing_texts(names, rows, remarks)
    layout = TableFormat.model_validate(
        {
            "delimiter": delimiter,
            "encoding": encoding,
            "header": header,
            "decimal": decimal,
            "thousands": thousands,
            "comment": comment,
            "skip_initial_space": skip,
            "missing": missing,
        }
    )
    return Sniffed(layout, names, rows, remarks)


def _decoded(path: Path, head: bytes, remarks: list[str], *, is_whole: bool) -> tuple[str, str]:
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            if name != "utf-8":
                remarks.append(f"the text is {name}, according to its byte-order mark")
            else:
                remarks.append("the file begins with a byte-order mark, which is not part of the first name")
            return name, head.decode("utf-8-sig" if name == "utf-8" else name, errors="replace")
    if b"\0" in head:
        remedy = "tables are text or Parquet; export a spreadsheet or a database as a CSV file"
        raise SourceError("expected text, found zero bytes", str(path), remedy)
    try:
        return "utf-8", codecs.getincrementaldecoder("utf-8")().decode(head, final=is_whole)
    except UnicodeDecodeError as fault:
        name = "cp1252" if any(0x80 <= byte < 0xA0 for byte in head) else "latin-1"
        line = head[: fault.start].count(b"\n") + 1
        remarks.append(f"the text is not UTF-8 (byte 0x{head[fault.start]:02x} in line {line}); it is read as {name}")
        return name, head.decode(name, errors="replace")


def _is_header_behind_a_sign(text: str) -> bool:
    """Return whether "#" begins a header ("#chrom<TAB>pos"), not a comment: it has as many fields as the next line."""
    first, _, rest = text.partition("\n")
    if first[1:2].isspace():
        return False
    second = rest.partition("\n")[0]
    return any(first.count(sign) and first.count(sign) == second.count(sign) for sign in _DELIMITERS)


def _split(path: Path, text: str, remarks: list[str]) -> tuple[str, list[list[str]]]:
    """Return the delimiter that gives most records the same number of fields, more than one; and the records."""
    best: tuple[float, int, str, list[list[str]]] | None = None
    for delimiter in _DELIMITERS:
        try:
            records = _records(text, delimiter)
        except csv.Error:
            continue
        if not records:
            return ",", []
        n_fields, count = Counter(map(len, records)).most_common(1)[0]
        if n_fields > 1 and (best is None or (count / len(records), n_fields) > best[:2]):
            best = count / len(records), n_fields, delimiter, records
    if best is None:
        return ",", _records(text, ",")
    share, n_fields, delimiter, records = best
    if share < 0.5:
        found = f"between {min(map(len, records))} and {max(map(len, records))} values per line"
        raise SourceError(f"expected a table, found {found}", str(path), "check its format")
    if delimiter != ",":
        name = "tabs" if delimiter == "\t" else repr(delimiter)
        remarks.append(f"values are separated by {name}")
    if share < 1.0:
        wrong = next(k for k, record in enumerate(records, 1) if len(record) != n_fields)
        remarks.append(
            f"record {wrong} has {len(records[wrong - 1])} values, but most have {n_fields}: fix it before running"
        )
    return delimiter, [record for record in records if len(record) == n_fields]


def _records(text: str, delimiter: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    records: list[list[str]] = []
    for record in reader:
        if record:
            records.append(record)
        if len(records) > HEAD_RECORDS:
            break
    return records


def has_header(records: Sequence[Sequence[str]]) -> bool:
    """Return whether the first record contains names.

    Examples
    --------
    >>> has_header([["age", "income"], ["31", "2000"]]), has_header([["31", "2000"], ["40", "1000"]])
    (True, False)
    """
    first, rest = records[0], records[1:201]
    if len(first) > 2 and rest and list(first) in ([str(j + k) for j in range(len(first))] for k in (0, 1)):
        return True  # column numbers, which data frames without names write as header
    named = first if first[0].strip() else first[1:]  # data frames write a blank name for their index
    if any(not name.strip() or looks_like_number(name) for name in named):
        return False
    if not rest:
        return True
    for j, name in enumerate(first):
        column = [record[j] for record in rest if record[j].strip()]
        if column and sum(map(looks_like_number, column)) > 0.8 * len(column):
            return True  # a text above numbers
        if name in column:
            return False
    return len(set(first)) == len(first)


MOST_NUMBERED_CLASSES = 20
_MOSTLY = 0.9


def looks_like_number(text: str) -> bool:
    """Return whether a text is a number in any notation, with or without a percent sign or currency."""
    return _NUMBER_SIGNS.fullmatch(text.strip()) is not None


def refuse_numbers_as_classes(texts: Sequence[str], n_rows: int, where: str) -> None:
    """Refuse a text target whose values are nearly all numbers, such as amounts, and nearly all different.

    Parameters
    ----------
    texts : sequence of str
        Distinct texts.
    n_rows : int
    where : str
        Place of the target, for the message.

    Raises
    ------
    DataError
    """
    if len(texts) <= max(MOST_NUMBERED_CLASSES, n_rows // 2):
        return
    if sum(looks_like_number(str(text)) for text in texts) >= _MOSTLY * len(texts):
        found = f"{len(texts):,} texts that are numbers, such as {str(texts[0])!r}"
        remedy = "convert them to numbers, or parse amounts: daskfs.ingest(frame, STORE, target=..., schema='judge')"
        raise DataError(f"expected numbers or the names of classes, found {found}", where, remedy)


def layout_of_texts(columns: Mapping[str, Sequence[str]], remarks: list[str]) -> TableFormat:
    """Infer how numbers and missing values are written in the text columns of a typed table.

    Parameters
    ----------
    columns : mapping of str to sequences of str, all of the same length
        "" for missing values.
    remarks : list of str
        Remarks on unusual formats are appended.
    """
    rows = list(zip(*columns.values(), strict=True))
    decimal, thousands = _number_signs(list(columns), rows, "\t", remarks)
    delimiter = "\t" if "," in (decimal, thousands) else ","  # unused here, but it must differ from the other signs
    found = {"delimiter": delimiter, "decimal": decimal, "thousands": thousands}
    return TableFormat.model_validate(found | {"missing": _missing_texts(list(columns), rows, remarks)})


def _number_signs(
    names: Sequence[str], rows: Sequence[Sequence[str]], delimiter: str, remarks: list[str]
) -> tuple[str, str]:
    """Return the decimal and thousands signs with which the most number-like texts can be parsed."""
    texts = [text for j in range(len(names)) for text in _numeric_texts([row[j] for row in rows]) if not text.isdigit()]
    column = without_signs(pa.array(texts, pa.string()), TableFormat.model_validate({"thousands": " "}), "currency")
    if not (texts := [text for text in column.to_pylist() if not text.isdigit()]):
        return ".", ""
    column = pa.array(texts)
    best = (".", "")
    most = -1
    for decimal in (".", ","):
        for thousands in ("", ",", ".", " ", "'", "_"):
            if thousands in (decimal, delimiter) or decimal == delimiter:
                continue
            layout = TableFormat.model_validate({"decimal": decimal, "thousands": thousands, "delimiter": delimiter})
            n_read = int(np.isfinite(numbers_in(column, layout)).sum())
            if n_read > most:
                best, most = (decimal, thousands), n_read
    commas = [text for text in texts if "," in text]
    is_open = all(re.fullmatch(r"[+-]?\d{1,3},\d{3}", text) for text in commas) and "." not in "".join(texts)
    if commas and is_open:  # with semicolons as delimiter, a comma is the decimal sign
        best = (",", "") if delimiter == ";" else (".", ",")
        other = "format.thousands: ','" if delimiter == ";" else "format.decimal: ','"
        remarks.append(
            f"{commas[0]!r} may be {commas[0].replace(',', '')} or {commas[0].replace(',', '.')}; see {other}"
        )
    decimal, thousands = best
    if decimal == ",":
        remarks.append("numbers have a decimal comma")
    if thousands:
        remarks.append(f"numbers have the thousands separator {thousands!r}")
    return decimal, thousands


def _numeric_texts(column: Sequence[str]) -> list[str]:
    """Return the texts of a column that look like numbers, if most do."""
    filled = [text.strip() for text in column if text.strip() and text.strip() not in DEFAULT_MISSING]
    numbers = [text for text in filled if looks_like_number(text)]
    return numbers if 2 * len(numbers) > len(filled) else []


def _missing_texts(names: Sequence[str], rows: Sequence[Sequence[str]], remarks: list[str]) -> list[str]:
    found: dict[str, str] = {}
    for j, name in enumerate(names):
        column = [row[j].strip() for row in rows]
        filled = [text for text in column if text and text not in DEFAULT_MISSING]
        numbers = sum(map(looks_like_number, filled))
        others = Counter(text for text in filled if not looks_like_number(text))
        for text, count in others.items():
            stands_alone = text in _MAYBE_MISSING and 2 * numbers > len(filled)
            if stands_alone or (text == "?" and count < len(filled)):
                found.setdefault(text, name)
    for text, name in found.items():
        remarks.append(f"{text!r} means a missing value (as in column {name!r})")
    return [*DEFAULT_MISSING, *(text for text in found if text not in DEFAULT_MISSING)]
