"""The score test of a candidate against a fitted model, and alpha-investing's stream of such tests.

At the model's fit, let g be the product of the candidate with the residuals and H the Hessian. The candidate explains
g² / I of the loss, where I = z'Dz - h'H⁻¹h is the curvature that the model's columns leave. With the squared loss this
is exactly the partial t-test; with other losses it is Rao's test, a χ² with one degree of freedom.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.glm.newton import Predictions, hessian_weights
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import dot, sum_of
from daskfs.kernels.linear.linalg import forward_substitution
from daskfs.kernels.linear.weighted_gram import extend_hessian


class Tested(NamedTuple):
    """The fitted model that candidates are tested against."""

    columns: np.ndarray
    """Shape (capacity, n_samples), standardised."""
    at: Predictions
    """Predictions at the fit."""
    weight: np.ndarray
    """Shape (n_samples,): shares times curvatures at the fit."""
    factor: np.ndarray
    """Shape (capacity + 1, capacity + 1): Cholesky factor of the Hessian, intercept first."""
    work: np.ndarray
    """Work array of shape (n_samples,)."""
    cross: np.ndarray
    """Work array of shape (2, capacity + 1)."""


LEAST_INFORMATION = 1e-8  # share of a candidate's curvature, below which it is collinear with the model


@kernel
def p_value_of_t(t_square, degrees):  # type: ignore[no-untyped-def]
    """Return P(|t| > √t_square) for Student's t, by Wallace's normal approximation (1959), to a few parts in 1,000.

    Infinite `degrees` give a χ².
    """
    if degrees == math.inf:
        return math.erfc(math.sqrt(0.5 * t_square))
    if degrees <= 0.0:
        return 1.0
    squash = (8.0 * degrees + 1.0) / (8.0 * degrees + 3.0)
    return math.erfc(squash * math.sqrt(0.5 * degrees * math.log1p(t_square / degrees)))


@kernel
def refresh_hessian(problem, model, members, n_members, hessian):  # type: ignore[no-untyped-def]
    """Write the weights and the Hessian of the model at its predictions."""
    hessian_weights(problem, model.at, model.weight)
    extend_hessian(model.columns, members, n_members, 0, model.weight, hessian, model.work)


@kernel
def score_test(problem, column, model, n_members, n_samples):  # type: ignore[no-untyped-def]
    """Return the p-value of one column against the model; 1 if it depends linearly on the model's columns.

    Parameters
    ----------
    problem : Problem
    column : ndarray of shape (n_samples,), float64
    model : Tested
    n_members : int
        Number of columns in the model.
    n_samples : float
        Number of rows, or the sum of their weights.
    """
    work, cross, residual = model.work, model.cross, model.at.residual
    for i in range(work.shape[0]):
        work[i] = model.weight[i] * column[i]
    curvature = dot(work, column)
    cross[0, 0] = sum_of(work)
    for q in range(n_members):
        cross[0, q + 1] = dot(model.columns[q], work)
    information = curvature - forward_substitution(model.factor, n_members + 1, cross[0], cross[1])
    if not information > LEAST_INFORMATION * curvature:
        return 1.0
    gradient = dot(column, residual)
    gain = gradient * gradient / information
    if not problem.loss.is_quadratic:
        return p_value_of_t(n_samples * gain, math.inf)
    degrees = n_samples - n_members - 2.0
    left = 0.0
    for i in range(work.shape[0]):
        left += residual[i] * residual[i] / problem.share[i]
    left = max(left - gain, 1e-300)
    return p_value_of_t(degrees * gain / left, degrees)


@kernel
def invest(problem, block, first, start, model, n_members, n_samples, is_member, wealth):  # type: ignore[no-untyped-def]
    """Test the columns of a block from `start` on, paying for each test, until one passes.

    Parameters
    ----------
    problem : Problem
    block : ndarray of shape (n_columns, n_samples), float64
    first, start : int
        Number of the block's first column; position in the block at which to start.
    model, n_members, n_samples
        See `score_test`.
    is_member : ndarray of shape (n_features,), bool
        Columns that are not tested.
    wealth : ndarray of shape (3,), float64
        Remaining wealth, number of tests so far, and price of the last test; updated.

    Returns
    -------
    int
        Position in the block of a column that passed, or the block's length.
    """
    for f in range(start, block.shape[0]):
        if is_stopped():
            break
        if is_member[first + f]:
            continue
        wealth[1] += 1.0
        price = wealth[0] / (2.0 * wealth[1])
        wealth[2] = price
        if score_test(problem, block[f], model, n_members, n_samples) <= price:
            return f
        wealth[0] -= price
    return block.shape[0]
