"""The Lasso path of a loss on one row block, and the model on it chosen by a generalised information criterion.

For a decreasing grid of λ the path minimises, over an intercept b_0 and coefficients of the standardised columns z_j,

    Σ_i w_i loss(b_0 + Σ_j z_ij b_j, y_i) / Σ_i w_i + λ Σ_j |b_j|

by proximal Newton steps with coordinate descent (Friedman, Hastie and Tibshirani 2010) on the features entered so far,
of which standardised copies are kept. The Hessian of these steps is computed from time to time; in between it is a
combination of earlier Hessians (`daskfs.kernels.glm.curvatures`). A bound certifies that the other columns may stay out
without reading them: by the Cauchy-Schwarz inequality, the gradient of a column cannot have changed by more than the
residuals. If the bound does not suffice, the gradient is computed: for a few columns from copies, for many in a pass
over the block. If there are at most `NEAR` columns, all enter at once.

The criterion is ``deviance / dispersion + penalty |M|``. The deviance, minus twice the log-likelihood up to a constant,
is that of the unpenalised fit of the model's features (the infimum if there is no finite minimum), or of the shrunk
fit. The dispersion is 1 for counts and classes. For the Huber and the squared loss it is the noise in the deviance of a
useless feature, estimated on the largest model of the path, which has too many features rather than too few.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.blocks.any_block import block_moments, rows_of_weight
from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.kernels.blocks.dense_block import as_block
from daskfs.kernels.blocks.entered_entries import entered_entries_nbytes
from daskfs.kernels.glm.newton import estimate_dispersion, new_problem
from daskfs.kernels.glm.null_model import fit_null_model, independent_columns
from daskfs.kernels.glm.screening import BATCH
from daskfs.kernels.glm.state import (
    COMBINED,
    DIRECTIONS,
    ENTERED,
    FREE,
    NEAR,
    NEAR_ENTRIES,
    NEWTON_STEPS,
    PASSES,
    SEPARABLE_REFITS,
    UNSOLVED,
    new_state,
)
from daskfs.kernels.glm.steps import follow, hold
from daskfs.kernels.lasso.path import default_max_features as default_max_features_of_gram
from daskfs.kernels.lasso.path import lambda_grid
from daskfs.kernels.lasso.result import STOPS, LassoPath
from daskfs.kernels.lasso.steps import new_rule
from daskfs.kernels.linear.gram_tiles import BAND_ROWS
from daskfs.kernels.linear.moments import weighed
from daskfs.kernels.losses import saturated_values
from daskfs.losses import find_loss

COLUMNS_NBYTES = 256 << 20
ABOVE = 1.0 + 1e-6
"""Share of the smallest λ without a feature at which a path with free columns starts: their fit has a tolerance."""


def default_max_features(n_samples: float, n_features: int) -> int:
    """Return the largest model that may be chosen: that of the Lasso, fewer if copies would exceed 256 MiB."""
    by_memory = max(64, int(COLUMNS_NBYTES / (16.0 * n_samples)))
    return min(default_max_features_of_gram(n_samples, n_features), by_memory)


def entered_capacity(n_features: int, max_features: int) -> int:
    """Return the number of features that may enter. It is larger than a model, because features also leave."""
    return min(n_features, 2 * max_features + 4 * BATCH)


def glm_path_nbytes(
    n_samples: int, n_features: int, n_lambdas: int, max_features: int, n_entries: int | None = None
) -> int:
    """Return the peak memory in bytes of `glm_path` in addition to its block of n_entries, or dense."""
    capacity = entered_capacity(n_features, max_features)
    columns_nbytes = 8 * n_samples * (capacity + min(NEAR, n_features))
    if n_entries is not None:
        columns_nbytes = entered_entries_nbytes(n_samples, capacity, n_entries)
        columns_nbytes += entered_entries_nbytes(n_samples, NEAR_ENTRIES, 0)
    small = (capacity + 8) * (n_lambdas + (4 + COMBINED) * (capacity + 8) + BAND_ROWS) + (max_features + 2) ** 2
    return columns_nbytes + 8 * (n_samples * (DIRECTIONS + COMBINED + 30) + small + (DIRECTIONS + 12) * n_features)


def glm_path(
    X: np.ndarray | ColumnEntries,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    loss: str,
    penalty: float,
    threshold: float | None = None,
    sigma2: float | None = None,
    lambdas: np.ndarray | None = None,
    n_lambdas: int = 100,
    min_ratio: float | None = None,
    gic_rss: str = "refit",
    patience: int | None = 10,
    max_features: int | None = None,
    tol: float = 1e-6,
    column_weight: np.ndarray | None = None,
    free: np.ndarray | None = None,
) -> LassoPath:
    """Follow the Lasso path of one block and select a model by ``deviance / dispersion + penalty |M|``.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered and writable; or ColumnEntries
        Not modified. A column that is not finite never enters (its `moments.scale` is NaN).
    y : ndarray of shape (n_samples,), float64
        -1 or +1 for the logistic loss, non-negative for the Poisson loss.
    weight : ndarray of shape (n_samples,), float64
        A row of weight 2 counts twice, one of weight 0 not at all.
    loss : {"squared", "logistic", "poisson", "huber"}
    penalty : float
        Penalty of one feature, from `criteria.feature_penalty`.
    threshold : float, optional
        Threshold of the Huber loss, in units of y; by default 1.345 robust standard deviations of y.
    sigma2 : float, optional
        Known dispersion (for the squared loss, the variance of y given the features); by default estimated.
    lambdas : ndarray, optional
        A decreasing grid. The default has `n_lambdas` values, evenly spaced in the logarithm, from the smallest λ
        without a penalised feature.
    min_ratio : float, optional
        Ratio of the smallest to the largest λ: by default 1e-2 if there are fewer samples than features, else 1e-4.
    gic_rss : {"refit", "lasso"}
        Whether the criterion uses the deviance of the unpenalised refit or of the shrunk fit.
    patience : int, optional
        Stop when the models have this many features more than the best one; None follows the whole grid.
    max_features : int, optional
        Stop when a model has more features, free ones included; by default `default_max_features` plus the free ones.
    tol : float
        Newton steps end below this, measured in the norm of the Hessian and in standard deviations of the null model's
        residuals.
    column_weight : ndarray of shape (n_features,), float64, optional
    free : ndarray of shape (n_free,), int64, ascending, optional
        See `daskfs.kernels.lasso.path.lasso_path`.

    Returns
    -------
    LassoPath
        Empty if y is constant or no column varies.
    """
    X, y, weight = rows_of_weight(X, y, weight)
    record, n_features, block = find_loss(loss), X.shape[1], as_block(X)
    total = float(weight.sum())
    free = np.empty(0, dtype=np.int64) if free is None else free
    if max_features is None:
        max_features = min(default_max_features(total, n_features) + len(free), n_features)
    problem = new_problem(record, threshold, y, weight)
    state = new_state(X, entered_capacity(n_features, max_features))
    has_null = fit_null_model(problem, state.coef, state.at)
    m = weighed(block_moments(X, state.at.residual / problem.share, weight), column_weight)
    state.reference[:] = m.cross
    held = independent_columns(block, problem.share, m, free) if has_null else free[:0]
    state.is_settled[free] = True
    state.reference_residual[:] = state.at.residual
    state.base[0] = state.coef[0]
    unit = math.sqrt(estimate_dispersion(problem, state.at, total, 1.0))
    if len(held):
        hold(block, problem, m.mean, m.scale, held, unit, float(tol), state)
    if lambdas is None:
        noise, left = 1e-14 * math.sqrt(m.y_variance), np.where(state.is_settled, 0.0, state.reference)
        largest = float(np.max(np.abs(left), initial=0.0)) * (ABOVE if len(held) else 1.0)
        lambdas = lambda_grid(largest if largest > noise else 0.0, total, n_features, n_lambdas, min_ratio)
        if not len(lambdas):
            lambdas = np.full(min(1, len(held)), noise)  # free columns only
    if not has_null:
        lambdas = lambdas[:0]
    saturated = float(weight @ saturated_values(record.code, y))
    rule = new_rule(penalty, sigma2, gic_rss, patience, max_features)
    df, deviance, gic, coef, n_followed, best, stop, dispersion = follow(
        block, problem, m.mean, m.scale, lambdas, rule, total, saturated, unit, float(tol), state
    )
    counts = state.counts
    keep, n_entered = slice(n_followed), int(counts[ENTERED])
    shrunk = coef[keep, 1 : n_entered + 1].copy()
    is_active = shrunk != 0.0
    is_active[:, : counts[FREE]] = True
    return LassoPath(
        m, lambdas[keep], df[keep], deviance[keep], gic[keep], state.entered[:n_entered].copy(), shrunk,
        coef[keep, 0].copy(), is_active, best, STOPS[stop], loss, problem.threshold, "deviance", dispersion=dispersion,
        n_separable=int(counts[SEPARABLE_REFITS]), n_passes=int(counts[PASSES]), n_steps=int(counts[NEWTON_STEPS]),
        n_unsolved=int(counts[UNSOLVED]),
    )  # fmt: skip
