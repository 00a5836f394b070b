"""A store in an object store while it is written: made in a folder of this machine, then uploaded, the manifest last.

Objects cannot be renamed, so what makes a store whole is `manifest.json`, which is written when all else is there, and
only where there is none. Until then nobody opens it: it is refused as unfinished, by the lock that says who writes.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from daskfs import interrupts
from daskfs.errors import StorageError, StoreError, StoreExistsError
from daskfs.files import Location, LockOwner
from daskfs.objects.path import MULTIPART_NBYTES, ObjectPath
from daskfs.objects.requests import MOST_AT_ONCE, all_of
from daskfs.store.manifest import LOCK, MANIFEST
from daskfs.store.unfinished import UnfinishedStore

STAGING = "DASKFS_STAGING"
"""Names the folder in which stores are made that are uploaded; by default one of the user's among temporary files."""
_UPLOAD_NBYTES = 32 << 20
"""In memory at once."""


def unfinished_store(target: Location, goes_on_from: Callable[[Path], bool]) -> UnfinishedStore:
    """Return where a store is written, in a folder beside its name or to be uploaded."""
    if isinstance(target, ObjectPath):
        return PublishedStore(target, goes_on_from)
    return UnfinishedStore(target, goes_on_from)


class PublishedStore(UnfinishedStore):
    """A folder of this machine that becomes the objects of a store; see `UnfinishedStore`.

    Parameters
    ----------
    address : ObjectPath
        Of the finished store; nothing may exist there but what a dead process of this host has left.
    goes_on_from : callable
        As of `UnfinishedStore`: what was read is not read again; uploading begins again.

    Raises
    ------
    StoreExistsError
    StoreError
        Nothing can be written there, or no folder can be made here.
    """

    def __init__(self, address: ObjectPath, goes_on_from: Callable[[Path], bool]) -> None:
        if address.is_read_only:
            raise StoreError("nothing can be written over HTTP", str(address), "write to a folder or an object store")
        self.address = address
        self._is_locked = False
        self._refuse_existing_objects()
        super().__init__(_staging() / _local_name(address), goes_on_from)
        try:
            self._take_lock()
        except BaseException:
            super().remove()
            raise

    def finish(self) -> None:
        """Upload everything, the manifest last, and remove the folder.

        Raises
        ------
        StoreExistsError
            Another store stands there by now.
        StorageError
        """
        files = {path.relative_to(self.folder).as_posix(): path for path in self.folder.rglob("*") if path.is_file()}
        files.pop(LOCK)
        manifest = files.pop(MANIFEST).read_bytes()

        sizes = {name: path.stat().st_size for name, path in sorted(files.items())}
        for names in _batches(sizes):
            interrupts.check()
            all_of(lambda name: (self.address / name).write_file(files[name]), names)
        found = self.address.all_objects()
        found.pop(LOCK, None)
        wrong = [name for name, nbytes in sizes.items() if found.get(name) != nbytes]
        if wrong:
            problem = f"{len(wrong)} objects are not as long as they were sent, {wrong[0]} for one"
            raise StorageError(problem, str(self.address), "ingest again")
        all_of(lambda name: (self.address / name).unlink(missing_ok=True), found.keys() - sizes.keys())
        self._refuse_stolen()
        with interrupts.held():
            try:
                (self.address / MANIFEST).write_bytes(manifest, is_new=True)
            except FileExistsError:
                raise self._exists() from None
            self._is_locked = False
            (self.address / LOCK).unlink(missing_ok=True)
            interrupts.conclude()
        super().remove()

    def remove(self) -> None:
        """Remove everything that was written, here and there."""
        super().remove()
        if self._is_locked:
            self._is_locked = False
            with suppress(FileNotFoundError):
                all_of(lambda name: (self.address / name).unlink(missing_ok=True), self._removable())
                (self.address / LOCK).unlink(missing_ok=True)

    def _removable(self) -> list[str]:
        names = self.address.all_objects()
        return [] if MANIFEST in names else [name for name in names if name != LOCK]

    def _refuse_existing_objects(self) -> None:
        if (self.address / MANIFEST).is_file() or (not (self.address / LOCK).is_file() and self.address.exists()):
            raise self._exists()

    def _exists(self) -> StoreExistsError:
        problem = "something already exists at this address; a store is never overwritten"
        return StoreExistsError(problem, str(self.address), "remove it or choose another name")

    def _take_lock(self) -> None:
        """Say who writes; take over from a dead process of this host."""
        lock = self.address / LOCK
        self._lock = LockOwner.this_process().to_text().encode()
        for _ in range(2):
            try:
                lock.write_bytes(self._lock, is_new=True)
                self._is_locked = True
                return
            except FileExistsError:
                self._refuse_living(lock)
                lock.unlink(missing_ok=True)
        raise StoreExistsError("another process is writing this store", str(self.address), "wait for it")

    def _refuse_living(self, lock: ObjectPath) -> None:
        try:
            found = json.loads(lock.read_bytes())
            owner = LockOwner(int(found["pid"]), str(found["host"]), float(found["started"]))
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError):
            raise StoreExistsError("its lock is not readable", str(lock), "remove it by hand") from None
        if not owner.is_here:
            problem = f"process {owner.pid} on host {owner.host} is writing it, or was interrupted"
            remedy = f"if no such process runs on {owner.host}, remove that object"
            raise StoreExistsError(problem, str(lock), remedy)
        if owner.is_alive:
            remedy = "wait for it or choose another name"
            raise StoreExistsError(f"process {owner.pid} is writing this store", str(self.address), remedy)
        self.notes.append(f"took over the unfinished store that process {owner.pid} had left behind")

    def _refuse_stolen(self) -> None:
        """Refuse to publish where somebody else has taken the lock meanwhile, who writes the same objects."""
        try:
            is_ours = (self.address / LOCK).read_bytes() == self._lock
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            self._is_locked = False
            raise StoreExistsError("another process has begun to write this store", str(self.address), "wait for it")


def sees_staging(client: Any) -> bool:
    """Return whether all workers of a client see the folder in which stores are made: else they cannot help."""
    with tempfile.NamedTemporaryFile(dir=_staging(), prefix=".seen-") as probe:
        return all(interrupts.call_aside(client.run, os.path.exists, probe.name).values())


def _batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield names whose files are uploaded at once: as many as memory has room for."""
    batch: list[str] = []
    nbytes = 0
    for name, size in sizes.items():
        size = min(size, MULTIPART_NBYTES)
        if batch and (nbytes + size > _UPLOAD_NBYTES or len(batch) == MOST_AT_ONCE):
            yield batch
            batch, nbytes = [], 0
        batch.append(name)
        nbytes += size
    if batch:
        yield batch


def _local_name(address: ObjectPath) -> str:
    """Return the folder's name, the same whenever this store is written: what was left behind is found again."""
    return f"{hashlib.sha256(f'{address.root}/{address.key}'.encode()).hexdigest()[:16]}-{address.name}"


def _staging() -> Path:
    """Return the folder of stores that are made here, the user's own."""
    chosen = os.environ.get(STAGING)
    folder = Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"daskfs-stores-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=bool(chosen), exist_ok=True)
        state = folder.lstat()
    except OSError as fault:
        raise StoreError(f"cannot be made: {fault.strerror}", str(folder), f"set {STAGING} to a folder") from None
    if not chosen and (state.st_uid != os.getuid() or not stat.S_ISDIR(state.st_mode) or state.st_mode & 0o022):
        raise StoreError("it is another user's, or others may write to it", str(folder), f"set {STAGING} to a folder")
    return folder
