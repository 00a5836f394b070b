"""Computations of the refit on columns that are mostly zero, from their entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.kernels.glm.newton import Problem, advance, mean_loss, new_predictions
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.selectors.shared.refit_on_block import Model, RowTerms

ENTRY_NBYTES = 48  # while they are gathered: row, column and value, in pieces, together and as a matrix
FEWEST_COLUMNS, MOST_FILLED = 64, 0.05
"""From so many columns on, and up to this share of entries, sparse columns are kept as entries.

The Hessian then takes the pairs of entries of each row, which are far fewer than the pairs of columns.
"""


def entries_of(matrix: Matrix, columns: np.ndarray, pieces: list[tuple[int, int]], room: int) -> Any:
    """Return selected columns of a sparse matrix as a `scipy.sparse.csr_array`; None if they are few or well filled.

    Parameters
    ----------
    matrix : Matrix
    columns : ndarray of shape (n_columns,), int64
        In any order.
    pieces : list of (start, stop)
        Rows to read at once.
    room : int
        Bytes that the entries may take; otherwise None is returned.

    Raises
    ------
    DataError
        NaN or infinity in a selected column.
    """
    n_samples, n_columns = matrix.shape[0], len(columns)
    if n_columns < FEWEST_COLUMNS or matrix.sparse_rows(slice(0, 0)) is None:
        return None
    from scipy.sparse import coo_array

    order = np.argsort(columns, kind="stable")
    ascending = columns[order].astype(np.uint64)
    most = min(int(MOST_FILLED * n_samples * n_columns), room // ENTRY_NBYTES)
    parts, n_entries = [], 0
    for start, stop in pieces:
        found = matrix.sparse_rows(slice(start, stop))
        assert found is not None
        ids = found.indices.astype(np.uint64, copy=False)
        place = np.minimum(np.searchsorted(ascending, ids), n_columns - 1)
        kept = np.flatnonzero(ascending[place] == ids)
        rows = start + np.repeat(np.arange(stop - start), np.diff(found.indptr))[kept]
        parts.append((rows, order[place[kept]], found.data[kept]))
        bad = np.flatnonzero(~np.isfinite(parts[-1][2]))
        if len(bad):
            row, column, value = (part[bad[0]] for part in parts[-1])
            raise matrix.bad_value(int(row), int(columns[column]), value)
        n_entries += len(kept)
        if n_entries > most:
            return None
    rows, places, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    return coo_array((values, (rows, places)), shape=(n_samples, n_columns)).tocsr()


def terms_of_entries(X: Any, y: np.ndarray, weight: np.ndarray, model: Model) -> RowTerms:
    """Return value, gradient and Hessian of the summed loss: `daskfs.selectors.shared.refit_on_block.terms_on_rows`.

    Parameters
    ----------
    X : scipy.sparse.csr_array of shape (n_rows, n_columns)
        The columns as they are: they are centred and scaled in the sums.
    y, weight : ndarray of shape (n_rows,), float64
        Classes as in the matrix.
    model : Model
    """
    from scipy.sparse import diags_array

    if model.positive is not None:
        y = np.where(y == model.positive, 1.0, -1.0)
    inverse = np.divide(1.0, model.scale, out=np.zeros(len(model.scale)), where=model.scale > 0.0)
    centre, coef = model.centre * inverse, model.solution[1:]
    X = X @ diags_array(inverse)  # the standardised columns are X - centre
    problem = Problem(find_loss(model.loss).facts, float(model.threshold), y, weight)
    at, first = new_predictions(len(y)), np.zeros(1)
    at.z[:] = X @ coef - float(centre @ coef)
    advance(problem, np.empty((0, len(y))), np.arange(0), 0, model.solution[:1].copy(), 1.0, at, first)
    curvature = weight * at.curvature
    total, sums = curvature.sum(), X.T @ curvature
    across = sums - centre * total
    squares = (X.T @ (diags_array(curvature) @ X)).toarray()
    squares -= np.outer(centre, sums) + np.outer(across, centre)
    hessian = np.block([[np.full((1, 1), total), across[None, :]], [across[:, None], squares]])
    gradient = -np.concatenate([first, X.T @ at.residual - centre * first[0]])
    return RowTerms(float(weight.sum()), float(mean_loss(problem, at.z, at)), gradient, hessian)
