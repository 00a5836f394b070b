"""How many values of a matrix are nought, whether it keeps them or not."""

from __future__ import annotations

import numpy as np

from daskfs.matrix.base import Matrix


def share_of_zeros(matrix: Matrix, rows: slice) -> float:
    """Return the share of the values of some rows that are nought."""
    entries = matrix.sparse_rows(rows)
    n_others = np.count_nonzero(matrix.read(rows) if entries is None else entries.data)
    n_rows = len(range(*rows.indices(matrix.shape[0])))
    return 1.0 - float(n_others) / (n_rows * matrix.shape[1])
