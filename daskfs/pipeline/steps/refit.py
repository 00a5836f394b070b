"""The common refit of a pipeline (`refit: {by: ridge}`), in addition to each method's own fit.

Methods estimate the coefficients of selected features differently: shrunken, averaged, with weak ridge, or not at all.
Their test errors therefore depend on the selection and on the fit. Here all selections are fitted the same way, on the
training rows, so that they are comparable.
"""

from __future__ import annotations

import numpy as np

from daskfs.matrix.buffers import DEFAULT_BLOCK_NBYTES
from daskfs.pipeline.facts import DataFacts
from daskfs.pipeline.limits import PlannedStep, ProcessLimits
from daskfs.result import RefitRecord
from daskfs.selected_table import coefficient_norm
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.resulting import refit_notes
from daskfs.selectors.shared.budget import Budget
from daskfs.selectors.shared.class_blocks import order_of_hessian
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.selected_blocks import BLOCK_VALUES

REFIT_NBYTES = 3 * 8 * BLOCK_VALUES
"""Blocks of training rows, selected columns only, and their copies in double precision."""


def cost(n_columns: int, n_selections: int, data: DataFacts, limits: ProcessLimits) -> PlannedStep:
    """Return the planned step: columns stay in memory up to half of a task's memory, else tasks read them each time."""
    nbytes = data.n_train * n_columns * np.dtype(data.dtype).itemsize
    kept = min(nbytes, limits.available_nbytes(data) // 2, DEFAULT_BLOCK_NBYTES)
    client = (
        limits.base_of_client(data.n_samples, data.held_nbytes)
        .add("selected columns", kept)
        .add("products of selected columns", 5 * 8 * order_of_hessian(n_columns, data.target.n_classes) ** 2)
    )
    task, worker = Budget().add("blocks of selected columns", REFIT_NBYTES).include(data.ahead), Budget()
    if limits.worker is None or kept == nbytes:
        client.include(task.times(limits.n_tasks_in_process))
    else:
        worker = limits.base_of_worker(data) + task
    text = f"selected columns only, at most {n_columns:,} of them"
    in_client = "" if kept < nbytes else "the fit on the selected columns, which fit in its memory"
    return PlannedStep("refit", n_selections * nbytes, n_selections, n_selections, 0, client, worker, text, in_client)


def run(selector: BaseSelector, rows: Run, by: str, ridge: float | None = None) -> BaseSelector:
    """Fit the selected columns on all rows with the selector's loss.

    Parameters
    ----------
    selector : BaseSelector
        A fitted selector. The column ``refit_coef``, ``refit``, times, bytes and notes are added to its result.
    rows : Run
        Run over the rows to which the selector was fitted.
    by : {"ols", "ridge", "elastic"}
    ridge : float, optional
        Penalty; default: chosen according to `by`.

    Returns
    -------
    BaseSelector
        A copy of the selector with the refitted coefficients.
    """
    fitted, found = selector.with_refit(rows, by, ridge)
    coef, intercept = np.atleast_2d(found.coef), np.atleast_1d(found.intercept)
    result, fits = selector.result_, found.fits
    result.table["refit_coef"] = coefficient_norm(coef) if len(fits) > 1 else coef[0]
    result.refit = RefitRecord(found.loss, [fit.ridge for fit in fits], intercept.tolist(), coef.tolist())
    result.time["refit"] = result.time.get("refit", 0.0) + rows.seconds["refit"]
    if "refit" in rows.nbytes:  # else the columns were in memory already
        result.communication["refit"] = result.communication.get("refit", 0) + rows.nbytes["refit"]
    result.notes += refit_notes(by, found, "refit_coef")
    return fitted
