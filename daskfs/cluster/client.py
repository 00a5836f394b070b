"""What every use of a `distributed.Client` shares: its threads, what is sent once, errors that say what was lost."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from daskfs import interrupts
from daskfs.cluster.presence import REMEDY, presence_of, scheduler_lost
from daskfs.errors import RunError

if TYPE_CHECKING:
    from distributed import Client

_INLINE_NBYTES = 64 * 2**10
"""Shared arguments up to this size travel with each task: an address survives any worker's death."""
_MOST_TRIES = 5
_MOST_LOSSES = 4
"""As Dask has it of a task: the third death is the last that is repaired."""
_REASONS_OF_LOST_DATA = ("already forgotten", "lost dependencies")
"""As a scheduler that is there gives them."""
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
    future = _sent(client, f"{type(argument).__name__}-{uuid.uuid4().hex}", argument)
    _ARGUMENTS[future] = argument
    return future


_ARGUMENTS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""What futures stand for that were sent: Dask knows how to make again what tasks have returned, and not what it got."""


def sent_for(kept: Any) -> Any:
    """Return the argument that `kept_on` has sent, or what it has returned as it was."""
    return _ARGUMENTS.get(kept, kept) if _futures_among([kept]) else kept


def send_again(client: Client, kept: Sequence[Any]) -> None:
    """Send what no worker has any more under its old name: whoever refers to it has it again.

    Raises
    ------
    RunError
        The scheduler is gone.
    """
    threads_of(client)
    sent = {one.key: one for one in _futures_among(kept) if one in _ARGUMENTS}
    scheduler: Any = client.scheduler
    # client.who_has looks at what it believes to be there
    homes = interrupts.call_aside(client.sync, scheduler.who_has, keys=[*sent])
    for key, one in sent.items():
        if not homes.get(key):
            _sent(client, key, _ARGUMENTS[one])


def _sent(client: Client, key: str, argument: Any) -> Any:
    """Have an argument lie on every worker."""
    presence = presence_of(client)
    for n_left in reversed(range(_MOST_TRIES)):
        presence.wait_for_a_worker()
        try:
            kept = presence.awaited(client.scatter({key: argument}, hash=False, asynchronous=True))[key]
            _spread(client, kept)
        except (OSError, KeyError):  # the worker that was to have it first has just died
            if not n_left:
                raise
        else:
            return kept


@dataclass
class Losses:
    """How often in a row tasks were forgotten together with what they were to take."""

    name: str
    n: int = 0

    def count(self, fault: BaseException | None = None) -> None:
        """Count one more.

        Raises
        ------
        RunError
            There were too many: the tasks themselves may be what kills the workers.
        """
        self.n += 1
        if self.n >= _MOST_LOSSES:
            problem = f"the workers died {self.n} times with what they were sent"
            raise RunError(problem, self.name, REMEDY) from fault


def _spread(client: Client, kept: Any) -> None:
    """Have every worker fetch what one has.

    Not by Dask's broadcast, which copies to workers that have just died for ever, nor by tasks, for which workers may
    have no thread.
    """
    with_it = [address for holders in interrupts.call_aside(client.who_has, [kept]).values() for address in holders]
    without = [address for address in interrupts.call_aside(client.nthreads) if address not in with_it]
    while without:
        if not with_it:
            raise KeyError(kept.key)
        n_now = _COPIES_OF_EACH * len(with_it)
        now, without = without[:n_now], without[n_now:]
        with_it += interrupts.call_aside(client.run, _fetch, kept.key, with_it, workers=now, on_error="ignore")


async def _fetch(key: Any, holders: Sequence[str], dask_worker: Any) -> None:
    """Fetch what is kept; one that cannot will do so with its first task.

    The scheduler is told: what it does not know of it would not release.
    """
    await dask_worker.gather(who_has={key: holders})
    if key in dask_worker.data:
        dask_worker.batched_send({"op": "add-keys", "keys": [key], "stimulus_id": f"fetched-{key}"})


def pickled_nbytes(argument: Any) -> int:
    """Return what travels of an argument; its arrays are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(argument, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)


def released(*kept: Any) -> None:
    """Release what is a future among these, whoever still refers to it: the traceback of an error does."""
    for one in _futures_among(kept):
        _ARGUMENTS.pop(one, None)
        one.release()


def _futures_among(kept: Sequence[Any]) -> list[Any]:
    from distributed import Future

    return [one for one in kept if isinstance(one, Future)]


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
    except CancelledError as fault:
        if any(reason in str(fault) for reason in _REASONS_OF_LOST_DATA):
            problem = "what workers held was lost with the last of them that had it"
            raise RunError(problem, name, REMEDY) from fault
        raise scheduler_lost(name, fault) from fault
    except (CommClosedError, TimeoutError) as fault:
        raise scheduler_lost(name, fault) from fault


def _shown(key: Any) -> str:
    return str(key[0] if isinstance(key, tuple) else key)
