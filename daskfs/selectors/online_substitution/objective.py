"""The objective of online substitution at a prediction, which a single engine makes or several workers share.

f = Σ_i a_i ℓ(u_i, y_i) / Σ_i a_i + ½ λ₂ Σ_k v_k²,   a the weights, v the coefficients of standardised columns

With several classes, each has its own prediction, intercept and coefficients, one against the rest; f is their sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from daskfs.kernels.losses import SPAN, values
from daskfs.kernels.losses import derivatives as loss_derivatives
from daskfs.losses import Loss, find_loss

MAX_STEPS = 100
MAX_HALVINGS = 20


@dataclass(frozen=True, slots=True)
class LossSettings:
    """A loss, and how it is fitted."""

    loss: Loss
    threshold: float = 0.0
    """Threshold of the epsilon-insensitive loss."""
    fits_intercept: bool = False
    """Whether the intercept is a parameter of its own; it is not if columns and target are centred."""


class Objective:
    """A loss, its target and weights, and the intercept.

    An array of the shape of `y` is one prediction, or with several classes one for each.

    Parameters
    ----------
    loss : str
    y : ndarray of shape (n_samples,), with more than two classes (n_classes, n_samples), float64
        Classes as -1 and +1; with the squared loss, centred if the columns are.
    weight : ndarray of shape (n_samples,), or (0,)
        Empty: all rows have equal weight.
    ridge : float
        λ₂.
    threshold : float
        Threshold of the loss, if it has one.
    fits_intercept : bool
        Whether an intercept is fitted with the prediction; False for a centred target.
    """

    def __init__(
        self,
        loss: str,
        y: np.ndarray,
        weight: np.ndarray,
        ridge: float = 0.0,
        threshold: float = 0.0,
        fits_intercept: bool = False,
    ) -> None:
        self.loss, self.y, self.weight, self.ridge = find_loss(loss), y, weight, ridge
        self.threshold, self.fits_intercept = threshold, fits_intercept and not self.loss.is_quadratic
        self.total = float(weight.sum()) if len(weight) else float(y.shape[-1])
        self.intercept = self._no_intercept()
        """Shape (1,), with several classes (n_classes, 1)."""
        self._bits = np.zeros(SPAN, np.int64)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        arguments = (self.loss.name, self.y, self.weight, self.ridge, self.threshold, self.fits_intercept)
        return Objective, arguments

    def _no_intercept(self) -> np.ndarray:
        return np.zeros((*self.y.shape[:-1], 1))

    @property
    def settings(self) -> LossSettings:
        """The loss, and how it is fitted."""
        return LossSettings(self.loss, self.threshold, self.fits_intercept)

    @property
    def no_coef(self) -> np.ndarray:
        """The coefficients of no columns, of shape (0,), with several classes (0, n_classes)."""
        return np.zeros((0, *self.y.shape[:-1]))

    def penalty(self, coef: np.ndarray) -> float:
        """Return ½ λ₂ |v|²."""
        return 0.5 * self.ridge * float(np.sum(coef * coef)) if self.ridge else 0.0

    def value(self, prediction: np.ndarray, penalty: float = 0.0) -> float:
        """Return f."""
        losses = np.empty(prediction.shape)
        values(self.loss.code, self.threshold, prediction.ravel(), self.y.ravel(), losses.ravel(), self._bits)
        return float(np.sum(self._means(losses))) + penalty

    def derivatives(self, prediction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ℓ' and ℓ'' of every row, times the row's weight, in the shape of the prediction."""
        derivative, curvature = np.empty(prediction.shape), np.empty(prediction.shape)
        at, found = (prediction.ravel(), self.y.ravel()), (derivative.ravel(), curvature.ravel())  # these share memory
        loss_derivatives(self.loss.code, self.threshold, *at, *found, self._bits)
        if len(self.weight):
            derivative *= self.weight
            curvature *= self.weight
        return derivative, curvature

    def without_features(self) -> tuple[np.ndarray, float]:
        """Return the prediction of the best intercept alone, and its f."""
        self.intercept = self._no_intercept()
        prediction = np.zeros(self.y.shape)
        value = self.value(prediction)
        least_gain = 1e-12 * abs(value)
        for _ in range(MAX_STEPS):  # with rows of only one class there is no best intercept: f decreases without end
            lower, moved, intercept = self.with_best_intercept(prediction, 0.0)
            if not lower < value - least_gain:
                break
            prediction, value, self.intercept = moved, lower, intercept
        return prediction, value

    def with_best_intercept(self, prediction: np.ndarray, penalty: float) -> tuple[float, np.ndarray, np.ndarray]:
        """Return f after one Newton step of the intercept from a prediction, the new prediction and the intercept.

        The step is halved until f does not rise; the given prediction is not changed.
        """
        value = self.value(prediction, penalty)
        if not self.fits_intercept or not math.isfinite(value):
            return value, prediction, self.intercept
        derivative, curvatures = self.derivatives(prediction)
        curvature = curvatures.sum(axis=-1, keepdims=True) / self.total
        if not curvature.any():
            return value, prediction, self.intercept
        slope = derivative.sum(axis=-1, keepdims=True) / self.total
        step = np.where(curvature > 0.0, -slope / np.maximum(curvature, 1e-6), 0.0)
        for _ in range(MAX_HALVINGS):
            trial = prediction + step
            found = self.value(trial, penalty)
            if found <= value:
                return found, trial, self.intercept + step
            step = 0.5 * step
        return value, prediction, self.intercept

    def _means(self, numbers: np.ndarray) -> np.ndarray:
        """Return the weighted mean of each prediction's numbers, in the shape of the intercept."""
        weighted = numbers * self.weight if len(self.weight) else numbers
        means: np.ndarray = weighted.sum(axis=-1, keepdims=True) / self.total
        return means
