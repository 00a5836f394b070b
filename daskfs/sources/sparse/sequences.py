"""FASTA and FASTQ: records of a header and a sequence, read in pieces; and the sources of labels."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from daskfs import errors
from daskfs.kernels.text import fastq, kmers
from daskfs.sources.byte_streams import open_bytes
from daskfs.sources.files import COMPRESSED, changed, expand_paths, stamp

ConfigError = errors.ConfigError.about("sequences")
SourceError = errors.SourceError.about("sequences")

PIECE_NBYTES = 2**20
LONGEST_SHOWN = 60
ENDINGS = (".fa", ".fasta", ".fna", ".fq", ".fastq")
LabelFrom: TypeAlias = Literal["header", "file", "folder", "table"]
LABEL_IN_HEADER = r"label=(\S+)"


def _code_table() -> np.ndarray:
    """Return the code of each character: case is ignored, U is read as T; -, * and . are unknown letters."""
    table = np.full(256, kmers.FAULT, np.uint8)
    table[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-*.", np.uint8)] = kmers.UNKNOWN
    table[np.frombuffer(b" \t\r\n\v\f", np.uint8)] = kmers.BLANK
    for code, letters in enumerate((b"Aa", b"Cc", b"Gg", b"TtUu")):
        table[np.frombuffer(letters, np.uint8)] = code
    return table


CODES = _code_table()


class Records(NamedTuple):
    """Some records of a file."""

    headers: list[str]
    codes: np.ndarray
    """uint8: letters of the sequences, concatenated."""
    offsets: np.ndarray
    """int64, of length n_records + 1."""
    line_numbers: np.ndarray
    """int64: line number of each header."""


def read_records(file: Path) -> Iterator[Records]:
    """Yield the records of a FASTA or FASTQ file; memory holds at least one record.

    Raises
    ------
    SourceError
        The file has another format (with line), or changed while it was read.
    """
    before, n_lines, text, is_fastq = stamp(file), 0, b"", None
    with open_bytes(file) as stream:
        while True:
            piece = stream.read(max(PIECE_NBYTES, len(text)))
            text += piece
            if is_fastq is None:
                n_blank = len(text) - len(text.lstrip(b" \t\r\n"))
                n_lines, text = n_lines + text.count(b"\n", 0, n_blank), text[n_blank:]
                if text:
                    if text[:1] not in (b">", b"@"):
                        problem = f"expected a header that begins with > (FASTA) or @ (FASTQ), found {_shown(text)}"
                        raise SourceError(problem, f"{file}:{n_lines + 1}", "check how the file was made")
                    is_fastq = text[:1] == b"@"
            while text:
                find = _find_fastq if is_fastq else _find_fasta
                places, stop = find(text, file, n_lines, is_last=not piece)
                if len(places):
                    yield _records_of(text, places, file, n_lines)
                if not stop:
                    break
                n_lines += text.count(b"\n", 0, stop)
                text = text[stop:]
            if not piece:
                break
    if stamp(file) != before:
        raise changed(file)


def _find_fasta(text: bytes, file: Path, n_lines: int, *, is_last: bool) -> tuple[np.ndarray, int]:
    """Return header start and end, sequence start and end of each complete record, and where the rest begins."""
    array = np.frombuffer(text, np.uint8)
    signs = np.flatnonzero(array == ord(">"))
    begins = signs[(signs == 0) | (array[signs - 1] == ord("\n"))]
    stops = np.append(begins[1:], len(text))
    if not is_last:
        begins, stops = begins[:-1], stops[:-1]
    if not len(begins):
        return np.empty((0, 4), np.int64), 0
    feeds = np.append(np.flatnonzero(array == ord("\n")), len(text))
    ends = np.minimum(feeds[np.searchsorted(feeds, begins)], stops)
    return np.stack([begins, ends, ends, stops], axis=1), int(stops[-1])


def _find_fastq(text: bytes, file: Path, n_lines: int, *, is_last: bool) -> tuple[np.ndarray, int]:
    """Return the same for FASTQ."""
    array = np.frombuffer(text, np.uint8)
    places = np.empty((text.count(b"\n") // 2 + 2, 4), np.int64)
    n_records, stop, fault, place, n_letters, n_qualities = fastq.find_records(array, is_last, places)
    if fault and not n_records:  # otherwise complete records are returned first
        remedy = "the file may be damaged or cut off; copy it again"
        problem = {
            fastq.NO_HEADER: f"expected a line that begins with @, found {_shown(text[place : place + 99])}",
            fastq.CUT: "expected letters, a line that begins with + and qualities, found the end of the file",
            fastq.OTHER_LENGTH: f"expected as many qualities as letters, {n_letters}, found {n_qualities}",
        }[fault]
        line = n_lines + text.count(b"\n", 0, place) + 1
        raise SourceError(problem, f"{file}:{line}", remedy)
    return places[:n_records], stop


def _records_of(text: bytes, places: np.ndarray, file: Path, n_lines: int) -> Records:
    array = np.frombuffer(text, np.uint8)
    starts, stops = np.ascontiguousarray(places[:, 2]), np.ascontiguousarray(places[:, 3])
    codes, offsets = np.empty(int((stops - starts).sum()), np.uint8), np.empty(len(places) + 1, np.int64)
    fault = kmers.to_codes(array, starts, stops, CODES, codes, offsets)
    if fault >= 0:
        line = n_lines + text.count(b"\n", 0, fault) + 1
        character = fault - text.rfind(b"\n", 0, fault)
        problem = f"expected sequence letters, found {_shown(text[fault : fault + 1])}"
        raise SourceError(problem, f"{file}:{line}, character {character}", "fix or remove the record")
    feeds = np.flatnonzero(array == ord("\n"))
    headers = [text[begin + 1 : end].decode("utf-8", "replace").strip() for begin, end in places[:, :2].tolist()]
    return Records(headers, codes[: offsets[-1]], offsets, n_lines + np.searchsorted(feeds, places[:, 0]) + 1)


def _shown(text: bytes) -> str:
    return repr(text.split(b"\n", 1)[0][:LONGEST_SHOWN].decode("utf-8", "backslashreplace"))


def name_without_endings(file: Path) -> str:
    """Return the file's name without the endings of compression and format."""
    name = Path(file.stem if file.suffix in COMPRESSED else file.name)
    return name.stem if name.suffix in ENDINGS else name.name


class Labels:
    r"""Source of the label of a sequence.

    Parameters
    ----------
    label_from : {"header", "file", "folder", "table"}
    pattern : str, optional
        Regular expression whose first group is the label, applied to the header or the name of file or folder; by
        default ``label=(\S+)`` for headers, otherwise the whole name.
    table : path-like, optional
        Lines with a record's id (the first word of its header) and its label, separated by a tab or a comma.

    Raises
    ------
    ConfigError
        Options that cannot be combined.
    """

    def __init__(self, label_from: LabelFrom, pattern: str | None = None, table: Any = None) -> None:
        if label_from not in ("header", "file", "folder", "table"):
            raise ConfigError(f"found {label_from!r}", "source.label_from", "one of header, file, folder, table")
        if (table is not None) != (label_from == "table"):
            raise ConfigError("label_table needs label_from: table, and the reverse", "source.label_table", "set both")
        if pattern is None:
            pattern = LABEL_IN_HEADER if label_from == "header" else "(.*)"
        try:
            self._pattern = re.compile(pattern)
        except re.error as fault:
            raise ConfigError(f"expected a regular expression: {fault}", "source.label_pattern", "fix it") from None
        if self._pattern.groups < 1:
            problem = f"expected a regular expression with a group, found {pattern!r}"
            raise ConfigError(problem, "source.label_pattern", r"for example 'label=(\S+)'")
        self.label_from, self.pattern = label_from, pattern
        self.table = None if table is None else _table_of(expand_paths(table)[0])

    def of_file(self, file: Path) -> str | None:
        """Return the label of all sequences in a file, from the name of the file or its folder."""
        name = name_without_endings(file) if self.label_from == "file" else file.absolute().parent.name
        return self._within(name)

    def of_header(self, header: str) -> str | None:
        """Return the label of a sequence from its header; None if there is none."""
        if self.table is None:
            return self._within(header)
        words = header.split(None, 1)
        return self.table.get(words[0]) if words else None

    def _within(self, text: str) -> str | None:
        found = self._pattern.search(text)
        return (found.group(1) or None) if found else None


def _table_of(path: Path) -> dict[str, str]:
    with open_bytes(path) as stream:
        lines = stream.read().decode("utf-8-sig", "replace").splitlines()
    delimiter = "\t" if lines and "\t" in lines[0] else ","
    table: dict[str, str] = {}
    for number, row in enumerate(csv.reader(lines, delimiter=delimiter), 1):
        if not row:
            continue
        if len(row) < 2:
            problem = f"expected an id and a label, found {row[0]!r}"
            raise SourceError(problem, f"{path}:{number}", "separate them with a tab or a comma")
        if table.setdefault(row[0].strip(), row[1].strip()) != row[1].strip():
            raise SourceError(f"two labels for {row[0]!r}", f"{path}:{number}", "keep one of them")
    return table


def expand_sequences(path: Any) -> Sequence[Path]:
    """Return the sequence files given by a path, list, pattern or folder."""
    return expand_paths(path, tuple(ending + packed for ending in ENDINGS for packed in ("", *COMPRESSED)))
