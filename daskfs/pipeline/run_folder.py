"""The folder of a run: written as ``<name>.unfinished``, one process at a time, renamed when whole."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

from daskfs.errors import RunError
from daskfs.files import is_alive, this_process
from daskfs.pipeline.checkpoint import Checkpoint

UNFINISHED = ".unfinished"
_LOCK = "running.json"
_SIGNS_OF_A_RUN = ("result.json", "pipeline.yaml")


class RunFolder:
    """A run's folder while it is being written.

    Parameters
    ----------
    output : Path
        Where the finished run will stand.
    resumed : bool
        Whether an interrupted run is continued.
    force : bool
        Whether a finished run at `output` is replaced.
    """

    def __init__(self, output: Path, *, resumed: bool, force: bool) -> None:
        self.output = output
        self.path = output.with_name(output.name + UNFINISHED)
        self.resumed = resumed
        self.force = force
        self.checkpoint = Checkpoint(self.path / "checkpoint")

    @classmethod
    def start(cls, output: Path, *, force: bool = False) -> RunFolder:
        """Begin a run; nothing that stands at `output` is touched before it is finished.

        Raises
        ------
        RunError
            A finished or an interrupted run, or something else, stands there; or another process is at it.
        """
        folder = cls(output, resumed=False, force=force)
        check_output(output, force=force)
        if force and folder.path.exists():
            shutil.rmtree(folder.path)
        folder._lock()
        return folder

    @classmethod
    def resume(cls, output: Path) -> RunFolder:
        """Continue an interrupted run.

        Raises
        ------
        RunError
            There is none, or another process is at it.
        """
        folder = cls(output, resumed=True, force=False)
        if not folder.path.is_dir():
            done = "the run is finished" if (output / "result.json").exists() else "there is no interrupted run"
            raise RunError(f"nothing to resume: {done}", str(output), "run it without --resume")
        _check_lock(folder.path)
        check_output(output, force=False, resume=True)
        folder._lock()
        return folder

    def finish(self) -> Path:
        """Remove what only an interrupted run needs, and give the folder its name."""
        shutil.rmtree(self.checkpoint.folder, ignore_errors=True)
        (self.path / _LOCK).unlink(missing_ok=True)
        replaced = self.output.with_name(self.output.name + ".replaced")
        if self.force and self.output.exists():
            shutil.rmtree(replaced, ignore_errors=True)
            self.output.rename(replaced)
        self.path.rename(self.output)  # over an empty folder, or nothing
        shutil.rmtree(replaced, ignore_errors=True)
        return self.output

    def let_go(self, *, keep: bool) -> bool:
        """Leave an unfinished run, to be resumed where something was computed and `keep` is true.

        Returns
        -------
        bool
            Whether there is something to resume.
        """
        (self.path / _LOCK).unlink(missing_ok=True)
        if self.resumed or (keep and not self.checkpoint.is_empty):
            return True
        shutil.rmtree(self.path, ignore_errors=True)
        return False

    def _lock(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with (self.path / _LOCK).open("x", encoding="utf-8") as file:
                json.dump(this_process(), file)
        except FileExistsError:
            raise RunError("another process runs here", str(self.path), "wait for it") from None
        except OSError as fault:
            problem = f"cannot make the run's folder: {fault.strerror}"
            raise RunError(problem, str(self.path), "choose another output") from None


def check_output(output: Path, *, force: bool, resume: bool = False) -> None:
    """Check that a run may write to `output`; nothing is changed, except that a dead process's lock is removed.

    Raises
    ------
    RunError
        See `RunFolder.start`.
    """
    unfinished = output.with_name(output.name + UNFINISHED)
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        is_run = output.is_dir() and any((output / sign).exists() for sign in _SIGNS_OF_A_RUN)
        if not is_run:
            raise RunError("expected a run's folder or nothing, found something else", str(output), "move it away")
        if not force:
            raise RunError("a finished run stands here", str(output), "choose another output, or --force replaces it")
    if unfinished.exists() and not resume:
        _check_lock(unfinished)
        if not force:
            raise RunError(
                "an interrupted run stands here",
                str(unfinished),
                f"continue it with --resume {output}, or --force starts again",
            )


def _check_lock(unfinished: Path) -> None:
    """Refuse where a live process holds the folder; remove the lock of a dead one."""
    lock = unfinished / _LOCK
    try:
        owner = json.loads(lock.read_text(encoding="utf-8"))
        pid, host, started = owner["pid"], owner["host"], owner["started"]
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        lock.unlink(missing_ok=True)  # cut short when its writer was killed
        return
    if host != socket.gethostname():
        remedy = f"wait for it, or remove {lock} if it is dead"
        raise RunError(f"process {pid} on {host} may be running here", str(unfinished), remedy)
    if pid != os.getpid() and is_alive(pid, started):
        raise RunError(f"process {pid} is running here", str(unfinished), "wait for it, or stop it")
    lock.unlink(missing_ok=True)
