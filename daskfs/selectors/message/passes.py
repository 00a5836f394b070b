"""The passes of MESSAGE over its subsets: which of them a task reads together, and what comes back."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from daskfs.selectors.message.choices import Choices
from daskfs.selectors.message.plan import Subsets, cut_into_tasks, plan_message
from daskfs.selectors.message.subset import (
    Derivatives,
    MaximumLikelihood,
    NormalEquations,
    Point,
)
from daskfs.selectors.message.tasks import SubsetGroup, derivatives_on_block, refit_on_block, select_on_block
from daskfs.selectors.shared.run import Run


class SubsetPasses:
    """The passes over the subsets of a run's matrix, which are consecutive rows of it."""

    def __init__(self, run: Run, subsets: Subsets) -> None:
        plan_message(subsets, run.limits)  # refuses what does not fit
        self.run, self.subsets, self.settings = run, subsets, subsets.settings

    def select(self) -> Choices:
        """Step 2."""
        groups = self._groups(range(self.subsets.n_subsets), self.subsets.select_nbytes)
        return Choices.joined(self.run.map("select", select_on_block, groups, self.settings, record=Choices))

    def refit(self, columns: np.ndarray, numbers: Sequence[int] | np.ndarray) -> NormalEquations | MaximumLikelihood:
        """Fit the columns on the subsets of these numbers."""
        record = NormalEquations if self.settings.loss == "squared" else MaximumLikelihood
        groups = self._groups(numbers, self._refit_nbytes(columns))
        shared = (self.settings, columns)
        return record.joined(
            self.run.map("refit", refit_on_block, groups, *shared, record=record, key=_digest(columns))
        )

    def derivatives(self, columns: np.ndarray, point: Point) -> Derivatives:
        """Return gradient and Hessian of every subset's loss at one point."""
        groups = self._groups(range(self.subsets.n_subsets), self._refit_nbytes(columns))
        shared, key = (self.settings, columns, point), _digest(columns)
        return Derivatives.joined(
            self.run.map("newton", derivatives_on_block, groups, *shared, record=Derivatives, key=key)
        )

    def _refit_nbytes(self, columns: np.ndarray) -> Callable[[int], int]:
        return lambda n: self.subsets.refit_nbytes(n, len(columns))

    def _groups(self, numbers: Sequence[int] | np.ndarray, nbytes_of: Callable[[int], int]) -> list[SubsetGroup]:
        """Return runs of consecutive subsets, none longer than a task may be."""
        starts, rows = self.subsets.starts, self.run.rows(0, self.subsets.data.n_samples)
        groups = []
        for first, last in cut_into_tasks(self.subsets, rows, np.asarray(numbers), nbytes_of, self.run.limits):
            bounds = tuple((starts[first : last + 1] - starts[first]).tolist())
            groups.append(SubsetGroup(first, bounds, self.run.rows(int(starts[first]), int(starts[last]))))
        return groups


def _digest(columns: np.ndarray) -> str:
    return f"-{zlib.crc32(np.asarray(columns, dtype=np.int64).tobytes()):08x}"
