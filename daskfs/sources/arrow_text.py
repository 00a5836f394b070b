"""Text that Arrow parses while it reads ahead in its own thread.

Arrow's thread goes on for a while after its reader was closed. If it calls Python while the interpreter shuts down, it
aborts the process ("terminate called without an active exception") or hangs: ``daskfs plan``, which reads only the
first rows, failed so once in fifteen times. The thread calls Python to read, to release the stream and, last of all, to
release each buffer that it has read. So whoever stops early waits until Arrow has released everything.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

LET_GO_S = 1.0
"""Longest wait for Arrow. It stops by itself at the end of the stream, unless a pipe blocks it."""
_LOOK_S = 0.001


class _Held:
    """Tracks the objects that only Arrow refers to. It has no lock, since an interrupt could leave one locked."""

    def __init__(self) -> None:
        self._lent: set[object] = set()
        self.is_over = False
        """Whether reading has been cancelled."""

    def lend(self, one: Any) -> Any:
        """Return an object after registering it until it is garbage-collected."""
        mark = object()
        self._lent.add(mark)
        weakref.finalize(one, self._lent.discard, mark).atexit = False
        return one

    def wait(self) -> None:
        """Wait until all registered objects are gone, at most `LET_GO_S` seconds."""
        ends = time.monotonic() + LET_GO_S
        while self._lent and time.monotonic() < ends:
            time.sleep(_LOOK_S)


class _Door:
    """The stream that Arrow reads from; it is at its end as soon as reading is cancelled."""

    closed = False

    def __init__(self, stream: BinaryIO, held: _Held) -> None:
        self._stream, self._held = stream, held

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the stream open: its owner closes it."""

    def read(self, n: int = -1) -> Any:
        text = b"" if self._held.is_over else self._stream.read(n)
        return self._held.lend(np.frombuffer(text, np.uint8))  # bytes allow no weak references


def parsed(
    stream: BinaryIO,
    read: arrow_csv.ReadOptions,
    parse: arrow_csv.ParseOptions,
    convert: arrow_csv.ConvertOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a text; once the generator ends or is closed, Arrow holds no references and reads no more."""
    held = _Held()
    door: Any = held.lend(_Door(stream, held))
    reader: Any = None
    try:
        reader = arrow_csv.open_csv(pa.PythonFile(door, "r"), read, parse, convert)
        yield from reader
    finally:
        held.is_over = True
        door = reader = None
        held.wait()
