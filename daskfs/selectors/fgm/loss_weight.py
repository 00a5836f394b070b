"""The default of C, the weight of the loss relative to half the squared norm."""

from __future__ import annotations

import math

import numpy as np

from daskfs.losses import find_loss

LEAST_C = 0.01
LEAST_C_TIMES_ROWS = 10.0
C_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Multiples of the default that held-out rows choose from; larger ones are not tried after two in a row were worse."""
VALIDATION_SHARE = 0.2


def default_C(total_weight: float, loss: str, variance: float) -> float:
    """Return the default of C: 0.01, or 10 / n with fewer than 1,000 rows, for columns of variance 1.

    Parameters
    ----------
    total_weight : float
        The number of rows, or the sum of their weights.
    loss : str
        The logistic loss has a quarter of the curvature of the others, so its C is four times as large.
    variance : float
        Variance of the columns as they are scored, from `typical_variance`. C is inversely proportional to it.
    """
    return max(LEAST_C, LEAST_C_TIMES_ROWS / total_weight) / variance / find_loss(loss).curvature_bound


def typical_variance(variance: np.ndarray) -> float:
    """Return the mean variance of the columns, weighted by the variances themselves; 1 if columns are standardised.

    Examples
    --------
    >>> typical_variance(np.array([0.0, 1.0, 1.0]))
    1.0
    """
    exponent = int(np.frexp(variance.max(initial=0.0))[1])
    within = np.ldexp(variance, -exponent)  # scaled so that squares are finite
    total = float(within.sum())
    return math.ldexp(float(within @ within) / total, exponent) if total > 0.0 else 1.0
