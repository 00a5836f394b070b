"""Text with one row per line: parsed in pieces into blocks; errors give line and character."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from daskfs import errors
from daskfs.errors import DaskfsError
from daskfs.kernels.text.lines import FULL, LINE_FEED, SHORT, Bounds, behind_last_line
from daskfs.kernels.text.words import MARGIN
from daskfs.sources.sparse.base import SparseBlock

SourceError = errors.SourceError.about("sparse-rows")

PIECE_NBYTES = 2**20
LONGEST_LINE_NBYTES = 2**30
FIRST_ROWS, FIRST_ENTRIES = 2**10, 2**15
"""Capacity of the buffers of the first block, which grow."""
_LONGEST_SHOWN = 60

RoomT = TypeVar("RoomT", bound=tuple[np.ndarray, ...])


class Reading(NamedTuple):
    """Result of a format's kernel."""

    position: int
    """Position after the last line that was read."""
    n_lines: int
    counts: tuple[int, ...]
    """Size of the block: number of rows, and what else the format counts."""
    why: int
    """A code of `daskfs.kernels.text.lines`, or of a fault."""
    place: int
    """Position of the fault; if a buffer is full, which one."""
    n_dropped: int = 0
    """Number of dropped rows."""


class LineFormat(ABC, Generic[RoomT]):
    """How lines become rows: a kernel, and the buffers of a block that it fills, its `room` (a NamedTuple)."""

    nothing: tuple[int, ...] = (0, 0)
    """The counts of an empty block."""
    grows_with: tuple[int, ...]
    """For each array of the buffers, the quantity whose shortage makes it grow."""

    @abstractmethod
    def room(self, n_rows: int, n_entries: int) -> RoomT:
        """Return buffers for `n_rows` rows and `n_entries` entries."""

    @abstractmethod
    def read(
        self, text: np.ndarray, start: int, stop: int, bounds: Bounds, room: RoomT, counts: tuple[int, ...]
    ) -> Reading:
        """Parse the lines of a piece of text into the buffers, until they are full."""

    @abstractmethod
    def block(self, start: int, room: RoomT, counts: tuple[int, ...]) -> SparseBlock:
        """Return the content of the buffers, which must not be written to afterwards."""

    @abstractmethod
    def fault(self, why: int, found: str, where: str) -> DaskfsError:
        """Return the error for a fault at a word, which may be empty at the end of a line."""

    def emptied(self, room: RoomT) -> RoomT:
        """Return new buffers of the same size."""
        return type(room)(*(np.empty_like(array) for array in room))

    def grown(self, room: RoomT, counts: tuple[int, ...], short: int) -> RoomT:
        """Return a copy of the buffers in which the arrays that were too small are twice as long."""
        arrays = zip(room, self.grows_with, strict=True)
        return type(room)(*(doubled(array) if what == short else array for array, what in arrays))


def doubled(array: np.ndarray) -> np.ndarray:
    """Return an array twice as long that begins with the elements of this one."""
    longer = np.empty(2 * len(array), array.dtype)
    longer[: len(array)] = array
    return longer


def texts_of(text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return concatenated UTF-8 texts as an array of str."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(text))]
    texts = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    return np.asarray(texts.to_numpy(zero_copy_only=False), dtype=object)


def joined(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return texts as concatenated UTF-8 with a margin for kernels, and their offsets."""
    encoded = [text.encode() for text in texts]
    text = np.frombuffer(b"".join([*encoded, bytes(MARGIN)]), np.uint8).copy()
    return text, np.cumsum([0, *map(len, encoded)])


class Pieces:
    """The complete lines of a stream, piece by piece; an incomplete line is kept for the next piece.

    Attributes
    ----------
    text : ndarray of uint8
    start, stop : int
        Range of the complete lines in `text`. The reader sets `start` to `stop` when it has parsed them.
    lacks_line_end : bool
        Whether the last line has no line end.
    n_dropped : int
        Number of dropped rows.
    """

    def __init__(self, stream: Any, place: str) -> None:
        self._stream, self._place = stream, place
        self.text = np.empty(PIECE_NBYTES + MARGIN, np.uint8)
        self.start = self.stop = self._n_read = 0
        self.lacks_line_end = self._has_ended = False
        self.n_dropped = 0

    def fill(self) -> bool:
        """Read the next piece; return whether there is a complete line."""
        self._n_read -= self.start
        self.text[: self._n_read] = self.text[self.start : self.start + self._n_read]
        self.start = self.stop = 0
        while not self.stop and not self._has_ended:
            searched = self._n_read
            if self._n_read + MARGIN >= len(self.text):
                self._grow()
            n_new = self._stream.readinto(self.text[self._n_read : len(self.text) - MARGIN].data)
            self._n_read += n_new
            if n_new:
                behind = int(behind_last_line(self.text, searched, self._n_read))
                self.stop = behind if behind > searched else 0
            else:
                self._has_ended, self.lacks_line_end = True, self._n_read > 0
                self.text[self._n_read] = LINE_FEED
                self.stop = self._n_read = self._n_read + self.lacks_line_end
        return self.stop > 0

    def _grow(self) -> None:
        try:
            longer = doubled(self.text) if self._n_read <= LONGEST_LINE_NBYTES else None
        except MemoryError:
            longer = None
        if longer is None:
            most = min(self._n_read, LONGEST_LINE_NBYTES)
            raise SourceError(f"a line is longer than {most:,} bytes", self._place, "check that the file is text")
        self.text = longer


def blocks_of(
    stream: Any,
    place: str,
    form: LineFormat[Any],
    block_rows: int,
    block_nnz: int,
    count_lines_before: Callable[[], int] = int,
    at_end: Callable[[Pieces], None] = lambda pieces: None,
    would_wait: Callable[[], bool] = bool,
) -> Iterator[SparseBlock]:
    """Parse a stream of text into blocks of rows.

    Parameters
    ----------
    stream : binary stream
        Must have `readinto`.
    place : str
        Its name, for messages.
    form : LineFormat
    block_rows, block_nnz : int
        Maximum number of rows and entries in a block; a single row may have more entries.
    count_lines_before : callable
        Returns the number of lines in the file before the start of the stream; called if a line is faulty.
    at_end : callable
        Called when everything has been read.
    would_wait : callable
        Returns whether reading would block; then an incomplete block is yielded.

    Raises
    ------
    SourceError, DataError
        With file, line, character, what was found and the remedy.
    """
    bounds, pieces = Bounds(block_rows, block_nnz), Pieces(stream, place)
    room, counts = form.room(min(block_rows, FIRST_ROWS), min(block_nnz, FIRST_ENTRIES)), form.nothing
    n_lines = start = 0
    while pieces.fill():
        while pieces.start < pieces.stop:
            found = form.read(pieces.text, pieces.start, pieces.stop, bounds, room, counts)
            pieces.start, counts = found.position, found.counts
            n_lines += found.n_lines
            pieces.n_dropped += found.n_dropped
            if found.why == SHORT:
                room = form.grown(room, counts, found.place)
            elif found.why == FULL:
                block, room = form.block(start, room, counts), form.emptied(room)
                start, counts = start + block.n_rows, form.nothing
                yield block
            elif found.why > FULL:
                n_before = count_lines_before()
                character = found.place - pieces.start + 1
                word = _word_at(pieces.text, found.place, pieces.stop)
                fault = form.fault(found.why, word, f"{place}:{n_before + n_lines + 1}, character {character}")
                if start == counts[0] == 0 and n_before <= 1:  # the first row of the file
                    fault.remedy += "; or set kind, if the text has another format"
                raise fault
        if counts[0] and would_wait():
            block, room = form.block(start, room, counts), form.emptied(room)
            start, counts = start + block.n_rows, form.nothing
            yield block
    at_end(pieces)
    if counts[0]:
        yield form.block(start, room, counts)


def _word_at(text: np.ndarray, place: int, stop: int) -> str:
    """Return a word as it is shown in messages."""
    found = text[place : min(stop, place + 4 * _LONGEST_SHOWN)].tobytes().split(b"\n", 1)[0]
    words = found.split(None, 1) if found[:1].strip() else [b""]
    word = words[0].decode("utf-8", "backslashreplace")
    return word if len(word) <= _LONGEST_SHOWN else word[: _LONGEST_SHOWN - 3] + "..."
