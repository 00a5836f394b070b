"""One fit while it lasts: what is read, where tasks run, who hears of it, what was finished before, what it has cost.

`BaseSelector.fit_matrix` makes a `Run` and gives it to `_fit`, which hands it on: nothing else has to know of workers,
progress and checkpoints. The matrix is sent once in a fit, however many steps are mapped over it: a store as an
address, arrays in memory as what they are. A part is a small picklable object that names rows (`Run.rows` says which
they are where the task runs) or columns of what was sent.

**map**: one task for each part; the results in the order of the parts. With `record`, the type of a result, each is
kept in the checkpoint under the part's ``name``, and a run that is resumed maps what is missing.

    >>> import operator
    >>> from daskfs.matrix.arrays import ArrayMatrix
    >>> def mean_of(matrix, shift, part):
    ...     return float(matrix.read(part).mean()) + shift
    >>> run = Run(ArrayMatrix(np.arange(8.0).reshape(4, 2)), "example")
    >>> run.map("means", mean_of, [run.rows(0, 2), run.rows(2, 4)], 100.0)
    [101.5, 105.5]

**reduce**: the results combined in a tree that depends on the number of parts alone, where the tasks run.

    >>> run.reduce("sum", mean_of, [run.rows(0, 2), run.rows(2, 4)], operator.add, 0.0)
    7.0

**chain**: rounds of which each begins with the state that the one before has left; the client gets some of the states.

    >>> from daskfs.cluster.workers import Round
    >>> def moved(matrix, state, part):
    ...     return state + matrix.read(part).mean()
    >>> legs = [[[run.rows(0, 2)], [run.rows(2, 4)]], [[run.rows(0, 4)]]]
    >>> [float(state) for state in run.chain("walk", Round(moved, operator.add, abs), legs, 0.0)]
    [7.0, 10.5]

Steps of a kind add up in `Run.seconds` and `Run.nbytes` (of what came back), and each is told to the progress. Loops
around them say what they are with `Run.timed` (all of it counts as one step) and `Run.reported` (all of it is one step
of so many parts to whoever watches):

    >>> with run.timed("fit"), run.reported("fit", total=2) as advance:
    ...     for _ in range(2):
    ...         _ = run.map("means", mean_of, [run.rows(0, 4)], 0.0)
    ...         advance()
    >>> sorted(run.seconds)
    ['fit', 'means', 'sum']

States that are neither parts nor sums are kept with `Run.save` and `Run.load`. What several steps share and is large
goes through `Run.keep` first. `Run.over` is the same run over other rows, `Run.within` with names of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np

from daskfs import interrupts
from daskfs.cluster.workers import Here, Legs, Round, Workers
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.matrix.names import Names
from daskfs.selectors.shared.budget import DataShape, Limits
from daskfs.selectors.shared.record import Record, nbytes_of
from daskfs.watching.base import Found, Progress, Watched, told

NAMES_TOLD, NAMES_READ = 20, 10_000
"""How many names of selected features are told while a fit goes on, and of how many columns they are read for that."""

RecordT = TypeVar("RecordT", bound=Record | dict[str, np.ndarray])


class Checkpoint(Protocol):
    """Keeps small arrays under names, so that an interrupted run goes on where it stood."""

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """Return what was saved under a name, or None."""

    def save(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        """Save arrays under a name."""


class Run:
    """One fit of a matrix: see the module.

    Parameters
    ----------
    matrix : Matrix
    name : str
        Name of the method: steps are called ``name-step`` on the dashboard, in the progress and in the checkpoint.
    workers : Workers, optional
        By default this thread.
    progress : Progress, optional
    checkpoint : Checkpoint, optional
    task_limit : int, optional
        Bytes that one task may take.

    Attributes
    ----------
    seconds : dict of float
        What each step took.
    nbytes : dict of int
        What the tasks of each step returned: all that left the data.
    whole : Matrix
        Of one of many fits the matrix of whose rows these are some, see `daskfs.selectors.shared.samples`.
    """

    def __init__(
        self,
        matrix: Matrix,
        name: str,
        workers: Workers | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
        task_limit: int | None = None,
    ) -> None:
        self.matrix = self.whole = matrix
        self.name, self.workers = name, workers or Here()
        self.progress, self.checkpoint, self.task_limit = told(progress), checkpoint, task_limit
        self.seconds: dict[str, float] = {}
        self.nbytes: dict[str, int] = {}
        self._by: Literal["rows", "columns"] = "rows"
        self._prefix = ""
        self._kept: list[tuple[Any, Any]] = []  # arguments and what stands for them where tasks run
        self._timed: list[str] = []
        self._reported: list[str] = []

    def over(
        self, matrix: Matrix, *, by: Literal["rows", "columns"] | None = None, task_limit: int | None = None
    ) -> Self:
        """Return the same run over another matrix, most often some rows of this one.

        Parameters
        ----------
        matrix : Matrix
        by : {"rows", "columns"}, optional
            What parts are. Tasks that take rows are sent the matrix's base and the rows of that; tasks that take
            columns are sent the matrix as it is, with which rows it has. By default as before, "rows" at first.
        task_limit : int, optional
            By default as before.
        """
        run = copy(self)
        run.matrix, run._by = matrix, by or self._by
        run.task_limit = self.task_limit if task_limit is None else task_limit
        return run

    def within(self, prefix: str) -> Self:
        """Return the same run with checkpoints of its own: of one class of several, for example."""
        run = copy(self)
        run._prefix = f"{self._prefix}{prefix}-"
        return run

    @property
    def is_part(self) -> bool:
        """Whether what is done now is part of a step that is reported."""
        return bool(self._reported)

    @property
    def shape(self) -> DataShape:
        """Shape of the matrix, as plans take it."""
        return DataShape.of(self.matrix)

    @property
    def limits(self) -> Limits:
        """What the fit may take."""
        return Limits(self.task_limit, self.workers.n_threads)

    @property
    def sent(self) -> Any:
        """What stands for the matrix among the arguments of a task; sent when it is asked for, once."""
        return self.keep(self.matrix if self._by == "columns" else self.matrix.base)

    def rows(self, start: int, stop: int) -> Rows:
        """Return rows [start, stop) of the matrix as rows of what is sent."""
        return slice(start, stop) if self._by == "columns" else self.matrix.at(start, stop)

    def keep(self, argument: Any) -> Any:
        """Send what several steps share, once; return what stands for it."""
        for known, kept in self._kept:
            if known is argument:
                return kept
        kept = self.workers.keep(argument)
        self._kept.append((argument, kept))
        return kept

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of all that was sent, though an error's traceback may still refer to this run."""
        while self._kept:
            self.workers.let_go(self._kept.pop()[1])

    def map(
        self,
        step: str,
        function: Callable[..., Any],
        parts: Sequence[Any],
        *shared: Any,
        record: type[RecordT] | None = None,
        key: str = "",
    ) -> list[Any]:
        """Return ``function(matrix, *shared, part)`` for every part, in the order of the parts.

        Parameters
        ----------
        step : str
        function : callable
            Importable by name, free of side effects, and light: it is what workers import.
        parts : sequence
            With `record` each has a ``name``.
        *shared
            Common to all tasks.
        record : type, optional
            A `Record` or dict, what the tasks return. Given, results are kept, and found where a run is resumed.
        key : str
            Sets these results apart from those of the same step with other arguments.

        Raises
        ------
        RunError
            The workers were lost more often than can be repaired.
        """
        results: list[Any] = [None] * len(parts)
        for k, result in self.each(step, function, parts, *shared, record=record, key=key):
            results[k] = result
        return results

    def each(
        self,
        step: str,
        function: Callable[..., Any],
        parts: Sequence[Any],
        *shared: Any,
        record: type[RecordT] | None = None,
        key: str = "",
    ) -> Iterator[tuple[int, Any]]:
        """Yield number and result of every part as they come, those that a checkpoint holds first: see `map`."""
        names = [] if record is None else [f"{step}{key}-{part.name}" for part in parts]
        found = {} if record is None else {k: self.load(name, record) for k, name in enumerate(names)}
        waiting = [k for k in range(len(parts)) if found.get(k) is None]
        with self.reported(step, len(parts), len(parts) - len(waiting)) as advance, self.timed(step):
            for k, result in found.items():
                if result is not None:
                    self._count(step, result)
                    yield k, result
            if not waiting:
                return
            shared, tasks = (self.sent, *shared), [parts[k] for k in waiting]
            for done, result in self.workers.map_blocks(function, tasks, name=self._full(step), shared=shared):
                interrupts.check()
                if record is not None:
                    self.save(names[waiting[done]], result)
                self._count(step, result)
                advance()
                yield waiting[done], result

    def round(self, step: str, function: Callable[..., Any], parts: Sequence[Any], *shared: Any) -> list[Any]:
        """Return what `map` does, of the few parts of one of many rounds, each of which is waited for.

        Where rounds take less time in this process than to be sent they are done here, so that the plan of the client
        must have room for a task.
        """
        with self.reported(step, len(parts)) as advance, self.timed(step):
            given = (self.sent, *shared)
            results = self.workers.map_round(function, parts, name=self._full(step), shared=given)
            interrupts.check()
            for result in results:
                self._count(step, result)
                advance()
        return results

    def reduce(
        self,
        step: str,
        function: Callable[..., Any],
        parts: Sequence[Any],
        combine: Callable[[Any, Any], Any],
        *shared: Any,
        record: type[RecordT] | None = None,
        key: str = "",
    ) -> Any:
        """Return all ``function(matrix, *shared, part)`` combined, neighbours first, where the tasks run: see `map`."""
        name = f"{step}{key}"
        with self.reported(step, 1) as advance, self.timed(step):
            result: Any = None if record is None else self.load(name, record)
            if result is None:
                shared = (self.sent, *shared)
                result = self.workers.reduce_blocks(function, parts, combine, name=self._full(step), shared=shared)
                if record is not None:
                    self.save(name, result)
            advance()
        self._count(step, result)
        return result

    def chain(self, step: str, rounds: Round, legs: Legs, state: Any, *shared: Any) -> Iterator[Any]:
        """Yield the state after every leg of a chain of rounds: see `daskfs.cluster.workers.Workers.chain_blocks`.

        Each task is ``rounds.task(matrix, *shared, state, part)``.
        """
        shared = (self.sent, *shared)
        for left in self.workers.chain_blocks(rounds, legs, state, name=self._full(step), shared=shared):
            interrupts.check()
            self._count(step, left)
            yield left

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Count the seconds of what is inside, and the bytes of what is mapped there, as those of this step."""
        is_outermost, started = not self._timed, time.perf_counter()
        is_told = step in self._reported[-1:]
        self._timed.append(step)
        try:
            with nullcontext() if is_told else self._part(step, 0):
                yield
        finally:
            self._timed.pop()
            if is_outermost:
                self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - started

    @contextmanager
    def reported(self, step: str, total: int, done: int = 0) -> Iterator[Callable[..., None]]:
        """Report what is inside as a step of so many parts at most; yields what to call with the number that is done.

        What stands inside another step that is reported or timed is a part of it, of which those alone hear who hear
        of parts.
        """
        is_part = bool(self._reported or self._timed)
        self._reported.append(step)
        try:
            if self.progress is None:
                yield _say_nothing
            elif is_part:
                with self._part(step, total, done) as advance:
                    yield advance
            else:
                yield from self._step(self.progress, step, total, done)
        finally:
            self._reported.pop()

    def _step(self, progress: Watched, step: str, total: int, done: int) -> Iterator[Callable[..., None]]:
        """Report a step; one that ends early has nothing left to do."""
        progress.start(self._full(step), total)
        progress.skip(done)
        n_left = [total - done]

        def advance(k: int = 1) -> None:
            n_left[0] -= k
            progress.advance(k)

        yield advance
        if n_left[0] > 0:
            progress.advance(n_left[0])
        progress.finish()

    @contextmanager
    def _part(self, step: str, total: int, done: int = 0) -> Iterator[Callable[..., None]]:
        """Tell of a part of a step."""
        if self.progress is None:
            yield _say_nothing
            return
        self.progress.begin_part(self._full(step), total)
        if done:
            self.progress.advance_part(done)
        try:
            yield self.progress.advance_part
        finally:
            self.progress.end_part()

    def learn(self, axis: str, at: float, objective: float, selected: Callable[[], np.ndarray]) -> None:
        """Tell whoever wants to know now what was found so far.

        Parameters
        ----------
        axis : str
            What the objective is drawn over: "pass".
        at : float
            How far the fit is on it.
        objective : float
        selected : callable
            Returns columns, the most important first where that is known.
        """

        def find() -> Found:
            columns = selected()
            return Found(float(at), axis, float(objective), len(columns), _some_names(self.matrix.names, columns))

        if self.progress is not None:
            self.progress.learn(find)

    def load(self, name: str, record: type[RecordT]) -> RecordT | None:
        """Return what was kept under a name before the run was interrupted; None where nothing was."""
        arrays = None if self.checkpoint is None else self.checkpoint.load(self._prefix + self._full(name))
        if arrays is None:
            return None
        return record.unpack(arrays) if issubclass(record, Record) else record(arrays)

    def save(self, name: str, record: Record | dict[str, np.ndarray]) -> None:
        """Keep a record under a name, where there is a checkpoint."""
        if self.checkpoint is not None:
            arrays = record.pack() if isinstance(record, Record) else record
            self.checkpoint.save(self._prefix + self._full(name), arrays)

    def _full(self, step: str) -> str:
        return f"{self.name}-{step}" if step else self.name

    def _count(self, step: str, result: Any) -> None:
        step = self._timed[0] if self._timed else step
        self.nbytes[step] = self.nbytes.get(step, 0) + nbytes_of(result)


def _some_names(names: Names, columns: np.ndarray) -> tuple[str, ...]:
    """Return the first of the names; of many columns their numbers, for all names would have to be read."""
    first = columns[:NAMES_TOLD].tolist()
    if names.are_given and len(names) > NAMES_READ:
        return tuple(f"column {j}" for j in first)
    return tuple(str(names[j]) for j in first)


def _say_nothing(k: int = 1) -> None:
    """Stand in for the progress of what is part of another step."""
