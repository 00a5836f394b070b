"""The folder of a run: written as ``<name>.unfinished`` by one process at a time, and renamed when finished.

During the run it contains a checkpoint of computed results, small arrays in one file each, so that an interrupted run
continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import unicodedata
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from daskfs import errors, interrupts
from daskfs.errors import RunError
from daskfs.files import LockOwner, open_plain, read_document, remove_lock, take_lock, written_whole
from daskfs.kernels.sources import stamp_of_all
from daskfs.version import __version__

ConfigError = errors.ConfigError.about("run-folders")

UNFINISHED, REPLACED = ".unfinished", ".replaced"
_LOCK = "running.json"
PIPELINE = "pipeline.yaml"
"""File of the resolved pipeline, which suffices to resume or repeat the run."""
STATUS = "status.json"
"""File of the state of a run in progress."""
_SETTINGS = "settings.json"
FILES = (
    "checkpoint", "clumps.csv", "dask.html", "history.parquet", "metrics.json", "model.json", "model.npz",
    "pipeline.yaml", "report.html", "result.json", "run.log", "running.json", "score.afreq", "score.txt",
    "score_covariates.txt", "scores.parquet", "selected.csv", "status.json",
)  # fmt: skip
"""Entries of a run folder, in addition to the folders of several selections."""
LONGEST_NAME_NBYTES = 100
"""Maximum length of the name of a run or label, leaving room for suffixes: file systems allow 255 bytes."""
_MAX_SETTINGS_NBYTES = 1 << 24
_DIGEST_NBYTES = 32
_OF_AN_ARRAY_NBYTES = 512  # its header, and its place in the archive
_PIECE_NBYTES = 1 << 20
_LONGEST_SHOWN = 200
_SIGNS_OF_A_RUN = ("result.json", PIPELINE)


def check_name(name: str, what: str) -> str:
    """Check the name of a run or the label of a selection, which becomes the name of a folder, and return it.

    Raises
    ------
    ValueError
        It is too long, begins or ends with a dot, or is the name of another entry of a run folder.
    """
    nbytes = len(name.encode("utf-8", "surrogatepass"))
    if nbytes > LONGEST_NAME_NBYTES:
        raise ValueError(
            f"expected a {what} of at most {LONGEST_NAME_NBYTES} bytes, found {nbytes} ({name[:20]}...); shorten it"
        )
    if name.startswith(".") or name.endswith("."):
        raise ValueError(f"expected a {what} that does not begin or end with a dot, found {name!r}; remove the dot")
    if what == "label" and folded(name) in FILES:
        raise ValueError(f"{name!r} is the name of another file of a run folder; choose another label")
    if what == "name" and name.endswith((UNFINISHED, REPLACED)):
        raise ValueError(f"{name!r} ends like the folder of an unfinished run; choose another name")
    return name


def folded(name: str) -> str:
    """Return a name in the form in which a case-insensitive, Unicode-normalising file system compares it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


class RunFolder:
    """A run folder while it is being written.

    Parameters
    ----------
    output : Path
        Path of the finished run.
    resumed : bool
        Whether to continue an interrupted run.
    force : bool
        Whether to replace a finished run at `output`.
    kept_in : Path, optional
        Parent folder of the checkpoint; default: the run folder.
    max_nbytes : int, optional
        Maximum total size of the checkpoint's arrays.
    """

    def __init__(
        self,
        output: Path,
        *,
        resumed: bool,
        force: bool,
        kept_in: Path | None = None,
        max_nbytes: int | None = None,
    ) -> None:
        self.output = output
        self.path = output.with_name(output.name + UNFINISHED)
        self.resumed = resumed
        self.force = force
        self.is_finished = False
        kept = self.path / "checkpoint"
        if kept_in is not None:  # runs of the same name may share the folder
            kept = kept_in / f"{output.name}-{hashlib.sha256(os.fsencode(output.absolute())).hexdigest()[:12]}"
        self.checkpoint = Checkpoint(kept, room=Room(kept, max_nbytes))

    @classmethod
    def start(cls, output: Path, *, force: bool = False, **kept: Any) -> RunFolder:
        """Begin a run. Existing files at `output` are not changed until the run is finished. For `kept` see the class.

        Raises
        ------
        RunError
            A finished run, an interrupted run or another file exists at `output`, or another process uses the folder.
        """
        folder = cls(output, resumed=False, force=force, **kept)
        check_output(output, force=force)
        if force and folder.path.exists():
            shutil.rmtree(folder.path)
        folder._lock()
        folder.checkpoint.remove()
        return folder

    @classmethod
    def resume(cls, output: Path, **kept: Any) -> RunFolder:
        """Continue an interrupted run.

        Raises
        ------
        RunError
            There is no interrupted run, or another process uses the folder.
        """
        folder = cls(output, resumed=True, force=False, **kept)
        if not folder.path.is_dir():
            done = "the run is finished" if (output / "result.json").exists() else "there is no interrupted run"
            raise RunError(f"nothing to resume: {done}", str(output), "leave --resume out")
        _check_lock(folder.path)
        check_output(output, force=False, resume=True)
        folder._lock()
        return folder

    def finish(self) -> Path:
        """Remove the files that only an interrupted run needs, and rename the folder to its final name."""
        with interrupts.held():
            self.checkpoint.remove()
            for name in (_LOCK, STATUS):
                (self.path / name).unlink(missing_ok=True)
            replaced = self.output.with_name(self.output.name + REPLACED)
            if self.force and self.output.exists():
                shutil.rmtree(replaced, ignore_errors=True)
                self.output.rename(replaced)
            self.path.rename(self.output)  # over an empty folder, or nothing
            self.is_finished = True
            shutil.rmtree(replaced, ignore_errors=True)
            interrupts.conclude()
        return self.output

    def let_go(self, *, keep: bool) -> bool:
        """Release an unfinished run. Keep the folder for resuming if `keep` is true and something was computed.

        Returns
        -------
        bool
            Whether the run can be resumed.
        """
        (self.path / _LOCK).unlink(missing_ok=True)
        if self.resumed or (keep and not self.checkpoint.is_empty):
            return True
        self.checkpoint.remove()
        shutil.rmtree(self.path, ignore_errors=True)
        return False

    def _lock(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            take_lock(self.path / _LOCK)
        except FileExistsError:
            raise RunError("another process is running in this folder", str(self.path), "wait for it") from None
        except OSError as fault:
            problem = f"cannot create the run folder: {fault.strerror}"
            raise RunError(problem, str(self.path), "choose another output") from None


def resume_command(output: Path) -> str:
    """Return the command that continues an interrupted run, for messages."""
    return f"`daskfs run --resume {shlex.quote(str(output))}`"


def pipeline_of(resume: Path | None) -> Path:
    """Return the pipeline file of an interrupted run.

    Raises
    ------
    ConfigError
        No folder was given.
    RunError
        The folder has no pipeline file, or the file lacks secrets.
    """
    if resume is None:
        raise ConfigError("expected a pipeline file, found none", "PIPELINE.yaml", "`daskfs init FILE` writes one")
    output = resume.resolve()
    output = output.with_name(output.name.removesuffix(UNFINISHED))
    path = output.with_name(output.name + UNFINISHED) / PIPELINE
    if not path.is_file():
        done = "the run is finished" if (output / "result.json").exists() else "there is no interrupted run"
        remedy = "pass the folder of an interrupted run"
        if any(output.glob(f"*{UNFINISHED}")):  # of several targets
            remedy += ", one of those in this folder, or pass the pipeline file too"
        raise RunError(f"nothing to resume: {done}", str(output), remedy)
    if "***" in path.read_text(encoding="utf-8"):
        problem = "the pipeline file contained a password or a signed URL, which is not saved"
        raise RunError(problem, str(path), "pass the file too: `daskfs run PIPELINE.yaml --resume RUN_DIR`")
    return path


def check_output(output: Path, *, force: bool, resume: bool = False) -> None:
    """Check that a run may write to `output`. Nothing is changed, except that the lock of a dead process is removed.

    Raises
    ------
    RunError
        See `RunFolder.start`.
    """
    unfinished = output.with_name(output.name + UNFINISHED)
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        is_run = output.is_dir() and any((output / sign).exists() for sign in _SIGNS_OF_A_RUN)
        if not is_run:
            raise RunError(
                "expected a run folder or nothing at this path, found something else", str(output), "move it away"
            )
        if not force:
            remedy = "choose another output, or add --force to replace it"
            raise RunError("a finished run already exists at this path", str(output), remedy)
    if unfinished.exists() and not resume:
        _check_lock(unfinished)
        if not force:
            raise RunError(
                "an interrupted run already exists at this path",
                str(unfinished),
                f"continue it with {resume_command(output)}; or add --force to start again",
            )


def _check_lock(unfinished: Path) -> None:
    """Refuse a folder that a live process holds; remove the lock of a dead process."""
    lock = unfinished / _LOCK
    try:
        owner = LockOwner.of(lock)
    except FileNotFoundError:
        return
    if owner is None:
        raise RunError(
            "expected a lock file of daskfs, found an unreadable file", str(lock), "remove it if no process runs here"
        )
    if not owner.is_here:
        remedy = f"wait for it, or remove {lock} if it is dead"
        raise RunError(f"process {owner.pid} on {owner.host} may be running in this folder", str(unfinished), remedy)
    if owner.pid != os.getpid() and owner.is_alive:
        raise RunError(f"process {owner.pid} is running in this folder", str(unfinished), "wait for it, or stop it")
    if not remove_lock(lock, owner):
        raise RunError("another process is running in this folder", str(unfinished), "wait for it")


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

    Files are written atomically, even if the process is killed. The digest covers all bytes before it, the name, and
    the settings to which the checkpoint is bound (`claim`). A file that is damaged, or was written for another name,
    with other settings, by another version or by hand, is ignored.

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
        with _kept(self.folder / f"{name}.npz") as path, path.open("w+b") as file:
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
def _kept(path: Path) -> Iterator[Path]:
    """Write a file of a checkpoint atomically; convert an OSError to a RunError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as temporary:
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
