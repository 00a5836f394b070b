"""An unfinished store: a folder with a temporary name, renamed when complete.

After an error that the user has to correct, the folder is removed. If the process was killed or interrupted, or lost
its cluster, the next one resumes from the saved steps of the ingest. A step consists of a task's result as JSON and the
files that the task has written, with their checksums: steps whose files were lost in a crash are repeated. The files of
each process have different names, since a task of the dead process may still run on a cluster.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c

from daskfs import interrupts
from daskfs.cluster.workers import Task, Workers
from daskfs.errors import StoreError, StoreExistsError
from daskfs.files import LockOwner, read_document, written_whole
from daskfs.store.manifest import LOCK, ROWS

SUFFIX, REPLACED = ".unfinished", ".replaced"
TILES = "X/c"
"""Subfolder for the tiles of a dense store, as Zarr names it."""
_CHECKS, _PAUSE_S = 4, 0.05
_N_SYNCS = 8
"""Files that are flushed to disk at a time: the file system then writes its journal once for several."""
_INGEST = "ingest.json"
DESCRIPTION = "ingest-encode-0"
"""The step that describes the source, without which it is not known whether the source is unchanged."""
_MOST_NBYTES, _PIECE_NBYTES = 1 << 30, 1 << 20
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class UnfinishedStore:
    """The folder `<name>.unfinished`, locked by this process until it is finished or removed.

    Parameters
    ----------
    target : Path
        Path of the finished store; nothing may exist there.
    goes_on_from : callable, optional
        Decides whether to resume from the folder of another process; otherwise the folder is removed.

    Attributes
    ----------
    folder : Path
    notes : list of str
        Reports if another process's folder was removed.

    Raises
    ------
    StoreExistsError
        Something exists at the target, or another process is writing there.
    StoreError
        The parent folder is missing or not writable.
    """

    def __init__(self, target: Path, goes_on_from: Callable[[Path], bool] = lambda folder: False) -> None:
        self.target = target
        self.folder = target.with_name(target.name + SUFFIX)
        self.notes: list[str] = []
        self._refuse_existing()
        draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        has_begun = os.path.lexists(self.folder) and self._takes_left(goes_on_from, draft)
        try:
            with interrupts.held():
                if not has_begun:
                    draft.mkdir()
                (draft / LOCK).write_text(LockOwner.this_process().to_text(), encoding="utf-8")
                draft.rename(self.folder)  # fails if another writer was faster, since its folder is not empty
        except OSError as fault:
            shutil.rmtree(draft, ignore_errors=True)
            if os.path.lexists(self.folder):
                raise self._being_written("another process") from None
            reason = fault.strerror or str(fault)
            raise StoreError(f"cannot create the store: {reason}", str(target), "choose another folder") from None

    def finish(self) -> None:
        """Remove the saved steps, make all files durable and give the store its final name.

        Raises
        ------
        StoreExistsError
            Something has appeared at the target.
        """
        shutil.rmtree(self.folder / ROWS, ignore_errors=True)
        _flush(Path(parent, name) for parent, _, names in os.walk(self.folder) for name in ("", *names))
        with interrupts.held():
            self._refuse_existing()
            self.folder.rename(self.target)
            (self.target / LOCK).unlink()
            _sync(self.target.parent)
            interrupts.conclude()

    def remove(self) -> None:
        """Remove everything that was written."""
        _remove(self.folder)
        if not isinstance(sys.exception(), (KeyboardInterrupt, OSError, StoreError)):
            return
        for _ in range(_CHECKS):  # after an interrupt or a failed write, Zarr's threads may still be writing
            time.sleep(_PAUSE_S)
            if not (self.folder / LOCK).exists():
                _remove(self.folder)

    def leave(self) -> None:
        """Keep the folder, from which another process may resume."""
        with suppress(OSError), written_whole(self.folder / LOCK) as lock:  # else until this process ends
            lock.write_text(LockOwner.this_process().released().to_text(), encoding="utf-8")

    def _refuse_existing(self) -> None:
        if os.path.lexists(self.target):
            raise StoreExistsError(
                "something already exists at this path; a store is never overwritten",
                str(self.target),
                "remove it or choose another name",
            )

    def new_group(self) -> Any:
        """Return a new Zarr group in the folder, after removing everything except what the ingest resumes from."""
        import zarr

        kept = [LOCK, ROWS, *Path(TILES).parts]
        for path in [*self.folder.iterdir(), *self.folder.glob(f"{Path(TILES).parent}/*")]:
            if path.name not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        with interrupts.held():  # Zarr writes in a thread of its own
            return zarr.create_group(str(self.folder), zarr_format=3)

    def _takes_left(self, goes_on_from: Callable[[Path], bool], draft: Path) -> bool:
        """Rename the folder that a process has left, to resume from it, or remove it; return whether it was kept."""
        can_resume = KeptSteps(self.folder / ROWS).identity is not None
        try:
            owner = LockOwner.of(self.folder / LOCK)
        except FileNotFoundError:  # removed by the user, as the error below proposes
            owner = LockOwner.this_process().released() if can_resume else None
        if owner is None:
            raise StoreExistsError(
                f"expected a lock of daskfs, found no readable {LOCK}", str(self.folder), "remove it by hand"
            )
        if not (owner.is_here or owner.is_released):
            what = (
                f"{LOCK} from it to continue from its finished parts, or the whole folder"
                if can_resume
                else "the folder"
            )
            raise StoreExistsError(
                f"process {owner.pid} on host {owner.host} is writing it, or was interrupted",
                str(self.folder),
                f"if no such process runs on {owner.host}, remove {what}",
            )
        if owner.is_alive:
            raise self._being_written(f"process {owner.pid}")
        if goes_on_from(self.folder):
            with suppress(OSError):  # another process has taken or removed it
                self.folder.rename(draft)
                return True
            return False
        _remove(self.folder)
        self.notes.append(f"removed the unfinished store left by process {owner.pid}")
        return False

    def _being_written(self, who: str) -> StoreExistsError:
        return StoreExistsError(f"{who} is writing this store", str(self.folder), "wait for it or choose another name")


def disk_full(found: str, where: str, needed: str = "") -> StoreError:
    """Return the error of a full disk; `needed` says how much space is needed, if that is known."""
    return StoreError(f"the disk is full ({found}){needed}", where, "free disk space, or choose another disk")


@contextmanager
def explained_disk_full(where: str, needed: Callable[[], str] = str) -> Iterator[None]:
    """Turn the operating system's error of a full disk into a `StoreError`; see `disk_full`."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in DISK_FULL:
            raise
        raise disk_full(os.strerror(fault.errno).lower(), where, needed()) from None


@contextmanager
def set_aside(store: Path) -> Iterator[None]:
    """Keep a backup of a store under another name while it is replaced, and restore it after a failure."""
    aside = store.with_name(store.name + REPLACED)
    with interrupts.held():
        if os.path.lexists(aside):
            _remove(aside)  # left by a process that was killed
        store.rename(aside)
    try:
        yield
    finally:
        with interrupts.held():
            if os.path.lexists(store):
                _remove(aside)
            else:
                aside.rename(store)


def _remove(folder: Path) -> None:
    """Remove a folder after renaming it to a name that no store has, so that simultaneous removals do not collide."""
    doomed = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    try:
        folder.rename(doomed)
    except FileNotFoundError:
        return
    shutil.rmtree(doomed)


def _flush(paths: Iterator[Path]) -> None:
    """Make files durable, several at a time; fewer where no more threads can be started."""
    lock, faults, is_over = threading.Lock(), list[OSError](), threading.Event()

    def flush_next() -> bool:
        with lock:
            path = None if is_over.is_set() else next(paths, None)
        try:
            if path is not None:
                _sync(path)
        except OSError as fault:
            faults.append(fault)
            is_over.set()
        return path is not None

    def flush_all() -> None:
        while flush_next():
            pass

    threads = [threading.Thread(target=flush_all, name="daskfs-sync", daemon=True) for _ in range(_N_SYNCS - 1)]
    is_next = True
    try:
        with interrupts.held(), suppress(RuntimeError):  # the system may limit threads, or their memory
            for thread in threads:
                thread.start()
        while is_next:
            with interrupts.held():
                is_next = flush_next()
            interrupts.check()
    finally:
        is_over.set()
        with interrupts.held():
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
    if faults:
        raise faults[0]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class KeptSteps:
    """Saved steps of an ingest.

    Parameters
    ----------
    folder : Path

    Attributes
    ----------
    identity : dict or None
        Identity of the ingest that saved the steps; None if there are none.
    attempt : int
        Number of processes that have started before.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = self._read(_INGEST) or {}
        self.identity: dict[str, Any] | None = found.get("identity")
        self.attempt = int(found.get("attempt", -1)) + 1
        self._keeps = False

    @property
    def has_some(self) -> bool:
        """Whether steps were saved from which another process can resume, besides the description of the source."""
        has_description = self._keeps and (self.folder / f"{DESCRIPTION}.json").exists()
        return has_description and len([*self.folder.glob("ingest-*.json")]) > 1

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Record the identity of this ingest, and save steps from now on."""
        self._keeps, self.identity = True, dict(identity)
        with written_whole(self.folder / _INGEST) as path:
            path.write_text(json.dumps({"identity": identity, "attempt": self.attempt}))

    def map(
        self, workers: Workers, function: Task, items: Sequence[Any], *, name: str, shared: Sequence[Any]
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield the results of `Workers.map_blocks`, reading those of steps that are finished.

        `function` returns a JSON-compatible dict, with its files from `files_of` as ``"files"``, or an error, which is
        not saved.
        """
        if not self._keeps:
            yield from workers.map_blocks(function, items, name=name, shared=shared)
            return
        left = []
        for k in range(len(items)):
            found = self.found(f"{name}-{k}")
            if found is None:
                left.append(k)
            else:
                yield k, found
        for i, result in workers.map_blocks(function, [items[k] for k in left], name=name, shared=shared):
            if not isinstance(result, Exception):
                with written_whole(self.folder / f"{name}-{left[i]}.json") as path:
                    path.write_text(json.dumps(result, default=np.ndarray.tolist))
            yield left[i], result

    def found(self, step: str) -> Any:
        """Return the result of a step; None if it is not finished, or its files are not intact."""
        result = self._read(f"{step}.json")
        if result is None or any(_sum_of(self.folder / name) != recorded for name, recorded in result["files"].items()):
            return None
        return result

    def _read(self, name: str) -> Any:
        try:
            return read_document(self.folder / name, _MOST_NBYTES)
        except (OSError, ValueError):
            return None


def files_of(folder: Path, prefix: str) -> dict[str, list[int] | None]:
    """Return length and checksum of the files with this prefix."""
    return {path.name: _sum_of(path) for path in sorted(folder.glob(f"{prefix}*"))}


def _sum_of(path: Path) -> list[int] | None:
    nbytes = checksum = 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_NBYTES):
                nbytes, checksum = nbytes + len(piece), crc32c(piece, checksum)
    except FileNotFoundError:
        return None
    return [nbytes, checksum]
