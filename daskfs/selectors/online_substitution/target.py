"""The target of online substitution in the form that the engines use, and its loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs import errors
from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.selectors.online_substitution.objective import LossSettings
from daskfs.selectors.shared.targets import checked_target, classes_of, signs_of

DataError = errors.DataError.about("target")

EPSILON_SHARE = 0.1  # share of the target's standard deviation


@dataclass(frozen=True, slots=True)
class Target:
    """A target and the weights of its rows."""

    y: np.ndarray
    """Classes as -1 and +1; with the squared loss and an intercept, centred numbers.

    Shape (n_samples,), float64; with several classes (n_classes, n_samples), each class against the rest.
    """
    weight: np.ndarray
    """Shape (n_samples,), or `NO_WEIGHT`."""
    location: float
    """Mean that was subtracted from the target."""
    classes: np.ndarray | None
    """The class labels, ascending; with two classes they are coded as -1 and +1. None for regression."""
    loss: LossSettings

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.y.shape[-1])

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for regression."""
        return 0 if self.classes is None else len(self.classes)


def read_target(
    matrix: Matrix, loss: str, epsilon: float | None, fits_intercept: bool, takes_several: bool = False
) -> Target:
    """Return the target of a matrix for a loss.

    Parameters
    ----------
    matrix : Matrix
    loss : str
    epsilon : float, optional
        Threshold of the epsilon-insensitive loss.
    fits_intercept : bool
    takes_several : bool
        Whether more than two classes are supported.

    Raises
    ------
    DataError
        The target does not match the loss, or all weights are 0.
    """
    y = np.require(checked_target(matrix, loss), dtype=np.float64, requirements=["C", "W"])
    found = matrix.read_weight(slice(None))
    weight = NO_WEIGHT if found is None else np.require(found, dtype=np.float64, requirements=["C", "W"])
    if found is not None and not weight.any():
        raise DataError("expected a positive weight, found none", "sample_weight", "check the weights")
    given, location, classes = (weight if len(weight) else None), 0.0, None
    settings = loss_settings(loss, y, given, epsilon, fits_intercept)
    if settings.loss.is_two_class:
        classes = classes_of(y if given is None else y[given > 0.0], None, many=takes_several)
        y = signs_of(y, classes)
        y = y[0] if len(y) == 1 else y
    elif settings.loss.is_quadratic and fits_intercept:
        location = float(np.average(y, weights=given))
        y = y - location
    return Target(y, weight, location, classes, settings)


def loss_settings(
    name: str, y: np.ndarray, weight: np.ndarray | None, epsilon: float | None, fits_intercept: bool
) -> LossSettings:
    """Return a loss with its settings for a target.

    Parameters
    ----------
    name : str
    y : ndarray of shape (n_samples,)
    weight : ndarray of shape (n_samples,), optional
    epsilon : float, optional
        Threshold of the epsilon-insensitive loss; by default a tenth of the target's standard deviation.
    fits_intercept : bool
        With the squared loss, columns and target are centred instead.
    """
    loss, threshold = find_loss(name), 0.0
    if loss.threshold == "spread":
        spread = np.sqrt(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
        threshold = EPSILON_SHARE * float(spread) if epsilon is None else float(epsilon)
    return LossSettings(loss, threshold, fits_intercept and not loss.is_quadratic)
