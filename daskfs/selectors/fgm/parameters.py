"""What the parameters of FGM may be, and what they are where nobody said."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from daskfs.errors import ConfigError, did_you_mean
from daskfs.selectors.fgm.plan import DEFAULT_PER_PASS, MAX_PASSES
from daskfs.selectors.message.plan import is_whole

if TYPE_CHECKING:
    from daskfs.selectors.fgm.selector import FGM

FGM_LOSSES = ("squared_hinge", "logistic", "squared")
SOLVERS = ("apg", "exact", "simple_mkl")
LEAST_C = 0.01
LEAST_C_TIMES_ROWS = 10.0
C_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Multiples of the default among which rows held out choose; larger ones are not tried after two in a row are worse."""
VALIDATION_SHARE = 0.2
PASSES_TO_COUNT = 10
"""Passes in which an asked number of features is reached, where `n_features_per_pass` is not given."""


def check_parameters(selector: FGM) -> None:
    """Refuse what a parameter of FGM cannot be.

    Raises
    ------
    ConfigError
        Naming the parameter.
    """
    for name, known in (("loss", FGM_LOSSES), ("solver", SOLVERS)):
        value = getattr(selector, name)
        if value not in known:
            hint = did_you_mean(str(value), known)
            raise ConfigError(f"expected one of {', '.join(known)}, found {value!r}{hint}", name)
    for name in ("fit_intercept", "center", "normalize", "certify", "debias"):
        value = getattr(selector, name)
        if not isinstance(value, bool | np.bool_):
            raise ConfigError(f"expected True or False, found {value!r}", name)
    for name in ("n_features_to_select", "n_features_per_pass", "max_passes"):
        value = getattr(selector, name)
        if value is not None and not is_whole(value, 1):
            raise ConfigError(f"expected a whole number of at least 1, found {value!r}", name)
    for name in ("max_inner", "patience"):
        value = getattr(selector, name)
        if not is_whole(value, 1):
            raise ConfigError(f"expected a whole number of at least 1, found {value!r}", name)
    value = selector.C
    if isinstance(value, str) and value != "validation":
        raise ConfigError(f"expected a positive number or 'validation', found {value!r}", "C")
    if isinstance(value, Real) and not 0.0 < float(value) < np.inf:
        raise ConfigError(f"expected a positive number, found {value!r}", "C")
    for name in ("tol", "inner_tol"):
        value = getattr(selector, name)
        if not isinstance(value, Real) or not 0.0 <= float(value) < 1.0:
            raise ConfigError(f"expected a number from 0 to below 1, found {value!r}", name)
    share = selector.validation
    if share is not None and not (isinstance(share, Real) and not isinstance(share, bool) and 0.0 < float(share) < 1.0):
        raise ConfigError(f"expected a share between 0 and 1, found {share!r}", "validation", "0.2, say")


def check_count(selector: FGM, n_features: int) -> None:
    """Refuse to select more features than there are.

    Raises
    ------
    ConfigError
    """
    wanted = selector.n_features_to_select
    if wanted is not None and wanted > n_features:
        raise ConfigError(
            f"asks for {wanted:,} features, but there are {n_features:,}",
            "n_features_to_select",
            f"ask for at most {n_features:,}",
        )


def sizes(selector: FGM, n_features: int) -> tuple[int, int, int]:
    """Return features per pass (the paper's B), the most features there may be, and the most passes.

    Parameters
    ----------
    selector : FGM
    n_features : int
        Of the matrix.
    """
    wanted = selector.n_features_to_select
    per_pass = selector.n_features_per_pass
    if wanted is None:
        per_pass = min(per_pass or DEFAULT_PER_PASS, n_features)
        n_passes = selector.max_passes or MAX_PASSES
        return per_pass, min(per_pass * n_passes, n_features), n_passes
    least = max(1, -(-wanted // (selector.max_passes or PASSES_TO_COUNT)))
    if per_pass is not None and selector.max_passes is not None and per_pass < least:
        raise ConfigError(
            f"{wanted:,} features do not come in {selector.max_passes} passes of {per_pass}",
            "n_features_per_pass",
            f"set it to at least {least}, or allow more max_passes",
        )
    per_pass = min(per_pass or least, n_features)
    return per_pass, wanted, selector.max_passes or 2 * -(-wanted // per_pass)


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
    return max(LEAST_C, LEAST_C_TIMES_ROWS / total_weight) / variance * (4.0 if loss == "logistic" else 1.0)


def typical_variance(variance: np.ndarray) -> float:
    """Return the mean variance of the columns, each counting as its variance does; 1 where they are standardised.

    Examples
    --------
    >>> typical_variance(np.array([0.0, 1.0, 1.0]))
    1.0
    """
    total = float(variance.sum())
    return float(variance @ variance) / total if total > 0.0 else 1.0
