"""Selectors about a selector that are as small as can be: one takes a selection, the other fits columns itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfs.matrix.base import Matrix
from daskfs.model_selection.base import MetaSelector
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import on_samples, plan_samples


class Same(MetaSelector):
    """What the selector inside selects."""

    method = "same"

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        return plan_samples(self.recipe, shape, limits, 1, "one fit")

    def _fit(self, run: Run) -> None:
        self._take(self.selector_.fit_run(run))
        self.result_ = self._result_of(run, notes=["the same"], history=dict(self.selector_.result_.history))


@dataclass(frozen=True)
class Every:
    """Every second row, from the first or from the second on."""

    start: int

    @property
    def name(self) -> str:
        """Its number."""
        return str(self.start)

    def of(self, matrix: Matrix) -> Matrix:
        """Return these rows."""
        return matrix.take(np.arange(self.start, matrix.shape[0], 2))


def selected_on(selector: Any, run: Run, sample: Every) -> dict[str, np.ndarray]:
    """Return which columns are selected on some rows."""
    return {"support": selector.fit_run(run).support_}


class Halves(MetaSelector):
    """What is selected on one of two halves of the rows, by on how many."""

    method = "halves"
    _takes_selection = False

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        return plan_samples(self.recipe, shape, limits, 2, "two fits")

    def _fit(self, run: Run) -> None:
        self._plan(self._shape_of(run), run.limits)
        found = on_samples(run, "halves", selected_on, self.recipe, [Every(0), Every(1)])
        share = np.mean([one["support"] for one in found], axis=0)
        notes = self._take_columns(run, np.flatnonzero(share), share)
        self.result_ = self._result_of(run, notes=notes)
