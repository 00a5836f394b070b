"""Paths over all rows for losses whose curvature changes with the fit. Sums cannot replace the rows.

A task holds all rows. If they do not fit in its memory, an error is raised; `daskfs.Message` handles such data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.baselines.lasso.tasks import Weighting, select_on_sample
from daskfs.selectors.base import SEPARATED
from daskfs.selectors.message.choices import Choices
from daskfs.selectors.message.plan import Subsets
from daskfs.selectors.message.tasks import SubsetPasses
from daskfs.selectors.shared.budget import Budget, Limits, SelectorPlan


def select_on_samples(passes: SubsetPasses, weightings: list[Weighting]) -> list[Choices]:
    """Select on every bootstrap sample, each in a task of its own. All rows form one subset."""
    rows = passes.run.rows(0, passes.subsets.data.n_samples)
    return passes.run.map("select", select_on_sample, weightings, passes.settings, rows, record=Choices)


def plan_one_piece(method: str, subsets: Subsets, limits: Limits, n_paths: int = 1) -> SelectorPlan:
    """Return the plan of following `n_paths` paths over all rows, which form one subset.

    Raises
    ------
    PlanError
        All rows together exceed the memory limit of a task.
    """
    shape = subsets.data
    task = Budget().add("all rows and a path", subsets.select_nbytes(1))
    rows = f"all {shape.n_samples:,} rows x {shape.n_features:,} columns"
    task.add("weights and their order", 24 * shape.n_samples).refuse_over(
        limits.task_nbytes,
        f"{method} with loss={subsets.settings.loss!r} holds {rows} in a task,",
        "select with Message, whose subsets are smaller",
    )
    client = Budget().add("vectors over the rows", shape.n_samples * 24)
    client.add("paths", shape.n_features * 64 * n_paths)
    return SelectorPlan(
        n_tasks=n_paths,
        n_passes=n_paths,
        read_nbytes=n_paths * shape.held_nbytes,
        task=task,
        client=client,
        text=f"{method}: all {shape.n_samples:,} rows in each of {n_paths} task(s)",
    )


def refit_in_one_piece(passes: SubsetPasses, columns: np.ndarray) -> tuple[np.ndarray, float, list[str]]:
    """Fit the chosen columns on all rows.

    Returns
    -------
    coef : ndarray of shape (len(columns),)
    intercept : float
        0 without columns.
    notes : list of str
        Problems with the fit.
    """
    if not len(columns):
        return np.empty(0), 0.0, []
    fit: Any = passes.refit(columns, [0])
    coef = np.where(np.isnan(fit.coef[0]), 0.0, fit.coef[0])
    notes = []
    if fit.is_singular.any():
        notes.append("the selected columns are linearly dependent")
    if fit.is_separable.any():
        notes.append(SEPARATED)
    return coef, float(fit.y_mean[0] - (fit.mean[0] * coef).sum()), notes
