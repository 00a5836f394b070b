"""The passes of MESSAGE over its subsets: which of them a task reads together, and what comes back."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from daskfs.selectors.message.plan import Shape, plan_message, subset_start, subsets_per_task
from daskfs.selectors.message.subset import (
    Derivatives,
    MaximumLikelihood,
    NormalEquations,
    Point,
    SelectionSettings,
    SubsetChoice,
)
from daskfs.selectors.message.tasks import Choices, SubsetGroup, derivatives_on_block, refit_on_block, select_on_block
from daskfs.selectors.shared.run import Run


class SubsetPasses:
    """The passes over the subsets of a run's matrix, which are consecutive rows of it."""

    def __init__(self, run: Run, shape: Shape) -> None:
        plan_message(shape, run.task_limit, run.workers.n_threads)  # refuses what does not fit
        self.run, self.shape = run, shape

    def select(self, settings: SelectionSettings) -> tuple[SubsetChoice, ...]:
        """Step 2."""
        groups = self._groups(range(self.shape.n_subsets), self.shape.select_nbytes)
        return Choices.joined(self.run.map("select", select_on_block, groups, settings, record=Choices)).subsets

    def refit(
        self, settings: SelectionSettings, columns: np.ndarray, subsets: Sequence[int]
    ) -> NormalEquations | MaximumLikelihood:
        """Fit the columns on some of the subsets."""
        record = NormalEquations if settings.loss == "squared" else MaximumLikelihood
        groups = self._groups(subsets, self._refit_nbytes(columns))
        key = _digest(columns)
        return record.joined(self.run.map("refit", refit_on_block, groups, settings, columns, record=record, key=key))

    def derivatives(self, settings: SelectionSettings, columns: np.ndarray, point: Point) -> Derivatives:
        """Return gradient and Hessian of every subset's loss at one point."""
        groups = self._groups(range(self.shape.n_subsets), self._refit_nbytes(columns))
        arguments = (settings, columns, point)
        key = _digest(columns)
        found = self.run.map("newton", derivatives_on_block, groups, *arguments, record=Derivatives, key=key)
        return Derivatives.joined(found)

    def _refit_nbytes(self, columns: np.ndarray) -> Callable[[int], int]:
        return lambda n: self.shape.refit_nbytes(n, len(columns))

    def _groups(self, subsets: Sequence[int], nbytes_of: Callable[[int], int]) -> list[SubsetGroup]:
        """Return runs of consecutive subsets, none longer than a task may be."""
        n_samples, n_subsets = self.shape.n_samples, self.shape.n_subsets
        run = self.run
        per_task = subsets_per_task(len(subsets), nbytes_of, run.task_limit, run.workers.n_threads)
        groups = []
        for first, last in _consecutive(subsets, per_task):
            starts = [subset_start(i, n_samples, n_subsets) for i in range(first, last + 1)]
            bounds = tuple(start - starts[0] for start in starts)
            groups.append(SubsetGroup(first, bounds, run.rows(starts[0], starts[-1])))
        return groups


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
