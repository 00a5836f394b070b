"""The Lasso with a given penalty, on all rows in memory, and the predictions along its path.

    min over b_0, b of  Σ_i w_i loss(b_0 + Σ_j z_ij b_j, y_i) / Σ_i w_i + λ Σ_j |b_j|

over standardised columns z_j, along decreasing λ, from the smallest that selects nothing. The coefficients are the
Lasso's own, without a refit: they predict well if many columns have a small effect.

R. Tibshirani (1996): Regression shrinkage and selection via the Lasso. Journal of the Royal Statistical Society B 58,
267-288.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Gt, Lt

from daskfs.baselines.linear.all_columns import AllColumns, refuse_non_finite, rows_of
from daskfs.kernels.blocks.column_entries import column_entries
from daskfs.kernels.glm.path import glm_path, glm_path_nbytes
from daskfs.losses import log_odds
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import as_kernels_take_it, as_vector
from daskfs.parameters import LossOf
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target

STEPS = 6
"""Number of λ per power of ten."""
POWERS, POWERS_OF_WIDE = 3, 2
"""Powers of ten down to the last λ; fewer if there are more columns than rows."""
FEWEST_AT_MOST, ROWS_OF_A_COLUMN = 100, 6
"""A path ends with this many columns, or with one column per this many rows if that is more. More gain nothing.
"""
TOLERANCE = 1e-5
"""Tolerance of the coefficients; see `glm_path`."""


def shares(n_samples: int, n_features: int) -> list[float]:
    """Return the penalties of a path, decreasing, as shares of the smallest that selects nothing.

    Examples
    --------
    >>> len(shares(3000, 20)), round(shares(3000, 20)[-1], 6), len(shares(20, 3000))
    (18, 0.001, 12)
    """
    powers = POWERS_OF_WIDE if n_features > n_samples else POWERS
    return [10.0 ** (-k / STEPS) for k in range(1, STEPS * powers + 1)]


def most_selected(n_samples: int, n_features: int) -> int:
    """Return the number of columns at which a path ends."""
    return min(n_features, max(FEWEST_AT_MOST, n_samples // ROWS_OF_A_COLUMN))


class Models(NamedTuple):
    """The models of a path, with one target or several classes."""

    columns: np.ndarray
    """The columns of all models, ascending."""
    coef: np.ndarray
    """Shape (n_models, n_columns, n_targets), on the scale of the data."""
    intercept: np.ndarray
    """Shape (n_models, n_targets)."""
    scale: np.ndarray
    """Standard deviations of the columns."""

    @property
    def n_selected(self) -> np.ndarray:
        """Number of nonzero coefficients of each model."""
        counts: np.ndarray = np.any(self.coef != 0.0, axis=2).sum(axis=1)
        return counts

    def predict(self, matrix: Matrix) -> np.ndarray:
        """Return the linear predictors of all rows, shape (n_models, n_samples, n_targets)."""
        entries = matrix.sparse_rows(slice(None))
        if entries is None:
            X: Any = matrix.read(slice(None), self.columns).astype(np.float64)
        else:
            X = rows_of(matrix)[:, self.columns]
        return np.array([X @ coef + at for coef, at in zip(self.coef, self.intercept, strict=True)])


def follow(matrix: Matrix, y: np.ndarray, is_logistic: bool, penalties: Sequence[float]) -> Models:
    """Return the models at decreasing penalties, as far as the paths of all targets reach.

    Parameters
    ----------
    matrix : Matrix
    y : ndarray of shape (n_samples, n_targets), float64
        Classes as -1 and +1.
    is_logistic : bool
    penalties : sequence of float
        The first penalties of `shares`.
    """
    X, given = _block(matrix), matrix.read_weight(slice(None))
    weight = np.ones(len(y)) if given is None else as_vector(given)
    most = most_selected(*matrix.shape)
    paths = [
        glm_path(
            X,
            np.ascontiguousarray(target),
            weight,
            loss="logistic" if is_logistic else "squared",
            penalty=0.0,
            n_lambdas=len(penalties) + 1,
            min_ratio=penalties[-1],
            gic_rss="lasso",
            patience=None,
            max_features=most,
            tol=TOLERANCE,
        )
        for target in y.T
    ]
    refuse_non_finite(matrix, np.flatnonzero(np.isnan(paths[0].moments.scale)))
    n_models = max(0, min(len(path.lambdas) for path in paths) - 1)
    columns = np.unique(np.concatenate([path.entered for path in paths]))
    coef, intercept = np.zeros((n_models, len(columns), len(paths))), np.zeros((n_models, len(paths)))
    for k, path in enumerate(paths):
        places, scale = np.searchsorted(columns, path.entered), path.moments.scale[path.entered]
        coef[:, places, k] = path.coef[1 : n_models + 1] / scale
        intercept[:, k] = [path.intercept(step) for step in range(1, n_models + 1)]
    return Models(columns, coef, intercept, paths[0].moments.scale[columns])


def _block(matrix: Matrix) -> Any:
    """Return all rows as the path needs them: dense, or as the entries of the columns."""
    entries = matrix.sparse_rows(slice(None))
    if entries is None:
        return as_kernels_take_it(matrix.read(slice(None)))
    return column_entries(entries.indptr, entries.indices, np.asarray(entries.data), matrix.shape[1])


def _without_columns(matrix: Matrix, y: np.ndarray, is_logistic: bool) -> np.ndarray:
    """Return the intercepts for a matrix without a column that varies or explains anything."""
    means = np.average(y, axis=0, weights=matrix.read_weight(slice(None)))
    return np.array([log_odds(float(mean)) for mean in means]) if is_logistic else means


class ShrunkLasso(AllColumns):
    """Select the features with a nonzero coefficient in the Lasso of a given penalty.

    Parameters
    ----------
    share : float
        The penalty, as a share of the smallest that selects nothing.
    loss : {"auto", "squared", "logistic"}
        With several classes, each against the rest; the features of any class are selected.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, by decreasing `scores_`.
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        Lasso coefficients, on the scale of the data.
    scores_ : ndarray of shape (n_features,)
        Absolute values of the standardised columns' coefficients, or their norms over the classes.

    Notes
    -----
    The fit holds all rows in memory. A path with more columns than `most_selected` returns ends there, and so does the
    fit.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 30))
    >>> selector = ShrunkLasso(share=0.3).fit(X, X[:, 3] - X[:, 7] + rng.standard_normal(500))
    >>> np.sort(selector.selected_)
    array([3, 7])
    """

    method = "lasso"
    score_kind = "standardised coefficient"

    share: Annotated[float, Gt(0), Lt(1)] = 0.1
    loss: Annotated[str, LossOf(among=("squared", "logistic"), several=True)] = "auto"

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        n, p = shape.n_samples, shape.n_features
        n_targets = max(1, shape.n_classes if shape.n_classes > 2 else 1)
        n_models, most = len(shares(n, p)) + 1, most_selected(n, p)
        task = Budget()
        if shape.n_entries is None:
            task.add("all columns, as read and as the path takes them", shape.nbytes + 4 * n * p)
        else:
            task.add("all entries, as read and by columns", 44 * shape.n_entries)
        task.add("a path", glm_path_nbytes(n, p, n_models, most, shape.n_entries))
        task.add("models", 8 * n_targets * n_models * (2 * most * n_targets + n))
        task.add("tiles", shape.tiles_nbytes)
        task.refuse_over(limits.task_nbytes, "all columns in memory take", "ask for a number of features")
        return SelectorPlan(1, 1, shape.nbytes, task, Budget(), "all columns are held in memory")

    def _fit(self, run: Run) -> None:
        self._plan(run.shape, run.limits)
        n_steps = max(1, math.ceil(-STEPS * math.log10(self.share) - 1e-9))
        grid = [self.share ** (k / n_steps) for k in range(1, n_steps + 1)]
        with run.timed("lasso-path"), run.reported("lasso-path", 1):
            y = self.targets(checked_target(run.matrix, self.loss_))
            models = follow(run.matrix, y, self.is_logistic, grid)
        coef = models.coef[-1] if len(models.coef) else np.zeros((0, y.shape[1]))
        kept = np.flatnonzero(coef.any(axis=1))
        intercept = models.intercept[-1] if len(models.coef) else _without_columns(run.matrix, y, self.is_logistic)
        scores = np.sqrt(((coef[kept] * models.scale[kept, None]) ** 2).sum(axis=1))
        is_one = y.shape[1] == 1
        self._set_selection(
            models.columns[kept],
            scores,
            coef[kept, 0] if is_one else coef[kept].T,
            float(intercept[0]) if is_one else intercept,
        )
        self.result_ = self._result_of(run, notes=[])
