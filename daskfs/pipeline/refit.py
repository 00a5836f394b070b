"""The common refit of a pipeline (`refit: {by: ridge}`), in addition to each method's own fit.

Methods estimate the coefficients of selected features differently: shrunken, averaged, with weak ridge, or not at all.
Their test errors therefore depend on the selection and on the fit. Here all selections are fitted the same way, on the
training rows, so that they are comparable.
"""

from __future__ import annotations

import numpy as np

from daskfs.result import RefitRecord, coefficient_norm
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.resulting import refit_notes
from daskfs.selectors.shared.run import Run


def refit_beside(selector: BaseSelector, run: Run, by: str, ridge: float | None = None) -> BaseSelector:
    """Fit the selected columns on all rows with the selector's loss.

    Parameters
    ----------
    selector : BaseSelector
        A fitted selector. The column ``refit_coef``, ``refit``, times, bytes and notes are added to its result.
    run : Run
        Run over the rows to which the selector was fitted.
    by : {"ols", "ridge", "elastic"}
    ridge : float, optional
        Penalty; default: chosen according to `by`.

    Returns
    -------
    BaseSelector
        A copy of the selector with the refitted coefficients.
    """
    fitted, found = selector.with_refit(run, by, ridge)
    coef, intercept = np.atleast_2d(found.coef), np.atleast_1d(found.intercept)
    result, fits = selector.result_, found.fits
    result.table["refit_coef"] = coefficient_norm(coef) if len(fits) > 1 else coef[0]
    result.refit = RefitRecord(found.loss, [fit.ridge for fit in fits], intercept.tolist(), coef.tolist())
    result.time["refit"] = result.time.get("refit", 0.0) + run.seconds["refit"]
    if "refit" in run.nbytes:  # else the columns were in memory already
        result.communication["refit"] = result.communication.get("refit", 0) + run.nbytes["refit"]
    result.notes += refit_notes(by, found, "refit_coef")
    return fitted
