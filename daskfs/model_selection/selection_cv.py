"""`SelectionCV`: choose the number of features by cross-validation along a selector's path.

    1. Split the rows into folds: at random, in whole groups, or in time order with later rows for testing.
    2. On the rows outside each fold, fit one path: the selector for each size, nested if the method supports it.
    3. Compute the metric on the fold's rows for each size, its mean over the folds, and the standard error of the mean.
    4. Choose the size with the best mean, or the smallest within one standard error of it. Fit the path on all rows.

The implementation is in `daskfs.selectors.shared.cross_validation`, which ``n_features_to_select="cv"`` also uses. The
rule of one standard error is from Breiman et al. (Classification and Regression Trees, 1984), as in glmnet.
"""

from __future__ import annotations

from typing import Any, Literal

from daskfs.model_selection.base import MetaSelector
from daskfs.parameters import Folds, RowGroups, Sizes, Text
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.cross_validation import N_FOLDS, SizeSearch
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import Recipe
from daskfs.selectors.sized import SIZE


class SelectionCV(MetaSelector):
    """Choose the number of features by cross-validation, one path of sizes for each fold.

    Parameters
    ----------
    selector : selector
        Unfitted daskfs selector; its number of features has no effect.
    sizes : list of int, optional
        Numbers of features to try, ascending; default: at most ten, up to the minimum of 100, half of the rows and all
        features.
    cv : int or scikit-learn splitter
        Number of folds (fewer if a class has fewer rows), or a splitter such as ``TimeSeriesSplit()`` for the rows in
        the order of their source.
    rule : {"best", "1se"}
        The size with the best mean, or the smallest one within one standard error of it.
    metric : str, optional
        "mse", "r2", "log_loss", "accuracy", "auc" or another of `daskfs.metrics`; default: the mean squared error; for
        classes the log loss if there are probabilities, else the accuracy.
    groups : array of shape (n_samples,) or str, optional
        Keeps rows that belong together (of a patient or thread) in one fold: a label for each row of the source, or
        the name of a store column that is not a feature (role id or split; "fid" of PLINK files for families). Random
        folds would be optimistic for such rows.
    order : {"random", "time"}
        "time": test rows are later than training rows, in the order of the source.
    random_state : int, RandomState or None
        Seed of the folds, if the rows are not already in random order.

    Attributes
    ----------
    n_features_to_select_ : int
        The chosen size. Fewer features may be selected if no more are informative.
    cv_results_ : dict
        ``n_features_to_select``, ``mean_test_score``, ``standard_error`` and ``split0_test_score``, ... with an entry
        for each size; ``metric``. Signs are not changed: lower is better for errors.
    selector_ : selector
        Selector fitted on all rows at the chosen size.
    selected_, support_, coef_, intercept_, scores_, classes_
        As in ``selector_``.
    result_ : SelectionResult
        Its history is the curve: number of features, mean of the metric, standard error, and values of each fold.

    Notes
    -----
    A path is nested if one fit provides all smaller selections: the passes of FGM, backward elimination from the
    selection of online substitution, the weights of MISSION, the votes of MESSAGE, the steps of matching pursuit. The
    coefficients on it are from a fit of the loss with a ridge chosen from the data. Other methods are fitted for each
    size. The final selection is taken from the path on all rows, not from a new fit with that number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfs import FGM, SelectionCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 50))
    >>> y = X[:, [3, 7, 11, 30]] @ [2.0, -1.0, 1.0, 1.5] + rng.standard_normal(400)
    >>> chosen = SelectionCV(FGM(), sizes=[1, 2, 4, 8, 16], rule="1se").fit(X, y)
    >>> chosen.n_features_to_select_, np.sort(chosen.selected_)
    (4, array([ 3,  7, 11, 30]))
    """

    method = "selection_cv"
    _weighs_columns = True
    history_kind = "cross-validation"

    sizes: Sizes = None
    cv: Folds = N_FOLDS
    rule: Literal["best", "1se"] = "best"
    metric: Text | None = None
    groups: RowGroups = None
    order: Literal["random", "time"] = "random"

    @property
    def _search(self) -> SizeSearch:
        return SizeSearch(self.sizes, self.cv, self.rule, self.metric, self.groups, self.order)

    def _check_combination(self) -> None:
        super()._check_combination()
        counts_columns = getattr(self.selector, "feature_groups", None) is None
        self._search.check(self.n_included if counts_columns else 0)

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        return self._search.plan(self._recipe_of(shape.n_samples, shape.n_features), shape, limits)

    def _recipe_of(self, n_samples: int, n_features: int) -> Recipe:
        is_asked = SIZE in self.selector_._parameter_owners
        largest = self._search.sizes_of(n_samples, n_features, self.selector_.n_included)[-1]
        return Recipe.of(self.selector_, **({SIZE: largest} if is_asked else {}))

    def _fit(self, run: Run) -> None:
        self._plan(self._shape_of(run), run.limits)  # raises an error if the limit is too small
        rows, seed = run.over(weighted_rows(run.matrix)), seed_of(self.random_state)
        found = self._search.fit(rows, self._recipe_of(*rows.matrix.shape), self.loss_, seed)
        self._take(found.selector)
        self.n_features_to_select_, self.cv_results_ = found.size, found.curve.results()
        chosen = {SIZE: found.size, "metric": found.curve.metric, "sizes": found.curve.sizes.tolist()}
        self.result_ = self._result_of(run, chosen=chosen, **found.result_arguments)

    def resolved_parameters(self) -> dict[str, Any]:
        """Return the parameters for a result, with descriptions instead of arrays of groups and splitters."""
        return super().resolved_parameters() | self._search.words()
