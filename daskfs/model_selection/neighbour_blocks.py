"""Blocks of correlated neighbours among the columns, such as variants in linkage disequilibrium.

Two columns are linked if they are at most `REACH` columns apart, on one chromosome if the matrix knows chromosomes, and
their squared correlation r² is at least a limit. A block is the smallest range of columns that no link leaves. So r²
between near columns of different blocks is below the limit. r² is computed on at most `MOST_ROWS` rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.substitution.products import cross_products
from daskfs.matrix.base import Matrix
from daskfs.matrix.streaming import pieces_of
from daskfs.selectors.shared.budget import Budget, DataShape
from daskfs.selectors.shared.run import Run

REACH = 64
MOST_ROWS = 4096
TASK_COLUMNS = 256


class Part(NamedTuple):
    """Columns whose links to later columns one task finds."""

    start: int
    stop: int


def block_budget(shape: DataShape) -> Budget:
    """Return the memory of a task that finds links: the values, in double precision with two copies, and in single."""
    n_values = (TASK_COLUMNS + REACH) * min(shape.n_samples, MOST_ROWS)
    return Budget({"neighbours whose links are sought": n_values * (shape.itemsize + 3 * 8 + 4)})


def last_linked(matrix: Matrix, rows: np.ndarray, min_r2: float, part: Part) -> np.ndarray:
    """Return for each column of a part the last column that it is linked to, itself if there is none."""
    n_columns, last = part.stop - part.start, min(part.stop + REACH, matrix.shape[1])
    X = np.empty((last - part.start, len(rows)), matrix.dtype)
    matrix.read(rows, slice(part.start, last), X.T)
    Z = X - X.mean(axis=1, dtype=np.float64, keepdims=True)
    size = np.sqrt(np.square(Z).sum(axis=1, keepdims=True))
    Z = np.divide(Z, size, out=np.zeros_like(Z), where=size > 0.0).astype(np.float32)
    distance = np.arange(len(Z)) - np.arange(n_columns)[:, None]
    is_linked = (np.square(cross_products(Z[:n_columns], Z)) >= min_r2) & (distance <= REACH)
    found: np.ndarray = np.where(is_linked & (distance > 0), distance, 0).max(axis=1)
    return part.start + np.arange(n_columns) + found


def neighbour_blocks(run: Run, min_r2: float, apart: np.ndarray) -> np.ndarray:
    """Return the number of each column's block, int64 of shape (n_features,); blocks are numbered along the columns.

    Parameters
    ----------
    run : Run
    min_r2 : float
        Squared correlation from which two columns are linked.
    apart : ndarray of int
        Columns that belong to no block: their number is -1.
    """
    n_samples, n_features = run.matrix.shape
    rows = np.arange(0, n_samples, -(-n_samples // MOST_ROWS))
    parts = [Part(*piece) for piece in pieces_of(n_features, TASK_COLUMNS)]
    last = np.concatenate(run.map("blocks", last_linked, parts, run.keep(rows), min_r2))
    chromosome = run.matrix.annotations(np.arange(n_features)).get("chromosome", np.zeros(n_features))
    is_first = np.append(True, chromosome[1:] != chromosome[:-1])
    for beside in (apart, apart[apart < n_features - 1] + 1):
        is_first[beside] = True
    ends = np.append(np.flatnonzero(is_first)[1:] - 1, n_features - 1)
    reach = np.maximum.accumulate(np.minimum(last, ends[np.cumsum(is_first) - 1]))
    block = np.cumsum(np.append(True, reach[:-1] < np.arange(1, n_features)))
    block[apart] = 0
    return np.unique(block, return_inverse=True)[1].astype(np.int64) - (len(apart) > 0)
