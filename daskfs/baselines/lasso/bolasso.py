"""Bolasso: the features that the Lasso selects on every bootstrap sample of the rows.

    Input: rows (X, y), number of bootstrap samples B
    1. Draw B samples of n rows with replacement.
    2. On each sample b: follow the Lasso path; choose the model on it that minimises
       GIC(M) = n log(RSS_M / n) + λ |M| (for other losses, the deviance + λ |M|); J(b) are its features.
    3. Intersect: J = ∩_b J(b).
    4. On all rows, a refit on J by least squares (for other losses, the minimum of the loss) gives β.
    Return J, β

Algorithm 1 of F. R. Bach, "Bolasso: Model Consistent Lasso Estimation through the Bootstrap", Proceedings of the 25th
International Conference on Machine Learning (2008). A baseline in section 4.1 of X. Wang, P. Peng and D. B. Dunson,
"Median Selection Subset Aggregation for Parallel Inference", Advances in Neural Information Processing Systems 27
(2014).

Differs from the paper
----------------------
* Bach gives every sample the same λ, proportional to n^(-1/2) in his theory. Here each sample chooses its own by the
  criterion, as Wang, Peng and Dunson do. They do not state their B; we use 32, while Bach uses up to 256.
* Bach's soft version keeps features of at least 90 % of the samples: ``threshold=0.9``.
* A sample is a weighting of the rows. Its moments and Gram rows are sums over row blocks, so all samples share their
  passes over the data, and nothing is copied.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from daskfs.baselines.lasso.base import Estimate, LassoBaseline
from daskfs.baselines.lasso.one_piece import plan_one_piece, refit_in_one_piece, select_on_samples
from daskfs.baselines.lasso.paths import (
    BlockPasses,
    lasso_paths,
    least_squares_over_blocks,
    most_features,
    paths_budgets,
    paths_nbytes,
    plan_paths,
)
from daskfs.baselines.lasso.tasks import Weighting
from daskfs.kernels.lasso.result import LassoPath
from daskfs.parameters import Count, PositiveShare
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.message.choices import PathTable, SelectionSettings
from daskfs.selectors.message.plan import Subsets
from daskfs.selectors.message.tasks import SubsetPasses
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.run import Run

PATHS_NBYTES = 256 << 20  # of Gram rows held at once if the memory limit does not ask for less


class Bolasso(LassoBaseline):
    """Select the features that the Lasso selects on every bootstrap sample, and refit them on all rows.

    Parameters
    ----------
    n_bootstraps : int
        Number of bootstrap samples, Bach's m.
    threshold : float
        Share of the samples that must select a feature: 1 intersects, 0.9 is Bach's soft version.
    random_state : int, RandomState or None
        Seed of the samples.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, most important first: by the share of samples that selected them, then by the size of the coefficient.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        Coefficients of the refit, on the scale of the data.
    intercept_ : float or ndarray of shape (n_classes,)
    scores_ : ndarray of shape (n_features,)
        Share of the samples that selected each feature.
    result_ : SelectionResult
        The history is the path of the first sample: lambda, df, rss, gic, chosen.

    Notes
    -----
    With the squared loss, the fit reads the matrix two to four times for each group of samples whose Gram rows fit in
    memory, and then the selected columns twice. The other losses hold all rows in one task and read them once per
    sample; a `memory_limit` that is too small raises an error. On one machine, the same store and parameters give
    bit-identical results with any number of workers; tiles and memory change only rounding. A row of weight 2 is drawn
    as one row and counts twice each time it is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(2000)
    >>> Bolasso(n_bootstraps=8).fit(X, y).selected_
    array([3, 7])
    """

    method = "bolasso"
    cuts_groups = "bootstrap samples"
    score_kind = "inclusion frequency"

    n_bootstraps: Count = 32
    threshold: PositiveShare = 1.0

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        if not self._loss.is_quadratic:
            return plan_one_piece(self.method, Subsets(shape, self._settings()), limits, self.n_bootstraps)
        n_paths = self._paths_at_once(shape, limits.task_nbytes)
        one_group = plan_paths(self.method, shape, n_paths, self.max_features, limits.task_nbytes)
        n_groups = -(-self.n_bootstraps // n_paths)
        return replace(
            one_group,
            n_passes=one_group.n_passes * n_groups,
            read_nbytes=one_group.read_nbytes * n_groups,
            text=f"{one_group.text}; for {n_paths} of {self.n_bootstraps} bootstrap samples at a time",
        )

    def _paths_at_once(self, shape: DataShape, memory_limit: int | None) -> int:
        """Return the number of samples that share passes over the data."""
        k = most_features(shape, self.max_features)
        one, two = (paths_nbytes(n, shape.n_features, k) for n in (1, 2))
        limit = PATHS_NBYTES if memory_limit is None else min(PATHS_NBYTES, memory_limit // 4)
        n_paths = int(min(self.n_bootstraps, max(1, 1 + (limit - one) // (two - one))))
        while n_paths > 1 and memory_limit is not None:
            if max(budget.nbytes for budget in paths_budgets(shape, n_paths, k)) <= memory_limit:
                break
            n_paths -= 1
        return n_paths

    def _estimate(self, run: Run, settings: SelectionSettings) -> Estimate:
        self._plan(run.shape, run.limits)  # raises an error if the fit needs too much memory
        if self._loss.is_quadratic:
            return self._over_blocks(BlockPasses(run), settings)
        return self._in_one_piece(SubsetPasses(run, Subsets(run.shape, settings)))

    def _over_blocks(self, passes: BlockPasses, settings: SelectionSettings) -> Estimate:
        n_features = passes.run.shape.n_features
        n_at_once = self._paths_at_once(passes.run.shape, passes.run.task_limit)
        weightings = self._samples(passes.sizes)
        paths: list[LassoPath] = []
        for first in range(0, self.n_bootstraps, n_at_once):
            paths += lasso_paths(passes, weightings[first : first + n_at_once], settings)
        scores, is_selected = self._intersect([path.selected() for path in paths], n_features)
        coef, columns = np.zeros(n_features), np.flatnonzero(is_selected)
        coef[columns], intercept, is_singular = least_squares_over_blocks(passes, columns)
        note = "the selected columns are linearly dependent; the least-squares solution of smallest norm was taken"
        notes = [note] if is_singular else []
        return Estimate(coef, is_selected, scores, float(intercept), PathTable.of(paths[0]), notes)

    def _in_one_piece(self, passes: SubsetPasses) -> Estimate:
        n_samples, n_features = passes.run.matrix.shape
        samples = select_on_samples(passes, self._samples(np.array([n_samples])))
        scores, is_selected = self._intersect([sample.first().ballots.selected for sample in samples], n_features)
        coef, columns = np.zeros(n_features), np.flatnonzero(is_selected)
        coef[columns], intercept, notes = refit_in_one_piece(passes, columns)
        if not len(columns):
            intercept = self._loss.null_intercept(float(samples[0].y_mean[0]))
        return Estimate(coef, is_selected, scores, float(intercept), samples[0].path, notes)

    def _samples(self, sizes: np.ndarray) -> list[Weighting]:
        """Step 1. Sample b does not depend on the other samples."""
        entropy = seed_of(self.random_state)
        seed = int(np.random.default_rng().integers(2**31)) if entropy is None else entropy
        return [Weighting.bootstrap((seed, b), sizes) for b in range(self.n_bootstraps)]

    def _intersect(self, selected: list[np.ndarray], n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Step 3: return the share of the samples that selected each column, and whether it reaches the threshold."""
        n_votes = np.bincount(np.concatenate(selected), minlength=n_features)
        is_selected = (n_votes >= self.threshold * self.n_bootstraps - 1e-9) & (n_votes > 0)
        return n_votes / self.n_bootstraps, is_selected
