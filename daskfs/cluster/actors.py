"""Tasks that last as long as a run, one on each thread of a cluster: the workers beside a central node.

A task whose worker dies begins again elsewhere, from its start and with the same arguments: it must ask a central node
where it stood.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from daskfs.cluster.workers import SILENCE_S, OnDask, Workers, cluster_errors
from daskfs.errors import RunError

ASK_S = 1.0
"""After how long without an answer the scheduler is asked for the node."""
MOST_GIVEN_UP = 20
"""How often tasks are started again after the scheduler gave them up: by default it tries four times."""


def keep_running(
    workers: Workers, function: Callable[..., Any], items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
) -> LastingTasks:
    """Start ``function(*shared, item)`` for every item, each on a thread of its own as far as there are threads.

    Parameters
    ----------
    workers : Workers
    function : callable
        Importable by name.
    items : sequence
    name : str
        As the dashboard shows it.
    shared : sequence
        Arguments common to all tasks, sent once.

    Raises
    ------
    RunError
        There is no cluster.
    """
    if not isinstance(workers, OnDask):
        raise RunError("tasks that last need a cluster, found none", name, "give a client, or cluster.kind: local")
    with cluster_errors(name):
        return LastingTasks(workers, function, items, name, [workers.keep(argument) for argument in shared])


class NodeLost(Exception):
    """The central node answers no more."""


class NodeAddress:
    """A node placed as an actor, as tasks that last see it: it is lost, or it answers.

    Dask fails every task that has an actor among its arguments when that is lost, although the task still runs, and
    leaves a call that was on its way waiting for ever. So the actor is wrapped, where Dask does not look, and whoever
    waits long asks the scheduler whether it is there. A call whose line broke is sent again: methods must bear that.

    Parameters
    ----------
    actor : Actor
        From `daskfs.cluster.workers.Workers.place`.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Callable[..., _Answer]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: _Answer(self._actor, name, arguments)


class _Answer:
    """A call that is on its way."""

    def __init__(self, actor: Any, name: str, arguments: Sequence[Any]) -> None:
        self._actor, self._name, self._arguments = actor, name, arguments
        self._future = self._send()

    def _send(self) -> Any:
        try:
            return getattr(self._actor, self._name)(*self._arguments)
        except RuntimeError as fault:
            raise NodeLost(str(fault)) from fault

    def result(self) -> Any:
        """Wait for the answer.

        Raises
        ------
        NodeLost
        """
        while True:
            try:
                return self._future.result(timeout=ASK_S)
            except TimeoutError:
                self._ask()
            except OSError:
                self._ask()
                time.sleep(0.1)
                self._future = self._send()
            except RuntimeError as fault:
                raise NodeLost(str(fault)) from fault

    def _ask(self) -> None:
        from distributed import get_client

        client, key = get_client(), self._actor.key
        scheduler: Any = client.scheduler
        homes = client.sync(scheduler.who_has, keys=[key])  # client.who_has looks at its own futures only
        if not homes.get(key):
            raise NodeLost(str(key))


class LastingTasks:
    """What `keep_running` has started."""

    def __init__(
        self, workers: OnDask, function: Callable[..., Any], items: Sequence[Any], name: str, shared: Sequence[Any]
    ) -> None:
        self._workers, self._function, self._items, self._name, self._shared = workers, function, items, name, shared
        self._n_given_up = 0
        self._asked = time.monotonic()
        self._futures = {k: self._submit(k, place) for k, place in enumerate(self._places())}

    def _places(self) -> list[str | None]:
        """Return the address of a worker for every task: each worker once, then those with a second thread, ...

        A central node's process comes last, for there task and node would wait for each other.
        """
        threads, addresses = self._workers.client.nthreads(), self._workers.apart()
        rounds = range(max(threads.values(), default=0))
        places = [address for i in rounds for address in addresses if i < threads.get(address, 0)]
        return [places[k] if k < len(places) else None for k in range(len(self._items))]

    def _submit(self, k: int, place: str | None = None) -> Any:
        key = (f"{self._name}-{k:04d}", uuid.uuid4().hex[:8])
        where: dict[str, Any] = {} if place is None else {"workers": [place], "allow_other_workers": True}
        arguments = (*self._shared, self._items[k])
        return self._workers.client.submit(self._function, *arguments, key=key, pure=False, **where)

    @property
    def n_running(self) -> int:
        """Tasks that have not ended."""
        return len(self._futures)

    def finished(self, timeout_s: float) -> list[tuple[int, Any]]:
        """Wait a while; return number and result of the tasks that have ended meanwhile.

        Raises
        ------
        RunError
            The workers were lost more often than can be repaired, or the scheduler is gone.
        """
        from distributed import wait

        with cluster_errors(self._name), self._workers.client.as_current():
            if self._futures:
                with suppress(TimeoutError):
                    wait(list(self._futures.values()), timeout=timeout_s, return_when="FIRST_COMPLETED")
            if time.monotonic() - self._asked > SILENCE_S:
                _ = self._workers.n_threads  # raises where nobody answers
                self._asked = time.monotonic()
            ended = [k for k, future in self._futures.items() if future.done()]
            results = [(k, self._result(k)) for k in ended]
            return [(k, result) for k, result in results if k not in self._futures]

    def _result(self, k: int) -> Any:
        """Return what a task returned; start it again where the scheduler has given it up."""
        from distributed import KilledWorker

        future = self._futures.pop(k)
        try:
            return future.result()
        except KilledWorker:
            self._n_given_up += 1
            if self._n_given_up > MOST_GIVEN_UP:
                raise
            self._futures[k] = self._submit(k)

    def close(self) -> None:
        """Let go of what still runs."""
        for future in self._futures.values():
            future.cancel()
        self._futures.clear()
