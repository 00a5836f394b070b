"""Compare methods on the same folds: paths of selectors, Lassos, and ridges with backward elimination.

Each contender is a selector and the numbers of features on its path. Each combination of a method, its settings and a
number of features is compared by its mean over the folds. Combinations are kept if they predict better than all with at
most as many features. Of these, the best is chosen, or the smallest that is worse by at most one standard error of the
differences, paired over the folds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from daskfs.baselines.linear.all_columns import rows_of
from daskfs.baselines.linear.ridge_elimination import RidgeElimination, eliminate, laid_out
from daskfs.baselines.linear.shrunk_lasso import ShrunkLasso, follow, shares
from daskfs.errors import Caution, PlanError
from daskfs.matrix.base import Matrix
from daskfs.metrics import METRICS_OF_ERRORS
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.cross_validation import (
    FittedPath,
    Fold,
    SizeCurve,
    plan_sizes,
    score_on_fold,
    scores_of,
    size_curve,
)
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import Recipe, on_samples, plan_samples
from daskfs.selectors.shared.zeros import share_of_zeros

SCALINGS = ("unit", "none")
"""Scalings for columns that are mostly zeros, such as words and categories; others are only scaled to unit variance."""
MOSTLY = 0.5
ON_ALL_ROWS = "all-{}"
"""Names of the runs of the fits on all rows."""
FEW_ROWS, MOST_REPEATS = 1_000, 5
"""With fewer rows, folds are drawn repeatedly, up to a total of this number, because results vary between draws."""


@dataclass(frozen=True)
class Contender:
    """A selector with a resolved loss, and the sizes of its path."""

    selector: BaseSelector
    sizes: list[int]

    @property
    def recipe(self) -> Recipe:
        """Recipe with which tasks make the selector."""
        return Recipe.of(self.selector)

    @property
    def name(self) -> str:
        """Unique name among the contenders."""
        return _name_of(self.recipe)

    @property
    def place(self) -> str:
        """Name of its checkpoints."""
        return self.name.replace(" ", "-")

    def plan(self, shape: DataShape, limits: Limits, n_folds: int) -> SelectorPlan:
        """Return the plan of its fits in all folds and on all rows."""
        return plan_sizes(self.recipe, shape, limits, self.sizes, n_folds)

    def evaluated(self, run: Run, folds: Sequence[Fold], metric: str, also: Sequence[Run] = ()) -> list[Compared]:
        """Evaluate its selections on the folds; see `daskfs.selectors.shared.samples.on_samples` for `also`."""
        return [Compared(self.recipe, size_curve(run, self.recipe, self.sizes, folds, metric, also))]

    def keeps(self, shape: DataShape, limits: Limits) -> bool:
        """Return whether its fits stay within the limits."""
        try:
            self.plan(shape, limits, 1)
        except PlanError:
            return False
        return True


def _name_of(recipe: Recipe) -> str:
    method = str(recipe.kind.method)
    return f"{method} over curves" if recipe.parameters.get("feature_map") is not None else method


@dataclass(frozen=True)
class Compared:
    """A contender with its settings, and the scores of its path on the folds."""

    recipe: Recipe
    curve: SizeCurve
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the whole path."""
    shares: Sequence[float] = ()
    """Penalties of the Lasso along the path."""

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.recipe.kind.method)

    @property
    def name(self) -> str:
        """Unique name among the contenders."""
        return _name_of(self.recipe)

    @property
    def is_of_curves(self) -> bool:
        """Whether the features are spline functions of columns instead of columns."""
        return self.name != self.method

    def settings_at(self, place: int) -> dict[str, Any]:
        """Return the settings at a position of the path."""
        feature_map = {"feature_map": self.recipe.parameters["feature_map"]} if self.is_of_curves else {}
        return {**feature_map, **self.settings, **({"share": self.shares[place]} if self.shares else {})}

    def fit(self, run: Run, place: int) -> Any:
        """Return the selector fitted on all rows of a run, with the size at a position of the path."""
        selector, sizes = self.recipe.make(), self.curve.sizes
        for name, value in self.settings_at(place).items():
            setattr(selector, name, value)
        path = [sizes[place], sizes[-1]] if selector.is_nested else [sizes[place]]
        return selector.fit_path(run, [int(size) for size in path])[0]

    @staticmethod
    def results(found: Sequence[Compared]) -> dict[str, Any]:
        """Return all selections with their means, in the format of scikit-learn's `cv_results_`."""
        each = [(one, k) for one in found for k in range(len(one.curve.sizes))]
        return {
            "method": np.array([one.method for one, _ in each], dtype=object),
            "n_features_to_select": np.array([one.curve.sizes[k] for one, k in each]),
            "settings": [one.settings_at(k) for one, k in each],
            "metric": found[0].curve.metric,
            "mean_test_score": np.concatenate([one.curve.mean for one in found]),
            "standard_error": np.concatenate([one.curve.standard_error for one in found]),
        }


def compare(run: Run, contenders: Sequence[Contender], folds: Sequence[Fold], metric: str) -> list[Compared]:
    """Evaluate all contenders on the folds; the only one is going to be fitted on all rows, and prepares for it."""
    also = [run.within(ON_ALL_ROWS.format(0))] if len(contenders) == 1 else []
    return [compared for one in contenders for compared in one.evaluated(run.within(one.place), folds, metric, also)]


class Lassos(Contender):
    """Lassos with many penalties, which determine the sizes of the path."""

    def plan(self, shape: DataShape, limits: Limits, n_folds: int) -> SelectorPlan:
        """Return the plan of its fits in all folds and on all rows."""
        return plan_samples(self.recipe, shape, limits, n_folds + 1, f"Lassos in each of {n_folds} folds")

    def evaluated(self, run: Run, folds: Sequence[Fold], metric: str, also: Sequence[Run] = ()) -> list[Compared]:
        """Evaluate the penalties that are on the paths of all folds; sizes are means over the folds."""
        penalties = shares(*run.matrix.shape)
        results = on_samples(run, "fold", score_on_fold, self.recipe, folds, lassos, metric, penalties)
        scores, weight = scores_of(results)
        n_models = scores.shape[1]
        if not n_models:
            return []
        sizes = np.rint(np.mean([each["n_selected"][:n_models] for each in results], axis=0)).astype(np.int64)
        return [Compared(self.recipe, SizeCurve(sizes, metric, scores, weight), shares=tuple(penalties[:n_models]))]


class Ridges(Contender):
    """Ridges of many strengths, with two scalings of the columns if most values are zeros."""

    selector: RidgeElimination

    def plan(self, shape: DataShape, limits: Limits, n_folds: int) -> SelectorPlan:
        """Return the plan of its fits in all folds and on all rows."""
        plan = plan_samples(self.recipe, shape, limits, n_folds + 1, f"ridges in each of {n_folds} folds")
        read = plan.read_nbytes + shape.nbytes  # for the proportion of zeros
        return replace(plan, n_tasks=plan.n_tasks + 1, n_passes=plan.n_passes + 1, read_nbytes=read)

    def evaluated(self, run: Run, folds: Sequence[Fold], metric: str, also: Sequence[Run] = ()) -> list[Compared]:
        """Evaluate ridges of all strengths, with each scaling of the columns."""
        (share,) = run.map("zeros", share_of_zeros, [slice(None)])
        scalings = SCALINGS if share > MOSTLY else SCALINGS[:1]
        scores, weight = scores_of(
            on_samples(run, "fold", score_on_fold, self.recipe, folds, ridges, metric, scalings, self.sizes)
        )
        scores = scores.reshape(len(folds), len(scalings), -1, len(self.sizes))
        found, sizes = [], np.array(self.sizes[::-1], dtype=np.int64)
        for s, scaling in enumerate(scalings):
            for r, ridge in enumerate(self.selector.ridges):
                curve = SizeCurve(sizes, metric, scores[:, s, r, ::-1], weight)
                found.append(Compared(self.recipe, curve, {"ridge": ridge, "scaling": scaling}))
        return found


def lassos(selector: ShrunkLasso, run: Run, penalties: Sequence[float]) -> FittedPath:
    """Fit the Lasso for all penalties."""
    models = follow(run.matrix, selector.targets(np.asarray(run.matrix.read_target())), selector.is_logistic, penalties)
    return FittedPath(lambda test: ((selector, z) for z in models.predict(test)), {"n_selected": models.n_selected})


def ridges(selector: RidgeElimination, run: Run, scalings: Sequence[str], sizes: list[int]) -> FittedPath:
    """Fit ridges of all strengths and eliminate columns."""
    data = laid_out(run.matrix)
    y = selector.targets(data.y)

    def predict(test: Matrix) -> Iterator[tuple[RidgeElimination, np.ndarray]]:
        X = rows_of(test)
        X = X.astype(np.result_type(X.dtype, np.float32), copy=False)
        for scaling in scalings:
            for steps in eliminate(data, y, selector._loss, scaling, selector.ridges, sizes):
                for step in steps:
                    some = X if len(step.columns) == X.shape[1] else X[:, step.columns]
                    yield selector, some @ step.coef.astype(X.dtype) + step.intercept

    return FittedPath(predict)


def n_repeats(n_samples: int) -> int:
    """Return the number of draws of folds.

    Examples
    --------
    >>> n_repeats(62), n_repeats(400), n_repeats(5_000)
    (5, 2, 1)
    """
    return max(1, min(MOST_REPEATS, FEW_ROWS // n_samples))


class Place(NamedTuple):
    """An evaluated selection: a contender with its settings, and a position of its path."""

    of: Compared
    k: int

    @property
    def size(self) -> int:
        """Number of features; for the Lasso the mean over the folds."""
        return int(self.of.curve.sizes[self.k])

    @property
    def losses(self) -> np.ndarray:
        """The metric on each fold, with a sign such that lower is better."""
        by_fold = self.of.curve.by_fold[:, self.k]
        return by_fold if self.of.curve.metric in METRICS_OF_ERRORS else -by_fold

    @property
    def loss(self) -> float:
        """The mean over the folds."""
        return float(np.average(self.losses, weights=self.of.curve.weight))

    def worse_than(self, other: Place) -> tuple[float, float]:
        """Return the excess loss over another selection and its standard error, paired over the folds."""
        sizes, metric, _, weight = self.of.curve
        difference = SizeCurve(sizes[:1], metric, (self.losses - other.losses)[:, None], weight)
        return float(difference.mean[0]), float(difference.standard_error[0])

    def is_as_good_as(self, other: Place) -> bool:
        """Return whether it is worse than another by at most one standard error."""
        loss, error = self.worse_than(other)
        return loss <= error


def ranked(found: Sequence[Compared]) -> list[Place]:
    """Return the evaluated selections, the best first; for equal losses the one with fewer features first.

    Spline features are left out, unless they predict better than columns by more than a standard error.
    """
    places = [Place(one, k) for one in found for k in np.flatnonzero(np.isfinite(one.curve.mean)).tolist()]
    places = sorted(places, key=lambda one: (one.loss, one.size)) or [Place(found[0], 0)]
    plain = [one for one in places if not one.of.is_of_curves]
    if places[0].of.is_of_curves and plain:
        loss, error = plain[0].worse_than(places[0])
        return places if loss > error else plain
    return places if places[0].of.is_of_curves else plain


def by_size(places: Sequence[Place]) -> list[Place]:
    """Return the curve of the ranked selections by increasing size, up to the best and beyond it.

    Up to the best, it has selections that are better than all with at most as many features; beyond the best, those
    that are better than all with at least as many.
    """
    fewer, more = list[Place](places[:1]), list[Place](places[:1])
    for one in places[1:]:
        if one.size < fewer[-1].size:
            fewer.append(one)
        elif one.size > more[-1].size:
            more.append(one)
    return fewer[::-1] + more[1:]


def fewest(sizes: Sequence[Place], best: Place, n_features: int) -> list[Place]:
    """Return the selections in order of preference for few features.

    First come those within one standard error of the best, the smallest first; then the others, the largest first. All
    features together are not a selection and come last.
    """
    proper = [one for one in sizes if one.size < n_features]
    level, worse = list[Place](), list[Place]()
    for one in proper:
        (level if one.is_as_good_as(best) else worse).append(one)
    return [*level, *worse[::-1], *sizes[len(proper) :]]


def history_of(sizes: Sequence[Place], taken: Place, best: Place) -> dict[str, np.ndarray]:
    """Return the curve as the history of a result, which marks the chosen and the best selection."""
    first = best.of.curve
    scores = np.column_stack([one.of.curve.by_fold[:, one.k] for one in sizes])
    curve = SizeCurve(np.array([one.size for one in sizes]), first.metric, scores, first.weight)
    worse = np.array([one.worse_than(best) for one in sizes])
    return {
        **curve.columns(next(k for k, one in enumerate(sizes) if one is taken)),
        "best": np.array([one is best for one in sizes]),
        "method": np.array([one.of.name for one in sizes], dtype=object),
        "worse_by": worse[:, 0],
        "worse_by_error": worse[:, 1],
    }


def plan_all(
    contenders: Sequence[Contender], shape: DataShape, limits: Limits, n_folds: int, checks: Sequence[Contender] = ()
) -> SelectorPlan:
    """Return the plan of all contenders that stay within the limits, and of the checks that do, run one at a time.

    Raises
    ------
    PlanError
        No contender does. This is the error of the one that needs least.
    """
    plans, refused = {}, list[PlanError]()
    for one in contenders:
        try:
            plans[one.name] = one.plan(shape, limits, n_folds)
        except PlanError as fault:
            refused.append(fault)
    if not plans:
        raise min(refused, key=lambda fault: fault.needed_nbytes or 0)
    first = next(iter(plans.values()))
    text = f"auto: {listed(list(plans))} compared by cross-validation in {n_folds} folds"
    if refused:
        text += f"; {len(refused)} more would exceed the memory limit"
    every = [*plans.values(), *(one.plan(shape, limits, n_folds) for one in checks if one.keeps(shape, limits))]
    return SelectorPlan(
        n_tasks=sum(plan.n_tasks for plan in every),
        n_passes=sum(plan.n_passes for plan in every),
        read_nbytes=sum(plan.read_nbytes for plan in every),
        task=max((plan.task for plan in every), key=lambda budget: budget.nbytes),
        client=max((plan.client for plan in every), key=lambda budget: budget.nbytes),
        text=f"{text}; {first.text}",
        in_client=first.in_client,
    )


def listed(names: Sequence[str]) -> str:
    """Join names with commas and "and"."""
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]


def comparison_notes(
    found: Sequence[Compared], sizes: Sequence[Place], taken: Place, best: Place, goal: str, n_features: int
) -> list[str]:
    """Return notes on the chosen selection, the alternatives, and their meaning.

    Parameters
    ----------
    found : sequence of Compared
    sizes : sequence of Place
        Curve from `by_size`.
    taken, best : Place
    goal : {"selection", "prediction"}
    n_features : int
        Total number of columns.
    """
    curve, metric = taken.of.curve, taken.of.curve.metric
    others = []
    for name in dict.fromkeys(one.name for one in found if one.name != taken.of.name):
        means = [
            (one.curve.mean[k], int(one.curve.sizes[k]))
            for one in found
            if one.name == name
            for k in range(len(one.curve.sizes))
        ]
        mean, of_size = (min if metric in METRICS_OF_ERRORS else max)(means)
        others.append(f"{name} {mean:.4g} ({of_size:,})")
    kind = "splines of {} column" if taken.of.is_of_curves else "{} feature"
    what = kind.format(f"{taken.size:,}") + "s" * (taken.size != 1)
    said = f"{taken.of.method} was chosen, with {what}, by cross-validation in {len(curve.by_fold)} folds"
    notes = [f"{said}: {_score_text(taken)}" + (f"; the best of the others: {', '.join(others)}" if others else "")]
    if goal == "selection":
        notes.append(_selection_note(taken, best, n_features))
    elif (few := next((one for one in sizes if one.is_as_good_as(best)), best)) is not best:
        notes.append(
            f"{few.size:,} features ({few.of.name}) are the fewest within one standard error of that: "
            f"{_score_text(few)}, {_excess_text(few, best)}; goal='selection' selects them"
        )
    if taken.size == n_features > 10:
        notes.append(
            "all features are kept, because they predict better than any smaller selection; set goal='selection' or a "
            "number to select fewer"
        )
    if taken.of.is_of_curves:
        notes.append(
            "features are splines of columns, with nonlinear effects; curves=False compares only the columns themselves"
        )
    return notes


def _score_text(one: Place) -> str:
    mean, error = one.of.curve.mean[one.k], one.of.curve.standard_error[one.k]
    return f"{one.of.curve.metric} {mean:.4g}{f' ± {error:.2g}' if np.isfinite(error) else ''}"


def _excess_text(one: Place, best: Place) -> str:
    loss, error = one.worse_than(best)
    return f"worse by {loss:.2g} ± {error:.2g}"


def _selection_note(taken: Place, best: Place, n_features: int) -> str:
    """Return a note on the loss compared with the best selection; a caution if it exceeds one standard error."""
    if taken is best:
        return "the goal was selection: no fewer features predict as well within one standard error"
    if taken.is_as_good_as(best):
        return (
            f"the goal was selection: the fewest features within one standard error of the best, {best.of.name} with "
            f"{best.size:,} ({_score_text(best)}), {_excess_text(taken, best)}; goal='prediction' selects those"
        )
    return Caution(
        f"no smaller selection predicts as well as all {n_features:,} ({best.of.name}, {_score_text(best)}): "
        f"{taken.size:,} are {_excess_text(taken, best)}; goal='prediction' keeps all"
    )
