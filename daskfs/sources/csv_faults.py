"""Where a CSV file is wrong: a second, slow pass with Python's csv module, made only after the fast one has failed."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from daskfs.errors import SourceError
from daskfs.sources.files import open_bytes
from daskfs.sources.table_schema import ColumnSchema, TableFormat
from daskfs.sources.text import not_utf8, reader_options

_UNDECODABLE = re.compile("[\udc80-\udcff]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII)
_LONGEST_SHOWN = 60


def find_fault(
    path: Path, layout: TableFormat, names: Sequence[str], columns: Mapping[str, ColumnSchema], n_good: int
) -> SourceError | None:
    """Return the error for the first record that is wrong, or None where nothing is.

    Parameters
    ----------
    path : Path
    layout : TableFormat
    names : sequence of str
        Names of the columns, in the file's order.
    columns : mapping of str to ColumnSchema
        Those in use.
    n_good : int
        Records that have been read already; their values are not looked at again.
    """
    numeric = [
        (k, name)
        for k, name in enumerate(names)
        if name in columns
        and columns[name].dtype in ("number", "integer", "percent")
        and not columns[name].of_levels
        and columns[name].role not in ("id", "split")
    ]
    missing = set(layout.missing)
    line = 0
    try:
        with closing(_records(path, layout)) as records:
            for row, (line, record) in enumerate(records):
                if len(record) != len(names):
                    return _ragged(path, line, record, names, is_last=next(records, None) is None)
                if row < n_good:
                    continue
                for k, name in numeric:
                    text = record[k].strip() if layout.skip_initial_space else record[k]
                    number = record[k].strip()
                    if columns[name].dtype == "percent":
                        number = number.removesuffix("%").rstrip()
                    if text not in missing and not _is_number(number, layout):
                        return _unreadable(path, line, name, record[k], layout)
    except _UndecodableError as fault:
        return not_utf8(path, fault.line, fault.found)
    except csv.Error as fault:
        problem = f"a quoted value is not closed or not followed by {layout.delimiter!r}"
        if "field larger" in str(fault):
            problem = f"a value is longer than {csv.field_size_limit():,} characters, as behind a quote left open"
        remedy = "is the file cut short? close the quote, or set format.quote: ''"
        return SourceError(problem, f"{path}:{line + 1}", remedy)
    return None


def locate(path: Path, layout: TableFormat, names: Sequence[str], row: int, column: str) -> str:
    """Return "file:line, column 'name' (value)" of the record with this number behind the header."""
    with closing(_records(path, layout)) as records:
        for line, record in islice(records, row, row + 1):
            return f"{path}:{line}, column '{column}', value {_shown(record[names.index(column)])}"
    return f"{path}, row {row}, column '{column}'"


def _records(path: Path, layout: TableFormat) -> Generator[tuple[int, list[str]], None, None]:
    """Yield the records behind the header, each with the number of its first line."""
    with open_bytes(path) as stream:
        reader = csv.reader(_lines(stream, layout), **reader_options(layout))  # type: ignore[arg-type]
        before, skip = 0, layout.header
        for record in reader:
            line, before = before + 1, reader.line_num
            if not record:
                continue
            if skip:
                skip = False
                continue
            yield line, record


class _UndecodableError(Exception):
    def __init__(self, line: int, found: bytes) -> None:
        super().__init__(line, found)
        self.line, self.found = line, found


def _lines(stream: BinaryIO, layout: TableFormat) -> Iterator[str]:
    encoding = "utf-8-sig" if layout.encoding.lower().replace("_", "-") in ("utf-8", "utf8") else layout.encoding
    with io.TextIOWrapper(stream, encoding, errors="surrogateescape", newline="") as text:
        for number, line in enumerate(text, 1):
            if bad := _UNDECODABLE.search(line):
                raise _UndecodableError(number, bad.group().encode("utf-8", "surrogateescape"))
            yield "\n" if layout.comment and line.startswith(layout.comment) else line


def _ragged(path: Path, line: int, record: list[str], names: Sequence[str], is_last: bool) -> SourceError:
    remedy = "check the delimiter and the quotes of this line"
    if len(record) < len(names) and is_last:
        remedy = "it is the last line: the file seems cut short; copy or download it again"
    shown = _shown(",".join(record))
    return SourceError(
        f"expected {len(names)} values as in the header, found {len(record)}: {shown}", f"{path}:{line}", remedy
    )


def _unreadable(path: Path, line: int, name: str, text: str, layout: TableFormat) -> SourceError:
    remedy, readings = "fix the value, add it to format.missing, or set the column's dtype", layout.readings(text)
    if readings:
        meant = " or ".join(f"{settings} (it is then {number:.15g})" for settings, number in readings.items())
        remedy = f"set what is meant, in the table schema or (without format.) in the source: {meant}"
    return SourceError(f"expected a number, found {_shown(text)}", f"{path}:{line}, column '{name}'", remedy)


def _is_number(text: str, layout: TableFormat) -> bool:
    if "" in layout.readings(text):  # nothing needs to be set
        return True
    return _NUMBER.fullmatch(text.replace(".", "x").replace(",", ".") if layout.decimal == "," else text) is not None


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "...")
