"""Where compiled kernels are cached: in a folder named by a stamp of their sources, because sources may change.

numba caches machine code in the ``__pycache__`` beside a function's source, and recompiles when that file changes. It
does not recompile when an inlined function in another file changes, or an imported constant. Therefore each module's
source is copied to a folder of its own, and numba is told that the functions come from there::

    <cache directory>/<module>/<stamp of its sources>/<file>.source
    <cache directory>/<module>/<stamp of its sources>/__pycache__/...

numba's settings that change machine code but not numba's file names (`SETTINGS`) are part of the directory's name. For
each module the last `N_STAMPS` states of its sources are kept, so that several work trees and branches can coexist.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
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
    """Return whether nobody else can have put machine code there."""
    found = folder.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def choose_cache_directory(beside_source: Path) -> Path:
    """Return the folder in which compiled kernels are cached.

    Parameters
    ----------
    beside_source : Path
        numba's default, the ``__pycache__`` of this package.

    Returns
    -------
    Path
        The first writable one of: ``NUMBA_CACHE_DIR``, `beside_source`, a folder for this machine in the user's cache,
        a folder of this user in the temporary folder, a new temporary folder.
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


def name_with_settings(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return a folder's name for the compiler settings in the environment; without any, the name as given.

    Examples
    --------
    >>> name_with_settings("kernels", {"NUMBA_OPT": "0", "HOME": "/"})
    'kernels-opt0'
    """
    chosen = [
        f"{setting.lower()}{environment[f'NUMBA_{setting}']}"
        for setting in SETTINGS
        if f"NUMBA_{setting}" in environment
    ]
    return "-".join([name, *(re.sub(r"\W", "", one) for one in chosen)])


SETTINGS = ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO")
N_STAMPS = 8
LONGEST_WAIT_S = 60.0
"""Seconds to wait for another process that compiles the same function, before it is compiled here too."""
CACHE_DIRECTORY = choose_cache_directory(Path(__file__).parent / "__pycache__") / name_with_settings("daskfs-kernels")


def make_stamped(folder: Path) -> None:
    """Make a folder named by a stamp, and remove the oldest of its siblings beyond `N_STAMPS`.

    Another process may do the same, or use a folder that is removed. Each file is independent, and missing ones are
    recompiled.
    """
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for other in folder.parent.iterdir():
        with suppress(OSError):  # removed by another process
            made.append((other.stat().st_mtime_ns, other))
    for _, old in sorted(made, reverse=True)[N_STAMPS:]:
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)


def source_file(function: Callable[..., Any]) -> Path:
    """Return the copy of a function's source beside which numba caches its machine code."""
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
    """Prevent other processes from compiling a function, or from changing numba's files for it, in the meantime.

    The lock is released if its process fails or ends. If files cannot be locked, nothing waits.
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
