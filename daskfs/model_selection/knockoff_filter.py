"""From statistics of columns against their knockoffs to a selection whose false discovery rate is bounded.

R. F. Barber, E. J. Candes (2015): Controlling the false discovery rate via knockoffs. Ann. Stat. 43, 2055-2085: the
thresholds. Z. Ren, R. F. Barber (2024): Derandomised knockoffs: leveraging e-values for false discovery rate control.
J. R. Stat. Soc. B 86, 122-154: several draws.

A statistic W is large where a feature counts for more than its knockoff; of a feature that is noise, either sign is
equally likely, whatever the others' statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def knockoff_threshold(statistics: np.ndarray, fdr: float, offset: int = 1) -> float:
    """Return the smallest t > 0 with (offset + #{W <= -t}) / #{W >= t} at most `fdr`; infinite where there is none.

    Parameters
    ----------
    statistics : ndarray of shape (n,)
    fdr : float
    offset : {1, 0}
        1, knockoff+, bounds the false discovery rate; 0 a modified rate, of falsely selected over selected + 1 / fdr.

    Examples
    --------
    >>> W = np.array([5.0, 4.0, 3.0, -2.0, 1.0, 0.0])
    >>> float(knockoff_threshold(W, 0.4)), float(knockoff_threshold(W, 0.3)), float(knockoff_threshold(W, 0.3, 0))
    (3.0, inf, 1.0)
    """
    candidates = np.unique(np.abs(statistics[statistics != 0.0]))
    ordered = np.sort(statistics)
    n_false = offset + np.searchsorted(ordered, -candidates, side="right")
    n_selected = len(ordered) - np.searchsorted(ordered, candidates, side="left")
    good = np.flatnonzero(n_false <= fdr * np.maximum(n_selected, 1))
    return float(candidates[good[0]]) if len(good) else math.inf


def e_values(statistics: np.ndarray, level: float) -> np.ndarray:
    """Return the e-values of one draw: n / (1 + #{W <= -T}) of the features that knockoff+ at `level` selects, else 0.

    Those of noise have a sum of n at most on average.
    """
    t = knockoff_threshold(statistics, level)
    if math.isinf(t):
        return np.zeros(len(statistics))
    return np.where(statistics >= t, len(statistics) / (1.0 + np.count_nonzero(statistics <= -t)), 0.0)


def e_selection(values: np.ndarray, fdr: float) -> np.ndarray:
    """Return which e-values the procedure of Wang and Ramdas (2022) selects: a Benjamini-Hochberg for e-values.

    It bounds the false discovery rate by `fdr`, however the e-values depend on each other.

    Examples
    --------
    >>> e_selection(np.array([40.0, 30.0, 5.0, 0.0]), 0.1)
    array([ True,  True, False, False])
    """
    n = len(values)
    ordered = np.sort(values)[::-1]
    good = np.flatnonzero(np.arange(1, n + 1) * ordered >= n / fdr * (1.0 - 1e-12))
    if not len(good):
        return np.zeros(n, bool)
    found: np.ndarray = values >= ordered[good[-1]]
    return found


def derandomised(draws: Sequence[np.ndarray], fdr: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean e-values of several draws, and which features they select with a rate of `fdr` at most.

    Each draw's e-values are those of knockoff+ at fdr / 2, as the paper advises; of a single draw they select less
    than the threshold does.

    Parameters
    ----------
    draws : sequence of ndarrays of shape (n,)
        Statistics.
    fdr : float
    """
    mean = np.mean([e_values(statistics, 0.5 * fdr) for statistics in draws], axis=0)
    return mean, e_selection(mean, fdr)
