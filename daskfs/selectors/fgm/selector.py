"""FGM, the feature generating machine: the B columns that violate the optimum most, pass after pass.

    Input: store of n rows x p columns, classes (or a target), C, B = n_features_per_pass
    1. v = minus the slope of C Σ_i loss(shift, y_i); no group of columns yet
    2. on every block of columns, where it lies, and then joined in a tree:          (worst-case analysis)
         s_j = (x̃_jᵀ v)² for its columns x̃_j = (x_j - mean_j) / scale_j; its B largest, ties by number
    3. the B columns with the largest s_j become group t, and are kept in memory
    4. ω_1 ... ω_t, shift = argmin ½ (Σ_t ‖ω_t‖)² + C Σ_i loss(Σ_t X̃_t ω_t + shift, y_i)          (subproblem)
    5. v = minus the slope of the loss at that point; back to 2, until
         as many features as asked for, or the objective has stopped falling, or the loss of rows held out has

Reference: Mingkui Tan, Ivor W. Tsang and Li Wang (2014), "Towards Ultrahigh Dimensional Feature Selection for Big
Data", Journal of Machine Learning Research 15, 1371-1429: Algorithms 1 to 5, Theorem 3, section 5.

Differs from the paper:

- The constants are those of its (7): C/2 Σ ξ² for the squared hinge, C Σ log(1 + exp(-y z)) for the logistic loss. Its
  released code has C Σ ξ². The squared loss is ours.
- The shift is added (z = Xω + shift), and moved by Newton's method with Armijo's rule, which ends in one or two steps
  where steepest descent takes many; the dual variables therefore add up to 0, as (11) asks.
- Scores depend on the scale of the columns. They are standardised on the fly with the store's statistics, dummies,
  counts and tf-idf by deviations that are kept from vanishing; as in the paper where `center` and `normalize` are
  False.
- An iteration of the descent that raises the objective is taken back and repeated without momentum (the step length
  may grow, so the paper's proof does not exclude it).
- FGM run to the end is the loss with half the squared k-support norm (Argyriou, Foygel and Srebro 2012), k = B, whose
  dual needs the B largest scores alone. So each pass gives a lower bound of the optimum over all columns, which the
  paper does not have; the gap is in the history.
- Where a number of features is asked for, the last B is smaller, and a pass takes new features alone when the passes
  left would not suffice otherwise. Groups whose coefficients have vanished count: they were selected.
- A feature that is picked again is kept in memory once.
- Groups are compared by the sum (28) less its expectation where the dual variables are independent of their columns,
  ‖v‖² Σ_j var(x̃_j): the sum of a thousand dummies that say nothing exceeds that of three that do.
- Several classes are told each from the rest by one problem whose groups of columns are shared: a column has a
  coefficient for each class, ‖ω_t‖ is the norm of all coefficients of a group, and s_j is summed over the classes.
- Columns that are always included belong to the shift: no penalty, moved with it by Newton's method. The dual variables
  are orthogonal to them, so that their scores are 0, and all of the above holds as it is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Gt, Lt

from daskfs.errors import ConfigError
from daskfs.feature_maps.base import Given, MapCost
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.feature_maps.registry import MapGiven, map_of
from daskfs.kernels.fgm.shift import new_rows
from daskfs.losses import AT_ONCE, BOUNDED_CURVATURE, DUAL, ONE_PREDICTION, find_loss
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.matrix.names import Names
from daskfs.matrix.split import in_whole_groups
from daskfs.matrix.streaming import pieces_of
from daskfs.parameters import Columns, Count, CountOrCV, LossOf, Positive, Tolerance, n_to_select
from daskfs.result import Parent, columns_of_parents
from daskfs.selectors.fgm.candidates import (
    NOTHING,
    Candidates,
    GroupScore,
    ImplicitColumns,
    Included,
    StoredColumns,
    StoredGroups,
)
from daskfs.selectors.fgm.loss_weight import C_FACTORS, VALIDATION_SHARE, default_C
from daskfs.selectors.fgm.passes import Passes, Stopping
from daskfs.selectors.fgm.plan import (
    Sizes,
    Units,
    Way,
    choose_sizes,
    cut_columns,
    dual_nbytes,
    n_kept_groups,
    plan_fgm,
    scoring_of,
)
from daskfs.selectors.fgm.restricted_problem import RestrictedProblem, SolverSettings
from daskfs.selectors.fgm.standardising import Scaling, column_moments
from daskfs.selectors.fgm.tasks import scored_in_place
from daskfs.selectors.grouped import SelectsGroups
from daskfs.selectors.inputs import columns_of, seed_of
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.refit import BLOCK_VALUES, MeanLoss, refit_selected
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target, classes_of, signs_of


class FGM(SelectsGroups):
    """Select the features that violate the optimum most, pass after pass over blocks of columns.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        Exactly so many; by default until `tol`, `max_passes` or `validation` ends it.
        "cv": as many as cross-validation says; a mapping, as `daskfs.SelectionCV` has `cv`, `sizes`, `rule`, `metric`,
        `groups` and `order`, says how.
    n_features_per_pass : int, optional
        The paper's B: columns of a pass. By default 10, or a tenth of `n_features_to_select`. Few find more of the
        true features, many take fewer passes over the data.
    loss : {"auto", "squared", "logistic", "squared_hinge"}
        Least squares, the paper's PROX-SLR and PROX-FGM, for classes with any labels, several each against the rest; by
        default the logistic of classes and the squared of numbers.
    C : float or "validation", optional
        Weight of the loss against half the squared norm. By default 0.01, with fewer than 1,000 rows 10 / n, divided by
        the columns' typical variance where they are not normalised, and four times as much for the logistic loss.
        "validation": the best of multiples of that, 1/10 to 100, by the loss of rows held out. See Notes.
    fit_intercept : bool
        Whether there is an intercept. Without, columns are not centred.
    always_include : array of int or str, optional
        Columns, by number or name, that are in the model from the start, as covariates are: without a penalty, as the
        intercept is, until the refit (`debias`). They are selected whatever else, and their groups with them, and count
        among `n_features_to_select`.
    center : bool
        Whether columns are taken about their means; nothing is written, and sparse columns stay sparse.
    normalize : bool or "auto"
        Whether columns are divided by their standard deviations (not centred: by their root mean squares). "auto":
        they are, those without a value below 0 and with some that are 0 (dummies, counts, tf-idf) by what it would be
        with 30 more rows of their typical size, so that categories of few rows are not selected by chance.
    tol : float
        Without `n_features_to_select`: ends where a pass lowers the objective by no more than this share of what it
        was without features, the paper's (38).
    max_passes : int, optional
        By default 20; with `n_features_to_select` up to twice as many as that many new features take.
    validation : float, optional
        Share of the rows held out: passes end where their loss has not fallen for `patience` passes, and the groups up
        to the best one are fitted on all rows.
    patience : int
        Of `validation`.
    solver : {"apg", "exact", "simple_mkl"}
        Of the subproblem: accelerated gradient to `inner_tol`; the same, then polished by alternating ridge fits and
        weights of the groups to a duality gap of 1e-9; or SimpleMKL, the paper's MKL-FGM.
    inner_tol : float
        Ends the subproblem where an iteration lowers the objective by no more than this share, the paper's (41).
    max_inner : int
        Iterations of a subproblem; of simple_mkl ridge fits.
    certify : bool
        Whether one more pass computes the duality gap of the final model.
    debias : bool
        Whether `coef_` are those of a refit on the selected features alone, with an intercept and a ridge that the data
        choose, with the squared hinge ½ ‖w‖² + C Σ loss. Both fits' accuracies are reported. Has no effect without
        `fit_intercept`.
    feature_groups : "schema", array of labels, list of arrays, or mapping, optional
        Columns that are selected together or not at all: a label for each column, or for some in a pandas Series; a
        list of groups, which may overlap; a mapping of names to groups, or to mappings, a tree; "schema": the columns
        of the table that was ingested (all dummies of a category, all parts of a date); ``{"file": ..., "column":
        ...}``, a CSV table with the features' names in "name". Columns in no group are selected alone. By default each
        is.
    group_score : {"excess", "sum", "mean"}
        By what groups are compared: the sum of their columns' scores less what chance gives as many columns; the sum
        alone, the paper's (28), which takes a group of a thousand dummies for its size; or the mean, as the paper's
        released code has it, which takes small ones. Of a tree of groups the mean lets no subtree be left out.
    counts : {"groups", "features"}
        What `n_features_to_select` counts where there are groups: these, or their columns. `n_features_per_pass` counts
        groups.
    feature_map : FeatureMap or str, optional
        Features are not the columns but what a map makes of them while they are scored, pairs for example: see
        `daskfs.feature_maps`. `n_features_to_select` counts them, or where a map makes several of each column those
        columns.
    random_state : int, RandomState or None
        Of the rows held out.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, those always included and then the rest, both by `scores_`.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,), with more than two classes (n_classes, n_features)
        On the scale of the data.
    intercept_ : float, with more than two classes ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        With a loss of classes.
    scores_ : ndarray of shape (n_features,)
        Size of the standardised coefficient as fitted, before the refit, of several classes the norm; 0 where not
        selected.
    groups_ : ndarray of shape (n_selected_groups,)
        With `feature_groups`: their numbers, by `group_scores_`; `selected_` are all of their columns.
    group_names_ : ndarray of shape (n_selected_groups,), str
    group_scores_ : ndarray of shape (n_selected_groups,)
        Norm of the standardised coefficients of a group.
    C_ : float
    C_losses_ : dict of float
        With ``C="validation"``: mean loss of the rows held out for each C tried.
    dual_gap_ : float
        Share of the objective by which it may lie above the optimum over all columns, as far as passes have shown.
    n_passes_ : int
        Worst-case analyses.
    result_ : SelectionResult
        Its history has a row for each pass: features, objective, gap before the pass and more. With `feature_map` its
        table says what each feature scored before any was selected and which columns it is made of, each with the score
        and rank that it has as a feature of its own (`daskfs.result.columns_of_parents`).

    Notes
    -----
    The optimum itself is not sparse: with a large C the gap may stand at .9 when the features are as good as they get.
    The number of features, or rows held out, should end the passes; the gap says how far the optimum is, not how good
    the selection is. A large C goes on fitting once the loss is near 0, and picks columns for the noise.

    Memory: in a task a decoded tile and the sums of a block of columns, or the few columns that it reads for a group;
    in the client process the selected columns as they are stored, up to 512 MiB of their inner products, and vectors
    over the rows, of several classes for each class. Each pass decodes a store once, whatever the memory limit, and
    the tiles of the columns that its group takes once more. The same store and parameters give the same bits on
    one machine with any number of workers. Tiles and memory change no more than rounding.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 200))
    >>> y = np.where(X[:, 3] - X[:, 7] + X[:, 11] > 0.5, "yes", "no")
    >>> selector = FGM(n_features_to_select=3).fit(X, y)
    >>> np.sort(selector.selected_)
    array([ 3,  7, 11])
    """

    method = "fgm"
    score_kind = "standardised coefficient"
    history_kind = "passes"
    _takes_overlap = True
    _weighs_columns = True

    n_features_to_select: CountOrCV | None = None
    n_features_per_pass: Count | None = None
    loss: Annotated[str, LossOf(BOUNDED_CURVATURE, ONE_PREDICTION, AT_ONCE, DUAL, several=True)] = "auto"
    C: Positive | Literal["validation"] | None = None
    fit_intercept: bool = True
    always_include: Columns = None
    center: bool = True
    normalize: bool | Literal["auto"] = "auto"
    tol: Tolerance = 1e-3
    max_passes: Count | None = None
    validation: Annotated[float, Gt(0), Lt(1)] | None = None
    patience: Count = 3
    solver: Literal["apg", "exact", "simple_mkl"] = "apg"
    inner_tol: Tolerance = 1e-3
    max_inner: Count = 50
    certify: bool = False
    debias: bool = True
    group_score: GroupScore = "excess"
    counts: Literal["groups", "features"] = "groups"
    feature_map: MapGiven | None = None

    def _check_combination(self) -> None:
        if self.feature_groups is not None and self.feature_map is not None:
            remedy = "leave one out: a map's features are grouped by what they are made of"
            raise ConfigError("expected feature_groups or feature_map, found both", "feature_map", remedy)
        if self.feature_map is not None:
            map_of(self.feature_map)
            if self.always_include is not None:
                problem = "columns of the data are not among the features that a map makes of them"
                raise ConfigError(problem, "always_include", "leave it out, or leave feature_map out")
        if self.feature_groups is None and (self.counts, self.group_score) != ("groups", "excess"):
            name = "group_score" if self.counts == "groups" else "counts"
            raise ConfigError("has no effect without feature_groups", name, "leave it out")

    @property
    def _units_by(self) -> str | None:
        return super()._units_by if self.feature_map is None else "feature_map"

    @property
    def is_nested(self) -> bool:
        """Whether passes select columns, as many as are asked for, and the refit gives their coefficients."""
        ways = self.feature_groups, self.feature_map, self.validation, self.always_include
        plain = all(way is None for way in ways)
        return plain and self.debias and self.fit_intercept

    def _path_order(self, run: Run) -> np.ndarray:
        """Columns as they entered: pass by pass, and in a pass by score."""
        return self._entered

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        n_problems = shape.n_classes if shape.n_classes > 2 and find_loss(self.loss_).is_classifier else 1
        groups = self._planned_groups(shape)
        cost = self._cost(shape, limits, n_problems)
        included = self._included(shape.n_features, shape.names, groups)
        sizes = self._sizes(included.taken_from(_units(shape.n_features, groups, cost)))
        n_passes = sizes.n_passes if self.n_features_to_select is None else -(-sizes.most // sizes.per_pass)
        n_scored = n_passes + self.certify
        refits, n_trials = self.debias and self.fit_intercept, len(C_FACTORS) if self.C == "validation" else 0
        return plan_fgm(
            shape, sizes, limits, self.solver, n_scored, n_problems, refits, n_trials, groups, cost, self.loss_
        )

    def _cost(self, shape: DataShape, limits: Limits, n_problems: int) -> MapCost | None:
        """Return what the feature map makes of a matrix; None where its columns are taken as they are."""
        if self.feature_map is None:
            return None
        room = None if limits.task_nbytes is None else limits.task_nbytes - dual_nbytes(shape.n_samples, n_problems)
        sizes = shape.n_samples, shape.n_features, shape.itemsize, shape.n_entries, n_problems
        return map_of(self.feature_map).cost(*sizes, room, shape.names)

    def _included(self, n_features: int, names: Names | None, groups: FeatureGroups | None) -> Included:
        """Return the columns that are always included, with their groups; for a plan as many, where names are unknown.

        Raises
        ------
        ConfigError
            Groups overlap.
        DataError
            There is no such column.
        """
        if self.always_include is None:
            return NOTHING
        if groups is not None and groups.overlap:
            problem = "of groups that overlap it is not said which of them a column brings"
            raise ConfigError(problem, "always_include", "leave it out, or give groups that do not overlap")
        asked = self.always_include
        if names is None:  # it is known how many they are, and no more
            asked = np.arange(min(n_features, np.size(np.asarray(asked, dtype=object))))
        columns = columns_of(asked, n_features, names, "always_include")
        if groups is None:
            return Included(columns, columns)
        group_of = np.empty(n_features, np.int64)
        group_of[groups.members] = np.repeat(np.arange(groups.n_groups), groups.sizes)
        wanted = np.unique(group_of[columns])
        if names is None:
            wanted = np.argsort(-groups.sizes, kind="stable")[: len(columns)]
        return Included(*groups.columns_of(wanted))

    def _sizes(self, units: Units) -> Sizes:
        counts_columns = self.counts == "features"
        n_units = units.n_units + units.included_units
        n_to_select(self.n_features_to_select, units.most_columns(n_units) if counts_columns else n_units, 1)
        wanted = self.n_features_to_select, self.n_features_per_pass, self.max_passes
        return choose_sizes(*wanted, units, counts_columns)

    def _fit(self, run: Run) -> None:
        run = run.over(run.matrix, by="columns")
        y, weight = self._problems(run.matrix)
        candidates = self._candidates(run, weight, len(y))
        held_out = self._held_out(run.matrix, weight, self.validation)
        self.C_ = self._chosen_C(run.matrix, candidates, y, weight)
        passes = self._passes(candidates, y, weight, held_out, self.C_)
        at_first = passes.problem.unit_dual()
        passes.run()
        if held_out.any():
            passes.fit_all_rows(self.C_ * weight)
        if self.certify:
            passes.score()
        self._take(passes)
        notes = self._notes(passes)
        if self.debias and self.fit_intercept and len(self.selected_):
            notes.append(self._debiased(passes, y, weight))
        chosen = {"C": self.C_, "n_features_per_pass": passes.sizes.per_pass}
        columns = self._columns_of_groups(passes) | self._columns_of_parents(passes, at_first)
        history = passes.history_columns()
        self.result_ = self._result_of(candidates.run, notes=notes, history=history, chosen=chosen, columns=columns)

    def _problems(self, matrix: Matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return the target, of shape (n_problems, n_samples), and the weight of the rows.

        Several classes are as many problems, in each of which one of them is +1 and the others are -1.
        """
        y, given = checked_target(matrix, self.loss_), matrix.read_weight(slice(None))
        weight = np.ones(len(y)) if given is None else np.array(given, dtype=np.float64)
        if not find_loss(self.loss_).is_classifier:
            return np.array(y, dtype=np.float64)[None], weight
        self.classes_ = classes_of(y[weight > 0.0], None, many=True)
        return signs_of(y, self.classes_), weight

    def _candidates(self, run: Run, weight: np.ndarray, n_problems: int) -> Candidates:
        """Return what is selected from, cut to the limits and standardised: columns, groups of them, or a map's."""
        matrix, first, shape = run.matrix, slice(0, 1), run.shape
        way: Way = "pieces" if matrix.strips(slice(None), first) is None else "strips"
        if scored_in_place(matrix, first) is not None or matrix.sparse_columns(first) is not None:
            way = "in place"
        groups = self._groups_of(matrix)
        counts = matrix.entry_counts()
        known = replace(shape, names=matrix.names, n_entries=None if counts is None else int(counts.sum()))
        cost = self._cost(known, run.limits, n_problems)
        included = self._included(shape.n_features, matrix.names, groups)
        sizes = self._sizes(included.taken_from(_units(shape.n_features, groups, cost)))
        scoring = scoring_of(cost, matrix.shape[0], n_problems)
        cut = cut_columns(shape, sizes, run.limits, way, n_problems, scoring)
        moments = column_moments(run, cut, weight, matrix.read_weight(slice(None)) is not None)
        is_centred = self.center and self.fit_intercept
        column_weight = matrix.weights_of_columns()
        scaling = partial(
            Scaling.of, moments, float(weight.sum()), is_centred, self.normalize, column_weight=column_weight
        )
        if cost is not None:
            measured = moments.mean, moments.deviation, moments.minimum, moments.maximum, weight
            room = None if run.task_limit is None else run.task_limit - dual_nbytes(shape.n_samples, n_problems)
            given = Given(*measured, is_centred, self.normalize, n_problems, room)
            implicit = map_of(self.feature_map).over(matrix, given)
            return ImplicitColumns(run, cut, implicit, cost, scaling)
        if groups is None:
            return StoredColumns(run, cut, scaling(), included)
        return StoredGroups(run, cut, scaling(), groups, self.group_score, included)

    def _held_out(self, matrix: Matrix, weight: np.ndarray, share: float | None) -> np.ndarray:
        """Return a mask of the rows held out, whole groups of them where the rows come in such."""
        held_out = np.zeros(len(weight), dtype=bool)
        if share is not None:
            n_held = max(1, int(np.ceil(share * len(weight))))
            rng = np.random.default_rng(seed_of(self.random_state))
            if (groups := matrix.declared_groups) is not None:
                held_out = in_whole_groups(groups, n_held, rng)
                if held_out.all():
                    problem = "expected several groups of rows, of which some are held out, found one"
                    raise ConfigError(problem, "validation", "give C a number; or leave split.groups out")
            else:
                held_out[rng.permutation(len(weight))[:n_held]] = True
            held_out &= weight > 0.0
        return held_out

    def _chosen_C(self, matrix: Matrix, candidates: Candidates, y: np.ndarray, weight: np.ndarray) -> float:
        """Return C: as given, from the rows and columns, or by the loss of rows held out."""
        if self.C is not None and self.C != "validation":
            return float(self.C)
        start = default_C(float(weight.sum()), self.loss_, candidates.variance)
        if self.C is None:
            return start
        held_out = self._held_out(matrix, weight, self.validation or VALIDATION_SHARE)
        self.C_losses_ = {}
        for factor in C_FACTORS:
            passes = self._passes(candidates, y, weight, held_out, factor * start, f"C-{factor:g}")
            passes.run()
            self.C_losses_[factor * start] = passes.lowest_held_out
            losses = list(self.C_losses_.values())
            if len(losses) - 1 - int(np.argmin(losses)) >= 2:
                break
        return min(self.C_losses_, key=self.C_losses_.__getitem__)

    def _passes(
        self, candidates: Candidates, y: np.ndarray, weight: np.ndarray, held_out: np.ndarray, C: float, name: str = ""
    ) -> Passes:
        """Return the passes for one C, none made yet; rows held out weigh nothing, the others as much as all."""
        sizes, training = self._sizes(candidates.units), np.where(held_out, 0.0, weight)
        share = C * training * (weight.sum() / training.sum())
        dtype = np.dtype(np.float64 if candidates.run.matrix.dtype == np.float64 else np.float32)
        n_kept = n_kept_groups(y.size, dtype.itemsize)
        steps = float(self.inner_tol), int(self.max_inner)
        settings = SolverSettings(self.solver, *steps, self.fit_intercept, n_kept, self._loss.conjugate)
        rows = new_rows(self._loss.code, y, share)
        problem = RestrictedProblem(rows, len(y), settings, sizes.held_columns, dtype)
        candidates.include(problem, weight)
        held_out_weight = np.where(held_out, weight, 0.0) if held_out.any() else None
        counts_columns = self.counts == "features"
        stopping = Stopping(self.n_features_to_select, self.tol, held_out_weight, self.patience, counts_columns)
        return Passes(candidates, problem, sizes, stopping, name)

    def _take(self, passes: Passes) -> None:
        """Set the selection, its coefficients on the scale of the data, and what is known of the optimum."""
        features, standardised = passes.selected()
        entered, included = passes.problem.members.tolist(), passes.problem.included
        self._entered = np.array([*dict.fromkeys([*included.tolist(), *entered])], dtype=np.int64)
        centre, inverse = passes.problem.scaling_of(features)
        coef = standardised * inverse
        intercept = passes.problem.intercept - (centre * coef).sum(axis=1)
        scores = np.abs(standardised[0]) if len(coef) == 1 else np.sqrt((standardised**2).sum(axis=0))
        fit = (scores, coef[0], intercept[0]) if len(coef) == 1 else (scores, coef, intercept)
        if isinstance(passes.candidates, ImplicitColumns):
            self._set_made(passes.candidates.implicit.made(features), *fit)
        else:
            self._set_selection(features, *fit)
            is_free = ~np.isin(self.selected_, included)
            self.selected_ = self.selected_[np.argsort(is_free, kind="stable")]
        self.n_passes_ = passes.candidates.n_passes
        self.dual_gap_ = passes.gap

    def _columns_of_groups(self, passes: Passes) -> dict[str, np.ndarray]:
        """Set which groups are selected; return of each selected column the name and score of its strongest group."""
        if not isinstance(passes.candidates, StoredGroups):
            return {}
        groups, norms = passes.selected_units()
        by_norm = np.lexsort((groups, -norms))
        return self._set_groups(passes.candidates.groups, groups[by_norm], norms[by_norm])

    def _columns_of_parents(self, passes: Passes, v: np.ndarray) -> dict[str, Any]:
        """Return what each selected feature scored before any was, and its parents' own: see `columns_of_parents`."""
        candidates, made = passes.candidates, self.made_
        if made is None or not isinstance(candidates, ImplicitColumns) or not len(self.selected_):
            return {}
        alone, names = candidates.scores_of_parents(v), candidates.stored.matrix.names
        own = [names[int(j)] for j in made.parents]
        found = {
            j: Parent(str(name), float(alone[j]), 1 + int((alone > alone[j]).sum()))
            for j, name in zip(made.parents.tolist(), own, strict=True)
        }
        parents = dict(zip(made.columns.tolist(), made.parents_of(), strict=True))
        of_features = [[found[j] for j in parents[column].tolist()] for column in self.selected_.tolist()]
        return dict(columns_of_parents(passes.problem.scores(self.selected_, v), of_features))

    @property
    def _n_asked(self) -> int | None:
        """How many features were asked for: rows held out may choose fewer, and groups have several."""
        is_exact = self.validation is None and (self.feature_groups is None or self.counts == "features")
        return self.n_features_to_select if is_exact else None

    def _notes(self, passes: Passes) -> list[str]:
        """Return in words what was selected, why it ended there, and how far the optimum is."""
        n_selected = len(self.selected_)
        notes = [f"{n_selected} features in {len(passes.history)} passes: {passes.reason}"]
        n_zero = n_selected - int(np.atleast_2d(self.coef_).any(axis=0).sum())
        if n_zero:
            notes.append(
                f"{n_zero} of the selected features got no coefficient: C = {self.C_:.3g} is too small for them"
            )
        if len(passes.problem.included):
            notes.append(f"{len(passes.problem.included)} of them were always included, without a penalty")
        if self.C is None:
            notes.append(f"C = {self.C_:.3g} was chosen from the number of rows and the variance of the columns")
        if self.C == "validation":
            notes.append(f"C = {self.C_:.3g} was chosen by rows held out, of {len(self.C_losses_)} values")
        when = "of the final model" if self.certify else "before the last pass"
        gap = passes.gap if self.certify else (passes.history[-1].gap if passes.history else 0.0)
        notes.append(
            f"duality gap {when}: the optimum over all columns, which need not be sparse, is at least "
            f"{100 * (1.0 - gap):.3g} % of the objective"
        )
        return notes + passes.candidates.notes(self.normalize) + passes.notes

    def _debiased(self, passes: Passes, y: np.ndarray, weight: np.ndarray) -> str:
        """Refit on the selected features alone; return both fits' accuracies in words."""
        features, problem, run = np.sort(self.selected_), passes.problem, passes.candidates.run
        loss, (columns, kept) = find_loss(self.loss_), problem.kept(features)
        ridge = None if loss.is_likelihood else 1.0 / (self.C_ * float(weight.sum()))
        mean_loss = MeanLoss(loss.name, 1.0 if loss.is_classifier else None, ridge=ridge)
        fits, of_map = [], None
        if passes.candidates.makes_several:
            inverse = problem.scaling_of(features)[1]
            of_map = 1.0 / np.where(inverse > 0.0, inverse, 1.0)
        free = np.isin(features, self.included_columns(run.matrix)) if self.made_ is None else None
        for target in y:
            held = Run(ArrayMatrix(columns.T, target, weight), self.method, task_limit=run.task_limit)
            fits.append(refit_selected(held, kept, mean_loss, run.matrix.shape[1], of_map, free))
        coef, intercept = np.array([fit.coef for fit in fits]), np.array([fit.intercept for fit in fits])
        places = features if self.made_ is None else np.argsort(self.selected_)
        self.coef_[..., places] = coef if len(y) > 1 else coef[0]
        self.intercept_ = intercept if len(y) > 1 else float(intercept[0])
        fitted = problem.fitted()
        refitted = np.empty_like(fitted)
        for start, stop in pieces_of(columns.shape[1], max(1, BLOCK_VALUES // max(1, len(kept)))):
            refitted[:, start:stop] = coef @ columns[kept, start:stop].astype(np.float64) + intercept[:, None]
        if loss.is_classifier:
            truth = y > 0.0 if len(y) == 1 else y.argmax(axis=0)
            labels = (z > 0.0 if len(y) == 1 else z.argmax(axis=0) for z in (fitted, refitted))
            before, after = (float(np.average((found == truth).reshape(-1), weights=weight)) for found in labels)
            return f"accuracy on the training rows: {before:.4f} as fitted, {after:.4f} after the refit (in coef_)"
        before, after = (float(np.average((z[0] - y[0]) ** 2, weights=weight)) for z in (fitted, refitted))
        return (
            f"mean squared error on the training rows: {before:.6g} as fitted, {after:.6g} after the refit (in coef_)"
        )


def _units(n_features: int, groups: FeatureGroups | None, cost: MapCost | None) -> Units:
    """Return what is selected from: columns, groups of them, or what a map makes of them."""
    if cost is not None:
        return Units(cost.n_units, cost.most_columns, cost.most_units)
    return Units(n_features) if groups is None else Units(groups.n_groups, groups.most_columns, groups.most_groups)
