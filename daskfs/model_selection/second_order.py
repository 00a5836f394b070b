"""The law of knockoffs of a block of columns, from means, deviations and correlations estimated in one pass.

Tasks run near the data: each reads the columns of a block, in pieces of rows, and returns the block's `BlockLaw`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from daskfs.kernels.linear.gram_tiles import BAND_ROWS, padded
from daskfs.kernels.linear.knockoffs import add_sums, minimum_variance, smallest_eigenvalue, transform_of
from daskfs.matrix.base import Matrix
from daskfs.selectors.shared.record import Record

Distance: TypeAlias = Literal["mvr", "equicorrelated"]
MVR_TOL, MVR_SWEEPS, EIGEN_STEPS = 1e-4, 50, 200
LEAST_EIGENVALUE = 1e-3
"""Minimum eigenvalue of the correlations; closer to singular, knockoffs would hardly differ from their columns."""


@dataclass(frozen=True, slots=True)
class ColumnGroups(Record):
    """A block of columns, and their groups."""

    name: str
    columns: np.ndarray
    groups: np.ndarray
    """Group number of each column; columns of a group are consecutive."""


@dataclass(frozen=True, slots=True)
class BlockLaw(Record):
    """The law of knockoffs of a block of w columns."""

    mean: np.ndarray
    scale: np.ndarray
    """Standard deviations; 0 for constant columns."""
    transform: np.ndarray
    """Shape (w, 2w): see `daskfs.kernels.linear.knockoffs.transform_of`."""
    shrinkage: float
    """Weight of the identity in the shrunken correlations."""
    correlation: float
    """Mean absolute correlation of knockoffs with their columns under the law."""
    loadings: np.ndarray
    """Loadings of the standardised columns on the common factors, shape (w, r)."""
    weights: np.ndarray
    """B⁻¹ Λ, which estimates the factors from the columns (`daskfs.model_selection.common_factors`), shape (w, r)."""


def law_of(
    matrix: Matrix, distance: Distance, piece_rows: int, block: ColumnGroups, components: np.ndarray | None = None
) -> BlockLaw:
    """Return the law of knockoffs of a block.

    Parameters
    ----------
    matrix : Matrix
    distance : {"mvr", "equicorrelated"}
        Construction of the knockoffs; groups with several columns are equicorrelated.
    piece_rows : int
        Rows that are read at a time.
    block : ColumnGroups
    components : ndarray of shape (n_samples, r), optional
        Uncorrelated components of unit variance, common to all columns. The law is then that of the residuals.

    Raises
    ------
    DataError
        A value is not finite.
    """
    n_rows, mean, scale, correlation = correlations(matrix, block.columns, piece_rows, components)
    w = len(block.columns)
    mean, scale, loadings = mean[:w], scale[:w], np.ascontiguousarray(correlation[:w, w:])
    left = np.sqrt(np.maximum(1.0 - (loadings**2).sum(axis=1), LEAST_EIGENVALUE))
    correlation = (correlation[:w, :w] - loadings @ loadings.T) / np.outer(left, left)
    np.fill_diagonal(correlation, 1.0)
    shrinkage = _shrinkage(correlation, n_rows)
    correlation *= 1.0 - shrinkage
    np.fill_diagonal(correlation, 1.0)
    correlation *= np.outer(left, left)
    sizes = np.unique(block.groups, return_counts=True)[1]
    if distance == "mvr" and (sizes == 1).all():
        s = np.diag(minimum_variance(correlation, MVR_TOL, MVR_SWEEPS))
    else:
        s = _equicorrelated(correlation, block.groups)
    transform = np.empty((w, 2 * w))
    while not transform_of(correlation, s, transform):
        s *= 0.95  # rounding errors, or an overestimated eigenvalue
    weights = np.linalg.solve(correlation, loadings)
    return BlockLaw(mean, scale, transform, shrinkage, float(np.abs(1.0 - np.diag(s)).mean()), loadings, weights)


def law_beside(
    matrix: Matrix, distance: Distance, piece_rows: int, components: np.ndarray, block: ColumnGroups
) -> BlockLaw:
    """Return the law of knockoffs of a block's residuals given components: see `law_of`."""
    return law_of(matrix, distance, piece_rows, block, components)


def correlations(
    matrix: Matrix, columns: np.ndarray, piece_rows: int, components: np.ndarray | None = None
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Return the sum of row weights, and means, deviations and correlations of the columns and components."""
    w, n = len(columns) + (0 if components is None else components.shape[1]), matrix.shape[0]
    sums = np.zeros((padded(w + 2), padded(w + 2)))
    piece_rows = max(1, piece_rows // BAND_ROWS) * BAND_ROWS
    total, origin = 0.0, np.zeros(w)
    for start in range(0, n, piece_rows):
        rows = slice(start, min(start + piece_rows, n))
        X = np.ascontiguousarray(matrix.read(rows, columns))
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)
        if not np.isfinite(X.sum(dtype=np.float64)):
            for row, column in np.argwhere(~np.isfinite(X)):
                raise matrix.bad_value(start + int(row), int(columns[column]), X[row, column])
        X = X if components is None else np.column_stack([X, components[rows]])
        given = matrix.read_weight(rows)
        weight = np.ones(len(X)) if given is None else np.ascontiguousarray(given, dtype=np.float64)
        if start == 0:
            origin = X[0].astype(np.float64)
        add_sums(X, weight, origin, sums)
        total += float(weight.sum())
    for place in np.flatnonzero(~np.isfinite(np.diag(sums)[: len(columns)])):
        raise matrix.bad_column(int(columns[place]))
    shift = sums[:w, w + 1] / total
    covariance = np.triu(sums[:w, :w]) / total
    covariance += np.triu(covariance, 1).T
    covariance -= np.outer(shift, shift)
    mean = origin + shift
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale[scale <= 1e-10 * np.maximum(np.abs(mean), 1e-300)] = 0.0
    inverse = np.divide(1.0, scale, out=np.zeros(w), where=scale > 0.0)
    correlation = covariance * inverse[:, None] * inverse
    np.fill_diagonal(correlation, 1.0)
    return total, mean, scale, correlation


def _shrinkage(correlation: np.ndarray, n_rows: float) -> float:
    """Return the weight of the identity in the shrunken correlations.

    It is the Rao-Blackwellised Ledoit-Wolf estimate of Chen, Wiesel, Eldar and Hero (2010), optimal for Gaussian
    columns, which vanishes as the number of rows grows. It is increased if eigenvalues are too small. Without
    shrinkage, knockoffs from few rows are too close to their columns, which costs a tenth of the power with 300 rows
    and 100 columns.
    """
    w = len(correlation)
    square, trace = float((correlation**2).sum()), float(w)
    over = (n_rows + 2.0) * (square - trace**2 / w)
    share = ((n_rows - 2.0) / n_rows * square + trace**2) / over if over > 0.0 else 1.0
    if share < LEAST_EIGENVALUE:
        least = smallest_eigenvalue(correlation + 1e-12 * np.eye(w), np.eye(w), EIGEN_STEPS)
        share = max(share, LEAST_EIGENVALUE) if least < LEAST_EIGENVALUE else share
    return float(min(1.0, share))


def _equicorrelated(correlation: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return S = γ C within groups, with the largest valid γ up to 1: Dai and Barber (2016), section 2.3."""
    within: np.ndarray = np.where(groups[:, None] == groups, correlation, 0.0)
    return min(1.0, 2.0 * 0.99 * smallest_eigenvalue(correlation, within, EIGEN_STEPS)) * within


def block_nbytes(width: int, piece_rows: int, itemsize: int) -> int:
    """Return the bytes needed to compute the law of a block of columns."""
    return 8 * 8 * (width + 4) ** 2 + piece_rows * width * (itemsize + 4) + 8 * BAND_ROWS * (width + 4)


def rows_within(limit: int | None, n_samples: int, width: int, itemsize: int) -> int:
    """Return the number of rows of a block that are read at a time, in whole bands."""
    left = 64 << 20 if limit is None else max(0, limit - block_nbytes(width, 0, itemsize))
    fit = left // (width * (itemsize + 4))
    return int(min(math.ceil(n_samples / BAND_ROWS), max(1, fit // BAND_ROWS))) * BAND_ROWS
