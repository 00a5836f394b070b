"""The share of zeros of a matrix, stored or not."""

from __future__ import annotations

import numpy as np

from daskfs.matrix.base import Matrix


def share_of_zeros(matrix: Matrix, rows: slice) -> float:
    """Return the share of zeros among the values of some rows."""
    entries = matrix.sparse_rows(rows)
    n_others = np.count_nonzero(matrix.read(rows) if entries is None else entries.data)
    n_rows = len(range(*rows.indices(matrix.shape[0])))
    return 1.0 - float(n_others) / (n_rows * matrix.shape[1])
