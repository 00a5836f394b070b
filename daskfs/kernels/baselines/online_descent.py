"""One coordinate descent step for each column of a block as it arrives, with an L1 penalty or keeping s columns.

The objective is Σ_i s_i loss(z_i) (+ λ Σ_j |b_j|), see `daskfs.kernels.glm.newton`. Columns are standardised, so each
has the curvature of the loss's bound. The unpenalised intercept takes a step of its own after each move. With the
squared loss, whose columns are centred, it does not change.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.glm.newton import Predictions, Problem  # noqa: F401  # their fields are part of the machine code
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import add_multiple, dot, sum_of
from daskfs.kernels.losses import derivatives


class KeptColumns(NamedTuple):
    """The columns that an online method holds: values, numbers and coefficients."""

    columns: np.ndarray
    """Shape (capacity, n_samples), standardised; one column per row."""
    features: np.ndarray
    """Shape (capacity,), int64: column number of the matrix."""
    slot: np.ndarray
    """Shape (n_features,), int64: position among the kept columns, or -1."""
    coef: np.ndarray
    """Shape (capacity,)."""
    n_held: np.ndarray
    """Shape (1,), int64: number of columns held."""


def no_columns(n_samples: int, n_features: int, capacity: int) -> KeptColumns:
    """Return an empty set with room for `capacity` columns."""
    return KeptColumns(
        columns=np.empty((capacity, n_samples)),
        features=np.full(capacity, -1, dtype=np.int64),
        slot=np.full(n_features, -1, dtype=np.int64),
        coef=np.zeros(capacity),
        n_held=np.zeros(1, dtype=np.int64),
    )


@kernel
def refresh(problem, at):  # type: ignore[no-untyped-def]
    """Update residuals and curvatures to the predictions."""
    derivatives(problem.loss.code, problem.threshold, at.z, problem.y, at.residual, at.curvature, at.bits)
    for i in range(at.residual.shape[0]):
        at.residual[i] *= -problem.share[i]


@kernel
def move_intercept(problem, bound, intercept, at):  # type: ignore[no-untyped-def]
    """Take one step of the intercept, and update the residuals."""
    refresh(problem, at)
    if problem.loss.is_quadratic:
        return
    step = sum_of(at.residual) / bound
    intercept[0] += step
    for i in range(at.z.shape[0]):
        at.z[i] += step
    refresh(problem, at)


@kernel
def l1_steps(problem, bound, block, first, lam, coef, intercept, at):  # type: ignore[no-untyped-def]
    """Take one soft-thresholded step for every column of a block.

    Parameters
    ----------
    problem : Problem
    bound : float
        Bound of the loss's curvature.
    block : ndarray of shape (n_columns, n_samples), float64
        Standardised; constant columns are 0.
    first : int
        Number of the first column.
    lam : float
    coef : ndarray of shape (n_features,), float64
        Coefficients of the standardised columns; updated.
    intercept : ndarray of shape (1,), float64
        Updated.
    at : Predictions
        Predictions of all columns so far; updated.

    Returns
    -------
    int
        Number of coefficients that moved.
    """
    n_moves = 0
    for f in range(block.shape[0]):
        if is_stopped():
            break
        j = first + f
        target = coef[j] + dot(block[f], at.residual) / bound
        excess = abs(target) - lam / bound
        new = math.copysign(excess, target) if excess > 0.0 else 0.0
        if new != coef[j]:
            add_multiple(block[f], new - coef[j], at.z)
            coef[j] = new
            move_intercept(problem, bound, intercept, at)
            n_moves += 1
    return n_moves


@kernel
def l0_steps(problem, bound, block, first, kept, intercept, at):  # type: ignore[no-untyped-def]
    """Take one step for every column of a block, and keep those with the largest coefficients.

    A column that is held moves. A candidate takes a free place, or replaces the column with the smallest coefficient if
    its own is larger. The parameters are those of `l1_steps`, with `kept` instead of `coef`.

    Returns
    -------
    int
        Number of candidates accepted.
    """
    capacity = kept.columns.shape[0]
    n_taken = 0
    for f in range(block.shape[0]):
        if is_stopped():
            break
        j = first + f
        step = dot(block[f], at.residual) / bound
        if step == 0.0:
            continue
        place = kept.slot[j]
        if place < 0:
            place = kept.n_held[0]
            if place == capacity:
                place = _weakest(kept)
                if abs(step) <= abs(kept.coef[place]):
                    continue
                add_multiple(kept.columns[place], -kept.coef[place], at.z)
                kept.slot[kept.features[place]] = -1
            else:
                kept.n_held[0] += 1
            kept.columns[place] = block[f]
            kept.features[place] = j
            kept.slot[j] = place
            kept.coef[place] = 0.0
            n_taken += 1
        kept.coef[place] += step
        add_multiple(block[f], step, at.z)
        move_intercept(problem, bound, intercept, at)
    return n_taken


@kernel
def _weakest(kept):  # type: ignore[no-untyped-def]
    weakest = 0
    for k in range(1, kept.n_held[0]):
        if abs(kept.coef[k]) < abs(kept.coef[weakest]):
            weakest = k
    return weakest


@kernel
def products(block, vector, out):  # type: ignore[no-untyped-def]
    """Write the product of every column of a block with a vector."""
    for f in range(block.shape[0]):
        if is_stopped():
            break
        out[f] = dot(block[f], vector)


@kernel
def predict(columns, n_columns, coef, intercept, z):  # type: ignore[no-untyped-def]
    """Write ``intercept + Σ_k coef_k column_k``."""
    z[:] = intercept
    for k in range(n_columns):
        if is_stopped():
            break
        if coef[k] != 0.0:
            add_multiple(columns[k], coef[k], z)
