"""Columns of a row block: sums over them without a copy, and standardised copies of a few of them.

Sums over rows are made in one fixed order that vectorises without leave to reorder: four quarters are added to each
other, and again, until few numbers remain. A copied column stands in a row of its own, so that it is contiguous.
"""

from __future__ import annotations

from daskfs.kernels.numba_cache import kernel

PANEL_COLUMNS = 1024  # sums and means of a panel stay in the first-level cache


@kernel
def dot(a, b, scratch):  # type: ignore[no-untyped-def]
    """Return Σ a_i b_i.

    Parameters
    ----------
    a, b : ndarray of shape (n,), float64
    scratch : ndarray of shape (>= n // 4,), float64
        To work in.
    """
    n = a.shape[0]
    q = n // 4
    _products(a[:q], a[q : 2 * q], a[2 * q : 3 * q], a[3 * q : 4 * q], b, scratch[:q])
    total = 0.0
    for i in range(4 * q, n):
        total += a[i] * b[i]
    return total + fold(scratch[:q])


@kernel
def _products(a0, a1, a2, a3, b, out):  # type: ignore[no-untyped-def]
    q = out.shape[0]
    b0, b1, b2, b3 = b[:q], b[q : 2 * q], b[2 * q : 3 * q], b[3 * q : 4 * q]
    for i in range(q):
        out[i] = (a0[i] * b0[i] + a1[i] * b1[i]) + (a2[i] * b2[i] + a3[i] * b3[i])


@kernel
def fold(numbers):  # type: ignore[no-untyped-def]
    """Return their sum; they are overwritten."""
    n = numbers.shape[0]
    total = 0.0
    while n >= 16:
        q = n // 4
        for i in range(4 * q, n):
            total += numbers[i]
        _add_three(numbers[:q], numbers[q : 2 * q], numbers[2 * q : 3 * q], numbers[3 * q : 4 * q])
        n = q
    for i in range(n):
        total += numbers[i]
    return total


@kernel
def _add_three(out, a, b, c):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] = (out[i] + a[i]) + (b[i] + c[i])


@kernel
def total_of(a, scratch):  # type: ignore[no-untyped-def]
    """Return Σ a_i; `scratch` has at least n numbers."""
    scratch[: a.shape[0]] = a
    return fold(scratch[: a.shape[0]])


@kernel
def add_multiple(a, factor, out):  # type: ignore[no-untyped-def]
    """Add ``factor * a`` to `out`."""
    for i in range(out.shape[0]):
        out[i] += factor * a[i]


@kernel
def add_multiples(a, b, factor_a, factor_b, out):  # type: ignore[no-untyped-def]
    """Add ``factor_a * a + factor_b * b`` to `out`: one load and store of it where two would be."""
    for i in range(out.shape[0]):
        out[i] += factor_a * a[i] + factor_b * b[i]


@kernel
def copy_columns(X, mean, scale, features, out):  # type: ignore[no-untyped-def]
    """Write the standardised columns `features` of a block into the rows of `out`, in one pass over its rows."""
    for i in range(X.shape[0]):
        for f in range(features.shape[0]):
            out[f, i] = X[i, features[f]]
    for f in range(features.shape[0]):
        _standardise(mean[features[f]], 1.0 / scale[features[f]], out[f])


@kernel
def _standardise(mean, inverse, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] = (out[i] - mean) * inverse


@kernel
def products_with_columns(X, mean, scale, vector, out):  # type: ignore[no-untyped-def]
    """Write Σ_i vector_i z_ij for every standardised column j, in one pass over the block; 0 at constant columns.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    mean, scale : ndarray of shape (n_features,), float64
    vector : ndarray of shape (n_samples,), float64
    out : ndarray of shape (n_features,), float64
    """
    n_samples, n_features = X.shape
    out[:] = 0.0
    for left in range(0, n_features, PANEL_COLUMNS):
        right = min(left + PANEL_COLUMNS, n_features)
        centre, sums = mean[left:right], out[left:right]
        for i in range(0, n_samples - 3, 4):
            _add_four_rows(
                X[i, left:right], X[i + 1, left:right], X[i + 2, left:right], X[i + 3, left:right],
                vector[i], vector[i + 1], vector[i + 2], vector[i + 3], centre, sums,
            )  # fmt: skip
        for i in range(n_samples - n_samples % 4, n_samples):
            _add_row(X[i, left:right], vector[i], centre, sums)
    for j in range(n_features):
        out[j] = out[j] / scale[j] if scale[j] > 0.0 else 0.0


@kernel
def _add_four_rows(row0, row1, row2, row3, factor0, factor1, factor2, factor3, centre, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[0]):
        c = centre[j]
        out[j] += (factor0 * (row0[j] - c) + factor1 * (row1[j] - c)) + (
            factor2 * (row2[j] - c) + factor3 * (row3[j] - c)
        )


@kernel
def _add_row(row, factor, centre, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[0]):
        out[j] += factor * (row[j] - centre[j])
