"""Averaging and Median: the Lasso estimates of random subsets of the rows, combined column by column.

    Input: rows (X, y), number of subsets m
    1. Partition the rows at random into m subsets.
    2. On each subset i: follow the Lasso path; the model on it that minimises
       GIC(M) = n_i log(RSS_M / n_i) + λ |M| (of other losses the deviance + λ |M|) gives the Lasso estimate β(i),
       shrunk as it is.
    3. Averaging: β = Σ_i β(i) / m, so that the features are those of any subset.
       Median: β_j = median_i β_j(i); for m even, the mean of the two in the middle.
    Return β

The averaging and the median approach of section 4.1 of X. Wang, P. Peng and D. B. Dunson, "Median Selection Subset
Aggregation for Parallel Inference", Advances in Neural Information Processing Systems 27 (2014); averaging is after
Y. Zhang, J. C. Duchi and M. J. Wainwright, "Communication-Efficient Algorithms for Statistical Optimization", the same,
volume 25 (2012).

Differs from the paper
----------------------
* The criteria and the end of the path are those of `daskfs.selectors.message.selector.Message`; the default is EBIC
  (γ = ½), which a model that no vote follows needs.
* A subset on which a column is constant says nothing of it: the mean or median is over the others.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated

import numpy as np
from annotated_types import Ge

from daskfs.baselines.lasso.base import Estimate, LassoBaseline
from daskfs.parameters import Count
from daskfs.selectors.message.choices import Choices
from daskfs.selectors.message.passes import SubsetPasses
from daskfs.selectors.message.plan import Subsets, check_subsets, choose_n_subsets, plan_message
from daskfs.selectors.message.subset import SelectionSettings
from daskfs.selectors.message.votes import count_votes, notes_on_choices
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.rows import in_random_order
from daskfs.selectors.shared.run import Run


class SubsetEstimates(LassoBaseline):
    """Base of the two: rows partitioned as MESSAGE does it, the subsets' shrunk estimates combined.

    Parameters
    ----------
    n_subsets : int, optional
        The paper's m.
    subset_size : int, optional
        Rows of a subset, instead of `n_subsets`. With neither, as `daskfs.selectors.message.selector.Message` chooses.
    random_state : int, RandomState or None
        Of the partition of rows that do not stand in random order.
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
        """Return one estimate for every column of an (n_subsets, n_columns) array, without its NaN."""

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
        """Combine the subsets' estimates of every column that any of them chose."""
        models = choices.ballots
        union, place = np.unique(models.selected, return_inverse=True)
        estimates = np.zeros((len(choices), len(union)))
        estimates[np.repeat(choices.of_subset, models.n_selected), place] = models.coef
        of_constant = np.repeat(np.arange(len(choices)), choices.n_constant)
        is_there = np.isin(choices.constant, union)
        where = np.searchsorted(union, choices.constant[is_there])
        estimates[of_constant[is_there], where] = np.nan  # the subset says nothing of the column
        estimates[models.abstains] = np.nan
        coef = np.zeros(n_features)
        coef[union] = self._combine(estimates)
        return coef


def _intercepts(choices: Choices) -> np.ndarray:
    return np.where(choices.ballots.abstains, np.nan, choices.ballots.intercept)[:, None]


class Averaging(SubsetEstimates):
    """Average the Lasso estimates of random subsets of the rows; a feature of any subset is a feature.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, most important first: by inclusion frequency, then by the size of the coefficient.
    support_ : ndarray of shape (n_features,), bool
        The union of the subsets' features.
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        On the scale of the data.
    intercept_ : float or ndarray of shape (n_classes,)
        Mean of the subsets' intercepts.
    scores_ : ndarray of shape (n_features,)
        Inclusion frequency: the share of the subsets that chose a feature, among those where it is not constant.
    n_subsets_ : int
    n_selected_per_subset_ : ndarray of shape (n_subsets_,)
    result_ : SelectionResult
        Its history is the path of the first subset: lambda, df, rss, gic, chosen.

    Notes
    -----
    Reads the matrix once. The same store and parameters give the same bits on one machine with any number of workers;
    tiles change no more than rounding.

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

    Attributes are those of `Averaging`; ``coef_`` and ``intercept_`` are medians, and ``support_`` is where the median
    is not zero.

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
