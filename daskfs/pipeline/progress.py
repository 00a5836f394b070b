"""The log of a run, and its status file, through which other processes follow the run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from daskfs.errors import DaskfsError
from daskfs.files import LockOwner
from daskfs.pipeline.folder import STATUS
from daskfs.version import __version__
from daskfs.watching.base import Progress
from daskfs.watching.state import State
from daskfs.watching.terminal import LINE_EVERY_S
from daskfs.watching.watch import Viewer, Watch, watch_of

STATUS_EVERY_S = 2.0
INTERRUPTED = 130


class RunLog(Viewer):
    """Log of a run: lines with date and time, at least one per minute."""

    every_s = LINE_EVERY_S

    def __init__(self, log: TextIO) -> None:
        self._log = log

    def began(self, state: State) -> None:
        """Log the start of a step."""
        if state.step is not None:
            self.noted(f"{state.step.name}: {state.step.total:,} to do")

    def ended(self, state: State) -> None:
        """Log the duration of a step."""
        if state.step is not None:
            self.noted(f"{state.step.name}: done in {state.step_seconds:.2f} s")

    def beat(self, state: State) -> None:
        """Log the progress."""
        memory = state.memory_line()
        with suppress(OSError):  # a full disk is reported by the run itself
            self.noted(state.to_line() + (f"; memory: {memory}" if memory else ""))

    def noted(self, text: str) -> None:
        """Log a line of text."""
        print(f"{datetime.now().astimezone().isoformat(timespec='seconds')}  {text}", file=self._log, flush=True)


class StatusFile(Viewer):
    """Status file of a run, written atomically. Only its owner can read it, as it contains the dashboard's address.

    Parameters
    ----------
    path : Path
    now : callable
        Function that returns the seconds since the epoch.
    """

    every_s = STATUS_EVERY_S

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = path, now
        self._owner, self._started = LockOwner.this_process(), now()

    def beat(self, state: State) -> None:
        """Write the current state."""
        self._write({"outcome": "running"}, state)

    def end(self, state: State, fault: BaseException) -> None:
        """Write the error that stopped the run."""
        message = str(fault) or type(fault).__name__
        code = INTERRUPTED if isinstance(fault, KeyboardInterrupt) else getattr(fault, "exit_code", 1)
        if not isinstance(fault, DaskfsError):
            message = "interrupted" if isinstance(fault, KeyboardInterrupt) else f"{type(fault).__name__}: {fault}"
        self._write({"outcome": "stopped", "message": message, "exit_code": code}, state)

    def _write(self, outcome: dict[str, Any], state: State) -> None:
        """Replace the file. It is not flushed to disk, since only a heartbeat can be lost."""
        known = {"daskfs": __version__, "pid": self._owner.pid, "host": self._owner.host}
        known |= {"process_started": self._owner.started, "started": self._started, "heartbeat": self._now()}
        draft = self._path.with_name(f".{self._path.name}.tmp")
        with suppress(OSError):
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({**known, **outcome, "state": state.to_document()}, file)
            draft.replace(self._path)


@contextmanager
def watched(folder: Path, name: str, progress: Progress | None) -> Iterator[Watch]:
    """Write the log and the status file of a run during the block.

    The log of a resumed run is appended to. If the run stops with an error, the last line of the log says so.

    Parameters
    ----------
    folder : Path
        The unfinished run folder.
    name : str
    progress : Progress, optional
        Further receiver of progress.
    """
    watch, status = watch_of(progress), StatusFile(folder / STATUS)
    watch.name = name
    with (folder / "run.log").open("a", encoding="utf-8") as log, watch.seen_by(RunLog(log), status), watch.beating():
        status.beat(watch.state)
        try:
            yield watch
        except BaseException as fault:
            status.end(watch.state, fault)
            with suppress(OSError):  # the disk may be full
                watch.say(f"stopped: {fault or type(fault).__name__}")
            raise
