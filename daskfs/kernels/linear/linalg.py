"""Small dense systems: Cholesky factors, inverses, and singular systems.

Implemented here instead of calling LAPACK: there are at most a few hundred unknowns, and results are bit-identical for
any number of threads.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import (
    add_first_of_row,
    copy_into,
    dot_of_first,
    dot_of_rows,
    row_dot_of_first,
)

MIN_PIVOT = 1e-10  # 1 - R² of a column given earlier ones, below which it counts as linearly dependent
MAX_JACOBI_SWEEPS = 60


@kernel
def extend_cholesky(gram, members, n_members, n_kept, factor):  # type: ignore[no-untyped-def]
    """Factor ``gram[members][:, members]``, keeping the first `n_kept` rows of `factor`.

    A member that depends on earlier ones gets a pivot of 0 and is ignored by `solve_cholesky`.

    Parameters
    ----------
    gram : ndarray of shape (n, n), float64
    members : ndarray of shape (>= n_members,), int64
    n_members, n_kept : int
    factor : ndarray of shape (>= n_members, >= n_members), float64
        Lower triangle, written from row `n_kept` on.

    Returns
    -------
    int
        The rank.
    """
    for q in range(n_kept, n_members):
        if is_stopped():
            break
        for r in range(q):
            factor[q, r] = gram[members[q], members[r]]
        _factor_row(factor, q, gram[members[q], members[q]])
    rank = 0
    for q in range(n_members):
        if factor[q, q] > 0.0:
            rank += 1
    return rank


@kernel
def factorise(matrix, n, ridge, factor):  # type: ignore[no-untyped-def]
    """Factor the leading n x n part (any diagonal) plus `ridge` on all pivots but the first. Return the rank.

    Like `extend_cholesky`, but for a Hessian whose position 0 is the intercept: from scratch, for all positions.
    """
    rank = 0
    for q in range(n):
        if is_stopped():
            break
        for r in range(q):
            factor[q, r] = matrix[q, r]
        _factor_row(factor, q, matrix[q, q] + (ridge if q > 0 else 0.0))
        if factor[q, q] > 0.0:
            rank += 1
    return rank


@kernel
def _factor_row(factor, q, diagonal):  # type: ignore[no-untyped-def]
    """Convert row q, which holds the matrix elements left of its diagonal, to a row of the factor."""
    pivot = diagonal
    for r in range(q):
        entry = 0.0
        if factor[r, r] > 0.0:
            entry = (factor[q, r] - dot_of_rows(factor, q, r, r)) / factor[r, r]
        factor[q, r] = entry
        pivot -= entry * entry
    factor[q, q] = math.sqrt(pivot) if pivot > MIN_PIVOT * diagonal else 0.0


@kernel
def forward_substitution(factor, n_members, right, out):  # type: ignore[no-untyped-def]
    """Write L⁻¹ right into `out`. Return its squared length, the variance explained."""
    explained = 0.0
    for q in range(n_members):
        out[q] = 0.0
        if factor[q, q] > 0.0:
            out[q] = (right[q] - row_dot_of_first(factor, q, out, q)) / factor[q, q]
            explained += out[q] * out[q]
    return explained


@kernel
def solve_cholesky(factor, n_members, right, out):  # type: ignore[no-untyped-def]
    """Write (L Lᵀ)⁻¹ right into `out`, 0 for dependent members. Return the product of `right` and `out`."""
    explained = forward_substitution(factor, n_members, right, out)
    for q in range(n_members - 1, -1, -1):
        if factor[q, q] > 0.0:
            out[q] /= factor[q, q]
            add_first_of_row(factor, q, -out[q], out, q)
        else:
            out[q] = 0.0
    return explained


@kernel
def invert_independent(matrix):  # type: ignore[no-untyped-def]
    """Return the inverse with zeros for positions that depend on earlier ones, and a mask of these positions."""
    n = matrix.shape[0]
    factor, inverse = np.zeros((n, n)), np.zeros((n, n))
    factorise(matrix, n, 0.0, factor)
    is_dependent = np.diag(factor) <= 0.0
    unit, column = np.zeros(n), np.zeros(n)
    for q in range(n):
        if is_stopped():
            break
        if not is_dependent[q]:
            unit[q] = 1.0
            solve_cholesky(factor, n, unit, column)
            copy_into(column, inverse[:, q])
            unit[q] = 0.0
    return inverse, is_dependent


@kernel
def invert(matrix, inverse):  # type: ignore[no-untyped-def]
    """Write the inverse of a symmetric positive definite matrix, by its Cholesky factor.

    It differs from `factorise`: a dependent position is an error and not left out, and sums over many unknowns are
    computed in lanes, because this runs after each exchange.

    Parameters
    ----------
    matrix : ndarray of shape (k, k), float64
    inverse : ndarray of shape (k, k), float64
        Output.

    Returns
    -------
    bool
        Whether the matrix is positive definite. Otherwise `inverse` is invalid.
    """
    k = matrix.shape[0]
    factor = np.zeros((k, k))
    for i in range(k):
        if is_stopped():
            return False
        for j in range(i):
            factor[i, j] = (matrix[i, j] - dot_of_first(factor[i], factor[j], j)) / factor[j, j]
        pivot = matrix[i, i] - dot_of_first(factor[i], factor[i], i)
        if not pivot > 0.0:
            return False
        factor[i, i] = math.sqrt(pivot)
    columns = np.zeros((k, k))  # row j is column j of L⁻¹
    for j in range(k):
        if is_stopped():
            break
        column = columns[j]
        column[j] = 1.0 / factor[j, j]
        for i in range(j + 1, k):
            column[i] = -dot_of_first(factor[i, j:i], column[j:i], i - j) / factor[i, i]
    for i in range(k):
        if is_stopped():
            break
        for j in range(i + 1):
            inverse[i, j] = dot_of_first(columns[i, i:], columns[j, i:], k - i)
            inverse[j, i] = inverse[i, j]
    return True


@kernel
def multiply(matrix, vector):  # type: ignore[no-untyped-def]
    """Return the product of a square matrix and a vector."""
    out = np.zeros(vector.shape[0])
    for i in range(vector.shape[0]):
        out[i] = dot_of_first(matrix[i], vector, vector.shape[0])
    return out


@kernel
def solve_each(gram, takes_part, right, solution):  # type: ignore[no-untyped-def]
    """Solve many systems ``gram[i] b = right[i]`` with unit diagonal, each for its own set of unknowns.

    Parameters
    ----------
    gram : ndarray of shape (n_systems, n, n), float64
    takes_part : ndarray of shape (n_systems, n), bool
    right, solution : ndarray of shape (n_systems, n), float64
        Only the unknowns that take part are written, and only if their gram has full rank.

    Returns
    -------
    ndarray of shape (n_systems,), bool
        Whether the gram is rank-deficient.
    """
    n_systems, n = right.shape
    is_singular = np.zeros(n_systems, np.bool_)
    members, factor = np.empty(n, np.int64), np.zeros((n, n))
    of_members, found = np.empty(n), np.empty(n)
    for i in range(n_systems):
        if is_stopped():
            break
        k = 0
        for j in range(n):
            if takes_part[i, j]:
                members[k], of_members[k] = j, right[i, j]
                k += 1
        if extend_cholesky(gram[i], members, k, 0, factor) < k:
            is_singular[i] = True
            continue
        solve_cholesky(factor, k, of_members, found)
        for q in range(k):
            solution[i, members[q]] = found[q]
    return is_singular


@kernel
def minimum_norm(gram, right):  # type: ignore[no-untyped-def]
    """Return the least-squares solution of least norm of ``gram b = right`` for a singular symmetric gram.

    Uses cyclic Jacobi rotations. Eigenvalues below `MIN_PIVOT` times the largest count as 0.

    Parameters
    ----------
    gram : ndarray of shape (n, n), float64
    right : ndarray of shape (n,), float64

    Returns
    -------
    ndarray of shape (n,)
    """
    n = gram.shape[0]
    values = gram.copy()
    vectors = np.eye(n)
    largest = 0.0
    for q in range(n):
        largest = max(largest, values[q, q])
    for _ in range(MAX_JACOBI_SWEEPS):
        if is_stopped():
            break
        if not _jacobi_sweep(values, vectors, largest):
            break
    largest = 0.0
    for q in range(n):
        largest = max(largest, values[q, q])
    solution = np.zeros(n)
    for q in range(n):
        if values[q, q] > MIN_PIVOT * largest:
            projection = 0.0
            for r in range(n):
                projection += vectors[r, q] * right[r]
            for r in range(n):
                solution[r] += vectors[r, q] * projection / values[q, q]
    return solution


@kernel
def _jacobi_sweep(values, vectors, largest):  # type: ignore[no-untyped-def]
    """Rotate every pair once. Return whether any off-diagonal element was large enough."""
    n = values.shape[0]
    rotated = False
    for p in range(n - 1):
        if is_stopped():
            break
        for q in range(p + 1, n):
            off = values[p, q]
            if abs(off) <= 1e-16 * largest:
                continue
            rotated = True
            theta = (values[q, q] - values[p, p]) / (2.0 * off)
            tangent = 1.0 / (abs(theta) + math.sqrt(theta * theta + 1.0))
            if theta < 0.0:
                tangent = -tangent
            cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
            sine = tangent * cosine
            for r in range(n):
                a, b = values[r, p], values[r, q]
                values[r, p], values[r, q] = cosine * a - sine * b, sine * a + cosine * b
            for r in range(n):
                a, b = values[p, r], values[q, r]
                values[p, r], values[q, r] = cosine * a - sine * b, sine * a + cosine * b
                a, b = vectors[r, p], vectors[r, q]
                vectors[r, p], vectors[r, q] = cosine * a - sine * b, sine * a + cosine * b
    return rotated
