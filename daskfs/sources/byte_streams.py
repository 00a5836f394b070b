"""Files opened as streams of bytes, decompressed if needed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from daskfs.errors import SourceError
from daskfs.files import Location
from daskfs.sources.files import stamp

CUT_SHORT = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_PACKED_NBYTES = 2**17


@contextmanager
def open_bytes(path: Location) -> Iterator[BinaryIO]:
    """Open a file, decompressed according to its ending (.gz, .bz2, .xz, .zst).

    Raises
    ------
    SourceError
        The compressed data are truncated or damaged, found anywhere in the context; or the file no longer exists.
    """
    stamp(path)
    reader = _READERS.get(path.suffix)
    try:
        with path.open("rb") as raw:
            if reader is None:
                yield raw
            else:
                with io.BufferedReader(reader(raw)) as stream:
                    yield stream
    except CUT_SHORT as fault:
        raise cut_short(path, fault) from None
    except OSError as fault:
        if reader is None or fault.errno is not None:
            raise
        raise cut_short(path, fault) from None  # raised by bz2, which has no exception of its own


def cut_short(path: Location, fault: BaseException) -> SourceError:
    """Return the error for compressed data that are truncated or damaged."""
    early = isinstance(fault, EOFError)
    found = "the compressed data end in the middle" if early else f"the compressed data are damaged ({fault})"
    return SourceError(f"expected a complete {path.suffix} file, {found}", str(path), "copy or download the file again")


def text_ratio(path: Location, head_nbytes: int) -> float:
    """Return the ratio of text to file size, measured at the beginning of the file; 1.0 if it is not compressed."""
    if path.suffix not in _READERS:
        return 1.0
    try:
        with path.open("rb") as raw, _READERS[path.suffix](raw) as reader:
            n_text = len(reader.read(head_nbytes))
            return n_text / max(1, raw.tell())
    except CUT_SHORT as fault:
        raise cut_short(path, fault) from None


class _Decompressed(io.RawIOBase):
    """A bzip2 or xz stream with one or several members; trailing garbage is an error."""

    def __init__(self, raw: BinaryIO, decompressor: Callable[[], Any]) -> None:
        self._raw, self._new, self._decompressor = raw, decompressor, decompressor()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer."""
        data = packed = b""
        while not data:
            if self._decompressor.eof:
                packed = self._behind_member()
                if not packed:
                    return 0
                self._decompressor = self._new()
            elif self._decompressor.needs_input:
                packed = self._raw.read(_PACKED_NBYTES)
                if not packed:
                    raise EOFError
            try:
                data = self._decompressor.decompress(packed, len(buffer))
            except (OSError, MemoryError) as fault:
                raise zlib.error(str(fault) or "it claims to need more memory than there is") from None
            packed = b""
        buffer[: len(data)] = data
        return len(data)

    def _behind_member(self) -> bytes:
        """Return the data after the zero bytes that may pad a member."""
        packed: bytes = self._decompressor.unused_data.lstrip(b"\0")
        while not packed and (more := self._raw.read(_PACKED_NBYTES)):
            packed = more.lstrip(b"\0")
        return packed


class _Zstd(io.RawIOBase):
    """A zstd stream through pyarrow: Python 3.11 has no zstd module."""

    def __init__(self, raw: BinaryIO) -> None:
        import pyarrow

        self._stream = pyarrow.CompressedInputStream(raw, "zstd")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer."""
        try:
            return int(self._stream.readinto(buffer))  # read() would leak its buffer on failure
        except OSError as fault:
            kind = EOFError if re.search("[Tt]runcated", str(fault)) else zlib.error
            raise kind(str(fault)) from None

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()


_READERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": lambda raw: _Decompressed(raw, bz2.BZ2Decompressor),
    ".xz": lambda raw: _Decompressed(raw, lzma.LZMADecompressor),
    ".zst": _Zstd,
}
