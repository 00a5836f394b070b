"""Select the fewest features that predict as well as the best of several methods, or use the recommended method.

Without a number of features, methods and numbers are compared by cross-validation on the same folds:

    1. On the rows outside each fold, fit paths of up to ten sizes of FGM, MISSION and online substitution (for numbers
       and two classes). With at least 1,000 dense rows and up to 4 Mi values, also fit FGM over splines of up to 40
       columns. Fit Lassos with up to 18 penalties (`ShrunkLasso`), and ridges with backward elimination from all
       columns (`RidgeElimination`) with eleven strengths, for columns that are mostly zeros with two scalings. Methods
       that would exceed the memory limit are left out.
    2. Compute the log loss or the mean squared error of each on the fold's rows.
       With fewer than 1,000 rows, folds are drawn several times.
    3. Keep the selections that predict better than all with at most as many features; keep splines only if they are
       better than columns by more than a standard error.
    4. For prediction, choose the best of these. For selection, choose the smallest that is worse than the best by at
       most one standard error of their differences, paired over the folds, and never all columns, which are only the
       reference. The rule of one standard error is from Breiman et al. (Classification and Regression Trees, 1984),
       with the error of the difference instead of that of the best mean.
    5. Fit boosted trees on a sample of the rows of dense data. If they are better than the best selection by more than
       two standard errors, a note says by how much, and what splines and pairs of columns reach on the same rows.

If the matrix has more than 2²⁶ values, only the sizes of one method are compared: of MESSAGE's path for genotypes as
above, else of the method in this table. If a number of features is given, the method in this table is used:

    target    columns                                                selector
    any       more than 4,194,304                                    mission: constant memory
    numbers   more than rows, a thousand at least; dense rows        online substitution
    numbers   more than rows, a thousand at least; sparse rows       mission
    numbers   others                                                 fgm
    classes   of sparse rows, a thousand at least; two classes       online substitution
    classes   more than rows, a thousand at least; few rows          mission
    classes   others; two classes                                    online substitution
    classes   others; several classes                                fgm

Few rows: at most 1,000, or any number of sparse ones. Each line is the best of our methods with 30 features, or within
.005 of the best, by the means of `python -m benchmarks run gauntlet` on 38 public data sets (docs/which_selector.md).
For numbers and many dense rows it rests on two sets of genotypes: the mice of the gauntlet, and the simulated cohort of
`python -m benchmarks run biobank` with 20 features; numbers and sparse rows were not measured. MESSAGE is not in it,
because it chooses the number of features itself. The choice depends only on the data if all methods stay within the
memory limit; a note names methods that were left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from daskfs.baselines.linear.ridge_elimination import LOSSES, RidgeElimination
from daskfs.baselines.linear.shrunk_lasso import ShrunkLasso
from daskfs.errors import ConfigError, PlanError
from daskfs.losses import TargetKind, find_loss, loss_of_two
from daskfs.methods import find_method
from daskfs.model_selection.base import NamesOfMade
from daskfs.model_selection.comparing import (
    ON_ALL_ROWS,
    Compared,
    Contender,
    Lassos,
    Ridges,
    by_size,
    compare,
    comparison_notes,
    fewest,
    history_of,
    listed,
    n_repeats,
    plan_all,
    ranked,
)
from daskfs.model_selection.trees import Trees, notes_on_trees
from daskfs.parameters import CV, Columns, LossOf
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.included import IncludesColumns
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.shared.ahead import Ahead
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.cross_validation import N_FOLDS, Fold, default_metric, default_sizes, folds_of
from daskfs.selectors.shared.responses import Response
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import gathered, run_on
from daskfs.selectors.sized import SelectsSize

MOST_COLUMNS, MANY_COLUMNS, FEW_ROWS = 1 << 22, 1_000, 1_000
MOST_VALUES = 1 << 26
"""Maximum number of values of a matrix for comparing methods; beyond, costs matter more than their differences."""
METHODS = ("fgm", "mission", "online_substitution")
FURTHER_SIZES = 150, 250, 400, 700, 1000
"""Sizes of MESSAGE's path for genotypes that are not decoded, beyond those of all methods."""
ROWS_OF_CURVES, VALUES_OF_CURVES, MOST_CURVES, CURVES = 1_000, 1 << 22, 40, "splines"
"""Minimum number of rows and maximum number of values for comparing splines, maximum number of columns with splines,
and the feature map."""
MOST_PAIRED = 500
"""Maximum number of columns of which splines and pairs are fitted to say what they bring."""


class Choice(NamedTuple):
    """A method, and the reason for choosing it."""

    method: str
    why: str


def choose(n_samples: int, n_features: int, n_classes: int, is_sparse: bool = False) -> Choice:
    """Return the recommended method for data of this kind.

    Parameters
    ----------
    n_samples, n_features : int
    n_classes : int
        Number of classes of the target; 0 for numbers, 1 if the number of classes is unknown.
    is_sparse : bool
        Whether rows are stored as sparse entries.

    Examples
    --------
    >>> choose(20_000, 50_000, 2, is_sparse=True).method
    'online_substitution'
    >>> print(choose(71, 4_088, 0).why)
    few rows, thousands of columns, a numeric target: R² .39 with 30 features on 3 public data sets, our best method
    """
    if n_features > MOST_COLUMNS:
        return Choice("mission", f"{n_features:,} columns: its sketch has constant memory for any number of columns")
    is_wide = n_features > max(n_samples, MANY_COLUMNS - 1)
    has_few_rows = is_wide and (is_sparse or n_samples <= FEW_ROWS)
    if not n_classes:
        if is_wide and is_sparse:
            why = "sparse rows of more columns, a numeric target: memory does not depend on the number of columns"
            return Choice("mission", why)
        if has_few_rows:
            found = "R² .39 with 30 features on 3 public data sets, our best method"
            return Choice("online_substitution", f"few rows, thousands of columns, a numeric target: {found}")
        if is_wide:
            found = "R² .19 with 30 variants of mice, .33 with 20 of a simulated cohort; mission has .17 and .29"
            return Choice("online_substitution", f"over a thousand rows, more columns, a numeric target: {found}")
        return Choice("fgm", "many rows, a numeric target: R² .63 on 2 public data sets, like our other methods")
    if is_sparse and n_features >= MANY_COLUMNS and n_classes == 2:
        found = "AUC .90 with 30 features on 8 text data sets, our best method"
        return Choice("online_substitution", f"sparse rows of two classes: {found}")
    if has_few_rows:
        found = ".89 with 30 features on 8 public data sets, our best method"
        return Choice("mission", f"few rows, thousands of columns, classes: {found}")
    if n_classes == 2:
        found = "AUC .89 with 30 features on 4 numeric data sets, .87 on 8 categorical ones, our best method"
        return Choice("online_substitution", f"many rows, two classes: {found}")
    return Choice("fgm", "several classes: it fits them one-vs-rest on the same features and all rows")


class Auto(SelectsSize, IncludesColumns):
    """Select the fewest features that predict as well as the best of several methods, or use the recommended method.

    The algorithm is that of the chosen method: see `daskfs.model_selection.auto`.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        Number of features, selected with the recommended method for data of this kind. By default, and with "cv",
        methods and numbers are compared by cross-validation, and `goal` determines which is chosen.
        A mapping with `cv`, `sizes`, `rule`, `metric`, `groups` and `order`, as in `daskfs.SelectionCV`: only the
        number is chosen by cross-validation.
    goal : {"selection", "prediction"}
        Without a number of features: select the fewest that predict as well as the best, or those that predict best.
        "selection": the smallest selection that is worse than the best by at most one standard error of their
        differences, paired over the folds. It never has all features; if all predict better than any smaller
        selection, a warning gives the loss. "prediction": the best selection, which may have all features.
    loss : {"auto", "squared", "logistic", "multinomial"}
        Least squares, the logistic loss (several classes: each against the rest), or the multinomial loss, which has
        one model of all classes; methods without it use the logistic loss. Default: determined by the target.
    curves : bool
        Whether to also compare nonlinear effects if no number is given. Splines of columns are selected if they predict
        better by more than a standard error; `made_` describes them. False: only the columns themselves.
    always_include : array of int or str, optional
        Columns, by number or name, that are always selected; passed on to the methods. Methods without this parameter
        and splines are left out, which a note reports. These columns count towards the number of features, which is at
        least theirs.
    random_state : int, RandomState or None
        Seed of the folds and of the methods.
    memory_limit : int or str, optional
        Memory limit of one task, such as "1GiB". Methods that need more are left out.

    Attributes
    ----------
    selector_ : selector
        The chosen selector, fitted.
    n_features_to_select_ : int
        The number chosen by cross-validation; for the Lasso, the mean over the folds. Fewer features may be selected if
        no more are informative. Not set if a number was given.
    cv_results_ : dict
        Cross-validation results: ``method``, ``n_features_to_select``, ``settings``, ``mean_test_score`` and
        ``standard_error`` with an entry for each compared selection; ``metric``.
    result_ : SelectionResult
        Result of the method ``auto``. Its first note says which method was chosen and why; its parameters contain
        ``method``. Its history is the curve over all methods: selections for which no smaller one predicts better (no
        larger one beyond the best), with the metric, its standard error, the values of each fold, the method, the flags
        ``chosen`` and ``best``, and the excess loss over the best with its standard error.

    Notes
    -----
    Paths are compared, so the selection is taken from the same path on all rows: see `daskfs.SelectionCV`. The time is
    that of some tens of fits of one method. Only the Lassos and ridges hold all columns in memory.
    The mean scores of the chosen selection are slightly optimistic, because it was chosen among many. Held-out rows, or
    `sklearn.model_selection.cross_val_score` of `Auto` itself, include the choice in the evaluation.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfs import Auto
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 30))
    >>> y = X[:, 3] - X[:, 7] + rng.standard_normal(500)
    >>> selector = Auto(n_features_to_select=2).fit(X, y)
    >>> selector.selector_.method, sorted(selector.selected_.tolist())
    ('fgm', [3, 7])
    >>> sorted(Auto().fit(X, y).selected_.tolist())
    [3, 7]
    """

    method = "auto"

    loss: Annotated[str, LossOf(among=LOSSES, several=True)] = "auto"
    curves: bool = True
    goal: Literal["selection", "prediction"] = "selection"
    always_include: Columns = None

    @property
    def _chooses_size(self) -> bool:
        """False, because methods and sizes are chosen together."""
        return False

    @property
    def _compares(self) -> bool:
        return self.n_features_to_select in (None, CV)

    def _check_combination(self) -> None:
        super()._check_combination()
        if self.goal != "selection" and not self._compares:
            raise ConfigError("has no effect with a number of features", "goal", "leave one of them out")

    @property
    def groups_are_cut_by(self) -> str:
        """The part of the chosen method that splits groups of rows."""
        return self.selector_.groups_are_cut_by if hasattr(self, "selector_") else ""

    def _settle_loss(self, kind: TargetKind, is_plan: bool = False) -> None:
        super()._settle_loss(kind, is_plan)
        self._n_classes = max(kind.n_classes, 1) if self._loss.is_classifier else 0

    def _made(self, method: str, n_features: int | str | None, **more: Any) -> Any:
        """Return an unfitted selector of a method with a resolved loss."""
        if self.always_include is not None:
            more["always_include"] = self.always_include
        if n_features is not None:
            more["n_features_to_select"] = n_features
        made = self._with_loss(find_method(method)(random_state=seed_of(self.random_state), **more))
        made.is_silent, made.fits_in_step = self.is_silent, self.fits_in_step
        return made

    def _with_loss(self, made: Any) -> Any:
        """Return a selector with the resolved loss, or its two-class form if the selector does not support it."""
        made.loss = made.loss_ = self.loss_ if self.loss_ in made.loss_choice.names else loss_of_two(self.loss_)
        made._loss_note = self._loss_note
        return made

    def _choice(self, shape: DataShape) -> Choice:
        return choose(shape.n_samples, shape.n_features, self._n_classes, shape.n_entries is not None)

    def _takes(self, method: str) -> bool:
        """Return whether a method supports the target and, if given, `always_include`."""
        if self.always_include is not None and "always_include" not in find_method(method)().get_params(deep=False):
            return False
        return method != "online_substitution" or self._n_classes <= 2

    def _sizes(self, shape: DataShape) -> list[int]:
        """Return the numbers of features that are compared, at least the number of always included columns."""
        n_always = 0 if self.always_include is None else np.size(self.always_include)
        sizes = default_sizes(shape.n_samples, shape.n_features)
        return sorted({min(max(size, n_always), shape.n_features) for size in sizes})

    def _notes_on_always(self) -> list[str]:
        """Return a note on methods without `always_include`, which are left out."""
        if self.always_include is None:
            return []
        kept = [name for name in METHODS if not self._takes(name)]
        others = [*kept, "the Lassos", "the ridges", "the curves"] if self._compares else kept
        return [f"{listed(others)} do not support always_include and were left out"] if others else []

    def _recommended(self, shape: DataShape, limits: Limits) -> tuple[BaseSelector, Choice, SelectorPlan]:
        """Return the recommended selector for data of this shape, the reason, and its plan.

        With a given number of features, only the first method is tried.
        """
        choice = self._choice(shape)
        others = [other for other in METHODS if other != choice.method and self._takes(other)]
        why = f"{choice.method}, which is recommended, would exceed the memory limit"
        first = [choice]
        if not self._takes(choice.method):
            first, why = [], f"{choice.method}, which is recommended, does not support always_include"
        refused: PlanError | None = None
        for one in (*first, *(Choice(other, why) for other in others if self._compares or not first)):
            made = self._made(one.method, CV if self._compares else self.n_features_to_select)  # type: ignore[arg-type]
            try:
                return made, one, made._planned(shape, limits)
            except PlanError as fault:
                refused = refused or fault
        assert refused is not None
        raise refused

    def _contenders(self, shape: DataShape, limits: Limits) -> list[Contender]:
        """Return the methods to compare on data of this shape; empty if the data are too large."""
        n_values = shape.n_samples * shape.n_features if shape.n_entries is None else shape.n_entries
        if not self._compares or shape.n_features > MOST_COLUMNS:
            return []
        made, sizes = list[Contender](), self._sizes(shape)
        if shape.has_products and self._n_classes <= 2:
            more = [size for size in FURTHER_SIZES if size <= shape.n_samples // 2]
            made.append(Contender(self._made("message", None, goal="prediction"), [*sizes, *more]))
        if n_values > MOST_VALUES:
            return [one for one in made if one.keeps(shape, limits)]
        left_out = ("mission",) if shape.has_products else ()  # it reads rows, so every pass decodes all columns
        names = [name for name in METHODS if self._takes(name) and name not in left_out]
        made += [Contender(self._made(name, sizes[-1]), sizes) for name in names]
        if self.always_include is not None:
            return made
        if self._has_curves(shape):
            few = sorted({min(size, MOST_CURVES) for size in sizes})
            made.append(Contender(self._made("fgm", few[-1], feature_map=CURVES), few))
        lasso, ridge = self._with_loss(ShrunkLasso()), self._with_loss(RidgeElimination())
        return [*made, Lassos(lasso, []), Ridges(ridge, ridge.sizes_of(shape.n_features))]

    def _checks(self, contenders: Sequence[Contender], shape: DataShape) -> list[Trees]:
        """Return the check by boosted trees, if data that may be compared with all columns allow it."""
        ridges = [one.selector for one in contenders if isinstance(one, Ridges)]
        return [Trees(one, []) for one in ridges if Trees.takes(shape)]

    def _maps(self, shape: DataShape, limits: Limits) -> list[Contender]:
        """Return FGM over the feature maps whose gain is reported if trees are better."""
        if shape.n_features > MOST_PAIRED:
            return []
        sizes = sorted({min(size, MOST_CURVES) for size in self._sizes(shape)})
        made = [Contender(self._made("fgm", sizes[-1], feature_map=name), sizes) for name in (CURVES, "pairs")]
        return [one for one in made if one.keeps(shape, limits)]

    def _has_curves(self, shape: DataShape) -> bool:
        n_values = shape.n_samples * shape.n_features
        return (
            self.curves
            and shape.n_entries is None
            and shape.n_samples >= ROWS_OF_CURVES
            and n_values <= VALUES_OF_CURVES
        )

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        if contenders := self._contenders(shape, limits):
            shape, n_folds = replace(shape, n_classes=self._n_classes), N_FOLDS * n_repeats(shape.n_samples)
            return plan_all(contenders, shape, limits, n_folds, self._checks(contenders, shape))
        _, choice, plan = self._recommended(shape, limits)
        work = None if plan.work is None else replace(plan.work, method=choice.method)
        return replace(plan, work=work, text=f"auto: {choice.method}, for {choice.why}; {plan.text}")

    def ahead(self, run: Run) -> list[Ahead]:
        """Return what the folds of the only contender and its fit on all rows can compute together."""
        contenders = self._contenders(run.shape, run.limits) if isinstance(self.random_state, Integral) else []
        if len(contenders) != 1:
            return []
        rows, kept, folds = self._folds(run, contenders, n_repeats(run.shape.n_samples))
        runs = [run_on(rows.within(one.place), "fold", fold) for one in kept for fold in folds]
        return [job for one in kept for job in one.recipe.ahead([*runs, rows.within(ON_ALL_ROWS.format(0))])]

    def _folds(self, run: Run, contenders: list[Contender], n_draws: int) -> tuple[Run, list[Contender], list[Fold]]:
        """Return the run over rows of positive weight, the contenders that stay within the limits, and the folds."""
        rows = run.over(gathered(weighted_rows(run.matrix), run.task_limit))  # sent once, for row and column methods
        shape = replace(rows.shape, n_classes=self._n_classes)
        plan_all(contenders, shape, rows.limits, 1)  # raises an error if the limit is too small for all
        kept = [one for one in contenders if one.keeps(shape, rows.limits)]
        is_classifier, seed = find_loss(self.loss_).is_classifier, seed_of(self.random_state)
        return (
            rows,
            kept,
            folds_of(rows.matrix, is_classifier, N_FOLDS, rows.matrix.declared_groups, "random", seed, n_draws),
        )

    def _fit(self, run: Run) -> None:
        n_entries = run.matrix.entry_counts(slice(None))
        shape = replace(run.shape, n_entries=None if n_entries is None else int(n_entries.sum()))
        if contenders := self._contenders(shape, run.limits):
            self._fit_best(run, contenders, n_repeats(shape.n_samples))
            return
        made, choice, _ = self._recommended(run.shape, run.limits)
        said = f"{choice.method} was chosen: {choice.why}"
        if self._compares:
            sizes = self._sizes(shape)
            self._fit_best(run, [Contender(self._made(choice.method, sizes[-1]), sizes)], 1, said)
            return
        self._take(made.fit_run(run))
        if not self.is_silent:
            result = made.result_
            result.method, result.notes = self.method, [said, *self._notes_on_always(), *result.notes]
            result.parameters = {"method": choice.method, **result.parameters}
            self.result_ = result

    def _fit_best(self, run: Run, contenders: list[Contender], n_draws: int, *said: str) -> None:
        """Compare methods on the same folds, and fit the selection for the goal on all rows."""
        rows, kept, folds = self._folds(run, contenders, n_draws)
        shape, n_features = replace(rows.shape, n_classes=self._n_classes), run.matrix.shape[1]
        metric = default_metric(self.loss_)
        found = compare(rows, kept, folds, metric)
        checks = [one for one in self._checks(contenders, shape) if one.keeps(shape, rows.limits)]
        trees = compare(rows, checks, folds, metric)
        best, *_ = places = ranked(found)
        sizes = by_size(places)
        wanted = [best] if self.goal == "prediction" else fewest(sizes, best, n_features)
        for attempt, taken in enumerate(wanted):
            fitted = taken.of.fit(rows.within(ON_ALL_ROWS.format(attempt)), taken.k)
            if fitted.support_.sum() < n_features:  # a Lasso's size is a mean over folds, so it may select all columns
                break
        self._take(fitted)
        self.n_features_to_select_, self.cv_results_ = taken.size, Compared.results(found)
        notes = [*said, *comparison_notes(found, sizes, taken, best, self.goal, n_features)]
        for one in trees:
            notes += notes_on_trees(one, best, rows, folds, self._maps(shape, rows.limits))
        notes += self._notes_on_always()
        n_selected = int(fitted.support_.sum())
        if n_selected < min(taken.size, n_features) and fitted.made_ is None:
            notes.append(f"{taken.of.method} found only {n_selected:,} of {taken.size:,} features on all rows")
        if left_out := [one.name for one in contenders if one not in kept]:
            notes.append(f"left out because the memory limit is too small: {listed(left_out)}")
        self.result_ = self._result_of(
            run,
            notes=notes,
            history=history_of(sizes, taken, best),
            history_kind="cross-validation",
            names=None if self.made_ is None else NamesOfMade(self.made_, run.matrix),
            chosen={
                "method": taken.of.method,
                **taken.of.settings_at(taken.k),
                "n_features_to_select": self.n_features_to_select_,
            },
        )

    def _take(self, fitted: BaseSelector) -> None:
        self.selector_, self.loss_, self._selection = fitted, fitted.loss_, fitted._selection
        if hasattr(fitted, "classes_"):
            self.classes_ = fitted.classes_

    @property
    def score_kind(self) -> str:  # type: ignore[override]
        """Kind of `scores_` of the chosen selector."""
        return self.selector_.score_kind if hasattr(self, "selector_") else super().score_kind

    @property
    def response_losses(self) -> tuple[str, str]:
        """Losses of the chosen selector that convert the linear predictor to a mean or label, and to probabilities."""
        return self.selector_.response_losses

    @property
    def _probabilities(self) -> Response:
        return self.selector_._probabilities
