"""The ridge of selected columns: the larger the search that found them, and the fewer the rows, the larger it is.

It is at most κ min(1, s log p / n), with s columns selected out of p, n the total weight of the rows, and κ the
curvature of the loss without features. Below this bound it minimises generalised cross-validation (Akaike's criterion
if the dispersion is known), in which a degree of freedom costs 1 + 0.15 log(p / s): columns found by a search among
many fit noise that given columns would not. The bound helps with few rows, where cross-validation on the rows of the
selection does not detect interpolation; the criterion keeps the ridge small where it would do harm. The factor of the
logarithm is a compromise: a larger one makes simulations with many rows and word counts worse, a smaller one genotypes.
All of this was measured by `benchmarks/refit_ridge.py` at 8aa8810f.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from daskfs.kernels.linear.tridiagonal import along_ridges
from daskfs.losses import find_loss

RIDGES = 10.0 ** -np.arange(0.0, 8.01, 0.25)  # as shares of the largest; and none
SEARCH = 0.15
"""For a refit: additional cost of a degree of freedom, in units of log(p / s), for columns found by a search."""
WHILE_SELECTING = 0.5
"""The same during the exchange of columns, which overfits faster."""
FIRST_RIDGE, MOST_FIRST_RIDGE = 2.0, 3.0
"""The ridge with which a selection by exchanges begins: multiple of s log p / n, and its bound, in units of κ."""
EXCHANGE_PRICE = 0.1
"""Price of an exchange after the first epoch, in units of the noise in the loss that the best of p columns explains."""
INTERPOLATED = 1e-12  # share of the loss without features below which a fit counts as an interpolation of all rows


class Effort(NamedTuple):
    """The size of the search for columns, and the number of rows."""

    total: float
    """Total weight of the rows."""
    n_columns: int
    """Number of selected columns."""
    n_candidates: int
    """Number of columns from which they are selected."""
    search: float = SEARCH
    """Additional cost of a degree of freedom, in units of log(p / s)."""
    n_free: int = 0
    """Number of further columns that were not searched for and have no ridge."""

    def largest_ridge(self, curvature: float) -> float:
        """Return κ min(1, s log p / n), which suppresses noise selected among p columns."""
        return curvature * min(1.0, self.n_columns * math.log(max(self.n_candidates, 2)) / self.total)

    def first_ridge(self, curvature: float) -> float:
        """Return κ min(3, 2 s log p / n), with which a selection by exchanges begins.

        With a large ridge, columns are selected by what they explain together with others like them, not by what they
        explain that the members leave, which with few rows is noise.
        """
        share = self.n_columns * math.log(max(self.n_candidates, 2)) / self.total
        return curvature * min(MOST_FIRST_RIDGE, FIRST_RIDGE * share)

    def exchange_price(
        self, terms: Sequence[tuple[float, np.ndarray, np.ndarray, np.ndarray]], ridge: float, loss: str
    ) -> float:
        """Return how much an exchange must lower the sum of the losses of some predictions.

        A useless column lowers a mean loss by about φ / 2n, and the best of p useless columns by φ log p / n, where the
        dispersion φ is 1 if the loss knows it, and else estimated by twice the loss of the members.

        Parameters
        ----------
        terms : sequence of (value, gradient, hessian, solution)
            See `best_ridge`.
        ridge : float
            The ridge with which the members were selected.
        loss : str
        """
        dispersion = float(len(terms))
        if not find_loss(loss).knows_dispersion:
            dispersion = 2.0 * sum(float(self._fitted(*one, np.array([ridge]))[0][0]) for one in terms)
        return EXCHANGE_PRICE * max(dispersion, 0.0) * math.log(max(self.n_candidates, 2)) / self.total

    def best_ridge(
        self,
        value: float,
        gradient: np.ndarray,
        hessian: np.ndarray,
        solution: np.ndarray,
        largest: float,
        loss: str,
        is_free: np.ndarray | None = None,
    ) -> float:
        """Return the ridge, at most `largest`, of least cross-validated loss in the quadratic approximation at a point.

        Parameters
        ----------
        value : float
            The mean loss at the point, without a ridge.
        gradient, hessian : ndarray of shapes (n_columns + 1,) and (n_columns + 1, n_columns + 1)
            At the point; first the intercept, then the coefficients of standardised columns.
        solution : ndarray of shape (n_columns + 1,)
            The point.
        largest : float
        loss : str
        is_free : ndarray of shape (n_columns + 1,), bool, optional
            Which of intercept and columns have no ridge; by default only the intercept.
        """
        if self.n_free and is_free is not None:
            value, gradient, hessian, solution = _without_free(value, gradient, hessian, solution, is_free)
        return self.shared_ridge([(value, gradient, hessian, solution)], largest, loss)

    def shared_ridge(
        self, terms: Sequence[tuple[float, np.ndarray, np.ndarray, np.ndarray]], largest: float, loss: str
    ) -> float:
        """Return one ridge for several predictions (classes), whose losses are summed.

        Parameters
        ----------
        terms : sequence of (value, gradient, hessian, solution)
            See `best_ridge`.
        largest, loss : float, str
        """
        ridges = np.append(largest * RIDGES, 0.0)
        scores = sum(self._scores(*one, ridges, find_loss(loss).knows_dispersion) for one in terms)
        return float(ridges[int(np.argmin(scores))])

    def _scores(
        self,
        value: float,
        gradient: np.ndarray,
        hessian: np.ndarray,
        solution: np.ndarray,
        ridges: np.ndarray,
        knows_dispersion: bool,
    ) -> np.ndarray:
        """Return the cross-validated loss of each ridge."""
        fitted, freedom, at_zero = self._fitted(value, gradient, hessian, solution, ridges)
        price = 1.0 + self.search * math.log(max(self.n_candidates / max(self.n_columns, 1), 1.0))
        share = (1.0 + self.n_free + price * freedom) / self.total
        if knows_dispersion:
            return fitted + share
        left = np.where(share < 1.0, 1.0 - share, 0.0)
        least = INTERPOLATED * max(at_zero, 0.0)  # below this, rounding would decide
        return np.divide(np.maximum(fitted, least), left**2, out=np.full(len(left), np.inf), where=left > 0.0)

    @staticmethod
    def _fitted(
        value: float, gradient: np.ndarray, hessian: np.ndarray, solution: np.ndarray, ridges: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return loss and degrees of freedom at the minimum with each ridge, and the loss without the columns."""
        coef, slope = solution[1:], np.zeros(len(solution) - 1)
        if hessian[0, 0] > 0.0:  # the squared hinge loss is flat where all rows are beyond the margin
            slope = hessian[1:, 0] / hessian[0, 0]
        curvature = hessian[1:, 1:] - np.outer(slope, hessian[0, 1:])  # with the intercept profiled out
        gradient, bend = gradient[1:] - slope * gradient[0], curvature @ coef
        at_zero = value + float(0.5 * coef @ bend - gradient @ coef)
        falls, freedom = along_ridges(curvature, bend - gradient, ridges)
        return at_zero - falls, freedom, at_zero


def _without_free(
    value: float, gradient: np.ndarray, hessian: np.ndarray, solution: np.ndarray, is_free: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Return the terms of the intercept and the columns with a ridge, with the columns without a ridge profiled out."""
    free = np.flatnonzero(is_free)[1:]  # the intercept stays
    kept = np.setdiff1d(np.arange(len(is_free)), free)
    best = np.linalg.pinv(hessian[np.ix_(free, free)], hermitian=True)
    across = hessian[np.ix_(kept, free)] @ best
    value -= 0.5 * float(gradient[free] @ best @ gradient[free])
    reduced = hessian[np.ix_(kept, kept)] - across @ hessian[np.ix_(free, kept)]
    return value, gradient[kept] - across @ gradient[free], reduced, solution[kept]
