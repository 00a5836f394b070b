"""The multinomial log-likelihood of a few columns of a row block: its terms, and its fit by Newton's method.

P(y = c) = exp(z_c) / Σ_d exp(z_d). Adding a constant to all z changes nothing, so the last class has z = 0 in the fit.
Coefficients are an (n_classes - 1, n_columns + 1) array, intercept first; in vectors, classes are concatenated.
`centred` converts them to coefficients whose sum over the classes is 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.blocks.any_columns import enter_columns, new_columns
from daskfs.kernels.blocks.column_entries import SPARSE, ColumnEntries
from daskfs.kernels.blocks.dense_block import as_block
from daskfs.kernels.glm.fit import NewtonTerms
from daskfs.kernels.glm.newton import LONGEST_LAST_STEP, MAX_STEPS, TOLERANCE, weak_ridge
from daskfs.kernels.glm.softmax_many import MANY_UNKNOWNS, fit_by_products, softmax_gradient, softmax_value
from daskfs.kernels.glm.softmax_separable import MOST_UNKNOWNS, damped_nbytes, fit_damped, row_entries
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import copy_columns, copy_into
from daskfs.kernels.linear.linalg import factorise, solve_cholesky
from daskfs.kernels.linear.moments import Moments, moments
from daskfs.kernels.linear.weighted_gram import extend_hessian

MAX_HALVINGS = 40
NEAR = 1e-8  # such a short step (squared) gains less than the rounding error of the value: it is taken in full


class SoftmaxFit(NamedTuple):
    """A fit by Newton's method."""

    moments: Moments
    """Moments of the columns. Their y is the class number."""
    coef: np.ndarray
    """Shape (n_classes, n_columns), on the scale of the data, with sum 0; NaN for constant columns."""
    centred_intercepts: np.ndarray
    """Shape (n_classes,): predictions for columns at their means, with sum 0."""
    is_singular: bool
    """Whether columns were linearly dependent. Those after the first dependent one are left out."""
    is_separable: bool
    """Whether there is no finite minimum (separable or missing classes), so that a weak ridge bounds the fit."""


def is_large(n_features: int, n_classes: int) -> bool:
    """Return whether a fit has too many unknowns to form the Hessian."""
    return (n_classes - 1) * (n_features + 1) > MANY_UNKNOWNS


def centred(coef: np.ndarray) -> np.ndarray:
    """Return coefficients of all classes (first axis) with sum 0, from those of all but the last class."""
    whole = np.concatenate([coef, np.zeros((1, *coef.shape[1:]))])
    return whole - whole.mean(axis=0)


def softmax_fit(X: np.ndarray, y: np.ndarray, weight: np.ndarray, n_classes: int) -> SoftmaxFit:
    """Fit the classes of a block on all its columns.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered and writable
    y : ndarray of shape (n_samples,), float64
        Class numbers, from 0.
    weight : ndarray of shape (n_samples,), float64
    n_classes : int

    Returns
    -------
    SoftmaxFit
    """
    if not weight.all():
        X, y, weight = X[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    m = moments(X, y, weight)
    features = np.flatnonzero(m.scale > 0.0)
    code, share = y.astype(np.int64), weight / m.total
    ridges = (0.0, weak_ridge(m.total))[_is_separable_by_a_column(X, code, n_classes) :]
    if is_large(X.shape[1], n_classes):
        return _large_fit(X, code, share, n_classes, m, ridges)
    columns = np.empty((len(features), len(y)))
    copy_columns(X, m.mean, m.scale, features, columns)
    n = (n_classes - 1) * (len(features) + 1)
    for ridge in ridges:
        solution, factor = np.zeros((n_classes - 1, len(features) + 1)), np.zeros((n, n))
        is_converged, rank = _newton(columns, code, share, ridge, solution, factor)
        if is_converged:
            break
    full = np.full((n_classes, X.shape[1]), np.nan)
    both = centred(solution)
    full[:, features] = both[:, 1:] / m.scale[features]
    return SoftmaxFit(m, full, both[:, 0], rank < n, ridge > 0.0)


def _is_separable_by_a_column(X: np.ndarray, code: np.ndarray, n_classes: int) -> bool:
    """Return whether a class is missing, or has a column's smallest (or largest) value in all its rows and no other.

    In that case the loss of the other classes decreases with the coefficient without limit, and its own is unaffected.
    """
    counts = np.bincount(code, minlength=n_classes)
    if not counts.all() or not X.shape[1]:
        return not counts.all()
    of_class = X[np.argsort(code, kind="stable")]
    starts = np.cumsum(counts) - counts
    least, most = np.minimum.reduceat(of_class, starts), np.maximum.reduceat(of_class, starts)
    low, high = least.min(axis=0), most.max(axis=0)
    return bool(((least == most) & ((least == low) | (most == high)) & (low < high)).any())


def _large_fit(
    X: np.ndarray, code: np.ndarray, share: np.ndarray, n_classes: int, m: Moments, ridges: tuple[float, ...]
) -> SoftmaxFit:
    """Fit without a Hessian. Sparse columns stay sparse."""
    features = np.flatnonzero(m.scale > 0.0)
    n_free, width = n_classes - 1, len(features) + 1
    block = as_block(X)
    if np.count_nonzero(X) <= SPARSE * X.size:
        columns_of, rows = np.nonzero(X.T)
        starts = np.searchsorted(columns_of, np.arange(X.shape[1] + 1))
        block = ColumnEntries(starts, rows.astype(np.int32), X[rows, columns_of], len(X))
    columns = new_columns(block, len(features))
    enter_columns(columns, block, m.mean, m.scale, features, 0)
    is_singular = False
    for ridge in ridges:
        solution, z = np.zeros((n_free, width)), np.empty((n_free, len(code)))
        if ridge > 0.0 and n_free * width <= MOST_UNKNOWNS:
            entries = row_entries(X[:, features], m.mean[features], m.scale[features])
            is_converged = fit_damped(columns, entries, code, share, ridge, solution, z)
        else:
            is_converged, is_singular = fit_by_products(
                columns, len(features), code, share, ridge, LONGEST_LAST_STEP, solution, z
            )
        if is_converged:
            break
    coef, both = np.full((n_classes, X.shape[1]), np.nan), centred(solution)
    coef[:, features] = both[:, 1:] / m.scale[features]
    return SoftmaxFit(m, coef, both[:, 0], is_singular, ridge > 0.0)


def softmax_terms(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray, coef: np.ndarray, centre: np.ndarray, scale: np.ndarray
) -> NewtonTerms:
    """Return the terms of a Newton step at `coef`, for columns with the same centre and scale in all blocks.

    Parameters
    ----------
    X, y, weight : see `softmax_fit`
    coef : ndarray of shape (n_classes - 1, n_features + 1), float64
        Intercept first. A feature of scale 0 is left out.
    centre, scale : ndarray of shape (n_features,), float64
    """
    if not weight.all():
        X, y, weight = X[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    features = np.flatnonzero(scale > 0.0)
    columns = np.zeros((X.shape[1], len(y)))
    part = np.empty((len(features), len(y)))
    copy_columns(X, centre, scale, features, part)
    columns[features] = part
    n = coef.size
    gradient, hessian = np.zeros(n), np.zeros((n, n))
    value = _terms(columns, y.astype(np.int64), weight, np.ascontiguousarray(coef), 0.0, gradient, hessian)
    return NewtonTerms(float(value), gradient, hessian)


def softmax_nbytes(n_samples: int, n_features: int, n_classes: int) -> int:
    """Return the peak memory in bytes of `softmax_fit` in addition to its block."""
    n = (n_classes - 1) * (n_features + 1)
    if is_large(n_features, n_classes):
        damped = damped_nbytes(n_samples, n, n_features + 1) if n <= MOST_UNKNOWNS else 0
        return damped + 8 * (n_samples * (2 * n_features + 4 * n_classes + 8) + (n + 5 * n_features) * (n_features + 8))
    return 8 * (n_samples * (n_features + 2 * n_classes + 8) + 3 * n * n + 16 * n_features)


@kernel
def _terms(columns, code, share, coef, ridge, gradient, hessian):  # type: ignore[no-untyped-def]
    """Write gradient and Hessian, and return the value."""
    n_free, width = coef.shape
    z, members = np.empty((n_free, code.shape[0])), np.arange(width - 1)
    value = softmax_value(columns, members, code, share, coef, ridge, z)
    softmax_gradient(columns, members, code, share, coef, ridge, z, gradient.reshape(n_free, width))
    work, scaled, block = np.empty(code.shape[0]), np.empty(code.shape[0]), np.empty((width, width))
    for c in range(n_free):
        for d in range(c, n_free):
            if is_stopped():
                break
            for i in range(work.shape[0]):
                work[i] = share[i] * z[c, i] * ((1.0 if c == d else 0.0) - z[d, i])
            extend_hessian(columns, members, width - 1, 0, work, block, scaled)
            for a in range(width):
                for b in range(width):
                    hessian[c * width + a, d * width + b] = hessian[d * width + a, c * width + b] = block[a, b]
    for a in range(hessian.shape[0]):
        if a % width > 0:
            hessian[a, a] += ridge
    return value


@kernel
def _newton(columns, code, share, ridge, coef, factor):  # type: ignore[no-untyped-def]
    """Minimise from the start in `coef`, in place. Return whether it converged, and the rank of the Hessian.

    It differs from `daskfs.kernels.glm.newton.newton`: each class has its own predictor, so the Hessian has blocks of
    classes and comes with the value. A step is halved by the value, which needs no gradient.
    """
    n_free, width = coef.shape
    n = n_free * width
    gradient, hessian, step = np.zeros(n), np.zeros((n, n)), np.zeros(n)
    trial, z, members = coef.copy(), np.empty((n_free, code.shape[0])), np.arange(width - 1)
    first_rank = 0
    for iteration in range(MAX_STEPS):
        if is_stopped():
            break
        value = _terms(columns, code, share, coef, ridge, gradient, hessian)
        rank = factorise(hessian, n, 0.0, factor)
        if iteration == 0:
            first_rank = rank
        square = solve_cholesky(factor, n, gradient, step)
        if square <= TOLERANCE * TOLERANCE:
            is_finite = rank == first_rank and (ridge > 0.0 or np.abs(step).max() <= LONGEST_LAST_STEP)
            return is_finite, first_rank
        length = 1.0
        for _ in range(MAX_HALVINGS):
            if is_stopped():
                break
            for c in range(n_free):
                for q in range(width):
                    trial[c, q] = coef[c, q] - length * step[c * width + q]
            if (
                square < NEAR
                or softmax_value(columns, members, code, share, trial, ridge, z) <= value - 0.1 * length * square
            ):
                break
            length *= 0.5
        for c in range(n_free):
            copy_into(trial[c], coef[c])
    return False, first_rank
