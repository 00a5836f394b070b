"""The text of a CSV file as UTF-8 bytes: decompressed, without byte-order mark and comments, checked at the end, and
parsed by Arrow.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from daskfs import errors
from daskfs.sources.byte_streams import CUT_SHORT, cut_short, open_bytes
from daskfs.sources.table_schema import TableFormat

SourceError = errors.SourceError.about("text-tables")

PIECE_NBYTES = 2**20
LONGEST_HEADER_NBYTES = 64 * 2**20
LET_GO_S = 1.0
"""Longest wait for Arrow. It stops by itself at the end of the stream, unless a pipe blocks it."""
_LOOK_S = 0.001
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class Utf8Text(io.RawIOBase):
    """A stream of UTF-8 bytes over a binary stream in any encoding.

    Attributes
    ----------
    open_quote : bool
        True after an odd number of quotes: at the end of the file, a quoted value is not closed.
    last_byte : bytes
        The last byte read.
    """

    def __init__(self, stream: BinaryIO, path: Path, layout: TableFormat) -> None:
        self._stream, self._path = stream, path
        self._quote = layout.quote.encode()
        is_utf8 = codecs.lookup(layout.encoding).name in ("utf-8", "ascii", "utf-8-sig")
        self._decoder = None if is_utf8 else codecs.getincrementaldecoder(layout.encoding)()
        comment = re.escape(layout.comment.encode())
        self._comment = re.compile(rb"(?m)^" + comment + rb"[^\n]*(\n|\Z)") if comment else None
        self._ready, self._rest = b"", b""
        self._at_start, self._ended = True, False
        self.open_quote, self.last_byte = False, b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        """Fill the buffer; 0 at the end."""
        while not self._ready and not self._ended:
            self._ready = self._next_piece()
        n = min(len(buffer), len(self._ready))
        buffer[:n], self._ready = self._ready[:n], self._ready[n:]
        return n

    def _next_piece(self) -> bytes:
        try:
            piece = self._stream.read(PIECE_NBYTES)
        except CUT_SHORT as fault:
            raise cut_short(self._path, fault) from None
        self._ended = not piece
        if self._at_start:
            piece = self._without_mark(piece)
            self._at_start = False
        if self._decoder is not None:
            try:
                piece = self._decoder.decode(piece, final=self._ended).encode()
            except UnicodeDecodeError as fault:
                raise SourceError(
                    f"expected {fault.encoding} text, found bytes that are not ({fault.reason})",
                    str(self._path),
                    "set format.encoding to the file's encoding",
                ) from None
        if self._comment is not None:
            piece = self._without_comments(piece)
        if self._quote and self._quote in piece:  # a search is faster than counting
            self.open_quote ^= piece.count(self._quote) % 2 == 1
        self.last_byte = piece[-1:] or self.last_byte
        return piece

    def _without_mark(self, piece: bytes) -> bytes:
        for mark, name in _MARKS.items():
            if piece.startswith(mark) and self._decoder is None:
                raise SourceError(
                    f"expected UTF-8 text, found {name} (byte-order mark)",
                    f"{self._path}:1",
                    f"set format.encoding: {name} in the table schema, or save the file as UTF-8",
                )
        return piece.removeprefix(codecs.BOM_UTF8)

    def _without_comments(self, piece: bytes) -> bytes:
        """Remove comment lines; an incomplete line is kept for the next piece."""
        piece = self._rest + piece
        whole = len(piece) if self._ended else piece.rfind(b"\n") + 1
        self._rest = piece[whole:]
        return self._comment.sub(b"", piece[:whole]) if self._comment else piece


@contextmanager
def open_text(path: Path, layout: TableFormat) -> Iterator[tuple[io.BufferedReader, Utf8Text]]:
    """Open a text file for buffered reading; also yield the underlying stream, which knows how the file ended."""
    with open_bytes(path) as stream:
        text = Utf8Text(stream, path, layout)
        yield io.BufferedReader(text, PIECE_NBYTES), text


def read_header(stream: io.BufferedReader, path: Path, layout: TableFormat) -> tuple[list[str], int]:
    """Read the first record, which has the names, and leave the stream after it.

    Returns
    -------
    names : list of str
    n_bytes : int
        Length of the record.

    Raises
    ------
    SourceError
        There is no text, it is not UTF-8, or there are no names.
    """
    lines: list[bytes] = []

    def numbered() -> Iterator[str]:
        while line := stream.readline(LONGEST_HEADER_NBYTES):
            lines.append(line)
            if b"\0" in line:
                raise SourceError(
                    "expected text, found zero bytes", f"{path}:{len(lines)}", "check that it is a CSV file"
                )
            try:
                yield line.decode()
            except UnicodeDecodeError as fault:
                raise not_utf8(path, len(lines), line[fault.start : fault.start + 1]) from None

    options = reader_options(layout)
    try:
        names = next((row for row in csv.reader(numbered(), **options) if row), None)  # type: ignore[arg-type]
    except csv.Error as fault:
        raise SourceError(
            f"the header cannot be read ({fault})",
            f"{path}:{len(lines)}",
            "check line ends, quotes and format.delimiter",
        ) from None
    if names is None:
        raise SourceError("expected a header and rows, found only blank lines", str(path), "check how it was made")
    if layout.skip_initial_space:
        names = [name.strip() for name in names]
    return names, sum(len(line) for line in lines)


def reader_options(layout: TableFormat) -> dict[str, object]:
    """Return the arguments of csv.reader for a layout."""
    quoting = csv.QUOTE_MINIMAL if layout.quote else csv.QUOTE_NONE
    return {
        "delimiter": layout.delimiter,
        "quotechar": layout.quote or None,
        "quoting": quoting,
        "skipinitialspace": layout.skip_initial_space,
        "strict": bool(layout.quote),
    }


def not_utf8(path: Path, line: int, found: bytes) -> errors.SourceError:
    """Return the error for a byte that is not UTF-8."""
    return SourceError(
        f"expected UTF-8 text, found byte 0x{found.hex()}",
        f"{path}:{line}",
        "set format.encoding (for example latin-1) in the table schema, or save the file as UTF-8",
    )


class _Door:
    """The stream that Arrow reads from; it is at its end as soon as reading is cancelled."""

    closed = False

    def __init__(self, stream: BinaryIO, lent: set[object]) -> None:
        self._stream, self._lent, self.is_over = stream, lent, False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the stream open: its owner closes it."""

    def read(self, n: int = -1) -> Any:
        text = b"" if self.is_over else self._stream.read(n)
        return _lend(np.frombuffer(text, np.uint8), self._lent)  # bytes allow no weak references


def _lend(one: Any, lent: set[object]) -> Any:
    """Return an object after registering it until it is garbage-collected."""
    mark = object()
    lent.add(mark)
    weakref.finalize(one, lent.discard, mark).atexit = False
    return one


def parsed(
    stream: BinaryIO,
    read: arrow_csv.ReadOptions,
    parse: arrow_csv.ParseOptions,
    convert: arrow_csv.ConvertOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a text, which Arrow parses while it reads ahead in its own thread.

    Once the generator ends or is closed, Arrow holds no references and reads no more: whoever stops early waits until
    Arrow has released everything. Its thread goes on for a while after its reader was closed, and if it calls Python
    while the interpreter shuts down, it aborts the process ("terminate called without an active exception") or hangs:
    ``daskfs plan``, which reads only the first rows, failed so once in fifteen times. The thread calls Python to read,
    to release the stream and, last of all, to release each buffer that it has read.
    """
    lent = set[object]()  # what only Arrow refers to; without a lock, since an interrupt could leave one locked
    door: Any = _lend(_Door(stream, lent), lent)
    reader: Any = None
    try:
        reader = arrow_csv.open_csv(pa.PythonFile(door, "r"), read, parse, convert)
        yield from reader
    finally:
        door.is_over = True
        door = reader = None
        ends = time.monotonic() + LET_GO_S
        while lent and time.monotonic() < ends:
            time.sleep(_LOOK_S)
