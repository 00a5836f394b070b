"""Exact sums, sums of squares and extremes of int8 columns."""

from __future__ import annotations

from daskfs.kernels.jit import inner_loop, kernel


@kernel
def integer_sums(block, sums, squares, least, most):  # type: ignore[no-untyped-def]
    """Add the rows of a block.

    Parameters
    ----------
    block : ndarray of shape (n_rows, n_columns), int8
        At most 2¹⁶ rows; otherwise the squares would overflow.
    sums, squares : ndarray of shape (n_columns,), int32
        Incremented.
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
