"""Run tasks on the workers of a `distributed.Client`: few in flight, small ones together, again if a worker is lost."""

from __future__ import annotations

import math
import os
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from daskfs import interrupts
from daskfs.cluster.actors import Actors, ActorsOnDask
from daskfs.cluster.client import (
    Losses,
    cluster_errors,
    kept_on,
    pickled_nbytes,
    released,
    send_again,
    sent_for,
    threads_of,
)
from daskfs.cluster.memory import peak_memory_nbytes
from daskfs.cluster.presence import presence_of
from daskfs.cluster.workers import Legs, Round, Task, Tree, Workers

if TYPE_CHECKING:
    from distributed import Client

_TASKS_PER_THREAD = 2
"""Tasks in flight per thread: enough to keep it busy, few enough that results are consumed as they come."""
_COUNT_S = 1.0
"""Seconds between counts of the cluster's threads."""
_LEGS_AHEAD = 1
"""Number of legs of a chain that are submitted ahead, so that the workers do not wait for the client."""
_POLL_S = 0.005
"""Seconds between checks for finished tasks."""
_TRY_AGAIN = 32
"""Number of rounds after which the slower place is tried again."""
_TOGETHER_S, _TOGETHER_NBYTES, _MOST_TOGETHER = 0.1, 2**18, 64
"""Limits for small blocks that share a task, which costs milliseconds: seconds, bytes sent, and number of blocks."""
_MESSAGE_NBYTES = 4 * 2**20
"""Maximum size of a message with several tasks."""
_LARGE_ITEMS = {"distributed.admin.large-graph-warning-threshold": "1TiB"}
"""Disables Dask's warning about large graphs, on which users cannot act: each task is sent its own drawn rows."""


@dataclass
class Rounds:
    """Chooses the place, here or on workers, where rounds of a kind have recently been faster.

    A round of milliseconds costs more to send than to do.

    Examples
    --------
    >>> rounds, places = Rounds(), []
    >>> for _ in range(8):
    ...     places.append(rounds.is_here())
    ...     rounds.took(0.01 if places[-1] else 0.02)
    >>> places
    [False, False, True, True, True, True, True, True]
    """

    _seconds: dict[bool, deque[float]] = field(default_factory=lambda: {k: deque(maxlen=2) for k in (False, True)})
    """Seconds of the last two rounds here (True) and on workers (False); the first round also loads code."""
    _n_since: int = 0
    """Number of rounds since the slower place was tried."""
    _last: bool = False

    def is_here(self) -> bool:
        """Return whether to run the next round here: at the faster place, and occasionally at the other."""
        there, here = self._seconds[False], self._seconds[True]
        if len(there) < 2 or min(there) > _TOGETHER_S:  # long rounds are worth sending
            self._last = False
        elif len(here) < 2:
            self._last = True
        else:
            self._n_since += 1
            self._last = (min(here) < min(there)) != (self._n_since % _TRY_AGAIN == 0)
        return self._last

    def took(self, seconds: float) -> None:
        """Record the duration of a round."""
        self._seconds[self._last].append(seconds)


class OnDask(Workers):
    """The workers of a `distributed.Client`."""

    client: Client

    def __init__(self, client: Client) -> None:
        self.client, self.run_name = client, ""
        self._spans: dict[tuple[str, str], dict[str, Any]] = {}
        self._n_together: dict[str, int] = {}  # blocks per task, by name, kept between rounds
        self._rounds: defaultdict[str, Rounds] = defaultdict(Rounds)
        self._n_threads, self._counted = 1, -math.inf

    @property
    def n_threads(self) -> int:
        """Current number of threads of all workers, at least one."""
        return threads_of(self.client)

    def _threads_of_late(self) -> int:
        """Return the number of threads, counted at most once per second."""
        if time.monotonic() - self._counted > _COUNT_S:
            self._n_threads, self._counted = self.n_threads, time.monotonic()
        return self._n_threads

    @cached_property
    def actors(self) -> Actors:
        """Dask's actors, which exist as long as this object."""
        return ActorsOnDask(self.client)

    def map_blocks(
        self, function: Task, items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield results as they come, in batches; several small blocks share a task."""
        from distributed import as_completed

        arguments, losses = [self.keep(argument) for argument in shared], Losses(name)
        submit = self._submitter(partial(_each, function), name, arguments)
        waiting: Iterator[tuple[int, Any]] = enumerate(items)
        n_left = len(items)
        in_flight: dict[Any, tuple[list[int], Any, Any]] = {}  # numbers, future, what has submitted it
        completed = as_completed(loop=self.client.loop)

        def fill() -> None:
            """Submit tasks for the current number of threads, since workers come and go."""
            nonlocal n_left
            most, n_together = _TASKS_PER_THREAD * self._threads_of_late(), self._n_together.get(name, 1)
            numbers: list[list[int]] = []
            tasks: list[tuple[int, list[Any]]] = []
            while n_left and len(in_flight) + len(tasks) < most:
                some = [*islice(waiting, min(n_together, -(-n_left // self._n_threads)))]  # at most an equal share
                numbers.append([k for k, _ in some])
                tasks.append((some[0][0], [item for _, item in some]))
                n_left -= len(some)
            futures = [one for some in _messages(tasks) for one in submit(some)]
            in_flight.update((one.key, (k, one, submit)) for k, one in zip(numbers, futures, strict=True))
            completed.update(futures)

        with cluster_errors(name):
            fill()
            try:
                for futures in self._as_they_come(completed):
                    there, found = self._gathered_of_those_left(futures)
                    lost = [in_flight.pop(one.key) for one in futures if one not in there]
                    if lost:
                        if any(submitted is submit for *_, submitted in lost):  # the first report of this loss
                            losses.count()
                            send_again(self.client, arguments)
                            submit = self._submitter(partial(_each, function), name, arguments)
                        again = [k for numbers, *_ in lost for k in numbers]
                        waiting, n_left = chain([(k, items[k]) for k in again], waiting), n_left + len(again)
                        released(*(future for _, future, _ in lost))
                    done = deque(
                        (in_flight.pop(one.key)[0], together.results)
                        for one, together in zip(there, found, strict=True)
                    )
                    if found:
                        losses.n = 0
                        self._n_together[name] = min(2 * self._n_together.get(name, 1), found[-1].n_next)
                    released(*there)
                    del found
                    fill()
                    while done:
                        yield from zip(*done.popleft(), strict=True)
            finally:  # after an early stop or an error, whose traceback would keep the futures alive
                completed.clear()
                released(*(future for _, future, _ in in_flight.values()))

    def map_round(self, function: Task, items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()) -> list[Any]:
        """Return the results of one of many rounds, run here if that is faster than sending it."""
        rounds, started = self._rounds[name], time.perf_counter()
        if rounds.is_here():
            given = [sent_for(argument) for argument in shared]
            found = [function(*given, item) for item in items]
        else:
            found = super().map_round(function, items, name=name, shared=shared)
        rounds.took(time.perf_counter() - started)
        return found

    def _gathered_of_those_left(self, futures: list[Any]) -> tuple[list[Any], list[_Together]]:
        """Return the futures that were not lost together with their arguments, and their results."""
        while True:
            there = [one for one in futures if one.status != "cancelled"]
            try:
                return there, self._gathered(there)
            except CancelledError:  # lost while fetching the results
                if all(one.status != "cancelled" for one in there):
                    raise

    def _as_they_come(self, completed: Any) -> Iterator[list[Any]]:
        """Yield finished futures; if none finishes for a while, check the workers."""
        heard, presence = time.monotonic(), presence_of(self.client)
        while completed.count():
            while not completed.has_ready():
                time.sleep(_POLL_S)
                heard = presence.ask_after(heard)
            with interrupts.held():
                futures = completed.next_batch(block=False)
            yield futures
            heard = time.monotonic()

    def reduce_blocks(
        self, function: Task, items: Sequence[Any], combine: Task, *, name: str, shared: Sequence[Any] = ()
    ) -> Any:
        """Combine on the workers, neighbours first. Large items are sent in parts that are branches of the tree."""
        arguments, losses, tree, n_done = [self.keep(argument) for argument in shared], Losses(name), Tree(combine), 0
        branches = _branches(items, sum(map(pickled_nbytes, arguments)))
        with cluster_errors(name):
            while n_done < len(branches):
                try:
                    for result in self._reduced(function, combine, branches[n_done:], name, arguments):
                        tree.add(result)
                        n_done, losses.n = n_done + 1, 0
                except CancelledError as fault:
                    losses.count(fault)
                    send_again(self.client, arguments)
        return tree.combined()

    def _reduced(
        self, function: Task, combine: Task, branches: Sequence[_Branch], name: str, shared: Sequence[Any]
    ) -> Iterator[Any]:
        """Yield the results of branches in order. The next branches are submitted before waiting for one."""
        leaves = self._submitter(function, name, shared)
        join, joined = self._submitter(combine, f"{name}-combine", ()), count()
        waiting, roots, in_flight = deque(branches), deque[Any](), deque[int]()
        try:
            while waiting or roots:
                while waiting and (len(roots) < 2 or sum(in_flight) < _TASKS_PER_THREAD * self._threads_of_late()):
                    branch = waiting.popleft()
                    roots += _combined(leaves([*enumerate(branch.items, branch.first)]), join, joined, n_left=1)
                    in_flight.append(len(branch.items))
                in_flight.popleft()
                yield self._root(roots.popleft())
        finally:
            released(*roots)

    def _root(self, root: Any) -> Any:
        """Wait for the result of a branch."""
        try:
            return self._gathered([root])[0]
        finally:
            released(root)

    def chain_blocks(
        self, rounds: Round, legs: Legs, state: Any, *, name: str, shared: Sequence[Any] = ()
    ) -> Iterator[Any]:
        """Submit a leg ahead. Each task combines the last two results of the previous round, which saves a task.

        If a state is lost and cannot be recomputed, the chain continues from the last state that the client received.
        """
        arguments, losses, n_done = [self.keep(argument) for argument in shared], Losses(name), 0
        with cluster_errors(name):
            while n_done < len(legs):
                try:
                    for left in self._states(rounds, legs[n_done:], state, name, arguments):
                        state, n_done, losses.n = left, n_done + 1, 0
                        yield state
                except CancelledError as fault:
                    losses.count(fault)
                    send_again(self.client, arguments)

    def _states(self, rounds: Round, legs: Legs, state: Any, name: str, shared: Sequence[Any]) -> Iterator[Any]:
        """Yield the state after every leg."""
        begin = self._submitter(rounds.task, name, shared)
        go_on = self._submitter(rounds.after, name, (len(shared), *shared))
        join = self._submitter(rounds.combine, f"{name}-combine", ())
        n_begun, joined = 0, count()
        left: list[Any] = [self.keep(state)]
        wanted: deque[list[Any]] = deque()  # results at the ends of legs
        try:
            for leg in legs:
                for items in leg:
                    before, numbered = left, enumerate(items, n_begun)
                    if n_begun:
                        made = go_on([(k, item, *left) for k, item in numbered])
                    else:
                        made = begin([(k, *left, item) for k, item in numbered])
                    left = _combined(made, join, joined, n_left=2)
                    n_begun += len(items)
                    if not any(before is one for one in wanted):
                        released(*before)
                wanted.append(left)
                if len(wanted) > _LEGS_AHEAD:
                    yield self._state(rounds, wanted.popleft())
            while wanted:
                yield self._state(rounds, wanted.popleft())
        finally:
            released(*left, *chain.from_iterable(wanted))

    def _state(self, rounds: Round, left: list[Any]) -> Any:
        """Wait for the state at the end of a leg."""
        try:
            return rounds.state(self._gathered(left))
        finally:
            released(*left)

    def _gathered(self, futures: list[Any]) -> list[Any]:
        """Wait for the results of tasks."""
        found: list[Any] = presence_of(self.client).awaited(self.client.gather(futures, asynchronous=True))
        return found

    def _submitter(
        self, function: Task, name: str, shared: Sequence[Any]
    ) -> Callable[[Sequence[tuple[Any, ...]]], list[Any]]:
        """Return a function that submits numbered tasks in one message, which contains shared arguments once.

        It takes the number and the further arguments of each task.
        """
        arguments = [self.keep(argument) for argument in shared]
        import dask

        run, annotations = uuid.uuid4().hex[:8], self._annotations(name)

        def submit(tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
            if not tasks:
                return []
            numbers, *given = zip(*tasks, strict=True)
            keys = [(f"{name}-{k:04d}", run) for k in numbers]
            with dask.annotate(**annotations), dask.config.set(_LARGE_ITEMS):
                repeated = ([argument] * len(tasks) for argument in arguments)
                return self.client.map(function, *repeated, *given, key=keys, pure=False)

        return submit

    def _annotations(self, stage: str) -> dict[str, Any]:
        """Return annotations that group the tasks of a stage on the dashboard: "daskfs", name of the run, stage."""
        import dask
        from distributed import span

        names = ("daskfs", *filter(None, [self.run_name]))
        for key, tags in (((self.run_name, ""), names), ((self.run_name, stage), (stage,))):
            if key not in self._spans:
                with dask.annotate(**self._spans.get((self.run_name, ""), {})), span(*tags):
                    self._spans[key] = dict(dask.get_annotations())
        return self._spans[self.run_name, stage]

    def keep(self, argument: Any) -> Any:
        """Return a small argument unchanged, and a large one as a future after sending it to every worker."""
        return kept_on(self.client, argument)

    def let_go(self, kept: Any) -> None:
        """Release an argument on the workers."""
        released(kept)

    def settle(self, name: str) -> None:
        """Ask the workers until none runs such a task."""
        with suppress(OSError, RuntimeError):  # the scheduler is gone, and its workers with it
            while self.client.status == "running":
                answers = interrupts.call_aside(self.client.run, _runs, name, on_error="ignore")
                if not any(answers.values()):
                    break
                time.sleep(_POLL_S)

    def peak_memory(self) -> dict[str, int]:
        """Return the peak memory of the client and of every worker that answers."""
        with cluster_errors("peak memory"):
            workers = interrupts.call_aside(self.client.scheduler_info, -1)["workers"]
            peaks = interrupts.call_aside(self.client.run, _process_and_peak, on_error="ignore")
        names = {address: worker["name"] for address, worker in workers.items()}
        memory = {"client": peak_memory_nbytes()}
        for address, (pid, nbytes) in peaks.items():
            if pid != os.getpid():  # a worker that is a thread of this process
                memory[f"worker-{names.get(address, address)}"] = nbytes
        return memory

    def performance_report(self, path: str | os.PathLike[str]) -> Any:
        """Record Dask's performance report as one HTML file."""
        from distributed import performance_report

        @contextmanager
        def report() -> Iterator[None]:
            recorded = performance_report(filename=str(path), mode="inline")
            with self.client.as_current(), cluster_errors(recorded.filename):
                recorded.__enter__()
                yield
                recorded.__exit__(None, None, None)  # not after an error, as the scheduler may be gone

        return report()


class _Branch(NamedTuple):
    """Leaves of a tree that are sent together."""

    first: int
    """Number of the first one."""
    items: Sequence[Any]


def _branches(items: Sequence[Any], shared_nbytes: int = 0) -> list[_Branch]:
    """Split the items into parts of equal size 2^k (the last may be smaller), which keeps the tree unchanged.

    A part fits into one message to the scheduler, counting the shared arguments for each item.

    Examples
    --------
    >>> [len(branch.items) for branch in _branches([bytes(2**19)] * 10)]
    [4, 4, 2]
    >>> [len(branch.items) for branch in _branches([*range(1000)])]
    [1000]
    >>> [len(branch.items) for branch in _branches([*range(1000)], 2**13)]
    [256, 256, 256, 232]
    """
    if not len(items):
        return []
    nbytes = shared_nbytes + max(pickled_nbytes(items[0]), pickled_nbytes(items[-1]))
    n_together = 1 << max(1, _MESSAGE_NBYTES // nbytes).bit_length() - 1
    return [_Branch(first, items[first : first + n_together]) for first in range(0, len(items), n_together)]


def _combined(level: list[Any], join: Callable[..., Any], numbers: Iterator[int], n_left: int) -> list[Any]:
    """Combine futures, neighbours first, until `n_left` are left."""
    while len(level) > n_left:
        pairs = [(next(numbers), *pair) for pair in zip(level[::2], level[1::2], strict=False)]
        level = [*join(pairs), *level[2 * len(pairs) :]]
    return level


class _Together(NamedTuple):
    """Results of a task for several blocks."""

    results: list[Any]
    n_next: int
    """Suggested number of such blocks per task."""


def _each(function: Task, *arguments: Any) -> _Together:
    """Apply the function to each item (the last argument), and suggest how many items should share a task."""
    *shared, items = arguments
    started = time.perf_counter()
    results = [function(*shared, item) for item in items]
    seconds = (time.perf_counter() - started) / len(items)
    if seconds > _TOGETHER_S / 2:
        return _Together(results, 1)
    most_nbytes = max(pickled_nbytes(results[-1]), pickled_nbytes(items[-1]))
    n_next = min(_TOGETHER_S / max(seconds, 1e-9), _TOGETHER_NBYTES / most_nbytes, _MOST_TOGETHER)
    return _Together(results, max(1, int(n_next)))


def _messages(tasks: list[tuple[int, list[Any]]]) -> Iterator[list[tuple[int, list[Any]]]]:
    """Yield tasks in messages of limited size."""
    if len(tasks) > 1 and pickled_nbytes(tasks) > _MESSAGE_NBYTES:
        half = len(tasks) // 2
        yield from _messages(tasks[:half])
        yield from _messages(tasks[half:])
    else:
        yield tasks


def _runs(name: str, dask_worker: Any) -> bool:
    return any(str(task.key).startswith(("('" + name, name)) for task in dask_worker.state.executing)


def _process_and_peak() -> tuple[int, int]:
    return os.getpid(), peak_memory_nbytes()
