"""Unpenalised fit of a loss on the few columns of a row block, and the Newton step's terms for many blocks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.glm.newton import (
    CONVERGED,
    LONGEST_LAST_STEP,
    TOLERANCE,
    Predictions,
    Problem,
    advance,
    estimate_dispersion,
    mean_loss,
    new_predictions,
    new_problem,
    newton,
    weak_ridge,
)
from daskfs.kernels.linear.columns import copy_columns
from daskfs.kernels.linear.gram_tiles import BAND_ROWS
from daskfs.kernels.linear.linalg import factorise, minimum_norm
from daskfs.kernels.linear.moments import Moments, moments
from daskfs.kernels.linear.weighted_gram import extend_hessian, make_hessian
from daskfs.kernels.losses import initial_intercept, one_sided_intercept, saturated_values
from daskfs.losses import find_loss


class GlmFit(NamedTuple):
    """A fit by Newton's method."""

    moments: Moments
    """Moments of the columns and of the raw y."""
    coef: np.ndarray
    """Shape (n_features,), on the scale of the data; NaN for constant columns, which the block does not determine."""
    intercept: float
    deviance: float
    is_singular: bool
    """Whether columns were linearly dependent, so that the solution of least norm was taken."""
    is_separable: bool
    """Whether there is no finite minimum (linearly separable classes, a category without counts). A small ridge then
    keeps the coefficients finite.
    """
    dispersion: float
    """Variance of the score divided by its derivative: 1 for a likelihood with known dispersion."""


class ColumnsFit(NamedTuple):
    """A fit of standardised columns."""

    solution: np.ndarray
    """Intercept first."""
    mean_loss: float
    is_singular: bool
    is_separable: bool
    dispersion: float = 1.0
    """See `GlmFit`."""


class NewtonTerms(NamedTuple):
    """Terms of the summed loss of one block, in an intercept (position 0) and coefficients of the columns ``(x -
    centre) / scale``. They add up over blocks. ``coefficients - solve(hessian, gradient)`` is the Newton step. With
    several classes: in those of all classes but the last, one after the other.
    """

    value: float
    gradient: np.ndarray
    """Shape (n_features + 1,)."""
    hessian: np.ndarray
    """Shape (n_features + 1, n_features + 1)."""


def glm_fit(X: np.ndarray, y: np.ndarray, weight: np.ndarray, *, loss: str, threshold: float | None = None) -> GlmFit:
    """Fit y on all columns of a block.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered and writable
    y, weight : ndarray of shape (n_samples,), float64
        y is -1 or +1 for the logistic loss, and non-negative for the Poisson loss.
    loss : {"squared", "logistic", "poisson", "huber"}
    threshold : float, optional
        Threshold of the Huber loss, in units of y; by default 1.345 robust standard deviations of y.

    Returns
    -------
    GlmFit
        With a single class, or no positive count: coefficients of 0, separable.
    """
    if not weight.all():
        X, y, weight = X[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    record, m = find_loss(loss), moments(X, y, weight)
    problem = new_problem(record, threshold, y, weight)
    features = np.flatnonzero(m.scale > 0.0)
    columns = np.empty((len(features), len(y)))
    copy_columns(X, m.mean, m.scale, features, columns)
    one_sided = one_sided_intercept(record.code, y, m.total)
    if one_sided is None:
        fit = fit_columns(problem, columns, m.total, new_predictions(len(y)))
    else:
        fit = _fit_of_one_side(problem, len(features), one_sided)
    coef = np.full(X.shape[1], np.nan)
    coef[features] = fit.solution[1:] / m.scale[features]
    intercept = fit.solution[0] - float(np.sum(coef[features] * m.mean[features]))
    deviance = 2.0 * (m.total * fit.mean_loss - float(weight @ saturated_values(record.code, y)))
    return GlmFit(m, coef, intercept, deviance, fit.is_singular, fit.is_separable, fit.dispersion)


def fit_columns(problem: Problem, columns: np.ndarray, total: float, at: Predictions) -> ColumnsFit:
    """Fit standardised columns, each a row of `columns`. `at` ends at the predictions of the last step."""
    n, work = len(columns) + 1, np.empty(len(problem.y))
    null, unit = initial_intercept(problem.loss.code, problem.y, problem.share)
    members = np.arange(len(columns))
    hessian, factor = np.zeros((2, n, n))
    longest = LONGEST_LAST_STEP if problem.loss.can_separate else math.inf
    full_rank = n
    for ridge in (0.0, weak_ridge(total)):
        solution = np.zeros(n)
        solution[0] = null
        value, status, rank = newton(
            problem, columns, members, n - 1, ridge, TOLERANCE * unit, longest, solution, at, hessian, factor
        )
        if rank < n and ridge == 0.0:
            gram = hessian.copy()
            extend_hessian(columns, members, n - 1, 0, problem.share, gram, work)
            full_rank = factorise(gram, n, 0.0, factor)
        if status == CONVERGED and rank >= full_rank:  # a rank lost on the way: the curvature of rows has vanished
            break
    if full_rank < n and ridge == 0.0:
        inner = np.ascontiguousarray(gram[1:, 1:])
        solution[1:] = minimum_norm(inner, inner @ solution[1:])
    dispersion = float(estimate_dispersion(problem, at, total, float(n)))
    return ColumnsFit(solution, value, full_rank < n, ridge > 0.0, dispersion)


def _fit_of_one_side(problem: Problem, n_features: int, intercept: float) -> ColumnsFit:
    """Return the fit for rows of one class, or counts that are all 0: an intercept only."""
    solution = np.zeros(n_features + 1)
    solution[0] = intercept
    at = new_predictions(len(problem.y))
    at.z[:] = solution[0]
    return ColumnsFit(solution, float(mean_loss(problem, at.z, at)), False, True)


def newton_terms(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    loss: str,
    coef: np.ndarray,
    intercept: float,
    centre: np.ndarray,
    scale: np.ndarray,
    threshold: float = 0.0,
) -> NewtonTerms:
    """Return value, gradient and Hessian of the summed loss of a block.

    Parameters
    ----------
    X, y, weight, loss : see `glm_fit`
    coef : ndarray of shape (n_features,), float64
        Coefficients of the columns ``(x - centre) / scale``.
    intercept : float
        Prediction if every column is at its centre.
    centre, scale : ndarray of shape (n_features,), float64
        The same for all blocks. A scale of 0 excludes a column (its terms are 0).
    threshold : float
        Threshold of the Huber loss.

    Returns
    -------
    NewtonTerms
    """
    if not weight.all():
        X, y, weight = X[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    features = np.flatnonzero(scale > 0.0)
    columns = np.empty((len(features), len(y)))
    copy_columns(X, centre, scale, features, columns)
    n = X.shape[1] + 1
    gradient, hessian = np.zeros(n), np.zeros((n, n))
    found = terms_of_columns(columns, y, weight, np.concatenate([[intercept], coef[features]]), loss, threshold)
    places = np.concatenate([[0], features + 1])
    gradient[places] = found.gradient
    hessian[np.ix_(places, places)] = found.hessian
    return NewtonTerms(found.value, gradient, hessian)


def terms_of_columns(
    columns: np.ndarray, y: np.ndarray, weight: np.ndarray, solution: np.ndarray, loss: str, threshold: float
) -> NewtonTerms:
    """Return value, gradient and Hessian of the summed loss for standardised columns.

    Parameters
    ----------
    columns : ndarray of shape (n_columns, n_samples), float64
    y, weight : see `glm_fit`; all weights are nonzero
    solution : ndarray of shape (n_columns + 1,)
        Intercept first.
    loss, threshold : see `newton_terms`
    """
    problem, k = Problem(find_loss(loss).facts, float(threshold), y, weight), len(columns)
    members, at = np.arange(k), new_predictions(len(y))
    gradient, hessian = np.zeros(k + 1), np.zeros((k + 1, k + 1))
    advance(problem, columns, members, k, solution, 1.0, at, gradient)
    write = make_hessian if len(y) >= BAND_ROWS else extend_hessian  # a band of rows at once, or a row of the matrix
    write(columns, members, k, 0, problem.share * at.curvature, hessian, np.empty(len(y)))
    return NewtonTerms(float(mean_loss(problem, at.z, at)), -gradient, hessian)


def glm_fit_nbytes(n_samples: int, n_features: int) -> int:
    """Return the peak memory in bytes of `glm_fit` in addition to its block."""
    return 8 * (n_samples * (n_features + 16) + 6 * (n_features + 1) ** 2 + (BAND_ROWS + 16) * (n_features + 4))
