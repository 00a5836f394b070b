"""Rows that come through a pipe: lines of text, which can be read once."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import Any

from daskfs.errors import ConfigError, SourceError, did_you_mean
from daskfs.kernels.text import vowpal
from daskfs.sources.sparse.base import SparseBlock, SparseSource
from daskfs.sources.sparse.libsvm import LARGEST_ID, SvmlightFormat
from daskfs.sources.sparse.lines import LineFormat, blocks_of
from daskfs.sources.sparse.vw import VwFormat


def _svmlight() -> LineFormat[Any]:
    return SvmlightFormat(0, LARGEST_ID, has_qid=True, sorts=False, takes_first=False)


def _vw() -> LineFormat[Any]:
    layout = vowpal.Layout(
        drops_unlabelled=False, ignores_base=False, has_weight=True, ignores_weight=False, tells_names=True, sorts=False
    )
    return VwFormat(layout, has_tags=False)


FORMATS: dict[str, Callable[[], LineFormat[Any]]] = {"libsvm": _svmlight, "vw": _vw}
"""Of what comes through a pipe, by the kind of source: taken as it comes, without a look at all of it first."""


class LineStream(SparseSource):
    """Lines that are read from a pipe, once: features are ids, of which nothing needs to be known beforehand.

    Parameters
    ----------
    stream : binary stream
        With `readinto`: ``sys.stdin.buffer``, what a socket's `makefile` returns.
    kind : {"libsvm", "vw"}
        Format of the lines. Indices of LIBSVM's format are kept as they are.
    name : str
        For messages.
    """

    features_are_ids = True
    target_names = ("target",)

    def __init__(self, stream: Any, kind: str, name: str = "-") -> None:
        if kind not in FORMATS:
            problem = f"expected a format of lines, found {kind!r}{did_you_mean(kind, FORMATS)}"
            raise ConfigError(problem, "format", f"one of {', '.join(FORMATS)}")
        self._stream, self._format, self._name = stream, FORMATS[kind](), name
        self.feature_names: list[str] = []
        self.notes = []

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows as they come."""
        n_rows = 0
        for block in blocks_of(_Unmarked(self._stream), self._name, self._format, block_rows, block_nnz):
            n_rows += block.n_rows
            yield block
        if n_rows == 0:
            raise SourceError("expected rows, found none", self._name, "is what stands before the pipe at work?")

    def row_blocks(self, *_: Any) -> Iterator[Any]:
        """Refuse: rows are read as entries."""
        raise SourceError("the rows of a pipe are read as entries", self._name, "use sparse_blocks")

    def describe(self) -> dict[str, Any]:
        """Return its name."""
        return {"kind": "stream", "description": self._name}

    def digest(self) -> str:
        """Refuse: what came through a pipe is gone."""
        raise SourceError("what came through a pipe cannot be read again", self._name, "write it to a file")


class _Unmarked:
    """A stream without a byte-order mark of UTF-8; it gives what has come, and does not wait for more."""

    def __init__(self, stream: Any) -> None:
        self._read = getattr(stream, "readinto1", stream.readinto)
        self._is_first = True

    def readinto(self, room: memoryview) -> int:
        """Read what is there, at least a byte; 0 at the end."""
        n_read = self._read(room) or 0
        if self._is_first and n_read:
            self._is_first = False
            n_marks = len(codecs.BOM_UTF8) if bytes(room[:3]) == codecs.BOM_UTF8 and n_read >= 3 else 0
            n_read -= n_marks
            room[:n_read] = bytes(room[n_marks : n_marks + n_read])
            return n_read or self.readinto(room)
        return int(n_read)
