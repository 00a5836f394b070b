"""The minima of a quadratic function with many ridges, and their degrees of freedom.

The matrix is brought to tridiagonal form by Householder's reflections, once for all ridges; each ridge then takes a few
n. That is less than an eigendecomposition, and the same for any number of threads. LAPACK's threads wait for each other
on a busy machine, for much longer than they work.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import add_first_of_row, dot_of_first

NEGLIGIBLE = 1e-12
"""Smallest ridge, as a share of a bound of the largest eigenvalue: without one, the matrix may be singular."""

UNDERFLOW = 1e-280
"""Sum of squares below which a row counts as tridiagonal: its reciprocal would not be finite."""


def along_ridges(matrix: np.ndarray, vector: np.ndarray, ridges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ``½ x' A x - v' x + ½ ridge x' x`` for several ridges.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), float64
        A, symmetric and positive semidefinite.
    vector : ndarray of shape (n,), float64
        v, in the range of A.
    ridges : ndarray of shape (n_ridges,), float64
        Non-negative.

    Returns
    -------
    falls : ndarray of shape (n_ridges,)
        ``v' x - ½ x' A x`` at the minima.
    freedom : ndarray of shape (n_ridges,)
        Degrees of freedom, the trace of ``A (A + ridge I)⁻¹``.
    """
    found = np.zeros((2, len(ridges)))
    if len(vector):
        work = np.array(matrix, dtype=np.float64, order="C")
        _along_ridges(work, np.array(vector, dtype=np.float64), np.asarray(ridges, dtype=np.float64), found)
    return found[0], found[1]


@kernel
def _along_ridges(matrix, vector, ridges, found):  # type: ignore[no-untyped-def]
    n = vector.shape[0]
    diagonal, beside = np.empty(n), np.zeros(n)
    _tridiagonalise(matrix, vector, diagonal, beside)
    largest = 0.0  # by Gershgorin's theorem
    for k in range(n):
        largest = max(largest, diagonal[k] + abs(beside[k]) + (abs(beside[k - 1]) if k > 0 else 0.0))
    pivots, solution = np.empty(n), np.empty(n)
    for r in range(ridges.shape[0]):
        ridge = max(ridges[r], NEGLIGIBLE * largest, 1e-300)
        for k in range(n):  # eliminate what is below the diagonal
            pivots[k], solution[k] = diagonal[k] + ridge, vector[k]
            if k > 0:
                share = beside[k - 1] / pivots[k - 1]
                pivots[k] = max(pivots[k] - share * beside[k - 1], 0.5 * ridge)
                solution[k] -= share * solution[k - 1]
        product, square, trace, back = 0.0, 0.0, 0.0, 0.0
        for k in range(n - 1, -1, -1):  # what is above it, with the pivots of an elimination from below
            above = diagonal[k] + ridge
            if k + 1 < n:
                solution[k] -= beside[k] * solution[k + 1]
                back = max(above - beside[k] * beside[k] / back, 0.5 * ridge)
            else:
                back = above
            solution[k] /= pivots[k]
            product += vector[k] * solution[k]
            square += solution[k] * solution[k]
            trace += 1.0 / (pivots[k] + back - above)
        found[0, r] = 0.5 * (product + ridge * square)
        found[1, r] = n - ridge * trace


@kernel
def _tridiagonalise(matrix, vector, diagonal, beside):  # type: ignore[no-untyped-def]
    """Reflect matrix and vector, both overwritten; write the diagonal and what is beside it (the last is 0)."""
    n = matrix.shape[0]
    image = np.empty(n)
    for k in range(n):
        if is_stopped():
            break
        diagonal[k] = matrix[k, k]
        if k + 1 == n:
            break
        v, length = matrix[k, k + 1 :], n - k - 1
        rest = dot_of_first(v[1:], v[1:], length - 1)
        beside[k] = v[0]
        if rest < UNDERFLOW:
            continue
        beside[k] = -math.copysign(math.sqrt(v[0] * v[0] + rest), v[0])
        v[0] -= beside[k]
        double = 2.0 / (v[0] * v[0] + rest)
        for i in range(length):
            image[i] = double * dot_of_first(matrix[k + 1 + i, k + 1 :], v, length)
        half = 0.5 * double * dot_of_first(v, image, length)
        for i in range(length):
            image[i] -= half * v[i]
        for i in range(length):
            _subtract_two(v[i], image, image[i], v, matrix[k + 1 + i, k + 1 :], length)
        add_first_of_row(
            matrix[k : k + 1, k + 1 :], 0, -double * dot_of_first(v, vector[k + 1 :], length), vector[k + 1 :], length
        )


@inner_loop
def _subtract_two(first, one, second, other, out, length):  # type: ignore[no-untyped-def]
    for i in range(length):
        out[i] -= first * one[i] + second * other[i]
