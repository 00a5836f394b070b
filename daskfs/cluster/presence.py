"""Check that the scheduler and workers are alive while waiting for results.

Dask waits silently for workers that never come. Here a message is shown after `SILENCE_S`, and after a configurable
time an error ends the wait. Each client has one `Presence`, shared by all users of the client.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, proxy

from daskfs import errors, interrupts

if TYPE_CHECKING:
    from distributed import Client

RunError = errors.RunError.about("clusters")

SILENCE_S = 5.0
"""Seconds without a result after which the scheduler is asked for its workers."""
LATE_S = 5.0
"""Seconds after which an answer of the scheduler is reported as late."""
LOST_TIMEOUT_S = 300.0
"""Default number of seconds to wait for workers of a cluster that has none."""
REMEDY = "start the workers again, with more memory if they were killed for it, and resume the run"
_TELL_AGAIN_S = 60.0
_LOOK_S = 0.1


def print_to_stderr(line: str) -> None:
    """Print a message about workers; the default for `tell`."""
    print(line, file=sys.stderr)


class Presence:
    """Checks which workers are alive.

    Parameters
    ----------
    client : Client
    tell : callable
        Receives a message about waiting.
    lost_timeout_s : float, optional
        Maximum seconds to wait for workers of a cluster that has none; None: no limit.
    known : callable
        Returns a text about requested workers, such as the states of their jobs.
    """

    def __init__(
        self,
        client: Client,
        tell: Callable[[str], None] = print_to_stderr,
        lost_timeout_s: float | None = LOST_TIMEOUT_S,
        known: Callable[[], str] = str,
    ) -> None:
        self._client: Client = proxy(client)
        self._tell, self._lost_timeout_s, self._known = tell, lost_timeout_s, known
        self._since: float | None = None
        self._reported_at = 0.0

    def n_threads(self) -> int:
        """Return the current number of threads of all workers; see `asked`."""
        return sum(self.asked("ncores").values())

    def asked(self, what: str, **options: Any) -> Any:
        """Return what the scheduler answers: "ncores", the threads of each worker, or "processing", their tasks.

        Raises
        ------
        RunError
            The scheduler is gone, or has not answered for too long because it was stopped or the network is down.
        """
        if self._client.status != "running":
            raise scheduler_lost("cluster", ConnectionError())
        scheduler: Any = self._client.scheduler
        try:
            return self._answered(getattr(scheduler, what)(**options))
        except (OSError, CancelledError) as fault:
            raise scheduler_lost("cluster", fault) from fault

    def _answered(self, asked: Coroutine[Any, Any, Any]) -> Any:
        """Return the answer of the scheduler; report at once and then every minute if it does not answer."""
        loop: Any = self._client.loop
        coming = asyncio.run_coroutine_threadsafe(asked, loop.asyncio_loop)
        began, reported_at = time.monotonic(), -math.inf
        limit = self._lost_timeout_s
        try:
            while True:
                if interrupts.is_done(coming, LATE_S):
                    if reported_at > -math.inf:
                        self._tell("the scheduler answers again: continuing")
                    return interrupts.result_of(coming)
                now = time.monotonic()
                if limit is not None and now - began > limit:
                    problem = f"the scheduler has not answered for {limit:g} s"
                    remedy = "check that it runs and that the network is up, then resume the run"
                    raise RunError(problem, "cluster", remedy)
                if now - reported_at >= _TELL_AGAIN_S:
                    reported_at = now
                    at_most = "" if limit is None else f" at most {limit:g} s"
                    self._tell(f"the scheduler does not answer; waiting{at_most}")
        finally:
            with interrupts.held():
                coming.cancel()

    def ask(self) -> bool:
        """Return whether there is a worker; report at once and then every minute if there is none.

        Raises
        ------
        RunError
            The scheduler is gone, or the cluster has been without a worker for too long.
        """
        now = time.monotonic()
        if self.n_threads():
            if self._since is not None:
                self._tell("a worker is available again: continuing")
            self._since = None
            return True
        if self._since is None:
            self._since, self._reported_at = now, -_TELL_AGAIN_S
        limit, waited_s = self._lost_timeout_s, now - self._since
        known = f" ({found})" if (found := self._known()) else ""
        if limit is not None and waited_s > limit:
            problem = f"no worker is left, and none has started within {limit:g} s{known}"
            remedy = (
                "start workers and resume the run, which continues from its checkpoint; or wait longer "
                "(cluster.lost_timeout_s)"
            )
            raise RunError(problem, "cluster", remedy)
        if waited_s - self._reported_at >= _TELL_AGAIN_S:
            self._reported_at = waited_s
            at_most = "" if limit is None else f" for at most {limit:g} s"
            self._tell(f"no worker is left; waiting for a new one{at_most}{known}")
        return False

    def ask_after(self, heard: float) -> float:
        """Ask if nothing was received for `SILENCE_S`; return the time of the last message or question."""
        if time.monotonic() - heard <= SILENCE_S:
            return heard
        self.ask()
        return time.monotonic()

    def wait_for_a_worker(self) -> None:
        """Wait until there is a worker. An adaptive cluster starts a worker only for a task, so one is submitted."""
        if self.n_threads():
            return
        heard, task = time.monotonic(), self._client.submit(os.getpid, pure=False)
        try:
            while not self.n_threads():
                heard = self.ask_after(heard)
                time.sleep(_LOOK_S)
        finally:
            task.release()

    def awaited(self, result: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of a coroutine of Dask's loop, such as ``client.gather(futures, asynchronous=True)``."""
        loop: Any = self._client.loop
        coming = asyncio.run_coroutine_threadsafe(result, loop.asyncio_loop)
        try:
            while not interrupts.is_done(coming, SILENCE_S):
                self.ask()
            return interrupts.result_of(coming)
        finally:
            with interrupts.held():
                coming.cancel()


def scheduler_lost(name: str, fault: BaseException) -> errors.RunError:
    """Return the error for a lost scheduler."""
    return RunError(f"the scheduler was lost ({type(fault).__name__})", name, REMEDY)


_PRESENCES: WeakKeyDictionary[Client, Presence] = WeakKeyDictionary()


def presence_of(client: Client, **options: Any) -> Presence:
    """Return the presence of a client. It is made on first use, and made anew with options, which the class takes."""
    if options or client not in _PRESENCES:
        _PRESENCES[client] = Presence(client, **options)
    return _PRESENCES[client]
