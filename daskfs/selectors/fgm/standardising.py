"""Standardisation on the fly: moments of the columns, from the store or from a pass, and the scaling they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from daskfs.feature_maps.product_scaling import typical_squares
from daskfs.kernels.fgm.pairs import PRIOR_ROWS
from daskfs.selectors.fgm.plan import Cut
from daskfs.selectors.fgm.tasks import ColumnMoments, ColumnRange, sums_of_block
from daskfs.selectors.shared.run import Run


def column_moments(run: Run, cut: Cut, weight: np.ndarray, is_weighted: bool) -> ColumnMoments:
    """Return means, standard deviations and extremes of all columns, from the store or from a pass over these rows.

    Parameters
    ----------
    run : Run
    cut : Cut
    weight : ndarray of shape (n_samples,)
        Rows with weight 0 take no part.
    is_weighted : bool
        Whether any weight differs from 1.

    Raises
    ------
    DataError
        NaN or infinity, with the column's name.
    """
    known = None if is_weighted else run.matrix.column_statistics()
    if known is None:
        blocks = blocks_of(run, cut)
        # separate arrays: the means are needed longer than the others
        moments = ColumnMoments(*(np.empty(run.matrix.shape[1]) for _ in range(4)))
        for k, part in run.each("statistics", sums_of_block, blocks, weight, record=ColumnMoments):
            moments.put(slice(blocks[k].start, blocks[k].stop), part)
        return moments
    is_finite = np.isfinite(known.minimum) & np.isfinite(known.maximum) & np.isfinite(known.std)
    bad = np.flatnonzero((known.n_missing > 0) | ~is_finite)
    if len(bad):
        raise run.matrix.bad_column(int(bad[0]))
    return ColumnMoments(known.mean, known.std, known.minimum, known.maximum)


def blocks_of(run: Run, cut: Cut) -> list[ColumnRange]:
    """Return all columns in the blocks that tasks score."""
    n_features = run.matrix.shape[1]
    starts = range(0, n_features, cut.width)
    return [ColumnRange(start, min(start + cut.width, n_features), cut.piece_rows) for start in starts]


@dataclass(frozen=True, slots=True)
class Scaling:
    """Standardisation of columns on the fly: x̃_j = (x_j - centre_j) inverse_j."""

    centre: np.ndarray
    """Shape (n_features,); 0 if columns are not centred."""
    inverse: np.ndarray
    """0 for a constant or excluded column; otherwise 1 if columns are not normalised."""
    variance: np.ndarray
    """Variances of the columns x̃_j."""
    n_mostly_zero: int = 0
    """Number of columns whose deviations were computed with `PRIOR_ROWS` more rows."""

    @classmethod
    def of(
        cls,
        moments: ColumnMoments,
        n_rows: float,
        is_centred: bool,
        normalize: bool | str,
        column_weight: np.ndarray | None = None,
    ) -> Self:
        """Return the scaling of columns with these moments over `n_rows` rows; `normalize` is that of FGM."""
        mean, deviation = moments.mean, moments.deviation
        spread = deviation if is_centred else np.sqrt(deviation * deviation + mean * mean)
        scale, n_mostly_zero = np.zeros(len(spread)), 0
        if normalize == "auto":
            scale = prior_variance(moments, n_rows)
            n_mostly_zero = int(np.count_nonzero(scale > 0.0))
        np.hypot(spread, np.sqrt(scale, out=scale), out=scale)
        inverse = np.divide(1.0, scale, out=np.zeros(len(scale)), where=spread > 0.0)
        if not normalize:
            np.greater(spread, 0.0, out=inverse)
        if column_weight is not None:
            inverse *= column_weight
        variance = np.multiply(deviation, inverse, out=scale)
        np.square(variance, out=variance)
        return cls(mean if is_centred else np.zeros(len(mean)), inverse, variance, n_mostly_zero)

    def leave_out(self, columns: np.ndarray) -> None:
        """Exclude columns: their scores become 0."""
        self.inverse[columns], self.variance[columns] = 0.0, 0.0

    def of_blocks(self, blocks: list[ColumnRange]) -> list[ColumnRange]:
        """Return blocks of columns with their scaling."""
        spans = [slice(block.start, block.stop) for block in blocks]
        return [block.scaled(self.centre[at], self.inverse[at]) for block, at in zip(blocks, spans, strict=True)]


def prior_variance(moments: ColumnMoments, n_rows: float) -> np.ndarray:
    """Return what is added to the variances of dummies, counts and tf-idf before columns are divided; 0 for others.

    Columns are treated as such if no value is negative and some are 0. Divided by its own deviation, a category with 5
    of 10,000 rows would score as high as one with 5,000 rows that is equally informative about its own rows, and the
    few rows of many rare categories are informative by chance. `PRIOR_ROWS` more rows, with values as large as the
    column's own nonzero values, multiply its score by ``m / (m + PRIOR_ROWS)``, where m = (Σ x)² / Σ x² is its
    effective number of rows. If the column's own size is near the common size of the columns, the common size is used
    instead (`typical_squares`), so that frequent mentions of a word count.

    Parameters
    ----------
    moments : ColumnMoments
    n_rows : float
        The sum of the weights.

    Returns
    -------
    ndarray of shape (n_features,), float64

    Examples
    --------
    >>> share = np.array([0.5, 0.01])
    >>> dummies = ColumnMoments(share, np.sqrt(share * (1.0 - share)), np.zeros(2), np.ones(2))
    >>> prior_variance(dummies, 1000.0).round(3)
    array([0.022, 0.022])
    """
    squares = typical_squares(moments.mean, moments.deviation, moments.minimum)[1]
    squares *= PRIOR_ROWS / n_rows
    return squares
