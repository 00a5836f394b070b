"""C, the weight of the loss against half the squared norm, where it was not given."""

from __future__ import annotations

import math

import numpy as np

from daskfs.losses import find_loss

LEAST_C = 0.01
LEAST_C_TIMES_ROWS = 10.0
C_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Multiples of the default among which rows held out choose; larger ones are not tried after two in a row are worse."""
VALIDATION_SHARE = 0.2


def default_C(total_weight: float, loss: str, variance: float) -> float:
    """Return C where nobody said: 0.01, with fewer than 1,000 rows 10 / n, for columns of variance 1.

    Parameters
    ----------
    total_weight : float
        The number of rows, or the sum of their weights.
    loss : str
        The logistic loss has a quarter of the curvature of the others, so four times as large a C.
    variance : float
        Of the columns as the scores see them, from `typical_variance`: C is inversely proportional to it.
    """
    return max(LEAST_C, LEAST_C_TIMES_ROWS / total_weight) / variance / find_loss(loss).curvature_bound


def typical_variance(variance: np.ndarray) -> float:
    """Return the mean variance of the columns, each counting as its variance does; 1 where they are standardised.

    Examples
    --------
    >>> typical_variance(np.array([0.0, 1.0, 1.0]))
    1.0
    """
    exponent = int(np.frexp(variance.max(initial=0.0))[1])
    within = np.ldexp(variance, -exponent)  # whose squares are finite
    total = float(within.sum())
    return math.ldexp(float(within @ within) / total, exponent) if total > 0.0 else 1.0
