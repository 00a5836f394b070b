"""The objective of online substitution at a prediction that several workers share.

f = Σ_i a_i ℓ(u_i, y_i) / Σ_i a_i + ½ λ₂ Σ_k v_k²,   a the weights, v the coefficients of standardised columns
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.losses import SPAN, values
from daskfs.kernels.losses import derivatives as loss_derivatives
from daskfs.losses import SQUARED

MAX_STEPS = 100
MAX_HALVINGS = 20


class SharedObjective:
    """A loss, its target and weights, and the intercept.

    Parameters
    ----------
    loss : int
        A code of `daskfs.kernels.losses`.
    y : ndarray of shape (n_samples,), float64
        Classes as -1 and +1; with the squared loss centred, where columns are.
    weight : ndarray of shape (n_samples,), or (0,)
        Empty: all rows count the same.
    ridge : float
        λ₂.
    threshold : float
        Of the loss, where it has one.
    fits_intercept : bool
        Whether an intercept moves with the prediction; not with a target that is centred.
    """

    def __init__(
        self,
        loss: int,
        y: np.ndarray,
        weight: np.ndarray,
        ridge: float = 0.0,
        threshold: float = 0.0,
        fits_intercept: bool = False,
    ) -> None:
        self.loss, self.y, self.weight, self.ridge = loss, y, weight, ridge
        self.threshold, self.fits_intercept = threshold, fits_intercept and loss != SQUARED
        self.total = float(weight.sum()) if len(weight) else float(len(y))
        self.intercept = 0.0
        self._bits = np.zeros(SPAN, np.int64)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        arguments = (self.loss, self.y, self.weight, self.ridge, self.threshold, self.fits_intercept)
        return SharedObjective, arguments

    def penalty(self, coef: np.ndarray) -> float:
        """Return ½ λ₂ |v|²."""
        return 0.5 * self.ridge * float(np.sum(coef * coef)) if self.ridge else 0.0

    def value(self, prediction: np.ndarray, penalty: float = 0.0) -> float:
        """Return f."""
        losses = np.empty(len(prediction))
        values(self.loss, self.threshold, prediction, self.y, losses, self._bits)
        return self._mean(losses) + penalty

    def derivatives(self, prediction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ℓ' and ℓ'' of every row."""
        derivative, curvature = np.empty(len(prediction)), np.empty(len(prediction))
        loss_derivatives(self.loss, self.threshold, prediction, self.y, derivative, curvature, self._bits)
        return derivative, curvature

    def without_features(self) -> tuple[np.ndarray, float]:
        """Return the prediction of the best intercept alone, and its f."""
        self.intercept = 0.0
        prediction = np.zeros(len(self.y))
        value = self.value(prediction)
        least_gain = 1e-12 * abs(value)
        for _ in range(MAX_STEPS):  # rows of one class have no best intercept: their f falls for ever
            lower, moved, intercept = self.with_best_intercept(prediction, 0.0)
            if not lower < value - least_gain:
                break
            prediction, value, self.intercept = moved, lower, intercept
        return prediction, value

    def with_best_intercept(self, prediction: np.ndarray, penalty: float) -> tuple[float, np.ndarray, float]:
        """Return f after one Newton step of the intercept from a prediction, that prediction and the intercept.

        Where f would rise, of half the step, a quarter, ...; the prediction that is given stays as it is.
        """
        value = self.value(prediction, penalty)
        if not self.fits_intercept or not math.isfinite(value):
            return value, prediction, self.intercept
        derivative, curvatures = self.derivatives(prediction)
        curvature = self._mean(curvatures)
        if curvature <= 0.0:
            return value, prediction, self.intercept
        step = -self._mean(derivative) / max(curvature, 1e-6)
        for _ in range(MAX_HALVINGS):
            trial = prediction + step
            found = self.value(trial, penalty)
            if found <= value:
                return found, trial, self.intercept + step
            step *= 0.5
        return value, prediction, self.intercept

    def _mean(self, numbers: np.ndarray) -> float:
        if len(self.weight):
            return float(np.sum(numbers * self.weight)) / self.total
        return float(np.sum(numbers)) / self.total
