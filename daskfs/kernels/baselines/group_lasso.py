"""The group lasso by block coordinate descent, and UFO-MKL's pass over the rows.

    min over w, b of Σ_i s_i loss(z_i) + λ Σ_g p_g ‖w_g‖,    z = Σ_g X_g w_g + b

s are the rows' shares of the weight, p_g the penalty of group g, and the columns are standardised. A column in several
groups has a coefficient in each; its total coefficient is their sum (the latent group lasso).

Sources: P. Tseng and S. Yun (2009), "A coordinate gradient descent method for nonsmooth separable minimization",
Mathematical Programming 117; F. Orabona and L. Jie (2011), "Ultra-fast optimization algorithm for sparse multi kernel
learning", ICML, Algorithm 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.baselines.online_descent import move_intercept, refresh
from daskfs.kernels.glm.newton import Predictions, Problem  # noqa: F401  # their fields are part of the machine code
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import add_multiple, row_dot


class GroupedColumns(NamedTuple):
    """Columns ordered by group."""

    columns: np.ndarray
    """Shape (n_features, n_samples), float64, standardised; constant columns are 0."""
    members: np.ndarray
    """Shape (n_members,), int64: columns, concatenated by group."""
    bounds: np.ndarray
    """Shape (n_groups + 1,), int64."""
    penalty: np.ndarray
    """p, shape (n_groups,)."""
    curvature: np.ndarray
    """Shape (n_groups,): upper bound of the largest eigenvalue of X_gᵀ S X_g; 0 until a group first moves."""


SMALL_GROUP = 64  # largest group whose products are summed; larger ones use power iterations
POWER_ITERATIONS = 30
MARGIN = 1.1  # factor on the result of power iterations


@kernel
def gradient_norms(groups, vector, out):  # type: ignore[no-untyped-def]
    """Write ‖X_gᵀ vector‖ for every group."""
    for g in range(out.shape[0]):
        if is_stopped():
            break
        total = 0.0
        for k in range(groups.bounds[g], groups.bounds[g + 1]):
            product = row_dot(groups.columns, groups.members[k], vector)
            total += product * product
        out[g] = math.sqrt(total)


@kernel
def curvature_of(groups, g, share):  # type: ignore[no-untyped-def]
    """Return the largest row sum of ``|X_gᵀ S X_g|``, a bound of its largest eigenvalue (large groups: an estimate)."""
    first, last = groups.bounds[g], groups.bounds[g + 1]
    n_samples, size = share.shape[0], last - first
    weighted, largest = np.empty(n_samples), 0.0
    if size <= SMALL_GROUP:
        sums = np.zeros(size)
        for a in range(size):
            for i in range(n_samples):
                weighted[i] = share[i] * groups.columns[groups.members[first + a], i]
            for b in range(a + 1):
                product = abs(row_dot(groups.columns, groups.members[first + b], weighted))
                sums[a] += product
                if b < a:
                    sums[b] += product
        for a in range(size):
            largest = max(largest, sums[a])
        return largest
    direction = np.full(size, 1.0 / math.sqrt(size))
    for a in range(1, size, 2):  # avoid the direction in which dummies add up to a constant
        direction[a] *= -0.5
    for _ in range(POWER_ITERATIONS):
        weighted[:] = 0.0
        for a in range(size):
            add_multiple(groups.columns[groups.members[first + a]], direction[a], weighted)
        for i in range(n_samples):
            weighted[i] *= share[i]
        total = 0.0
        for a in range(size):
            direction[a] = row_dot(groups.columns, groups.members[first + a], weighted)
            total += direction[a] * direction[a]
        largest = math.sqrt(total)
        if largest <= 0.0 or is_stopped():
            break
        for a in range(size):
            direction[a] /= largest
    return MARGIN * largest


@kernel
def shrink_group(argument, first, last, threshold, out):  # type: ignore[no-untyped-def]
    """Write (1 - threshold / ‖u‖)₊ u for u = ``argument[first:last]``. Return its squared distance from before."""
    norm = 0.0
    for k in range(first, last):
        norm += argument[k] * argument[k]
    norm = math.sqrt(norm)
    factor = 1.0 - threshold / norm if norm > threshold else 0.0
    moved = 0.0
    for k in range(first, last):
        value = factor * argument[k]
        moved += (value - out[k]) * (value - out[k])
        out[k] = value
    return moved


@kernel
def descend_groups(problem, bound, groups, which, lam, coef, intercept, at, tol, max_sweeps):  # type: ignore[no-untyped-def]
    """Take proximal steps for one group at a time, in sweeps.

    Parameters
    ----------
    problem : Problem
        See `daskfs.kernels.glm.newton`; its shares add up to 1.
    bound : float
        Bound of the loss's curvature.
    groups : GroupedColumns
    which : ndarray of shape (n_which,), int64
        Groups that may move.
    lam : float
        λ.
    coef : ndarray of shape (n_members,), float64
        Updated.
    intercept : ndarray of shape (1,), float64
        Updated.
    at : Predictions
        Predictions of the coefficients; updated.
    tol : float
        Stop when no step of a sweep, times the curvature, exceeds this share of the group's penalty.
    max_sweeps : int

    Returns
    -------
    int
        Number of sweeps.
    """
    before, argument = np.zeros(coef.shape[0]), np.zeros(coef.shape[0])
    move_intercept(problem, bound, intercept, at)
    for sweep in range(max_sweeps):
        largest = 0.0
        for h in range(which.shape[0]):
            if is_stopped():
                return sweep
            g = which[h]
            penalty = lam * groups.penalty[g]
            first, last = groups.bounds[g], groups.bounds[g + 1]
            size, norm = 0.0, 0.0
            for k in range(first, last):
                before[k] = coef[k]
                argument[k] = row_dot(groups.columns, groups.members[k], at.residual)
                size += coef[k] * coef[k]
                norm += argument[k] * argument[k]
            if size == 0.0 and math.sqrt(norm) <= penalty:
                continue
            if groups.curvature[g] == 0.0:
                groups.curvature[g] = curvature_of(groups, g, problem.share)
            curvature = bound * groups.curvature[g]
            for k in range(first, last):
                argument[k] = coef[k] + argument[k] / curvature
            moved = shrink_group(argument, first, last, penalty / curvature, coef)
            if moved > 0.0:
                for k in range(first, last):
                    add_multiple(groups.columns[groups.members[k]], coef[k] - before[k], at.z)
                refresh(problem, at)
                largest = max(largest, curvature * math.sqrt(moved) / penalty)
        move_intercept(problem, bound, intercept, at)
        if largest <= tol:
            return sweep + 1
    return max_sweeps


@kernel
def shrink_groups(groups, argument, step, lam, out):  # type: ignore[no-untyped-def]
    """Write the proximal point of every group for a gradient step of this length."""
    for g in range(groups.penalty.shape[0]):
        shrink_group(argument, groups.bounds[g], groups.bounds[g + 1], step * lam * groups.penalty[g], out)


@kernel
def penalty_of(groups, coef):  # type: ignore[no-untyped-def]
    """Return Σ_g p_g ‖w_g‖."""
    total = 0.0
    for g in range(groups.penalty.shape[0]):
        norm = 0.0
        for k in range(groups.bounds[g], groups.bounds[g + 1]):
            norm += coef[k] * coef[k]
        total += groups.penalty[g] * math.sqrt(norm)
    return total


@kernel
def ufo_epoch(rows, groups, y, share, order, first_step, ridge, lam, power, theta, coef):  # type: ignore[no-untyped-def]
    """Process every row once: UFO-MKL with the logistic loss.

    After t rows θ is minus the sum of the gradients, and w_g = v_g^(q-1) / (λ₂ t ‖v‖_q^(q-2)) θ_g / ‖θ_g‖ with v_g =
    (‖θ_g‖ - t λ p_g)₊. The intercept, the last element of `theta` and `coef`, is an unpenalised group.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features), float64, C-ordered
    groups : GroupedColumns
    y : ndarray of shape (n_samples,), float64
        -1 and +1.
    share : ndarray of shape (n_samples,), float64
        Weights with mean 1.
    order : ndarray of shape (n_samples,), int64
    first_step : int
        Number of rows processed before.
    ridge, lam : float
        λ₂ and λ.
    power : float
        q.
    theta, coef : ndarray of shape (n_members + 1,), float64
        Updated.
    """
    n_members, n_groups = groups.members.shape[0], groups.penalty.shape[0]
    size = np.zeros(n_groups + 1)
    for step in range(order.shape[0]):
        if is_stopped():
            break
        i, t = order[step], first_step + step + 1.0
        x = rows[i]
        z = coef[n_members]
        for k in range(n_members):
            z += x[groups.members[k]] * coef[k]
        towards = share[i] * y[i] / (1.0 + math.exp(min(y[i] * z, 700.0)))
        theta[n_members] += towards
        for k in range(n_members):
            theta[k] += towards * x[groups.members[k]]
        # v and its largest element, which scales powers so that they stay finite
        size[n_groups] = abs(theta[n_members])
        largest = size[n_groups]
        for g in range(n_groups):
            norm = 0.0
            for k in range(groups.bounds[g], groups.bounds[g + 1]):
                norm += theta[k] * theta[k]
            size[g] = max(math.sqrt(norm) - t * lam * groups.penalty[g], 0.0)
            largest = max(largest, size[g])
        if largest <= 0.0:
            coef[:] = 0.0
            continue
        total = 0.0
        for g in range(n_groups + 1):
            if size[g] > 0.0:
                total += (size[g] / largest) ** power
        # v^(q-1) / ‖v‖_q^(q-2), both relative to the largest element
        scale = largest / (ridge * t * total ** ((power - 2.0) / power))
        coef[n_members] = (
            scale * (size[n_groups] / largest) ** (power - 1.0) * (1.0 if theta[n_members] > 0.0 else -1.0)
        )
        for g in range(n_groups):
            factor = 0.0
            if size[g] > 0.0:
                factor = scale * (size[g] / largest) ** (power - 1.0) / (size[g] + t * lam * groups.penalty[g])
            for k in range(groups.bounds[g], groups.bounds[g + 1]):
                coef[k] = factor * theta[k]
