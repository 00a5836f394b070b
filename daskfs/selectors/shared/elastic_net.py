"""Which l1 penalty selected columns need beside their ridge: the one of least loss on rows that were held out.

At a point the loss of any rows is a parabola in the coefficients (of the squared loss exactly), so its terms there say
all: those of a fold what a fit loses on it, those of the others what is fitted without it. The rows are read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from daskfs.kernels.linear.elastic_net import elastic_net
from daskfs.selectors.shared.refit_on_block import RowTerms

N_FOLDS = 5
SHARES = 10.0 ** -np.arange(0.0, 4.01, 0.2)  # of the penalty that leaves no coefficient; and none
TOLERANCE = 1e-8  # of that penalty


class Parabola(NamedTuple):
    """The mean loss near a point, of the coefficients alone: the intercept is the best for them."""

    curvature: np.ndarray
    linear: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    point: np.ndarray

    @classmethod
    def at(cls, point: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> Self:
        """Return it from the terms at a point, of the intercept and then of the coefficients."""
        slope = hessian[1:, 0] / hessian[0, 0]
        curvature = np.ascontiguousarray(hessian[1:, 1:] - np.outer(slope, hessian[0, 1:]))
        linear = curvature @ point[1:] - (gradient[1:] - slope * gradient[0])
        return cls(curvature, linear, gradient, hessian, point)

    @property
    def largest(self) -> float:
        """The l1 penalty that leaves no coefficient."""
        return float(np.abs(self.linear).max(initial=0.0))

    def minimum(self, ridge: float, l1: float, start: np.ndarray) -> np.ndarray:
        """Return intercept and coefficients of the least penalised loss."""
        coef = np.array(start, dtype=np.float64)
        elastic_net(self.curvature, self.linear, ridge, l1, TOLERANCE * self.largest, coef, np.empty(len(coef)))
        moved = coef - self.point[1:]
        intercept = self.point[0] - (self.gradient[0] + self.hessian[0, 1:] @ moved) / self.hessian[0, 0]
        return np.concatenate([[intercept], coef])


def best_l1(folds: Sequence[RowTerms], point: np.ndarray, ridge: float) -> float:
    """Return the l1 penalty beside a ridge of least loss on the folds, each of a fit to the others; 0 where none helps.

    Parameters
    ----------
    folds : sequence of RowTerms
        The summed loss of each fold's rows at the point; its Hessian's first entry is 0 where they have no weight.
    point : ndarray of shape (n_columns + 1,)
    ridge : float
        Of the mean loss.
    """
    gradient = np.sum([fold.gradient for fold in folds], axis=0)
    hessian = np.sum([fold.hessian for fold in folds], axis=0)
    total = sum(fold.weight for fold in folds)
    penalties = np.append(Parabola.at(point, gradient / total, hessian / total).largest * SHARES, 0.0)
    held_out = np.zeros(len(penalties))
    for fold in folds:
        left = total - fold.weight
        if not (fold.weight > 0.0 and left > 0.0 and hessian[0, 0] > fold.hessian[0, 0]):
            continue
        others = Parabola.at(point, (gradient - fold.gradient) / left, (hessian - fold.hessian) / left)
        coef = np.zeros(len(point) - 1)
        for k, l1 in enumerate(penalties):
            solution = others.minimum(ridge, float(l1), coef)
            coef, step = solution[1:], solution - point
            held_out[k] += float(fold.gradient @ step + 0.5 * step @ fold.hessian @ step)
    best = int(np.argmin(held_out))
    return float(penalties[best]) if held_out[best] < held_out[-1] else 0.0
