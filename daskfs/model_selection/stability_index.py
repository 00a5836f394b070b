"""Stability of selections, corrected for chance, with a confidence interval.

S. Nogueira, K. Sechidis, G. Brown (2018): On the stability of feature selection algorithms. J. Mach. Learn. Res. 18
(174), 1-54, definition 4 and theorem 7.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from daskfs.errors import ConfigError


class StabilityIndex(NamedTuple):
    """Stability index: 1 if all selections are equal, 0 on average for random selections."""

    value: float
    standard_error: float
    low: float
    high: float
    """Ends of the confidence interval."""


def stability_index(selections: Sequence[Collection[int]], n_features: int, confidence: float = 0.95) -> StabilityIndex:
    """Return the stability of selections, which may differ in size.

    Parameters
    ----------
    selections : sequence of collections of int
        Features selected on each of several samples.
    n_features : int
        Total number of features.
    confidence : float
        Level of the interval, which assumes independent samples. Subsamples of the same rows are not independent; then
        the interval is conditional on these rows.

    Returns
    -------
    StabilityIndex
        NaN if every selection is empty or complete.

    Raises
    ------
    ConfigError
        There are fewer than two selections.

    Examples
    --------
    >>> found = stability_index([[0, 1], [0, 1], [0, 2]], 4)
    >>> round(found.value, 3), round(found.standard_error, 3)
    (0.333, 0.181)
    """
    m, d = len(selections), n_features
    if m < 2:
        raise ConfigError(f"expected at least two selections, found {m}", "selections", "select on more samples")
    sets = [np.asarray([*selection], dtype=np.int64) for selection in selections]
    share = np.bincount(np.concatenate(sets), minlength=d) / m  # p_f
    size = np.array([len(one) for one in sets]) / d  # k_i / d
    mean = size.mean()
    chance = mean * (1.0 - mean)
    if chance <= 0.0:
        return StabilityIndex(*[math.nan] * 4)
    index = float(1.0 - m / (m - 1) * (share * (1.0 - share)).sum() / d / chance)
    common = np.array([share[one].sum() for one in sets]) / d
    phi = (common - size * mean + 0.5 * index * (2.0 * size * mean - size - mean + 1.0)) / chance
    error = 2.0 / m * math.sqrt(float(((phi - phi.mean()) ** 2).sum()))
    wide = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * error
    return StabilityIndex(index, error, index - wide, index + wide)
