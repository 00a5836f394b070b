"""Tasks of a Lasso over all rows, which run where the data is.

Moments and Gram rows are sums over row blocks. Losses that they do not suffice for keep all rows together. A bootstrap
sample is a weighting of the rows: the number of times that each was drawn. Workers import this module, so it has few
imports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfs.kernels.linear.moments import CONSTANT_RATIO, Moments, gram_rows, moments
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.selectors.message.choices import Choices, SelectionSettings
from daskfs.selectors.message.subset import choose
from daskfs.selectors.message.tasks import bad_value_of
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.refit_on_block import read_rows

BLOCK_VALUES = 1 << 22  # 16 MiB of float32


@dataclass(frozen=True, slots=True)
class RowPart:
    """Row block k of a matrix: the position of its rows in the base matrix."""

    k: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class Weighting:
    """All rows as they are, or a bootstrap sample of them.

    A sample draws as many rows as there are, with replacement. It first draws the number of rows of each block
    (`n_drawn`), then the rows, from one seed per block, so blocks do not depend on each other.
    """

    seed: tuple[int, ...] | None = None
    n_drawn: np.ndarray | None = None

    @property
    def name(self) -> str:
        """The number of the sample."""
        return "all" if self.seed is None else str(self.seed[-1])

    @classmethod
    def bootstrap(cls, seed: tuple[int, ...], sizes: np.ndarray) -> Weighting:
        """Draw a sample from blocks of the given sizes."""
        total = int(sizes.sum())
        return cls(seed, np.random.default_rng(seed).multinomial(total, sizes / total))

    def of(self, part: RowPart, weight: np.ndarray) -> np.ndarray:
        """Return the weights of a block's rows, given the user's weights."""
        if self.seed is None or self.n_drawn is None:
            return weight
        rng = np.random.default_rng((*self.seed, part.k))
        drawn = np.bincount(rng.integers(0, len(weight), self.n_drawn[part.k]), minlength=len(weight))
        weighted: np.ndarray = weight * drawn
        return weighted


def block_rows(n_features: int) -> int:
    """Return the number of rows of a block. It depends on the width alone, so sums always have the same order.

    Examples
    --------
    >>> block_rows(1000), block_rows(74), block_rows(1_000_000)
    (4096, 56320, 4)
    """
    rows = max(1, BLOCK_VALUES // n_features)
    return rows - rows % 1024 if rows >= 1024 else rows


@dataclass(frozen=True, slots=True)
class MomentSums(Record):
    """Sums that give the moments of some rows; one row for each weighting."""

    total: np.ndarray
    """Sum of the weights, shape (n_weightings,)."""
    y_mean: np.ndarray
    y_square: np.ndarray
    """Sum of squared deviations of the target from its mean."""
    mean: np.ndarray
    """Means of the columns, shape (n_weightings, n_columns)."""
    square: np.ndarray
    cross: np.ndarray
    """Sum of products of the deviations of the columns and of the target."""


def moments_on_block(matrix: Matrix, columns: Rows, weightings: tuple[Weighting, ...], part: RowPart) -> MomentSums:
    """Return the sums of a block. `add_moments` adds those of two blocks.

    Raises
    ------
    DataError
        A value is NaN or infinite; the error names its column and row.
    """
    X, y, weight = read_rows(matrix, columns, None, part.rows)
    sums = [_sums(matrix, part, X, y, weighting.of(part, weight)) for weighting in weightings]
    return MomentSums(*(np.array(column) for column in zip(*sums, strict=True)))


def _sums(matrix: Matrix, part: RowPart, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[Any, ...]:
    if not weight.any():  # no row of the block was drawn
        nothing = np.zeros(X.shape[1])
        return 0.0, 0.0, 0.0, nothing, nothing, nothing
    m = moments(X, y, weight)
    if np.isnan(m.scale).any():
        raise bad_value_of(matrix, part.rows, X)
    return m.total, m.y_mean, m.total * m.y_variance, m.mean, m.total * m.scale**2, m.total * m.scale * m.cross


def add_moments(a: MomentSums, b: MomentSums) -> MomentSums:
    """Add the sums of two parts of the rows (Chan, Golub and LeVeque 1979)."""
    total = a.total + b.total
    share = np.divide(b.total, total, out=np.zeros_like(total), where=total > 0)
    between = a.total * share
    y_step, step = b.y_mean - a.y_mean, b.mean - a.mean
    return MomentSums(
        total,
        a.y_mean + share * y_step,
        a.y_square + b.y_square + between * y_step**2,
        a.mean + share[:, None] * step,
        a.square + b.square + between[:, None] * step**2,
        a.cross + b.cross + between[:, None] * step * y_step[:, None],
    )


def finished_moments(sums: MomentSums) -> list[Moments]:
    """Return the Moments for each weighting from the sums over all blocks."""
    found = []
    for k, total in enumerate(sums.total):
        mean, variance = sums.mean[k], sums.square[k] / total
        scale = np.where(variance > (CONSTANT_RATIO * mean) ** 2, np.sqrt(variance), 0.0)
        cross = np.divide(sums.cross[k], total * scale, out=np.zeros_like(scale), where=scale > 0)
        found.append(Moments(float(total), float(sums.y_mean[k]), float(sums.y_square[k] / total), mean, scale, cross))
    return found


@dataclass(frozen=True, slots=True)
class GramRequest:
    """The Gram rows that the path of one weighting needs next."""

    weighting: Weighting
    moments: Moments
    features: np.ndarray


@dataclass(frozen=True, slots=True)
class GramRows(Record):
    """All requested Gram rows, stacked: the contribution of some rows of the matrix. Contributions add up."""

    rows: np.ndarray


def gram_on_block(matrix: Matrix, columns: Rows, requests: tuple[GramRequest, ...], part: RowPart) -> GramRows:
    """Return a block's contribution to all requested Gram rows."""
    X, _, weight = read_rows(matrix, columns, None, part.rows)
    out = np.zeros((sum(len(request.features) for request in requests), X.shape[1]))
    first = 0
    for request in requests:
        last = first + len(request.features)
        gram_rows(X, request.weighting.of(part, weight), request.moments, request.features, out[first:last])
        first = last
    return GramRows(out)


def add_rows(a: GramRows, b: GramRows) -> GramRows:
    """Add the contributions of two parts of the rows."""
    return GramRows(a.rows + b.rows)


def select_on_sample(matrix: Matrix, settings: SelectionSettings, rows: Rows, weighting: Weighting) -> Choices:
    """Select on a bootstrap sample of all rows."""
    part = RowPart(0, rows)
    X, y, weight = read_rows(matrix, slice(None), settings.positive, rows)
    choice = choose(X, y, weighting.of(part, weight), settings, True, matrix.weights_of_columns())
    if choice is None:
        raise bad_value_of(matrix, rows, X)
    return choice
