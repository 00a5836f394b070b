"""Sums, extremes and squares about the mean of columns, in two sweeps over rows that stay in the cache."""

from __future__ import annotations

from daskfs.kernels.jit import kernel


@kernel
def sums_and_extremes(block, sums, least, most):  # type: ignore[no-untyped-def]
    """Add rows to sums of columns, one after the other, and take them into the extremes; none is NaN.

    Parameters
    ----------
    block : ndarray of shape (n_rows, n_features), C-contiguous
    sums : float64 array of shape (n_features,)
        Zeros.
    least, most : ndarray of shape (n_features,), of the dtype of `block`
        The first row.
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
