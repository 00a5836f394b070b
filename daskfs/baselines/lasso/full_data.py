"""Full data: one Lasso on all rows, the competitor that MESSAGE is measured against.

    Input: rows (X, y)
    1. On all rows: follow the Lasso path; choose the model on it that minimises GIC(M) = n log(RSS_M / n) + λ |M|
       (of other losses the deviance + λ |M|).
    2. Return its features and its Lasso coefficients, shrunk as they are.

The full set inference of section 4.1 of X. Wang, P. Peng and D. B. Dunson, "Median Selection Subset Aggregation for
Parallel Inference", Advances in Neural Information Processing Systems 27 (2014).

Differs from the paper
----------------------
* The criterion, its defaults and the end of the path are those of `daskfs.selectors.message.selector.Message`.
* The path of the squared loss is exact and out of core: moments and Gram rows are sums over row blocks, and only the
  rows of features that may enter are made. The paper's glmnet holds all rows in memory, as the other losses do here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.baselines.lasso.base import Estimate, LassoBaseline
from daskfs.baselines.lasso.on_blocks import Weighting
from daskfs.baselines.lasso.one_piece import plan_one_piece
from daskfs.baselines.lasso.paths import BlockPasses, history_of, lasso_paths, plan_paths
from daskfs.cluster.open import parse_bytes
from daskfs.cluster.workers import Workers
from daskfs.matrix.base import Progress
from daskfs.selectors.message.passes import MessageRun
from daskfs.selectors.message.subset import SelectionSettings
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.run import Checkpoint
from daskfs.selectors.shared.targets import null_intercept


class FullData(LassoBaseline):
    """Select by one Lasso with an information criterion on all rows.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, by `scores_`.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        The Lasso's, on the scale of the data.
    intercept_ : float or ndarray of shape (n_classes,)
    scores_ : ndarray of shape (n_features,)
        Size of the coefficient; with the squared loss of the standardised one.
    result_ : SelectionResult
        Its history is the path: lambda, df, rss, gic, chosen.

    Notes
    -----
    With the squared loss, reads the matrix two to four times, in blocks of up to 4 Mi values. The other losses hold all
    rows in one task and read them once; a `memory_limit` that is too small is refused. The same bits with any tiles and
    workers.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(2000)
    >>> FullData().fit(X, y).selected_
    array([3, 7])
    """

    method = "full_data"

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        if self.loss == "squared":
            return plan_paths(self.method, shape, 1, self.max_features, limits.task_nbytes)
        return plan_one_piece(self.method, self._shape_of_all(shape), limits.task_nbytes)

    def _estimate(
        self,
        rows: Any,
        settings: SelectionSettings,
        workers: Workers,
        progress: Progress | None,
        checkpoint: Checkpoint | None,
    ) -> Estimate:
        limit = None if self.memory_limit is None else parse_bytes(self.memory_limit)
        data = DataShape.of(rows)
        self._plan(data, Limits(limit))  # refuses what does not fit
        if self.loss == "squared":
            return _over_blocks(BlockPasses(rows, self.method, workers, progress, checkpoint), settings)
        return _in_one_piece(MessageRun(rows, self._shape_of_all(data), limit, workers, progress, checkpoint), settings)


def _over_blocks(passes: BlockPasses, settings: SelectionSettings) -> Estimate:
    (path,) = lasso_paths(passes, [Weighting()], settings)
    n_features = passes.matrix.shape[1]
    coef, is_selected = np.zeros(n_features), np.zeros(n_features, dtype=bool)
    if path.best >= 0:
        coef = path.coefficients(path.best)
        is_selected[path.selected()] = True
    intercept = path.moments.y_mean - (path.moments.mean * coef).sum()
    scores = np.abs(coef) * path.moments.scale
    return Estimate(coef, is_selected, scores, float(intercept), history_of(path), passes.seconds, [])


def _in_one_piece(run: MessageRun, settings: SelectionSettings) -> Estimate:
    chosen = run.select(settings)
    n_features = run.shape.n_features
    coef, is_selected = np.zeros(n_features), np.zeros(n_features, dtype=bool)
    coef[chosen["selected"]] = chosen["coef"]
    is_selected[chosen["selected"]] = True
    intercept = float(chosen["intercept"][0])
    if not len(chosen["selected"]):
        intercept = null_intercept(settings.loss, float(chosen["y_mean"][0]))
    return Estimate(coef, is_selected, np.abs(coef), intercept, chosen, run.seconds, [])
