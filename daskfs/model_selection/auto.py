"""The fewest features that predict as well as the best found of several selectors, or the selector recommended.

Where nobody says how many features, selectors and numbers are compared by cross-validation, on the same folds:

    1. On the rows outside each fold: a path of up to ten sizes of FGM, of MISSION and of online substitution (numbers,
       two classes); of at least 1,000 dense rows and up to 4 Mi numbers FGM over splines of up to 40 columns; Lassos of
       up to 18 penalties (`ShrunkLasso`); and ridges on all columns and on ever fewer of them
       (`RidgeElimination`), each with eleven strengths, of columns that are mostly zeros on two scales. What does not
       keep the memory limit takes no part.
    2. The log loss, or the mean squared error, of each on the fold's rows.
       Below 1,000 rows folds are drawn several times.
    3. Kept is what predicts better than all of no more features; curves only where they are better than columns as they
       are by more than a standard error.
    4. For prediction the best of these. For selection the smallest that is not worse than the best by more than one
       standard error of the differences between the two, fold by fold, and never all columns: what these predict
       together is the reference. The rule of one standard error is Breiman et al.'s (Classification and Regression
       Trees, 1984), with the error of the difference in place of that of the best mean.

Where all columns are more than 2²⁶ numbers the sizes of one method are compared, that of this table; and where a number
of features is asked for, its selection is taken:

    target    columns                                                selector
    any       more than 4,194,304                                    mission: constant memory
    numbers   more than rows, a thousand at least                    mission
    numbers   others                                                 fgm
    classes   of sparse rows, a thousand at least; two classes       online substitution
    classes   more than rows, a thousand at least                    mission
    classes   others; two classes                                    online substitution
    classes   others; several classes                                fgm

Each line is the best of ours with 30 features, or within .005 of it, by the means of `benchmarks/which_selector.py` on
38 open sets (docs/which_selector.md). MESSAGE is not among them: it keeps fewer features than predict best, and is
taken for inference. What is chosen depends on the data, and on nothing else where the memory limit is kept by all that
is compared; a note names what took no part.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from daskfs.baselines.linear.ridge_elimination import RidgeElimination
from daskfs.baselines.linear.shrunk_lasso import ShrunkLasso
from daskfs.errors import ConfigError, PlanError
from daskfs.losses import TargetKind, find_loss
from daskfs.methods import find_method
from daskfs.model_selection.base import NamesOfMade
from daskfs.model_selection.comparing import (
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
    repeated_folds,
)
from daskfs.parameters import CV, Columns, CountOrCV, LossOf
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.cross_validation import N_FOLDS, default_metric, default_sizes
from daskfs.selectors.shared.responses import Response
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import gathered

MOST_COLUMNS, MANY_COLUMNS = 1 << 22, 1_000
MOST_VALUES = 1 << 26
"""Of a matrix on which methods are compared: beyond, what each costs counts more than what they differ by."""
METHODS = ("fgm", "mission", "online_substitution")
ROWS_OF_CURVES, VALUES_OF_CURVES, MOST_CURVES, CURVES = 1_000, 1 << 22, 40, "splines"
"""Rows that say more of a column than a slope, values of a matrix that are not too many for it, columns with a curve at
most, and the feature map."""


class Choice(NamedTuple):
    """A method, and why it is taken."""

    method: str
    why: str


def choose(n_samples: int, n_features: int, n_classes: int, is_sparse: bool = False) -> Choice:
    """Return the method for data of this kind.

    Parameters
    ----------
    n_samples, n_features : int
    n_classes : int
        Of the target; 0 of numbers, 1 of classes whose number is not known.
    is_sparse : bool
        Whether rows are kept as their entries.

    Examples
    --------
    >>> choose(20_000, 50_000, 2, is_sparse=True).method
    'online_substitution'
    >>> print(choose(71, 4_088, 0).why)
    few rows, thousands of columns, a number to predict: R² .38 with 30 features on 3 open sets, the best of ours
    """
    if n_features > MOST_COLUMNS:
        return Choice("mission", f"{n_features:,} columns: its sketch takes the same memory for any number")
    is_wide = n_features > max(n_samples, MANY_COLUMNS - 1)
    if not n_classes:
        if is_wide:
            found = "R² .38 with 30 features on 3 open sets, the best of ours"
            return Choice("mission", f"few rows, thousands of columns, a number to predict: {found}")
        return Choice(
            "fgm", "more rows than columns, a number to predict: R² .63 on 2 open sets, as the others of ours"
        )
    if is_sparse and n_features >= MANY_COLUMNS and n_classes == 2:
        found = "area under the curve .90 with 30 features on 8 sets of texts, the best of ours"
        return Choice("online_substitution", f"sparse rows of two classes: {found}")
    if is_wide:
        found = ".86 with 30 features on 6 open sets, the best of ours"
        return Choice("mission", f"few rows, thousands of columns, classes: {found}")
    if n_classes == 2:
        found = (
            "area under the curve .89 with 30 features on 4 sets of numbers, .85 on 7 of categories, the best of ours"
        )
        return Choice("online_substitution", f"more rows than columns, two classes: {found}")
    return Choice("fgm", "several classes: each is told from the rest on the same features, all rows at once")


class Auto(BaseSelector):
    """Select the fewest features that predict as well as the best of several methods, or with the one recommended.

    The algorithm is that of the method that is chosen: see `daskfs.model_selection.auto`.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        How many: of the method that measurements recommend for data of this kind. By default, and with "cv", methods
        and numbers are compared by cross-validation, and `goal` says which is selected.
        A mapping, as `daskfs.SelectionCV` has `cv`, `sizes`, `rule`, `metric`, `groups` and `order`: the number alone.
    goal : {"selection", "prediction"}
        Without a number of features: the fewest that predict as well as the best, or those that predict best.
        "selection": the smallest of the selections compared that is not worse than the best by more than one standard
        error of the differences between the two, fold by fold; never all features, and where all of them predict
        better than any fewer, a warning says what that costs. "prediction": the best, all features if need be.
    loss : {"auto", "squared", "logistic"}
        Least squares, or the logistic loss of classes; by default what the target calls for.
    curves : bool
        Whether effects that are no straight line are compared too, without a number: what splines make of columns is
        selected where it predicts better by more than a standard error, and `made_` says what it is. False: columns as
        they are.
    always_include : array of int or str, optional
        Columns, by number or name, that are selected whatever else, handed on to the methods. Those that cannot keep
        columns take no part, nor do curves, which a note says. They count among the number of features, which is no
        smaller than theirs.
    random_state : int, RandomState or None
        Of the folds, and of what a method draws.
    memory_limit : int or str, optional
        What one task may take, "1GiB" for example. Methods that need more take no part.

    Attributes
    ----------
    selector_ : selector
        The one that was chosen, fitted.
    n_features_to_select_ : int
        The number that was chosen by cross-validation; of the Lasso's penalty the mean in the folds. Fewer may be
        selected, where no more say anything. Not there where a number was asked for.
    cv_results_ : dict
        Of the cross-validation ``method``, ``n_features_to_select``, ``settings``, ``mean_test_score`` and
        ``standard_error``: an entry for each selection that was compared; ``metric``.
    result_ : SelectionResult
        Of the method ``auto``; its first note says which was chosen, and why, its parameters have it as ``method``.
        Its history is the curve: the best selection of so many features, whatever its method, where no fewer predict
        better (beyond the best: no more); the metric with its standard error, and that of each fold; the method; what
        was ``chosen``, what is ``best``, and how much worse than that each is, with its standard error.

    Notes
    -----
    What was compared is a path, and so the selection is that of the same path on all rows: see `daskfs.SelectionCV`. It
    takes some tens of fits of one method. All columns together are held in memory by the Lassos and the ridges alone.
    The means of what was chosen are a little too good, as what is chosen among many always is. On rows that were held
    out, or by `sklearn.model_selection.cross_val_score` of `Auto` itself, the choice is part of what is judged.

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
    selector_: BaseSelector

    n_features_to_select: CountOrCV | None = None
    loss: Annotated[str, LossOf(among=("squared", "logistic"), several=True)] = "auto"
    curves: bool = True
    goal: Literal["selection", "prediction"] = "selection"
    always_include: Columns = None

    @property
    def _chooses_size(self) -> bool:
        """Not of itself: methods and sizes are chosen together."""
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
        """What the method that was chosen cuts groups of rows by."""
        return self.selector_.groups_are_cut_by if hasattr(self, "selector_") else ""

    def _settle_loss(self, kind: TargetKind, is_plan: bool = False) -> None:
        super()._settle_loss(kind, is_plan)
        self._n_classes = max(kind.n_classes, 1) if self._loss.is_classifier else 0

    def _made(self, method: str, n_features: int | str, **more: Any) -> Any:
        """Return the selector of a method, not fitted, whose loss is settled."""
        if self.always_include is not None:
            more["always_include"] = self.always_include
        made = find_method(method)(
            n_features_to_select=n_features, loss=self.loss_, random_state=seed_of(self.random_state), **more
        )
        made.loss_, made._loss_note, made.is_silent = self.loss_, self._loss_note, self.is_silent
        return made

    def _choice(self, shape: DataShape) -> Choice:
        return choose(shape.n_samples, shape.n_features, self._n_classes, shape.n_entries is not None)

    def _takes(self, method: str) -> bool:
        """Whether a method takes the target, and keeps the columns that are always included."""
        if self.always_include is not None and "always_include" not in find_method(method)().get_params(deep=False):
            return False
        return method != "online_substitution" or self._n_classes <= 2

    def _sizes(self, shape: DataShape) -> list[int]:
        """Return the numbers of features that are compared: none without those always included."""
        n_always = 0 if self.always_include is None else np.size(self.always_include)
        sizes = default_sizes(shape.n_samples, shape.n_features)
        return sorted({min(max(size, n_always), shape.n_features) for size in sizes})

    def _notes_on_always(self) -> list[str]:
        """Return in words what cannot keep columns, and so takes no part."""
        if self.always_include is None:
            return []
        kept = [name for name in METHODS if not self._takes(name)]
        others = [*kept, "the Lassos", "the ridges", "the curves"] if self._compares else kept
        return [f"always_include is not for {listed(others)}: they took no part"] if others else []

    def _recommended(self, shape: DataShape, limits: Limits) -> tuple[BaseSelector, Choice, SelectorPlan]:
        """Return the selector for data of this shape, why it is taken, and its plan; asked for a number one alone."""
        choice = self._choice(shape)
        others = [other for other in METHODS if other != choice.method and self._takes(other)]
        why = f"{choice.method}, which would be the best, does not keep the memory limit"
        first = [choice]
        if not self._takes(choice.method):
            first, why = [], f"{choice.method}, which would be the best, has no always_include"
        refused: PlanError | None = None
        for one in (*first, *(Choice(other, why) for other in others if self._compares or not first)):
            made = self._made(one.method, CV if self._compares else self.n_features_to_select)  # type: ignore[arg-type]
            try:
                return made, one, made._planned(shape, limits)
            except PlanError as fault:
                refused = refused or fault
        assert refused is not None
        raise refused

    def _contenders(self, shape: DataShape) -> list[Contender]:
        """Return what is compared on data of this shape; nothing where they are too much for it."""
        n_values = shape.n_samples * shape.n_features if shape.n_entries is None else shape.n_entries
        if not self._compares or shape.n_features > MOST_COLUMNS or n_values > MOST_VALUES:
            return []
        sizes = self._sizes(shape)
        made = [Contender(self._made(name, sizes[-1]), sizes) for name in METHODS if self._takes(name)]
        if self.always_include is not None:
            return made
        if self._has_curves(shape):
            few = sorted({min(size, MOST_CURVES) for size in sizes})
            made.append(Contender(self._made("fgm", few[-1], feature_map=CURVES), few))
        lasso, ridge = ShrunkLasso(loss=self.loss_), RidgeElimination(loss=self.loss_)
        for selector in (lasso, ridge):
            selector.loss_, selector._loss_note = self.loss_, self._loss_note
        return [*made, Lassos(lasso, []), Ridges(ridge, ridge.sizes_of(shape.n_features))]

    def _has_curves(self, shape: DataShape) -> bool:
        n_values = shape.n_samples * shape.n_features
        return (
            self.curves
            and shape.n_entries is None
            and shape.n_samples >= ROWS_OF_CURVES
            and n_values <= VALUES_OF_CURVES
        )

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        if contenders := self._contenders(shape):
            return plan_all(
                contenders, replace(shape, n_classes=self._n_classes), limits, N_FOLDS * n_repeats(shape.n_samples)
            )
        _, choice, plan = self._recommended(shape, limits)
        work = None if plan.work is None else replace(plan.work, method=choice.method)
        return replace(plan, work=work, text=f"auto: {choice.method}, for {choice.why}; {plan.text}")

    def _fit(self, run: Run) -> None:
        n_entries = run.matrix.entry_counts(slice(None))
        shape = replace(run.shape, n_entries=None if n_entries is None else int(n_entries.sum()))
        if contenders := self._contenders(shape):
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
        """Compare on the same folds, and fit on all rows what the goal calls for."""
        rows = run.over(gathered(weighted_rows(run.matrix), run.task_limit))  # sent once, whoever takes rows or columns
        shape, n_features = replace(rows.shape, n_classes=self._n_classes), run.matrix.shape[1]
        plan_all(contenders, shape, rows.limits, 1)  # refuses a limit that is too small for all
        kept = [one for one in contenders if one.keeps(shape, rows.limits)]
        is_classifier, seed = find_loss(self.loss_).is_classifier, seed_of(self.random_state)
        folds = repeated_folds(rows.matrix, is_classifier, N_FOLDS, n_draws, seed)
        found = compare(rows, kept, folds, default_metric(self.loss_))
        best, *_ = places = ranked(found)
        sizes = by_size(places)
        wanted = [best] if self.goal == "prediction" else fewest(sizes, best, n_features)
        for attempt, taken in enumerate(wanted):
            fitted = taken.of.fit(rows.within(f"all-{attempt}"), taken.k)
            if fitted.support_.sum() < n_features:  # a Lasso's size is the folds' mean: here it may be all columns
                break
        self._take(fitted)
        self.n_features_to_select_, self.cv_results_ = taken.size, Compared.results(found)
        notes = [*said, *comparison_notes(found, sizes, taken, best, self.goal, n_features)]
        notes += self._notes_on_always()
        if left_out := [one.name for one in contenders if one not in kept]:
            notes.append(f"{listed(left_out)} took no part: the memory limit is too small")
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
        self.selector_ = fitted
        for name in ("selected_", "support_", "coef_", "intercept_", "scores_", "made_", "classes_"):
            if hasattr(fitted, name):
                setattr(self, name, getattr(fitted, name))

    @property
    def score_kind(self) -> str:  # type: ignore[override]
        """What `scores_` are: of the chosen one."""
        return self.selector_.score_kind if hasattr(self, "selector_") else super().score_kind

    @property
    def response_losses(self) -> tuple[str, str]:
        """By which the linear predictor becomes a mean or a label, and probabilities: those of the chosen one."""
        return self.selector_.response_losses

    @property
    def _probabilities(self) -> Response:
        return self.selector_._probabilities
