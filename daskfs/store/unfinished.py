"""A store while it is written: a folder with a half-made name, renamed when whole, removed when not."""

from __future__ import annotations

import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from daskfs import interrupts
from daskfs.errors import StoreError, StoreExistsError
from daskfs.files import LockOwner
from daskfs.store.manifest import LOCK

SUFFIX, REPLACED = ".unfinished", ".replaced"
ROWS = "rows"
"""The folder in it of rows that are on their way."""
_CHECKS, _PAUSE_S = 4, 0.05


class UnfinishedStore:
    """The folder `<name>.unfinished`, held by this process until it is finished or removed.

    Parameters
    ----------
    target : Path
        Path of the finished store; nothing may exist there.
    goes_on_from : callable, optional
        Tells of a dead process's folder whether this is to go on from it; otherwise it is removed.

    Attributes
    ----------
    folder : Path
    notes : list of str
        Says when a dead process's folder was removed.

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
        has_begun = os.path.lexists(self.folder) and self._takes_dead(goes_on_from, draft)
        try:
            with interrupts.held():
                if not has_begun:
                    draft.mkdir()
                (draft / LOCK).write_text(LockOwner.this_process().to_text(), encoding="utf-8")
                draft.rename(self.folder)  # fails where another writer was faster, for its folder is not empty
        except OSError as fault:
            shutil.rmtree(draft, ignore_errors=True)
            if os.path.lexists(self.folder):
                raise self._being_written("another process") from None
            reason = fault.strerror or str(fault)
            raise StoreError(f"cannot create the store: {reason}", str(target), "choose another folder") from None

    def finish(self) -> None:
        """Make everything durable and give the store its name.

        Raises
        ------
        StoreExistsError
            Something has appeared at the target.
        """
        for parent, _, names in os.walk(self.folder):
            for name in names:
                _sync(Path(parent, name))
            _sync(Path(parent))
        with interrupts.held():
            self._refuse_existing()
            self.folder.rename(self.target)
            (self.target / LOCK).unlink()
            _sync(self.target.parent)
            interrupts.conclude()

    def remove(self) -> None:
        """Remove everything that was written."""
        _remove(self.folder)
        if not isinstance(sys.exception(), KeyboardInterrupt):
            return
        for _ in range(_CHECKS):  # Zarr's threads may still be at what an interrupt cut short
            time.sleep(_PAUSE_S)
            if not (self.folder / LOCK).exists():
                _remove(self.folder)

    def _refuse_existing(self) -> None:
        if os.path.lexists(self.target):
            raise StoreExistsError(
                "something already exists at this path; a store is never overwritten",
                str(self.target),
                "remove it or choose another name",
            )

    def new_group(self) -> Any:
        """Return the Zarr group that the folder is to be, in which nothing is but what is gone on from."""
        import zarr

        for path in self.folder.iterdir():
            if path.name not in (LOCK, ROWS):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        with interrupts.held():  # Zarr's thread writes
            return zarr.create_group(str(self.folder), zarr_format=3)

    def _takes_dead(self, goes_on_from: Callable[[Path], bool], draft: Path) -> bool:
        """Take a dead process's folder under another name, to go on from it, or remove it; tell which."""
        try:
            owner = LockOwner.of(self.folder / LOCK)
        except FileNotFoundError:
            owner = None
        if owner is None:
            raise StoreExistsError(
                f"expected a lock of daskfs in it, found no readable {LOCK}", str(self.folder), "remove it by hand"
            )
        if not owner.is_here:
            raise StoreExistsError(
                f"process {owner.pid} on host {owner.host} is writing it, or was interrupted",
                str(self.folder),
                f"if no such process runs on {owner.host}, remove the folder",
            )
        if owner.is_alive:
            raise self._being_written(f"process {owner.pid}")
        if goes_on_from(self.folder):
            with suppress(OSError):  # somebody else has taken or removed it
                self.folder.rename(draft)
                return True
            return False
        _remove(self.folder)
        self.notes.append(f"removed the unfinished store that process {owner.pid} had left behind")
        return False

    def _being_written(self, who: str) -> StoreExistsError:
        return StoreExistsError(f"{who} is writing this store", str(self.folder), "wait for it or choose another name")


@contextmanager
def set_aside(store: Path) -> Iterator[None]:
    """Keep a store under another name until what replaces it stands, and after a failure give it back its own."""
    aside = store.with_name(store.name + REPLACED)
    with interrupts.held():
        if os.path.lexists(aside):
            _remove(aside)  # of a process that ended before it could
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
    """Remove a folder under a name that nobody takes for a store, so that two removals do not meet."""
    doomed = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    try:
        folder.rename(doomed)
    except FileNotFoundError:
        return
    shutil.rmtree(doomed)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
