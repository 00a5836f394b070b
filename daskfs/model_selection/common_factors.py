"""Common factors of all columns, which model correlations between blocks of columns.

The model of standardised columns is z = f Λᵀ + e, with r factors f and residuals e that correlate only within blocks.
The correlations are then Λ Λᵀ + B, low rank plus block diagonal. For p columns, in passes over the blocks:

    1. Find the r largest principal components of all columns by subspace iteration. Each step computes
       Σ_b Z_b (Z_bᵀ Q), an array of n rows (Halko, Martinsson and Tropp 2011). r is the number of eigenvalues above
       the largest of independent columns, (1 + √(p/n))² (Marchenko and Pastur 1967).
    2. The loadings are Λ_b = Z_bᵀ F / n, where F are the components; B_b is the residual correlation of a block.
    3. Given the columns of a row, its factors are normal with mean z B⁻¹ Λ M⁻¹ and covariance M⁻¹, where
       M = I + Λᵀ B⁻¹ Λ.

Draw factors f by step 3, make knockoffs of the residuals z - f Λᵀ within blocks, and add f Λᵀ. The results are Gaussian
knockoffs of all columns: by Woodbury's identity their covariance given z is 2S - S (Λ Λᵀ + B)⁻¹ S, with S <= 2B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from daskfs.kernels.linear.knockoffs import add_product
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import as_slice
from daskfs.model_selection.second_order import BlockLaw, ColumnGroups
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.run import Run

MOST_FACTORS, SPARE, STEPS = 16, 8, 3
"""Maximum number of factors, extra directions of the subspace iteration, and its number of steps."""
BEYOND_NOISE = 1.1
"""Factor by which an eigenvalue must exceed the largest of independent columns."""
PIECE_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Standardised(Record):
    """Columns of a block, and their means and scales for standardising."""

    name: str
    columns: np.ndarray
    mean: np.ndarray
    inverse: np.ndarray
    """Inverse standard deviations; 0 for constant columns."""
    weights: np.ndarray
    """See `daskfs.model_selection.second_order.BlockLaw`."""

    @classmethod
    def of(cls, block: ColumnGroups, law: BlockLaw) -> Self:
        """Return the standardised block from its law."""
        inverse = np.divide(1.0, law.scale, out=np.zeros(len(law.scale)), where=law.scale > 0.0)
        return cls(block.name, block.columns, law.mean, inverse, law.weights)

    def read(self, matrix: Matrix, rows: slice) -> np.ndarray:
        """Return the standardised columns of some rows."""
        values: np.ndarray = (matrix.read(rows, as_slice(self.columns)) - self.mean) * self.inverse
        return values


@dataclass(frozen=True, slots=True)
class OfRows(Record):
    """Contribution of a block to an array over all rows, shape (n_samples, q)."""

    values: np.ndarray


def added(a: OfRows, b: OfRows) -> OfRows:
    """Add the contributions of two blocks."""
    return OfRows(a.values + b.values)


def turned(matrix: Matrix, directions: np.ndarray, block: Standardised) -> OfRows:
    """Return Z_b (Z_bᵀ Q) of a block, with rows multiplied by the square roots of their weights."""
    within = np.zeros((len(block.columns), directions.shape[1]))
    values = np.zeros(directions.shape)
    for rows in _pieces(matrix.shape[0]):
        add_product(_weighted(matrix, block, rows).T, np.ascontiguousarray(directions[rows]), within)
    for rows in _pieces(matrix.shape[0]):
        add_product(_weighted(matrix, block, rows), within, values[rows])
    return OfRows(values)


def estimated(matrix: Matrix, block: Standardised) -> OfRows:
    """Return z_b B_b⁻¹ Λ_b for all rows."""
    values = np.zeros((matrix.shape[0], block.weights.shape[1]))
    for rows in _pieces(matrix.shape[0]):
        add_product(block.read(matrix, rows), block.weights, values[rows])
    return OfRows(values)


@dataclass(frozen=True, slots=True)
class CommonFactors(Record):
    """Distribution of the factors given the columns, for each row: step 3."""

    mean: np.ndarray
    """Shape (n_samples, r)."""
    root: np.ndarray
    """Square root of the covariance, shape (r, r)."""

    def drawn(self, seed: int, order: np.ndarray | None) -> np.ndarray:
        """Return a draw of the factors, with rows in a given order."""
        noise = np.random.default_rng([seed, 2]).standard_normal(self.mean.shape)
        return (self.mean if order is None else self.mean[order]) + noise @ self.root.T


def principal_components(run: Run, blocks: list[ColumnGroups], laws: list[BlockLaw], most: int) -> np.ndarray:
    """Return the principal components of all columns, shape (n_samples, r), with unit variance: step 1.

    Parameters
    ----------
    run : Run
        Run over columns.
    blocks, laws : lists of the same length
    most : int
        Maximum of r.
    """
    parts = [Standardised.of(block, law) for block, law in zip(blocks, laws, strict=True)]
    n, p = run.matrix.shape
    weight = run.matrix.read_weight(slice(None))
    total = float(n if weight is None else weight.sum())
    values = np.random.default_rng(0).standard_normal((n, min(n, p, most + SPARE)))
    for step in range(STEPS):
        directions = np.ascontiguousarray(np.linalg.qr(values)[0])
        found = run.reduce(f"factors, {step}", turned, parts, added, directions, record=OfRows)
        values = found.values
    sizes, turn = np.linalg.eigh(directions.T @ values)
    edge = BEYOND_NOISE * (1.0 + np.sqrt(p / total)) ** 2
    chosen = np.flatnonzero(sizes / total > edge)[::-1][:most]
    root = np.ones(n) if weight is None else np.sqrt(weight)
    inverse = np.divide(np.sqrt(total), root, out=np.zeros(n), where=root > 0.0)
    return np.ascontiguousarray((directions @ turn[:, chosen]) * inverse[:, None])


def factors_given_columns(run: Run, blocks: list[ColumnGroups], laws: list[BlockLaw]) -> CommonFactors:
    """Return the distribution of the factors given the columns: step 3."""
    parts = [Standardised.of(block, law) for block, law in zip(blocks, laws, strict=True)]
    found = run.reduce("factors", estimated, parts, added, record=OfRows)
    precision = np.eye(found.values.shape[1]) + np.sum([law.loadings.T @ law.weights for law in laws], axis=0)
    covariance = np.linalg.inv(0.5 * (precision + precision.T))
    return CommonFactors(found.values @ covariance, np.linalg.cholesky(covariance))


def _pieces(n_samples: int) -> list[slice]:
    return [slice(start, min(start + PIECE_ROWS, n_samples)) for start in range(0, n_samples, PIECE_ROWS)]


def _weighted(matrix: Matrix, block: Standardised, rows: slice) -> np.ndarray:
    weight, values = matrix.read_weight(rows), block.read(matrix, rows)
    return values if weight is None else values * np.sqrt(weight)[:, None]
