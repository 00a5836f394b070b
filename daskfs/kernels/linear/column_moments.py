"""Sums, extremes and squared deviations of columns, in two sweeps over rows that stay in the CPU's cache."""

from __future__ import annotations

from daskfs.kernels.jit import kernel


@kernel
def sums_and_extremes(block, sums, least, most):  # type: ignore[no-untyped-def]
    """Add rows to column sums, one at a time, and update the extremes. No value may be NaN.

    Parameters
    ----------
    block : ndarray of shape (n_rows, n_features), C-contiguous
    sums : float64 array of shape (n_features,)
        Initially zero.
    least, most : ndarray of shape (n_features,), of the dtype of `block`
        Initially the first row.
    """
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            value = block[i, j]
            sums[j] += value
            least[j] = least[j] if least[j] < value else value
            most[j] = most[j] if most[j] > value else value


@kernel
def squares_about(block, mean, squares):  # type: ignore[no-untyped-def]
    """Add the squared distances of rows from `mean` to `squares`, of shape (n_features,)."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            distance = block[i, j] - mean[j]
            squares[j] += distance * distance
