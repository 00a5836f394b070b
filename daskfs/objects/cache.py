"""Cache on disk for parts of objects that are read repeatedly, if a folder is configured.

A part gets its name when it is completely written, and is checked when a process that has not written it first opens
it: parts truncated by a crash are fetched again. All processes of a machine share the folder and its size limit.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from daskfs import errors
from daskfs.errors import StorageError

ConfigError = errors.ConfigError.about("object-stores")

FOLDER, SIZE = "DASKFS_CACHE", "DASKFS_CACHE_GIB"
OPTIONS = ("cache", "cache_gib")
"""Storage options that override these variables; ``cache: none`` disables the cache."""
DEFAULT_GIB = 20.0
IDLE_S = 600.0
"""A version of objects that has not been read for so long may be removed for others."""
_TALLY = "bytes"


def cache_of(options: dict[str, str], version: str) -> Cache | None:
    """Return the cache for a version of objects, or None if no folder is configured.

    Raises
    ------
    ConfigError
        The size is not a positive number.
    StorageError
        The folder cannot be created.
    """
    folder = options.get("cache") or os.environ.get(FOLDER, "")
    if not version or folder in ("", "none"):
        return None
    size = options.get("cache_gib") or os.environ.get(SIZE, "")
    try:
        gib = float(size) if size else DEFAULT_GIB
    except ValueError:
        gib = 0.0
    if not 0.0 < gib < 2**40:
        raise ConfigError(f"expected a number of GiB, found {size!r}", f"cache_gib or {SIZE}", "for example 50")
    return _opened(str(Path(os.path.expandvars(folder)).expanduser()), int(gib * 2**30), version)


@cache
def _opened(folder: str, most_nbytes: int, version: str) -> Cache:
    return Cache(Path(folder), most_nbytes, version)


class Cache:
    """Cached parts of one version of some objects.

    Parameters
    ----------
    folder : Path
        Folder of the whole cache.
    most_nbytes : int
        Maximum size of the whole cache. If it is full, idle versions are removed; if none is idle, nothing more is
        cached: when data are read repeatedly from front to back, the beginning is worth as much as the end.
    version : str
        Identifies the version of the objects.
    """

    def __init__(self, folder: Path, most_nbytes: int, version: str) -> None:
        self._folder, self._most_nbytes = folder, most_nbytes
        self._own = folder / hashlib.sha256(version.encode()).hexdigest()[:32]
        self._known: set[str] = set()
        """Names that this process has written or checked."""
        self._is_full, self._touched = False, time.monotonic()
        try:
            self._own.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.utime(self._own)
        except OSError as fault:
            remedy = f"set {FOLDER}, or the storage option `cache`, to a local folder"
            raise StorageError(f"the cache cannot be created: {fault.strerror}", str(folder), remedy) from None

    def holds(self, name: str) -> bool:
        """Return whether there is a file with this name; `path_of` checks whether it is complete."""
        return name in self._known or self._path(name).exists()

    def path_of(self, name: str, check: Callable[[memoryview], bool]) -> Path | None:
        """Return the file with this name; None if there is none, or it is incomplete."""
        path = self._path(name)
        self._touch()
        if name in self._known and path.exists():
            return path
        self._known.discard(name)
        try:
            if check(memoryview(path.read_bytes())):
                self._known.add(name)
                return path
            path.unlink()
        except OSError:
            pass
        return None

    def keep(self, name: str, content: memoryview) -> None:
        """Cache a complete part, if there is room; a disk error disables writing to the cache, and nothing else."""
        path = self._path(name)
        temporary = path.with_name(f".{name}.{os.getpid()}.{threading.get_ident()}")
        if self._is_full or path.exists():
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._is_full = not self._has_room(temporary, len(content))
            if not self._is_full:
                with temporary.open("r+b") as file:
                    file.write(content)
                temporary.replace(path)
                self._known.add(name)
        except OSError:
            self._is_full = True
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._own / name[:2] / name

    def _touch(self) -> None:
        """Record that these objects are in use."""
        if time.monotonic() - self._touched > IDLE_S / 10:
            self._touched = time.monotonic()
            with suppress(OSError):
                os.utime(self._own)

    def _has_room(self, temporary: Path, nbytes: int) -> bool:
        """Create and count a file of `nbytes` bytes if there is room; only one process at a time can do this."""
        with (self._folder / _TALLY).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            total = int(text) if text.isdecimal() else self._counted()
            if total + nbytes > self._most_nbytes:
                total = self._counted_without_idle(nbytes)
            has_room = total + nbytes <= self._most_nbytes
            if has_room:
                temporary.touch(mode=0o600)
                os.truncate(temporary, nbytes)
            file.truncate(0)
            file.write(str(total + nbytes if has_room else total))
        return has_room

    def _counted(self) -> int:
        return sum(_nbytes_in(one) for one in self._folder.iterdir() if one.is_dir())

    def _counted_without_idle(self, nbytes: int) -> int:
        """Remove idle versions, the longest idle first, until there is room; return the remaining bytes."""
        total = self._counted()
        found = sorted((one.stat().st_mtime, one) for one in self._folder.iterdir() if one.is_dir())
        for used, folder in found:
            if total + nbytes <= self._most_nbytes or time.time() - used < IDLE_S:
                break
            if folder != self._own:
                total -= _nbytes_in(folder)
                shutil.rmtree(folder, ignore_errors=True)
        return total


def _nbytes_in(folder: Path) -> int:
    """Return the bytes of all files. A file that gets its final name meanwhile is looked up under that name."""
    sizes: dict[Path, int] = {}
    for path in folder.rglob("*"):
        is_temporary = path.name.startswith(".")
        final = path.with_name(path.name[1:].rsplit(".", 2)[0]) if is_temporary else path
        for one in (path, final):
            with suppress(OSError):
                status = one.stat()
                if stat.S_ISREG(status.st_mode):
                    sizes[one] = status.st_size
                break
    return sum(sizes.values())
