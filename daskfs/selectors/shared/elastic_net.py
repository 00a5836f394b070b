"""Choice of the l1 penalty that is added to the ridge of selected columns, by the loss on held-out rows.

At a point, the loss of any rows is approximated by a quadratic function of the coefficients (exact for the squared
loss), so its terms there are sufficient: those of a fold give the loss of a fit on it, those of the other folds give
the fit. The rows are read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from daskfs.kernels.linear.coordinate_descent import descend
from daskfs.selectors.shared.refit_on_block import RowTerms

N_FOLDS = 5
# shares of the smallest penalty with which all coefficients are 0; and no penalty
SHARES = 10.0 ** -np.arange(0.0, 4.01, 0.2)
TOLERANCE = 1e-8  # as a share of that penalty


class QuadraticApproximation(NamedTuple):
    """The quadratic approximation of the mean loss in the penalised coefficients, with the others profiled out."""

    curvature: np.ndarray
    linear: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    point: np.ndarray
    is_free: np.ndarray
    """Which of intercept and coefficients have no penalty."""

    @classmethod
    def at(cls, point: np.ndarray, gradient: np.ndarray, hessian: np.ndarray, is_free: np.ndarray) -> Self:
        """Return the approximation from the terms at a point: first the intercept, then the coefficients."""
        rest = ~is_free
        slope = hessian[np.ix_(rest, is_free)] @ _inverse(hessian, is_free)
        curvature = np.ascontiguousarray(hessian[np.ix_(rest, rest)] - slope @ hessian[np.ix_(is_free, rest)])
        linear = curvature @ point[rest] - (gradient[rest] - slope @ gradient[is_free])
        return cls(curvature, linear, gradient, hessian, point, is_free)

    @property
    def largest(self) -> float:
        """The smallest l1 penalty with which all coefficients are 0."""
        return float(np.abs(self.linear).max(initial=0.0))

    def minimum(self, ridge: float, l1: float, start: np.ndarray) -> np.ndarray:
        """Return intercept and coefficients of the smallest penalised loss; `start` has the penalised coefficients."""
        coef, curvature = np.array(start, dtype=np.float64), np.diag(self.curvature)
        hessian = self.curvature + np.diag(np.where(curvature > 0.0, ridge, 0.0))  # without it, a column is left out
        tol = TOLERANCE * self.largest / max(float(np.diag(hessian).max(initial=0.0)), 1e-300) ** 0.5
        descend(hessian, len(coef), 0, self.linear - hessian @ coef, coef, l1, tol)
        found, free = np.array(self.point), self.is_free
        moved = self.hessian[np.ix_(free, ~free)] @ (coef - self.point[~free])
        found[free] -= _inverse(self.hessian, free) @ (self.gradient[free] + moved)
        found[~free] = coef
        return found


def _inverse(hessian: np.ndarray, is_free: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.linalg.pinv(hessian[np.ix_(is_free, is_free)], hermitian=True)
    return found


def best_l1(folds: Sequence[RowTerms], point: np.ndarray, ridge: float, is_free: np.ndarray) -> float:
    """Return the l1 penalty, added to a ridge, with the smallest held-out loss over the folds; 0 if none helps.

    Parameters
    ----------
    folds : sequence of RowTerms
        The summed loss of each fold's rows at the point; the first entry of its Hessian is 0 if they have no weight.
    point : ndarray of shape (n_columns + 1,)
    ridge : float
        Ridge of the mean loss.
    is_free : ndarray of shape (n_columns + 1,), bool
        Which of intercept and columns have no penalty.
    """
    gradient = np.sum([fold.gradient for fold in folds], axis=0)
    hessian = np.sum([fold.hessian for fold in folds], axis=0)
    total = sum(fold.weight for fold in folds)
    of_all = QuadraticApproximation.at(point, gradient / total, hessian / total, is_free)
    penalties = np.append(of_all.largest * SHARES, 0.0)
    held_out = np.zeros(len(penalties))
    for fold in folds:
        left = total - fold.weight
        if not (fold.weight > 0.0 and left > 0.0 and hessian[0, 0] > fold.hessian[0, 0]):
            continue
        terms = (gradient - fold.gradient) / left, (hessian - fold.hessian) / left
        others = QuadraticApproximation.at(point, *terms, is_free)
        coef = np.zeros(int((~is_free).sum()))
        for k, l1 in enumerate(penalties):
            solution = others.minimum(ridge, float(l1), coef)
            coef, step = solution[~is_free], solution - point
            held_out[k] += float(fold.gradient @ step + 0.5 * step @ fold.hessian @ step)
    best = int(np.argmin(held_out))
    return float(penalties[best]) if held_out[best] < held_out[-1] else 0.0
