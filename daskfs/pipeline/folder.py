"""The folder of a run: written as ``<name>.unfinished`` by one process at a time, and renamed when finished.

During the run it contains a checkpoint, so that an interrupted run continues where it stopped.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import unicodedata
from pathlib import Path
from typing import Any

from daskfs import errors, interrupts
from daskfs.errors import RunError
from daskfs.files import LockOwner, remove_lock, take_lock
from daskfs.pipeline.checkpoint import Checkpoint, Room

ConfigError = errors.ConfigError.about("run-folders")

UNFINISHED, REPLACED = ".unfinished", ".replaced"
_LOCK = "running.json"
PIPELINE = "pipeline.yaml"
"""File of the resolved pipeline, which suffices to resume or repeat the run."""
STATUS = "status.json"
"""File of the state of a run in progress."""
FILES = (
    "checkpoint", "clumps.csv", "dask.html", "history.parquet", "metrics.json", "model.json", "model.npz",
    "pipeline.yaml", "report.html", "result.json", "run.log", "running.json", "score.afreq", "score.txt",
    "score_covariates.txt", "scores.parquet", "selected.csv", "status.json",
)  # fmt: skip
"""Entries of a run folder, in addition to the folders of several selections."""
LONGEST_NAME_NBYTES = 100
"""Maximum length of the name of a run or label, leaving room for suffixes: file systems allow 255 bytes."""
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
