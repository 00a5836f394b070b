"""The model without features, and the features that may join it without a penalty."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from daskfs.kernels.blocks.any_block import standardised_columns
from daskfs.kernels.glm.newton import CONVERGED, Predictions, Problem, newton
from daskfs.kernels.linear.linalg import factorise
from daskfs.kernels.linear.moments import Moments
from daskfs.kernels.losses import initial_intercept


def fit_null_model(problem: Problem, coef: np.ndarray, at: Predictions) -> bool:
    """Fit the intercept alone, into ``coef[0]`` and `at`. Return whether it is finite and leaves an error."""
    y = problem.y
    if not len(y) or not (y != y[0]).any():
        return False
    start = np.zeros(1)
    start[0], unit = initial_intercept(problem.loss.code, y, problem.share)
    none, members = np.empty((0, len(y))), np.empty(0, dtype=np.int64)
    hessian, factor = np.zeros((2, 1, 1))
    _, status, _ = newton(problem, none, members, 0, 0.0, 1e-10 * unit, math.inf, start, at, hessian, factor)
    coef[0] = start[0]
    return bool(status == CONVERGED)


def independent_columns(X: Any, share: np.ndarray, m: Moments, columns: np.ndarray) -> np.ndarray:
    """Return those of some columns of a block that vary and do not depend linearly on earlier ones.

    Parameters
    ----------
    X : DenseBlock or ColumnEntries of shape (n_samples, n_features)
    share : ndarray of shape (n_samples,)
        Weights of the rows divided by their sum.
    m : Moments
    columns : ndarray of shape (n_columns,), int64
    """
    varying = columns[m.scale[columns] > 0.0]
    copies, factor = np.empty((len(varying), len(share))), np.zeros((len(varying), len(varying)))
    if len(varying):
        standardised_columns(X, m.mean, m.scale, varying, copies)
        factorise((copies * share) @ copies.T, len(varying), 0.0, factor)
    return varying[np.diag(factor) > 0.0]
