"""FGM, the feature generating machine: each pass adds the B columns that violate the optimality conditions most.

    Input: store of n rows x p columns, classes (or a target), C, B = n_features_per_pass
    1. v = minus the derivative of C Σ_i loss(b, y_i), b the intercept; no group of columns yet
    2. on every block of columns, where it is stored, then joined in a tree:          (worst-case analysis)
         s_j = (x̃_jᵀ v)² for its columns x̃_j = (x_j - mean_j) / scale_j; its B largest, ties by number
    3. the B columns with the largest s_j become group t, and are kept in memory
    4. ω_1 ... ω_t, b = argmin ½ (Σ_t ‖ω_t‖)² + C Σ_i loss(Σ_t X̃_t ω_t + b, y_i)                  (subproblem)
    5. v = minus the derivative of the loss at that point; back to 2, until the requested number of features is
         reached, or the objective or the held-out loss has stopped falling

Reference: Mingkui Tan, Ivor W. Tsang and Li Wang (2014), "Towards Ultrahigh Dimensional Feature Selection for Big
Data", Journal of Machine Learning Research 15, 1371-1429: Algorithms 1 to 5, Theorem 3, section 5.

Differs from the paper:

- The constants are those of equation (7): C/2 Σ ξ² for the squared hinge, C Σ log(1 + exp(-y z)) for the logistic loss.
  The authors' released code has C Σ ξ². The squared loss is an addition.
- The intercept is not regularised (z = Xω + b), and computed by Newton's method with Armijo's rule, which takes one
  or two steps where steepest descent takes many. The dual variables then sum to 0, as (11) requires.
- Scores depend on the scale of the columns. They are standardised on the fly with the store's statistics; the
  deviations of dummies, counts and tf-idf are bounded from below. With `center` and `normalize` False, this is as in
  the paper.
- An iteration of the descent that raises the objective is undone and repeated without momentum. (The step length may
  grow, so the paper's proof does not rule this out.)
- FGM run to convergence minimises the loss plus half the squared k-support norm (Argyriou, Foygel and Srebro 2012), k =
  B, whose dual needs only the B largest scores. So each pass gives a lower bound of the optimum over all columns, which
  the paper does not have. The history has the resulting duality gap.
- If a number of features is requested, the last B is smaller, and a pass takes only new features if the remaining
  passes would not suffice otherwise. Groups whose coefficients have become 0 count as selected.
- A feature that is chosen again is kept in memory only once.
- Groups are compared by the sum (28) minus its expectation ‖v‖² Σ_j var(x̃_j) if the dual variables are independent of
  the columns. Otherwise the sum of a thousand noise dummies would exceed that of three informative ones.
- Several classes are fitted one against the rest in one problem with shared groups of columns: a column has a
  coefficient for each class, ‖ω_t‖ is the norm of all coefficients of a group, and s_j is summed over the classes.
- Columns that are always included are treated like the intercept: no penalty, fitted with it by Newton's method. The
  dual variables are orthogonal to them, so their scores are 0, and everything above applies unchanged.
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
from daskfs.parameters import Columns, Count, LossOf, Positive, Tolerance, n_to_select
from daskfs.selected_table import Parent, columns_of_parents
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
from daskfs.selectors.included import IncludesColumns
from daskfs.selectors.inputs import columns_of, seed_of
from daskfs.selectors.resulting import Selection
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.selected_blocks import BLOCK_VALUES
from daskfs.selectors.shared.targets import checked_target, classes_of, signs_of
from daskfs.selectors.sized import SelectsSize


class FGM(SelectsGroups, SelectsSize, IncludesColumns):
    """Select the features that violate the optimality conditions most, in passes over blocks of columns.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        Number of features to select. By default the passes stop by `tol`, `max_passes` or `validation`. "cv" chooses
        the number by cross-validation; a mapping with the parameters `cv`, `sizes`, `rule`, `metric`, `groups` and
        `order` of `daskfs.SelectionCV` sets the details.
    n_features_per_pass : int, optional
        Number of columns per pass, B in the paper. Default: 10, or a tenth of `n_features_to_select`. A small number
        finds more of the true features; a large number needs fewer passes over the data.
    loss : {"auto", "squared", "logistic", "squared_hinge"}
        Loss function. squared: least squares. logistic and squared_hinge: the paper's PROX-SLR and PROX-FGM, for
        classes with any labels; several classes are fitted one against the rest. auto: logistic for classes, squared
        for numbers.
    C : float or "validation", optional
        Weight of the loss relative to half the squared norm. Default: 0.01, or 10 / n with fewer than 1,000 rows,
        divided by the typical variance of the columns if these are not normalised, and four times as large for the
        logistic loss. "validation": choose among multiples of that, from 1/10 to 100, by the loss of held-out rows. See
        Notes.
    fit_intercept : bool
        Whether to fit an intercept. Without one, columns are not centred.
    always_include : array of int or str, optional
        Numbers or names of columns that are in the model from the start, for example covariates, together with their
        groups. Like the intercept, they have no penalty until the refit (`debias`). They are always selected, and count
        in `n_features_to_select`.
    center : bool
        Whether to centre columns. This is done on the fly, and sparse columns stay sparse.
    normalize : bool or "auto"
        Whether to divide columns by their standard deviations (by their root mean squares if not centred). "auto": yes,
        but columns with zeros and no negative values (dummies, counts, tf-idf) are divided by the deviation that 30
        more rows of typical size would give, so that rare categories are not selected by chance.
    tol : float
        Without `n_features_to_select`: stop when a pass lowers the objective by at most this share of its value without
        features, as in the paper's (38).
    max_passes : int, optional
        Maximum number of passes. Default: 20; with `n_features_to_select` up to twice the number that is needed for as
        many new features.
    validation : float, optional
        Share of rows to hold out. The passes stop when the held-out loss has not fallen for `patience` passes, and the
        groups up to the best pass are refitted on all rows.
    patience : int
        Number of passes without a lower held-out loss after which `validation` stops.
    solver : {"apg", "exact", "simple_mkl"}
        Solver of the subproblem. apg: accelerated proximal gradient to `inner_tol`. exact: the same, then alternating
        ridge fits and group weights to a duality gap of 1e-9. simple_mkl: SimpleMKL, the paper's MKL-FGM.
    inner_tol : float
        Stop the subproblem when an iteration lowers the objective by at most this share, as in the paper's (41).
    max_inner : int
        Maximum number of iterations of a subproblem; for simple_mkl, of ridge fits.
    certify : bool
        Whether to compute the duality gap of the final model in one more pass.
    debias : bool
        Whether `coef_` comes from a refit on the selected features, with an intercept and a ridge chosen from the data
        (with the squared hinge: ½ ‖w‖² + C Σ loss). The accuracies of both fits are reported. Has no effect without
        `fit_intercept`.
    feature_groups : "schema", array of labels, list of arrays, or mapping, optional
        Columns that are selected together or not at all. An array has a label for each column, a pandas Series for some
        columns. A list has groups, which may overlap. A mapping gives names to groups, or to further mappings, which
        form a tree. "schema" groups by the columns of the table that was ingested (all dummies of a category, all parts
        of a date). ``{"file": ..., "column": ...}`` names a CSV table with the features' names in "name". Columns
        without a group are selected alone. By default there are no groups.
    group_score : {"excess", "sum", "mean"}
        How to compare groups. excess: the sum of their columns' scores minus the sum expected by chance. sum: the sum,
        the paper's (28), which favours large groups such as a thousand dummies. mean: the mean, as in the authors'
        released code, which favours small groups; with a tree of groups it does not allow subtrees to be skipped.
    counts : {"groups", "features"}
        With groups: whether `n_features_to_select` counts groups or their columns. `n_features_per_pass` counts groups.
    feature_map : FeatureMap or str, optional
        Select among features that a map makes of the columns during scoring, for example pairs: see
        `daskfs.feature_maps`. `n_features_to_select` counts these features, or the original columns if the map makes
        several features of each.
    random_state : int, RandomState or None
        Seed for the held-out rows.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Selected columns: those always included first, then the others, both by `scores_`.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,), with more than two classes (n_classes, n_features)
        Coefficients on the scale of the data.
    intercept_ : float, with more than two classes ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        Class labels, for classification.
    scores_ : ndarray of shape (n_features,)
        Absolute value of the standardised coefficient before the refit (with several classes, the norm); 0 for columns
        not selected.
    groups_ : ndarray of shape (n_selected_groups,)
        With `feature_groups`: numbers of the selected groups, by `group_scores_`; `selected_` has all of their columns.
    group_names_ : ndarray of shape (n_selected_groups,), str
    group_scores_ : ndarray of shape (n_selected_groups,)
        Norm of the standardised coefficients of a group.
    C_ : float
    C_losses_ : dict of float
        With ``C="validation"``: mean held-out loss for each C that was tried.
    dual_gap_ : float
        Largest possible distance of the objective from the optimum over all columns, as a share of the objective,
        according to the passes made.
    n_passes_ : int
        Number of worst-case analyses.
    result_ : SelectionResult
        Its history has a row for each pass: features, objective, gap before the pass and more. With `feature_map` its
        table has the score of each feature before any was selected, and the columns it was made of, with their own
        scores and ranks as single features (`daskfs.selected_table.columns_of_parents`).

    Notes
    -----
    The optimum itself is not sparse: with a large C the gap may stay at 0.9 although the features cannot be improved.
    The number of features, or held-out rows, should stop the passes; the gap measures the distance from the optimum,
    not the quality of the selection. With a large C, fitting continues when the loss is near 0, and columns are chosen
    that fit noise.

    Memory: a task holds a decoded tile and the sums of a block of columns, or the few columns that it reads for a
    group. The client process holds the selected columns as they are stored, up to 512 MiB of their inner products, and
    vectors over the rows, for each of several classes. Each pass decodes a store once, whatever the memory limit, and
    the tiles of its group's columns once more. On one machine the same store and parameters give bit-identical results
    with any number of workers. Tiles and memory change results only by rounding.

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
            remedy = "leave one out: a map groups its features by the columns they are made of"
            raise ConfigError("expected feature_groups or feature_map, found both", "feature_map", remedy)
        if self.feature_map is not None:
            map_of(self.feature_map)
            if self.always_include is not None:
                problem = "has no effect with feature_map, which selects among new features, not columns of the data"
                raise ConfigError(problem, "always_include", "leave it out, or leave feature_map out")
        if self.feature_groups is None and (self.counts, self.group_score) != ("groups", "excess"):
            name = "group_score" if self.counts == "groups" else "counts"
            raise ConfigError("has no effect without feature_groups", name, "leave it out")

    @property
    def _units_by(self) -> str | None:
        return super()._units_by if self.feature_map is None else "feature_map"

    @property
    def is_nested(self) -> bool:
        """Whether passes select the requested number of columns, with the coefficients of the refit."""
        ways = self.feature_groups, self.feature_map, self.validation, self.always_include
        plain = all(way is None for way in ways)
        return plain and self.debias and self.fit_intercept

    def _path_order(self, run: Run) -> np.ndarray:
        """Return the columns in the order of selection: pass by pass, and by score within a pass."""
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
        """Return the cost of the feature map for a matrix; None without a map."""
        if self.feature_map is None:
            return None
        room = None if limits.task_nbytes is None else limits.task_nbytes - dual_nbytes(shape.n_samples, n_problems)
        sizes = shape.n_samples, shape.n_features, shape.itemsize, shape.n_entries, n_problems
        return map_of(self.feature_map).cost(*sizes, room, shape.names)

    def _included(self, n_features: int, names: Names | None, groups: FeatureGroups | None) -> Included:
        """Return the columns that are always included, with their groups; if names are unknown, assume the same number.

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
            problem = "cannot be combined with overlapping groups: a column would belong to several"
            raise ConfigError(problem, "always_include", "leave it out, or use groups that do not overlap")
        asked = self.always_include
        if names is None:  # only their number is known
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
        """Return the target, of shape (n_problems, n_samples), and the weights of the rows.

        Several classes give as many problems, in each of which one class is +1 and the others are -1.
        """
        y, given = checked_target(matrix, self.loss_), matrix.read_weight(slice(None))
        weight = np.ones(len(y)) if given is None else np.array(given, dtype=np.float64)
        if not find_loss(self.loss_).is_classifier:
            return np.array(y, dtype=np.float64)[None], weight
        self.classes_ = classes_of(y[weight > 0.0], None, many=True)
        return signs_of(y, self.classes_), weight

    def _candidates(self, run: Run, weight: np.ndarray, n_problems: int) -> Candidates:
        """Return the candidates, cut to the limits and standardised: columns, groups, or features of a map."""
        matrix, first, shape = run.matrix, slice(0, 1), run.shape
        way: Way = "pieces" if matrix.strips(slice(None), first) is None else "strips"
        if shape.has_products or scored_in_place(matrix, first) is not None or matrix.sparse_columns(first) is not None:
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
        """Return a mask of the held-out rows; if the data declare groups of rows, whole groups are held out."""
        held_out = np.zeros(len(weight), dtype=bool)
        if share is not None:
            n_held = max(1, int(np.ceil(share * len(weight))))
            rng = np.random.default_rng(seed_of(self.random_state))
            if (groups := matrix.declared_groups) is not None:
                held_out = in_whole_groups(groups, n_held, rng)
                if held_out.all():
                    problem = "expected several groups of rows, so that some can be held out, found one"
                    raise ConfigError(problem, "validation", "set C to a number, or leave split.groups out")
            else:
                held_out[rng.permutation(len(weight))[:n_held]] = True
            held_out &= weight > 0.0
        return held_out

    def _chosen_C(self, matrix: Matrix, candidates: Candidates, y: np.ndarray, weight: np.ndarray) -> float:
        """Return C: the given value, the default for the rows and columns, or the best for the held-out rows."""
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
            self.C_losses_[factor * start] = min((line.held_out_loss for line in passes.history), default=float("inf"))
            losses = list(self.C_losses_.values())
            if len(losses) - 1 - int(np.argmin(losses)) >= 2:
                break
        return min(self.C_losses_, key=self.C_losses_.__getitem__)

    def _passes(
        self, candidates: Candidates, y: np.ndarray, weight: np.ndarray, held_out: np.ndarray, C: float, name: str = ""
    ) -> Passes:
        """Return new passes for one C. Held-out rows have weight 0; the other weights are scaled to the same sum."""
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
        """Set the selection, its coefficients on the scale of the data, and the duality gap."""
        features, standardised = passes.selected()
        entered, included = passes.problem.members.tolist(), passes.problem.included
        self._entered = np.array([*dict.fromkeys([*included.tolist(), *entered])], dtype=np.int64)
        centre, inverse = passes.problem.scaling_of(features)
        coef = standardised * inverse
        intercept = passes.problem.intercept - (centre * coef).sum(axis=1)
        scores = np.abs(standardised[0]) if len(coef) == 1 else np.sqrt((standardised**2).sum(axis=0))
        fit = (scores, coef[0], intercept[0]) if len(coef) == 1 else (scores, coef, intercept)
        if isinstance(passes.candidates, ImplicitColumns):
            self._selection = Selection.of_made(self._n_columns, passes.candidates.implicit.made(features), *fit)
        else:
            self._set_selection(features, *fit)
            is_free = ~np.isin(self.selected_, included)
            self.selected_ = self.selected_[np.argsort(is_free, kind="stable")]
        self.n_passes_ = passes.candidates.n_passes
        self.dual_gap_ = passes.gap

    def _columns_of_groups(self, passes: Passes) -> dict[str, np.ndarray]:
        """Set the selected groups; return the name and score of the strongest group of each selected column."""
        if not isinstance(passes.candidates, StoredGroups):
            return {}
        groups, norms = passes.selected_units()
        by_norm = np.lexsort((groups, -norms))
        return self._set_groups(passes.candidates.groups, groups[by_norm], norms[by_norm])

    def _columns_of_parents(self, passes: Passes, v: np.ndarray) -> dict[str, Any]:
        """Return the first scores of the selected features, and those of their parents: see `columns_of_parents`."""
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
        """Requested number of features, if exact: held-out rows may choose fewer, and groups have several."""
        is_exact = self.validation is None and (self.feature_groups is None or self.counts == "features")
        return self.n_features_to_select if is_exact else None

    def _notes(self, passes: Passes) -> list[str]:
        """Return notes on what was selected, why the passes stopped, and the distance from the optimum."""
        n_selected = len(self.selected_)
        notes = [f"{n_selected} features in {len(passes.history)} passes: {passes.reason}"]
        n_zero = n_selected - int(np.atleast_2d(self.coef_).any(axis=0).sum())
        if n_zero:
            notes.append(
                f"{n_zero} of the selected features have a coefficient of 0: C = {self.C_:.3g} is too small for them"
            )
        if len(passes.problem.included):
            notes.append(f"{len(passes.problem.included)} of them were always included, without a penalty")
        if self.C is None:
            notes.append(f"C = {self.C_:.3g} was chosen from the number of rows and the variance of the columns")
        if self.C == "validation":
            notes.append(f"C = {self.C_:.3g} was chosen by held-out rows from {len(self.C_losses_)} values")
        when = "of the final model" if self.certify else "before the last pass"
        gap = passes.gap if self.certify else (passes.history[-1].gap if passes.history else 0.0)
        notes.append(
            f"duality gap {when}: the optimum over all columns, which need not be sparse, is at least "
            f"{100 * (1.0 - gap):.3g} % of the objective"
        )
        return notes + passes.candidates.notes(self.normalize) + passes.notes

    def _debiased(self, passes: Passes, y: np.ndarray, weight: np.ndarray) -> str:
        """Refit on the selected features; return a note on the accuracies of both fits."""
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
    """Return the units to select from: columns, groups, or features of a map."""
    if cost is not None:
        return Units(cost.n_units, cost.most_columns, cost.most_units)
    return Units(n_features) if groups is None else Units(groups.n_groups, groups.most_columns, groups.most_groups)
