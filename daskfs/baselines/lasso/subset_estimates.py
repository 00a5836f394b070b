"""Averaging and Median: combine the Lasso estimates of random subsets of the rows, column by column.

    Input: rows (X, y), number of subsets m
    1. Partition the rows at random into m subsets.
    2. On each subset i: follow the Lasso path; the model on it that minimises
       GIC(M) = n_i log(RSS_M / n_i) + λ |M| (for other losses, the deviance + λ |M|) gives the Lasso estimate β(i),
       without a refit.
    3. Averaging: β = Σ_i β(i) / m, so the selected features are the union of the subsets' features.
       Median: β_j = median_i β_j(i); for even m, the mean of the two middle values.
    Return β

The averaging and the median approach of section 4.1 of X. Wang, P. Peng and D. B. Dunson, "Median Selection Subset
Aggregation for Parallel Inference", Advances in Neural Information Processing Systems 27 (2014); averaging is after
Y. Zhang, J. C. Duchi and M. J. Wainwright, "Communication-Efficient Algorithms for Statistical Optimization", in volume
25 (2012) of the same proceedings.

Differs from the paper
----------------------
* The criteria and the end of the path are those of `daskfs.selectors.message.selector.Message`. The default is EBIC (γ
  = ½), because no vote follows that would remove false selections.
* A subset on which a column is constant has no estimate for it: the mean or median is over the other subsets.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated

import numpy as np
from annotated_types import Ge

from daskfs.baselines.lasso.base import Estimate, LassoBaseline
from daskfs.parameters import Count
from daskfs.selectors.message.choices import Choices, SelectionSettings
from daskfs.selectors.message.plan import Subsets, check_subsets, choose_n_subsets, plan_message
from daskfs.selectors.message.tasks import SubsetPasses
from daskfs.selectors.message.votes import count_votes, notes_on_choices
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.rows import in_random_order
from daskfs.selectors.shared.run import Run


class SubsetEstimates(LassoBaseline):
    """Base class of Averaging and Median: combine the Lasso estimates of subsets, drawn as in MESSAGE, without a refit.

    Parameters
    ----------
    n_subsets : int, optional
        The paper's m.
    subset_size : int, optional
        Rows of a subset; an alternative to `n_subsets`. By default `daskfs.selectors.message.selector.Message`'s
        choice.
    random_state : int, RandomState or None
        Seed of the partition, which is drawn if the rows are not in random order.
    """

    score_kind = "inclusion frequency"

    n_subsets_: int
    n_selected_per_subset_: np.ndarray

    n_subsets: Count | None = None
    subset_size: Annotated[int, Ge(2)] | None = None

    def _check_combination(self) -> None:
        check_subsets(self.n_subsets, self.subset_size)

    @abstractmethod
    def _combine(self, estimates: np.ndarray) -> np.ndarray:
        """Return one estimate per column of an (n_subsets, n_columns) array, ignoring NaN."""

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        return plan_message(self._subsets(shape, self._settings()), limits)

    def _subsets(self, shape: DataShape, settings: SelectionSettings) -> Subsets:
        n_subsets = choose_n_subsets(shape.n_samples, shape.n_features, self.n_subsets, self.subset_size)
        return Subsets(shape, replace(settings, n_subsets=n_subsets))

    def _estimate(self, run: Run, settings: SelectionSettings) -> Estimate:
        notes: list[str] = []
        rows = in_random_order(run.matrix, self.random_state, notes)
        n_features = run.shape.n_features
        passes = SubsetPasses(run.over(rows), self._subsets(run.shape, settings))
        choices = passes.select().first()
        coef = self._combined(choices, n_features)
        return Estimate(
            coef,
            coef != 0.0,
            count_votes(choices, n_features, "drop").frequency,
            float(self._combine(_intercepts(choices))[0]),
            choices.path,
            notes + notes_on_choices(choices),
            {
                "n_subsets_": len(choices),
                "n_selected_per_subset_": choices.n_selected,
            },
        )

    def _combined(self, choices: Choices, n_features: int) -> np.ndarray:
        """Combine the subsets' estimates of every column that at least one subset chose."""
        models = choices.ballots
        union, place = np.unique(models.selected, return_inverse=True)
        estimates = np.zeros((len(choices), len(union)))
        estimates[np.repeat(choices.of_subset, models.n_selected), place] = models.coef
        of_constant = np.repeat(np.arange(len(choices)), choices.n_constant)
        is_there = np.isin(choices.constant, union)
        where = np.searchsorted(union, choices.constant[is_there])
        estimates[of_constant[is_there], where] = np.nan  # the subset has no estimate for the column
        estimates[models.abstains] = np.nan
        coef = np.zeros(n_features)
        coef[union] = self._combine(estimates)
        return coef


def _intercepts(choices: Choices) -> np.ndarray:
    return np.where(choices.ballots.abstains, np.nan, choices.ballots.intercept)[:, None]


class Averaging(SubsetEstimates):
    """Average the Lasso estimates of random subsets of the rows. A feature of any subset is selected.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, most important first: by inclusion frequency, then by the size of the coefficient.
    support_ : ndarray of shape (n_features,), bool
        The union of the subsets' features.
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        On the scale of the data.
    intercept_ : float or ndarray of shape (n_classes,)
        Mean of the intercepts of the subsets.
    scores_ : ndarray of shape (n_features,)
        Inclusion frequency: the share of the subsets that chose a feature, among those where it is not constant.
    n_subsets_ : int
    n_selected_per_subset_ : ndarray of shape (n_subsets_,)
    result_ : SelectionResult
        The history is the path of the first subset: lambda, df, rss, gic, chosen.

    Notes
    -----
    The fit reads the matrix once. On one machine, the same store and parameters give bit-identical results with any
    number of workers; tiles change only rounding.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(2000)
    >>> Averaging(n_subsets=5).fit(X, y).selected_[:2]
    array([3, 7])
    """

    method = "averaging"
    cuts_groups = "subsets of the rows"

    def _combine(self, estimates: np.ndarray) -> np.ndarray:
        """Step 3."""
        combined: np.ndarray = np.nanmean(estimates, axis=0)
        return combined


class Median(SubsetEstimates):
    """Take the coordinate-wise median of the Lasso estimates of random subsets of the rows.

    The attributes are those of `Averaging`. ``coef_`` and ``intercept_`` are medians, and ``support_`` marks the
    columns with a nonzero median.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(2000)
    >>> Median(n_subsets=5).fit(X, y).selected_[:2]
    array([3, 7])
    """

    method = "median"
    cuts_groups = "subsets of the rows"

    def _combine(self, estimates: np.ndarray) -> np.ndarray:
        """Step 3."""
        combined: np.ndarray = np.nanmedian(estimates, axis=0)
        return combined
