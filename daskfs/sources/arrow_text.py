"""Text that Arrow parses while it reads ahead in a thread of its own.

Arrow goes on for a while after its reader was closed. A thread that comes back to Python while the interpreter ends
aborts the process ("terminate called without an active exception") or has it wait for ever: ``daskfs plan``, which
looks at the first rows, ended so once in twenty times. So whoever stops early waits until Arrow lets go of the stream.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import csv as arrow_csv

LET_GO_S = 1.0
"""How long Arrow is waited for at most: the end of the stream has it stop by itself, unless it hangs in a pipe."""


class _Door:
    """What Arrow alone refers to: a stream, which is at its end for good once it was ended."""

    closed = False

    def __init__(self, stream: BinaryIO, ended: threading.Event) -> None:
        self._stream, self._ended = stream, ended

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the stream open: it is another's."""

    def read(self, n: int = -1) -> bytes:
        return b"" if self._ended.is_set() else self._stream.read(n)


def parsed(
    stream: BinaryIO,
    read: arrow_csv.ReadOptions,
    parse: arrow_csv.ParseOptions,
    convert: arrow_csv.ConvertOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a text; once this has ended, or was closed, nobody reads from the stream any more."""
    ended, let_go = threading.Event(), threading.Event()
    door: Any = _Door(stream, ended)
    weakref.finalize(door, let_go.set).atexit = False
    reader: Any = None
    try:
        reader = arrow_csv.open_csv(pa.PythonFile(door, "r"), read, parse, convert)
        yield from reader
        let_go.set()  # all of it was read
    finally:
        ended.set()
        door = reader = None
        let_go.wait(LET_GO_S)
