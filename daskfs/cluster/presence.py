"""Whether scheduler and workers are there while something is waited for.

Dask waits without a word for workers that never come. Whoever waits here is told so after `SILENCE_S`, and after a time
that can be set an error ends the wait. Each client has one `Presence`, which all share who use the client.
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

from daskfs import interrupts
from daskfs.errors import RunError

if TYPE_CHECKING:
    from distributed import Client

SILENCE_S = 5.0
"""After what silence it is asked who is there."""
LATE_S = 5.0
"""After what time the answer is late."""
LOST_TIMEOUT_S = 300.0
"""How long a cluster without any worker is waited for, unless the caller says how long."""
REMEDY = "start the workers again, with more memory if they were killed for it, and resume the run"
_TELL_AGAIN_S = 60.0
_LOOK_S = 0.1


def told_on_stderr(line: str) -> None:
    """Tell of workers where nobody says how."""
    print(line, file=sys.stderr)


class Presence:
    """Asks who is there.

    Parameters
    ----------
    client : Client
    tell : callable
        Takes a line about what is waited for.
    lost_timeout_s : float, optional
        How long a cluster without any worker is waited for; None: as long as it takes.
    known : callable
        Returns in words what is known of workers that were asked for: the states of jobs.
    """

    def __init__(
        self,
        client: Client,
        tell: Callable[[str], None] = told_on_stderr,
        lost_timeout_s: float | None = LOST_TIMEOUT_S,
        known: Callable[[], str] = str,
    ) -> None:
        self._client: Client = proxy(client)
        self._tell, self._lost_timeout_s, self._known = tell, lost_timeout_s, known
        self._since: float | None = None
        self._told_at = 0.0

    def n_threads(self) -> int:
        """Return the threads of all workers at present.

        Raises
        ------
        RunError
            The scheduler is gone, or has not answered for too long: it was stopped, or the network stands still.
        """
        if self._client.status != "running":
            raise scheduler_lost("cluster", ConnectionError())
        scheduler: Any = self._client.scheduler
        try:
            return sum(self._answered(scheduler.ncores()).values())
        except (OSError, CancelledError) as fault:
            raise scheduler_lost("cluster", fault) from fault

    def _answered(self, asked: Coroutine[Any, Any, Any]) -> Any:
        """Return what the scheduler answers; tell, at first and then every minute, where it does not."""
        loop: Any = self._client.loop
        coming, began, told_at = asyncio.run_coroutine_threadsafe(asked, loop.asyncio_loop), time.monotonic(), -math.inf
        limit = self._lost_timeout_s
        try:
            while True:
                if interrupts.is_done(coming, LATE_S):
                    if told_at > -math.inf:
                        self._tell("the scheduler answers again: going on")
                    return interrupts.result_of(coming)
                now = time.monotonic()
                if limit is not None and now - began > limit:
                    problem = f"the scheduler has not answered for {limit:g} s"
                    remedy = "look whether it runs and the network stands, then resume the run"
                    raise RunError(problem, "cluster", remedy)
                if now - told_at >= _TELL_AGAIN_S:
                    told_at = now
                    at_most = "" if limit is None else f" at most {limit:g} s"
                    self._tell(f"the scheduler does not answer; waiting{at_most}")
        finally:
            with interrupts.held():
                coming.cancel()

    def ask(self) -> bool:
        """Return whether there is a worker; tell, at first and then every minute, where there is none.

        Raises
        ------
        RunError
            The scheduler is gone, or the cluster has been without a worker for too long.
        """
        now = time.monotonic()
        if self.n_threads():
            if self._since is not None:
                self._tell("a worker is there again: going on")
            self._since = None
            return True
        if self._since is None:
            self._since, self._told_at = now, -_TELL_AGAIN_S
        limit, waited_s = self._lost_timeout_s, now - self._since
        known = f" ({found})" if (found := self._known()) else ""
        if limit is not None and waited_s > limit:
            problem = f"no worker is left, and none has come in {limit:g} s{known}"
            remedy = (
                "start workers and resume the run, which goes on from its checkpoint; or wait longer "
                "(cluster.lost_timeout_s)"
            )
            raise RunError(problem, "cluster", remedy)
        if waited_s - self._told_at >= _TELL_AGAIN_S:
            self._told_at = waited_s
            at_most = "" if limit is None else f" for at most {limit:g} s"
            self._tell(f"no worker is left; waiting for another{at_most}{known}")
        return False

    def ask_after(self, heard: float) -> float:
        """Ask where nothing was heard for `SILENCE_S`; return when something was heard, or asked."""
        if time.monotonic() - heard <= SILENCE_S:
            return heard
        self.ask()
        return time.monotonic()

    def wait_for_a_worker(self) -> None:
        """Return once there is one; a cluster that adapts starts one for a task alone."""
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
        """Return what Dask's loop waits for: ``client.gather(futures, asynchronous=True)``."""
        loop: Any = self._client.loop
        coming = asyncio.run_coroutine_threadsafe(result, loop.asyncio_loop)
        try:
            while not interrupts.is_done(coming, SILENCE_S):
                self.ask()
            return interrupts.result_of(coming)
        finally:
            with interrupts.held():
                coming.cancel()


def scheduler_lost(name: str, fault: BaseException) -> RunError:
    """Return the error of a scheduler that is gone."""
    return RunError(f"the scheduler was lost ({type(fault).__name__})", name, REMEDY)


_PRESENCES: WeakKeyDictionary[Client, Presence] = WeakKeyDictionary()


def presence_of(client: Client, **options: Any) -> Presence:
    """Return the presence of a client, made at first; with options, which are those of the class, made anew."""
    if options or client not in _PRESENCES:
        _PRESENCES[client] = Presence(client, **options)
    return _PRESENCES[client]
