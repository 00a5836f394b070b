"""Screening of sparse candidates from their entries alone: the columns excluded need not be made dense.

For a column x with mean μ and scale σ, z = (x - μ) / σ, members Z, row curvatures D, A = Zᵀ D 1, T = Σ D and N = Σ
weights, everything that `daskfs.kernels.substitution.exchange` needs of z is a sum over the entries of x:

    Zᵀ D z = (Zᵀ D x - A Σ D x / T) / σ                        centred by D; (Zᵀ D x) / σ without centring
    zᵀ r   = (xᵀ r - μ Σ r) / σ                                 r minus the derivative of each row's loss

These sums have another order than those over the columns. A margin for rounding keeps the verdicts safe: a column that
is excluded would not have entered, and a column close to entering is examined like any other. Columns with one entry in
the same row are equal when standardised. Texts have many of them, so each row is judged once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import dot_of_first

UNUSABLE, PASSED, COLLINEAR, OPEN = range(4)
"""Verdicts: a constant column; its gain is too small; the members explain it; it must be examined."""
NEARLY_CONSTANT = 1e-8  # share of the mean square: only the column itself can tell whether it is constant


class State(NamedTuple):
    """The current members, K of them, and the model of `exchange` over them."""

    rows: np.ndarray  # (K, n_samples) the members' values; the standardised ones are (row - offset) · factor
    offset: np.ndarray  # (>= K,)
    factor: np.ndarray  # (>= K,)
    sums: np.ndarray  # (K,) A
    inverse: np.ndarray  # (>= K, >= K) M⁻¹
    coef: np.ndarray  # (>= K,) v
    shift: np.ndarray  # (K,) change of v since the derivative was computed: v then minus v now
    squares: np.ndarray  # (>= K,) diagonal of M without the ridge
    weight: np.ndarray  # (n_samples,) of the samples
    curvature: np.ndarray  # (n_samples,) D
    descent: np.ndarray  # (n_samples,) r


@kernel
def verdicts(indptr, indices, data, state, numbers, verdict):  # type: ignore[no-untyped-def]
    """Judge columns from their entries.

    Parameters
    ----------
    indptr, indices, data : ndarray
        A matrix in column order.
    state : State
    numbers : tuple
        Whether columns are centred, whether scaled, ridge, tolerance, first member that may be dropped, margin.
    verdict : ndarray of shape (n_columns,), int8
        Output.
    """
    rows, sums, shift = state.rows, state.sums, state.shift
    weight, curvature, descent = state.weight, state.curvature, state.descent
    centres, scales, ridge, tolerance, n_fixed, margin = numbers
    k = rows.shape[0]
    h, a = np.zeros(k), np.zeros(k)
    total, curved, fall, power = weight.sum(), curvature.sum(), descent.sum(), (descent * descent).sum()
    of_row = np.full(rows.shape[1], -1, np.int8)
    for j in range(verdict.shape[0]):
        if is_stopped():
            break
        is_single = scales and indptr[j + 1] - indptr[j] == 1 and data[indptr[j]] != 0.0
        if is_single and of_row[indices[indptr[j]]] >= 0:
            verdict[j] = of_row[indices[indptr[j]]]
            continue
        mean = square = bent = bent_square = gradient = 0.0
        h[:] = 0.0
        for q in range(indptr[j], indptr[j + 1]):
            i, x = indices[q], float(data[q])
            mean += weight[i] * x
            square += weight[i] * x * x
            d = curvature[i] * x
            bent += d
            bent_square += d * x
            gradient += descent[i] * x
            for m in range(k):
                h[m] += d * rows[m, i]
        mean, square = mean / total, square / total
        if square == 0.0:
            verdict[j] = UNUSABLE
            continue
        variance = square
        if centres:
            variance -= mean * mean
        if not (math.isfinite(variance) and variance > NEARLY_CONSTANT * square and variance > 1e-200):
            verdict[j] = OPEN
            continue
        scale = math.sqrt(variance) if scales else 1.0
        for m in range(k):
            h[m] = (h[m] - state.offset[m] * bent) * state.factor[m]
        if centres:
            gradient -= mean * fall
            bent_square -= bent * bent / curved  # centring by D makes x - μ and x equal here
            for m in range(k):
                h[m] -= sums[m] * bent / curved
        for m in range(k):
            h[m] /= scale * total
        own = bent_square / (scale * scale * total)
        gradient = gradient / (scale * total) + dot_of_first(h, shift, k)
        verdict[j] = _judge(h, a, gradient, own, power / total, state, ridge, tolerance, n_fixed, margin)
        if is_single:
            of_row[indices[indptr[j]]] = verdict[j]


@kernel
def _judge(h, a, gradient, own, power, state, ridge, tolerance, n_fixed, margin):  # type: ignore[no-untyped-def]
    """Return the verdict of `exchange`, or `OPEN` if rounding could change it."""
    inverse, coef, squares = state.inverse, state.coef, state.squares
    k = h.shape[0]
    if not own > 0.0:
        return OPEN
    if ridge > 0.0:
        likeness = 0.0
        for m in range(k):
            likeness = max(likeness, h[m] * h[m] / (own * squares[m]) if squares[m] > 0.0 else 1.0)
        if likeness > 1.0 - tolerance - margin:
            return COLLINEAR if likeness > 1.0 - tolerance + margin else OPEN
    diagonal = own + ridge
    for m in range(k):
        a[m] = dot_of_first(inverse[m], h, k)
    pivot = diagonal - dot_of_first(h, a, k)
    if pivot < (tolerance + margin) * diagonal:
        return COLLINEAR if pivot < (tolerance - margin) * diagonal else OPEN
    size = abs(gradient) + margin * math.sqrt(own * power)
    gain = 0.5 * size * size / pivot * (1.0 + margin)
    newcomer = gradient / pivot
    for m in range(n_fixed, k):
        value = abs(coef[m] - a[m] * newcomer) - margin * (abs(coef[m]) + abs(a[m]) * size / pivot)
        if value <= 0.0 or 0.5 * value * value / (inverse[m, m] + a[m] * a[m] / pivot) < gain:
            return OPEN
    return PASSED
