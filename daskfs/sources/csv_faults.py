"""Where a CSV file is wrong: a second, slow pass with Python's csv module, made only after the fast pass failed.

All faults are reported at once, up to a readable number: a few of each column, twenty in total.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from daskfs import errors
from daskfs.sources.byte_streams import open_bytes
from daskfs.sources.csv_records import PartOfFile, TextPart, count_lines
from daskfs.sources.csv_types import is_text_of_number, without_signs
from daskfs.sources.encoders.base import Encoder, shown
from daskfs.sources.encoders.category import CategoryEncoder
from daskfs.sources.encoders.date import DateEncoder
from daskfs.sources.encoders.number import NumberEncoder
from daskfs.sources.table_schema import DATE_FORMATS, ColumnSchema, TableFormat
from daskfs.sources.text import not_utf8, reader_options

SourceError = errors.SourceError.about("text-tables")

_UNDECODABLE = re.compile("[\udc80-\udcff]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII)
_READING = re.compile(r" \(it is then [^)]*\)")
MOST_REPORTED, MOST_ALIKE = 20, 3
"""Maximum number of reported places in total, and of one column."""
_LOOKED_AT = 100_000
"""Number of records checked after the first faulty one."""


class Known(NamedTuple):
    """The fault that the fast pass has found."""

    row: int
    column: str
    error: errors.SourceError


def find_faults(
    path: Path,
    layout: TableFormat,
    names: Sequence[str],
    columns: Mapping[str, ColumnSchema],
    n_good: int,
    known: Known | None = None,
    *,
    part: TextPart | None = None,
) -> errors.SourceError | None:
    """Return the error of all faulty records, one line per place, or None if there is no fault.

    Parameters
    ----------
    path : Path
    layout : TableFormat
    names : sequence of str
        Names of the columns, in the file's order.
    columns : mapping of str to ColumnSchema
        The columns in use.
    n_good : int
        Number of records that were read successfully; their values are not checked again.
    known : Known, optional
    part : TextPart, optional
        The part of the file to look at, from the beginning of a record; by default all of it.
    """
    found = _Found(known)
    has_end = part is None or part.stop == path.stat().st_size
    checks = [(k, name, _Check(columns[name], layout)) for k, name in enumerate(names) if name in columns]
    droppable = [k for k, name, check in checks if columns[name].missing == "drop"]
    n_before = 0 if part is None else count_lines(path, part.start)
    line, ragged, end = n_before, None, None
    try:
        with closing(_records(path, layout, part, n_before)) as records:
            for row, (line, record) in enumerate(records):
                if ragged is not None:
                    found.add("", _ragged(path, *ragged, names, is_last=False))
                    ragged = None
                if found.looked_enough():
                    break
                if len(record) != len(names):
                    ragged = line, record
                elif row >= n_good:
                    texts = [text.strip() for text in record] if layout.skip_initial_space else record
                    is_dropped = any(texts[k] in layout.missing for k in droppable)
                    for k, name, check in checks:
                        if known is not None and (row, name) == known[:2]:
                            found.add(name, known.error)
                        elif fault := check.fault_of(texts[k], is_dropped):
                            problem, remedy = fault
                            found.add(name, SourceError(problem, f"{path}:{line}, column '{name}'", remedy))
    except _UndecodableError as fault:
        end = not_utf8(path, fault.line, fault.found)
    except csv.Error as fault:
        problem = f"a quoted value is not closed or not followed by {layout.delimiter!r}"
        if "field larger" in str(fault):
            problem = f"a value is longer than {csv.field_size_limit():,} characters, as after an unclosed quote"
        remedy = "is the file cut short? close the quote, or set format.quote: ''"
        end = SourceError(problem, f"{path}:{line + 1}", remedy)
    if ragged is not None:
        found.add("", _ragged(path, *ragged, names, is_last=end is None and has_end))
    if end is not None:
        found.add("", end)
    return found.as_error(path, has_end=has_end)


class _Found:
    """Faults in the order of the lines, a few of each column."""

    def __init__(self, known: Known | None) -> None:
        self._known = known
        self._reported: list[errors.SourceError] = []
        self._counts: dict[str, int] = {}
        self._remedies: set[tuple[str, str]] = set()
        """Remedies that were already reported, by column."""
        self._n_records = 0

    def add(self, column: str, error: errors.SourceError) -> None:
        """Add a fault of a column, or of a whole line if the name is ""."""
        self._counts[column] = self._counts.get(column, 0) + 1
        if self._counts[column] <= MOST_ALIKE and len(self._reported) < MOST_REPORTED:
            remedy = column, _READING.sub("", error.remedy)
            self._reported.append(SourceError(error.problem, error.where) if remedy in self._remedies else error)
            self._remedies.add(remedy)

    def looked_enough(self) -> bool:
        """Return whether enough records were checked; to be called after each record."""
        self._n_records += bool(self._reported)
        return len(self._reported) >= MOST_REPORTED or self._n_records >= _LOOKED_AT

    def as_error(self, path: Path, *, has_end: bool) -> errors.SourceError | None:
        """Return one error with all faults, including the one known beforehand; `has_end`: the file's end was seen."""
        reported = self._reported
        if self._known is not None and self._known.error not in reported:
            reported = [self._known.error, *reported]
        if len(reported) < 2:
            return reported[0] if reported else None
        more = {column: count - MOST_ALIKE for column, count in self._counts.items() if count > MOST_ALIKE}
        lines = [str(one) for one in reported]
        if more:
            of = [f"{count:,} in " + (f"column '{name}'" if name else "whole lines") for name, count in more.items()]
            lines.append(f"{path}: and more like these: {', '.join(of)}")
        if self.looked_enough() or not has_end:
            lines.append(f"{path}: the rest of the file was not checked")
        return SourceError("\n".join(lines))


class _Check:
    """Checks single values of a column, as text."""

    def __init__(self, column: ColumnSchema, layout: TableFormat) -> None:
        self._column, self._layout, self._missing = column, column.layout_in(layout), {*layout.missing}
        self._is_text_of_number = is_text_of_number(column, layout)
        self._is_used = column.role in ("feature", "target", "weight")
        is_text = column.of_levels or column.role in ("id", "split")
        is_number = column.dtype in ("number", "integer", "percent", "currency") and not is_text
        is_date = column.dtype in DATE_FORMATS and self._is_used and not is_text
        self._encoder: type[Encoder] = NumberEncoder if is_number else DateEncoder if is_date else CategoryEncoder
        self._known: dict[str, tuple[str, str] | None] = {}  # texts that were checked

    def fault_of(self, text: str, is_dropped: bool) -> tuple[str, str] | None:
        """Return problem and remedy, or None; for a dropped row, only numbers that cannot be parsed are faults."""
        column = self._column
        if text in self._missing:
            if is_dropped or not self._is_used or column.missing != "error":
                return None
            return self._encoder.missing_value(is_feature=column.role == "feature")
        if self._encoder is NumberEncoder:
            return self._fault_of_number(text, is_dropped)
        if is_dropped:
            return None
        if text not in self._known:
            self._known[text] = self._encoder.fault_of(text, column)
        return self._known[text]

    def _fault_of_number(self, text: str, is_dropped: bool) -> tuple[str, str] | None:
        plain = text.strip()
        if self._is_text_of_number:
            plain = without_signs(pa.array([plain]), self._layout, self._column.dtype)[0].as_py()
        readings = self._layout.readings(plain)
        if "" not in readings and not _is_number(plain, self._layout):
            return f"expected a number, found {shown(text)}", _unreadable(self._layout.readings(text))
        if is_dropped:
            return None
        decimal = self._layout.decimal
        number = readings[""] if "" in readings else float(plain.replace(decimal, "."))
        return NumberEncoder.fault_of(number, self._column)


def locate(
    path: Path, layout: TableFormat, names: Sequence[str], row: int, column: str, part: TextPart | None = None
) -> str:
    """Return "file:line, column 'name', value ..." of a record, numbered from the header or the begin of the part."""
    n_before = 0 if part is None else count_lines(path, part.start)
    with closing(_records(path, layout, part, n_before)) as records:
        for line, record in islice(records, row, row + 1):
            return f"{path}:{line}, column '{column}', value {shown(record[names.index(column)])}"
    return f"{path}, row {row}, column '{column}'"


def _records(
    path: Path, layout: TableFormat, part: TextPart | None, n_before: int
) -> Generator[tuple[int, list[str]], None, None]:
    """Yield the records after the header, or of a part, each with the number of its first line."""
    with open_bytes(path) if part is None else io.BufferedReader(PartOfFile(part)) as stream:
        reader = csv.reader(_lines(stream, layout, n_before), **reader_options(layout))  # type: ignore[arg-type]
        before, skip = 0, layout.header and part is None
        for record in reader:
            line, before = before + 1, reader.line_num
            if not record:
                continue
            if skip:
                skip = False
                continue
            yield n_before + line, record


class _UndecodableError(Exception):
    def __init__(self, line: int, found: bytes) -> None:
        super().__init__(line, found)
        self.line, self.found = line, found


def _lines(stream: BinaryIO, layout: TableFormat, n_before: int) -> Iterator[str]:
    encoding = "utf-8-sig" if layout.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else layout.encoding
    with io.TextIOWrapper(stream, encoding, errors="surrogateescape", newline="") as text:
        for number, line in enumerate(text, n_before + 1):
            if bad := _UNDECODABLE.search(line):
                raise _UndecodableError(number, bad.group().encode("utf-8", "surrogateescape"))
            yield "\n" if layout.comment and line.startswith(layout.comment) else line


def _ragged(path: Path, line: int, record: list[str], names: Sequence[str], is_last: bool) -> errors.SourceError:
    remedy = "check the delimiter and the quotes of this line"
    if len(record) < len(names) and is_last:
        remedy = "it is the last line: the file seems cut short; copy or download it again"
    problem = f"expected {len(names)} values, as many as columns, found {len(record)}: {shown(','.join(record))}"
    return SourceError(problem, f"{path}:{line}", remedy)


def _unreadable(readings: Mapping[str, float]) -> str:
    """Return the remedy for a text that cannot be parsed as a number."""
    if not readings:
        return "fix the value, add it to format.missing, or set the column's dtype"
    meant = " or ".join(f"{settings} (it is then {number:.15g})" for settings, number in readings.items())
    return f"set the intended format in the table schema, or (without format.) in the source: {meant}"


def _is_number(text: str, layout: TableFormat) -> bool:
    return _NUMBER.fullmatch(text.replace(".", "x").replace(",", ".") if layout.decimal == "," else text) is not None
