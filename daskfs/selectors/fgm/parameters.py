"""What the parameters of FGM may be, and what they are where nobody said."""

from __future__ import annotations

import numpy as np

from daskfs.errors import ConfigError
from daskfs.losses import find_loss
from daskfs.selectors.fgm.plan import DEFAULT_PER_PASS, MAX_PASSES

LEAST_C = 0.01
LEAST_C_TIMES_ROWS = 10.0
C_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Multiples of the default among which rows held out choose; larger ones are not tried after two in a row are worse."""
VALIDATION_SHARE = 0.2
PASSES_TO_COUNT = 10
"""Passes in which an asked number of features is reached, where `n_features_per_pass` is not given."""


def sizes(wanted: int | None, per_pass: int | None, max_passes: int | None, n_features: int) -> tuple[int, int, int]:
    """Return features per pass (the paper's B), the most features there may be, and the most passes.

    Parameters
    ----------
    wanted, per_pass, max_passes : int or None
        The parameters `n_features_to_select`, `n_features_per_pass` and `max_passes` of FGM.
    n_features : int
        Of the matrix.
    """
    if wanted is None:
        per_pass = min(per_pass or DEFAULT_PER_PASS, n_features)
        n_passes = max_passes or MAX_PASSES
        return per_pass, min(per_pass * n_passes, n_features), n_passes
    least = max(1, -(-wanted // (max_passes or PASSES_TO_COUNT)))
    if per_pass is not None and max_passes is not None and per_pass < least:
        raise ConfigError(
            f"{wanted:,} features do not come in {max_passes} passes of {per_pass}",
            "n_features_per_pass",
            f"set it to at least {least}, or allow more max_passes",
        )
    per_pass = min(per_pass or least, n_features)
    return per_pass, wanted, max_passes or 2 * -(-wanted // per_pass)


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
    total = float(variance.sum())
    return float(variance @ variance) / total if total > 0.0 else 1.0
