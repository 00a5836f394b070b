"""Shared functions for a `distributed.Client`: number of threads, arguments sent once, errors about losses."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from daskfs import errors, interrupts
from daskfs.cluster.presence import REMEDY, presence_of, scheduler_lost

if TYPE_CHECKING:
    from distributed import Client

RunError = errors.RunError.about("clusters")

_INLINE_NBYTES = 64 * 2**10
"""Shared arguments up to this size are sent with each task, so that they survive the death of any worker."""
_MOST_TRIES = 5
_MOST_LOSSES = 4
"""As in Dask for a task: three deaths of workers are tolerated."""
_REASONS_OF_LOST_DATA = ("already forgotten", "lost dependencies")
"""Reasons for a cancellation given by a live scheduler."""
_COPIES_OF_EACH = 2
"""Number of workers that fetch data from each worker that has them, so that they spread as a tree."""


def threads_of(client: Client) -> int:
    """Return the current number of threads of all workers, at least one.

    Raises
    ------
    RunError
        The scheduler is gone.
    """
    return max(1, presence_of(client).n_threads())


def kept_on(client: Client, argument: Any) -> Any:
    """Return a small argument unchanged, and a large one as a future after sending it to every worker."""
    from distributed import Future

    if isinstance(argument, Future):  # sent before
        return argument
    if pickled_nbytes(argument) <= _INLINE_NBYTES:
        return argument
    future = _sent(client, f"{type(argument).__name__}-{uuid.uuid4().hex}", argument)
    _ARGUMENTS[future] = argument
    return future


_ARGUMENTS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""Arguments of futures: Dask can recompute results of tasks, but not data that were sent to it."""


def sent_for(kept: Any) -> Any:
    """Return the argument of a future that `kept_on` returned, or an argument that was not sent."""
    return _ARGUMENTS.get(kept, kept) if _futures_among([kept]) else kept


def send_again(client: Client, kept: Sequence[Any]) -> None:
    """Send lost arguments again under the same key, so that existing references are valid.

    Raises
    ------
    RunError
        The scheduler is gone.
    """
    threads_of(client)
    sent = {one.key: one for one in _futures_among(kept) if one in _ARGUMENTS}
    scheduler: Any = client.scheduler
    # client.who_has only knows futures that it believes to be alive
    homes = interrupts.call_aside(client.sync, scheduler.who_has, keys=[*sent])
    for key, one in sent.items():
        if not homes.get(key):
            _sent(client, key, _ARGUMENTS[one])


def _sent(client: Client, key: str, argument: Any) -> Any:
    """Send an argument to every worker."""
    presence = presence_of(client)
    for n_left in reversed(range(_MOST_TRIES)):
        presence.wait_for_a_worker()
        try:
            kept = presence.awaited(client.scatter({key: argument}, hash=False, asynchronous=True))[key]
            _spread(client, kept)
        except (OSError, KeyError):  # the first receiver has just died
            if not n_left:
                raise
        else:
            return kept


@dataclass
class Losses:
    """Counter of consecutive losses of tasks together with their arguments."""

    name: str
    n: int = 0

    def count(self, fault: BaseException | None = None) -> None:
        """Count a loss.

        Raises
        ------
        RunError
            There were too many losses; the tasks themselves may kill the workers.
        """
        self.n += 1
        if self.n >= _MOST_LOSSES:
            problem = f"the workers died {self.n} times with the data that were sent to them"
            raise RunError(problem, self.name, REMEDY) from fault


def _spread(client: Client, kept: Any) -> None:
    """Copy an argument from one worker to all others.

    Dask's broadcast is not used, because it retries copies to dead workers for ever, and tasks are not used, because
    workers may have no free thread. Dask's active memory manager drops copies that no task waits for, by default every
    two seconds; the tasks of a later round then fetch them again.
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
    """Fetch an argument from other workers. If this fails, the worker fetches it with its first task.

    The scheduler is informed, because it releases only data that it knows of.
    """
    await dask_worker.gather(who_has={key: holders})
    if key in dask_worker.data:
        dask_worker.batched_send({"op": "add-keys", "keys": [key], "stimulus_id": f"fetched-{key}"})


def pickled_nbytes(argument: Any) -> int:
    """Return the pickled size of an argument, without copying its arrays."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(argument, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)


def released(*kept: Any) -> None:
    """Release the futures among these, although for example the traceback of an error may still refer to them."""
    for one in _futures_among(kept):
        _ARGUMENTS.pop(one, None)
        one.release()


def _futures_among(kept: Sequence[Any]) -> list[Any]:
    from distributed import Future

    return [one for one in kept if isinstance(one, Future)]


@contextmanager
def cluster_errors(name: str) -> Iterator[None]:
    """Convert Dask's errors of a lost cluster to a RunError."""
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
            problem = "intermediate results were lost, because every worker that had them died"
            raise RunError(problem, name, REMEDY) from fault
        raise scheduler_lost(name, fault) from fault
    except (CommClosedError, TimeoutError) as fault:
        raise scheduler_lost(name, fault) from fault


def _shown(key: Any) -> str:
    return str(key[0] if isinstance(key, tuple) else key)
