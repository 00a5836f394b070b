"""The Lasso path of another loss than the squared one, of a subset of which only some columns are in memory.

    Input: the subset's rows in a matrix that has products of columns with vectors
    1. z = the predictions of the columns without a penalty.
    2. Replace the loss of each row by its quadratic approximation at z, which is least squares with the target
       z - loss'(z) / loss''(z) and the weight w loss''(z). Follow its Lasso path (`daskfs.selectors.message.screened`)
       and choose the model with the best criterion.
    3. z = the predictions of that model, as shrunk by the path. If its penalised loss is not lower, go half the way,
       and so on.
    4. To 2, unless z has changed by less than a quarter of its standard error. From the fourth model on, none is larger
       than the one before, so that two models do not alternate. If columns separate the classes, curvatures vanish from
       model to model; the path of the last model with curvatures is taken then.

These are the proximal Newton steps of J. Friedman, T. Hastie and R. Tibshirani, "Regularization paths for generalized
linear models via coordinate descent", Journal of Statistical Software 33 (2010), around one model for the whole path:
the path is that of the loss at the chosen λ, and approximates it at the others.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.glm.fit import glm_fit, glm_fit_nbytes
from daskfs.kernels.glm.newton import Predictions, Problem, estimate_dispersion, mean_loss, new_predictions, new_problem
from daskfs.kernels.lasso.path import default_max_features
from daskfs.kernels.lasso.result import LassoPath
from daskfs.kernels.losses import derivatives, one_sided_intercept, saturated_values
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.selectors.message.in_step import Steps, Weights
from daskfs.selectors.message.screened import PIECE_COLUMNS, screened_path

CHANGE = 0.25
"""Largest change of the predictions in the last round, as a share of their standard error."""
MOST_ROUNDS, EXPECTED_ROUNDS = 12, 4
SATURATED = 0.1
"""The rounds end if curvatures fall below this share of those at the start: they do so without end if columns separate
the classes, and a strong effect that does not separate them halves them."""
MOST_HALVINGS, ROUNDING = 30, 1e-12
LEAST_CURVATURE = 1e-6
"""Smallest second derivative of a row's loss that is used, as a share of the mean."""


class Approximation(NamedTuple):
    """Least squares that approximate a loss around predictions."""

    target: np.ndarray
    weight: np.ndarray
    more: float
    """Deviance of the predictions, less the sum of squared residuals there."""


def reweighted_path(
    matrix: Matrix,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    loss: str,
    threshold: float,
    free: np.ndarray,
    sigma2: float | None = None,
    max_features: int | None = None,
    column_weight: np.ndarray | None = None,
    change: float = CHANGE,
    **options: Any,
) -> Steps[LassoPath]:
    """Follow the Lasso path of all columns of a matrix, of which few are decoded, in step with others.

    Parameters
    ----------
    matrix : Matrix
        With `column_products` and `column_moments`.
    y, weight : ndarray of shape (n_samples,), float64
    loss, threshold, free, sigma2, max_features, column_weight
        See `daskfs.kernels.glm.path.glm_path`. The dispersion, if it is estimated, is that of the chosen model.
    change : float
        Largest change of the predictions in the last round, as a share of their standard error.
    **options
        See `daskfs.selectors.message.screened.screened_path`.

    Returns
    -------
    LassoPath
        `n_unsolved` is 1 if the predictions still changed after the last round, `n_separable` if columns separate the
        classes.
    """
    if not weight.all():
        matrix, y, weight = matrix.take(np.flatnonzero(weight > 0.0)), y[weight > 0.0], weight[weight > 0.0]
    record, total, n_features = find_loss(loss), float(weight.sum()), matrix.shape[1]
    if max_features is None:
        max_features = min(default_max_features(total, n_features, screened=True) + len(free), n_features)
    options |= {"free": free, "max_features": max_features}
    problem, at = new_problem(record, threshold, y, weight), new_predictions(len(y))
    if one_sided_intercept(record.code, y, total) is not None:
        path = yield from screened_path(matrix, y, weight, **options)
        return path._replace(loss=loss, fit_is="deviance", gram=None)
    found = yield Weights(matrix, weight)
    unit = found.std if column_weight is None else found.std / column_weight
    at.z[:] = _fit_of_free(matrix, y, weight, free, loss, problem.threshold)
    around = _approximation(problem, at, weight)
    at_start, l1, n_parameters, largest = around.weight.sum(), 0.0, 1.0 + len(free), math.inf
    for number in range(MOST_ROUNDS):
        noise = float(estimate_dispersion(problem, at, total, n_parameters)) if sigma2 is None else sigma2
        path = yield from screened_path(matrix, around.target, around.weight, unit=unit, sigma2=noise, **options)
        path = _of_loss(path, unit, total, noise, around.more)._replace(loss=loss, threshold=problem.threshold)
        if path.best < 0:
            return path
        path = path._replace(best=int(np.argmin(np.where(path.df <= largest, path.gic, np.inf))))
        if number >= EXPECTED_ROUNDS - 1:
            largest = path.df[path.best]
        coef = path.coefficients(path.best)
        new_l1 = float(path.moments.scale @ np.abs(coef)) - float(path.moments.scale[free] @ np.abs(coef[free]))
        step = _predictions(matrix, coef, path.intercept(path.best)) - at.z
        n_parameters = 1.0 + float(path.df[path.best])
        moved = math.sqrt(float(around.weight @ step**2) / noise)
        share = _share_of_step(problem, at, step, path.lambdas[path.best] * (new_l1 - l1))
        if share == 1.0 and moved <= change * math.sqrt(n_parameters):
            return path
        l1 += share * (new_l1 - l1)
        around = _approximation(problem, at, weight)
        if around.weight.sum() < SATURATED * at_start:
            return path._replace(n_separable=1)
    return path._replace(n_unsolved=path.n_unsolved + 1)


def reweighted_nbytes(n_samples: int, n_features: int, n_free: int) -> int:
    """Return the peak memory in bytes of `reweighted_path` in addition to that of `screened_path`."""
    return 8 * (14 * n_samples + 6 * n_features + n_samples * n_free) + glm_fit_nbytes(n_samples, n_free)


def _fit_of_free(
    matrix: Matrix, y: np.ndarray, weight: np.ndarray, free: np.ndarray, loss: str, threshold: float
) -> np.ndarray:
    """Return the predictions of the columns without a penalty."""
    columns = np.empty((len(y), len(free)))
    if len(free):
        columns[:] = matrix.read(slice(None), free)
    fit = glm_fit(columns, y, weight, loss=loss, threshold=threshold)
    return np.asarray(columns @ np.nan_to_num(fit.coef) + fit.intercept)  # NaN: constant columns


def _predictions(matrix: Matrix, coef: np.ndarray, intercept: float) -> np.ndarray:
    """Return the predictions of all rows."""
    z, columns = np.full(matrix.shape[0], intercept), np.flatnonzero(coef)
    for start in range(0, len(columns), PIECE_COLUMNS):
        piece = columns[start : start + PIECE_COLUMNS]
        z += matrix.read(slice(None), piece) @ coef[piece]
    return z


def _approximation(problem: Problem, at: Predictions, weight: np.ndarray) -> Approximation:
    """Return the quadratic approximation of the loss around the predictions."""
    facts, y = problem.loss, problem.y
    deviance = 2.0 * float(weight.sum()) * float(mean_loss(problem, at.z, at))
    deviance -= 2.0 * float(weight @ saturated_values(facts.code, y))
    derivatives(facts.code, problem.threshold, at.z, y, at.residual, at.curvature, at.bits)
    least = max(facts.hessian_floor, LEAST_CURVATURE * float(problem.share @ at.curvature))
    curvature = np.maximum(at.curvature, least)
    change = at.residual / curvature
    at.residual[:] *= -problem.share  # as `estimate_dispersion` needs it
    curved = weight * curvature
    return Approximation(at.z - change, curved, deviance - float(curved @ change**2))


def _of_loss(path: LassoPath, unit: np.ndarray, total: float, noise: float, more: float) -> LassoPath:
    """Return a path of least squares in terms of the loss: per row, with penalties of the columns divided by `unit`."""
    m, of_path = path.moments, path.moments.total
    multiple = float((m.scale[unit > 0.0] / unit[unit > 0.0]).mean()) if unit.any() else 1.0  # equal but for rounding
    fit = np.maximum(path.fit * of_path + more, 0.0)  # an approximation may be below the least deviance
    return path._replace(
        moments=m._replace(total=total, scale=unit),
        lambdas=path.lambdas * (multiple * of_path / total),
        coef=path.coef / multiple,
        fit=fit,
        gic=path.gic + (fit - path.fit * of_path) / noise,
        fit_is="deviance",
        dispersion=noise,
        gram=None,
    )


def _share_of_step(problem: Problem, at: Predictions, step: np.ndarray, more: float) -> float:
    """Take a step, or that part of it with a lower penalised loss; return which part.

    `more` is what the whole step adds to the penalty.
    """
    before, start, share = float(mean_loss(problem, at.z, at)), at.z.copy(), 1.0
    for _ in range(MOST_HALVINGS):
        at.z[:] = start + share * step
        if mean_loss(problem, at.z, at) + share * more <= before + ROUNDING * abs(before):
            break
        share *= 0.5
    return share
