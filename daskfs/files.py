"""Files that stand whole under their names, and lock files: which process holds a folder, and whether it still runs."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil


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


def _sync(path: Path) -> None:
    """Have a file on the disk before it gets its name: a crash must not leave the name with half of it."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


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
            found = json.loads(lock.read_text(encoding="utf-8"))
            return cls(int(found["pid"]), str(found["host"]), float(found["started"]))
        except FileNotFoundError:
            raise
        except (OSError, ValueError, KeyError, TypeError):
            return None

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
