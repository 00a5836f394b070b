"""The knockoff filter: select with a bounded false discovery rate from knockoff statistics.

R. F. Barber, E. J. Candes (2015): Controlling the false discovery rate via knockoffs. Ann. Stat. 43, 2055-2085: the
thresholds. Z. Ren, R. F. Barber (2024): Derandomised knockoffs: leveraging e-values for false discovery rate control.
J. R. Stat. Soc. B 86, 122-154: several draws.

A statistic W is large if a feature is more important than its knockoff. For a null feature, both signs are equally
likely, conditionally on the other statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def knockoff_threshold(statistics: np.ndarray, fdr: float, offset: int = 1) -> float:
    """Return the smallest t > 0 with (offset + #{W <= -t}) / #{W >= t} at most `fdr`; infinite if there is none.

    Parameters
    ----------
    statistics : ndarray of shape (n,)
    fdr : float
    offset : {1, 0}
        1 (knockoff+) bounds the false discovery rate; 0 bounds a modified rate, false selections over selections +
        1 / fdr.

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
    """Return the e-values of one draw: n / (1 + #{W <= -T}) for features selected by knockoff+ at `level`, else 0.

    The expected sum over null features is at most n.
    """
    t = knockoff_threshold(statistics, level)
    if math.isinf(t):
        return np.zeros(len(statistics))
    return np.where(statistics >= t, len(statistics) / (1.0 + np.count_nonzero(statistics <= -t)), 0.0)


def e_selection(values: np.ndarray, fdr: float) -> np.ndarray:
    """Return which e-values are selected by the Benjamini-Hochberg procedure for e-values (Wang and Ramdas 2022).

    It bounds the false discovery rate by `fdr` under any dependence of the e-values.

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
    """Return the mean e-values of several draws, and the features they select with a false discovery rate of `fdr`.

    The e-values of each draw are those of knockoff+ at fdr / 2, as the paper advises. With a single draw they select
    less than the threshold does.

    Parameters
    ----------
    draws : sequence of ndarrays of shape (n,)
        Statistics of each draw.
    fdr : float
    """
    mean = np.mean([e_values(statistics, 0.5 * fdr) for statistics in draws], axis=0)
    return mean, e_selection(mean, fdr)
