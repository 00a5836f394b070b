"""What every use of a `distributed.Client` shares: its threads, what is sent once, errors that say what was lost."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from daskfs.cluster.presence import REMEDY, presence_of, scheduler_lost
from daskfs.errors import RunError

if TYPE_CHECKING:
    from distributed import Client

_INLINE_NBYTES = 64 * 2**10
"""Shared arguments up to this size travel with each task: an address survives any worker's death."""
_MOST_TRIES = 5
_COPIES_OF_EACH = 2
"""How many workers fetch what is kept from each that has it: a tree, and nobody sends it to all."""


def threads_of(client: Client) -> int:
    """Return the threads of all workers at present, at least one.

    Raises
    ------
    RunError
        The scheduler is gone.
    """
    return max(1, presence_of(client).n_threads())


def kept_on(client: Client, argument: Any) -> Any:
    """Return a small argument as it is, a large one as what stands for it once it lies on every worker."""
    from distributed import Future

    if isinstance(argument, Future):  # kept before
        return argument
    if pickled_nbytes(argument) <= _INLINE_NBYTES:
        return argument
    presence = presence_of(client)
    for n_left in reversed(range(_MOST_TRIES)):
        presence.wait_for_a_worker()
        try:
            (kept,) = presence.awaited(client.scatter([argument], hash=False, asynchronous=True))
            _spread(client, kept)
        except (OSError, KeyError):  # the worker that was to have it first has just died
            if not n_left:
                raise
        else:
            return kept


def _spread(client: Client, kept: Any) -> None:
    """Have every worker fetch what one has.

    Not by Dask's broadcast, which copies to workers that have just died for ever, nor by tasks, for which workers may
    have no thread.
    """
    with_it = [address for holders in client.who_has([kept]).values() for address in holders]
    without = [address for address in client.nthreads() if address not in with_it]
    while without:
        if not with_it:
            raise KeyError(kept.key)
        n_now = _COPIES_OF_EACH * len(with_it)
        now, without = without[:n_now], without[n_now:]
        with_it += client.run(_fetch, kept.key, with_it, workers=now, on_error="ignore")


async def _fetch(key: Any, holders: Sequence[str], dask_worker: Any) -> None:
    """Fetch what is kept; one that cannot will do so with its first task."""
    await dask_worker.gather(who_has={key: holders})


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
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker as fault:
        raise RunError(
            f"the workers died {fault.allowed_failures + 1} times on the task {_shown(fault.task)}", name, REMEDY
        ) from fault
    except (CancelledError, CommClosedError, TimeoutError) as fault:
        raise scheduler_lost(name, fault) from fault


def _shown(key: Any) -> str:
    return str(key[0] if isinstance(key, tuple) else key)
