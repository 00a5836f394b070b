"""Hard thresholding with full gradients of the squared loss on dense rows in memory: IHT, ITI, PHT, and MISSION.

All minimise ½ ‖y - X β‖² over β with k nonzero elements, for `n_steps` steps, and return the k columns. r = y - X β.

IHT      β = H_k(β + η Xᵀr)                                      (Blumensath and Davies 2009)
ITI      S = the k largest of β + η Xᵀr; β = least squares on S  (Maleki 2009)
PHT      the l columns with the largest |Xᵀr| outside S compete with S by the sizes of β + η Xᵀr;
         β = least squares on S (Jain, Tewari and Dhillon 2017)
MISSION  z += η Xᵀr, in a count-sketch or exactly; β = H_k(z); outside the k largest, z is multiplied by a factor that
         decreases from 1 to `last_factor` (section 5.1 and the appendix of Aghazadeh et al. 2018)
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.linalg import factorise, solve_cholesky
from daskfs.kernels.sketch.count_sketch import hash_word, updated

IHT, ITI, PHT = range(3)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
RIDGE = 1e-9


@kernel
def k_largest(values, k, chosen):  # type: ignore[no-untyped-def]
    """Write the positions of the k largest absolute values, largest first; ties by lower position."""
    n = 0
    for j in range(values.shape[0]):
        size = abs(values[j])
        if n == k and not size > abs(values[chosen[k - 1]]):
            continue
        at = min(n, k - 1)
        while at > 0 and abs(values[chosen[at - 1]]) < size:
            chosen[at] = chosen[at - 1]
            at -= 1
        chosen[at] = j
        n = min(n + 1, k)


@inner_loop
def _residuals(X, y, chosen, coef, residual):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        residual[i] = y[i]
        for q in range(chosen.shape[0]):
            residual[i] -= X[i, chosen[q]] * coef[q]


@inner_loop
def _gradient(X, residual, gradient):  # type: ignore[no-untyped-def]
    gradient[:] = 0.0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            gradient[j] += residual[i] * X[i, j]


@kernel
def _least_squares(X, y, chosen, coef):  # type: ignore[no-untyped-def]
    k = chosen.shape[0]
    gram, factor, right = np.empty((k, k)), np.empty((k, k)), np.empty(k)
    for a in range(k):
        for b in range(a + 1):
            if is_stopped():
                break
            total = 0.0
            for i in range(X.shape[0]):
                total += X[i, chosen[a]] * X[i, chosen[b]]
            gram[a, b], gram[b, a] = total, total
        right[a] = 0.0
        for i in range(X.shape[0]):
            right[a] += X[i, chosen[a]] * y[i]
    factorise(gram, k, RIDGE, factor)
    solve_cholesky(factor, k, right, coef)


@kernel
def threshold(X, y, k, method, step, n_steps, n_swaps):  # type: ignore[no-untyped-def]
    """Run IHT, ITI or PHT.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float64
    y : ndarray of shape (n_samples,), float64
    k : int
    method : int
        IHT, ITI or PHT.
    step : float
        η.
    n_steps : int
    n_swaps : int
        l, for PHT.

    Returns
    -------
    chosen : ndarray of shape (k,), int64
    coef : ndarray of shape (k,), float64
        Not finite if the steps diverged.
    """
    n_samples, n_features = X.shape
    chosen, coef = np.arange(k), np.zeros(k)
    residual, gradient, moved = np.empty(n_samples), np.empty(n_features), np.empty(n_features)
    outside = np.empty(n_features)
    newcomers = np.empty(n_swaps, np.int64)
    for _ in range(n_steps):
        if is_stopped():
            break
        _residuals(X, y, chosen, coef, residual)
        _gradient(X, residual, gradient)
        if method == PHT:
            outside[:] = gradient
            outside[chosen] = 0.0
            k_largest(outside, n_swaps, newcomers)
            moved[:] = 0.0
            moved[newcomers] = step * gradient[newcomers]
            moved[chosen] = coef + step * gradient[chosen]
        else:
            moved[:] = step * gradient
            for q in range(k):
                moved[chosen[q]] += coef[q]
        k_largest(moved, k, chosen)
        if method == IHT:
            coef[:] = moved[chosen]
        else:
            _least_squares(X, y, chosen, coef)
        if not math.isfinite(coef[0]) or abs(coef[0]) > 1e100:
            coef[:] = np.nan
            break
    return chosen, coef


@kernel
def accumulate(X, y, k, step, n_steps, last_factor, n_buckets, rows, seed):  # type: ignore[no-untyped-def]
    """Run MISSION with full gradients.

    Parameters
    ----------
    X, y, k, step, n_steps : see `threshold`
    last_factor : float
        Factor of the features outside the k largest after the last step; 1 leaves them unchanged.
    n_buckets, rows, seed : the sketch, see `count_sketch.add`; ``rows = ()`` with as many buckets as columns

    Returns
    -------
    chosen, coef : see `threshold`
    """
    n_samples, n_features = X.shape
    chosen, coef = np.arange(k), np.zeros(k)
    residual, gradient, z = np.empty(n_samples), np.empty(n_features), np.zeros(n_features)
    cells = np.zeros(max(len(rows), 1) * int(n_buckets), np.float32)
    words = np.empty(n_features, np.uint64)
    for j in range(n_features):
        words[j] = hash_word(np.uint64(j), seed, rows)
    for t in range(n_steps):
        if is_stopped():
            break
        _residuals(X, y, chosen, coef, residual)
        _gradient(X, residual, gradient)
        for j in range(n_features):
            updated(cells, _ONE, _ZERO, n_buckets, rows, words[j], np.float32(step * gradient[j]))
        for j in range(n_features):
            z[j] = updated(cells, _ONE, _ZERO, n_buckets, rows, words[j], np.float32(0.0))
        k_largest(z, k, chosen)
        coef[:] = z[chosen]
        if not math.isfinite(coef[0]) or abs(coef[0]) > 1e30:
            coef[:] = np.nan
            break
        factor = 1.0 - (1.0 - last_factor) * (t + 1) / n_steps
        if factor < 1.0:
            for i in range(cells.shape[0]):
                cells[i] *= np.float32(factor)
            for q in range(k):  # the sketch is linear: add back what the chosen columns have lost
                updated(cells, _ONE, _ZERO, n_buckets, rows, words[chosen[q]], np.float32((1.0 - factor) * coef[q]))
    return chosen, coef
