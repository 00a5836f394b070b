"""The folder in which compiled kernels are kept."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


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
