"""The refit that a pipeline asks for, `refit: {by: ridge}`: one fit for all methods, beside each method's own.

What methods make of the features they select differs: shrunk, averaged, weak ridge, none. Their errors on the test rows
are those of a selection and of a fit. Here every selection is fitted the same way, on the training rows.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from daskfs.errors import Caution
from daskfs.feature_maps.base import MadeMatrix
from daskfs.result import RefitRecord, coefficient_norm
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.shared.refit import fit_each_class
from daskfs.selectors.shared.run import Run


def refit_by_ridge(selector: BaseSelector, run: Run, ridge: float | None = None) -> BaseSelector:
    """Fit the selected columns of all rows by the selector's loss and a ridge.

    Parameters
    ----------
    selector : BaseSelector
        Fitted. Its result gets the column ``refit_coef``, ``refit``, seconds, bytes and notes.
    run : Run
        Over the rows that it was fitted to.
    ridge : float, optional
        By default chosen from the data, see `daskfs.selectors.shared.ridge`.

    Returns
    -------
    BaseSelector
        The selector with these coefficients.
    """
    fitted, columns, made = copy(selector), selector.selected_, selector.made_
    if made is not None:
        run, columns = run.over(MadeMatrix(run.matrix, made)), np.argsort(np.argsort(columns))
    found = fit_each_class(run, columns, selector.loss_, ridge, getattr(selector, "classes_", None))
    fitted.loss_, fits = found.loss, found.fits
    coef, intercept = np.array([fit.coef for fit in fits]), np.array([fit.intercept for fit in fits])
    every = coef
    if made is None:
        every = np.zeros((len(fits), selector.n_features_in_))
        every[:, columns] = coef
    fitted.coef_, fitted.intercept_ = (every, intercept) if len(fits) > 1 else (every[0], float(intercept[0]))
    result = selector.result_
    result.table["refit_coef"] = coefficient_norm(coef) if len(fits) > 1 else coef[0]
    result.refit = RefitRecord(found.loss, [fit.ridge for fit in fits], intercept.tolist(), coef.tolist())
    result.time["refit"] = result.time.get("refit", 0.0) + run.seconds["refit"]
    if "refit" in run.nbytes:  # the columns were not kept here
        result.communication["refit"] = result.communication.get("refit", 0) + run.nbytes["refit"]
    if any(fit.is_separable for fit in fits):
        result.notes.append(Caution("refit: the classes are linearly separable; a weak ridge bounds the coefficients"))
    n_dependent = max(fit.n_dependent for fit in fits)
    if n_dependent:
        result.notes.append(f"refit: {n_dependent:,} selected column(s) depend on others")
    return fitted
