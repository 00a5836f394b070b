"""The context of one fit: the matrix, the workers, the progress, the checkpoint, and the costs so far.

`BaseSelector.fit_matrix` makes a `Run` and passes it to `_fit`, which passes it on: no other code needs to know about
workers, progress and checkpoints. The matrix is sent once per fit, however many steps are mapped over it: a store as an
address, arrays in memory as they are. A part is a small picklable object that identifies rows (`Run.rows` returns them
in the form that tasks use) or columns of what was sent.

**map**: one task for each part; results in the order of the parts. With `record`, the type of a result, each result is
stored in the checkpoint under the part's ``name``, and a resumed run maps only what is missing.

    >>> import operator
    >>> from daskfs.matrix.arrays import ArrayMatrix
    >>> def mean_of(matrix, shift, part):
    ...     return float(matrix.read(part).mean()) + shift
    >>> run = Run(ArrayMatrix(np.arange(8.0).reshape(4, 2)), "example")
    >>> run.map("means", mean_of, [run.rows(0, 2), run.rows(2, 4)], 100.0)
    [101.5, 105.5]

**reduce**: the results combined where the tasks run, in a tree that depends only on the number of parts.

    >>> run.reduce("sum", mean_of, [run.rows(0, 2), run.rows(2, 4)], operator.add, 0.0)
    7.0

**chain**: rounds, each of which begins with the state after the previous one; the client receives some of the states.

    >>> from daskfs.cluster.workers import Round
    >>> def moved(matrix, state, part):
    ...     return state + matrix.read(part).mean()
    >>> legs = [[[run.rows(0, 2)], [run.rows(2, 4)]], [[run.rows(0, 4)]]]
    >>> [float(state) for state in run.chain("walk", Round(moved, operator.add, abs), legs, 0.0)]
    [7.0, 10.5]

Steps with the same name add up in `Run.seconds` and `Run.nbytes` (of results), and each is reported to the progress.
Loops around steps use `Run.timed` (everything inside counts as one step) and `Run.reported` (the progress shows
everything inside as one step with so many parts):

    >>> with run.timed("fit"), run.reported("fit", total=2) as advance:
    ...     for _ in range(2):
    ...         _ = run.map("means", mean_of, [run.rows(0, 4)], 0.0)
    ...         advance()
    >>> sorted(run.seconds)
    ['fit', 'means', 'sum']

States that are neither parts nor sums are stored with `Run.save` and `Run.load`, those of a loop that continues with
`Run.save_so_far`. Large arguments that several steps share go through `Run.keep` first. `Run.over` is the same run over
other rows, `Run.within` the same with its own names.
"""

from __future__ import annotations

import math
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
from daskfs.watching.base import Found, Progress, Watched, as_watched

NAMES_REPORTED, NAMES_READ = 20, 10_000
"""How many names of selected features are reported during a fit, and up to how many columns names are read for that."""
SAVE_S = 1.0
"""Seconds between two saved states of a loop: small fits would otherwise spend half of their time on saving."""

RecordT = TypeVar("RecordT", bound=Record | dict[str, np.ndarray])


class Checkpoint(Protocol):
    """Stores small arrays by name, so that an interrupted run can continue."""

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """Return the arrays saved under a name, or None."""

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
        Memory limit of one task in bytes.

    Attributes
    ----------
    seconds : dict of float
        Time of each step.
    nbytes : dict of int
        Bytes that the tasks of each step returned: all that left the data.
    whole : Matrix
        If this is one of many fits, the matrix of which these are some rows, see `daskfs.selectors.shared.samples`.
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
        self.progress, self.checkpoint, self.task_limit = as_watched(progress), checkpoint, task_limit
        self.seconds: dict[str, float] = {}
        self.nbytes: dict[str, int] = {}
        self._by: Literal["rows", "columns"] = "rows"
        self._prefix = ""
        self._ready: dict[str, Any] = {}  # results of steps that were computed before, by their names in a checkpoint
        self._saved_at: dict[str, float] = {}
        self._kept: list[tuple[Any, Any]] = []  # arguments, and their substitutes in tasks
        self._timed: list[str] = []
        self._reported: list[str] = []

    def over(
        self, matrix: Matrix, *, by: Literal["rows", "columns"] | None = None, task_limit: int | None = None
    ) -> Self:
        """Return the same run over another matrix, usually some rows of this one.

        Parameters
        ----------
        matrix : Matrix
        by : {"rows", "columns"}, optional
            Kind of the parts. Tasks on rows receive the matrix's base and rows of it; tasks on columns receive the
            matrix itself, with its rows. By default unchanged, "rows" at first.
        task_limit : int, optional
            By default unchanged.
        """
        run = copy(self)
        if matrix.shape[1] != self.matrix.shape[1]:  # what was computed ahead is of other columns
            run._ready = {}
        run.matrix, run._by = matrix, by or self._by
        run.task_limit = self.task_limit if task_limit is None else task_limit
        return run

    def within(self, prefix: str) -> Self:
        """Return the same run with its own checkpoints, for example for one of several classes."""
        run = copy(self)
        run._prefix = f"{self._prefix}{prefix}-"
        return run

    @property
    def is_part(self) -> bool:
        """Whether the present work is part of a step that is reported."""
        return bool(self._reported)

    @property
    def shape(self) -> DataShape:
        """Shape of the matrix, for plans."""
        return DataShape.of(self.matrix)

    @property
    def limits(self) -> Limits:
        """The limits of the fit."""
        return Limits(self.task_limit, self.workers.n_threads)

    @property
    def sent(self) -> Any:
        """The argument of tasks that stands for the matrix; sent on first use, once."""
        return self.keep(self.matrix if self._by == "columns" else self.matrix.base)

    def rows(self, start: int, stop: int) -> Rows:
        """Return rows [start, stop) of the matrix as rows of what is sent."""
        return slice(start, stop) if self._by == "columns" else self.matrix.at(start, stop)

    def keep(self, argument: Any) -> Any:
        """Send an argument that several steps share, once; return its substitute."""
        for known, kept in self._kept:
            if known is argument:
                return kept
        kept = self.workers.keep(argument)
        self._kept.append((argument, kept))
        return kept

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Release everything that was sent, even if an error's traceback still refers to this run."""
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
            Importable by name, free of side effects, and light, since workers import it.
        parts : sequence
            With `record`, each has a ``name``.
        *shared
            Common to all tasks.
        record : type, optional
            A `Record` or dict, the type of the results. If given, results are saved, and found again by a resumed run.
        key : str
            Distinguishes these results from those of the same step with other arguments.

        Raises
        ------
        RunError
            Workers were lost too often.
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
        """Yield number and result of every part as they finish, those in a checkpoint first: see `map`."""
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
        """Return the same as `map`, for the few parts of one of many rounds, each of which is awaited.

        Rounds that take less time in this process than sending them are computed here, so the client's plan must have
        memory for a task.
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
        """Return all ``function(matrix, *shared, part)`` combined where the tasks run, neighbours first: see `map`."""
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
        """Count time and result bytes of everything inside as those of this step."""
        is_outermost, started = not self._timed, time.perf_counter()
        is_reported = step in self._reported[-1:]
        self._timed.append(step)
        try:
            with nullcontext() if is_reported else self._part(step, 0):
                yield
        finally:
            self._timed.pop()
            if is_outermost:
                self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - started

    @contextmanager
    def reported(self, step: str, total: int, done: int = 0) -> Iterator[Callable[..., None]]:
        """Report everything inside as a step with up to `total` parts; yields a function to call with the number done.

        Inside another step that is reported or timed, it is a part of that step, and only observers of parts are
        notified.
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
        """Report a step. If it ends early, the remaining parts count as done."""
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
        """Report a part of a step."""
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
        """Report what was found so far, if anyone wants to know.

        Parameters
        ----------
        axis : str
            Axis over which the objective is drawn, such as "pass".
        at : float
            Present position on it.
        objective : float
        selected : callable
            Returns columns, most important first if known.
        """

        def find() -> Found:
            columns = selected()
            return Found(float(at), axis, float(objective), len(columns), _some_names(self.matrix.names, columns))

        if self.progress is not None:
            self.progress.learn(find)

    def load(self, name: str, record: type[RecordT]) -> RecordT | None:
        """Return what was saved under a name before the run was interrupted, or None."""
        if (ready := self._ready.get(self._prefix + self._full(name))) is not None:
            return ready  # type: ignore[no-any-return]
        arrays = None if self.checkpoint is None else self.checkpoint.load(self._prefix + self._full(name))
        if arrays is None:
            return None
        return record.unpack(arrays) if issubclass(record, Record) else record(arrays)

    def save(self, name: str, record: Record | dict[str, np.ndarray]) -> None:
        """Save a record under a name, if there is a checkpoint."""
        if self.checkpoint is not None:
            arrays = record.pack() if isinstance(record, Record) else record
            self.checkpoint.save(self._prefix + self._full(name), arrays)

    def save_so_far(self, name: str, state: Callable[[], Record | dict[str, np.ndarray]]) -> None:
        """Save the state of a loop, unless one was saved within the last second.

        What follows from a state must not depend on when it was saved: an interrupted run repeats what came after it.
        """
        known = self._prefix + self._full(name)
        if self.checkpoint is None or time.monotonic() - self._saved_at.get(known, -math.inf) < SAVE_S:
            return
        self.save(name, state())
        self._saved_at[known] = time.monotonic()

    def put(self, name: str, record: Record) -> None:
        """Save a part's result that was computed together with those of other runs, so that `map` finds it."""
        self._ready[self._prefix + self._full(name)] = record
        self.save(name, record)

    def _full(self, step: str) -> str:
        return f"{self.name}-{step}" if step else self.name

    def _count(self, step: str, result: Any) -> None:
        step = self._timed[0] if self._timed else step
        self.nbytes[step] = self.nbytes.get(step, 0) + nbytes_of(result)


def _some_names(names: Names, columns: np.ndarray) -> tuple[str, ...]:
    """Return the first names; with very many columns their numbers, since all names would have to be read."""
    first = columns[:NAMES_REPORTED].tolist()
    if names.are_given and len(names) > NAMES_READ:
        return tuple(f"column {j}" for j in first)
    return tuple(str(names[j]) for j in first)


def _say_nothing(k: int = 1) -> None:
    """Replace the progress function in steps that are not reported."""
