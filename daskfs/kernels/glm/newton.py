"""Newton's method for the mean loss of a few standardised columns and an intercept, and the steps that users share.

The objective is Σ_i s_i loss(z_i) + ½ ridge Σ_q b_q², with z = b_0 + Σ_q b_q column_q and the shares s_i = w_i / W of
the weights. Position 0 of coefficients, gradients and Hessians is the intercept, which is not penalised. Gradients have
the opposite sign: they are products of the columns with the residuals -s_i loss'(z_i), as is usual for the squared
loss.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.blocks.any_columns import (
    add_columns,
    column_products,
    make_hessian_of,
    staleness,
)
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import largest_size, sum_of
from daskfs.kernels.linear.linalg import factorise, solve_cholesky
from daskfs.kernels.losses import SPAN, derivatives, is_separated, threshold_of, values
from daskfs.losses import Facts, Loss

CONVERGED, SEPARABLE = range(2)
TOLERANCE = 1e-9  # of the last step, in standard deviations of the coefficients times √n
LONGEST_LAST_STEP = 1e-3  # of a coefficient, if the loss may have no finite minimum
PRIOR_DEVIATION = 5.0  # log-odds (or log-means) per standard deviation of a column, if the data set no bound
MAX_STEPS = 60  # a finite minimum takes ten; without one the predictions grow by about 1 per step
MAX_SHORTENINGS = 60
OVERSHOT = 0.5  # share of the initial derivative: a step at whose end it is reversed by more is shortened
FARTHEST = 50.0  # limit of one step: log-odds (or log-means) per standard deviation of a column


class Problem(NamedTuple):
    """The objective: a loss over the rows of a block."""

    loss: Facts
    threshold: float
    y: np.ndarray
    share: np.ndarray


def new_problem(loss: Loss, threshold: float | None, y: np.ndarray, weight: np.ndarray) -> Problem:
    """Return the problem for rows of positive weight. A threshold of None is the default, see `threshold_of`."""
    return Problem(loss.facts, threshold_of(loss, threshold, y, weight), y, weight / float(weight.sum()))


class Predictions(NamedTuple):
    """Predictions of the rows and derived arrays, all of shape (n_samples,) except `bits`."""

    z: np.ndarray
    residual: np.ndarray
    curvature: np.ndarray
    scratch: np.ndarray
    bits: np.ndarray


def new_predictions(n_samples: int) -> Predictions:
    """Return predictions of zero. The first `advance` sets residuals and curvatures."""
    z, residual, curvature, scratch = np.zeros((4, n_samples))
    return Predictions(z, residual, curvature, scratch, np.zeros(SPAN, dtype=np.int64))


def weak_ridge(total: float) -> float:
    """Return the ridge on the mean loss of rows with this total weight that bounds a fit without a finite minimum."""
    return 1.0 / (total * PRIOR_DEVIATION**2)


@kernel
def advance(problem, columns, members, n_members, step, factor, at, gradient):  # type: ignore[no-untyped-def]
    """Move the predictions by ``factor * step`` and update residuals, curvatures and the gradient.

    Parameters
    ----------
    problem : Problem
    columns : ndarray of shape (n_columns, n_samples), float64, or EnteredEntries
        Standardised.
    members : ndarray of shape (>= n_members,), int64
        Rows of `columns`.
    n_members : int
    step, gradient : ndarray of shape (>= n_members + 1,), float64
    factor : float
    at : Predictions
    """
    z = at.z
    first = factor * step[0]
    for i in range(z.shape[0]):
        z[i] += first
    add_columns(columns, members, n_members, step, factor, z)
    derivatives(problem.loss.code, problem.threshold, z, problem.y, at.residual, at.curvature, at.bits)
    _weigh(problem.share, at.residual, -1.0)
    gradient[0] = sum_of(at.residual)
    column_products(columns, members, n_members, at.residual, gradient)


@kernel
def _weigh(share, values, sign):  # type: ignore[no-untyped-def]
    for i in range(values.shape[0]):
        values[i] *= sign * share[i]


@kernel
def hessian_weights(problem, at, out):  # type: ignore[no-untyped-def]
    """Write share times curvature. Huber's curvature, which is 0 outside the threshold, is kept above a floor."""
    for i in range(out.shape[0]):
        out[i] = problem.share[i] * max(at.curvature[i], problem.loss.hessian_floor)


@kernel
def mean_loss(problem, z, at):  # type: ignore[no-untyped-def]
    """Return Σ_i s_i loss(z_i)."""
    values(problem.loss.code, problem.threshold, z, problem.y, at.scratch, at.bits)
    _weigh(problem.share, at.scratch, 1.0)
    return sum_of(at.scratch)


@kernel
def estimate_dispersion(problem, at, n_samples, n_parameters):  # type: ignore[no-untyped-def]
    """Return the noise in the deviance of one useless feature: 1 for likelihoods with known dispersion.

    For squared and Huber loss it is Σ s loss'² / Σ s loss'', the variance of the score divided by its derivative.
    """
    if problem.loss.knows_dispersion:
        return 1.0
    square = 0.0
    slope = 0.0
    for i in range(at.z.shape[0]):
        square += at.residual[i] * at.residual[i] / problem.share[i]
        slope += problem.share[i] * at.curvature[i]
    return square / max(slope, problem.loss.hessian_floor) * n_samples / max(n_samples - n_parameters, 1.0)


@kernel
def newton(problem, columns, members, n_members, ridge, tol, longest, coef, at, hessian, factor):  # type: ignore[no-untyped-def]
    """Minimise from the start in `coef`, in place.

    Newton steps reuse the factor of the Hessian as long as it helps. A step is shortened if the derivative along it has
    changed sign, so that the method converges from any start.

    Parameters
    ----------
    problem : Problem
    columns : ndarray of shape (n_columns, n_samples), float64, or EnteredEntries
    members : ndarray of shape (>= n_members,), int64
    n_members : int
    ridge : float
    tol : float
        Stop after a step that is shorter than this in the norm of the Hessian
    longest : float
        and in which no coefficient moves by more than this: without a finite minimum the Hessian vanishes, the steps do
        not.
    coef : ndarray of shape (>= n_members + 1,), float64
        The coefficient of a column that depends on earlier columns stays unchanged.
    at : Predictions
    hessian, factor : ndarray of shape (>= n_members + 1, >= n_members + 1), float64

    Returns
    -------
    value : float
        Mean loss at the minimum, without the ridge penalty.
    status : int
        CONVERGED, or SEPARABLE: no finite minimum, `value` is the infimum of the loss, and `coef` the last iterate.
    rank : int
        Rank of the Hessian; n_members + 1 if it is regular.
    """
    gradient, step, weight = np.zeros(n_members + 1), np.zeros(n_members + 1), np.empty(at.z.shape[0])
    at.z[:] = 0.0
    advance(problem, columns, members, n_members, coef, 1.0, at, gradient)
    return newton_from(
        problem, columns, members, n_members, ridge, tol, longest, coef, at, gradient, step, weight, hessian, factor,
        True,
    )  # fmt: skip


@kernel
def newton_from(  # type: ignore[no-untyped-def]
    problem, columns, members, n_members, ridge, tol, longest, coef, at, gradient, step, weight, hessian, factor,
    is_stale,
):  # fmt: skip
    """Minimise as `newton` does, from the current predictions. Their gradient is given, and is overwritten.

    Unless `is_stale`, the factor of the Hessian at a nearby point is given as well. `step` returns the coefficients
    minus those of the predictions; `weight`, `hessian` and `factor` return those of the last Hessian.
    """
    n, work = n_members + 1, np.empty(at.z.shape[0])
    rank = n
    last = 0.0
    for iteration in range(MAX_STEPS):
        if is_stopped():
            break
        for q in range(1, n):
            gradient[q] -= ridge * coef[q]
        if is_stale:
            hessian_weights(problem, at, weight)
            make_hessian_of(columns, members, n_members, 0, weight, hessian, work)
            rank = factorise(hessian, n, ridge, factor)
        square = solve_cholesky(factor, n, gradient, step)
        if square <= tol * tol and largest_size(step) <= longest:
            value = mean_loss(problem, at.z, at) - (0.5 * square if ridge == 0.0 else 0.0)
            for q in range(n):
                coef[q] += step[q]
            return value, CONVERGED, rank
        length = _take_step(problem, columns, members, n_members, ridge, coef, step, square, at, gradient)
        for q in range(n):
            coef[q] += length * step[q]
        if ridge == 0.0 and iteration > 2 and is_separated(problem.loss.code, problem.y, problem.share, at.z):
            step[:] = 0.0
            return 0.0, SEPARABLE, rank
        is_stale = length < 1.0 or (iteration > 0 and square > staleness(columns) * last)
        last = square
    step[:] = 0.0
    return mean_loss(problem, at.z, at), SEPARABLE, rank


@kernel
def _take_step(problem, columns, members, n_members, ridge, coef, step, slope, at, gradient):  # type: ignore[no-untyped-def]
    """Take `step`, or the part of it after which the derivative is reversed by at most half. Return that part.

    If columns nearly depend on each other and classes are nearly separable, a step may leave the range in which the
    Hessian is valid. It is limited to `FARTHEST`.
    """
    length = 1.0
    if problem.loss.can_separate:  # returning from further away would lose all digits
        length = min(1.0, FARTHEST / largest_size(step))
    advance(problem, columns, members, n_members, step, length, at, gradient)
    for _ in range(MAX_SHORTENINGS):
        if is_stopped():
            break
        turned = 0.0
        for q in range(n_members + 1):
            pull = ridge * (coef[q] + length * step[q]) if q > 0 else 0.0
            turned -= (gradient[q] - pull) * step[q]
        if turned <= OVERSHOT * slope:
            break
        shorter = length * min(0.5, max(0.1, slope / (slope + turned)))
        advance(problem, columns, members, n_members, step, shorter - length, at, gradient)
        length = shorter
    return length
