"""What online substitution explains: the target as the engines have it, and the loss of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.matrix.base import Matrix
from daskfs.selectors.online_substitution.engines.point import LossSettings, loss_settings
from daskfs.selectors.shared.targets import checked_target, classes_of


@dataclass(frozen=True, slots=True)
class Target:
    """A target and the weights of its rows."""

    y: np.ndarray
    """Classes as -1 and +1; with the squared loss and an intercept centred. Shape (n_samples,), float64."""
    weight: np.ndarray
    """Of shape (n_samples,), or `NO_WEIGHT`."""
    location: float
    """What was taken off the target."""
    classes: np.ndarray | None
    """The values of the target that -1 and +1 stand for."""
    loss: LossSettings


def read_target(matrix: Matrix, loss: str, epsilon: float | None, fits_intercept: bool) -> Target:
    """Return the target of a matrix for a loss.

    Raises
    ------
    DataError
        It does not suit the loss, or all weights are 0.
    """
    y = np.require(checked_target(matrix, loss), dtype=np.float64, requirements=["C", "W"])
    found = matrix.read_weight(slice(None))
    weight = NO_WEIGHT if found is None else np.require(found, dtype=np.float64, requirements=["C", "W"])
    if found is not None and not weight.any():
        raise DataError("expected a positive weight, found none", "sample_weight", "check the weights")
    given, location, classes = (weight if len(weight) else None), 0.0, None
    settings = loss_settings(loss, y, given, epsilon, fits_intercept)
    if settings.loss.is_two_class:
        classes = classes_of(y, None)
        y = np.where(y == classes[1], 1.0, -1.0)
    elif loss == "squared" and fits_intercept:
        location = float(np.average(y, weights=given))
        y = y - location
    return Target(y, weight, location, classes, settings)
