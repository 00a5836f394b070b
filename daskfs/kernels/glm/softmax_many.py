"""The multinomial fit of so many coefficients that forming their Hessian over all classes would dominate the cost.

Newton's equations are solved by conjugate gradients, only as accurately as the step needs (Eisenstat and Walker 1996).
They need products with the Hessian, two passes over the columns each. The preconditioner is the Hessian's blocks of
single classes, whose Cholesky factors are reused as long as few products suffice. The problem is that of
`daskfs.kernels.glm.softmax`.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.blocks.any_columns import add_columns, column_products, extend_hessian_of
from daskfs.kernels.glm.newton import MAX_STEPS
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into, sum_of
from daskfs.kernels.linear.linalg import factorise, solve_cholesky

MANY_UNKNOWNS = 500
TOLERANCE = 1e-7  # of the last step, in standard deviations of the coefficients times √n
MAX_PRODUCTS = 400  # of one step
FEW_PRODUCTS = 15  # with the factors of earlier steps
MAX_HALVINGS = 40
NEAR = 1e-8  # such a short step (squared) gains less than the rounding error of the value: it is taken in full


@kernel
def fit_by_products(columns, n_members, code, share, ridge, longest, coef, z):  # type: ignore[no-untyped-def]
    """Minimise from the start in `coef`, in place.

    Parameters
    ----------
    columns : ndarray of shape (n_members, n_samples), float64, or EnteredEntries
        Standardised.
    n_members : int
    code : ndarray of shape (n_samples,), int64
    share : ndarray of shape (n_samples,), float64
    ridge : float
    longest : float
        See `daskfs.kernels.glm.newton.newton`.
    coef : ndarray of shape (n_classes - 1, n_members + 1), float64
    z : ndarray of shape (n_classes - 1, n_samples), float64
        Output: the probabilities of the classes.

    Returns
    -------
    is_converged : bool
    is_singular : bool
        Whether columns depend linearly on each other.
    """
    n_free, width = coef.shape
    members = np.arange(n_members)
    gradient, step, trial = np.zeros((n_free, width)), np.zeros((n_free, width)), coef.copy()
    factors = np.zeros((n_free, width, width))
    value = softmax_value(columns, members, code, share, coef, ridge, z)
    is_singular, is_stale = False, True
    for iteration in range(MAX_STEPS):
        if is_stopped():
            break
        softmax_gradient(columns, members, code, share, coef, ridge, z, gradient)
        if is_stale:
            rank = _factorise_classes(columns, members, share, ridge, z, factors)
            is_singular = is_singular or (iteration == 0 and rank < n_free * width)
        square, n_products = _solve(columns, members, share, ridge, z, factors, gradient, step)
        if square <= TOLERANCE * TOLERANCE:
            return ridge > 0.0 or np.abs(step).max() <= longest, is_singular
        length = 1.0
        for _ in range(MAX_HALVINGS):
            if is_stopped():
                break
            for c in range(n_free):
                for q in range(width):
                    trial[c, q] = coef[c, q] - length * step[c, q]
            reached = softmax_value(columns, members, code, share, trial, ridge, z)
            if square < NEAR or reached <= value - 0.1 * length * square:
                break
            length *= 0.5
        value = reached
        for c in range(n_free):
            copy_into(trial[c], coef[c])
        is_stale = n_products > FEW_PRODUCTS or length < 1.0
    return False, is_singular


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


@kernel
def _factorise_classes(columns, members, share, ridge, z, factors):  # type: ignore[no-untyped-def]
    """Factor the Hessian's blocks of single classes. Return the sum of their ranks."""
    n_free, width = z.shape[0], members.shape[0] + 1
    weight, work, block = np.empty(share.shape[0]), np.empty(share.shape[0]), np.zeros((width, width))
    rank = 0
    for c in range(n_free):
        if is_stopped():
            break
        for i in range(share.shape[0]):
            weight[i] = share[i] * max(z[c, i] * (1.0 - z[c, i]), 1e-30)
        extend_hessian_of(columns, members, members.shape[0], 0, weight, block, work)
        rank += factorise(block, width, ridge, factors[c])
    return rank


@kernel
def _solve(columns, members, share, ridge, z, factors, gradient, step):  # type: ignore[no-untyped-def]
    """Write the solution of Newton's equations. Return its product with the gradient, and the number of products."""
    n_free, width = gradient.shape
    left, moved = gradient.copy(), np.empty_like(z)
    image, direction, better = np.zeros((n_free, width)), np.zeros((n_free, width)), np.zeros((n_free, width))
    step[:] = 0.0
    size = _precondition(factors, left, better)
    first, n_products = size, 0
    if size <= 0.0:
        return 0.0, 0
    exact = min(0.25, math.sqrt(size)) ** 2 * first
    for c in range(n_free):
        copy_into(better[c], direction[c])
    while size > exact and n_products < MAX_PRODUCTS and not is_stopped():
        _multiply(columns, members, share, ridge, z, direction, moved, image)
        n_products += 1
        curvature = _inner(direction, image)
        if curvature <= 0.0:
            break
        length = size / curvature
        for c in range(n_free):
            for q in range(width):
                step[c, q] += length * direction[c, q]
                left[c, q] -= length * image[c, q]
        last = size
        size = _precondition(factors, left, better)
        for c in range(n_free):
            for q in range(width):
                direction[c, q] = better[c, q] + size / last * direction[c, q]
    return _inner(step, gradient), n_products


@kernel
def _precondition(factors, left, better):  # type: ignore[no-untyped-def]
    """Solve each class separately. Return the inner product of input and solution."""
    size = 0.0
    for c in range(left.shape[0]):
        size += solve_cholesky(factors[c], left.shape[1], left[c], better[c])
    return size


@kernel
def _inner(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for c in range(a.shape[0]):
        for q in range(a.shape[1]):
            total += a[c, q] * b[c, q]
    return total
