"""Compiles what FGM runs."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.fgm.apg import descend
from daskfs.kernels.fgm.grouped_columns import Groups
from daskfs.kernels.fgm.mkl import alternate
from daskfs.kernels.fgm.scores import (
    GRANULE,
    column_sums,
    flattened,
    scores_of,
    sparse_column_sums,
    sparse_scores,
)
from daskfs.kernels.fgm.shift import new_rows
from daskfs.kernels.losses import SQUARED_HINGE


def warm_up_fgm(dtype: type) -> None:
    """Run every kernel of FGM on a few rows, for columns of a type, dense and sparse, and, with float32, of int8."""
    X = np.array([[1.0, 2.0], [2.0, 0.0], [0.0, 1.0], [4.0, 5.0]])
    y, share = np.array([1.0, -1.0, -1.0, 1.0]), np.ones(4)
    rows = new_rows(SQUARED_HINGE, y, share)
    groups = Groups(X.T.astype(dtype), np.zeros(2), np.ones(2), np.arange(2), np.array([0, 1, 2]))
    end = descend(groups, rows, np.zeros(2), 0.0, 1.0, fit_intercept=True, tol=1e-3, max_iter=3, n_kept=1)
    alternate(groups, rows, end.coef, 0.0, fit_intercept=True, tol=1e-3, max_iter=3)
    for kind in (dtype, np.int8) if dtype == np.float32 else (dtype,):
        block: np.ndarray = np.ones((GRANULE, 2), kind)
        scores_of(block, np.ones(GRANULE), np.zeros(2))
        flat, stride = flattened(block)
        column_sums(flat, stride, *block.shape, np.ones(GRANULE), *np.zeros((4, 2)))
        starts, entry = np.array([0, 1], np.int32), np.zeros(1, np.int32)
        sparse_scores(starts, entry, np.ones(1, kind), np.ones(1, dtype), np.zeros(1, np.int64), np.zeros(1))
        sparse_column_sums(starts, entry, np.ones(1, kind), np.ones(1), *np.zeros((4, 1)))
