"""Text that Arrow parses while it reads ahead in a thread of its own.

Arrow goes on for a while after its reader was closed. A thread that comes back to Python while the interpreter ends
aborts the process ("terminate called without an active exception") or has it wait for ever: ``daskfs plan``, which
looks at the first rows, ended so once in fifteen times. It comes back to read, to let go of the stream, and, last of
all, to let go of each text that it has read. So whoever stops early waits until it holds nothing any more.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

LET_GO_S = 1.0
"""How long Arrow is waited for at most: the end of the stream has it stop by itself, unless it hangs in a pipe."""


class _Held:
    """Counts what Arrow alone refers to."""

    def __init__(self) -> None:
        self._n, self._changed = 0, threading.Condition()

    def lend(self, one: Any) -> Any:
        """Return an object, which counts until nobody refers to it."""
        with self._changed:
            self._n += 1
        weakref.finalize(one, self._give_back).atexit = False
        return one

    def _give_back(self) -> None:
        with self._changed:
            self._n -= 1
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until there is nothing of it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._n, LET_GO_S)


class _Door:
    """What Arrow reads from: a stream, which is at its end for good once it was ended."""

    closed = False

    def __init__(self, stream: BinaryIO, ended: threading.Event, held: _Held) -> None:
        self._stream, self._ended, self._held = stream, ended, held

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the stream open: it is another's."""

    def read(self, n: int = -1) -> Any:
        text = b"" if self._ended.is_set() else self._stream.read(n)
        return self._held.lend(np.frombuffer(text, np.uint8))  # of bytes nobody can tell when they go


def parsed(
    stream: BinaryIO,
    read: arrow_csv.ReadOptions,
    parse: arrow_csv.ParseOptions,
    convert: arrow_csv.ConvertOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a text; once this has ended, or was closed, Arrow holds nothing of it and reads no more."""
    ended, held = threading.Event(), _Held()
    door: Any = held.lend(_Door(stream, ended, held))
    reader: Any = None
    try:
        reader = arrow_csv.open_csv(pa.PythonFile(door, "r"), read, parse, convert)
        yield from reader
    finally:
        ended.set()
        door = reader = None
        held.wait()
