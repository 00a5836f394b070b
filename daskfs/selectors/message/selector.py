"""MESSAGE: median selection subset aggregation, for linear and generalised linear models.

    Input: rows (X, y), number of subsets m
    1. Partition the rows at random into m subsets.
    2. On each subset i: follow the Lasso path; choose the model on it that minimises
       GIC(M) = n_i log(RSS_M / n_i) + λ |M|; γ_j(i) says whether feature j is in it.
    3. Keep the features that more than half of the subsets chose: γ_j = median_i γ_j(i).
    4. On each subset, fit these features together with those that have more votes than chance gives. Vote on the
       latter again: keep those that lower the criterion of more than half of the subsets.
    5. On each subset: least squares on the kept features gives β(i).
    6. Average: β = Σ_i β(i) / m.
    7. One Newton step from β on all rows.
    Return γ, β

Algorithm 1 of X. Wang, P. Peng and D. B. Dunson, "Median Selection Subset Aggregation for Parallel Inference", Advances
in Neural Information Processing Systems 27 (2014). For other losses the deviance (minus twice the log-likelihood)
replaces n_i log(RSS_M / n_i), and maximum likelihood replaces least squares.

The paper's own recipe is ``Message(subset_size=400, criterion="bic", gic_rss="lasso", patience=30, second_look=False,
average="mean")``: glmnet's shrunk fit, BIC, a strict majority, a plain average. ``docs/papers.md`` has
its results beside the paper's figures 1 to 8.

Differs from the paper
----------------------
* σ² of equation (1) is unknown in practice. It is profiled out, which gives the criterion above. If ``sigma2`` is
  given, the criterion is GIC(M) = RSS_M / σ² + λ |M|.
* RSS is that of the least-squares refit (``gic_rss="refit"``): in the paper's own simulations the shrunk fit misses
  weak signals among correlated features. The default λ is that of BIC, and larger where few subsets vote. A noise
  feature that one subset chooses is voted down, but a true feature that most subsets miss is lost.
* Step 4 is an addition. Among correlated features the Lasso path can miss a weak one that a subset would keep if it
  were tested directly (`daskfs.selectors.message.votes`). As in step 3, a feature needs more than half of the subsets,
  so the breakdown point of Theorem 1 stays one half, whatever the number of subsets. A statistic over all rows would
  find still weaker features, but a few subsets could sway it; to find those, use fewer and larger subsets.
  ``second_look=False`` omits the step.
* Step 7 is an addition. Maximum-likelihood fits to n_i rows have a bias of O(1 / n_i), and so does their average. If
  the true features are selected, the step ends close to maximum likelihood on all rows. With the squared loss it ends
  exactly at least squares on all rows; the subsets' sums give this without another read. ``average="mean"`` omits the
  step. Like the paper's average, the step can be moved by one subset of outliers: the coefficients are not as robust as
  the vote. ``average="median"`` is robust, with standard errors about 25 % larger.
* A path stops at ``n_i / (2 log p)`` features, because log RSS falls without bound towards saturation, and after
  `patience` more features without a better model.
* Where the features of a model on a path separate the classes perfectly (for example a word that occurs only in texts
  of one class), the refit has no finite optimum. The criterion then uses the limit of the deviance, and the result says
  so.
* The paper does not say what happens with m even and exactly m / 2 votes. Such ties are not a majority here
  (``tie="drop"``).
* Selecting a column takes more than half of all subsets, counting those where it is constant. Its frequency, and the
  average of its coefficient, are over the other subsets. A subset whose target is constant (one class) has no vote; if
  most subsets are of this kind, a minority decides.
* Of genotype files, if there is one subset or none fits in memory, only columns that come near the path are decoded;
  products with residuals come from the codes (`daskfs.selectors.message.screened`). With the squared loss the path is
  the same. Other losses are approximated by least squares around the chosen model, so that the path is the same at
  the chosen λ (`daskfs.selectors.message.reweighted`).
* Columns in ``always_include``, like the intercept, have no penalty on any path and are not voted on. A path begins
  with the model of these columns. With the squared loss, this is the path of the other columns and the target after
  both are regressed on these columns.
* With ``feature_groups`` a subset follows the group Lasso path (Yuan and Lin 2006) and votes for groups. The columns of
  a group are made orthonormal, and the group's penalty is multiplied by the square root of its rank. Steps 4 to 7 use
  all columns of a group. A group of r degrees of freedom costs λ for the first, and the price of a further one r - 1
  times (see `criterion`). The path is computed on a grid of λ; models between two grid points are not seen. Groups of
  one column each are treated as columns.
* If the kept columns are linearly dependent on a subset, step 5 takes the minimum-norm solution. If the likelihood has
  no maximum there (the columns separate the classes, or some of their rows), a weak ridge bounds the fit, and the
  average leaves it out. The result counts both cases.
* The paper's theorems bound the error. Standard errors and intervals here are asymptotic, and treat the features as
  given in advance (`daskfs.selectors.message.errors`).
"""

from __future__ import annotations

import math
import warnings
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from daskfs.errors import ConfigError, DataError
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.kernels.losses import threshold_of
from daskfs.losses import LIKELIHOOD
from daskfs.matrix.base import Matrix
from daskfs.matrix.names import Names
from daskfs.parameters import Columns as ColumnsGiven
from daskfs.parameters import Count, Estimator, LossOf, Positive, Share
from daskfs.selected_table import coefficient_norm
from daskfs.selectors.from_blocks import TakesRowBlocks
from daskfs.selectors.grouped import SelectsGroups
from daskfs.selectors.included import IncludesColumns
from daskfs.selectors.inputs import columns_of, is_lazy
from daskfs.selectors.message.choices import Choices, SelectionSettings
from daskfs.selectors.message.errors import notes_on_errors, notes_on_weak, of_differences, of_norms, quantile
from daskfs.selectors.message.fits import Average, Part, SubsetFits, fit_subsets, intercept_alone
from daskfs.selectors.message.groups import asked_groups, counted, notes_on_groups, units_of_groups, z_of_gain
from daskfs.selectors.message.plan import (
    MIN_SUBSETS,
    Subsets,
    check_subsets,
    choose_n_subsets,
    in_partition,
    most_entries,
    plan_message,
    promised_entries,
    why_n_subsets,
)
from daskfs.selectors.message.tasks import SubsetPasses, select_together
from daskfs.selectors.message.votes import Units, Vote, count_votes, notes_on_choices, notes_on_votes, second_vote
from daskfs.selectors.shared.ahead import Ahead
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.refit_of_classes import fit_each_class
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target, classes_of

MOST_ON_A_PATH = 1000  # columns with votes
CRITERION_OF_PREDICTION, PATIENCE_OF_PREDICTION = "bic", 30
GOALS = {
    "inference": "the goal was inference: few false features; goal='prediction' keeps more features with weak effects",
    "prediction": "the goal was prediction: BIC, a longer search along the path, and as few subsets as memory allows",
}
LEAST_SUBSETS = {"inference": MIN_SUBSETS, "prediction": 1}
ALWAYS = 2.0  # stands in for an inclusion frequency when columns are sorted
KEPT_NBYTES = 256 << 20  # limit of the arrays that `partial_fit` keeps for the squared loss, which seldom needs them


class Message(SelectsGroups, IncludesColumns, TakesRowBlocks, renamed={"penalty": "gic_penalty"}):
    """Select the features that most random row subsets select, and average the subsets' fits.

    Parameters
    ----------
    n_subsets : int, optional
        Number of subsets, m in the paper.
    subset_size : int, optional
        Number of rows per subset, instead of `n_subsets`. If neither is given, there are five subsets: more if a subset
        would have over 2²³ values (32 MiB of float32), fewer if it would have less than ``max(400, n_features // 5)``
        rows. The default number is odd, and the result's notes give it with the reason. Larger subsets find weaker
        signals; more subsets withstand more outliers.
    partition : {"random", "strided"}
        How rows are assigned to subsets: at random, or every m-th row in the order of the data, so that each subset
        spans the whole range of, say, a time series. When a store is read with "strided", every task reads all tiles.
    loss : {"auto", "squared", "logistic", "poisson", "huber", "multinomial"}
        Loss function, which defines the model. squared: linear regression. logistic: the log-odds of two classes (any
        labels). poisson: counts, with a log link. huber: linear regression whose loss is linear beyond 1.345 robust
        standard deviations of the target. multinomial: any number of classes, each with its own coefficients; a feature
        is kept if most subsets choose it for some class against the others. auto: squared, logistic or multinomial,
        depending on the target.
    goal : {"inference", "prediction"}
        Purpose of the selection. inference: few false features, and reliable coefficients. prediction: features that
        predict well, some of them possibly noise. This sets criterion "bic" and a patience of at least 30, and by
        default uses as few subsets as memory allows.
    criterion : {"vote", "bic", "ric", "ebic"}
        Information criterion, by its penalty λ per feature. bic: λ = log n_i. ebic: λ = log n_i + 2 gamma log p. ric: λ
        = 2 (log p + log log p). vote: that of bic with many subsets; with few, as much larger (up to ebic) as is needed
        so that at most 0.01 noise features are expected to be chosen by half of the subsets. In a group, each degree of
        freedom after the first costs the same as the first with bic, log n_i with ebic, and 2 with vote and ric, so
        that a noise group is chosen about as seldom as a noise column; p is then the number of groups.
    gamma : float
        γ of EBIC (0 to 1). It also caps the penalty of ``criterion="vote"``. γ = 1 is the paper's extended BIC.
    gic_penalty : float, optional
        λ itself, instead of a criterion.
    sigma2 : float, optional
        Variance of the noise, if known. For losses other than the squared one, the dispersion.
    gic_rss : {"refit", "lasso"}
        Whether the criterion uses the residuals (or the deviance) of the refit or of the shrunk Lasso fit.
    approx : {"lsa"}, optional
        For losses other than the squared one: follow the path of the quadratic approximation at the fit of all
        features. Meant for few features: three times as fast with 20 to 30, slower than the exact path from about 60
        on. Some subsets choose a different model than on the exact path.
    estimator : scikit-learn estimator, optional
        Select with this estimator on each subset instead of the Lasso path. A clone is fitted, and the features with a
        nonzero coefficient in its ``coef_`` are chosen. Class labels are passed as -1 and 1. The criterion and its
        parameters then have no effect.
    tie : {"drop", "keep"}
        Whether to drop or keep a feature that exactly half of the subsets chose.
    second_look : bool
        Whether to hold a second vote on features that fewer than half of the subsets chose, but more than chance would
        give. A feature is kept if it lowers the criterion of more than half of the subsets.
    average : {"one_step", "mean", "median"}
        How to combine the subsets' coefficients. mean: their average. one_step: the average, followed by a Newton step
        on all rows. median: their median, which, like the selection, withstands outliers in fewer than half of the
        subsets.
    std_errors : {"information", "subsets"}
        How to estimate standard errors. information: from the inverse information of the subsets' fits, as usual for
        maximum likelihood. subsets: from the variation between the subsets' fits. This remains valid when the noise
        does not match the loss (unequal variances, overdispersed counts, rows that are dependent within strided
        subsets), but is less precise with few subsets. See `daskfs.selectors.message.errors`.
    n_lambdas : int
        Number of grid points of the Lasso path, where the path is not followed from knot to knot.
    patience : int or None
        Stop a path after this many more features (or groups, with `feature_groups`) than the best model so far; None:
        never. 30 is safer than the default with "bic", whose minimum comes late.
    max_features : int, optional
        Size of the largest model that a subset may choose. Default: n_i / (2 log p), or with `feature_groups` up to n_i
        / 3, plus the columns always included. Larger groups cannot be selected. For the squared loss the default is at
        most max(64, 2²⁴ / p), or 1,024 if only columns near the path are decoded. For other losses it is in that case
        also at most what can be refitted within the memory limit.
    always_include : array of int or str, optional
        Numbers or names of columns to include in every model without a penalty, together with their groups; for example
        age, sex and the principal components of a genetic study. They count in `max_features`.
    random_state : int, RandomState or None
        Seed for the partition, if the rows are not already in random order.
    memory_limit : int or str, optional
        Memory limit of one task, for example "1GiB". By default tasks read about 128 MiB.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Selected columns, most important first: those always included, then by inclusion frequency, then by the absolute
        value of the standardised coefficient. Columns of a group stand together.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        Coefficients on the scale of the data, 0 for features not selected. With the multinomial loss they sum to 0 over
        the classes.
    std_errors_ : ndarray of shape (n_features,) or (n_classes, n_features)
        Standard errors of `coef_`. NaN for features not selected, and where none exists (linearly dependent or
        separable). The result's table has them with 95 % intervals; for several classes, those of the norms over the
        classes.
    intercept_ : float or ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        Class labels. With the logistic loss `coef_` models the log-odds of the second.
    scores_ : ndarray of shape (n_features,)
        Inclusion frequency: the share of subsets that chose the feature, among those where it is not constant. NaN if
        it is constant in all subsets; 1 if it is always included.
    groups_ : ndarray of shape (n_selected_groups,)
        With `feature_groups`: numbers of the selected groups, in the order of `selected_`.
    group_names_ : ndarray of shape (n_selected_groups,), str
    group_scores_ : ndarray of shape (n_selected_groups,)
        Inclusion frequencies of the selected groups.
    n_subsets_ : int
    n_selected_per_subset_ : ndarray of shape (n_subsets_,)
        Number of columns (or groups, with `feature_groups`) that each subset chose.
    n_cached_ : int
        Number of subsets refitted from cached moments of their paths, without reading their rows again.
    result_ : SelectionResult
        Its history is the path of the first subset: lambda, df, rss (or deviance), gic, chosen. Its ``communication``
        counts the bytes that the tasks returned.

    Notes
    -----
    Rows of a shuffled store are partitioned in the order of the store: subset i has rows ``[i n // m, (i + 1) n //
    m)``. Arrays are permuted first, as ingest permutes rows. A store in the order of its source is not permuted, and a
    warning says so.

    One pass reads all columns; of a sparse scipy matrix only the entries. With the squared loss, each subset returns
    the moments and correlations of features that its path visited: of up to 128, or fewer if those of all subsets would
    take more than 256 MiB. If there are no more features, all are among them. A subset whose path did not visit a
    feature selected by the others reads these columns again. Other losses read the selected columns again for the refit
    and for the Newton step. If a second vote keeps only some of the features, the refit is done twice. A task holds its
    rows and up to 256 MiB besides. On one machine the same store, parameters and seed give bit-identical results with
    any number of workers. Other tile shapes change results only by rounding.

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
    cuts_groups = "subsets of the rows"
    _weighs_columns = True
    score_kind = "inclusion frequency"
    history_kind = "criterion path"

    n_subsets: Count | None = None
    subset_size: Annotated[int, Ge(2)] | None = None
    partition: Literal["random", "strided"] = "random"
    loss: Annotated[str, LossOf(LIKELIHOOD)] = "auto"
    goal: Literal["inference", "prediction"] = "inference"
    criterion: Literal["vote", "bic", "ric", "ebic"] = "vote"
    gamma: Share = 0.5
    gic_penalty: Positive | None = None
    sigma2: Positive | None = None
    gic_rss: Literal["refit", "lasso"] = "refit"
    approx: Literal["lsa"] | None = None
    estimator: Estimator = None
    tie: Literal["drop", "keep"] = "drop"
    second_look: bool = True
    average: Literal["one_step", "mean", "median"] = "one_step"
    std_errors: Literal["information", "subsets"] = "information"
    n_lambdas: Annotated[int, Ge(2)] = 100
    patience: Count | None = 10
    max_features: Count | None = None
    always_include: ColumnsGiven = None

    def _check_combination(self) -> None:
        check_subsets(self.n_subsets, self.subset_size)
        if self.goal == "prediction" and self.criterion not in ("vote", CRITERION_OF_PREDICTION):
            raise ConfigError("has no effect with goal='prediction', which uses bic", "criterion", "leave one out")
        if self.feature_groups is not None and self.approx is not None:
            problem = "cannot be combined with feature_groups: it selects single columns"
            raise ConfigError(problem, "approx", "leave one of them out")
        if self.estimator is not None and self.always_include is not None:
            problem = "cannot be combined with estimator, whose models cannot be forced to include a column"
            raise ConfigError(problem, "always_include", "leave one of them out")

    @property
    def weighs_columns(self) -> bool:
        """Whether column weights have an effect: on the paths, but not with ``approx`` or another estimator."""
        return super().weighs_columns and self.approx is None and self.estimator is None

    @property
    def is_nested(self) -> bool:
        """Whether the subsets vote on columns, not groups."""
        return self.feature_groups is None

    def _path_order(self, run: Run) -> np.ndarray:
        """Return all columns that any subset chose, by votes, then by absolute coefficient in the fit of all."""
        matrix, frequency = run.matrix, np.nan_to_num(self.scores_)
        frequency[columns_of(self.always_include, matrix.shape[1], matrix.names, "always_include")] = ALWAYS
        strongest = np.lexsort((-coefficient_norm(self.coef_), -frequency))  # of one subset, all votes are equal
        columns = strongest[: min(int((frequency > 0.0).sum()), MOST_ON_A_PATH)]
        if not len(columns):
            return columns
        fits = fit_each_class(run, columns, self.loss_, free=self.included_columns(matrix))
        size = coefficient_norm(fits.coef) * fits.fits[0].scale
        return columns[np.lexsort((columns, -size, -frequency[columns]))]

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        units = _units(shape.n_features, self._planned_groups(shape))
        subsets = self._subsets(shape, units, self._always(units, shape.names), shape.n_entries)
        return plan_message(replace(subsets, n_entries=promised_entries(subsets)).screened(limits), limits)

    def _always(self, units: Units, names: Names | None) -> np.ndarray:
        """Return which units are always included. If column names are not known yet, assume the first as many."""
        is_always, n_features = np.zeros(units.n_units, dtype=bool), len(units.unit_of)
        if self.always_include is None:
            return is_always
        asked = np.asarray(self.always_include, dtype=object).ravel()
        if names is None and any(isinstance(one, str) for one in asked):
            asked = np.arange(min(len(asked), n_features))
        is_always[units.unit_of[columns_of(asked, n_features, names, "always_include")]] = True
        n_columns = int(is_always[units.unit_of].sum())
        if self.max_features is not None and n_columns > self.max_features:
            problem = f"expected at most {self.max_features} columns, found {n_columns}"
            raise ConfigError(problem, "always_include", "raise max_features")
        return is_always

    def _subsets(self, shape: DataShape, units: Units, is_always: np.ndarray, n_values: int | None = None) -> Subsets:
        """Return how rows of this shape are cut into subsets, as far as known before the data are read."""
        asked = self.n_subsets, self.subset_size
        n_subsets = choose_n_subsets(shape.n_samples, shape.n_features, *asked, n_values, LEAST_SUBSETS[self.goal])
        predicts, patience = self.goal == "prediction", self.patience
        settings = SelectionSettings(
            criterion=CRITERION_OF_PREDICTION if predicts else self.criterion,
            gamma=self.gamma,
            gic_penalty=self.gic_penalty,
            sigma2=self.sigma2,
            gic_rss=self.gic_rss,
            approx=self.approx,
            estimator=self.estimator,
            n_lambdas=self.n_lambdas,
            patience=max(patience, PATIENCE_OF_PREDICTION) if predicts and patience is not None else patience,
            max_features=self.max_features,
            loss=self.loss_,
            n_subsets=n_subsets,
            groups=units.of_path,
            always=tuple(np.flatnonzero(is_always[units.unit_of] if units.of_path is None else is_always).tolist()),
        )
        return Subsets(shape, settings, self.partition, n_fits=self.fits_in_step)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None) -> Message:
        """Add more rows: their subsets vote together with the earlier ones, and their fits join the average.

        The rows of each call are cut into subsets of their own. The result is that of one `fit` over all these subsets;
        their total number also sets the penalty of ``criterion="vote"``. Only the first rows decide two things: the set
        of classes, and the threshold of the Huber loss.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        classes : array-like of shape (n_classes,), optional
            All class labels, if some do not occur in the first rows.

        Returns
        -------
        self

        Notes
        -----
        Selection is not repeated on earlier rows: their paths keep the models for all penalties that later calls can
        require. With the squared loss, subsets are refitted from cached moments of a few kilobytes each; a subset is
        read again only if its path did not visit a feature that is now selected or voted on again. Other losses read
        these columns of all rows again. Stores are read from disk, so nothing is kept in memory for them. Arrays passed
        to `partial_fit` are kept in memory (with the squared loss, the first 256 MiB); arrays passed to `fit` are not
        kept, and no array is pickled with the selector. Subsets whose rows are gone keep their first vote, but have no
        second vote and are left out of the average. Only then does the result differ from that of one fit, and a note
        or a warning says so.
        """
        self.check_parameters()
        self._refuse_second_look("rows come")
        seen = getattr(self, "_seen", _Seen())
        is_first = not seen.parts
        if not is_first and not self._loss.is_quadratic and any(part.matrix is None for part in seen.parts):
            warnings.warn(
                "the rows of earlier calls were not kept: their subsets still vote, but are left out of the average; "
                "to avoid this, call partial_fit instead of fit for the first rows, or fit a store",
                UserWarning,
                stacklevel=2,
            )
        labels = None if classes is None else np.unique(classes)
        if not is_first and self._loss.is_classifier:
            labels = self.classes_
        with self._opened(X, y, sample_weight, labels, is_first) as (matrix, found):
            if is_first:
                self._take_names(matrix)
                self._seen = _Seen(codes=labels if found is None or labels is None else np.arange(float(len(found))))
            with self._run(matrix) as run:
                self._take(run)
            if is_lazy(X):
                self._seen.parts[-1] = replace(self._seen.parts[-1], matrix=None)  # its store is temporary
            elif self._loss.is_quadratic and self._seen.nbytes > KEPT_NBYTES:
                self._seen.parts[-1] = self._seen.parts[-1].without_arrays()
        if found is not None:
            self.classes_ = found
        return self

    def _fit(self, run: Run) -> None:
        self._seen = _Seen()
        self._take(run)
        self._seen.parts[-1] = self._seen.parts[-1].without_arrays()

    def ahead(self, run: Run) -> list[Ahead]:
        """Return the selection on every subset, if it can share passes."""
        one = copy(self)
        one._seen = _Seen()
        passes, _, _ = one._prepared(run, [])
        settings, subsets = passes.settings, passes.subsets
        if settings.n_in_step < 2:
            return []
        return [
            Ahead(
                run,
                f"select-{group.name}",
                (settings, group),
                select_together,
                len(group.parts) * subsets.n_paths,
                settings.n_in_step,
            )
            for group in passes.groups()
            if passes.run.load(f"select-{group.name}", Choices) is None  # not in a checkpoint
        ]

    def _take(self, run: Run) -> None:
        """Run the steps of the algorithm, together with the subsets of earlier calls."""
        notes: list[str] = []
        # 1. subsets
        passes, units, is_always = self._prepared(run, notes)
        # 2. each chooses a model
        part = Part(passes.run.matrix, passes.subsets, passes.select())
        parts = [*((past, past.passes(run)) for past in self._seen.parts), (part, passes)]
        self.n_subsets_ = sum(part.subsets.n_subsets for part, _ in parts)
        settings = replace(passes.settings, n_subsets=self.n_subsets_)
        choices = Choices.joined([part.choices for part, _ in parts]).among(settings, units.n_units)
        notes += notes_on_choices(choices)
        # 3. the vote
        of_units = choices if units.groups is None else counted(choices, units)
        self.n_selected_per_subset_ = of_units.n_selected
        vote = count_votes(of_units, units.n_units, self.tie)
        is_constant = np.bincount(choices.constant, minlength=run.matrix.shape[1]) == len(choices)  # on all subsets
        if is_always.any():
            self._check_always(units, is_always, is_constant, run.matrix)
            vote = vote.with_always(is_always)
        # 4 and 5. fits of what is kept, after a second vote
        is_kept, fits = self._fits(vote, units, is_constant, parts, settings, notes)
        self._seen.parts.append(part)
        # 6 and 7. their average
        errors, df, on_errors = np.empty(0), math.inf, list[str]()
        if fits is None:
            columns, average = np.empty(0, dtype=np.int64), intercept_alone(choices, settings)
        else:
            columns, (average, step) = fits.columns, fits.averaged(self.average)
            errors, df, on_errors = self._errors(fits, step)
            if average.coef.ndim == 1 and units.of_path is None and self.estimator is None:
                penalty = sum(settings.penalty(float(total), units.n_units) for total in fits.total)
                z = np.where(is_always[units.unit_of[columns]], np.inf, average.coef / errors)
                on_errors += notes_on_weak(z, penalty, run.matrix.names[columns])
        if is_always.any():
            notes.append(f"{int(is_always.sum())} {units.kind}(s) were always included, without a penalty or a vote")
        if units.groups is None:
            notes += notes_on_votes(vote.frequency, run.matrix.names)
        else:
            notes += notes_on_groups(units.groups, vote.frequency, passes.subsets.most_columns)
        notes += [] if fits is None else [*fits.notes(step), *on_errors]
        notes += [GOALS[self.goal]] if self.estimator is None else []
        self.n_cached_ = 0 if fits is None else fits.counts.n_cached
        table = self._set_model(units, vote.frequency, is_kept, is_always, columns, average, errors, df)
        self.result_ = self._result_of(
            run,
            notes=notes,
            history=choices.paths[0].columns() if choices.paths else {},
            chosen={
                "n_subsets": self.n_subsets_,
                "estimator": None if self.estimator is None else repr(self.estimator),
            },
            columns=table,
            n_samples=sum(part.subsets.data.n_samples for part, _ in parts),
        )

    def _prepared(self, run: Run, notes: list[str]) -> tuple[SubsetPasses, Units, np.ndarray]:
        """Step 1: return the passes over subsets of consecutive rows, what is voted on, and what is always included."""
        matrix = run.matrix
        units = _units(matrix.shape[1], self._groups_of(matrix))
        is_always = self._always(units, matrix.names)
        checked_target(matrix, self.loss_)
        rows = weighted_rows(matrix)
        shape, counts = DataShape.of(rows), rows.entry_counts(slice(None))
        n_values = None if counts is None else int(counts.sum())
        subsets = self._subsets(shape, units, is_always, n_values)
        settings = replace(subsets.settings, **self._coding(rows))
        if self.n_subsets is None and self.subset_size is None:
            notes.append(why_n_subsets(shape.n_samples, shape.n_features, n_values, LEAST_SUBSETS[self.goal]))
        in_order = in_partition(rows, subsets, self.random_state, notes)
        n_entries = None if counts is None else most_entries(in_order, subsets)
        subsets = replace(subsets, settings=settings, n_entries=n_entries)
        if shape.has_products:
            subsets = subsets.screened(run.limits)
        return SubsetPasses(run.over(in_order), subsets), units, is_always

    def _coding(self, rows: Matrix) -> dict[str, Any]:
        """Return how `SelectionSettings` codes the target; the first rows set the classes and Huber's threshold."""
        y, weight, seen = np.asarray(rows.read_target()), rows.read_weight(), self._seen
        if not seen.parts:
            seen.threshold = threshold_of(self._loss, None, y, weight)
        if not self._loss.is_classifier:
            return {"threshold": seen.threshold}
        self.classes_ = seen.codes = classes_of(y, seen.codes, many=self._loss.has_classes)
        codes = tuple(map(float, seen.codes))
        return {"classes": codes} if self._loss.has_classes else {"positive": codes[1]}

    def _check_always(self, units: Units, is_always: np.ndarray, is_constant: np.ndarray, matrix: Matrix) -> None:
        """Refuse a column that is always included, or a group, if it is constant."""
        for unit in np.flatnonzero(is_always):
            columns = np.flatnonzero(units.unit_of == unit)
            if is_constant[columns].all():
                place = f"always_include, column {matrix.names[columns[0]]!r}"
                raise DataError("is constant", place, "drop it")

    def _fits(
        self,
        vote: Vote,
        units: Units,
        is_constant: np.ndarray,
        parts: list[tuple[Part, SubsetPasses | None]],
        settings: SelectionSettings,
        notes: list[str],
    ) -> tuple[np.ndarray, SubsetFits | None]:
        """Steps 4 and 5: return which features or groups are kept, and the subsets' fits on them, if any are kept.

        Columns of a group that are constant in all rows are left out of the fits.
        """
        is_kept, fits = vote.is_selected, None
        if self.second_look and vote.is_contender.any():
            columns = np.flatnonzero((vote.is_selected | vote.is_contender)[units.unit_of] & ~is_constant)
            asked = None if units.groups is None else asked_groups(units, vote.is_contender, columns)
            fits = fit_subsets(parts, columns, with_errors=True, asked=asked)
            bar = np.array([settings.penalty(float(total), units.n_units) for total in fits.total])
            if units.groups is None:
                z = fits.z()[..., vote.is_contender[columns]]
            else:
                z, bar = z_of_gain(fits.gain(), bar, fits.total, settings), np.ones(len(bar))
            confirmed = np.flatnonzero(vote.is_contender)[second_vote(z, bar, settings.n_subsets)]
            is_kept = vote.is_selected | np.isin(np.arange(units.n_units), confirmed)
            notes.append(
                f"{int(vote.is_contender.sum())} {units.kind}(s) had no majority, but more votes than chance gives: "
                f"a second vote kept {len(confirmed)}"
            )
        columns = np.flatnonzero(is_kept[units.unit_of] & ~is_constant)
        if fits is not None and len(fits.columns) == len(columns):
            return is_kept, fits
        of_each = not self._loss.is_quadratic and (self.average != "one_step" or any(one is None for _, one in parts))
        return is_kept, fit_subsets(parts, columns, with_errors=of_each) if len(columns) else None

    def _errors(self, fits: SubsetFits, step: str) -> tuple[np.ndarray, float, list[str]]:
        """Return the standard errors of the average, their degrees of freedom, and the notes on them."""
        if self.std_errors == "subsets":
            found = of_differences(fits.estimates, step)
            return found, len(fits.total) - 1.0, notes_on_errors(found, None)
        found = fits.errors(step)
        n_rows = float(fits.total.sum()) if self._loss.is_quadratic else math.inf
        return found, max(n_rows - len(fits.columns) - 1.0, 1.0), notes_on_errors(found, fits.scatter(found, step))

    def _set_model(
        self,
        units: Units,
        frequency: np.ndarray,
        is_kept: np.ndarray,
        is_always: np.ndarray,
        columns: np.ndarray,
        average: Average,
        errors: np.ndarray,
        df: float,
    ) -> dict[str, np.ndarray]:
        """Set the attributes of all features from the averaged model; return further columns of the result's table.

        Units are sorted by inclusion frequency, then by the norm of their standardised coefficients; columns of a group
        stand together.
        """
        self.scores_, self.support_ = frequency[units.unit_of], is_kept[units.unit_of]
        self.coef_ = np.zeros((*average.coef.shape[:-1], len(self.scores_)))
        self.std_errors_ = np.full(self.coef_.shape, np.nan)
        self.coef_[..., columns], self.std_errors_[..., columns] = average.coef, errors
        self.intercept_ = average.intercept if average.coef.ndim > 1 else float(average.intercept)
        importance = np.zeros(len(self.scores_))
        importance[columns] = coefficient_norm(average.coef) * average.scale
        norm = np.sqrt(np.bincount(units.unit_of, importance**2, minlength=units.n_units))
        kept, rank = np.flatnonzero(is_kept), np.where(is_always, ALWAYS, frequency)
        kept = kept[np.lexsort((kept, -norm[kept], -rank[kept]))]
        selected, place = np.flatnonzero(self.support_), np.zeros(units.n_units, dtype=np.int64)
        place[kept] = np.arange(len(kept))
        self.selected_ = selected[np.lexsort((selected, -importance[selected], place[units.unit_of[selected]]))]
        coef, error = self.coef_[..., self.selected_], self.std_errors_[..., self.selected_]
        if coef.ndim > 1:
            coef, error = coefficient_norm(coef), of_norms(error, coef)
        reach = quantile(df) * error
        lower = coef - reach if self.coef_.ndim == 1 else np.maximum(coef - reach, 0.0)
        table = {"std_error": error, "lower": lower, "upper": coef + reach}
        return table if units.groups is None else table | self._set_groups(units.groups, kept, frequency[kept])


def _units(n_features: int, groups: FeatureGroups | None) -> Units:
    return Units(np.arange(n_features), n_features) if groups is None else units_of_groups(groups)


@dataclass
class _Seen:
    """What earlier calls of `partial_fit` keep for later ones."""

    codes: np.ndarray | None = None
    """The values of a classification target, ascending."""
    threshold: float = 0.0
    """Threshold of the Huber loss."""
    parts: list[Part] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Size of all arrays that are kept."""
        held = (part for part in self.parts if part.matrix is not None and part.matrix.is_resident)
        return sum(part.subsets.data.nbytes for part in held)
