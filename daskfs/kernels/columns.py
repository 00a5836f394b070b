"""Columns of a row block: sums over them without a copy, and standardised copies of a few of them.

A copied column stands in a row of its own, so that it is contiguous.
"""

from __future__ import annotations

from daskfs.kernels.numba_cache import inner_loop, kernel

PANEL_COLUMNS = 1024  # sums and means of a panel stay in the first-level cache


@inner_loop
def dot(a, b):  # type: ignore[no-untyped-def]
    """Return Σ a_i b_i."""
    total = 0.0
    for i in range(b.shape[0]):
        total += a[i] * b[i]
    return total


@inner_loop
def dots(a0, a1, b):  # type: ignore[no-untyped-def]
    """Return Σ a0_i b_i and Σ a1_i b_i: three loads where four would be."""
    total0, total1 = 0.0, 0.0
    for i in range(b.shape[0]):
        total0 += a0[i] * b[i]
        total1 += a1[i] * b[i]
    return total0, total1


@inner_loop
def sum_of(a):  # type: ignore[no-untyped-def]
    """Return Σ a_i."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i]
    return total


@inner_loop
def add_multiple(a, factor, out):  # type: ignore[no-untyped-def]
    """Add ``factor * a`` to `out`."""
    for i in range(out.shape[0]):
        out[i] += factor * a[i]


@inner_loop
def add_four_multiples(a, b, c, d, factor_a, factor_b, factor_c, factor_d, out):  # type: ignore[no-untyped-def]
    """Add four multiples to `out`."""
    for i in range(out.shape[0]):
        out[i] += (factor_a * a[i] + factor_b * b[i]) + (factor_c * c[i] + factor_d * d[i])


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


@inner_loop
def _add_four_rows(row0, row1, row2, row3, factor0, factor1, factor2, factor3, centre, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[0]):
        c = centre[j]
        out[j] += (factor0 * (row0[j] - c) + factor1 * (row1[j] - c)) + (
            factor2 * (row2[j] - c) + factor3 * (row3[j] - c)
        )


@inner_loop
def _add_row(row, factor, centre, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[0]):
        out[j] += factor * (row[j] - centre[j])
