"""The fit of the loss on the members, which are in memory, without ridge; on the scale of the data."""

from __future__ import annotations

import numpy as np

from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.online_substitution.engines.base import Finished
from daskfs.selectors.online_substitution.engines.point import LossSettings
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.run import Run


def refit_members(
    members: Members,
    finished: Finished,
    y: np.ndarray,
    location: float,
    loss: LossSettings,
    fits_intercept: bool,
    memory_limit: int | None,
) -> tuple[np.ndarray, float, bool]:
    """Fit the loss on the members' columns.

    Parameters
    ----------
    members : Members
    finished : Finished
        From the engine.
    y : ndarray of shape (n_samples,), float64
        As the engine had it.
    location : float
        What was taken off the target.
    loss : LossSettings
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
    k, weight = members.n_members, members.weight
    coef, shift = members.coefficients(finished.coef)
    if not fits_intercept:
        return coef, 0.0, False
    if not k:
        return coef, location + shift + finished.intercept, False
    held = ArrayMatrix(members.rows[:k].T, y, weight if len(weight) else None)
    mean_loss = MeanLoss(loss.loss.name, 1.0 if loss.loss.is_two_class else None, loss.threshold)
    fit = refit_selected(Run(held, "online_substitution", task_limit=memory_limit), np.arange(k), mean_loss)
    is_raw = members.rows.dtype == np.int8
    coef = fit.coef if is_raw else fit.coef / members.scale[:k]
    centre = 0.0 if is_raw else float((coef * members.mean[:k]).sum())
    return coef, fit.intercept - centre + location, fit.is_separable
