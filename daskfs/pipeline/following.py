"""Follow runs of other processes through the files in their folders: progress, outcome, or death of the process."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from daskfs.errors import RunError
from daskfs.files import LockOwner, read_document
from daskfs.pipeline.folder import STATUS, UNFINISHED, resume_command
from daskfs.watching.state import State
from daskfs.watching.words import shown_seconds

SILENT_AFTER_S = 300.0
"""Seconds without a heartbeat after which a run is reported as silent."""
POLL_S = 1.0
ENDING_S = 10.0
"""Seconds for which a run may be invisible while its folder is renamed."""
_MAX_STATUS_NBYTES, _MAX_RESULT_NBYTES = 1 << 20, 1 << 30
_NAMES_SHOWN = 8

Kind = Literal["running", "silent", "gone", "stopped", "finished", "nowhere"]


@dataclass(frozen=True)
class Seen:
    """State of a run at one moment, from its folder."""

    folder: Path
    """Path of the folder when the run is finished."""
    kind: Kind
    document: dict[str, Any]
    """Content of the status file; empty if there is none."""
    state: State | None = None
    message: str = ""
    exit_code: int | None = None
    """Exit code of the run; None while it is running."""
    silent_s: float = 0.0

    def to_text(self) -> str:
        """Return a few lines of text for the user."""
        lines = [f"{self.folder}: {self.message}"]
        state = self.state
        if state is not None and self.kind in ("running", "silent"):
            lines.append(f"  {state.to_line()}")
            if state.objective:
                (_, first), (at, last) = state.objective[0], state.objective[-1]
                lines.append(f"  objective {last:.6g} at {state.axis} {at:g}, {first:.6g} at first")
            if state.n_selected:
                names = [*state.selected[:_NAMES_SHOWN], *["..."] * (state.n_selected > _NAMES_SHOWN)]
                lines.append(f"  {state.n_selected:,} selected so far: {', '.join(names)}")
            if state.memory:
                lines.append(f"  memory: {state.memory_line()}")
            if state.dashboard:
                lines.append(f"  dashboard: {state.dashboard}")
        return "\n".join(lines)

    def to_document(self) -> dict[str, Any]:
        """Return a JSON-serialisable document."""
        known = {"run": str(self.folder), "kind": self.kind, "message": self.message, "exit_code": self.exit_code}
        return known | {"silent_s": self.silent_s, "status": self.document}


def look(folder: Path, now: float) -> Seen:
    """Return the state of a run from its folder.

    Parameters
    ----------
    folder : Path
        Run folder, with or without the suffix of an unfinished run.
    now : float
        Seconds since the epoch.
    """
    folder = folder.with_name(folder.name.removesuffix(UNFINISHED))
    unfinished = folder.with_name(folder.name + UNFINISHED)
    status = _status_of(unfinished / STATUS)
    if status is None:
        if (folder / "result.json").exists():
            return Seen(folder, "finished", {}, None, f"finished; {folder / 'report.html'}", 0)
        if unfinished.is_dir():
            message = f"unfinished, no heartbeat: if no process runs it, continue it with {resume_command(folder)}"
            return Seen(folder, "nowhere", {}, None, message)
        return Seen(folder, "nowhere", {}, None, "no run found")
    document, state, owner = status
    silent_s = max(0.0, now - float(document["heartbeat"]))
    where = f"on {owner.host}, process {owner.pid}"
    remedy = f"continue it with {resume_command(folder)}"
    if document["outcome"] == "stopped":
        message = f"stopped: {document.get('message')}; {remedy}"
        return Seen(folder, "stopped", document, state, message, int(document.get("exit_code", 1)), silent_s)
    if owner.is_here and not owner.is_alive:
        message = f"no heartbeat for {shown_seconds(silent_s)}: {where}, which has ended; {remedy}"
        return Seen(folder, "gone", document, state, message, 1, silent_s)
    if silent_s > SILENT_AFTER_S:
        message = f"no heartbeat for {shown_seconds(silent_s)}: {where}"
        if owner.is_here:
            message += ", which exists but does not respond (stopped, or out of memory or disk?)"
        else:
            message += f"; check there whether it still runs, and if not {remedy}"
        return Seen(folder, "silent", document, state, message, None, silent_s)
    message = f"running for {shown_seconds(now - float(document['started']))} {where}"
    return Seen(folder, "running", document, state, message, None, silent_s)


def runs_in(folder: Path) -> list[Path]:
    """Return the run at a path, or the unfinished runs in the folder.

    Raises
    ------
    RunError
        There is no run.
    """
    plain = folder.with_name(folder.name.removesuffix(UNFINISHED)) if folder.name else folder
    if (plain / "result.json").exists() or plain.with_name(plain.name + UNFINISHED).is_dir():
        return [plain]
    found = sorted(folder.glob(f"*{UNFINISHED}/{STATUS}")) if folder.is_dir() else []
    if not found:
        problem = "expected a run folder, or a folder with unfinished runs, found neither"
        raise RunError(problem, str(folder), "pass the `output` of the pipeline, or its parent folder")
    return [path.parent.with_name(path.parent.name.removesuffix(UNFINISHED)) for path in found]


def follow(
    folders: list[Path], now: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep
) -> Iterator[list[Seen]]:
    """Yield the states of runs repeatedly until all have ended.

    A run whose folder has disappeared for a while has ended without leaving files.
    """
    was_seen = dict.fromkeys(folders, now())
    while True:
        seen = []
        for folder in folders:
            one = look(folder, now())
            if one.kind != "nowhere":
                was_seen[folder] = now()
            elif now() - was_seen[folder] > ENDING_S:
                message = "the run has ended without leaving files; the reason was printed where it was started"
                one = Seen(one.folder, "nowhere", {}, None, message, 1)
            seen.append(one)
        yield seen
        if all(one.exit_code is not None for one in seen):
            return
        sleep(POLL_S)


def _status_of(path: Path) -> tuple[dict[str, Any], State, LockOwner] | None:
    """Read a status file; return None if it is missing or invalid."""
    try:
        document = read_document(path, _MAX_STATUS_NBYTES)
        owner = LockOwner(int(document["pid"]), str(document["host"]), float(document["process_started"]))
        times = float(document["heartbeat"]), float(document["started"])
        if document["outcome"] not in ("running", "stopped") or not all(map(math.isfinite, times)) or owner.pid <= 0:
            return None
        return document, State.from_document(document["state"]), owner
    except (OSError, ValueError, KeyError, TypeError):
        return None


def json_line(seen: list[Seen]) -> str:
    """Return a line of JSON: an object for one run, a list of objects for several."""
    documents = [one.to_document() for one in seen]
    return json.dumps(documents[0] if len(documents) == 1 else documents)
