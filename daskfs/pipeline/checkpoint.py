"""The checkpoint of a run: computed results, small arrays in one file each, from which an interrupted run continues."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from daskfs.errors import RunError
from daskfs.files import open_plain, read_document, written_whole
from daskfs.kernels.sources import stamp_of_all
from daskfs.version import __version__

_SETTINGS = "settings.json"
_MAX_SETTINGS_NBYTES = 1 << 24
_DIGEST_NBYTES = 32
_OF_AN_ARRAY_NBYTES = 512  # its header, and its place in the archive
_PIECE_NBYTES = 1 << 20
_LONGEST_SHOWN = 200


class Room:
    """Size limit of a checkpoint. Once it is full nothing more is saved, so that its contents stay consistent."""

    def __init__(self, folder: Path, max_nbytes: int | None = None) -> None:
        self.folder, self.max_nbytes, self.is_full = folder, max_nbytes, False
        self._taken: dict[Path, int] | None = None

    def takes(self, path: Path, nbytes: int) -> bool:
        """Return whether there is room for a file of `nbytes`, which may replace one of the same name, and count it."""
        if self.max_nbytes is None:
            return True
        if self._taken is None:
            self._taken = {file: file.stat().st_size for file in self.folder.rglob("*.npz")}
        taken = sum(self._taken.values()) - self._taken.get(path, 0) + nbytes
        self.is_full = self.is_full or taken > self.max_nbytes
        if not self.is_full:
            self._taken[path] = nbytes
        return not self.is_full


class Checkpoint:
    """Named sets of arrays in a folder, each in an .npz file that ends with a digest.

    Files are written atomically, even if the process is killed. If the machine crashes, the files of its last seconds
    may be lost. The digest covers all bytes before it, the name, and the settings to which the checkpoint is bound
    (`claim`). A file that is damaged, or was written for another name, with other settings, by another version or by
    hand, is ignored.

    Parameters
    ----------
    folder : Path
        Created when the first arrays are saved.
    binding : str
        Digest of the settings, computed by `claim`.
    label : str
        Label of a `part`.
    room : Room, optional
        Size limit, shared by all parts; default: unlimited.
    """

    def __init__(self, folder: Path, binding: str = "", label: str = "", room: Room | None = None) -> None:
        self.folder, self.binding, self.label, self.room = folder, binding, label, room or Room(folder)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been saved yet."""
        return not any(self.folder.rglob("*.npz"))

    def part(self, label: str) -> Checkpoint:
        """Return a checkpoint inside this one, for one selection of several."""
        return Checkpoint(self.folder / label, self.binding, label, self.room)

    def remove(self) -> None:
        """Remove the checkpoint."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Save arrays under a name if there is room.

        Raises
        ------
        RunError
            They cannot be written, for example because the disk is full.
        """
        named: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()}
        nbytes = _DIGEST_NBYTES + sum(_OF_AN_ARRAY_NBYTES + array.nbytes for array in named.values())
        if not self.room.takes(self.folder / f"{name}.npz", nbytes):
            return
        with _kept(self.folder / f"{name}.npz", is_checked=True) as path, path.open("w+b") as file:
            np.savez(file, **named)
            with zipfile.ZipFile(file, "a") as archive:
                archive.comment = bytes(_DIGEST_NBYTES)  # at the end of the file: room for the digest
            digest = self._digest(name, file)
            file.seek(-_DIGEST_NBYTES, os.SEEK_END)
            file.write(digest)

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """Return the arrays saved under a name; None if there are none or they are invalid."""
        try:
            with open_plain(self.folder / f"{name}.npz") as file:
                digest = self._digest(name, file)
                if file.read(_DIGEST_NBYTES + 1) != digest:
                    return None
                file.seek(0)
                with np.load(file, allow_pickle=False) as arrays:
                    return {key: arrays[key] for key in arrays.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return None

    def _digest(self, name: str, file: BinaryIO) -> bytes:
        """Return the digest that belongs at the end of a file, and leave the file positioned there."""
        file.flush()
        digest = hashlib.sha256(json.dumps([self.binding, self.label, name]).encode())
        left = os.fstat(file.fileno()).st_size - _DIGEST_NBYTES
        file.seek(0)
        while left > 0:
            piece = file.read(min(left, _PIECE_NBYTES))
            if not piece:
                break
            digest.update(piece)
            left -= len(piece)
        return digest.digest()

    def claim(self, settings: Mapping[str, Any]) -> None:
        """Bind the checkpoint to the settings that its arrays depend on, or check that it is bound to them.

        Parameters
        ----------
        settings : mapping
            JSON-serialisable settings.

        Raises
        ------
        RunError
            The checkpoint was made with other settings, which the message names, or by another version of daskfs, or
            cannot be read.
        """
        path = self.folder / _SETTINGS
        wanted = json.loads(json.dumps({**settings, "daskfs": {"version": __version__, "sources": stamp_of_all()}}))
        self.binding = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
        if not path.exists():
            with _kept(path) as temporary:
                temporary.write_text(json.dumps(wanted, indent=2), encoding="utf-8")
            return
        try:
            found = read_document(path, _MAX_SETTINGS_NBYTES)
            if not isinstance(found, dict):
                raise ValueError("expected an object")
        except (OSError, ValueError) as fault:
            reason = getattr(fault, "strerror", None) or fault
            raise RunError(f"cannot be read: {reason}", str(path), "add --force to start again") from None
        if found.get("daskfs") != wanted["daskfs"]:
            by = found["daskfs"].get("version") if isinstance(found.get("daskfs"), dict) else None
            raise RunError(
                f"the interrupted run was made by another daskfs ({_shown(by)}), whose results may differ",
                str(self.folder.parent),
                "resume it with that version of daskfs, or add --force to start again",
            )
        if found != wanted:
            key, before, now = _first_difference(found, wanted)
            raise RunError(
                f"the interrupted run had {key} = {_shown(before)}, now it is {_shown(now)}",
                str(self.folder.parent),
                "resume with the settings it was started with, or add --force to start again",
            )


@contextmanager
def _kept(path: Path, *, is_checked: bool = False) -> Iterator[Path]:
    """Write a file of a checkpoint atomically; convert an OSError to a RunError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path, is_checked=is_checked) as temporary:
            yield temporary
    except OSError as fault:
        problem = f"cannot write a checkpoint: {fault.strerror}"
        remedy = "free disk space, fix the permissions, or choose another output"
        raise RunError(problem, str(path), remedy) from fault


def _first_difference(found: Any, wanted: Any, key: str = "") -> tuple[str, Any, Any]:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in [*wanted, *found]:
            if found.get(name) != wanted.get(name):
                return _first_difference(found.get(name), wanted.get(name), f"{key}.{name}".strip("."))
    return key or "settings", found, wanted


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
