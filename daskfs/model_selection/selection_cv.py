"""How many features: `SelectionCV`, cross-validation of the sizes of a selector's path.

    1. Folds of the rows: random, of whole groups, or each later than what it is judged on.
    2. On the rows outside a fold, one path: the selector for each of the sizes, nested where the method knows how.
    3. The metric on the fold's rows, for each size; its mean over the folds, and the standard error of that.
    4. The size: of the best mean, or the smallest within one standard error of it; and the path on all rows, there.

The parts are those of `daskfs.selectors.shared.cross_validation`, of which ``n_features_to_select="cv"`` is the short
form. The rule of one standard error is Breiman et al.'s (Classification and Regression Trees, 1984), as glmnet has it.
"""

from __future__ import annotations

from typing import Any, Literal

from daskfs.model_selection.base import MetaSelector
from daskfs.parameters import Folds, RowGroups, Sizes, Text
from daskfs.selectors.base import SIZE
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.cross_validation import N_FOLDS, SizeSearch
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import Recipe


class SelectionCV(MetaSelector):
    """Choose the number of features by cross-validation, one path of sizes for each fold.

    Parameters
    ----------
    selector : selector
        Of daskfs, not fitted; how many features it asks for has no effect.
    sizes : list of int, optional
        Numbers of features to try, ascending; by default ten at most, up to 100, half of the rows and all features.
    cv : int or scikit-learn splitter
        Number of folds, fewer where there are not as many rows of each class; or what makes them, ``TimeSeriesSplit()``
        for example, of the rows in the order of their source.
    rule : {"best", "1se"}
        The size of the best mean, or the smallest one within one standard error of it.
    metric : str, optional
        "mse", "r2", "log_loss", "accuracy", "auc" or another of `daskfs.metrics`; by default the mean squared error, of
        classes the log loss where there are probabilities, else the accuracy.
    groups : array of shape (n_samples,) or str, optional
        Rows that belong together (a patient's, a thread's) lie in one fold: a label for each row of the source, or the
        name of a column of the store that is no feature (role id or split; "fid" of PLINK's files: families). Random
        folds would be too hopeful there.
    order : {"random", "time"}
        "time": each fold is judged on rows later than those that it is fitted on, in the order of the source.
    random_state : int, RandomState or None
        Of the folds, where rows are not in random order.

    Attributes
    ----------
    n_features_to_select_ : int
        The size chosen. Fewer may be selected, where no more say anything.
    cv_results_ : dict
        ``n_features_to_select``, ``mean_test_score``, ``standard_error`` and ``split0_test_score``, ...: an entry for
        each size; ``metric``, whose sign is its own: less is better of an error.
    selector_ : selector
        As fitted on all rows, at the size chosen.
    selected_, support_, coef_, intercept_, scores_, classes_
        Those of ``selector_``.
    result_ : SelectionResult
        Its history is the curve: features, the metric's mean, its standard error, and each fold.

    Notes
    -----
    A path is nested where one fit holds the answers of fewer features: FGM's passes, the order in which columns leave
    what online substitution has selected, MISSION's weights, MESSAGE's votes, the steps of matching pursuit. The
    coefficients on it are those of a fit of the loss with a ridge that the data choose. Other methods are fitted for
    each size. What was chosen is the path on all rows at that size, not another fit that is asked for so many features.

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
        self._plan(self._shape_of(run), run.limits)  # refuses a limit that is too small
        rows, seed = run.over(weighted_rows(run.matrix)), seed_of(self.random_state)
        found = self._search.fit(rows, self._recipe_of(*rows.matrix.shape), self.loss_, seed)
        self._take(found.selector)
        self.n_features_to_select_, self.cv_results_ = found.size, found.curve.results()
        chosen = {SIZE: found.size, "metric": found.curve.metric, "sizes": found.curve.sizes.tolist()}
        self.result_ = self._result_of(run, chosen=chosen, **found.told)

    def resolved_parameters(self) -> dict[str, Any]:
        """Return the parameters as a result has them: of groups and a splitter what they are, not every row."""
        return super().resolved_parameters() | self._search.words()
