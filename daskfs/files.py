"""Atomic file writes, and lock files that say which process holds a folder and whether it still runs."""

from __future__ import annotations

import errno
import json
import math
import os
import socket
import stat
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import psutil

from daskfs.objects.address import is_url
from daskfs.objects.path import ObjectPath

Location = Path | ObjectPath
"""Path of a local file or folder, or URL of one or several objects."""


def location(path: str | os.PathLike[str] | ObjectPath, options: Mapping[str, Any] | None = None) -> Location:
    """Return a path or URL as a `Path` or an `ObjectPath`, since a `Path` would alter a URL.

    Parameters
    ----------
    path : path-like or str
        ``file://`` URLs become paths.
    options : mapping, optional
        Storage options of a URL.

    Raises
    ------
    ConfigError
        The scheme of the URL is not supported.

    Examples
    --------
    >>> location("data/x.zarr"), location("s3://bucket/x.zarr")
    (PosixPath('data/x.zarr'), ObjectPath('s3://bucket/x.zarr'))
    """
    if isinstance(path, ObjectPath):
        return path
    if is_url(path):
        text = str(path)
        if text.lower().startswith("file://"):
            return Path(text[len("file://") :])
        return ObjectPath.of(text, options)
    return Path(path).expanduser()


@contextmanager
def written_whole(path: Path, *, is_checked: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename it to `path` when the block ends; delete it on an error.

    Parameters
    ----------
    path : Path
    is_checked : bool
        Whether readers recognise a partial file, so that it need not be on the disk before it is renamed: only a crash
        of the machine leaves one.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_whole(folder / "page.html") as temporary:
    ...     _ = temporary.write_text("<h1>")
    ...     (folder / "page.html").exists()
    False
    >>> [path.name for path in folder.iterdir()]
    ['page.html']
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        if not is_checked:
            _sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading. Other files are refused: a pipe would block, and a device never ends.

    Raises
    ------
    OSError
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def read_document(path: Path, max_nbytes: int) -> Any:
    """Return the content of a JSON file.

    Raises
    ------
    OSError
    ValueError
        The file is not valid JSON or is longer than `max_nbytes`.
    """
    with open_plain(path) as file:
        content = file.read(max_nbytes + 1)
    if len(content) > max_nbytes:
        raise ValueError(f"it has more than {max_nbytes:,} bytes")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _sync(path: Path) -> None:
    """Flush a file to disk before it is renamed, so that a crash cannot leave a partial file under its name."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


MAX_LOCK_NBYTES = 4096


def take_lock(lock: Path) -> None:
    """Write the lock file of this process atomically.

    Raises
    ------
    FileExistsError
        The lock file already exists.
    OSError
    """
    draft = lock.with_name(f".{lock.name}.{uuid.uuid4().hex}")
    try:
        draft.write_text(LockOwner.this_process().to_text(), encoding="utf-8")
        os.link(draft, lock)
    finally:
        draft.unlink(missing_ok=True)


def remove_lock(lock: Path, owner: LockOwner | None) -> bool:
    """Remove the lock file of a dead process; return False and keep the file if it now belongs to another process."""
    doomed = lock.with_name(f".{lock.name}.{uuid.uuid4().hex}")
    try:
        lock.rename(doomed)  # only one of two processes succeeds
    except FileNotFoundError:
        return True
    is_same = LockOwner.of(doomed) == owner
    if not is_same:
        with suppress(FileExistsError):
            os.link(doomed, lock)
    doomed.unlink()
    return is_same


class LockOwner(NamedTuple):
    """The process that holds a folder, as written in the lock file."""

    pid: int
    host: str
    started: float
    """Start time in seconds since the epoch, because process ids are reused."""

    @classmethod
    def this_process(cls) -> LockOwner:
        """Return the record of this process."""
        return cls(os.getpid(), socket.gethostname(), psutil.Process().create_time())

    @classmethod
    def of(cls, lock: Path) -> LockOwner | None:
        """Return the owner of a lock file; None if the file is not a valid lock file.

        Raises
        ------
        FileNotFoundError
        """
        try:
            found = read_document(lock, MAX_LOCK_NBYTES)
            owner = cls(int(found["pid"]), str(found["host"]), float(found["started"]))
        except FileNotFoundError:
            raise
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return None
        return owner if 0 < owner.pid < 2**31 and math.isfinite(owner.started) else None

    def released(self) -> LockOwner:
        """Return the record of an owner that has ended its work, so that any other process may take over."""
        return self._replace(started=0.0)

    @property
    def is_released(self) -> bool:
        """Whether it is such a record."""
        return self.started == 0.0

    def to_text(self) -> str:
        """Return the content of the lock file."""
        return json.dumps(self._asdict())

    @property
    def is_here(self) -> bool:
        """Whether the process runs, or ran, on this host."""
        return self.host == socket.gethostname()

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs; valid only for a process of this host."""
        try:
            process = psutil.Process(self.pid)
            return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - self.started) < 2.0
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return True
