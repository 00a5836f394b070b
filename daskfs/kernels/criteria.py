"""Generalised information criteria: what one more feature costs."""

from __future__ import annotations

import math

from daskfs.errors import ConfigError, did_you_mean

CRITERIA = ("bic", "ric", "ebic")


def feature_penalty(criterion: str, n_samples: float, n_features: int, gamma: float = 0.5) -> float:
    """Return λ of ``GIC(M) = n log(RSS_M / n) + λ |M|``.

    Parameters
    ----------
    criterion : {"bic", "ric", "ebic"}
        bic: log n. ric: 2 (log p + log log p). ebic: log n + 2 gamma log p; gamma=1 is the extended BIC of
        Wang, Peng and Dunson (2014), gamma=0 is bic.
    n_samples : float
        n, or the sum of the weights.
    n_features : int
        p, the number of candidates.
    gamma : float
        Of ebic alone.

    Returns
    -------
    float

    Raises
    ------
    ConfigError
        Unknown criterion.

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
    raise ConfigError(
        f"expected one of {', '.join(CRITERIA)}, found {criterion!r}{did_you_mean(str(criterion), CRITERIA)}",
        "criterion",
        "choose one of them",
    )
