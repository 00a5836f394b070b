"""Paths over all rows for the losses whose curvature moves with the fit: no sums serve all of it, so the rows stay.

A task holds all rows. What does not fit in its memory is refused: `daskfs.Message` is for that.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from daskfs.baselines.lasso.on_blocks import Weighting, select_on_sample
from daskfs.selectors.message.passes import MessageRun
from daskfs.selectors.message.plan import Shape
from daskfs.selectors.message.subset import SelectionSettings
from daskfs.selectors.shared.budget import Budget, SelectorPlan


def select_on_samples(
    run: MessageRun, settings: SelectionSettings, weightings: list[Weighting]
) -> list[dict[str, np.ndarray]]:
    """Select on every bootstrap sample, each in a task.

    Parameters
    ----------
    run : MessageRun
        With one subset.
    settings : SelectionSettings
    weightings : list of Weighting
        Of one block of all rows.

    Returns
    -------
    list of dict of ndarray
        For each sample ``selected`` and its path.
    """
    started = time.perf_counter()
    n_samples = run.shape.n_samples
    checkpoint, progress = run.checkpoint, run.progress
    names = [f"bolasso-sample-{b}" for b in range(len(weightings))]
    found: list[Any] = [None if checkpoint is None else checkpoint.load(name) for name in names]
    waiting = [b for b, result in enumerate(found) if result is None]
    if progress is not None:
        progress.start("bolasso-select", len(weightings))
        progress.advance(len(weightings) - len(waiting))
    shared = (run.matrix.base, settings, run.matrix.at(0, n_samples))
    tasks = [weightings[b] for b in waiting]
    for done, result in run.workers.map_blocks(select_on_sample, tasks, name="bolasso-select", shared=shared):
        found[waiting[done]] = result
        if checkpoint is not None:
            checkpoint.save(names[waiting[done]], result)
        if progress is not None:
            progress.advance()
    if progress is not None:
        progress.finish()
    run.seconds["select"] = time.perf_counter() - started
    return found


def plan_one_piece(method: str, shape: Shape, memory_limit: int | None, n_paths: int = 1) -> SelectorPlan:
    """Return what the paths of so many samples of all rows will read and hold.

    Raises
    ------
    PlanError
        All rows do not fit in the limit of a task.
    """
    task = Budget().add("all rows and a path", shape.select_nbytes(1))
    what = f"{method} with loss={shape.loss!r} holds all {shape.n_samples:,} rows x {shape.n_features:,} columns in a"
    task.add("weights and their order", 24 * shape.n_samples).refuse_over(
        memory_limit, f"{what} task,", "select with Message, whose subsets are smaller"
    )
    client = Budget().add("vectors over the rows", shape.n_samples * 24)
    client.add("paths", shape.n_features * 64 * n_paths)
    return SelectorPlan(
        n_tasks=n_paths,
        n_passes=n_paths,
        read_nbytes=n_paths * shape.n_samples * shape.n_features * shape.itemsize,
        task=task,
        client=client,
        text=f"{method}: all {shape.n_samples:,} rows in each of {n_paths} task(s)",
    )


def refit_in_one_piece(
    run: MessageRun, settings: SelectionSettings, columns: np.ndarray
) -> tuple[np.ndarray, float, list[str]]:
    """Fit the chosen columns on all rows.

    Returns
    -------
    coef : ndarray of shape (len(columns),)
    intercept : float
        0 without columns.
    notes : list of str
        What is wrong with the fit.
    """
    if not len(columns):
        return np.empty(0), 0.0, []
    fit = run.refit(settings, columns, [0])
    coef = np.where(np.isnan(fit["coef"][0]), 0.0, fit["coef"][0])
    notes = []
    if fit["is_singular"].any():
        notes.append("the selected columns are linearly dependent")
    if fit["is_separable"].any():
        notes.append("the selected columns separate the classes: their coefficients are held by a small ridge")
    return coef, float(fit["y_mean"][0] - (fit["mean"][0] * coef).sum()), notes
