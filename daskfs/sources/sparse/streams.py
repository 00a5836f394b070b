"""Rows from a pipe: lines of text that can be read only once."""

from __future__ import annotations

import codecs
import io
import select
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.errors import did_you_mean
from daskfs.kernels.text import vowpal
from daskfs.sources.sparse.base import NamedIds, SparseBlock, SparseSource, numbered
from daskfs.sources.sparse.libsvm import LARGEST_ID, SvmlightFormat
from daskfs.sources.sparse.lines import LineFormat, blocks_of
from daskfs.sources.sparse.vw import VwFormat

ConfigError = errors.ConfigError.about("streams")
SourceError = errors.SourceError.about("streams")


def _svmlight() -> LineFormat[Any]:
    return SvmlightFormat(0, LARGEST_ID, has_qid=True, sorts=False, takes_first=False)


def _vw() -> LineFormat[Any]:
    layout = vowpal.Layout(
        drops_unlabelled=False,
        keeps_unlabelled=False,
        ignores_base=False,
        has_weight=True,
        ignores_weight=False,
        tells_names=True,
        sorts=False,
    )
    return VwFormat(layout, has_tags=False)


FORMATS: dict[str, Callable[[], LineFormat[Any]]] = {"libsvm": _svmlight, "vw": _vw}
"""Formats that can be read from a pipe, by kind of source: they need no pass over the data beforehand."""


WAIT_S = 0.2
"""Interval, in seconds, at which a thread that waits for a pipe checks whether it was cancelled."""


class LineStream(SparseSource):
    """Lines read once from a pipe: features are ids, so that nothing needs to be known beforehand.

    Parameters
    ----------
    stream : binary stream
        Must have `readinto`: ``sys.stdin.buffer.raw``, or the result of a socket's `makefile`.
    kind : {"libsvm", "vw"}
        Format of the lines. LIBSVM indices are kept unchanged.
    name : str
        Name of the stream, for messages.
    max_rows : int, optional
        Maximum number of rows to read.
    """

    features_are_ids = True
    target_names = ("target",)

    def __init__(self, stream: Any, kind: str, name: str = "-", max_rows: int | None = None) -> None:
        if kind not in FORMATS:
            problem = f"expected a format of lines, found {kind!r}{did_you_mean(kind, FORMATS)}"
            raise ConfigError(problem, "format", f"one of {', '.join(FORMATS)}")
        self._stream, self._format, self._name, self._max_rows = _Unmarked(stream), FORMATS[kind](), name, max_rows
        self.feature_names: list[str] = []
        self.notes = []
        self._kind = kind

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows as they arrive."""
        n_rows = 0
        pipe = self._stream
        for block in blocks_of(pipe, self._name, self._format, block_rows, block_nnz, would_wait=pipe.would_wait):
            n_left = block.n_rows if self._max_rows is None else self._max_rows - n_rows
            n_rows += block.n_rows
            yield block if block.n_rows <= n_left else _first_rows(block, n_left)
            if block.n_rows >= n_left and self._max_rows is not None:
                break
        if n_rows == 0:
            raise SourceError("expected rows, found none", self._name, "check the command before the pipe")

    def leave_off(self) -> None:
        """Cancel reading: a thread that waits for the pipe returns."""
        self._stream.is_left = True

    def row_blocks(self, *_: Any) -> Iterator[Any]:
        """Refuse: the rows can only be read as entries."""
        raise SourceError("the rows of a pipe can only be read as sparse rows", self._name, "use sparse_blocks")

    @property
    def ids_say_names(self) -> bool:  # type: ignore[override]
        """True for LIBSVM's format, whose features are named by their indices."""
        return self._kind == "libsvm"

    def names_of(self, ids: np.ndarray) -> NamedIds:
        """Return the indices as names."""
        return numbered(ids)

    @property
    def encoder(self) -> dict[str, Any]:
        """How to read lines of files in the same way."""
        return {"kind": self._kind, "options": {"feature_ids": True} if self._kind == "libsvm" else {}}

    def describe(self) -> dict[str, Any]:
        """Return the name of the stream."""
        return {"kind": "stream", "description": self._name}

    def digest(self) -> str:
        """Refuse: the content of a pipe cannot be read again."""
        raise SourceError("the content of a pipe cannot be read again", self._name, "write it to a file")


def _first_rows(block: SparseBlock, n_rows: int) -> SparseBlock:
    nnz = int(block.indptr[n_rows])
    return replace(
        block,
        indptr=block.indptr[: n_rows + 1],
        features=block.features[:nnz],
        data=None if block.data is None else block.data[:nnz],
        y=None if block.y is None else block.y[:n_rows],
        weight=None if block.weight is None else block.weight[:n_rows],
        labels={name: texts[:n_rows] for name, texts in block.labels.items()},
        names=None if block.names is None else block.names.of_rows(0, n_rows),
    )


class _Unmarked:
    """A stream without a UTF-8 byte-order mark; reads return what is available instead of waiting for more.

    Attributes
    ----------
    is_left : bool
        Whether reading was cancelled; the stream then ends, also while it waits.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self._read = stream, getattr(stream, "readinto1", stream.readinto)
        self._is_first, self.is_left = True, False

    def would_wait(self, seconds: float = 0.0) -> bool:
        """Return whether nothing can be read within some seconds; False for buffered streams, where it is unknown."""
        try:
            return isinstance(self._stream, io.RawIOBase) and not select.select([self._stream], [], [], seconds)[0]
        except (OSError, ValueError):  # objects without select support are always ready
            return False

    def readinto(self, room: memoryview) -> int:
        """Read the available bytes, at least one; return 0 at the end."""
        while not self.is_left and self.would_wait(WAIT_S):
            pass
        n_read = 0 if self.is_left else self._read(room) or 0
        if self._is_first and n_read:
            self._is_first = False
            n_marks = len(codecs.BOM_UTF8) if bytes(room[:3]) == codecs.BOM_UTF8 and n_read >= 3 else 0
            n_read -= n_marks
            room[:n_read] = bytes(room[n_marks : n_marks + n_read])
            return n_read or self.readinto(room)
        return int(n_read)
