"""Where compiled kernels are kept: below the stamp of the sources that they were made from, as these may change.

numba keeps machine code in the ``__pycache__`` beside a function's source, and compiles again when that file changes.
It does not when a function in another file changes that was compiled into it, or a constant that was imported. So each
module's source is copied to a folder of its own, and numba is told that the functions come from there::

    <cache directory>/<module>/<stamp of its sources>/<file>.source
    <cache directory>/<module>/<stamp of its sources>/__pycache__/...

Of each module the last `N_STAMPS` states of its sources are kept, for work trees and branches beside each other.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from daskfs import interrupts
from daskfs.kernels.sources import stamp_of


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _is_private(folder: Path) -> bool:
    """Whether nobody else can have put machine code there."""
    found = folder.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def choose_cache_directory(beside_source: Path) -> Path:
    """Return the folder in which to keep compiled kernels.

    Parameters
    ----------
    beside_source : Path
        numba's first choice, the ``__pycache__`` of this package.

    Returns
    -------
    Path
        The first that can be written of: ``NUMBA_CACHE_DIR``, `beside_source`, a folder of this machine in the user's
        cache, one of this user in the temporary folder, a new temporary folder.
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen)
    if _can_write(beside_source):
        return beside_source
    home_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (never raises)
    candidates = [
        Path(home_cache) / "daskfs" / f"numba-{socket.gethostname()}",
        Path(tempfile.gettempdir()) / f"daskfs-numba-{os.getuid()}",
    ]
    for folder in candidates:
        if folder.is_absolute() and _can_write(folder) and _is_private(folder):
            return folder
    return Path(tempfile.mkdtemp(prefix="daskfs-numba-"))


N_STAMPS = 8
LONGEST_WAIT_S = 60.0
"""For another process that compiles the same function; then it is compiled here too."""
CACHE_DIRECTORY = choose_cache_directory(Path(__file__).parent / "__pycache__") / "daskfs-kernels"


def make_stamped(folder: Path) -> None:
    """Make a folder named by a stamp, and remove the oldest of those beside it beyond `N_STAMPS`.

    Another process may do the same, or use one that is removed: each file stands for itself, and what is missing is
    compiled again.
    """
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for other in folder.parent.iterdir():
        with suppress(OSError):  # removed meanwhile
            made.append((other.stat().st_mtime_ns, other))
    for _, old in sorted(made, reverse=True)[N_STAMPS:]:
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)


def source_file(function: Callable[..., Any]) -> Path:
    """Return the copy of a function's source beside which numba is to keep its machine code."""
    source = Path(function.__code__.co_filename)
    copy = CACHE_DIRECTORY / function.__module__ / stamp_of(function.__module__) / f"{source.stem}.source"
    if not copy.exists():
        make_stamped(copy.parent)
        unfinished = copy.with_name(f"{uuid.uuid4().hex}.unfinished")
        unfinished.write_bytes(source.read_bytes())
        unfinished.replace(copy)
    return copy


@contextmanager
def kept_alone(function: Callable[..., Any]) -> Iterator[None]:
    """Let no other process compile a function meanwhile, nor change what numba keeps of it on disk.

    A process that fails or ends lets others go on. Where files cannot be locked, nobody waits.
    """
    path = Path(function.__code__.co_filename).with_suffix(f".{function.__qualname__}.lock")
    try:
        lock = path.open("w")
    except OSError:
        yield
        return
    with lock:
        deadline = time.monotonic() + LONGEST_WAIT_S
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                interrupts.raise_waiting()
                time.sleep(0.02)
            except OSError:
                break
        yield
