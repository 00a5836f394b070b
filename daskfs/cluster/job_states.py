"""States of jobs in batch systems, and the last lines of job logs.

Each batch system has a command that lists jobs. A job that is no longer listed is over; a second command, if available,
says how it ended. If a command fails, the states are unknown.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

COMMAND_TIMEOUT_S = 30.0
"""Time limit for the commands of a batch system."""
N_LOG_LINES = 12
"""Number of last lines of a log that an error shows."""
_TAIL_NBYTES = 16 * 2**10


class JobState(NamedTuple):
    """State of a job."""

    text: str
    """State in the batch system's terms: ``pending (Priority)``, ``FAILED, exit code 3``."""
    is_over: bool = False
    is_cancelled: bool = False
    """Whether a user or the batch system ended the job."""
    is_ending: bool = False
    """Whether it is ending, and the batch system does not say yet how."""


class BatchSystem(NamedTuple):
    """Functions that ask a batch system for the states of jobs."""

    list_jobs: Callable[[Sequence[str]], dict[str, JobState] | None]
    """Return the states of the jobs that are listed; None if the batch system does not answer."""
    how_ended: Callable[[str], JobState | None]
    """Return how a job ended that is no longer listed; None if unknown."""

    def states(self, jobs: Sequence[str]) -> dict[str, JobState]:
        """Return the known states of jobs."""
        listed = self.list_jobs(jobs)
        if listed is None:
            return {}
        states = {}
        for job in jobs:
            state = listed.get(job)
            if state is None or state.is_over:
                state = self.how_ended(job) or state or JobState("not listed any more", is_over=True)
            states[job] = state
        return states


def state_of_slurm(state: str, reason: str = "", exit_code: str = "") -> JobState:
    """Return the state from SLURM's terms."""
    state = state.strip().partition(" ")[0].rstrip("+")
    if state in ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "SUSPENDED", "STOPPED"):
        return JobState(f"{state.lower()}{f' ({reason})' if reason not in ('', 'None') else ''}")
    if state in ("RUNNING", "RESIZING", "SIGNALING", "STAGE_OUT"):
        return JobState("running")
    if state == "COMPLETING":
        return JobState("completing", is_ending=True)
    status, _, signal = exit_code.partition(":")
    how = (
        f", exit code {status}" if status not in ("", "0") else f", signal {signal}" if signal not in ("", "0") else ""
    )
    return JobState(f"{state}{how}", is_over=True, is_cancelled=state in ("CANCELLED", "PREEMPTED"))


def _slurm_jobs(jobs: Sequence[str]) -> dict[str, JobState] | None:
    found = _said(["squeue", "--noheader", "--states=all", "--format=%A|%T|%r", f"--jobs={','.join(jobs)}"])
    if found.code != 0 and "Invalid job id" not in found.errors:
        return None
    lines = (line.strip().split("|") for line in found.output.splitlines() if line.count("|") == 2)
    return {job: state_of_slurm(state, reason) for job, state, reason in lines}


def _slurm_end(job: str) -> JobState | None:
    shown = _said(["scontrol", "--oneliner", "show", "job", job])
    words = dict(word.partition("=")[::2] for word in shown.output.split())
    if shown.code == 0 and "JobState" in words:
        return state_of_slurm(words["JobState"], words.get("Reason", ""), words.get("ExitCode", ""))
    kept = _said(["sacct", "--noheader", "--allocations", "--parsable2", "--format=State,ExitCode", f"--jobs={job}"])
    fields = kept.output.strip().partition("\n")[0].split("|")
    return state_of_slurm(fields[0], "", fields[1]) if kept.code == 0 and len(fields) == 2 else None


_PBS_LETTERS = {"Q": "queued", "H": "held", "W": "waiting", "T": "moved", "S": "suspended", "U": "suspended"}
_PBS_OVER = {"C": "complete", "F": "finished", "X": "expired"}


def states_of_pbs(table: str) -> dict[str, JobState]:
    """Parse the table of PBS's ``qstat``: job, name, user, time, letter, queue."""
    states = {}
    for line in table.splitlines():
        row = re.match(r"(\d+)\S*\s+.*\s([A-Z])\s+\S+\s*$", line)
        if row is not None:
            job, letter = row.groups()
            over = _PBS_OVER.get(letter)
            states[job] = JobState(over or _PBS_LETTERS.get(letter, "running"), is_over=over is not None)
    return states


def _pbs_jobs(jobs: Sequence[str]) -> dict[str, JobState] | None:
    found = _said(["qstat", *jobs])
    known = states_of_pbs(found.output)
    says_unknown = "Unknown Job" in found.errors or "has finished" in found.errors
    return known if found.code == 0 or known or says_unknown else None


def states_of_sge(table: str) -> dict[str, JobState]:
    """Parse the table of SGE's ``qstat``: job, priority, name, user, letters, ..."""
    states = {}
    for line in table.splitlines():
        words = line.split()
        if len(words) > 4 and words[0].isdecimal():
            letters = words[4]
            waits = "queued" if "q" in letters else "running"
            states[words[0]] = JobState(f"in an error state ({letters})" if "E" in letters else waits, "E" in letters)
    return states


def _sge_jobs(jobs: Sequence[str]) -> dict[str, JobState] | None:
    found = _said(["qstat"])
    return states_of_sge(found.output) if found.code == 0 else None


def states_of_lsf(table: str) -> dict[str, JobState]:
    """Parse the output of ``bjobs``: job, state, exit code and reason, separated by ``|``."""
    states = {}
    for line in table.splitlines():
        job, state, exit_code, reason = (*(word.strip() for word in line.split("|")), "", "", "")[:4]
        if not job.isdecimal():
            continue
        if state in ("EXIT", "DONE", "ZOMBI"):
            how = f", exit code {exit_code}" if exit_code not in ("", "-") else ""
            states[job] = JobState(f"{state}{how}", is_over=True, is_cancelled="TERM_OWNER" in reason)
        else:
            why = f" ({reason.rstrip(';')})" if state == "PEND" and reason not in ("", "-") else ""
            states[job] = JobState({"PEND": "pending", "RUN": "running"}.get(state, state.lower()) + why)
    return states


def _lsf_jobs(jobs: Sequence[str]) -> dict[str, JobState] | None:
    fields = "jobid stat exit_code pend_reason delimiter='|'"
    found = _said(["bjobs", "-a", "-noheader", "-o", fields, *jobs])
    known = states_of_lsf(found.output)
    return known if found.code == 0 or known or "is not found" in found.errors else None


def states_of_oar(text: str) -> dict[str, JobState]:
    """Parse the output of ``oarstat -s``: ``12: Running``."""
    states = {}
    for job, state in re.findall(r"(\d+)\s*:\s*(\w+)", text):
        over = state in ("Terminated", "Error", "toError")
        states[job] = JobState(state if over else state.lower(), is_over=over)
    return states


def _oar_jobs(jobs: Sequence[str]) -> dict[str, JobState] | None:
    answers = [_said(["oarstat", "-s", "-j", job]) for job in jobs]
    known = {job: state for answer in answers for job, state in states_of_oar(answer.output).items()}
    return known if known or all(answer.code == 0 for answer in answers) else None


def _cannot_tell(job: str) -> JobState | None:
    return None


BATCH_SYSTEMS = {
    "slurm": BatchSystem(_slurm_jobs, _slurm_end),
    "pbs": BatchSystem(_pbs_jobs, _cannot_tell),
    "lsf": BatchSystem(_lsf_jobs, _cannot_tell),
    "sge": BatchSystem(_sge_jobs, _cannot_tell),
    "oar": BatchSystem(_oar_jobs, _cannot_tell),
}


class _Answer(NamedTuple):
    code: int
    output: str
    errors: str


def _said(command: Sequence[str]) -> _Answer:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as fault:
        return _Answer(-1, "", str(fault))
    return _Answer(done.returncode, done.stdout, done.stderr)


def last_lines_of_logs(folders: Iterable[Path], job: str) -> list[str]:
    """Return the last lines of a job's logs, below the name of each file."""
    of_job = re.compile(rf"(?<!\d){re.escape(job)}(?!\d)")
    logs = [path for folder in folders if folder.is_dir() for path in folder.iterdir() if of_job.search(path.name)]
    shown = []
    for log in sorted({path for path in logs if path.is_file() and path.stat().st_size}):
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_NBYTES))
            lines = file.read().decode(errors="replace").splitlines()
        last = [line.rstrip() for line in lines if line.strip()][-N_LOG_LINES:]
        shown += [f"the last lines of {log}:", *(f"  {line}" for line in last)]
    return shown
