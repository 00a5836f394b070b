"""Sums, sums of squares and extremes of columns of int8, exact."""

from __future__ import annotations

from daskfs.kernels.jit import inner_loop, kernel


@kernel
def integer_sums(block, sums, squares, least, most):  # type: ignore[no-untyped-def]
    """Take the rows of a block in.

    Parameters
    ----------
    block : ndarray of shape (n_rows, n_columns), int8
        Of at most 2¹⁶ rows, or the squares would not fit.
    sums, squares : ndarray of shape (n_columns,), int32
        Added to.
    least, most : ndarray of shape (n_columns,), int8
        Updated.
    """
    for i in range(block.shape[0]):
        _take(block[i], sums, squares, least, most)


@inner_loop
def _take(row, sums, squares, least, most):  # type: ignore[no-untyped-def]
    for j in range(row.shape[0]):
        x = row[j]
        wide = int(x)
        sums[j] += wide
        squares[j] += wide * wide
        least[j] = min(least[j], x)
        most[j] = max(most[j], x)
