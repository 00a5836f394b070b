"""How stored columns are standardised on the fly: their moments, the store's or from a pass, and what follows."""

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
    """Return means, standard deviations and extremes of all columns: the store's, or of these rows, in a pass.

    Parameters
    ----------
    run : Run
    cut : Cut
    weight : ndarray of shape (n_samples,)
        Rows of 0 take no part.
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
        moments = ColumnMoments(*(np.empty(run.matrix.shape[1]) for _ in range(4)))  # apart: the means outlive the rest
        for k, part in run.each("statistics", sums_of_block, blocks, weight, record=ColumnMoments):
            moments.put(slice(blocks[k].start, blocks[k].stop), part)
        return moments
    is_finite = np.isfinite(known.minimum) & np.isfinite(known.maximum) & np.isfinite(known.std)
    bad = np.flatnonzero((known.n_missing > 0) | ~is_finite)
    if len(bad):
        raise run.matrix.bad_column(int(bad[0]))
    return ColumnMoments(known.mean, known.std, known.minimum, known.maximum)


def blocks_of(run: Run, cut: Cut) -> list[ColumnRange]:
    """Return all columns, as the tasks score them."""
    n_features = run.matrix.shape[1]
    starts = range(0, n_features, cut.width)
    return [ColumnRange(start, min(start + cut.width, n_features), cut.piece_rows) for start in starts]


@dataclass(frozen=True, slots=True)
class Scaling:
    """How columns are standardised on the fly: x̃_j = (x_j - centre_j) inverse_j."""

    centre: np.ndarray
    """Shape (n_features,); 0 where columns are not centred."""
    inverse: np.ndarray
    """0 of a column that says nothing; else 1 where columns are not normalised."""
    variance: np.ndarray
    """Of the columns x̃_j about their means."""
    n_mostly_zero: int = 0
    """Columns whose deviations were taken with `PRIOR_ROWS` more rows."""

    @classmethod
    def of(
        cls,
        moments: ColumnMoments,
        n_rows: float,
        is_centred: bool,
        normalize: bool | str,
        column_weight: np.ndarray | None = None,
    ) -> Self:
        """Return the scaling of columns with these moments over so many rows; `normalize` is that of FGM."""
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
        """Let columns say nothing: their scores are 0."""
        self.inverse[columns], self.variance[columns] = 0.0, 0.0

    def of_blocks(self, blocks: list[ColumnRange]) -> list[ColumnRange]:
        """Return blocks of columns with what standardises them."""
        spans = [slice(block.start, block.stop) for block in blocks]
        return [block.scaled(self.centre[at], self.inverse[at]) for block, at in zip(blocks, spans, strict=True)]


def prior_variance(moments: ColumnMoments, n_rows: float) -> np.ndarray:
    """Return what is added to the variances of dummies, counts and tf-idf, by which columns are divided; 0 of others.

    Columns are taken for such where no value is below 0 and some are 0. Divided by its deviation alone, a category of 5
    rows of 10,000 scores as high as one of 5,000 where both say as much of their own rows: the few rows of each of
    many categories say something by chance. `PRIOR_ROWS` more rows, as large as the column's own that are not 0, let it
    count for ``m / (m + PRIOR_ROWS)`` of that, m = (Σ x)² / Σ x² rows on which it stands. How large they are is the
    columns' common size where a column's own is near it (`typical_squares`), so that a word's many mentions count.

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
