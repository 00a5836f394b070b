"""Full data: one Lasso on all rows, the baseline that MESSAGE is compared with.

    Input: rows (X, y)
    1. On all rows: follow the Lasso path; choose the model on it that minimises GIC(M) = n log(RSS_M / n) + λ |M|
       (for other losses, the deviance + λ |M|).
    2. Return its features and its Lasso coefficients, without a refit.

The full set inference of section 4.1 of X. Wang, P. Peng and D. B. Dunson, "Median Selection Subset Aggregation for
Parallel Inference", Advances in Neural Information Processing Systems 27 (2014).

Differs from the paper
----------------------
* The criteria and the end of the path are those of `daskfs.selectors.message.selector.Message`. The default is EBIC (γ
  = ½), because no vote follows that would remove false selections.
* With the squared loss the path is exact and computed out of core: moments and Gram rows are sums over row blocks, and
  only the Gram rows of features that may enter are computed. The paper's glmnet holds all rows in memory, as the other
  losses do here.
"""

from __future__ import annotations

import numpy as np

from daskfs.baselines.lasso.base import Estimate, LassoBaseline
from daskfs.baselines.lasso.one_piece import plan_one_piece
from daskfs.baselines.lasso.paths import BlockPasses, lasso_paths, plan_paths
from daskfs.baselines.lasso.tasks import Weighting
from daskfs.selectors.message.choices import PathTable, SelectionSettings
from daskfs.selectors.message.plan import Subsets
from daskfs.selectors.message.tasks import SubsetPasses
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.run import Run


class FullData(LassoBaseline):
    """Select by one Lasso on all rows, with an information criterion.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, by `scores_`.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        Lasso coefficients, on the scale of the data.
    intercept_ : float or ndarray of shape (n_classes,)
    scores_ : ndarray of shape (n_features,)
        Size of the coefficient; with the squared loss, of the standardised one.
    result_ : SelectionResult
        The history is the path: lambda, df, rss, gic, chosen.

    Notes
    -----
    With the squared loss, the fit reads the matrix two to four times, in blocks of up to 4 Mi values. The other losses
    hold all rows in one task and read them once; a `memory_limit` that is too small raises an error. On one machine,
    the same store and parameters give bit-identical results with any number of workers; tiles change only rounding.

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
        if self._loss.is_quadratic:
            return plan_paths(self.method, shape, 1, self.max_features, limits.task_nbytes)
        return plan_one_piece(self.method, Subsets(shape, self._settings()), limits)

    def _estimate(self, run: Run, settings: SelectionSettings) -> Estimate:
        self._plan(run.shape, run.limits)  # raises an error if the fit needs too much memory
        if self._loss.is_quadratic:
            return _over_blocks(BlockPasses(run), settings)
        return _in_one_piece(SubsetPasses(run, Subsets(run.shape, settings)))


def _over_blocks(passes: BlockPasses, settings: SelectionSettings) -> Estimate:
    (path,) = lasso_paths(passes, [Weighting()], settings)
    n_features = passes.run.shape.n_features
    coef, is_selected = np.zeros(n_features), np.zeros(n_features, dtype=bool)
    if path.best >= 0:
        coef = path.coefficients(path.best)
        is_selected[path.selected()] = True
    intercept = path.moments.y_mean - (path.moments.mean * coef).sum()
    scores = np.abs(coef) * path.moments.scale
    return Estimate(coef, is_selected, scores, float(intercept), PathTable.of(path), [])


def _in_one_piece(passes: SubsetPasses) -> Estimate:
    choices = passes.select().first()
    model = choices.ballots
    n_features = passes.run.shape.n_features
    coef, is_selected = np.zeros(n_features), np.zeros(n_features, dtype=bool)
    coef[model.selected] = model.coef
    is_selected[model.selected] = True
    return Estimate(coef, is_selected, np.abs(coef), float(model.intercept[0]), choices.path, [])
