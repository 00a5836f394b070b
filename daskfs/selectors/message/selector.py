"""MESSAGE: median selection subset aggregation, for linear and generalised linear models.

    Input: rows (X, y), number of subsets m
    1. Partition the rows at random into m subsets.
    2. On each subset i: follow the Lasso path; choose the model on it that minimises
       GIC(M) = n_i log(RSS_M / n_i) + λ |M|; γ_j(i) says whether feature j is in it.
    3. Keep the features that more than half of the subsets chose: γ_j = median_i γ_j(i).
    4. Look again at features with more votes than chance gives: keep those that the subsets' fits confirm.
    5. On each subset: least squares on the kept features gives β(i).
    6. Average: β = Σ_i β(i) / m.
    7. One Newton step from β on all rows.
    Return γ, β

Algorithm 1 of X. Wang, P. Peng and D. B. Dunson, "Median Selection Subset Aggregation for Parallel Inference",
Advances in Neural Information Processing Systems 27 (2014). With another loss the deviance, minus twice the
log-likelihood, takes the place of n_i log(RSS_M / n_i), and maximum likelihood that of least squares.

The paper's own recipe is ``Message(subset_size=400, criterion="bic", gic_rss="lasso", patience=30, second_look=False,
average="mean")``: glmnet's shrunk fit, BIC, a strict majority, a plain average;
``benchmarks/message_figures.py --recipe paper`` draws the paper's figures 1 to 6 with it.

Differs from the paper
----------------------
* σ² of equation (1) is unknown in practice; it is profiled out, which gives the criterion above. ``sigma2`` gives it:
  GIC(M) = RSS_M / σ² + λ |M|.
* RSS is that of the least-squares refit (``gic_rss="refit"``): in the paper's own simulations the shrunk fit loses weak
  signals of correlated features. The default λ is that of BIC, and more where few subsets vote: features of noise that
  one subset chooses are voted down, but one that most subsets miss is lost.
* Step 4. A vote loses for certain what each subset sees with a chance below one half, however many the subsets
  (``message_second_look``); ``second_look=False`` leaves the step out.
* Step 7. Maximum-likelihood fits of n_i rows are biased by O(1 / n_i), and so is their average. Where the true features
  are selected the step ends close to maximum likelihood on all rows. With the squared loss it ends at least squares on
  all rows, whose sums are those of the subsets: nothing more is read. ``average="mean"`` leaves it out.
* A path ends at models of ``n_i / (2 log p)`` features, since log RSS falls without end towards saturation, and after
  `patience` features without a better model.
* The paper is silent on m even and votes of exactly m / 2; they do not count as a majority (``tie="drop"``).
* A subset on which a column is constant does not vote on it: its vote counts over the others, which must be more than
  half. Such a coefficient is averaged over the others too. A subset whose target is constant (one class) has no vote.
* On a subset where the kept columns are linearly dependent, step 5 takes the shortest solution; on one whose classes
  they tell apart without error, where there is no maximum likelihood, a weak ridge bounds the fit, and the average does
  without it. The result counts both.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from daskfs.errors import ConfigError, DataError
from daskfs.kernels.losses import default_threshold
from daskfs.losses import LIKELIHOOD
from daskfs.matrix.base import Matrix
from daskfs.parameters import Count, Estimator, LossOf, Positive, Share
from daskfs.result import SelectionResult, selection_table
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.inputs import is_lazy
from daskfs.selectors.message.aggregate import coefficient_norm, count_votes
from daskfs.selectors.message.fits import Part, Parts, Refit, SubsetFits, confirmed, run_again
from daskfs.selectors.message.notes import note_on_contenders, notes_on, notes_on_paths, path_of_first, summed
from daskfs.selectors.message.partition import in_partition, most_entries, n_entries_of, weighted_rows
from daskfs.selectors.message.passes import MessageRun
from daskfs.selectors.message.plan import Shape, choose_n_subsets, plan_message, why_n_subsets
from daskfs.selectors.message.subset import SelectionSettings
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.responses import CLASSIFIERS
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target, classes_of, null_intercept, null_intercepts

VOTES = (
    "selected",
    "n_selected",
    "constant",
    "n_constant",
    "abstains",
    "n_unsolved",
    "total",
    "y_mean",
)  # what aggregation takes from the subsets' choices


class Message(BaseSelector):
    """Select the features that a majority of random row subsets selects, average the subsets' fits on them.

    Parameters
    ----------
    n_subsets : int, optional
        The paper's m.
    subset_size : int, optional
        Rows of a subset, instead of `n_subsets`. With neither: five subsets, more where one would have over 2²³ values
        (32 MiB of float32), fewer where one would have less than ``max(400, n_features // 5)`` rows; an odd number,
        which the result's notes give with the reason. More rows per subset find weaker signals; more subsets withstand
        more outliers.
    partition : {"random", "strided"}
        Which rows are a subset: random ones, or every m-th as they stand, so that each subset spans rows that are in
        the order of time, say. From a store every task of strided subsets reads all tiles.
    loss : {"squared", "logistic", "poisson", "huber", "multinomial"}
        The model: linear; two classes (any labels) by their log-odds; counts by the logarithm of their mean; linear
        with errors that count linearly beyond 1.345 robust standard deviations of the target; any number of classes,
        each with coefficients of its own: a feature is kept that most subsets choose to tell some class from the rest.
    criterion : {"vote", "bic", "ric", "ebic"}
        bic: λ = log n_i. ebic: λ = log n_i + 2 gamma log p. ric: λ = 2 (log p + log log p). vote: bic where there are
        many subsets, and as much more where they are few as keeps features of noise, which half of them must choose,
        to 0.01 expected, up to ebic.
    gamma : float
        Of ebic, and of the most that vote adds; 1 is the paper's extended BIC.
    penalty : float, optional
        λ itself, instead of a criterion.
    sigma2 : float, optional
        Variance of the noise, where it is known (with other losses than the squared one, the dispersion).
    gic_rss : {"refit", "lasso"}
        Whether the criterion sees the residuals (the deviance) of the refit or of the shrunk Lasso fit.
    approx : {"lsa"}, optional
        Of the path of another loss than the squared one: its parabola at the fit of all features, for few of them
        (p < 100, say). Several times as fast; some subsets choose another model than on the exact path.
    estimator : scikit-learn estimator, optional
        Selects on each subset instead of the Lasso path: a clone is fitted, the features with a coefficient in its
        ``coef_`` are chosen. Classes are -1 and 1 to it. The criterion and what belongs to it are of no use then.
    tie : {"drop", "keep"}
        What becomes of a feature that exactly half of the subsets chose.
    second_look : bool
        Whether features that fewer than half of the subsets chose, but more than chance would have it, are kept where
        all subsets' fits together show that they count.
    average : {"one_step", "mean"}
        Whether a Newton step on all rows follows the average of the subsets' coefficients.
    n_lambdas : int
        Length of the Lasso path's grid, where the path is not followed from knot to knot.
    patience : int or None
        A path stops at models with so many features more than the best so far; None: never. With "bic", whose criterion
        turns late, 30 is safer than the default.
    max_features : int, optional
        Largest model a subset may choose; by default n_i / (2 log p).
    random_state : int, RandomState or None
        Of the partition of rows that do not stand in random order.
    memory_limit : int or str, optional
        What one task may take, "1GiB" for example; by default tasks read about 128 MiB.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, most important first: by inclusion frequency, then by the size of the standardised coefficient.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        On the scale of the data, 0 where not selected; with the multinomial loss of sum 0 over the classes.
    intercept_ : float or ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        With the logistic loss `coef_` is of the log-odds of the second.
    scores_ : ndarray of shape (n_features,)
        Inclusion frequency: the share of the subsets that chose a feature, among those where it is not constant; NaN
        where it is constant in all.
    n_subsets_ : int
    n_selected_per_subset_ : ndarray of shape (n_subsets_,)
    n_cached_ : int
        Subsets refitted from what their paths left behind, without a second look at their rows.
    result_ : SelectionResult
        Its history is the path of the first subset: lambda, df, rss (or deviance), gic, chosen. Its ``communication``
        counts the bytes that the tasks returned.

    Notes
    -----
    Rows of a shuffled store are partitioned as they stand: subset i has rows ``[i n // m, (i + 1) n // m)``. Arrays are
    permuted first, as ingest permutes rows. A store in the order of its source stays so, with a warning.

    One pass reads all columns; of a scipy.sparse matrix of few entries only these. With the squared loss the moments
    and correlations of up to 64 features that a subset's path has met come back with its choice; a subset that has not
    met a feature selected by the others reads these columns again. Other losses read them for the refit and the Newton
    step. A second look that keeps only some does so twice. A task holds its rows and up to 256 MiB beside them. The
    same data, parameters and seed give the same bits with any tiles, workers and order of completion.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(2000)
    >>> selector = Message(n_subsets=5).fit(X, y)
    >>> selector.selected_
    array([3, 7])
    >>> label = np.where(y > 0, "high", "low")
    >>> Message(n_subsets=5, loss="logistic").fit(X, label).predict(X[:3])
    array(['low', 'high', 'low'], dtype='<U4')
    """

    method = "message"
    score_kind = "inclusion frequency"
    history_kind = "criterion path"

    n_subsets: Count | None = None
    subset_size: Annotated[int, Ge(2)] | None = None
    partition: Literal["random", "strided"] = "random"
    loss: Annotated[str, LossOf(LIKELIHOOD)] = "squared"
    criterion: Literal["vote", "bic", "ric", "ebic"] = "vote"
    gamma: Share = 0.5
    penalty: Positive | None = None
    sigma2: Positive | None = None
    gic_rss: Literal["refit", "lasso"] = "refit"
    approx: Literal["lsa"] | None = None
    estimator: Estimator = None
    tie: Literal["drop", "keep"] = "drop"
    second_look: bool = True
    average: Literal["one_step", "mean"] = "one_step"
    n_lambdas: Annotated[int, Ge(2)] = 100
    patience: Count | None = 10
    max_features: Count | None = None

    def _check_combination(self) -> None:
        if self.n_subsets is not None and self.subset_size is not None:
            raise ConfigError("expected n_subsets or subset_size, found both", "message", "leave one out")

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        tile_rows = shape.tile_shape[0] if shape.tile_shape else 1
        message_shape = self._shape(shape.n_samples, shape.n_features, shape.dtype)
        return plan_message(message_shape, limits.task_nbytes, limits.n_threads, tile_rows)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None) -> Message:
        """Take more rows: their subsets vote with those before, and their fits join the average.

        The rows of one call are cut into subsets of their own. The answer is that of one `fit` over all these subsets.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        classes : array-like of shape (n_classes,), optional
            All labels, where the first rows do not have them all.

        Returns
        -------
        self

        Notes
        -----
        Earlier rows are not selected on again. With the squared loss subsets are refitted from what they left behind, a
        few kilobytes each; a subset whose path has not met a feature that is selected now is read again from its store,
        or else left out of the average, which a note says. Other losses read the selected columns of all rows again:
        arrays in memory are kept for it (but not pickled with the selector); a store costs nothing.
        """
        self.check_parameters()
        is_first = not getattr(self, "_parts", [])
        if is_first:
            self._parts: list[Part] = []
            self._labels = None if classes is None else np.unique(classes)
        elif self._labels is None and self.loss in CLASSIFIERS:
            self._labels = self.classes_  # of a fit
        if self.loss != "squared" and any(part.matrix is None for part in self._parts):
            raise DataError("the rows of earlier calls are gone, the refit needs them", "partial_fit", "fit again")
        with self._opened(X, y, sample_weight, self._labels, is_first) as (matrix, labels):
            self._labels = labels
            if is_first:
                self._take_names(matrix)
            self._take(self._run(matrix))
            if is_lazy(X):
                self._parts[-1].matrix = None  # its store is temporary
        if labels is not None:
            self.classes_ = labels
        return self

    def _fit(self, run: Run) -> None:
        self._parts, self._labels = [], None
        self._take(run)

    def __getstate__(self) -> dict[str, Any]:
        """Leave arrays in memory behind: a pickled selector is small."""
        state = dict(super().__getstate__())
        if "_parts" in state:
            state["_parts"] = [part.without_arrays() for part in self._parts]
        return state

    def _take(self, run: Run) -> None:
        """Steps 1 to 5, with the subsets of earlier calls."""
        matrix, limit, workers = run.matrix, run.task_limit, run.workers
        checked_target(matrix, self.loss)
        rows = weighted_rows(matrix)
        n_values = n_entries_of(rows)
        shape = self._shape(rows.shape[0], rows.shape[1], np.dtype(rows.dtype), n_values)
        settings = self._settings(rows, shape)
        notes: list[str] = []
        if self.n_subsets is None and self.subset_size is None:
            notes.append(why_n_subsets(shape.n_samples, shape.n_features, n_values))
        in_order = in_partition(rows, shape, self.random_state, notes)
        shape = replace(shape, n_classes=max(2, len(settings.classes)), n_entries=most_entries(in_order, shape))
        passes = MessageRun(in_order, shape, limit, workers, run.progress, run.checkpoint)
        part = Part(in_order, shape, passes.select(settings))
        earlier = [(past, run_again(past, limit, workers)) for past in self._parts]
        self._parts.append(part)
        refit = self._agree(settings, [*earlier, (part, passes)], notes)
        notes += notes_on(self.scores_, self.n_subsets_, refit, matrix.names.given)
        self._make_result(matrix, [passes, *(other for _, other in earlier if other is not None)], notes)
        if settings.loss == "squared":
            self._parts[-1] = part.without_arrays()

    def _agree(self, settings: SelectionSettings, parts: Parts, notes: list[str]) -> Refit | None:
        """Steps 3 to 7: votes, second look, fits, average."""
        n_features = parts[0][0].shape.n_features
        chosen = {name: np.concatenate([part.chosen[name] for part, _ in parts]) for name in VOTES}
        self.n_subsets_, self.n_selected_per_subset_ = len(chosen["n_selected"]), chosen["n_selected"]
        notes += notes_on_paths(chosen)
        n_classes = len(settings.classes)
        self.support_, self.scores_, is_contender = count_votes(chosen, n_features, n_classes, self.tie)
        fits = None
        if self.second_look and is_contender.any():
            fits = SubsetFits(parts, settings, np.flatnonzero(self.support_ | is_contender))
            kept = confirmed(fits, is_contender, float(chosen["total"].sum()), self.gamma)
            self.support_[kept] = True
            notes.append(note_on_contenders(int(is_contender.sum()), len(kept)))
        self.coef_ = np.zeros((n_classes, n_features) if n_classes else n_features)
        columns, self.n_cached_ = np.flatnonzero(self.support_), 0
        if not len(columns):
            self.selected_ = columns
            location = np.average(chosen["y_mean"], weights=chosen["total"], axis=0)
            self.intercept_ = null_intercepts(location) if n_classes else null_intercept(self.loss, float(location))
            return None
        if fits is None or len(fits.columns) > len(columns):
            fits = SubsetFits(parts, settings, columns)
        refit = fits.averaged(self.average)
        average, self.n_cached_ = refit.average, refit.n_cached
        self.coef_[..., columns] = average.coef
        self.intercept_ = average.intercept if n_classes else float(average.intercept)
        importance = coefficient_norm(average.coef) * average.scale
        self.selected_ = columns[np.lexsort((columns, -importance, -self.scores_[columns]))]
        return refit

    def _shape(self, n_samples: int, n_features: int, dtype: np.dtype, n_values: int | None = None) -> Shape:
        n_subsets = choose_n_subsets(n_samples, n_features, self.n_subsets, self.subset_size, n_values)
        kind = (self.loss, self.partition == "strided", self.approx == "lsa")
        return Shape(n_samples, n_features, dtype.itemsize, n_subsets, self.n_lambdas, self.max_features, *kind)

    def _settings(self, rows: Any, shape: Shape) -> SelectionSettings:
        """Return how subsets select; classes and Huber's threshold are those of the first rows."""
        y, weight = rows.read_target(slice(None)), rows.read_weight(slice(None))
        if not self._parts:
            self._codes = None if self._labels is None else np.arange(float(len(self._labels)))
            is_huber = self.loss == "huber"
            self._threshold = default_threshold(y, np.ones(len(y)) if weight is None else weight) if is_huber else 0.0
        if self.loss in CLASSIFIERS:
            self._codes = classes_of(y, self._codes, many=self.loss == "multinomial")
            self.classes_ = self._codes
        is_multinomial, codes = self.loss == "multinomial", self._codes
        return SelectionSettings(
            criterion=self.criterion,
            gamma=self.gamma,
            refit=self.gic_rss == "refit",
            n_lambdas=self.n_lambdas,
            patience=self.patience,
            max_features=self.max_features,
            penalty=self.penalty,
            sigma2=self.sigma2,
            loss=self.loss,
            positive=None if codes is None or is_multinomial else float(codes[1]),
            threshold=self._threshold,
            estimator=self.estimator,
            approximate=self.approx == "lsa",
            n_subsets=shape.n_subsets,
            classes=tuple(map(float, codes)) if is_multinomial and codes is not None else (),
        )

    def _make_result(self, matrix: Matrix, runs: list[MessageRun], notes: list[str]) -> None:
        names = matrix.names.given
        coef, intercept = self.coef_[..., self.selected_], self.intercept_
        if coef.ndim > 1:
            coef, intercept = coefficient_norm(coef), math.nan
            notes.append("the table's coefficients are their norms over the classes; coef_ has those of each class")
        table = selection_table(self.selected_, coef, self.scores_[self.selected_], names)
        parameters = {**self.get_params(deep=False), "n_subsets": self.n_subsets_}
        parameters["estimator"] = None if self.estimator is None else repr(self.estimator)
        del parameters["client"]
        limit = runs[0].memory_limit
        self.result_ = SelectionResult(
            method=self.method,
            score_kind=self.score_kind,
            history_kind=self.history_kind,
            table=table,
            intercept=intercept,
            parameters=parameters,
            n_samples=sum(part.shape.n_samples for part in self._parts),
            n_features=int(matrix.shape[1]),
            history=type(table).from_dict(path_of_first(self._parts[0].chosen)),
            scores=self.scores_,
            feature_names=names,
            store_digest=matrix.identity,
            memory={} if limit is None else {"task_limit_nbytes": limit},
            communication=summed(run.communication for run in runs),
            time=summed(run.seconds for run in runs),
            notes=notes,
        )
