"""Files of a store, none of which is trusted: regular ones alone are opened, and no more is read than one may hold."""

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
MISPLACED = "is whole, and not the one that was written there"
MAX_DEPTH = 16
"""Of lists and objects within each other; what daskfs writes has six at most."""

_AT_ONCE_NBYTES = 64 << 20
"""Of an object, whose length is asked for first where it may have more."""

_FLAGS = os.O_RDONLY | os.O_NONBLOCK  # else a pipe waits for its writer


def open_plain(path: str | os.PathLike[str], what: str) -> tuple[int, os.stat_result]:
    """Open a regular file for reading; return its descriptor and its status.

    Links are followed: what stands behind one is checked as the file itself would be.

    Raises
    ------
    CorruptStoreError
        It is missing, or is a folder, a pipe or a device.
    StoreError
        It cannot be opened: permissions, too many open files.
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
    """What tiles are read from."""

    nbytes: int
    stamp: Any
    """Another where the file is."""
    remedy: str
    """What is to be done where it is damaged."""

    def read_into(self, buffers: list[memoryview], position: int) -> int:
        """Fill buffers from a place on, as far as it goes; return how many bytes that were."""

    def close(self) -> None:
        """Close it."""


class PlainFile:
    """A regular file that is open for reading; see `open_plain`."""

    __slots__ = ("_descriptor", "nbytes", "path", "stamp")
    remedy = REMEDY

    def __init__(self, path: str, what: str) -> None:
        self.path = path
        self._descriptor, status = open_plain(path, what)
        self.nbytes: int = status.st_size
        self.stamp: Any = (status.st_ino, status.st_size, status.st_mtime_ns)

    def read_into(self, buffers: list[memoryview], position: int) -> int:
        """Fill buffers from a place on."""
        return os.preadv(self._descriptor, buffers, position)

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)


def read_plain(path: str | os.PathLike[str] | ObjectPath, what: str, max_nbytes: int) -> bytes:
    """Return the content of a regular file, or of an object.

    Raises
    ------
    StoreError
        As `open_plain`; or it is longer than `max_nbytes`, or cannot be read.
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
    """Write an array's bytes; a full disk is an OSError that says so, other than `ndarray.tofile`'s."""
    with path.open("wb") as file:
        file.write(np.ascontiguousarray(values).data)


def read_document(path: Path | ObjectPath, what: str, max_nbytes: int) -> tuple[dict[str, Any], bytes]:
    """Return a JSON object and the bytes it was read from.

    Raises
    ------
    StoreError
        As `read_plain`; or it is not an object, is nested too deep, or holds text that cannot be shown.
    """
    content = read_plain(path, what, max_nbytes)
    try:
        document = json.loads(content)
        if b"\\ud" in content or b"\\uD" in content:  # half a surrogate pair is JSON, and no text
            json.dumps(document, ensure_ascii=False).encode()
        if not isinstance(document, dict):
            raise ValueError("expected an object")
        level: list[Any] = [document]
        for _ in range(MAX_DEPTH):
            values = (value for item in level for value in (item.values() if isinstance(item, dict) else item))
            level = [value for value in values if isinstance(value, (dict, list))]
        if level:
            raise ValueError("it is nested too deep")
    except (ValueError, RecursionError) as fault:
        reason = "it is nested too deep" if isinstance(fault, RecursionError) else fault
        raise CorruptStoreError(f"{what} is damaged: {reason}", str(path), REMEDY) from None
    return document, content
