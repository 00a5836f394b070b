"""The model without columns, the start of the baselines."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.glm.newton import Predictions, Problem, advance, new_predictions
from daskfs.kernels.glm.null_model import fit_null_model


def null_model(problem: Problem) -> tuple[float, Predictions]:
    """Return the intercept of the model without columns, and its predictions with their residuals."""
    at, coef = new_predictions(len(problem.y)), np.zeros(1)
    fit_null_model(problem, coef, at)
    at.z[:] = coef[0]
    none = np.empty((0, len(problem.y)))
    advance(problem, none, np.empty(0, dtype=np.int64), 0, np.zeros(1), 0.0, at, np.zeros(1))
    return float(coef[0]), at
