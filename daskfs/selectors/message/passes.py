"""The passes of MESSAGE over its subsets: which tasks, where they run, and what was finished before."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from daskfs.cluster.workers import Workers
from daskfs.matrix.base import Matrix, Progress
from daskfs.selectors.message.on_block import (
    SubsetGroup,
    joined,
    refit_on_block,
    select_on_block,
    slope_on_block,
)
from daskfs.selectors.message.plan import Shape, plan_message, subset_start, subsets_per_task
from daskfs.selectors.message.subset import Point, SelectionSettings
from daskfs.selectors.shared.run import Checkpoint


class MessageRun:
    """The passes over the subsets of a matrix: which tasks, where, and what was finished before."""

    def __init__(
        self,
        matrix: Matrix,
        shape: Shape,
        memory_limit: int | None,
        workers: Workers,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        plan_message(shape, memory_limit, workers.n_threads)  # refuses what does not fit
        self.matrix, self.shape, self.memory_limit = matrix, shape, memory_limit
        self.workers, self.progress, self.checkpoint = workers, progress, checkpoint
        self.seconds: dict[str, float] = {}
        self.communication: dict[str, int] = {}
        """Bytes of what the tasks of a pass returned."""

    def select(self, settings: SelectionSettings) -> dict[str, np.ndarray]:
        """Step 2."""
        return self._map("select", select_on_block, (settings,), range(self.shape.n_subsets), self.shape.select_nbytes)

    def refit(self, settings: SelectionSettings, columns: np.ndarray, subsets: Sequence[int]) -> dict[str, np.ndarray]:
        """Fit the columns on some of the subsets."""
        tag = _digest(columns)
        return self._map("refit", refit_on_block, (settings, columns), subsets, self._refit_nbytes(columns), tag)

    def slope(self, settings: SelectionSettings, columns: np.ndarray, point: Point) -> dict[str, np.ndarray]:
        """Gradient and Hessian of every subset's loss at one point."""
        subsets = range(self.shape.n_subsets)
        arguments = (settings, columns, point)
        return self._map("slope", slope_on_block, arguments, subsets, self._refit_nbytes(columns), _digest(columns))

    def _refit_nbytes(self, columns: np.ndarray) -> Callable[[int], int]:
        return lambda n: self.shape.refit_nbytes(n, len(columns))

    def _map(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        subsets: Sequence[int],
        nbytes_of: Callable[[int], int],
        tag: str = "",
    ) -> dict[str, np.ndarray]:
        """Run a function on groups of subsets; return its arrays in the order of the subsets.

        Checkpoints of the same step with other arguments differ in their `tag`.
        """
        started = time.perf_counter()
        groups = self._groups(subsets, nbytes_of)
        step = f"message-{name}"
        results: list[Any] = [self._saved(step + tag, group) for group in groups]
        waiting = [k for k, result in enumerate(results) if result is None]
        if self.progress is not None:
            self.progress.start(step, len(groups))
            self.progress.advance(len(groups) - len(waiting))
        tasks = [groups[k] for k in waiting]
        shared = (self.matrix.base, *arguments)
        for done, result in self.workers.map_blocks(function, tasks, name=step, shared=shared):
            results[waiting[done]] = result
            if self.checkpoint is not None:
                self.checkpoint.save(_task_name(step + tag, tasks[done]), result)
            if self.progress is not None:
                self.progress.advance()
        if self.progress is not None:
            self.progress.finish()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
        nbytes = sum(array.nbytes for result in results for array in result.values())
        self.communication[name] = self.communication.get(name, 0) + nbytes
        return joined(results)

    def _groups(self, subsets: Sequence[int], nbytes_of: Callable[[int], int]) -> list[SubsetGroup]:
        """Return runs of consecutive subsets, none longer than a task may be."""
        n_samples, n_subsets = self.shape.n_samples, self.shape.n_subsets
        per_task = subsets_per_task(len(subsets), nbytes_of, self.memory_limit, self.workers.n_threads)
        groups = []
        for first, last in _runs(subsets, per_task):
            starts = [subset_start(i, n_samples, n_subsets) for i in range(first, last + 1)]
            rows = self.matrix.at(starts[0], starts[-1])
            groups.append(SubsetGroup(first, tuple(start - starts[0] for start in starts), rows))
        return groups

    def _saved(self, step: str, group: SubsetGroup) -> dict[str, np.ndarray] | None:
        return self.checkpoint.load(_task_name(step, group)) if self.checkpoint is not None else None


def _runs(subsets: Sequence[int], longest: int) -> list[tuple[int, int]]:
    """Return [first, last) of consecutive numbers, in pieces of at most `longest`."""
    runs: list[tuple[int, int]] = []
    for i in subsets:
        if runs and runs[-1][1] == i and i - runs[-1][0] < longest:
            runs[-1] = (runs[-1][0], i + 1)
        else:
            runs.append((int(i), int(i) + 1))
    return runs


def _digest(columns: np.ndarray) -> str:
    return f"-{zlib.crc32(np.asarray(columns, dtype=np.int64).tobytes()):08x}"


def _task_name(step: str, group: SubsetGroup) -> str:
    return f"{step}-{group.first}-{group.first + len(group.bounds) - 2}"
