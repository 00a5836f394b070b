"""Run tasks over blocks, locally or on a cluster, and combine their results in a fixed order.

`Here` is plain Python in this thread; `daskfs.cluster.dask_workers.OnDask` uses the workers of a `distributed.Client`.
Both give bit-identical results on machines of the same kind.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from daskfs.cluster.actors import Actors, ActorsHere
from daskfs.cluster.memory import peak_memory_nbytes

if TYPE_CHECKING:
    from distributed import Client

Task: TypeAlias = Callable[..., Any]
"""A function that is importable by name and has no side effects, since tasks of a lost worker run again."""

Legs: TypeAlias = Sequence[Sequence[Sequence[Any]]]
"""Parts of a chain: sequences of rounds, which are sequences of items."""


class Workers(ABC):
    """The place where the work runs."""

    client: Client | None

    @property
    @abstractmethod
    def n_threads(self) -> int:
        """Number of tasks that run concurrently."""

    @abstractmethod
    def map_blocks(
        self, function: Task, items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield ``(k, function(*shared, items[k]))`` in order of completion.

        Parameters
        ----------
        function : Task
        items : sequence
            One small item for each task: block numbers, rows.
        name : str
            Name of the tasks on the dashboard: ``message-select`` gives ``message-select-0007``.
        shared : sequence
            Arguments common to all tasks, sent once.

        Raises
        ------
        RunError
            The workers were lost too often.
        """

    def map_round(self, function: Task, items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()) -> list[Any]:
        """Return ``function(*shared, item)`` for all items in order, in one of many rounds of few tasks.

        This process must have memory for a task, because rounds that take less time here are done here.
        """
        found = dict(self.map_blocks(function, items, name=name, shared=shared))
        return [found[k] for k in range(len(items))]

    @abstractmethod
    def reduce_blocks(
        self, function: Task, items: Sequence[Any], combine: Task, *, name: str, shared: Sequence[Any] = ()
    ) -> Any:
        """Combine all ``function(*shared, item)`` in a binary tree that depends only on the number of items."""

    @abstractmethod
    def chain_blocks(
        self, rounds: Round, legs: Legs, state: Any, *, name: str, shared: Sequence[Any] = ()
    ) -> Iterator[Any]:
        """Yield the state after every leg of a chain of rounds, where each round starts from the previous state.

        Between rounds the state stays where the tasks run; the client receives only the states after the legs.

        Parameters
        ----------
        rounds : Round
            Functions of a round.
        legs : Legs
        state : object
            State before the first round.
        name, shared : as in `map_blocks`
        """

    @abstractmethod
    def keep(self, argument: Any) -> Any:
        """Send an argument that many calls share only once; return its replacement for `shared`."""

    @abstractmethod
    def let_go(self, kept: Any) -> None:
        """Release an argument that `keep` returned."""

    @abstractmethod
    def settle(self, name: str) -> None:
        """Wait until no task of this name runs any more, including abandoned ones, whose files could conflict."""

    @property
    @abstractmethod
    def actors(self) -> Actors:
        """Objects that live where the work runs, and long-running tasks beside them."""

    @abstractmethod
    def peak_memory(self) -> dict[str, int]:
        """Return the peak resident memory of every process in bytes; this process is called 'client'."""

    @abstractmethod
    def performance_report(self, path: str | os.PathLike[str]) -> Any:
        """Return a context in which Dask's performance report is recorded, if there is a cluster."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a chain: combine all ``task(*shared, state, item)``, then apply `settle` to get the new state."""

    task: Task
    """Modifies the state only if it is the only task of its round and there is no client."""
    combine: Task
    """Combines two results, neighbours first, in the tree of `Workers.reduce_blocks`."""
    settle: Task
    """Computes the new state from the combined result."""

    def state(self, left: Sequence[Any]) -> Any:
        """Return the new state from the one or two remaining results of a round."""
        return self.settle(left[0] if len(left) == 1 else self.combine(*left))

    def after(self, n_shared: int, *arguments: Any) -> Any:
        """Run a task; `arguments` are the shared ones, the item, and the remaining results of the previous round."""
        item, *left = arguments[n_shared:]
        return self.task(*arguments[:n_shared], self.state(left), item)


class Here(Workers):
    """This thread: plain Python, for debugging and for data that need no cluster."""

    client = None

    @property
    def n_threads(self) -> int:
        """Number of threads: one."""
        return 1

    def map_blocks(
        self, function: Task, items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield ``(k, function(*shared, items[k]))`` in order."""
        for k, item in enumerate(items):
            yield k, function(*shared, item)

    def reduce_blocks(
        self, function: Task, items: Sequence[Any], combine: Task, *, name: str, shared: Sequence[Any] = ()
    ) -> Any:
        """Combine in the same tree as `OnDask`, holding one result per level."""
        tree = Tree(combine)
        for item in items:
            tree.add(function(*shared, item))
        return tree.combined()

    def chain_blocks(
        self, rounds: Round, legs: Legs, state: Any, *, name: str, shared: Sequence[Any] = ()
    ) -> Iterator[Any]:
        """Run the rounds one at a time."""
        for leg in legs:
            for items in leg:
                given = (*shared, state)
                state = rounds.settle(self.reduce_blocks(rounds.task, items, rounds.combine, name=name, shared=given))
            yield state

    def keep(self, argument: Any) -> Any:
        """Return the argument."""
        return argument

    def let_go(self, kept: Any) -> None:
        """Do nothing, as nothing was sent."""

    def settle(self, name: str) -> None:
        """Do nothing, as calls have returned."""

    @property
    def actors(self) -> Actors:
        """Objects of this thread."""
        return ActorsHere()

    def peak_memory(self) -> dict[str, int]:
        """Return the peak memory of this process."""
        return {"client": peak_memory_nbytes()}

    def performance_report(self, path: str | os.PathLike[str]) -> Any:
        """Record nothing."""
        return nullcontext()


class Tree:
    """Combines results that come in order in a binary tree, neighbours first, holding one result per level.

    Examples
    --------
    >>> tree = Tree(lambda one, other: f"({one}{other})")
    >>> for leaf in "abcde":
    ...     tree.add(leaf)
    >>> tree.combined()
    '(((ab)(cd))e)'
    """

    def __init__(self, combine: Task) -> None:
        self._combine = combine
        self._levels: list[tuple[int, Any]] = []
        """Heights of branches and their results, highest first."""

    def add(self, result: Any) -> None:
        """Add the next result: a leaf, or the result of a branch with as many leaves as the previous ones."""
        height = 0
        while self._levels and self._levels[-1][0] == height:
            result = self._combine(self._levels.pop()[1], result)
            height += 1
        self._levels.append((height, result))

    def combined(self) -> Any:
        """Return the combination of all results."""
        if not self._levels:
            raise ValueError("expected at least one block to combine, found none")
        result = self._levels.pop()[1]
        while self._levels:
            result = self._combine(self._levels.pop()[1], result)
        return result
