"""Files that stand whole under their names, and lock files: which process holds a folder, and whether it still runs."""

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
"""Of a file or folder, or of an object or of several."""


def location(path: str | os.PathLike[str] | ObjectPath, options: Mapping[str, Any] | None = None) -> Location:
    """Return where a path or a URL leads; of a URL nothing is lost, as it would be in a `Path`.

    Parameters
    ----------
    path : path-like or str
        ``file://`` is a path.
    options : mapping, optional
        Storage options of a URL.

    Raises
    ------
    ConfigError
        A URL that daskfs does not know.

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
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to; the file gets its own name when the block ends, and none where it fails.

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
        _sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading; a pipe would be waited for, a device never ends.

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
    """Return what a JSON file holds.

    Raises
    ------
    OSError
    ValueError
        It is no JSON, or longer than `max_nbytes`.
    """
    with open_plain(path) as file:
        content = file.read(max_nbytes + 1)
    if len(content) > max_nbytes:
        raise ValueError(f"it has more than {max_nbytes:,} bytes")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _sync(path: Path) -> None:
    """Have a file on the disk before it gets its name: a crash must not leave the name with half of it."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


MAX_LOCK_NBYTES = 4096


def take_lock(lock: Path) -> None:
    """Write the lock file of this process, whole from its first moment on.

    Raises
    ------
    FileExistsError
        There is one.
    OSError
    """
    draft = lock.with_name(f".{lock.name}.{uuid.uuid4().hex}")
    try:
        draft.write_text(LockOwner.this_process().to_text(), encoding="utf-8")
        os.link(draft, lock)
    finally:
        draft.unlink(missing_ok=True)


def remove_lock(lock: Path, owner: LockOwner | None) -> bool:
    """Remove the lock file of a dead process; return False where it is another's by now, which stays."""
    doomed = lock.with_name(f".{lock.name}.{uuid.uuid4().hex}")
    try:
        lock.rename(doomed)  # two processes cannot take the same
    except FileNotFoundError:
        return True
    is_same = LockOwner.of(doomed) == owner
    if not is_same:
        with suppress(FileExistsError):
            os.link(doomed, lock)
    doomed.unlink()
    return is_same


class LockOwner(NamedTuple):
    """The process that holds a folder, as its lock file has it."""

    pid: int
    host: str
    started: float
    """Seconds since the epoch: a process number is given again to other processes."""

    @classmethod
    def this_process(cls) -> LockOwner:
        """Return this process."""
        return cls(os.getpid(), socket.gethostname(), psutil.Process().create_time())

    @classmethod
    def of(cls, lock: Path) -> LockOwner | None:
        """Return who wrote a lock file; None where it is not readable as one.

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

    def to_text(self) -> str:
        """Return what a lock file holds."""
        return json.dumps(self._asdict())

    @property
    def is_here(self) -> bool:
        """Whether it runs, or ran, on this host."""
        return self.host == socket.gethostname()

    @property
    def is_alive(self) -> bool:
        """Whether it still runs; only for a process of this host."""
        try:
            process = psutil.Process(self.pid)
            return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - self.started) < 2.0
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return True
