"""Watch jobs of a batch system: report waiting jobs, replace jobs that end, and end the run if jobs cannot start.

Dask's cluster knows workers but not the states of jobs. A thread compares the two. It asks the batch system only for
jobs without workers, first often and then more rarely.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daskfs import errors, interrupts
from daskfs.cluster.job_states import BATCH_SYSTEMS, JobState, last_lines_of_logs

RunError = errors.RunError.about("clusters")

_LOOK_S = 0.25
"""Seconds between counts of workers, in this process."""
_FIRST_ASK_S, _LAST_ASK_S, _LONGER = 1.0, 15.0, 1.25
"""Intervals between questions to a batch system: the first, the longest, and the ratio of consecutive intervals."""
_MOST_FAILURES = 3
"""Number of consecutive jobs that may be refused or end without a worker before a run without workers is given up."""
_LONGEST_PAUSE_S = 300.0
_TELL_AGAIN_S = 60.0
"""Seconds after which an unchanged message is repeated."""
_MOST_NAMED = 6


class JobWatch:
    """Watches the jobs of a cluster while it is open.

    Parameters
    ----------
    kind : str
        The batch system: a key of `BATCH_SYSTEMS`.
    logs : Path
        The folder of the jobs' logs.
    n_workers : int
        Number of wanted worker processes.
    tell : callable
        Receives messages about jobs.
    """

    def __init__(self, kind: str, logs: Path, n_workers: int, tell: Callable[[str], None]) -> None:
        self.fault: errors.RunError | None = None
        """Reason why there will be no workers; raised by any wait for them."""
        self.n_up = 0
        """Current number of workers."""
        self._kind, self._logs, self._n_workers, self._tell = kind, logs, n_workers, tell
        self._system = BATCH_SYSTEMS[kind]
        self._cluster: Any = None
        self._n_jobs: int | None = None
        self._had_workers: set[str] = set()
        self._refused: dict[str, str] = {}
        self._gone: set[str] = set()
        self._to_replace: set[str] = set()
        self._n_failures = 0
        self._retry_at = self._ask_at = 0.0
        self._interval = _FIRST_ASK_S
        self._seen: frozenset[str] = frozenset()
        self._last_report, self._reported_at = "", 0.0
        self._waiting: list[str] = []

    def watched(self, job_cls: type) -> type:
        """Return a subclass that records refused jobs, which Dask only logs."""
        from distributed import Status

        watch = self

        class WatchedJob(job_cls):  # type: ignore[misc, valid-type]
            async def start(self) -> None:
                try:
                    await super().start()
                except Exception as fault:
                    self.status = Status.failed
                    watch._refused[self.name] = f"the batch system refused a job: {_reason(fault)}"

        return WatchedJob

    @contextmanager
    def watching(self, cluster: Any, n_jobs: int | None) -> Iterator[None]:
        """Watch the jobs of a cluster. Submit `n_jobs` and keep their number; None if Dask adapts it.

        Raises
        ------
        RunError
            No worker can start; replaces the errors that this has caused.
        """
        self._cluster, self._n_jobs = cluster, n_jobs
        if n_jobs is not None:
            cluster.scale(jobs=n_jobs)
        try:
            with interrupts.beside(self._watch, "daskfs-jobs"):
                yield
        except Exception as fault:
            if self.fault is not None and fault is not self.fault:
                raise self.fault from fault
            raise

    def wait(self, n_workers: int, timeout_s: float | None) -> None:
        """Wait until there are `n_workers` workers, or until the timeout if there is at least one.

        Raises
        ------
        RunError
            There is no worker after the timeout, or no worker can start.
        """
        since = time.monotonic()
        while self.n_up < n_workers:
            if self.fault is not None:
                raise self.fault
            if timeout_s is not None and time.monotonic() - since > timeout_s:
                if self.n_up:
                    self._tell(
                        f"{self.n_up} of {n_workers} workers are available after {timeout_s:g} s: continuing with these"
                    )
                    return
                problem = f"no worker after {timeout_s:g} s ({self._last_report or 'no job was accepted'})"
                remedy = "wait longer (cluster.wait_timeout_s), or request less from the batch system"
                raise RunError(problem, "cluster", remedy)
            time.sleep(0.02)

    def known(self) -> str:
        """Return the last known states of jobs without workers as text."""
        return ", ".join(self._waiting)

    def _watch(self, is_over: Callable[[float], bool]) -> None:
        while True:
            try:
                self._look()
            except Exception as fault:  # else the run would wait silently
                self._give_up(f"the jobs cannot be watched ({type(fault).__name__}: {fault})", "report this")
            if self.fault is not None or is_over(_LOOK_S):
                return

    def _look(self) -> None:
        cluster, now = self._cluster, time.monotonic()
        names = [str(worker.name) for worker in list(cluster.scheduler.workers.values())]
        jobs = {name: job for name, job in dict(cluster.workers).items() if name not in self._gone}
        up = {name if name in jobs else name.rpartition("-")[0] for name in names}
        self.n_up = len(names)
        if up - self._had_workers:
            self._n_failures = 0
        self._had_workers |= up
        for name in [*self._refused]:
            self._failed(name, self._refused.pop(name))
        silent = {name: job.job_id for name, job in jobs.items() if name not in up and job.job_id is not None}
        if frozenset(silent) != self._seen:
            self._seen, self._interval, self._ask_at = frozenset(silent), _FIRST_ASK_S, now
        if silent and now >= self._ask_at:
            states = self._system.states([*silent.values()])
            for name, job_id in silent.items():
                state = states.get(job_id)
                if state is not None and (state.is_over or (state.is_ending and name in self._had_workers)):
                    self._job_ended(name, job_id, state)
            had = {job_id for name, job_id in silent.items() if name in self._had_workers}
            waiting = {job: state.text for job, state in states.items() if not state.is_over}
            self._tell_waiting({job: _in_words(text, had_workers=job in had) for job, text in waiting.items()})
            self._ask_at = time.monotonic() + self._interval
            self._interval = min(_LAST_ASK_S, _LONGER * self._interval)
        elif not silent and self._last_report and self.n_up:
            self._tell(f"{_counted(self.n_up, 'worker is', 'workers are')} available")
            self._last_report = ""
        if self._to_replace and now >= self._retry_at and self.fault is None:
            cluster.loop.add_callback(self._replace, frozenset(self._to_replace))
            self._to_replace.clear()

    def _replace(self, names: frozenset[str]) -> None:
        """Remove jobs from Dask's cluster and submit new ones; runs in the cluster's loop."""
        for name in names:
            self._cluster.worker_spec.pop(name, None)
        self._cluster.scale(jobs=len(self._cluster.worker_spec) if self._n_jobs is None else self._n_jobs)

    def _job_ended(self, name: str, job_id: str, state: JobState) -> None:
        if name in self._had_workers:
            how = "is ending" if state.is_ending else f"is over ({state.text})"
            self._tell(f"job {job_id} {how}; submitting another")
            self._let_go(name)
        elif state.is_cancelled:
            self._failed(name, f"job {job_id} was cancelled before its worker started ({state.text})", may_pass=True)
        else:
            shown = last_lines_of_logs([self._logs, Path.cwd()], job_id)
            if not shown:
                shown = [f"there is no log in {self._logs}: all nodes must share this folder (cluster.log_directory)"]
            problem = f"job {job_id} ended before its worker started ({state.text})"
            self._failed(name, problem, "prologue, python, interface, directives", "\n".join(shown))

    def _failed(
        self,
        name: str,
        problem: str,
        settings: str = "queue, account, walltime, memory, directives",
        ending: str = "",
        *,
        may_pass: bool = False,
    ) -> None:
        """Give up the run or submit another job, after a growing pause if jobs fail repeatedly."""
        self._n_failures += 1
        if not self.n_up and (self._n_failures > _MOST_FAILURES or not (self._had_workers or may_pass)):
            self._give_up(problem, f"`daskfs plan PIPELINE.yaml` prints the script; see cluster.{settings}", ending)
            return
        self._tell(f"{problem}; submitting another")
        self._let_go(name)
        self._retry_at = time.monotonic() + min(_LONGEST_PAUSE_S, 2.0**self._n_failures - 1.0)

    def _let_go(self, name: str) -> None:
        self._gone.add(name)
        self._to_replace.add(name)

    def _give_up(self, problem: str, remedy: str, ending: str = "") -> None:
        """Record why there will be no workers, and close the scheduler, which ends all waiting."""
        self.fault = RunError(problem, "cluster", f"{remedy}\n{ending}" if ending else remedy)
        self._cluster.shutdown_scheduler = False  # else closing it would wait for an answer
        self._cluster.loop.add_callback(self._cluster.scheduler.close)

    def _tell_waiting(self, states: dict[str, str]) -> None:
        by_text: dict[str, list[str]] = {}
        for job in sorted(states, key=lambda job: (len(job), job)):
            by_text.setdefault(states[job], []).append(job)
        self._waiting = jobs = [f"{_named(found)} {text}" for text, found in by_text.items()]
        line = ", ".join([f"waiting for workers: {self.n_up} of {max(self._n_workers, self.n_up)}", *jobs])
        now = time.monotonic()
        if jobs and (line != self._last_report or now - self._reported_at > _TELL_AGAIN_S):
            self._last_report, self._reported_at = line, now
            self._tell(line)


def _named(jobs: list[str]) -> str:
    shown, n_more = ", ".join(jobs[:_MOST_NAMED]), len(jobs) - _MOST_NAMED
    return f"{'job' if len(jobs) == 1 else 'jobs'} {shown}" + (f" and {n_more} more" if n_more > 0 else "")


def _in_words(text: str, *, had_workers: bool) -> str:
    """Return the state of a job without workers; "running" means that it is starting or ending."""
    return text if text != "running" else "ending" if had_workers else "starting"


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _reason(fault: Exception) -> str:
    """Return the error of a command: the last line of its stderr, at the end of dask-jobqueue's message."""
    said = str(fault).partition("stderr:\n")[2].strip() or str(fault).strip() or type(fault).__name__
    return said.splitlines()[-1]
