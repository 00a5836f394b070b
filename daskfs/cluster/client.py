"""What every use of a `distributed.Client` shares: its threads, what is sent once, errors that say what was lost."""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from daskfs.errors import RunError

if TYPE_CHECKING:
    from distributed import Client

SILENCE_S = 5.0
"""After what silence the scheduler is asked whether it is there."""

_INLINE_NBYTES = 64 * 2**10
"""Shared arguments up to this size travel with each task: an address survives any worker's death."""

_TRIES = 3
"""How often something is sent where workers are lost meanwhile."""
_MOST_LOSSES = 4
"""As Dask has it of a task: the fourth death is the last that is repaired."""

_REMEDY = "start the workers again, with more memory if they were killed for it, and resume the run"


def threads_of(client: Client) -> int:
    """Return the threads of all workers at present, at least one.

    Raises
    ------
    RunError
        The scheduler is gone.
    """
    if client.status != "running":
        raise _scheduler_lost("cluster", ConnectionError())
    try:
        with cluster_errors("cluster"):
            return max(1, sum(client.nthreads().values()))
    except OSError as fault:
        raise _scheduler_lost("cluster", fault) from fault


class Sent:
    """What was sent to the workers of a client, once for all tasks that take it; sent again where all its copies are lost.

    Dask knows how to make again what tasks have returned, and not what it was given.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._arguments: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def keep(self, argument: Any) -> Any:
        """Return a small argument as it is, a large one as what stands for it once it lies on every worker."""
        from distributed import Future

        if isinstance(argument, Future):  # kept before
            return argument
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(argument, protocol=5, buffer_callback=buffers.append)
        nbytes = len(head) + sum(buffer.raw().nbytes for buffer in buffers)
        if nbytes <= _INLINE_NBYTES:
            return argument
        future = self._send(f"{type(argument).__name__}-{uuid.uuid4().hex}", argument)
        self._arguments[future] = argument
        return future

    def send_again(self, kept: Sequence[Any]) -> None:
        """Send what no worker has any more, under its old name: whoever refers to it has it again.

        Raises
        ------
        RunError
            The scheduler is gone.
        """
        from distributed import Future

        threads_of(self._client)
        futures = [one for one in kept if isinstance(one, Future)]
        scheduler: Any = self._client.scheduler
        homes = self._client.sync(scheduler.who_has, keys=[one.key for one in futures])
        for one in futures:
            if not homes.get(one.key) and one in self._arguments:
                self._send(one.key, self._arguments[one])

    def _send(self, key: str, argument: Any) -> Any:
        for n_left in reversed(range(_TRIES)):
            if not self._client.nthreads():  # a task has a cluster that adapts start a worker, and waits for it
                self._client.submit(os.getpid, pure=False).result()
            try:
                return self._client.scatter({key: argument}, broadcast=True)[key]
            except OSError:  # a worker was lost meanwhile
                if not n_left:
                    raise
                threads_of(self._client)  # raises where the scheduler is gone
        raise AssertionError


@dataclass
class Losses:
    """How often in a row tasks were forgotten, together with what they were to take."""

    name: str
    n: int = 0

    def count(self, fault: BaseException) -> None:
        """Count one more.

        Raises
        ------
        RunError
            There were too many: the tasks themselves may be what kills the workers.
        """
        self.n += 1
        if self.n > _MOST_LOSSES:
            problem = f"the workers died {self.n} times with what they were sent"
            raise RunError(problem, self.name, _REMEDY) from fault


def released(*kept: Any) -> None:
    """Release what is a future among these, whoever still refers to it: the traceback of an error does."""
    from distributed import Future

    for one in kept:
        if isinstance(one, Future):
            one.release()


@contextmanager
def cluster_errors(name: str) -> Iterator[None]:
    """Say in one line what a lost cluster means."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker as fault:
        raise RunError(
            f"the workers died {fault.allowed_failures + 1} times on the task {_shown(fault.task)}", name, _REMEDY
        ) from fault
    except (CancelledError, CommClosedError, TimeoutError) as fault:
        raise _scheduler_lost(name, fault) from fault


def _scheduler_lost(name: str, fault: BaseException) -> RunError:
    return RunError(f"the scheduler was lost ({type(fault).__name__})", name, _REMEDY)


def _shown(key: Any) -> str:
    return str(key[0] if isinstance(key, tuple) else key)
