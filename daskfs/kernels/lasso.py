"""The Lasso path of one row block, and on it the model that a generalised information criterion chooses.

For a falling grid of λ the path minimises, over the implicitly standardised columns z_j,

    ½ ⟨y - Σ z_j b_j, y - Σ z_j b_j⟩ + λ Σ |b_j|

by coordinate descent with covariance updates (Friedman, Hastie and Tibshirani 2010) on the features entered so far.
When the signs have settled, the solution for these signs is computed exactly; its Cholesky factor also gives the
least-squares refit. After every solve the gradient of all p columns follows from cached Gram rows, so the optimality
of every λ is certified. A missing Gram row costs a pass over the block, so each pass makes eight: those of violators
and, as a guess, the next largest gradients.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.lasso_steps import BATCH, ENTERED, PASSES, follow, new_state
from daskfs.kernels.moments import Moments, moments

GRAM_NBYTES = 256 << 20
STOPS = ("end of the grid", "patience", "max_features", "Gram rows")


class LassoPath(NamedTuple):
    """A path as far as it was followed, over `n_lambdas` values of λ."""

    moments: Moments
    lambdas: np.ndarray
    """Shape (n_lambdas,), falling; in units of sd(y) per standardised column."""
    df: np.ndarray
    """Shape (n_lambdas,): number of features with a coefficient."""
    rss: np.ndarray
    """Shape (n_lambdas,): weighted mean of squared residuals, of the refit or of the Lasso fit."""
    gic: np.ndarray
    """Shape (n_lambdas,)."""
    entered: np.ndarray
    """Shape (n_entered,): features in order of entry."""
    coef: np.ndarray
    """Shape (n_lambdas, n_entered): of the standardised columns."""
    best: int
    """The λ of the smallest criterion, the largest λ among equals; -1 where there is no path."""
    stop: str
    """Why the path ends, one of `STOPS`."""
    n_passes: int
    """Over the block, to make Gram rows."""

    def selected(self) -> np.ndarray:
        """Return the features of the chosen model, ascending."""
        if self.best < 0:
            return np.empty(0, dtype=np.int64)
        return np.sort(self.entered[self.coef[self.best] != 0.0])

    def coefficients(self, step: int) -> np.ndarray:
        """Return the coefficients of all features on the scale of the data, shape (n_features,)."""
        coef = np.zeros(len(self.moments.scale))
        coef[self.entered] = self.coef[step] / self.moments.scale[self.entered]
        return coef


def default_max_features(n_samples: float, n_features: int) -> int:
    """Return the largest model the criterion may choose: ``n / (2 log p)``, fewer where Gram rows would pass 256 MiB.

    Without a bound the logarithm of the residual falls without end as a model nears n features, and the criterion
    follows it.
    """
    by_samples = int(n_samples / (2.0 * math.log(n_features))) if n_features > 1 else n_features
    by_memory = max(64, GRAM_NBYTES // (16 * n_features))
    return max(1, min(by_samples, by_memory, n_features))


def gram_capacity(n_features: int, max_features: int) -> int:
    """Return how many Gram rows a path may make: features come and go, and some are guessed."""
    return min(n_features, 2 * max_features + 8 * BATCH)


def path_nbytes(n_samples: int, n_features: int, n_lambdas: int, max_features: int) -> int:
    """Return the memory in bytes that `lasso_path` takes beside its block, at most."""
    rows = gram_capacity(n_features, max_features)
    per_feature = rows + 16
    small = rows * (rows + n_lambdas) + 2 * (max_features + 16) ** 2
    return 8 * (n_features * per_feature + small + n_samples * (BATCH + 2))


def lasso_path(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    penalty: float,
    block_moments: Moments | None = None,
    lambdas: np.ndarray | None = None,
    n_lambdas: int = 100,
    min_ratio: float | None = None,
    refit: bool = True,
    patience: int | None = 10,
    max_features: int | None = None,
) -> LassoPath:
    """Follow the Lasso path of one block and choose on it by ``n log(RSS / n) + penalty |M|``.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered and writable
        Not modified; finite.
    y, weight : ndarray of shape (n_samples,), float64
        A weight of 2 is the row twice, 0 is no row.
    penalty : float
        Of one feature, from `criteria.feature_penalty`.
    block_moments : Moments, optional
        Of this block, when known.
    lambdas : ndarray, optional
        A falling grid; by default `n_lambdas` values, evenly spaced in the logarithm, from the smallest λ without
        a feature.
    min_ratio : float, optional
        Smallest over largest λ: by default 1e-2 where there are fewer samples than features, else 1e-4.
    refit : bool
        Whether the criterion sees the residuals of the least-squares refit, or of the shrunk Lasso fit.
    patience : int, optional
        Stop when the models have so many features more than the best one; None follows the whole grid.
    max_features : int, optional
        Stop when a model has more; by default `default_max_features`.

    Returns
    -------
    LassoPath
    """
    m = moments(X, y, weight) if block_moments is None else block_moments
    n_features = X.shape[1]
    if max_features is None:
        max_features = default_max_features(m.total, n_features)
    if lambdas is None:
        lambdas = _grid(m, n_features, n_lambdas, min_ratio)
    state = new_state(n_features, gram_capacity(n_features, max_features), min(max_features, n_features) + 16)
    df, rss, gic, coef, n_followed, best, stop = follow(
        X, weight, m, lambdas, penalty, refit, -1 if patience is None else patience, max_features, state
    )
    entered = state.entered[: state.counts[ENTERED]].copy()
    keep = slice(n_followed)
    return LassoPath(
        m, lambdas[keep], df[keep], rss[keep], gic[keep], entered, coef[keep, : len(entered)].copy(), best, STOPS[stop],
        int(state.counts[PASSES]),
    )  # fmt: skip


def _grid(m: Moments, n_features: int, n_lambdas: int, min_ratio: float | None) -> np.ndarray:
    largest = float(np.max(np.abs(m.cross), initial=0.0))
    if largest <= 1e-14 * math.sqrt(m.y_variance):
        return np.empty(0)
    if min_ratio is None:
        min_ratio = 1e-2 if m.total < n_features else 1e-4
    return largest * min_ratio ** np.linspace(0.0, 1.0, n_lambdas)
