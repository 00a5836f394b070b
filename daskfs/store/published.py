"""Writes a store to an object store: made in a local folder, then uploaded, the manifest last.

Objects cannot be renamed. A store is therefore complete when `manifest.json` exists, which is written last, and only if
there is none. Until then it is refused as unfinished, because of the lock that names the writing process.
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
from daskfs.files import LockOwner
from daskfs.objects.path import MULTIPART_NBYTES, ObjectPath
from daskfs.objects.requests import MOST_AT_ONCE, all_of
from daskfs.store.manifest import LOCK, MANIFEST, ROWS
from daskfs.store.unfinished import UnfinishedStore

STAGING = "DASKFS_STAGING"
"""Folder in which stores are made before their upload; by default one of the user's among the temporary files."""
_LOCKED: set[str] = set()
"""Addresses that this process is writing to."""
_UPLOAD_NBYTES = 32 << 20
"""Maximum memory for files that are being uploaded."""


class PublishedStore(UnfinishedStore):
    """A local folder that becomes the objects of a store; see `UnfinishedStore`.

    Parameters
    ----------
    address : ObjectPath
        Address of the finished store; nothing may exist there except remains of a dead process of this host.
    goes_on_from : callable
        See `UnfinishedStore`: finished steps are not repeated, but the upload starts again.

    Raises
    ------
    StoreExistsError
    StoreError
        Nothing can be written at the address, or the local folder cannot be created.
    """

    def __init__(self, address: ObjectPath, goes_on_from: Callable[[Path], bool]) -> None:
        if address.is_read_only:
            raise StoreError("stores cannot be written over HTTP", str(address), "write to a folder or an object store")
        self.address = address
        if (address / MANIFEST).is_file() or (not (address / LOCK).is_file() and address.exists()):
            raise self._exists()
        super().__init__(_staging() / _local_name(address), goes_on_from)
        try:
            self._take_lock()
        except BaseException:
            super().remove()
            raise

    def finish(self) -> None:
        """Upload everything but the saved steps, the manifest last, and remove the folder.

        Raises
        ------
        StoreExistsError
            Another store has appeared at the address.
        StorageError
        """
        paths = {path.relative_to(self.folder): path for path in self.folder.rglob("*") if path.is_file()}
        files = {place.as_posix(): path for place, path in paths.items() if place.parts[0] not in (LOCK, ROWS)}
        manifest = files.pop(MANIFEST).read_bytes()

        sizes = {name: path.stat().st_size for name, path in sorted(files.items())}
        for names in _batches(sizes):
            interrupts.check()
            all_of(lambda name: (self.address / name).write_file(files[name]), names)
        found = self.address.all_objects()
        found.pop(LOCK, None)
        wrong = [name for name, nbytes in sizes.items() if found.get(name) != nbytes]
        if wrong:
            problem = f"{len(wrong)} uploaded objects have the wrong length, for example {wrong[0]}"
            raise StorageError(problem, str(self.address), "ingest again")
        all_of(lambda name: (self.address / name).unlink(missing_ok=True), found.keys() - sizes.keys())
        self._refuse_stolen()
        with interrupts.held():
            try:
                (self.address / MANIFEST).write_bytes(manifest, is_new=True)
            except FileExistsError:
                raise self._exists() from None
            _LOCKED.discard(str(self.address))
            (self.address / LOCK).unlink(missing_ok=True)
            interrupts.conclude()
        super().remove()

    def remove(self) -> None:
        """Remove everything that was written, locally and at the address."""
        super().remove()
        if str(self.address) in _LOCKED:
            _LOCKED.discard(str(self.address))
            with suppress(FileNotFoundError):
                names = self.address.all_objects()
                removable = [] if MANIFEST in names else [name for name in names if name != LOCK]
                all_of(lambda name: (self.address / name).unlink(missing_ok=True), removable)
                (self.address / LOCK).unlink(missing_ok=True)

    def leave(self) -> None:
        """Keep the local folder, and release the address."""
        super().leave()
        _LOCKED.discard(str(self.address))
        with suppress(StorageError):  # which may be why the folder is left
            (self.address / LOCK).unlink(missing_ok=True)

    def _exists(self) -> StoreExistsError:
        problem = "something already exists at this address; a store is never overwritten"
        return StoreExistsError(problem, str(self.address), "remove it or choose another name")

    def _take_lock(self) -> None:
        """Write the lock; take over from a dead process of this host."""
        lock = self.address / LOCK
        self._lock = LockOwner.this_process().to_text().encode()
        for _ in range(2):
            try:
                lock.write_bytes(self._lock, is_new=True)
                _LOCKED.add(str(self.address))
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
            raise StoreExistsError("the lock is not readable", str(lock), "remove it by hand") from None
        if not owner.is_here:
            problem = f"process {owner.pid} on host {owner.host} is writing it, or was interrupted"
            remedy = f"if no such process runs on {owner.host}, remove that object"
            raise StoreExistsError(problem, str(lock), remedy)
        has_failed = owner == LockOwner.this_process() and str(self.address) not in _LOCKED  # to remove its lock
        if owner.is_alive and not has_failed:
            remedy = "wait for it or choose another name"
            raise StoreExistsError(f"process {owner.pid} is writing this store", str(self.address), remedy)
        self.notes.append(f"took over the unfinished store left by process {owner.pid}")

    def _refuse_stolen(self) -> None:
        """Refuse to publish if another process has taken the lock meanwhile, since it writes the same objects."""
        try:
            is_ours = (self.address / LOCK).read_bytes() == self._lock
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            _LOCKED.discard(str(self.address))
            raise StoreExistsError("another process has started to write this store", str(self.address), "wait for it")


def sees_staging(client: Any) -> bool:
    """Return whether all workers of a client can see the folder in which stores are made."""
    with tempfile.NamedTemporaryFile(dir=_staging(), prefix=".seen-") as probe:
        return all(interrupts.call_aside(client.run, os.path.exists, probe.name).values())


def _batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield names of files that are uploaded together, limited by memory."""
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
    """Return the local folder's name; it depends only on the address, so that remains are found again."""
    return f"{hashlib.sha256(f'{address.root}/{address.key}'.encode()).hexdigest()[:16]}-{address.name}"


def _staging() -> Path:
    """Return the folder in which stores are made locally; it must belong to the user."""
    chosen = os.environ.get(STAGING)
    folder = Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"daskfs-stores-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=bool(chosen), exist_ok=True)
        state = folder.lstat()
    except OSError as fault:
        raise StoreError(f"cannot be created: {fault.strerror}", str(folder), f"set {STAGING} to a folder") from None
    if not chosen and (state.st_uid != os.getuid() or not stat.S_ISDIR(state.st_mode) or state.st_mode & 0o022):
        raise StoreError("it is not yours, or others may write to it", str(folder), f"set {STAGING} to a folder")
    return folder
