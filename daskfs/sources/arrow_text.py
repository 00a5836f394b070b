"""Text that Arrow parses while it reads ahead in a thread of its own.

Arrow goes on for a while after its reader was closed. A thread that comes back to Python while the interpreter ends
aborts the process ("terminate called without an active exception") or has it wait for ever: ``daskfs plan``, which
looks at the first rows, ended so once in fifteen times. It comes back to read, to let go of the stream, and, last of
all, to let go of each text that it has read. So whoever stops early waits until it holds nothing any more.
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
"""How long Arrow is waited for at most: the end of the stream has it stop by itself, unless it hangs in a pipe."""
_LOOK_S = 0.001


class _Held:
    """Knows what Arrow alone refers to; without a lock, which an interrupt might leave taken."""

    def __init__(self) -> None:
        self._lent: set[object] = set()
        self.is_over = False
        """Whether nobody wants more."""

    def lend(self, one: Any) -> Any:
        """Return an object, which is known until nobody refers to it."""
        mark = object()
        self._lent.add(mark)
        weakref.finalize(one, self._lent.discard, mark).atexit = False
        return one

    def wait(self) -> None:
        """Wait until there is nothing of it."""
        ends = time.monotonic() + LET_GO_S
        while self._lent and time.monotonic() < ends:
            time.sleep(_LOOK_S)


class _Door:
    """What Arrow reads from: a stream, which is at its end for good once it was ended."""

    closed = False

    def __init__(self, stream: BinaryIO, held: _Held) -> None:
        self._stream, self._held = stream, held

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the stream open: it is another's."""

    def read(self, n: int = -1) -> Any:
        text = b"" if self._held.is_over else self._stream.read(n)
        return self._held.lend(np.frombuffer(text, np.uint8))  # of bytes nobody can tell when they go


def parsed(
    stream: BinaryIO,
    read: arrow_csv.ReadOptions,
    parse: arrow_csv.ParseOptions,
    convert: arrow_csv.ConvertOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a text; once this has ended, or was closed, Arrow holds nothing of it and reads no more."""
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
