"""Transpose rows, as they are read, into columns."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel

SQUARE = 16
"""Number of columns and of rows processed together: their cache lines stay in the L1 cache."""
SPAN = 512
"""Number of values of a column written at once."""


@kernel
def lay_down(rows, columns, out, places, start):  # type: ignore[no-untyped-def]
    """Write ``rows[:, columns[j]]`` to row ``places[j]`` of `out`, starting at `start`.

    Parameters
    ----------
    rows : ndarray of shape (n, n_columns)
    columns : ndarray of shape (B,), int64
    out : ndarray of shape (>= B, >= start + n), of the same dtype, C-ordered
    places : ndarray of shape (B,), int64
    start : int
    """
    n_rows = rows.shape[0]
    picked = np.empty((SQUARE, SPAN), rows.dtype)
    for above in range(0, n_rows, SPAN):
        if is_stopped():
            break
        below = min(above + SPAN, n_rows)
        whole = below - (below - above) % SQUARE
        for first in range(0, columns.shape[0], SQUARE):
            last = min(first + SQUARE, columns.shape[0])
            for top in range(above, whole, SQUARE):
                for j in range(first, last):
                    column = columns[j]
                    for i in range(SQUARE):  # a constant number of iterations
                        picked[j - first, top - above + i] = rows[top + i, column]
            for j in range(first, last):
                for i in range(whole, below):
                    picked[j - first, i - above] = rows[i, columns[j]]
                _copy(picked[j - first, : below - above], out[places[j], start + above : start + below])


@inner_loop
def _copy(line, out):  # type: ignore[no-untyped-def]
    for i in range(line.shape[0]):
        out[i] = line[i]
