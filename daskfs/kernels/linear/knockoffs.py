"""Gaussian knockoffs: their distance from the columns, and their values from the columns and noise.

For standardised columns z with correlations C, knockoffs are z (I - C⁻¹S) + e Lᵀ with independent normal e and L Lᵀ =
2S - S C⁻¹S (Candes, Fan, Janson, Lv 2018: Panning for gold, section 3.1). The noise is a function of the row's and the
column's number, so any part of the knockoffs can be recomputed at any time and place.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import dot, dot_of_first
from daskfs.kernels.linear.gram_tiles import BAND_ROWS, add_products, fill_band, padded
from daskfs.kernels.linear.linalg import factorise, invert

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)


@kernel
def mixed(word):  # type: ignore[no-untyped-def]
    """Return splitmix64's hash of a word."""
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


@kernel
def normal_quantile(u):  # type: ignore[no-untyped-def]
    """Return the standard normal quantile: M. J. Wichura (1988), algorithm AS 241, to 1 part in 10^16."""
    q = u - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return q * (((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r
            + 4.5921953931549871457e4) * r + 1.3731693765509461125e4) * r + 1.9715909503065514427e3) * r
            + 1.3314166789178437745e2) * r + 3.3871328727963666080e0) / (((((((5.2264952788528545610e3 * r
            + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r + 2.1213794301586595867e4) * r
            + 5.3941960214247511077e3) * r + 6.8718700749205790830e2) * r + 4.2313330701600911252e1) * r
            + 1.0)  # fmt: skip
    r = math.sqrt(-math.log(min(u, 1.0 - u)))
    if r <= 5.0:
        r -= 1.6
        size = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r
            + 1.27045825245236838258e0) * r + 3.64784832476320460504e0) * r + 5.76949722146069140550e0) * r
            + 4.63033784615654529590e0) * r + 1.42343711074968357734e0) / (((((((1.05075007164441684324e-9 * r
            + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r + 1.48103976427480074590e-1) * r
            + 6.89767334985100004550e-1) * r + 1.67638483018380384940e0) * r + 2.05319162663775882187e0) * r
            + 1.0)  # fmt: skip
    else:
        r -= 5.0
        size = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 1.24266094738807843860e-3) * r
            + 2.65321895265761230930e-2) * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580e0) * r
            + 5.46378491116411436990e0) * r + 6.65790464350110377720e0) / (((((((2.04426310338993978564e-15 * r
            + 1.42151175831644588870e-7) * r + 1.84631831751005468180e-5) * r + 7.86869131145613259100e-4) * r
            + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r + 5.99832206555887937690e-1) * r
            + 1.0)  # fmt: skip
    return size if q > 0.0 else -size


@kernel
def noise(key, row, column):  # type: ignore[no-untyped-def]
    """Return the standard normal noise of a row and a column; all arguments are uint64."""
    word = mixed(mixed(key + _GOLDEN * (column + np.uint64(1))) + _GOLDEN * (row + np.uint64(1)))
    return normal_quantile((np.float64(word >> _S11) + 0.5) * 2.0**-53)


@kernel
def add_sums(X, weight, origin, sums):  # type: ignore[no-untyped-def]
    """Add the weighted products of all pairs of shifted columns, and their sums in the last column.

    Pieces whose number of rows is a multiple of `BAND_ROWS` give bit-identical sums, however many there are.

    Parameters
    ----------
    X : ndarray of shape (n_rows, w), float32 or float64, C-ordered
    weight : ndarray of shape (n_rows,), float64
    origin : ndarray of shape (w,), float64
    sums : ndarray of shape (padded(w + 2), padded(w + 2)), float64
        Pairs a <= b; column w + 1 is the ones.
    """
    rows = np.arange(X.shape[0])
    columns = np.zeros((padded(X.shape[1] + 2), BAND_ROWS))
    for start in range(0, X.shape[0], BAND_ROWS):
        if is_stopped():
            break
        fill_band(X, weight, weight, 0.0, origin, rows[start : start + BAND_ROWS], columns)
        columns[X.shape[1]] = 0.0
        add_products(columns, sums)


@inner_loop
def _add_scaled(factor, vector, out):  # type: ignore[no-untyped-def]
    for i in range(vector.shape[0]):
        out[i] += factor * vector[i]


@kernel
def add_product(left, right, out):  # type: ignore[no-untyped-def]
    """Add a matrix product to `out`, with a fixed order of summation.

    Parameters
    ----------
    left : ndarray of shape (n, w), float64
    right : ndarray of shape (w, q), float64, C-ordered
    out : ndarray of shape (n, q), float64, C-ordered
    """
    for i in range(left.shape[0]):
        if i % 256 == 0 and is_stopped():
            break
        for j in range(left.shape[1]):
            _add_scaled(left[i, j], right[j], out[i])


@kernel
def minimum_variance(correlation, tol, max_sweeps):  # type: ignore[no-untyped-def]
    """Return the diagonal S that minimises tr (2C - S)⁻¹ + tr S⁻¹, by coordinate descent.

    A. Spector, L. Janson (2022): Powerful knockoffs via minimizing reconstructability. Ann. Stat. 50, 252-276:
    minimum variance-based reconstructability, algorithm 1.

    Parameters
    ----------
    correlation : ndarray of shape (w, w), float64
        Positive definite.
    tol : float
        The last sweep changes no entry by more than this.
    max_sweeps : int
    """
    w = correlation.shape[0]
    s, inverse = np.zeros(w), np.zeros((w, w))
    for _ in range(max_sweeps):
        gap = 2.0 * correlation
        for j in range(w):
            gap[j, j] -= s[j]
        if is_stopped() or not invert(gap, inverse):  # recomputed: rank-one updates accumulate rounding errors
            break
        largest = 0.0
        for j in range(w):
            if is_stopped():
                break
            of_j = inverse[j].copy()
            root = math.sqrt(dot(of_j, of_j))
            step = (1.0 - root * s[j]) / (of_j[j] + root)
            change = step / (1.0 - step * of_j[j])
            for i in range(w):
                _add_scaled(change * of_j[i], of_j, inverse[i])
            s[j] += step
            largest = max(largest, abs(step))
        if largest <= tol:
            break
    return s


@kernel
def smallest_eigenvalue(matrix, metric, n_steps):  # type: ignore[no-untyped-def]
    """Return an upper bound of the smallest generalised eigenvalue of two positive definite matrices."""
    w = matrix.shape[0]
    inverse = np.zeros((w, w))
    if not invert(matrix, inverse):
        return 0.0
    vector, image = np.empty(w), np.empty(w)
    for i in range(w):
        vector[i] = 1.0 + 0.5 * math.cos(1.7 * i)
    size = 1.0
    for _ in range(n_steps):
        if is_stopped():
            break
        for i in range(w):
            image[i] = dot(metric[i], vector)
        for i in range(w):
            vector[i] = dot(inverse[i], image)
        size = math.sqrt(dot(vector, vector))
        for i in range(w):
            vector[i] /= size
    return 1.0 / size


@kernel
def transform_of(correlation, distance, out):  # type: ignore[no-untyped-def]
    """Write (I - C⁻¹S)ᵀ and L side by side: row c gives knockoff c from the columns and noise.

    Parameters
    ----------
    correlation : ndarray of shape (w, w), float64
    distance : ndarray of shape (w, w), float64
        S, symmetric.
    out : ndarray of shape (w, 2w), float64

    Returns
    -------
    bool
        Whether 2S - S C⁻¹S is positive semidefinite. Otherwise `out` is invalid.
    """
    w = correlation.shape[0]
    inverse, product, left = np.zeros((w, w)), np.empty((w, w)), np.empty((w, w))
    if not invert(correlation, inverse):
        return False
    for c in range(w):
        if is_stopped():
            return False
        for j in range(w):
            product[c, j] = dot(distance[c], inverse[j])  # S C⁻¹
    for c in range(w):
        if is_stopped():
            return False
        for j in range(w):
            out[c, j] = (1.0 if c == j else 0.0) - product[c, j]
            left[c, j] = 2.0 * distance[c, j] - dot(product[c], distance[j])
    for c in range(w):
        for j in range(c):
            left[c, j] = 0.5 * (left[c, j] + left[j, c])
    factor = np.zeros((w, w))
    factorise(left, w, 0.0, factor)
    out[:, w:] = factor
    for c in range(w):
        if left[c, c] < -1e-9:
            return False
        row = left[c, c] - dot_of_first(factor[c], factor[c], c + 1)
        if abs(row) > 1e-7:  # a negative pivot
            return False
    return True


@kernel
def make_knockoffs(X, rows, features, mean, scale, transform, key, wanted, out):  # type: ignore[no-untyped-def]
    """Write the knockoffs of some columns of a block.

    Parameters
    ----------
    X : ndarray of shape (n_rows, w)
        All columns of the block.
    rows : ndarray of shape (n_rows,), uint64
        Row numbers that determine the noise.
    features : ndarray of shape (w,), uint64
        Column numbers that determine the noise.
    mean, scale : ndarray of shape (w,), float64
    transform : ndarray of shape (w, 2w), float64
        From `transform_of`.
    key : uint64
        Key of the random draw.
    wanted : ndarray of shape (k,), int64
        Columns of the block.
    out : ndarray of shape (n_rows, k), float64
    """
    w = X.shape[1]
    given = np.empty(2 * w)
    for i in range(X.shape[0]):
        if is_stopped():
            break
        for j in range(w):
            given[j] = (X[i, j] - mean[j]) / scale[j] if scale[j] > 0.0 else 0.0
            given[w + j] = noise(key, rows[i], features[j])
        for c in range(wanted.shape[0]):
            j = wanted[c]
            out[i, c] = mean[j] + scale[j] * dot(transform[j], given)
