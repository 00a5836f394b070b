"""Generalised information criteria: the penalty for one more feature."""

from __future__ import annotations

import functools
import math

from daskfs.errors import ConfigError, did_you_mean

CRITERIA = ("vote", "bic", "ric", "ebic")
FALSE_FEATURES = 0.01  # expected number of noise features that a vote may let in


@functools.lru_cache(maxsize=1024)  # called several times for each of many subsets
def feature_penalty(criterion: str, n_samples: float, n_features: int, gamma: float = 0.5, n_subsets: int = 1) -> float:
    """Return λ of ``GIC(M) = n log(RSS_M / n) + λ |M|``.

    Parameters
    ----------
    criterion : {"vote", "bic", "ric", "ebic"}
        bic: log n. ric: 2 (log p + log log p). ebic: log n + 2 gamma log p; gamma=1 is the extended BIC of
        Wang, Peng and Dunson (2014), gamma=0 is bic. vote: the larger of bic and what the vote of few subsets needs
        (`vote_penalty`), at most ebic.
    n_samples : float
        n, or the sum of the weights.
    n_features : int
        p, the number of candidates.
    gamma : float
        γ of ebic.
    n_subsets : int
        Number of voting subsets, for the criterion "vote".

    Returns
    -------
    float

    Raises
    ------
    ConfigError
        The criterion is unknown.

    Examples
    --------
    >>> round(feature_penalty("ebic", 400, 1000, gamma=1.0), 2)
    19.81
    >>> round(feature_penalty("ric", 400, 1000), 2)
    17.68
    """
    log_p = math.log(max(n_features, 1))
    if criterion == "bic":
        return math.log(n_samples)
    if criterion == "ric":
        return 2.0 * (log_p + math.log(max(log_p, 1.0)))  # log log p is negative below p = 3
    if criterion == "ebic":
        return math.log(n_samples) + 2.0 * gamma * log_p
    if criterion == "vote":
        most = feature_penalty("ebic", n_samples, n_features, gamma)
        return min(max(math.log(n_samples), vote_penalty(n_subsets, n_features)), most)
    raise ConfigError(
        f"expected one of {', '.join(CRITERIA)}, found {criterion!r}{did_you_mean(str(criterion), CRITERIA)}",
        "criterion",
        "choose one of them",
    )


@functools.lru_cache
def vote_penalty(n_subsets: int, n_features: int) -> float:
    """Return the smallest λ at which a vote is expected to let in at most `FALSE_FEATURES` noise features.

    A subset selects a noise feature if its χ² with one degree of freedom exceeds λ. The vote errs if half of the
    subsets do. Many subsets are protected against noise by the vote itself. A large λ would then only lose weak
    features, because fewer than half of the subsets would select them.

    Parameters
    ----------
    n_subsets : int
    n_features : int

    Returns
    -------
    float

    Examples
    --------
    >>> [round(vote_penalty(m, 1000), 1) for m in (1, 3, 5, 25)]
    [19.5, 9.7, 6.6, 2.1]
    """
    low, high = 0.0, 200.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        share = math.erfc(math.sqrt(0.5 * middle))
        if n_features * binomial_tail(n_subsets, share, (n_subsets + 1) // 2) > FALSE_FEATURES:
            low = middle
        else:
            high = middle
    return high


def binomial_tail(n: int, share: float, k: int) -> float:
    """Return P(B >= k) of a binomial B of `n` trials.

    Examples
    --------
    >>> round(binomial_tail(2, 0.5, 1), 12)
    0.75
    """
    if share <= 0.0 or share >= 1.0:
        return float(share >= 1.0 or k <= 0)
    yes, no = math.log(share), math.log1p(-share)
    total = math.lgamma(n + 1)
    tail = 0.0
    for j in range(max(k, 0), n + 1):
        term = math.exp(total - math.lgamma(j + 1) - math.lgamma(n - j + 1) + j * yes + (n - j) * no)
        tail += term
        if j > n * share and term <= 1e-17 * tail:  # terms decrease from here on
            break
    return tail
