"""The fit of the loss on the members, which are in memory, without ridge; on the scale of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.responses import TWO_CLASS
from daskfs.selectors.shared.run import Run
from daskfs.sources.arrays import ArrayMatrix


def refit_members(
    engine: Any, y: np.ndarray, location: float, loss: str, fits_intercept: bool, memory_limit: int | None
) -> tuple[np.ndarray, float, bool]:
    """Fit the loss on the members' columns.

    Parameters
    ----------
    engine : SquaredEngine, GlmExchange or Descent
        That has finished.
    y : ndarray of shape (n_samples,), float64
        As the engine has it.
    location : float
        What was taken off the target.
    loss : str
    fits_intercept : bool
        Without, the engine's own weights are the answer.
    memory_limit : int or None

    Returns
    -------
    coef : ndarray of shape (n_members,)
    intercept : float
    is_separable : bool
        Whether there was no finite minimum, and a weak ridge bounds the fit.
    """
    members = engine.members
    k, weight = members.n_members, members.weight
    coef, shift = members.coefficients(engine.final)
    if not fits_intercept:
        return coef, 0.0, False
    if not k:
        return coef, location + shift + float(engine.intercept), False
    held = ArrayMatrix(members.rows[:k].T, y, weight if len(weight) else None)
    mean_loss = MeanLoss(loss, 1.0 if loss in TWO_CLASS else None, engine.threshold)
    fit = refit_selected(Run(held, "online_substitution", task_limit=memory_limit), np.arange(k), mean_loss)
    is_raw = members.rows.dtype == np.int8
    coef = fit.coef if is_raw else fit.coef / members.scale[:k]
    centre = 0.0 if is_raw else float((coef * members.mean[:k]).sum())
    return coef, fit.intercept - centre + location, fit.is_separable
