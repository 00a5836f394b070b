"""Entries that stand by columns, put in the order of rows."""

from __future__ import annotations

from daskfs.kernels.numba_cache import kernel


@kernel
def place_by_rows(indptr, begin, rows, data, start, cursors, features, values):  # type: ignore[no-untyped-def]
    """Put those of some consecutive entries in their place that belong to some rows.

    Columns ascend in each row, as they are passed in order.

    Parameters
    ----------
    indptr : ndarray of shape (n_features + 1,), int64
        Of the columns.
    begin : int
        Number of the first of the entries.
    rows, data : ndarray of shape (n,)
        Of the entries.
    start : int
        First of the rows that are wanted.
    cursors : ndarray of shape (n_rows,), int64
        Where the next entry of each row goes; moves on.
    features, values : ndarray
        Written.
    """
    j = 0
    low, high = 0, indptr.shape[0] - 1  # the column of the first entry
    while low < high:
        j = (low + high) // 2
        if indptr[j + 1] <= begin:
            low = j + 1
        else:
            high = j
    j = low
    for e in range(rows.shape[0]):
        while begin + e >= indptr[j + 1]:
            j += 1
        i = rows[e] - start
        if 0 <= i < cursors.shape[0]:
            features[cursors[i]] = j
            values[cursors[i]] = data[e]
            cursors[i] += 1
