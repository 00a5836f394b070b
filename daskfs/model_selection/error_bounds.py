"""Bounds on the expected number of false selections of stability selection, from its two papers.

N. Meinshausen, P. Buehlmann (2010): Stability selection. J. R. Stat. Soc. B 72, 417-473, theorem 1.
R. D. Shah, R. J. Samworth (2013): Variable selection with error control: another look at stability selection.
J. R. Stat. Soc. B 75, 55-80, theorems 1 and 2, equation (8).

Let q be the average number of features selected from half of the rows, and p the total number of features. L is the set
of features that half of the rows select with probability at most q / p. It contains the null features if the selector
is better than chance. The bounds are for the expected number of features in L whose frequency over `n_pairs`
complementary pairs reaches a threshold. They differ in the assumption about the distribution of these frequencies:

- **"none"**: no assumption (theorem 1 of Shah and Samworth; that of Meinshausen and Buehlmann assumes exchangeable
  noise and bounds the number of noise features instead).
- **"unimodal"**: the proportion of pairs in which both halves select a feature has a unimodal distribution (theorem 2).
- **"r-concave"**: this distribution is also (-1/2)-concave, and that of the frequency itself (-1/4)-concave, which is
  between unimodal and log-concave. It holds in all examples of the paper, and the bound is several times smaller.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from daskfs.errors import ConfigError

Assumption: TypeAlias = Literal["r-concave", "unimodal", "none"]
_STEPS = 60
"""Iterations of bisections and golden-section searches, down to rounding errors."""


class ErrorControl(NamedTuple):
    """A threshold, the number of features selected from half of the rows, and the resulting bound."""

    threshold: float
    n_selected: float
    pfer: float
    """Bound on the expected number of false selections (per-family error rate)."""


def expected_false_selections(
    threshold: float, n_selected: float, n_features: int, n_pairs: int = 50, assumption: Assumption = "r-concave"
) -> float:
    """Return the bound on the expected number of false selections.

    Parameters
    ----------
    threshold : float
        Proportion of the subsamples that must select a feature.
    n_selected : float
        q, the average number of features selected from half of the rows.
    n_features : int
        p, the total number of features.
    n_pairs : int
        B, the number of complementary pairs.
    assumption : {"r-concave", "unimodal", "none"}

    Returns
    -------
    float
        The bound; at most p, which is not informative.

    Examples
    --------
    >>> [round(expected_false_selections(0.6, 10, 100, 50, a), 3) for a in ("r-concave", "unimodal", "none")]
    [1.141, 2.632, 5.0]
    """
    share = n_selected / n_features
    if share <= 0.0:
        return 0.0
    n_needed = math.ceil(round(2 * n_pairs * threshold, 9))  # subsamples
    tau = n_needed / (2 * n_pairs)
    if assumption == "r-concave":
        twice = largest_tail(share**2, n_needed - n_pairs, n_pairs, -0.5)
        once = largest_tail(share, n_needed, 2 * n_pairs, -0.25)
        return min(twice, once) * n_features
    if tau <= 0.5:
        return float(n_features)
    worst = share * n_selected / (2.0 * tau - 1.0)
    if assumption == "none":
        return min(worst, n_features)
    return min(_unimodal_factor(tau, share, n_pairs) * share * n_selected, n_features)


def _unimodal_factor(tau: float, share: float, n_pairs: int) -> float:
    """Return C(tau, B) of theorem 2; infinite if the theorem does not apply."""
    half = 1.0 / (2.0 * n_pairs)
    if share > 1.0 / math.sqrt(3.0) or tau <= min(0.5 + share**2, 0.5 + half + 0.75 * share**2):
        return math.inf
    if tau <= 0.75:
        return 1.0 / (2.0 * (2.0 * tau - 1.0 - half)) if 2.0 * tau - 1.0 > half else math.inf
    return 4.0 * (1.0 - tau + half) / (1.0 + 2.0 * half)


@lru_cache(maxsize=4096)
def largest_tail(mean: float, t: int, n: int, r: float) -> float:
    """Return the largest P(X >= t) of r-concave X on 0, 1, ..., n with mean at most ``mean * n``: D in the paper.

    The maximum is attained by probabilities proportional to (a + i)^(1/r) at 0, ..., k with the remainder at k + 1, for
    some k. Here a lies between the value with no remainder at k + 1 and the value at which k + 1 follows the same
    formula.

    Parameters
    ----------
    mean : float
        Between 0 and 1.
    t : int
    n : int
    r : float
        Negative.
    """
    m = mean * n
    first = math.ceil(round(2.0 * m, 9)) + 1
    if t < first or first >= n:
        return 1.0
    best, above = 0.0, _weight_of_mean(first, m, r)
    for k in range(first, n):
        below = _weight_of_mean(k + 1, m, r)
        if k + 1 >= t:
            best = max(best, _largest_between(below, above, t, k, m, r))
        above = below
    return min(best, 1.0)


@lru_cache(maxsize=65536)
def _weight_of_mean(k: int, m: float, r: float) -> float:
    """Return a such that probabilities proportional to (a + i)^(1/r) at 0, ..., k have mean m."""
    i = np.arange(k + 1)

    def mean(log_a: float) -> float:
        p = (math.exp(log_a) + i) ** (1.0 / r)
        return float(i @ p / p.sum())

    low, high = math.log(1e-9), math.log(1e9)  # the mean increases from about 0 to k / 2 with a
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mean(middle) < m else (low, middle)
    return math.exp(0.5 * (low + high))


def _largest_between(low: float, high: float, t: int, k: int, m: float, r: float) -> float:
    """Return the largest tail for a between two values, where it has one maximum, by golden-section search."""
    i = np.arange(k + 1)

    def tail(a: float) -> float:
        p = (a + i) ** (1.0 / r)
        return 1.0 - (k + 1 - m) * float(p[:t].sum()) / float((k + 1 - i) @ p)

    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    best = max(tail(low), tail(high))
    for _ in range(_STEPS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        at_left, at_right = tail(left), tail(right)
        best = max(best, at_left, at_right)
        low, high = (low, right) if at_left > at_right else (left, high)
        if high - low <= 1e-9 * high:
            break
    return best


def largest_n_selected(
    threshold: float, pfer: float, n_features: int, n_pairs: int = 50, assumption: Assumption = "r-concave"
) -> int:
    """Return the largest integer q for which the bound is at most `pfer`; other parameters as in the bound.

    Raises
    ------
    ConfigError
        Even one selected feature exceeds `pfer`.

    Examples
    --------
    >>> largest_n_selected(0.6, 0.2, 200), largest_n_selected(0.6, 0.2, 200, assumption="unimodal")
    (6, 3)
    """

    def is_within(q: int) -> bool:
        return expected_false_selections(threshold, q, n_features, n_pairs, assumption) <= pfer

    if not is_within(1):
        least = expected_false_selections(threshold, 1, n_features, n_pairs, assumption)
        problem = f"selecting one of {n_features:,} features on a half gives a bound of {least:.3g} false selections"
        raise ConfigError(f"{problem}, above {pfer:g}", "pfer", "raise it, or the threshold, or n_pairs")
    low, high = 1, n_features + 1  # the bound increases with q
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_within(middle) else (low, middle)
    return low


def smallest_threshold(
    n_selected: float, pfer: float, n_features: int, n_pairs: int = 50, assumption: Assumption = "r-concave"
) -> float:
    """Return the smallest threshold above 1/2 for which the bound is at most `pfer`, a multiple of 1 / (2 n_pairs).

    Raises
    ------
    ConfigError
        Even a threshold of 1 exceeds `pfer`.

    Examples
    --------
    >>> smallest_threshold(7, 0.2, 200), smallest_threshold(7, 0.2, 200, assumption="unimodal")
    (0.62, 0.81)
    """
    for n_needed in range(n_pairs + 1, 2 * n_pairs + 1):
        tau = n_needed / (2 * n_pairs)
        if expected_false_selections(tau, n_selected, n_features, n_pairs, assumption) <= pfer:
            return tau
    least = expected_false_selections(1.0, n_selected, n_features, n_pairs, assumption)
    problem = f"selecting {n_selected:g} features on a half gives a bound of {least:.3g} false selections"
    remedy = "raise it, or select fewer features"
    raise ConfigError(f"{problem}, above {pfer:g}, even with a threshold of 1", "pfer", remedy)


def error_control(
    n_features: int,
    threshold: float | None = None,
    n_selected: float | None = None,
    pfer: float | None = None,
    n_pairs: int = 50,
    assumption: Assumption = "r-concave",
) -> ErrorControl:
    """Compute the third of threshold, number selected from half of the rows and bound from the other two.

    Raises
    ------
    ConfigError
        The number of given values is not two, or there is no solution.

    Examples
    --------
    >>> error_control(100, threshold=0.6, pfer=1.0).n_selected
    9
    """
    if [threshold, n_selected, pfer].count(None) != 1:
        n_given = 3 - [threshold, n_selected, pfer].count(None)
        raise ConfigError(f"expected two of these, found {n_given}", "threshold, n_selected, pfer", "leave one out")
    if n_selected is None:
        n_selected = largest_n_selected(float(threshold or 0.0), float(pfer or 0.0), n_features, n_pairs, assumption)
    if threshold is None:
        threshold = smallest_threshold(n_selected, float(pfer or 0.0), n_features, n_pairs, assumption)
    bound = expected_false_selections(threshold, n_selected, n_features, n_pairs, assumption)
    return ErrorControl(threshold, n_selected, bound)
