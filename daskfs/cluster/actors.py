"""Objects that live where the work runs, and tasks that last beside them, one on each thread of a cluster.

An actor is an object of a user's class on one of the workers; whoever calls a method gets an object with ``result()``.
A task that lasts runs as long as its actor has work for it. A task whose worker dies begins again elsewhere, from its
start and with the same arguments: it must ask the actor where it stood.
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

from daskfs import interrupts
from daskfs.cluster.client import Losses, cluster_errors, kept_on, released, send_again
from daskfs.cluster.presence import presence_of
from daskfs.errors import RunError

if TYPE_CHECKING:
    from distributed import Client

ASK_S = 1.0
"""After how long without an answer the scheduler is asked for the actor."""
MOST_GIVEN_UP = 20
"""How often tasks are started again after the scheduler gave them up: by default it tries four times."""


class Actors(ABC):
    """The actors of a run, and the tasks beside them."""

    are_apart: bool
    """Whether they live in other processes or threads, where tasks can last beside them; else all is in this thread."""

    @abstractmethod
    def place(self, cls: type, *args: Any) -> Any:
        """Make ``cls(*args)`` where the work runs; its methods return an object with ``result()``."""

    @abstractmethod
    def address(self, actor: Any) -> Any:
        """Return an actor for calls from this process and from tasks: they end soon when it is lost."""

    @abstractmethod
    def holds(self, actor: Any) -> bool:
        """Whether an actor is still there, as far as one knows."""

    @abstractmethod
    def release(self, actor: Any) -> None:
        """Let go of an actor."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all actors."""

    @abstractmethod
    def keep_running(
        self, function: Callable[..., Any], items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> LastingTasks:
        """Start ``function(*shared, item)`` for every item, each on a thread of its own as far as there are threads.

        Parameters
        ----------
        function : callable
            Importable by name.
        items : sequence
        name : str
            As the dashboard shows it.
        shared : sequence
            Arguments common to all tasks, sent once; actors as their `ActorAddress`.

        Raises
        ------
        RunError
            There is no cluster.
        """

    @abstractmethod
    def announce(self, topic: str, message: Any) -> None:
        """Show a small message on the dashboard's page of events, where there is one."""


class ActorsHere(Actors):
    """Objects of this thread: plain Python."""

    are_apart = False

    def place(self, cls: type, *args: Any) -> Any:
        """Make the object here."""
        return _Placed(cls(*args))

    def address(self, actor: Any) -> Any:
        """Return it as it is."""
        return actor

    def holds(self, actor: Any) -> bool:
        """It is."""
        return True

    def release(self, actor: Any) -> None:
        """It goes when nobody refers to it."""

    def close(self) -> None:
        """They go when nobody refers to them."""

    def keep_running(
        self, function: Callable[..., Any], items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> LastingTasks:
        """Refuse: there is one thread."""
        raise RunError("tasks that last need a cluster, found none", name, "give a client, or cluster.kind: local")

    def announce(self, topic: str, message: Any) -> None:
        """Show nothing."""


class ActorsOnDask(Actors):
    """Dask's actors."""

    are_apart = True

    def __init__(self, client: Client) -> None:
        self._client = client
        self._futures: list[Any] = []  # of the actors: one whose future is gone is released by Dask

    def place(self, cls: type, *args: Any) -> Any:
        """Make the object a Dask actor on one of the workers, for as long as this is held."""
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
        """Return where it is asked, here and in tasks."""
        return ActorAddress(actor, self._client)

    def holds(self, actor: Any) -> bool:
        """Whether the actor's future is not lost."""
        return any(future.key == actor.key and future.status == "finished" for future in self._futures)

    def release(self, actor: Any) -> None:
        """Forget the actor's future, upon which Dask drops the actor."""
        released(*(future for future in self._futures if future.key == actor.key))
        self._futures = [future for future in self._futures if future.key != actor.key]

    def close(self) -> None:
        """Forget the futures of all."""
        released(*self._futures)
        self._futures.clear()

    def addresses(self) -> list[str]:
        """Return the addresses of the workers' processes: those first in which no actor lives."""
        with cluster_errors("workers"):
            addresses = list(interrupts.call_aside(self._client.nthreads))
            places = interrupts.call_aside(self._client.who_has, self._futures).values()
            homes = [home for some in places for home in some]
        return sorted(addresses, key=homes.__contains__)

    def keep_running(
        self, function: Callable[..., Any], items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> LastingTasks:
        """Start the tasks: each worker gets one, then those with a second thread, ...

        An actor's process comes last, for there task and actor would wait for each other.
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
    """An object that answers as a Dask actor does."""

    def __init__(self, instance: Any) -> None:
        self._instance = instance

    def __getattr__(self, name: str) -> Callable[..., _Done]:
        method = getattr(self._instance, name)
        return lambda *args, **kwargs: _Done(method(*args, **kwargs))


class _Done:
    """A result that is there already."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self, timeout: float | None = None) -> Any:
        return self._value


class ActorLost(RuntimeError):
    """An actor answers no more."""


class ActorAddress:
    """An actor as the client process and tasks that last see it: it is lost, or it answers.

    Dask fails every task that has an actor among its arguments when that is lost, although the task still runs, leaves
    a call that was on its way waiting for ever, and one of the client for as long as connecting may take, 30 s. So the
    actor is wrapped, where Dask does not look, and whoever waits long asks the scheduler whether it is there. A call
    whose line broke is sent again: methods must bear that.

    Parameters
    ----------
    actor : Actor
        From `Actors.place`.
    client : Client, optional
        Of the process that asks; in a task its worker's.
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
    """A call that is on its way."""

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
            There is none yet.
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
        # client.who_has looks at its own futures only
        homes = interrupts.call_aside(client.sync, scheduler.who_has, keys=[key])
        if not homes.get(key):
            raise ActorLost(str(key))


class LastingTasks:
    """What `Actors.keep_running` has started."""

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
        self._futures = {k: self._submit(k, place) for k, place in enumerate(places)}

    def _submit(self, k: int, place: str | None = None) -> Any:
        key = (f"{self._name}-{k:04d}", uuid.uuid4().hex[:8])
        where: dict[str, Any] = {} if place is None else {"workers": [place], "allow_other_workers": True}
        arguments = (*self._shared, self._items[k])
        return self._client.submit(partial(_unmeasured, self._function), *arguments, key=key, pure=False, **where)

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

        with cluster_errors(self._name), self._client.as_current():
            if self._futures:
                with suppress(TimeoutError, CancelledError):
                    futures = list(self._futures.values())
                    interrupts.call_aside(wait, futures, timeout=timeout_s, return_when="FIRST_COMPLETED")
            self._heard = presence_of(self._client).ask_after(self._heard)
            ended = [k for k, future in self._futures.items() if future.done()]
            results = [(k, self._result(k)) for k in ended]
            return [(k, result) for k, result in results if k not in self._futures]

    def _result(self, k: int) -> Any:
        """Return what a task returned; start it again where the scheduler gave it up, or what it takes was lost."""
        from distributed import KilledWorker

        future = self._futures.pop(k)
        try:
            return interrupts.call_aside(future.result)
        except (KilledWorker, CancelledError):
            self._n_given_up += 1
            if self._n_given_up > MOST_GIVEN_UP:
                raise
            send_again(self._client, self._shared)
            self._futures[k] = self._submit(k)
        finally:
            released(future)

    def close(self) -> None:
        """Let go of what still runs."""
        for future in self._futures.values():
            future.cancel()
        released(*self._futures.values(), *self._shared)
        self._futures.clear()


def _unmeasured(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function without Dask's record of how long each message took, which grows until the task ends."""
    from distributed.metrics import context_meter

    with context_meter.clear_callbacks():
        return function(*arguments)
