"""The passes of MESSAGE over its subsets: which subsets a task reads together, and what is returned."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.selectors.message.choices import Choices, NormalEquations, SelectionSettings
from daskfs.selectors.message.plan import Subsets, cut_into_tasks, plan_message, subsets_per_task, together
from daskfs.selectors.message.subset import Derivatives, MaximumLikelihood, Point
from daskfs.selectors.message.tasks import SubsetGroup, derivatives_on_block, refit_on_block, select_on_block
from daskfs.selectors.shared.run import Run


class SubsetPasses:
    """The passes over the subsets of a run's matrix. Each subset is a range of consecutive rows."""

    def __init__(self, run: Run, subsets: Subsets) -> None:
        plan_message(subsets, run.limits)  # raises if it does not fit
        self.run, self.subsets, self.settings = run, subsets, subsets.settings

    @property
    def _of_columns(self) -> SelectionSettings:
        """The settings for tasks that are given their columns."""
        return replace(self.settings, groups=None, always=())

    def groups(self) -> list[SubsetGroup]:
        """Return the groups of subsets that tasks select on."""
        return self._groups(range(self.subsets.n_subsets), self.subsets.select_nbytes)

    def has_selected(self, group: SubsetGroup) -> bool:
        """Return whether the choices of a group are known from a checkpoint."""
        return self.run.load(f"select-{group.name}", Choices) is not None

    def select(self) -> Choices:
        """Step 2: select on every subset."""
        groups = self.groups()
        settings = self.settings if self.settings.groups is None else self.run.keep(self.settings)  # sent once
        return Choices.joined(self.run.map("select", select_on_block, groups, settings, record=Choices))

    def refit(
        self,
        columns: np.ndarray,
        numbers: Sequence[int] | np.ndarray,
        with_errors: bool = False,
        asked: ColumnGroups | None = None,
    ) -> NormalEquations | MaximumLikelihood:
        """Fit the columns on the subsets with these numbers; see `daskfs.selectors.message.subset.refit`."""
        record = NormalEquations if self.settings.record.is_quadratic else MaximumLikelihood
        groups = self._groups(numbers, self._refit_nbytes(columns))
        key = _digest(columns) + "-errors" * with_errors + ("" if asked is None else _digest(np.concatenate(asked)))
        shared = self._of_columns, columns, with_errors, asked
        return record.joined(self.run.map("refit", refit_on_block, groups, *shared, record=record, key=key))

    def derivatives(self, columns: np.ndarray, point: Point, which: str = "") -> Derivatives:
        """Return gradient and Hessian of every subset's loss at a point; `which` distinguishes points."""
        groups = self._groups(range(self.subsets.n_subsets), self._refit_nbytes(columns))
        shared, key = (self._of_columns, columns, point), _digest(columns) + which
        return Derivatives.joined(
            self.run.map("newton", derivatives_on_block, groups, *shared, record=Derivatives, key=key)
        )

    def _refit_nbytes(self, columns: np.ndarray) -> Callable[[int], int]:
        return lambda n: self.subsets.refit_nbytes(n, len(columns))

    def _groups(self, numbers: Sequence[int] | np.ndarray, nbytes_of: Callable[[int], int]) -> list[SubsetGroup]:
        """Return the subsets in groups, one per task: consecutive subsets, or several short runs that are far apart."""
        starts, rows, limits = self.subsets.starts, self.run.rows(0, self.subsets.data.n_samples), self.run.limits
        tasks = cut_into_tasks(self.subsets, rows, np.asarray(numbers), nbytes_of, limits)
        groups = []
        for runs in together(tasks, subsets_per_task(len(numbers), nbytes_of, limits)):
            own = np.concatenate([np.arange(*run) for run in runs])
            bounds = np.append(0, np.cumsum(starts[own + 1] - starts[own]))
            places = [self.run.rows(int(starts[first]), int(starts[last])) for first, last in runs]
            its_rows = places[0] if len(places) == 1 else np.r_[tuple(places)]
            groups.append(SubsetGroup(int(own[0]), int(own[-1]), tuple(bounds.tolist()), its_rows))
        return groups


def _digest(columns: np.ndarray) -> str:
    return f"-{zlib.crc32(np.asarray(columns, dtype=np.int64).tobytes()):08x}"
