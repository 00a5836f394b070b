"""Standard errors and 95 % intervals of the averaged fit, and a check of them against the variation between subsets.

Given the features, the subsets' fits b_i are independent and approximately normal about β, with variance v_i: the
inverse information of subset i (times the dispersion of the noise). So asymptotically (Wang, Peng and Dunson, section
3)

    mean         Var β_j = Σ_i v_ij / m²
    one step     Var β_j = (Σ_i H_i)⁻¹_jj, the inverse information of all rows: the smallest possible
    median       Var β_j = V(m) median_i v_ij, V(m) the variance of the median of m standard normals

They need no further read. They are valid if the model holds: constant noise variance, counts without overdispersion.
``std_errors="subsets"`` estimates them from the variation between the fits instead (batch means, with m - 1 degrees of
freedom), which needs no model but more subsets.

They do not account for the selection. A feature near the threshold of the votes is selected when its coefficient
happens to be large; for a feature far above the threshold, which any sample would select, the interval is valid.
`python -m benchmarks run intervals` measures the coverage.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from daskfs.errors import Suspicion

SELECTED_ON_THE_SAME_ROWS = (
    "std_error and the 95 % interval (lower, upper) treat the features as given in advance: coefficients of narrowly "
    "selected features are biased away from zero, and their intervals cover the true value less often"
)
LEVEL = 0.95
NEAR = 3.0
"""A selection is narrow within so many standard errors of the threshold of the votes (a vote's z has scatter 1.2)."""
UNLIKELY = 3.0
"""Standard deviations of a ratio of variances beyond which the subsets contradict the information."""
GRID, WIDTH = 801, 8.5  # grid of the integral over two order statistics
MANY = 60
"""Number of subsets from which on the asymptotic expansion of a median's variance is accurate to 0.1 %."""


def of_mean(errors: np.ndarray) -> np.ndarray:
    """Return the standard errors of the mean of estimates with these errors, shape (n_estimates, ...); NaN: unknown."""
    n_known = np.isfinite(errors).sum(axis=0)
    sums = np.where(np.isfinite(errors), errors, 0.0) ** 2
    return _known(np.sqrt(sums.sum(axis=0)) / np.maximum(n_known, 1), n_known)


def of_median(errors: np.ndarray) -> np.ndarray:
    """Return the standard errors of the median of estimates with these errors, shape (n_estimates, ...)."""
    n_known = np.isfinite(errors).sum(axis=0)
    known = np.where(np.isfinite(errors) | (n_known == 0), errors, np.nan)
    middle = np.nanmedian(np.where(n_known > 0, known, 0.0), axis=0)
    variance = np.array([variance_of_median(max(int(m), 1)) for m in n_known.ravel()]).reshape(n_known.shape)
    return _known(np.sqrt(variance) * middle, n_known)


def of_differences(coef: np.ndarray, average: str) -> np.ndarray:
    """Return standard errors from the variation between the subsets' estimates, shape (n_subsets, ...)."""
    known = ~np.isnan(coef)
    n_known = known.sum(axis=0)
    mean = np.where(known, coef, 0.0).sum(axis=0) / np.maximum(n_known, 1)
    squares = (np.where(known, coef - mean, 0.0) ** 2).sum(axis=0)
    variance = squares / np.maximum(n_known - 1, 1)
    share = 1.0 / np.maximum(n_known, 1)
    if average == "median":
        share = np.array([variance_of_median(max(int(m), 1)) for m in n_known.ravel()]).reshape(n_known.shape)
    return _known(np.sqrt(variance * share), n_known - 1)


def _known(error: np.ndarray, n_known: np.ndarray) -> np.ndarray:
    return np.where((n_known > 0) & (error > 0.0), error, np.nan)


@lru_cache
def variance_of_median(m: int) -> float:
    """Return the variance of the median of m independent standard normals.

    Examples
    --------
    >>> [round(variance_of_median(m), 4) for m in (1, 2, 3, 4, 5, 7)]
    [1.0, 0.5, 0.4487, 0.2982, 0.2868, 0.2104]
    """
    if m > MANY:
        return math.pi / (2.0 * m + math.pi - 2.0)
    z = np.linspace(-WIDTH, WIDTH, GRID)
    step = float(z[1] - z[0])
    density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    below = np.array([0.5 * math.erfc(-one / math.sqrt(2.0)) for one in z])
    k = (m - 1) // 2
    factor = math.factorial(m) / math.factorial(k) ** 2
    if m % 2:
        return float(factor * step * (z**2 * density * (below * (1.0 - below)) ** k).sum())
    # the smaller of the two middle values is at z, the larger to its right; on the diagonal half a cell counts
    left, right = density * below**k, density * (1.0 - below) ** k
    pairs = np.triu(np.outer(left, right) * (0.5 * (z[:, None] + z)) ** 2)
    pairs[np.diag_indices(GRID)] *= 0.5
    return float(factor * step**2 * pairs.sum())


def quantile(df: float, level: float = LEVEL) -> float:
    """Return the half-width of an interval in standard errors; Student's t if `df` is finite.

    Examples
    --------
    >>> round(quantile(4.0), 3), round(quantile(math.inf), 3)
    (2.776, 1.96)
    """
    from scipy.special import ndtri, stdtrit

    share = 0.5 + 0.5 * level
    return float(ndtri(share) if math.isinf(df) else stdtrit(max(df, 1.0), share))


def of_norms(error: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Return the standard errors of the norms over classes, for coefficients of sum 0, by the delta method.

    Parameters
    ----------
    error, coef : ndarray of shape (n_classes, n_columns)
        The classes' estimates are assumed to depend on each other only through their sum.
    """
    norm = np.sqrt((coef**2).sum(axis=0))
    unit = np.divide(coef, norm, out=np.zeros_like(coef), where=norm > 0.0)
    n_classes = len(coef)
    found: np.ndarray = np.sqrt((unit**2 * error**2).sum(axis=0) * n_classes / max(n_classes - 1, 1))
    return np.where(found > 0.0, found, np.nan)


def notes_on_errors(errors: np.ndarray, compared: tuple[float, int] | None) -> list[str]:
    """Return the notes on standard errors.

    Parameters
    ----------
    errors : ndarray of shape (n_columns,) or (n_classes, n_columns)
    compared : (float, int), optional
        The result of `SubsetFits.scatter`, for standard errors from the information.
    """
    notes = [SELECTED_ON_THE_SAME_ROWS]
    if compared is None:
        notes.append("std_error is estimated from the variation of the subsets' coefficients, whatever the noise")
    elif compared[1] > 0 and compared[0] > 1.0 + UNLIKELY * math.sqrt(2.0 / compared[1]):
        notes.append(
            Suspicion(
                f"the subsets' coefficients vary {math.sqrt(compared[0]):.2g} times as much as std_error says: the "
                "noise does not match the loss, or rows are dependent; std_errors='subsets' stays valid"
            )
        )
    n_without = int(np.isnan(np.atleast_2d(errors)).any(axis=0).sum())
    return [*notes, f"{n_without:,} coefficient(s) have no standard error"] if n_without else notes


def notes_on_weak(z: np.ndarray, penalty: float, names: Any) -> list[str]:
    """Return the note on narrowly selected features.

    More than half of the subsets vote for a feature if its z² over all rows exceeds about the sum of their penalties.

    Parameters
    ----------
    z : ndarray of shape (n_columns,)
        Coefficients divided by their standard errors.
    penalty : float
        The sum of the subsets' λ.
    names : sequence of str of length n_columns
    """
    weak = [str(names[k]) for k in np.flatnonzero(np.abs(z) < math.sqrt(penalty) + NEAR)]
    more = f" and {len(weak) - 5:,} more" if len(weak) > 5 else ""
    return [f"narrowly selected: {', '.join(weak[:5])}{more}"] if weak else []
