"""Standardisation of columns and of products of two columns, computed from statistics of the columns alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.feature_maps.base import Given
from daskfs.kernels.fgm.pairs import PRIOR_ROWS, Weighing

COMMON_SIZE = 3.0
"""Largest ratio of sizes for which columns are assumed to share a unit."""
TWO_VALUES = 1.0 + 1e-9
"""Tolerance of the variance, which is (mean - minimum)(maximum - mean) if a column has only two values."""
CONSTANT = 1e-10
"""Share of the mean square below which a product's variance is a rounding error."""


class Weights(NamedTuple):
    """Squared factors of standardised features."""

    column: float
    pair: float
    square: float


class ProductScaling(NamedTuple):
    """Standardisation of columns and their products; arrays of shape (n_features,)."""

    centre: np.ndarray
    """Subtracted from a column before it is multiplied with another one."""
    column_centre: np.ndarray
    """Subtracted from a column that is a feature itself."""
    column_inverse: np.ndarray
    """Factor of the centred column; 0 for a constant column."""
    has_square: np.ndarray
    """Whether a column has more than two values. Otherwise its square repeats it."""
    products: Weighing
    variance: float
    """Typical variance of a feature."""

    @classmethod
    def of(cls, given: Given, weights: Weights, center: bool | str, is_sparse: bool) -> ProductScaling:
        """Return the standardisation for columns with these moments.

        Parameters
        ----------
        given : Given
        weights : Weights
        center : bool or "auto"
            Whether columns are centred before they are multiplied: see `daskfs.feature_maps.polynomial.Polynomial`.
        is_sparse : bool
            Whether the columns are sparse. Centring would make them dense.
        """
        mean, deviation, total = given.mean, given.deviation, float(given.weight.sum())
        is_mostly_zero, size = typical_squares(mean, deviation, given.minimum)
        is_centred = center is True or (center == "auto" and not is_sparse)
        centre = mean.copy() if is_centred else np.zeros(len(mean))
        about = deviation**2 + (mean - centre) ** 2
        size = np.where(is_mostly_zero, size, about)
        counts_for_less = is_mostly_zero & (given.normalize == "auto")
        variance = deviation**2 if given.center else deviation**2 + mean**2
        is_normalised, spread = given.normalize is not False, np.ones(len(mean))
        if is_normalised:
            spread = variance + np.where(counts_for_less, PRIOR_ROWS / total * size, 0.0)
        inverse = np.sqrt(np.divide(weights.column, spread, out=np.zeros(len(mean)), where=(variance > 0.0)))
        products = Weighing(
            total, given.center, is_normalised, size, counts_for_less, weights.pair, weights.square, CONSTANT
        )
        typical = 1.0 if is_normalised else _typical_variance(weights, variance, about)
        has_square = ~_has_two_values(given)
        return cls(centre, mean if given.center else np.zeros(len(mean)), inverse, has_square, products, typical)

    def of_product(self, i: int, j: int, values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        """Return centre and inverse of the product of two columns, from its values."""
        weighing, z = self.products, values.astype(np.float64)
        mean = float(weight @ z) / weighing.total
        about = mean if weighing.is_centred else 0.0
        square, variance = float(weight @ (z * z)) / weighing.total, float(weight @ (z - about) ** 2) / weighing.total
        if not variance > CONSTANT * square:
            return about, 0.0
        if weighing.is_mostly_zero[i] or weighing.is_mostly_zero[j]:
            variance += PRIOR_ROWS / weighing.total * weighing.size[i] * weighing.size[j]
        factor = weighing.square if i == j else weighing.pair
        return about, float(np.sqrt(factor / (variance if weighing.is_normalised else 1.0)))


def typical_squares(mean: np.ndarray, deviation: np.ndarray, minimum: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which columns are dummies, counts or tf-idf, and the typical square of their nonzero values.

    Columns without negative values and with some zeros are taken as such. The square is the columns' common one if a
    column's own is within a factor of `COMMON_SIZE` squared.

    Examples
    --------
    >>> share = np.array([0.5, 0.01, 0.2])
    >>> typical_squares(share, np.sqrt(share * (1.0 - share)), np.zeros(3))[1]
    array([0.8, 0.8, 0.8])
    """
    square = np.square(deviation)
    chosen = (minimum == 0.0) & (square > 0.0)
    own = square[chosen]
    square.fill(0.0)
    if len(own):
        share = deviation[chosen]
        share /= mean[chosen]
        own *= 1.0 + np.square(share, out=share)
        least = np.divide(own, COMMON_SIZE**2, out=share)
        np.maximum(np.median(own), least, out=least)
        own *= COMMON_SIZE**2
        square[chosen] = np.minimum(least, own, out=own)
    return chosen, square


def _has_two_values(given: Given) -> np.ndarray:
    """Return which columns have at most two values; without centring, one must be 0 for the square to repeat."""
    most = (given.mean - given.minimum) * (given.maximum - given.mean)
    has_two: np.ndarray = most <= given.deviation**2 * TWO_VALUES
    return has_two if given.center else has_two & ((given.minimum == 0.0) | (given.maximum == 0.0))


def _typical_variance(weights: Weights, variance: np.ndarray, about: np.ndarray) -> float:
    """Return the mean variance of unstandardised features, weighted by the variances themselves.

    The variance of a product is approximated by the product of the mean squares, as for independent columns.
    """
    one = weights.column * variance
    total = float(one.sum()) + weights.pair * float(about.sum()) ** 2 / 2.0
    squares = float((one * one).sum()) + weights.pair**2 * float((about * about).sum()) ** 2 / 2.0
    return squares / total if total > 0.0 else 1.0
