"""Safe reading of a store's files: only regular files are opened, and reads are bounded."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from daskfs.errors import CorruptStoreError, StoreError
from daskfs.objects.path import ObjectPath

REMEDY = "remove the store and ingest the source again; `daskfs verify STORE.zarr` lists all damage"
MISPLACED = "is complete, but not the one that was written there"

_AT_ONCE_NBYTES = 64 << 20
"""Larger objects are read only after asking for their length."""

_FLAGS = os.O_RDONLY | os.O_NONBLOCK  # O_NONBLOCK: opening a pipe must not wait for its writer


def open_plain(path: str | os.PathLike[str], what: str) -> tuple[int, os.stat_result]:
    """Open a regular file for reading; return its descriptor and its status.

    Links are followed; their target is checked like the file itself.

    Raises
    ------
    CorruptStoreError
        The file is missing, or is a folder, a pipe or a device.
    StoreError
        The file cannot be opened: permissions, too many open files.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        raise CorruptStoreError(f"{what} is missing", str(path), REMEDY) from None
    except OSError as fault:
        problem = f"{what} cannot be opened: {fault.strerror}"
        raise StoreError(problem, str(path), "check the file, its permissions and its disk") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise CorruptStoreError(f"{what} is not a regular file", str(path), REMEDY)
    return descriptor, status


class OpenFile(Protocol):
    """Interface of the files that tiles are read from."""

    nbytes: int
    stamp: Any
    """Differs between files and versions of a file."""
    remedy: str
    """What to do if the file is damaged."""

    def read_into(self, buffers: list[memoryview], position: int) -> int:
        """Fill buffers from a position on, as far as possible; return the number of bytes read."""

    def close(self) -> None:
        """Close the file."""


class PlainFile:
    """A regular file opened for reading; see `open_plain`."""

    __slots__ = ("_descriptor", "nbytes", "path", "stamp")
    remedy = REMEDY

    def __init__(self, path: str, what: str) -> None:
        self.path = path
        self._descriptor, status = open_plain(path, what)
        self.nbytes: int = status.st_size
        self.stamp: Any = (status.st_ino, status.st_size, status.st_mtime_ns)

    def read_into(self, buffers: list[memoryview], position: int) -> int:
        """Fill buffers from a position on."""
        return os.preadv(self._descriptor, buffers, position)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def read_plain(path: str | os.PathLike[str] | ObjectPath, what: str, max_nbytes: int) -> bytes:
    """Return the content of a regular file, or of an object.

    Raises
    ------
    StoreError
        See `open_plain`; or it is longer than `max_nbytes`, or cannot be read.
    """
    if isinstance(path, ObjectPath):
        return _read_object(path, what, max_nbytes)
    descriptor, status = open_plain(path, what)
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > max_nbytes:
            problem = f"{what} has the wrong length: expected at most {max_nbytes} bytes, found {status.st_size}"
            raise CorruptStoreError(problem, str(path), REMEDY)
        try:
            return file.read(status.st_size)
        except OSError as fault:
            raise CorruptStoreError(f"{what} cannot be read: {fault.strerror}", str(path), REMEDY) from None


def _read_object(path: ObjectPath, what: str, max_nbytes: int) -> bytes:
    try:
        content = path.read_bytes() if max_nbytes <= _AT_ONCE_NBYTES or path.stat().st_size <= max_nbytes else None
    except FileNotFoundError:
        raise CorruptStoreError(f"{what} is missing", str(path), REMEDY) from None
    if content is None or len(content) > max_nbytes:
        problem = f"{what} has the wrong length: expected at most {max_nbytes} bytes, found more"
        raise CorruptStoreError(problem, str(path), REMEDY)
    return content


def write_array(path: Path, values: np.ndarray) -> None:
    """Write an array's bytes; unlike `ndarray.tofile`, raises an OSError with the right code if the disk is full."""
    with path.open("wb") as file:
        file.write(np.ascontiguousarray(values).data)


def read_document(path: Path | ObjectPath, what: str, max_nbytes: int) -> tuple[dict[str, Any], bytes]:
    """Return a JSON object and the bytes it was read from.

    Raises
    ------
    StoreError
        See `read_plain`; or it is not a JSON object.
    """
    content = read_plain(path, what, max_nbytes)
    try:
        document = json.loads(content)
        if not isinstance(document, dict):
            raise ValueError("expected an object")
    except (ValueError, RecursionError) as fault:
        raise CorruptStoreError(f"{what} is damaged: {fault}", str(path), REMEDY) from None
    return document, content
