"""Convert entries from column order to row order."""

from __future__ import annotations

from daskfs.kernels.jit import kernel


@kernel
def place_by_rows(rows, columns, data, start, cursors, features, values):  # type: ignore[no-untyped-def]
    """Write the entries of some rows to their positions.

    If entries are passed in column order, columns ascend in each row.

    Parameters
    ----------
    rows, columns, data : ndarray of shape (n,)
        Row, column and value of each entry.
    start : int
        Number of the first row.
    cursors : ndarray of shape (n_rows,), int64
        Position of the next entry of each row; updated.
    features, values : ndarray
        Output.
    """
    for e in range(rows.shape[0]):
        i = rows[e] - start
        features[cursors[i]] = columns[e]
        values[cursors[i]] = data[e]
        cursors[i] += 1
