"""The two passes of MESSAGE over its subsets: which tasks, where they run, and what was finished before."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from daskfs.blocks import Progress
from daskfs.selectors.base import Checkpoint
from daskfs.selectors.message_on_block import SelectionSettings, SubsetGroup, joined, refit_on_block, select_on_block
from daskfs.selectors.message_plan import Shape, plan_message, subset_start, subsets_per_task
from daskfs.streams import RowView
from daskfs.workers import Workers


class MessageRun:
    """The two passes over the subsets: which tasks, where, and what was finished before."""

    def __init__(
        self,
        matrix: Any,
        shape: Shape,
        memory_limit: int | None,
        workers: Workers,
        progress: Progress | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        plan_message(shape, memory_limit, workers.n_threads)  # refuses what does not fit
        self.matrix, self.shape, self.memory_limit = matrix, shape, memory_limit
        self.workers, self.progress, self.checkpoint = workers, progress, checkpoint
        self.seconds: dict[str, float] = {}

    def select(self, settings: SelectionSettings) -> dict[str, np.ndarray]:
        """Step 2."""
        return self._map("message-select", select_on_block, settings, self.shape.select_nbytes)

    def refit(self, columns: np.ndarray) -> dict[str, np.ndarray]:
        """Step 4."""
        return self._map("message-refit", refit_on_block, columns, lambda n: self.shape.refit_nbytes(n, len(columns)))

    def _map(
        self, name: str, function: Callable[..., Any], settings: Any, nbytes_of: Callable[[int], int]
    ) -> dict[str, np.ndarray]:
        """Run a function on all groups; return its arrays concatenated in the order of the subsets."""
        started = time.perf_counter()
        groups = self._groups(nbytes_of)
        results: list[Any] = [self._saved(name, group) for group in groups]
        waiting = [k for k, result in enumerate(results) if result is None]
        if self.progress is not None:
            self.progress.start(name, len(groups))
            self.progress.advance(len(groups) - len(waiting))
        base = self.matrix.base if isinstance(self.matrix, RowView) else self.matrix
        tasks = [groups[k] for k in waiting]
        for done, result in self.workers.map_blocks(function, tasks, name=name, shared=(base, settings)):
            results[waiting[done]] = result
            if self.checkpoint is not None:
                self.checkpoint.save(_task_name(name, tasks[done]), result)
            if self.progress is not None:
                self.progress.advance()
        if self.progress is not None:
            self.progress.finish()
        self.seconds[name.removeprefix("message-")] = time.perf_counter() - started
        return joined(results)

    def _groups(self, nbytes_of: Callable[[int], int]) -> list[SubsetGroup]:
        n_samples, n_subsets = self.shape.n_samples, self.shape.n_subsets
        per_task = subsets_per_task(n_subsets, nbytes_of, self.memory_limit, self.workers.n_threads)
        groups = []
        for first in range(0, n_subsets, per_task):
            last = min(first + per_task, n_subsets)
            starts = [subset_start(i, n_samples, n_subsets) for i in range(first, last + 1)]
            is_view = isinstance(self.matrix, RowView)
            rows = self.matrix.locate(starts[0], starts[-1]) if is_view else slice(starts[0], starts[-1])
            groups.append(SubsetGroup(first, tuple(start - starts[0] for start in starts), rows))
        return groups

    def _saved(self, name: str, group: SubsetGroup) -> dict[str, np.ndarray] | None:
        return self.checkpoint.load(_task_name(name, group)) if self.checkpoint is not None else None


def _task_name(name: str, group: SubsetGroup) -> str:
    return f"{name}-{group.first}-{group.first + len(group.bounds) - 2}"
