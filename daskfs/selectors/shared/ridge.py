"""How large a ridge selected columns need: the larger, the harder they were looked for, and the fewer rows there are.

It is at most κ min(1, s log p / n), with s columns selected out of p, n the rows' weight, and κ the curvature of the
loss without features. Below that it minimises generalised cross-validation (Akaike's criterion where the dispersion is
known) in which a degree of freedom costs 1 + 0.15 log(p / s): columns that were looked for among many fit noise that
they would not fit if they had been given. The bound is what helps in short data, where cross-validation on the rows
that the columns were selected on sees nothing wrong with an interpolation; the criterion is what keeps the ridge small
where it would hurt. The share of the logarithm is a compromise: with more, planted designs of many rows and counts of
words lose, with less, genotypes do. All of it is measured: `benchmarks/refit_ridge.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from daskfs.losses import find_loss

RIDGES = 10.0 ** -np.arange(0.0, 8.01, 0.25)  # in parts of the largest; and none
SEARCH = 0.15
"""For a refit: of log(p / s), what a degree of freedom costs more, the columns having been looked for."""
WHILE_SELECTING = 0.5
"""While columns are exchanged, which fits noise faster."""
INTERPOLATED = 1e-12  # of the loss without features: a loss that is no larger fits every row
NO_CURVATURE = 1e-12  # in parts of the largest of the Hessian's eigenvalues: the columns depend on each other there


class Effort(NamedTuple):
    """How hard columns are looked for, and on how many rows."""

    total: float
    """Weight of the rows."""
    n_columns: int
    """Selected."""
    n_candidates: int
    """Out of which they are."""
    search: float = SEARCH
    """What a degree of freedom costs more, in parts of log(p / s)."""
    n_free: int = 0
    """Columns beside them that were not looked for, and have no ridge."""

    def largest_ridge(self, curvature: float) -> float:
        """Return κ min(1, s log p / n): with it, noise that was selected among p columns counts for little."""
        return curvature * min(1.0, self.n_columns * math.log(max(self.n_candidates, 2)) / self.total)

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
            There, of the intercept and then of the coefficients of the standardised columns.
        solution : ndarray of shape (n_columns + 1,)
            The point.
        largest : float
        loss : str
        is_free : ndarray of shape (n_columns + 1,), bool, optional
            Of intercept and columns, whether they have no ridge; by default the intercept alone.
        """
        if self.n_free and is_free is not None:
            value, gradient, hessian, solution = _without_free(value, gradient, hessian, solution, is_free)
        return self.shared_ridge([(value, gradient, hessian, solution)], largest, loss)

    def shared_ridge(
        self, terms: Sequence[tuple[float, np.ndarray, np.ndarray, np.ndarray]], largest: float, loss: str
    ) -> float:
        """Return the same of several predictions, of a class each, that share the ridge: their losses add up.

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
        """Return the cross-validated loss of each ridge.

        In the coordinates of the Hessian's eigenvectors, the intercept's best answer being in it, the minimum with a
        ridge λ is linear / (curvatures + λ), and its degrees of freedom are Σ curvatures / (curvatures + λ).
        """
        coef, slope = solution[1:], hessian[1:, 0] / hessian[0, 0]
        curvatures, axes = np.linalg.eigh(hessian[1:, 1:] - np.outer(slope, hessian[0, 1:]))
        curvatures = np.maximum(curvatures, 0.0)
        here = axes.T @ coef
        linear = curvatures * here - axes.T @ (gradient[1:] - slope * gradient[0])
        linear[curvatures <= NO_CURVATURE * curvatures.max(initial=0.0)] = 0.0
        at_zero = value + float((linear * here - 0.5 * curvatures * here**2).sum())
        inverse = 1.0 / np.where(curvatures + ridges[:, None] > 0.0, curvatures + ridges[:, None], 1.0)
        found = linear * inverse
        fitted: np.ndarray = at_zero + (0.5 * curvatures * found**2 - linear * found).sum(axis=1)
        price = 1.0 + self.search * math.log(max(self.n_candidates / max(self.n_columns, 1), 1.0))
        share = (1.0 + self.n_free + price * (curvatures * inverse).sum(axis=1)) / self.total
        if knows_dispersion:
            return fitted + share
        left = np.where(share < 1.0, 1.0 - share, 0.0)
        least = INTERPOLATED * max(at_zero, 0.0)  # below it rounding would decide
        return np.divide(np.maximum(fitted, least), left**2, out=np.full(len(left), np.inf), where=left > 0.0)


def _without_free(
    value: float, gradient: np.ndarray, hessian: np.ndarray, solution: np.ndarray, is_free: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Return the terms of the intercept and the columns with a ridge, where those without always have their best."""
    free = np.flatnonzero(is_free)[1:]  # the intercept stays
    kept = np.setdiff1d(np.arange(len(is_free)), free)
    best = np.linalg.pinv(hessian[np.ix_(free, free)], hermitian=True)
    across = hessian[np.ix_(kept, free)] @ best
    value -= 0.5 * float(gradient[free] @ best @ gradient[free])
    reduced = hessian[np.ix_(kept, kept)] - across @ hessian[np.ix_(free, kept)]
    return value, gradient[kept] - across @ gradient[free], reduced, solution[kept]
