"""Actors (objects that live where the work runs), and long-running tasks beside them, one on each thread of a cluster.

An actor is an object of a given class on one of the workers; calling a method returns an object with ``result()``. A
long-running task runs as long as its actor has work for it. If its worker dies, the task restarts elsewhere from the
beginning with the same arguments, so it must ask the actor for its progress.
"""

from __future__ import annotations

import math
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from daskfs import errors, interrupts
from daskfs.cluster.client import Losses, cluster_errors, kept_on, released, send_again
from daskfs.cluster.presence import presence_of

if TYPE_CHECKING:
    from distributed import Client

RunError = errors.RunError.about("clusters")

ASK_S = 1.0
"""Seconds without an answer after which the scheduler is asked for the actor."""
MOST_GIVEN_UP = 20
"""Maximum number of restarts of tasks that the scheduler gave up after its own attempts (four by default)."""


class Actors(ABC):
    """The actors of a run, and the long-running tasks beside them."""

    are_apart: bool
    """Whether actors live in other processes or threads, so that long-running tasks are possible beside them."""

    @abstractmethod
    def place(self, cls: type, *args: Any) -> Any:
        """Create ``cls(*args)`` where the work runs; its methods return an object with ``result()``."""

    @abstractmethod
    def address(self, actor: Any) -> Any:
        """Return an address of an actor for calls from this process and tasks, which fail soon if it is lost."""

    @abstractmethod
    def holds(self, actor: Any) -> bool:
        """Return whether an actor still exists, as far as known."""

    @abstractmethod
    def release(self, actor: Any) -> None:
        """Release an actor."""

    @abstractmethod
    def close(self) -> None:
        """Release all actors."""

    @abstractmethod
    def keep_running(
        self, function: Callable[..., Any], items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> LastingTasks:
        """Start ``function(*shared, item)`` for every item, each on its own thread as far as there are threads.

        Parameters
        ----------
        function : callable
            Importable by name.
        items : sequence
        name : str
            Name on the dashboard.
        shared : sequence
            Arguments common to all tasks, sent once; actors as their `ActorAddress`.

        Raises
        ------
        RunError
            There is no cluster.
        """

    @abstractmethod
    def announce(self, topic: str, message: Any) -> None:
        """Show a small message on the dashboard's page of events, if there is a dashboard."""


class ActorsHere(Actors):
    """Objects of this thread: plain Python."""

    are_apart = False

    def place(self, cls: type, *args: Any) -> Any:
        """Create the object in this process."""
        return _Placed(cls(*args))

    def address(self, actor: Any) -> Any:
        """Return the actor itself."""
        return actor

    def holds(self, actor: Any) -> bool:
        """Return True."""
        return True

    def release(self, actor: Any) -> None:
        """Do nothing; Python frees the object."""

    def close(self) -> None:
        """Do nothing; Python frees the objects."""

    def keep_running(
        self, function: Callable[..., Any], items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> LastingTasks:
        """Refuse, because there is only one thread."""
        raise RunError(
            "long-running tasks need a cluster, found none", name, "pass a client, or set cluster.kind: local"
        )

    def announce(self, topic: str, message: Any) -> None:
        """Show nothing."""


class ActorsOnDask(Actors):
    """Dask's actors."""

    are_apart = True

    def __init__(self, client: Client) -> None:
        self._client = client
        self._futures: list[Any] = []  # of the actors: Dask releases an actor without a future

    def place(self, cls: type, *args: Any) -> Any:
        """Create the object as a Dask actor on a worker, which exists as long as this collection."""
        losses = Losses(cls.__name__)
        with cluster_errors(cls.__name__), self._client.as_current():
            arguments = [kept_on(self._client, argument) for argument in args]
            try:
                while True:
                    future = self._client.submit(cls, *arguments, actor=True, key=f"{cls.__name__}-{uuid.uuid4().hex}")
                    self._futures = [actor for actor in self._futures if actor.status == "finished"]
                    self._futures.append(future)
                    try:
                        return presence_of(self._client).awaited(self._client.gather(future, asynchronous=True))
                    except CancelledError as fault:
                        losses.count(fault)
                        send_again(self._client, arguments)
            finally:
                released(*arguments)

    def address(self, actor: Any) -> ActorAddress:
        """Return the address of an actor, for this process and tasks."""
        return ActorAddress(actor, self._client)

    def holds(self, actor: Any) -> bool:
        """Return whether the actor's future is not lost."""
        return any(future.key == actor.key and future.status == "finished" for future in self._futures)

    def release(self, actor: Any) -> None:
        """Release the actor's future, upon which Dask deletes the actor."""
        released(*(future for future in self._futures if future.key == actor.key))
        self._futures = [future for future in self._futures if future.key != actor.key]

    def close(self) -> None:
        """Release the futures of all actors."""
        released(*self._futures)
        self._futures.clear()

    def addresses(self) -> list[str]:
        """Return the addresses of the workers; those without an actor come first."""
        with cluster_errors("workers"):
            addresses = list(interrupts.call_aside(self._client.nthreads))
            places = interrupts.call_aside(self._client.who_has, self._futures).values()
            homes = [home for some in places for home in some]
        return sorted(addresses, key=homes.__contains__)

    def keep_running(
        self, function: Callable[..., Any], items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> LastingTasks:
        """Start the tasks: first one on each worker, then one on each with a second thread, ...

        The worker of an actor comes last, because there task and actor would wait for each other.
        """
        with cluster_errors(name):
            threads, addresses = interrupts.call_aside(self._client.nthreads), self.addresses()
            rounds = range(max(threads.values(), default=0))
            places = [address for i in rounds for address in addresses if i < threads.get(address, 0)]
            each = [places[k] if k < len(places) else None for k in range(len(items))]
            arguments = [kept_on(self._client, argument) for argument in shared]
            return LastingTasks(self._client, function, items, each, name, arguments)

    def announce(self, topic: str, message: Any) -> None:
        """Log an event under a topic."""
        with cluster_errors(topic):
            self._client.log_event(topic, message)


class _Placed:
    """A local object with the interface of a Dask actor."""

    def __init__(self, instance: Any) -> None:
        self._instance = instance

    def __getattr__(self, name: str) -> Callable[..., _Done]:
        method = getattr(self._instance, name)
        return lambda *args, **kwargs: _Done(method(*args, **kwargs))


class _Done:
    """A result that is already available."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self, timeout: float | None = None) -> Any:
        return self._value


class ActorLost(RuntimeError):
    """An actor does not answer any more."""


class ActorAddress:
    """Address of an actor for the client process and long-running tasks: a call returns, or the actor is lost.

    When an actor is lost, Dask fails every task with it among its arguments, although the task still runs. Calls in
    flight wait for ever, and calls of the client wait for the connection timeout of 30 s. Therefore the actor is
    wrapped, so that Dask does not find it, and a long wait asks the scheduler whether it exists. A call with a broken
    connection is sent again, so methods must allow repeated calls.

    Parameters
    ----------
    actor : Actor
        Actor from `Actors.place`.
    client : Client, optional
        Client of the calling process; in a task, by default that of its worker.
    """

    def __init__(self, actor: Any, client: Client | None = None) -> None:
        self._actor, self._client = actor, client

    def __reduce__(self) -> tuple[Any, ...]:
        return ActorAddress, (self._actor,)

    def __getattr__(self, name: str) -> Callable[..., _Answer]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: _Answer(self._actor, name, arguments, self._client)


class _Answer:
    """A call in flight."""

    def __init__(self, actor: Any, name: str, arguments: Sequence[Any], client: Client | None) -> None:
        self._actor, self._name, self._arguments, self._client = actor, name, arguments, client
        self._future = self._send()

    def _send(self) -> Any:
        try:
            return getattr(self._actor, self._name)(*self._arguments)
        except RuntimeError as fault:
            raise ActorLost(str(fault)) from fault

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the answer.

        Raises
        ------
        ActorLost
        TimeoutError
            There is no answer yet.
        """
        ends = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            try:
                left = min(ASK_S, max(0.0, ends - time.monotonic()))
                return interrupts.call_aside(self._future.result, timeout=left)
            except TimeoutError:
                self._ask()
                if time.monotonic() >= ends:
                    raise
            except OSError:
                self._ask()
                time.sleep(0.1)
                self._future = self._send()
            except RuntimeError as fault:
                raise ActorLost(str(fault)) from fault

    def _ask(self) -> None:
        from distributed import get_client

        client, key = self._client or get_client(), self._actor.key
        scheduler: Any = client.scheduler
        # client.who_has only knows its own futures
        homes = interrupts.call_aside(client.sync, scheduler.who_has, keys=[key])
        if not homes.get(key):
            raise ActorLost(str(key))


class LastingTasks:
    """Long-running tasks started by `Actors.keep_running`."""

    def __init__(
        self,
        client: Client,
        function: Callable[..., Any],
        items: Sequence[Any],
        places: Sequence[str | None],
        name: str,
        shared: Sequence[Any],
    ) -> None:
        self._client, self._function, self._items, self._name, self._shared = client, function, items, name, shared
        self._n_given_up = 0
        self._heard = time.monotonic()
        self._places = {k: place for k, place in enumerate(places) if place is not None}
        self._stranded: set[int] = set()
        self._futures = {k: self._submit(k, place) for k, place in enumerate(places)}

    def _submit(self, k: int, place: str | None = None) -> Any:
        key = (f"{self._name}-{k:04d}", uuid.uuid4().hex[:8])
        where: dict[str, Any] = {} if place is None else {"workers": [place], "allow_other_workers": True}
        arguments = (*self._shared, self._items[k])
        return self._client.submit(partial(_unmeasured, self._function), *arguments, key=key, pure=False, **where)

    @property
    def n_running(self) -> int:
        """Number of tasks that have not ended."""
        return len(self._futures)

    def finished(self, timeout_s: float) -> list[tuple[int, Any]]:
        """Wait for at most `timeout_s`; return number and result of the tasks that have ended.

        Raises
        ------
        RunError
            The workers were lost too often, or the scheduler is gone.
        """
        from distributed import wait

        with cluster_errors(self._name), self._client.as_current():
            if self._futures:
                with suppress(TimeoutError, CancelledError):
                    futures = list(self._futures.values())
                    interrupts.call_aside(wait, futures, timeout=timeout_s, return_when="FIRST_COMPLETED")
            heard, self._heard = self._heard, presence_of(self._client).ask_after(self._heard)
            ended = [k for k, future in self._futures.items() if future.done()]
            results = [(k, self._result(k)) for k in ended]
            if self._heard != heard:  # the scheduler was asked just now, as it is after some seconds
                self._restart_stranded()
            return [(k, result) for k, result in results if k not in self._futures]

    def _result(self, k: int) -> Any:
        """Return the result of a task; restart it if the scheduler gave it up or its arguments were lost.

        If the result was lost with its worker, Dask restarts the task, and there is no result yet.
        """
        from distributed import KilledWorker

        future = self._futures.pop(k)
        try:
            return interrupts.call_aside(future.result, timeout=ASK_S)
        except TimeoutError:
            if future.status == "error":  # the error of the task
                raise
            self._futures[k], future = future, None
        except (KilledWorker, CancelledError):
            self._n_given_up += 1
            if self._n_given_up > MOST_GIVEN_UP:
                raise
            send_again(self._client, self._shared)
            self._futures[k] = self._submit(k)
        finally:
            released(future)

    def _restart_stranded(self) -> None:
        """Restart the tasks that Dask does not start any more.

        If a task loses the worker that it was submitted to, and there is no other at this moment, Dask never starts it
        on one that comes later, although other workers are allowed.
        """
        presence = presence_of(self._client)
        workers = presence.asked("ncores")
        gone = [k for k in self._futures if k in self._places and self._places[k] not in workers]
        stranded = set[int]()
        if gone and workers:
            held = {key for keys in presence.asked("processing", workers=None).values() for key in keys}
            stranded = {k for k in gone if self._futures[k].key not in held and not self._futures[k].done()}
        for k in stranded & self._stranded:  # twice in a row: it was not on its way to a worker
            released(self._futures[k])
            del self._places[k]
            self._futures[k] = self._submit(k)
        self._stranded = stranded

    def close(self) -> None:
        """Cancel the running tasks."""
        for future in self._futures.values():
            future.cancel()
        released(*self._futures.values(), *self._shared)
        self._futures.clear()


def _unmeasured(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function without Dask's record of message times, which grows until the task ends."""
    from distributed.metrics import context_meter

    with context_meter.clear_callbacks():
        return function(*arguments)
