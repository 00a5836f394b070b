"""What every use of a `distributed.Client` shares: its threads, what is sent once, errors that say what was lost."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from daskfs.errors import RunError

if TYPE_CHECKING:
    from distributed import Client

SILENCE_S = 5.0
"""After what silence the scheduler is asked whether it is there."""

_INLINE_NBYTES = 64 * 2**10
"""Shared arguments up to this size travel with each task: an address survives any worker's death."""

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


def kept_on(client: Client, argument: Any) -> Any:
    """Return a small argument as it is, a large one as what stands for it once it lies on every worker."""
    from distributed import Future

    if isinstance(argument, Future):  # kept before
        return argument
    if pickled_nbytes(argument) <= _INLINE_NBYTES:
        return argument
    return client.scatter(argument, broadcast=True, hash=False)


def pickled_nbytes(argument: Any) -> int:
    """Return what travels of an argument; its arrays are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(argument, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)


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
