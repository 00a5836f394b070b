"""The passes of MESSAGE over its subsets: which of them a task reads together, and what comes back."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from daskfs.cluster.workers import Workers
from daskfs.matrix.base import Progress
from daskfs.matrix.streaming import RowView
from daskfs.selectors.message.plan import Shape, plan_message, subset_start, subsets_per_task
from daskfs.selectors.message.subset import (
    Derivatives,
    MaximumLikelihood,
    NormalEquations,
    Point,
    SelectionSettings,
    SubsetChoice,
)
from daskfs.selectors.message.tasks import (
    Choices,
    SubsetGroup,
    derivatives_on_block,
    refit_on_block,
    select_on_block,
)
from daskfs.selectors.shared.record import Record


class SubsetPasses:
    """The passes over the subsets of a matrix, which are consecutive rows of it."""

    def __init__(
        self,
        matrix: Any,
        shape: Shape,
        memory_limit: int | None,
        workers: Workers,
        progress: Progress | None = None,
        checkpoint: Any = None,
    ) -> None:
        plan_message(shape, memory_limit, workers.n_threads)  # refuses what does not fit
        self.matrix, self.shape, self.memory_limit = matrix, shape, memory_limit
        self.workers, self.progress, self.checkpoint = workers, progress, checkpoint
        self.seconds: dict[str, float] = {}
        self.communication: dict[str, int] = {}
        """Bytes of what the tasks of a pass returned."""

    def select(self, settings: SelectionSettings) -> tuple[SubsetChoice, ...]:
        """Step 2."""
        groups = self._groups(range(self.shape.n_subsets), self.shape.select_nbytes)
        return Choices.joined(self._map("select", select_on_block, groups, settings, record=Choices)).subsets

    def refit(
        self, settings: SelectionSettings, columns: np.ndarray, subsets: Sequence[int]
    ) -> NormalEquations | MaximumLikelihood:
        """Fit the columns on some of the subsets."""
        record = NormalEquations if settings.loss == "squared" else MaximumLikelihood
        groups = self._groups(subsets, self._refit_nbytes(columns))
        key = _digest(columns)
        return record.joined(self._map("refit", refit_on_block, groups, settings, columns, record=record, key=key))

    def derivatives(self, settings: SelectionSettings, columns: np.ndarray, point: Point) -> Derivatives:
        """Return gradient and Hessian of every subset's loss at one point."""
        groups = self._groups(range(self.shape.n_subsets), self._refit_nbytes(columns))
        arguments = (settings, columns, point)
        key = _digest(columns)
        found = self._map("newton", derivatives_on_block, groups, *arguments, record=Derivatives, key=key)
        return Derivatives.joined(found)

    def _refit_nbytes(self, columns: np.ndarray) -> Callable[[int], int]:
        return lambda n: self.shape.refit_nbytes(n, len(columns))

    def _groups(self, subsets: Sequence[int], nbytes_of: Callable[[int], int]) -> list[SubsetGroup]:
        """Return runs of consecutive subsets, none longer than a task may be."""
        n_samples, n_subsets = self.shape.n_samples, self.shape.n_subsets
        per_task = subsets_per_task(len(subsets), nbytes_of, self.memory_limit, self.workers.n_threads)
        groups = []
        for first, last in _consecutive(subsets, per_task):
            starts = [subset_start(i, n_samples, n_subsets) for i in range(first, last + 1)]
            is_view = isinstance(self.matrix, RowView)
            rows = self.matrix.locate(starts[0], starts[-1]) if is_view else slice(starts[0], starts[-1])
            groups.append(SubsetGroup(first, tuple(start - starts[0] for start in starts), rows))
        return groups

    def _map(
        self,
        step: str,
        function: Callable[..., Any],
        groups: Sequence[SubsetGroup],
        *arguments: Any,
        record: type[Record],
        key: str = "",
    ) -> list[Any]:
        started = time.perf_counter()
        name = f"message-{step}"
        names = [f"{name}{key}-{group.name}" for group in groups]
        found = [None if self.checkpoint is None else self.checkpoint.load(one) for one in names]
        results: list[Any] = [None if arrays is None else record.unpack(arrays) for arrays in found]
        waiting = [k for k, result in enumerate(results) if result is None]
        if self.progress is not None:
            self.progress.start(name, len(groups))
            self.progress.advance(len(groups) - len(waiting))
        base = self.matrix.base if isinstance(self.matrix, RowView) else self.matrix
        tasks = [groups[k] for k in waiting]
        for done, result in self.workers.map_blocks(function, tasks, name=name, shared=(base, *arguments)):
            results[waiting[done]] = result
            if self.checkpoint is not None:
                self.checkpoint.save(names[waiting[done]], result.pack())
            if self.progress is not None:
                self.progress.advance()
        if self.progress is not None:
            self.progress.finish()
        self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - started
        self.communication[step] = self.communication.get(step, 0) + sum(result.nbytes for result in results)
        return results


def _consecutive(subsets: Sequence[int], longest: int) -> list[tuple[int, int]]:
    """Return [first, last) of consecutive numbers, in pieces of at most `longest`."""
    pieces: list[tuple[int, int]] = []
    for i in subsets:
        if pieces and pieces[-1][1] == i and i - pieces[-1][0] < longest:
            pieces[-1] = (pieces[-1][0], i + 1)
        else:
            pieces.append((int(i), int(i) + 1))
    return pieces


def _digest(columns: np.ndarray) -> str:
    return f"-{zlib.crc32(np.asarray(columns, dtype=np.int64).tobytes()):08x}"
