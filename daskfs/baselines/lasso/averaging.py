"""Averaging: the mean of the Lasso estimates of random subsets of the rows.

    Input: rows (X, y), number of subsets m
    1. Partition the rows at random into m subsets.
    2. On each subset i: follow the Lasso path; the model on it that minimises
       GIC(M) = n_i log(RSS_M / n_i) + λ |M| (of other losses the deviance + λ |M|) gives the Lasso estimate β(i),
       shrunk as it is.
    3. Average: β = Σ_i β(i) / m. The features are those of any subset.
    Return β

The averaging approach of section 4.1 of X. Wang, P. Peng and D. B. Dunson, "Median Selection Subset Aggregation for
Parallel Inference", Advances in Neural Information Processing Systems 27 (2014), after Y. Zhang, J. C. Duchi and
M. J. Wainwright, "Communication-Efficient Algorithms for Statistical Optimization", the same, volume 25 (2012).

Differs from the paper
----------------------
* The criterion, its defaults and the end of the path are those of `daskfs.selectors.message.selector.Message`.
* A subset on which a column is constant says nothing of it: the mean is over the others.
"""

from __future__ import annotations

import numpy as np

from daskfs.baselines.lasso.subset_estimates import SubsetEstimates


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
    Reads the matrix once. The same bits with any tiles, workers and order of completion.

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
    score_kind = "inclusion frequency"

    def _combine(self, estimates: np.ndarray) -> np.ndarray:
        """Step 3."""
        combined: np.ndarray = np.nanmean(estimates, axis=0)
        return combined
