"""The refit that a pipeline asks for, `refit: {by: ridge}`: one fit for all methods, beside each method's own.

What methods make of the features they select differs: shrunk, averaged, weak ridge, none. Their errors on the test rows
are those of a selection and of a fit. Here every selection is fitted the same way, on the training rows.
"""

from __future__ import annotations

import numpy as np

from daskfs.result import RefitRecord, coefficient_norm
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.resulting import refit_notes
from daskfs.selectors.shared.run import Run


def refit_beside(selector: BaseSelector, run: Run, by: str, ridge: float | None = None) -> BaseSelector:
    """Fit the selected columns of all rows by the selector's loss.

    Parameters
    ----------
    selector : BaseSelector
        Fitted. Its result gets the column ``refit_coef``, ``refit``, seconds, bytes and notes.
    run : Run
        Over the rows that it was fitted to.
    by : {"ols", "ridge", "elastic"}
    ridge : float, optional
        By default as `by` says.

    Returns
    -------
    BaseSelector
        The selector with these coefficients.
    """
    fitted, found = selector.with_refit(run, by, ridge)
    coef, intercept = np.atleast_2d(found.coef), np.atleast_1d(found.intercept)
    result, fits = selector.result_, found.fits
    result.table["refit_coef"] = coefficient_norm(coef) if len(fits) > 1 else coef[0]
    result.refit = RefitRecord(found.loss, [fit.ridge for fit in fits], intercept.tolist(), coef.tolist())
    result.time["refit"] = result.time.get("refit", 0.0) + run.seconds["refit"]
    if "refit" in run.nbytes:  # the columns were not kept here
        result.communication["refit"] = result.communication.get("refit", 0) + run.nbytes["refit"]
    result.notes += refit_notes(by, found, "refit_coef")
    return fitted
