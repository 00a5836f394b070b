"""Rows of an encoded table as sparse entries."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.text.hashes import NO_ID, sort_ids


@kernel
def gather_entries(ids, values, indptr, features, data):  # type: ignore[no-untyped-def]
    """Collect the entries of rows, sorted by id.

    Parameters
    ----------
    ids : ndarray of shape (n_rows, width), uint64
        `NO_ID` marks missing entries.
    values : ndarray of shape (n_rows, width), float32
        Zeros are left out.
    indptr : ndarray of int64
        Output.
    features, data : ndarray, as long as `ids` has elements
        Output.
    """
    n_rows, width = ids.shape
    spare_ids, spare_data = np.empty(width, np.uint64), np.empty(width, np.float32)
    counts = np.empty(2 * width + 2, np.int64)
    n = 0
    indptr[0] = 0
    for row in range(n_rows):
        if row & 255 == 0 and is_stopped():
            break
        start = n
        for k in range(width):
            if ids[row, k] != NO_ID and values[row, k] != 0.0:
                features[n], data[n] = ids[row, k], values[row, k]
                n += 1
        if n - start > 1:
            n = sort_ids(features, data, start, n, spare_ids, spare_data, counts)
        indptr[row + 1] = n
