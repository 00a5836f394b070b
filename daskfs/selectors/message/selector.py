"""MESSAGE: median selection subset aggregation, for linear and generalised linear models.

    Input: rows (X, y), number of subsets m
    1. Partition the rows at random into m subsets.
    2. On each subset i: follow the Lasso path; choose the model on it that minimises
       GIC(M) = n_i log(RSS_M / n_i) + λ |M|; γ_j(i) says whether feature j is in it.
    3. Keep the features that more than half of the subsets chose: γ_j = median_i γ_j(i).
    4. Fit these and the features with more votes than chance gives on each subset, and vote once more: keep those by
       which more than half of the subsets gain by their criterion.
    5. On each subset: least squares on the kept features gives β(i).
    6. Average: β = Σ_i β(i) / m.
    7. One Newton step from β on all rows.
    Return γ, β

Algorithm 1 of X. Wang, P. Peng and D. B. Dunson, "Median Selection Subset Aggregation for Parallel Inference",
Advances in Neural Information Processing Systems 27 (2014). With another loss the deviance, minus twice the
log-likelihood, takes the place of n_i log(RSS_M / n_i), and maximum likelihood that of least squares.

The paper's own recipe is ``Message(subset_size=400, criterion="bic", gic_rss="lasso", patience=30, second_look=False,
average="mean")``: glmnet's shrunk fit, BIC, a strict majority, a plain average; ``benchmarks/message_figures.py`` has
a row of it ("literal") beside the paper's figures 1 to 6.

Differs from the paper
----------------------
* σ² of equation (1) is unknown in practice; it is profiled out, which gives the criterion above. ``sigma2`` gives it:
  GIC(M) = RSS_M / σ² + λ |M|.
* RSS is that of the least-squares refit (``gic_rss="refit"``): in the paper's own simulations the shrunk fit loses weak
  signals of correlated features. The default λ is that of BIC, and more where few subsets vote: features of noise that
  one subset chooses are voted down, but one that most subsets miss is lost.
* Step 4. The Lasso's path misses weak features of correlated ones that a subset keeps when it is asked
  (`daskfs.selectors.message.votes`); ``second_look=False`` leaves the step out. A feature takes more than half of the
  subsets here as in step 3: the breakdown point of Theorem 1 stays one half, however many subsets. A statistic of
  all rows would find still weaker features and be moved by a few subsets; for those take fewer and larger subsets.
* Step 7. Maximum-likelihood fits of n_i rows are biased by O(1 / n_i), and so is their average. Where the true features
  are selected the step ends close to maximum likelihood on all rows. With the squared loss it ends at least squares on
  all rows, whose sums are those of the subsets: nothing more is read. ``average="mean"`` leaves it out. Both, as the
  paper's average, are moved by one subset of wild rows: what the vote withstands, the coefficients do not.
  ``average="median"`` does, with standard errors a quarter larger.
* A path ends at models of ``n_i / (2 log p)`` features, since log RSS falls without end towards saturation, and after
  `patience` features without a better model.
* Where features of a model on a path tell the class of rows without error (a word that only texts of one class have),
  no coefficients of the refit are best: the criterion takes the deviance that they fall to, and the result says so.
* The paper is silent on m even and votes of exactly m / 2; they do not count as a majority (``tie="drop"``).
* A column is selected for which more than half of all subsets vote, those where it is constant among them; its
  frequency, and the average of its coefficient, are over the others. A subset whose target is constant (one class) has
  no vote: where most are so, a minority of all decides.
* Columns of ``always_include`` have no penalty on any path, as the intercept has none, and are not voted on. A path
  begins with the model of these columns; with the squared loss it is that of the other columns and the target, both
  without what these explain.
* With ``feature_groups`` a subset follows the group Lasso path (Yuan and Lin 2006), of which the columns of a group are
  made orthonormal and its norm costs the root of their rank, and votes for groups; steps 4 to 7 take all of a group's
  columns. A group of r degrees of freedom costs λ, and r - 1 times what one more does (see `criterion`). The path is
  on a grid of λ: models between two of its points are not seen. Groups of one column each are columns.
* On a subset where the kept columns are linearly dependent, step 5 takes the shortest solution; on one where the
  likelihood has no maximum (its classes, or some of their rows, are linearly separable by them), a weak ridge bounds
  the fit, and the average leaves it out. The result counts both.
* The paper's theorems bound the error. Standard errors and intervals are asymptotic, of the features as if they had
  been given (`daskfs.selectors.message.errors`).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from daskfs.errors import ConfigError, DataError
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.kernels.losses import threshold_of
from daskfs.losses import LIKELIHOOD
from daskfs.matrix.base import Matrix
from daskfs.parameters import Columns as ColumnsGiven
from daskfs.parameters import Count, Estimator, LossOf, Positive, Share
from daskfs.result import coefficient_norm
from daskfs.selectors.from_blocks import TakesRowBlocks
from daskfs.selectors.grouped import SelectsGroups
from daskfs.selectors.inputs import columns_of, is_lazy
from daskfs.selectors.message.choices import Choices
from daskfs.selectors.message.errors import notes_on_errors, notes_on_weak, of_norms, quantile
from daskfs.selectors.message.fits import Average, Part, SubsetFits, fit_subsets, intercept_alone
from daskfs.selectors.message.passes import SubsetPasses
from daskfs.selectors.message.plan import (
    MIN_SUBSETS,
    Subsets,
    check_subsets,
    choose_n_subsets,
    in_partition,
    most_entries,
    n_entries_of,
    plan_message,
    promised_entries,
    why_n_subsets,
)
from daskfs.selectors.message.subset import SelectionSettings
from daskfs.selectors.message.units import Columns, Groups
from daskfs.selectors.message.votes import Vote, count_votes, notes_on_choices
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.refit import fit_each_class
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target, classes_of

MOST_ON_A_PATH = 400  # columns with votes
CRITERION_OF_PREDICTION, PATIENCE_OF_PREDICTION = "bic", 30
GOALS = {
    "inference": "the goal was inference: few false features; goal='prediction' keeps more, where many weak ones count",
    "prediction": "the goal was prediction: BIC, a path that is followed further, and as few subsets as memory allows",
}
ALWAYS = 2.0  # in the place of an inclusion frequency, for the order
KEPT_NBYTES = 256 << 20  # of arrays that `partial_fit` keeps for the squared loss, which seldom needs them


class Message(SelectsGroups, TakesRowBlocks, renamed={"penalty": "gic_penalty"}):
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
    loss : {"auto", "squared", "logistic", "poisson", "huber", "multinomial"}
        The model: linear; two classes (any labels) by their log-odds; counts by the logarithm of their mean; linear
        with errors that count linearly beyond 1.345 robust standard deviations of the target; any number of classes,
        each with coefficients of its own: a feature is kept that most subsets choose for some class against the others.
        By default squared, logistic or multinomial, as the target calls for.
    goal : {"inference", "prediction"}
        inference: few false features, and coefficients that can be trusted. prediction: features that predict, some of
        them of noise: criterion "bic", a patience of 30 at least, and by default as few subsets as memory allows.
    criterion : {"vote", "bic", "ric", "ebic"}
        bic: λ = log n_i. ebic: λ = log n_i + 2 gamma log p. ric: λ = 2 (log p + log log p). vote: bic where there are
        many subsets, and as much more where they are few as keeps features of noise, which half of them must choose,
        to 0.01 expected, up to ebic. Of a group each degree of freedom after the first costs as much with bic, log n_i
        with ebic, and 2 with vote and ric, so that a group of noise is chosen about as seldom as a column of noise; p
        is the number of groups.
    gamma : float
        EBIC's γ (0 to 1); it also caps the penalty of ``criterion="vote"``. γ = 1 is the paper's extended BIC.
    gic_penalty : float, optional
        λ itself, instead of a criterion.
    sigma2 : float, optional
        Variance of the noise, where it is known (with losses other than the squared one, the dispersion).
    gic_rss : {"refit", "lasso"}
        Whether the criterion sees the residuals (the deviance) of the refit or of the shrunk Lasso fit.
    approx : {"lsa"}, optional
        For losses other than the squared one, follow the path of the quadratic approximation at the fit of all
        features, for few of them: three times as fast with 20 to 30, slower than the exact path from some 60 on. Some
        subsets choose another model than on the exact path.
    estimator : scikit-learn estimator, optional
        Selects on each subset instead of the Lasso path: a clone is fitted, the features with a coefficient in its
        ``coef_`` are chosen. Classes are -1 and 1 to it. The criterion and what belongs to it have no
        effect then.
    tie : {"drop", "keep"}
        What becomes of a feature that exactly half of the subsets chose.
    second_look : bool
        Whether features that fewer than half of the subsets chose, but more than chance would have it, are kept where
        more than half keep when they are asked in a second vote.
    average : {"one_step", "mean", "median"}
        Whether a Newton step on all rows follows the average of the subsets' coefficients; or their median, which
        withstands outliers in fewer than half of the subsets, as the selection does.
    std_errors : {"information", "subsets"}
        Of the averaged coefficients: from the inverse information of the subsets' fits, as maximum likelihood has them;
        or from how these fits differ, which holds for noise that is not as the loss takes it (larger here than there,
        counts more scattered than Poisson's, rows that depend on each other within strided subsets) and is rougher the
        fewer the subsets. See `daskfs.selectors.message.errors`.
    n_lambdas : int
        Length of the Lasso path's grid, where the path is not followed from knot to knot.
    patience : int or None
        A path stops at models with so many features more than the best so far; None: never. With "bic", whose criterion
        turns late, 30 is safer than the default. With `feature_groups` so many groups more.
    max_features : int, optional
        Largest model a subset may choose; by default n_i / (2 log p), with `feature_groups` up to n_i / 3, and those
        always included. Groups of more columns cannot be selected.
    always_include : array of int or str, optional
        Columns, by number or name, that are selected whatever else, and their groups with them, such as age, sex and
        the principal components of a study of genomes: in every model, without a penalty. They count in `max_features`.
    random_state : int, RandomState or None
        Of the partition of rows that do not stand in random order.
    memory_limit : int or str, optional
        What one task may take, "1GiB" for example; by default tasks read about 128 MiB.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, most important first: those always included, then by inclusion frequency, then by the size of the
        standardised coefficient; those of a group one after the other.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        On the scale of the data, 0 where not selected; with the multinomial loss of sum 0 over the classes.
    std_errors_ : ndarray of shape (n_features,) or (n_classes, n_features)
        Of `coef_`; NaN where not selected, and where there is none (linearly dependent or separable). The result's
        table has them with 95 % intervals, of several classes those of the norms.
    intercept_ : float or ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        With the logistic loss `coef_` is of the log-odds of the second.
    scores_ : ndarray of shape (n_features,)
        Inclusion frequency: the share of the subsets that chose a feature, among those where it is not constant; NaN
        where it is constant in all. 1 of those always included.
    groups_ : ndarray of shape (n_selected_groups,)
        With `feature_groups`: their numbers, as `selected_` has their columns.
    group_names_ : ndarray of shape (n_selected_groups,), str
    group_scores_ : ndarray of shape (n_selected_groups,)
        Their inclusion frequencies.
    n_subsets_ : int
    n_selected_per_subset_ : ndarray of shape (n_subsets_,)
        Of columns, or with `feature_groups` of groups.
    n_cached_ : int
        Subsets refitted from what their paths left behind, without reading their rows again.
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
    step. A second vote that keeps only some refits twice. A task holds its rows and up to 256 MiB beside them. The
    same store, parameters and seed give the same bits on one machine with any number of workers. Tiles change no more
    than rounding.

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
            raise ConfigError("has no effect with goal='prediction', which takes bic", "criterion", "leave one out")
        if self.feature_groups is not None and self.approx is not None:
            raise ConfigError("follows columns one by one, not feature_groups", "approx", "leave one of them out")
        if self.estimator is not None and self.always_include is not None:
            problem = "an estimator chooses by itself: no column can be kept in its models without a penalty"
            raise ConfigError(problem, "always_include", "leave it out, or the estimator")

    @property
    def weighs_columns(self) -> bool:
        """Whether weights of columns mean something: to the paths, not to ``approx`` nor to another estimator."""
        return super().weighs_columns and self.approx is None and self.estimator is None

    @property
    def is_nested(self) -> bool:
        """Whether columns, not groups, have votes."""
        return self.feature_groups is None

    def _path_order(self, run: Run) -> np.ndarray:
        """All columns that any subset chose, by votes; of as many votes by size in the fit of all of them."""
        matrix, frequency = run.matrix, np.nan_to_num(self.scores_)
        frequency[columns_of(self.always_include, matrix.shape[1], matrix.names, "always_include")] = ALWAYS
        columns = np.argsort(-frequency, kind="stable")[: min(int((frequency > 0.0).sum()), MOST_ON_A_PATH)]
        if not len(columns):
            return columns
        fits = fit_each_class(run, columns, self.loss_, free=self.included_columns(matrix))
        size = coefficient_norm(fits.coef) * fits.fits[0].scale
        return columns[np.lexsort((columns, -size, -frequency[columns]))]

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        units = _units(shape.n_features, self._planned_groups(shape))
        subsets = self._subsets(shape, units, self._always(units, shape), shape.n_entries)
        return plan_message(replace(subsets, n_entries=promised_entries(subsets)), limits)

    def _always(self, units: Columns, shape: DataShape) -> np.ndarray:
        """Return which units are always included; as long as names of columns are not known the first as many."""
        asked = np.asarray([] if self.always_include is None else self.always_include, dtype=object).ravel()
        if shape.names is None and any(isinstance(one, str) for one in asked):
            asked = np.arange(min(len(asked), shape.n_features))
        is_always = units.have(columns_of(asked, shape.n_features, shape.names, "always_include"))
        n_columns = len(units.columns(is_always))
        if self.max_features is not None and n_columns > self.max_features:
            problem = f"expected at most {self.max_features} columns, found {n_columns}"
            raise ConfigError(problem, "always_include", "raise max_features")
        return is_always

    def _subsets(self, shape: DataShape, units: Columns, is_always: np.ndarray, n_values: int | None = None) -> Subsets:
        """Return how rows of this shape are cut into subsets, as far as is known before any data is."""
        asked = self.n_subsets, self.subset_size
        n_subsets = choose_n_subsets(shape.n_samples, shape.n_features, *asked, n_values, self._least_subsets)
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
            always=units.on_path(is_always),
        )
        return Subsets(shape, settings, self.partition)

    @property
    def _least_subsets(self) -> int:
        return 1 if self.goal == "prediction" else MIN_SUBSETS

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None) -> Message:
        """Take more rows: their subsets vote with those before, and their fits join the average.

        The rows of one call are cut into subsets of their own. The answer is that of one `fit` over all these subsets,
        whose number also decides on the penalty of ``criterion="vote"``. Two things are the first rows' alone: which
        classes there are, and the threshold of the Huber loss.

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
        Earlier rows are not selected on again: their paths have left the models of all penalties that may come. With
        the squared loss subsets are refitted from what they left behind, a few kilobytes each; a subset whose path has
        not met a feature that is selected or looked at again now is read again. Other losses read these columns of all
        rows again. A store costs nothing; arrays in memory that `partial_fit` was given are kept for it, with the
        squared loss the first 256 MiB of them (those given to `fit` are not, and none is pickled with the selector).
        Subsets whose rows are gone vote as ever, but not a second time, and are left out of the average: then alone is
        the answer another than that of one fit, and a note or a warning says so.
        """
        self.check_parameters()
        self._refuse_second_look("rows come")
        seen = getattr(self, "_seen", _Seen())
        is_first = not seen.parts
        if not is_first and not self._loss.is_quadratic and any(part.matrix is None for part in seen.parts):
            warnings.warn(
                "the rows of earlier calls are gone: their subsets vote, but are left out of the average; begin with "
                "partial_fit, which keeps rows, or fit a store",
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

    def _take(self, run: Run) -> None:
        """Steps 1 to 7, with the subsets of earlier calls."""
        notes: list[str] = []
        units = _units(run.matrix.shape[1], self._groups_of(run.matrix))
        is_always = self._always(units, replace(run.shape, names=run.matrix.names))
        rows, subsets = self._partition(run.matrix, units, is_always, notes)
        passes = SubsetPasses(run.over(rows), subsets)
        part = Part(rows, subsets, passes.select())
        parts = [*((past, past.passes(run)) for past in self._seen.parts), (part, passes)]
        n_subsets = sum(part.subsets.n_subsets for part, _ in parts)
        settings = replace(subsets.settings, n_subsets=n_subsets)
        choices = Choices.joined([part.choices for part, _ in parts]).among(settings, units.n_units)
        notes += notes_on_choices(choices)
        counted = units.counted(choices)
        vote = count_votes(counted, units.n_units, self.tie).with_always(is_always)
        is_constant = choices.are_constant(subsets.data.n_features)
        self._check_always(units, is_always, is_constant, run.matrix)
        is_kept, fits = self._fits(vote, units, is_constant, parts, settings, notes)
        self._seen.parts.append(part)
        errors, df, on_errors = np.empty(0), math.inf, list[str]()
        if fits is None:
            columns, average = np.empty(0, dtype=np.int64), intercept_alone(choices, subsets.settings)
        else:
            columns, (average, step) = fits.columns, fits.averaged(self.average)
            errors, df, on_errors = self._errors(fits, step)
            if average.coef.ndim == 1 and units.of_path is None and self.estimator is None:
                penalty = sum(settings.penalty(float(total), units.n_units) for total in fits.total)
                is_free = is_always[columns]
                z = np.where(is_free, np.inf, average.coef / errors)
                on_errors += notes_on_weak(z, penalty, run.matrix.names[columns])
        if is_always.any():
            notes.append(f"{int(is_always.sum())} {units.kind}(s) were always included, without a penalty or a vote")
        notes += units.notes_on(vote.frequency, run.matrix.names, subsets.most_columns)
        notes += [] if fits is None else [*fits.notes(step), *on_errors]
        notes += [GOALS[self.goal]] if self.estimator is None else []
        self.n_subsets_, self.n_cached_ = n_subsets, 0 if fits is None else fits.counts.n_cached
        self.n_selected_per_subset_ = counted.n_selected
        rank = np.where(is_always, ALWAYS, vote.frequency)
        kept = self._set_model(vote.frequency, rank, is_kept, units, columns, average)
        table = self._set_errors(columns, errors, df)
        if isinstance(units, Groups):
            table |= self._set_groups(units.groups, kept, vote.frequency[kept])
        self.result_ = self._result_of(
            run,
            notes=notes,
            history={} if choices.path is None else choices.path.columns(),
            chosen={
                "n_subsets": self.n_subsets_,
                "estimator": None if self.estimator is None else repr(self.estimator),
            },
            columns=table,
            n_samples=sum(part.subsets.data.n_samples for part, _ in parts),
        )

    def _check_always(self, units: Columns, is_always: np.ndarray, is_constant: np.ndarray, matrix: Matrix) -> None:
        """Refuse a column that is always included, or a group, of which nothing varies."""
        for unit in np.flatnonzero(is_always):
            columns = units.columns(np.arange(units.n_units) == unit)
            if is_constant[columns].all():
                place = f"always_include, column {matrix.names[columns[0]]!r}"
                raise DataError("is constant", place, "drop it")

    def _partition(
        self, matrix: Matrix, units: Columns, is_always: np.ndarray, notes: list[str]
    ) -> tuple[Matrix, Subsets]:
        """Step 1: return the rows in an order whose consecutive parts are the subsets."""
        checked_target(matrix, self.loss_)
        rows = weighted_rows(matrix)
        n_values = n_entries_of(rows)
        subsets = self._subsets(DataShape.of(rows), units, is_always, n_values)
        settings = replace(subsets.settings, **self._coding(rows))
        if self.n_subsets is None and self.subset_size is None:
            shape = subsets.data
            notes.append(why_n_subsets(shape.n_samples, shape.n_features, n_values, self._least_subsets))
        in_order = in_partition(rows, subsets, self.random_state, notes)
        return in_order, replace(subsets, settings=settings, n_entries=most_entries(in_order, subsets))

    def _coding(self, rows: Matrix) -> dict[str, Any]:
        """Return what the target is, for `SelectionSettings`: classes and Huber's threshold are the first rows'."""
        y, weight, seen = np.asarray(rows.read_target()), rows.read_weight(), self._seen
        if not seen.parts:
            seen.threshold = threshold_of(self._loss, None, y, weight)
        if not self._loss.is_classifier:
            return {"threshold": seen.threshold}
        self.classes_ = seen.codes = classes_of(y, seen.codes, many=self._loss.has_classes)
        codes = tuple(map(float, seen.codes))
        return {"classes": codes} if self._loss.has_classes else {"positive": codes[1]}

    def _fits(
        self,
        vote: Vote,
        units: Columns,
        is_constant: np.ndarray,
        parts: list[tuple[Part, SubsetPasses | None]],
        settings: SelectionSettings,
        notes: list[str],
    ) -> tuple[np.ndarray, SubsetFits | None]:
        """Steps 4 and 5: return which features, or groups, are kept, and the subsets' fits on them, if any is.

        A column of a group that is constant in all rows takes no part in the fits.
        """

        def varying(is_kept: np.ndarray) -> np.ndarray:
            columns = units.columns(is_kept)
            return columns[~is_constant[columns]]

        is_kept, fits = vote.is_selected, None
        if self.second_look and vote.is_contender.any():
            columns = varying(vote.is_selected | vote.is_contender)
            fits = fit_subsets(parts, columns, with_errors=True, asked=units.asked(vote.is_contender, columns))
            is_confirmed = units.confirmed(fits, vote.is_contender, settings)
            is_kept = vote.is_selected | is_confirmed
            notes.append(
                f"{int(vote.is_contender.sum())} {units.kind}(s) had fewer votes than a majority and more than chance "
                f"gives: {int(is_confirmed.sum())} kept by a second vote"
            )
        columns = varying(is_kept)
        if fits is not None and len(fits.columns) == len(columns):
            return is_kept, fits
        of_each = not self._loss.is_quadratic and (self.average != "one_step" or any(one is None for _, one in parts))
        return is_kept, fit_subsets(parts, columns, with_errors=of_each) if len(columns) else None

    def _errors(self, fits: SubsetFits, step: str) -> tuple[np.ndarray, float, list[str]]:
        """Return the standard errors of the average, their degrees of freedom, and the notes on them."""
        if self.std_errors == "subsets":
            found = fits.errors_by_difference(step)
            return found, len(fits.total) - 1.0, notes_on_errors(found, None)
        found = fits.errors(step)
        n_rows = float(fits.total.sum()) if self._loss.is_quadratic else math.inf
        return found, max(n_rows - len(fits.columns) - 1.0, 1.0), notes_on_errors(found, fits.scatter(found, step))

    def _set_errors(self, columns: np.ndarray, errors: np.ndarray, df: float) -> dict[str, np.ndarray]:
        """Set the standard errors; return them and the 95 % intervals of the table's coefficients."""
        self.std_errors_ = np.full(self.coef_.shape, np.nan)
        self.std_errors_[..., columns] = errors
        coef, error = self.coef_[..., self.selected_], self.std_errors_[..., self.selected_]
        if coef.ndim > 1:
            coef, error = coefficient_norm(coef), of_norms(error, coef)
        reach = quantile(df) * error
        lower = coef - reach if self.coef_.ndim == 1 else np.maximum(coef - reach, 0.0)
        return {"std_error": error, "lower": lower, "upper": coef + reach}

    def _set_model(
        self,
        frequency: np.ndarray,
        rank: np.ndarray,
        is_kept: np.ndarray,
        units: Columns,
        columns: np.ndarray,
        average: Average,
    ) -> np.ndarray:
        """Set what the averaged model of some columns says of all; return the units kept, by `rank` and by size."""
        self.scores_ = units.of_columns(frequency)
        self.support_ = units.of_columns(is_kept)
        self.coef_ = np.zeros((*average.coef.shape[:-1], len(self.scores_)))
        self.coef_[..., columns] = average.coef
        self.intercept_ = average.intercept if average.coef.ndim > 1 else float(average.intercept)
        kept, self.selected_ = units.ranked(is_kept, rank, columns, average)
        return kept


def _units(n_features: int, groups: FeatureGroups | None) -> Columns:
    return Columns(n_features) if groups is None else Groups(groups)


@dataclass
class _Seen:
    """What rows leave behind for those that come later."""

    codes: np.ndarray | None = None
    """Values that a target of classes takes, ascending."""
    threshold: float = 0.0
    """Of the Huber loss."""
    parts: list[Part] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Of all arrays that are held."""
        held = (part for part in self.parts if part.matrix is not None and part.matrix.is_resident)
        return sum(part.subsets.data.nbytes for part in held)
