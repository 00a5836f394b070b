"""The multinomial fit of so many coefficients that forming their Hessian over all classes would dominate the cost.

SciPy's trust-region Newton method solves Newton's equations by conjugate gradients (Steihaug 1983), with products of
the Hessian and a vector: two passes over the columns each. It sees uncorrelated columns, and classes scaled by their
frequency, so that few products suffice. The trust region bounds the steps of separable classes, whose curvature
vanishes. The problem is that of `daskfs.kernels.glm.softmax`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from daskfs.kernels.blocks.any_columns import add_columns, column_products, extend_hessian_of
from daskfs.kernels.glm.newton import LONGEST_LAST_STEP, MAX_STEPS
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into, row_dot, sum_of
from daskfs.kernels.linear.linalg import factorise, forward_substitution

MANY_UNKNOWNS = 500
TOLERANCE = 1e-10  # of the gradient, for uncorrelated columns of unit variance
FEW_ROWS = 1e-6  # extra rows per class at the start: a missing class has no finite intercept


def fit_by_products(
    columns: Any, n_members: int, code: np.ndarray, share: np.ndarray, ridge: float, coef: np.ndarray
) -> tuple[bool, bool]:
    """Minimise from the class frequencies, and write `coef`.

    Kernels compute all sums over rows: the threads of a BLAS would change their order.

    Parameters
    ----------
    columns : ndarray of shape (n_members, n_samples), float64, or EnteredEntries
        Standardised.
    n_members : int
    code : ndarray of shape (n_samples,), int64
    share : ndarray of shape (n_samples,), float64
    ridge : float
    coef : ndarray of shape (n_classes - 1, n_members + 1), float64

    Returns
    -------
    is_finite : bool
        Whether there is a finite minimum.
    is_singular : bool
        Whether columns depend linearly on each other. The coefficients of those that depend on earlier ones are 0.
    """
    from scipy.optimize import minimize  # 26 MiB, for few fits

    members, z, moved = np.arange(n_members), *np.empty((2, len(coef), len(code)))
    root, rank = _root(columns, members, share, ridge)
    transposed = np.ascontiguousarray(root.T)
    frequency = np.bincount(code, share, len(coef) + 1) + FEW_ROWS / len(code)
    frequency /= frequency.sum()
    deviation = np.sqrt(frequency * (1.0 - frequency))[:-1]
    start, gradient, point = np.zeros(coef.shape), np.empty(coef.shape), np.full(coef.size, np.nan)
    start[:, 0] = np.log(frequency[:-1] / frequency[-1]) * deviation

    def of_columns(at: np.ndarray) -> np.ndarray:
        return _map(transposed, at.reshape(coef.shape), deviation)  # type: ignore[no-any-return]

    def value(at: np.ndarray) -> tuple[float, np.ndarray]:
        b = of_columns(at)
        reached = softmax_value(columns, members, code, share, b, ridge, z)
        softmax_gradient(columns, members, code, share, b, ridge, z, gradient)
        point[:] = at
        return reached, _map(root, gradient, deviation).ravel()

    def product(at: np.ndarray, vector: np.ndarray) -> np.ndarray:
        if not np.array_equal(at, point):  # `z` is of a step that was not taken
            value(at)
        out = np.empty(coef.shape)
        _multiply(columns, members, share, ridge, z, of_columns(vector), moved, out)
        return _map(root, out, deviation).ravel()  # type: ignore[no-any-return]

    def minimise(at: np.ndarray, gtol: float, maxiter: int | None) -> Any:
        options = {"gtol": gtol, "maxiter": maxiter}
        return minimize(value, at, jac=True, hessp=product, method="trust-ncg", options=options)

    found = minimise(start.ravel(), TOLERANCE, None if ridge > 0.0 else MAX_STEPS)
    coef[:] = of_columns(found.x)
    is_finite = ridge > 0.0
    if not is_finite and found.nit < MAX_STEPS and found.fun > share.min() * math.log(2.0):  # some row is misclassified
        step = of_columns(minimise(found.x, 0.0, 1).x) - coef
        is_finite = np.abs(step).max() <= LONGEST_LAST_STEP
    return bool(is_finite), rank <= n_members


@kernel
def _root(columns, members, share, ridge):  # type: ignore[no-untyped-def]
    """Return R for which R Z are uncorrelated columns (of which the first is the intercept), and the columns' rank."""
    width = members.shape[0] + 1
    gram, factor, root = np.zeros((width, width)), np.zeros((width, width)), np.zeros((width, width))
    extend_hessian_of(columns, members, members.shape[0], 0, share, gram, np.empty(share.shape[0]))
    rank = factorise(gram, width, ridge, factor)
    unit, column = np.zeros(width), np.zeros(width)
    for q in range(width):
        if is_stopped():
            break
        if factor[q, q] > 0.0:
            unit[q] = 1.0
            forward_substitution(factor, width, unit, column)
            copy_into(column, root[:, q])
            unit[q] = 0.0
    return root, rank


@kernel
def _map(matrix, vectors, divisor):  # type: ignore[no-untyped-def]
    """Return the product of a matrix with each vector, divided by its divisor."""
    out = np.empty_like(vectors)
    for c in range(vectors.shape[0]):
        for q in range(matrix.shape[0]):
            out[c, q] = row_dot(matrix, q, vectors[c]) / divisor[c]
    return out


@kernel
def _predict(columns, members, coef, z):  # type: ignore[no-untyped-def]
    for c in range(coef.shape[0]):
        for i in range(z.shape[1]):
            z[c, i] = coef[c, 0]
        add_columns(columns, members, members.shape[0], coef[c], 1.0, z[c])


@kernel
def softmax_value(columns, members, code, share, coef, ridge, z):  # type: ignore[no-untyped-def]
    """Return Σ s_i (log Σ_d exp(z_id) - z_iy) + ½ ridge Σ b², and write the probabilities."""
    _predict(columns, members, coef, z)
    value = 0.0
    for i in range(code.shape[0]):
        largest = 0.0
        for c in range(z.shape[0]):
            largest = max(largest, z[c, i])
        own = z[code[i], i] if code[i] < z.shape[0] else 0.0
        total = math.exp(-largest)
        for c in range(z.shape[0]):
            z[c, i] = math.exp(z[c, i] - largest)
            total += z[c, i]
        for c in range(z.shape[0]):
            z[c, i] /= total
        value += share[i] * (largest + math.log(total) - own)
    for c in range(coef.shape[0]):
        for q in range(1, coef.shape[1]):
            value += 0.5 * ridge * coef[c, q] * coef[c, q]
    return value


@kernel
def softmax_gradient(columns, members, code, share, coef, ridge, z, gradient):  # type: ignore[no-untyped-def]
    """Write the gradient at the probabilities z."""
    work = np.empty(code.shape[0])
    for c in range(coef.shape[0]):
        for i in range(work.shape[0]):
            work[i] = share[i] * (z[c, i] - (1.0 if code[i] == c else 0.0))
        _products(columns, members, work, ridge, coef[c], gradient[c])


@kernel
def _products(columns, members, vector, ridge, coef, out):  # type: ignore[no-untyped-def]
    """Write the products of ones and columns with a vector, plus the ridge term."""
    out[0] = sum_of(vector)
    column_products(columns, members, members.shape[0], vector, out)
    for q in range(1, out.shape[0]):
        out[q] += ridge * coef[q]


@kernel
def _multiply(columns, members, share, ridge, z, vector, moved, out):  # type: ignore[no-untyped-def]
    """Write the product of the Hessian at the probabilities z with a vector."""
    _predict(columns, members, vector, moved)
    for i in range(share.shape[0]):
        mean = 0.0
        for c in range(z.shape[0]):
            mean += z[c, i] * moved[c, i]
        for c in range(z.shape[0]):
            moved[c, i] = share[i] * z[c, i] * (moved[c, i] - mean)
    for c in range(z.shape[0]):
        _products(columns, members, moved[c], ridge, vector[c], out[c])
