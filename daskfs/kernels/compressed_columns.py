"""Entries that stand by columns, put in the order of rows."""

from __future__ import annotations

from daskfs.kernels.jit import kernel


@kernel
def place_by_rows(rows, columns, data, start, cursors, features, values):  # type: ignore[no-untyped-def]
    """Put entries of some rows in their places.

    Columns ascend in each row if entries are passed in their order.

    Parameters
    ----------
    rows, columns, data : ndarray of shape (n,)
        Of the entries.
    start : int
        First of the rows.
    cursors : ndarray of shape (n_rows,), int64
        Where the next entry of each row goes; moves on.
    features, values : ndarray
        Written.
    """
    for e in range(rows.shape[0]):
        i = rows[e] - start
        features[cursors[i]] = columns[e]
        values[cursors[i]] = data[e]
        cursors[i] += 1
