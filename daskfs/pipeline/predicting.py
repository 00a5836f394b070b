"""Predictions of test rows in blocks, on workers or locally. Workers import this module, so it imports little."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.matrix.buffers import block_length
from daskfs.selectors.predictor import LinearPredictor
from daskfs.selectors.shared.run import Run

BLOCK_NBYTES = 8 * 2**20
"""Size of a block of rows of the selected columns, so that it and its double-precision copy stay small."""
ENTRY_NBYTES = 40
"""Memory per entry of a sparse store, including its position among the selected columns."""


class PredictedRows(NamedTuple):
    """Rows that one task predicts."""

    name: str
    rows: Rows
    """Rows of the matrix that is sent to the task."""


def linear_predictor(predictor: LinearPredictor, run: Run) -> np.ndarray:
    """Return the linear predictor of every row of a run's matrix. Only the columns it needs are read.

    The blocks depend only on the matrix, so the result is bit-identical for any cluster.

    Returns
    -------
    ndarray of shape (n_samples,), or (n_samples, n_classes) with more than two classes
    """
    found = np.full((run.matrix.shape[0], *np.shape(predictor.intercept)), predictor.intercept, dtype=np.float64)
    bounds = _bounds(run.matrix, len(predictor.columns))
    parts = [PredictedRows(f"{start}", run.rows(start, stop)) for start, stop in pairwise(bounds)]
    with run:
        for k, prediction in run.each("", predict_rows, parts if len(predictor.columns) else [], predictor):
            found[bounds[k] : bounds[k + 1]] += prediction
    return found


def _bounds(matrix: Matrix, n_columns: int) -> list[int]:
    """Return the bounds of the blocks of rows."""
    n_samples, counts = matrix.shape[0], matrix.entry_counts(slice(None))
    if counts is None:
        row_nbytes = n_columns * matrix.dtype.itemsize
        length = block_length(n_samples, row_nbytes, matrix.tile_shape[0], BLOCK_NBYTES, 2, "row")
        return [*range(0, n_samples, length), n_samples]
    ends, bounds = np.cumsum(counts) * ENTRY_NBYTES, [0]
    while bounds[-1] < n_samples:
        most = (ends[bounds[-1] - 1] if bounds[-1] else 0) + BLOCK_NBYTES
        bounds.append(max(bounds[-1] + 1, int(np.searchsorted(ends, most, side="right"))))
    return bounds


def predict_rows(matrix: Matrix, predictor: LinearPredictor, part: PredictedRows) -> np.ndarray:
    """Return the linear predictor of some rows, without its intercept."""
    found = matrix.sparse_rows(part.rows)
    if found is None:
        X = np.ascontiguousarray(matrix.read(part.rows, predictor.columns), dtype=np.float64)
        return np.asarray(predictor.without_intercept(X))
    place = np.full(matrix.shape[1], -1, np.int32)
    place[predictor.columns] = np.arange(len(predictor.columns))
    n_rows, places = len(found.indptr) - 1, place[found.indices]
    is_wanted = places >= 0
    rows = np.repeat(np.arange(n_rows), np.diff(found.indptr))[is_wanted]
    columns, values = places[is_wanted], found.data[is_wanted].astype(np.float64)
    return predictor.of_entries(rows, columns, values, n_rows)
