"""Choice of the number of features by cross-validation of a path of sizes.

    1. Folds of the rows: random, of whole groups, or in time, each later than its training rows.
    2. For each fold, one path fitted on the other rows: the selector for each of the sizes, nested if the method can.
    3. The metric on the fold's rows, for each size; its mean over the folds, and the standard error of the mean.
    4. The size: the one with the best mean, or the smallest within one standard error of it.

What is evaluated is a path with these sizes, so the selection is that of the same path on all rows, at the chosen size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np

from daskfs.errors import ConfigError, DataError, PlanError
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.metrics import (
    METRICS_OF_ERRORS,
    METRICS_OF_PROBABILITIES,
    METRICS_OF_SCORES,
    PREDICTION_METRICS,
    metric_of,
)
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.refit import JUDGED
from daskfs.selectors.shared.rows import ingest_order
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import Recipe, on_samples, plan_samples
from daskfs.selectors.shared.selected_blocks import budget_of_refits

SIZES = (1, 2, 4, 7, 10, 15, 25, 40, 65, 100)
N_FOLDS, LEAST_ROWS = 5, 3
EVALUATED_NBYTES = 16 << 20

SizeRule: TypeAlias = Literal["best", "1se"]
FoldOrder: TypeAlias = Literal["random", "time"]


def default_sizes(n_samples: int, n_features: int) -> list[int]:
    """Return at most ten sizes: up to 100, half of the rows, and all features.

    Examples
    --------
    >>> default_sizes(71, 4088), default_sizes(1000, 5)
    ([1, 2, 4, 7, 10, 15, 25, 35], [1, 2, 4, 5])
    """
    most = max(1, min(SIZES[-1], n_samples // 2, n_features))
    return [*(size for size in SIZES if size < most), most]


@dataclass(frozen=True)
class Fold:
    """Training and test rows of a path."""

    number: int
    train: np.ndarray
    test: np.ndarray

    @property
    def name(self) -> str:
        """The number of the fold."""
        return str(self.number)

    def of(self, matrix: Matrix) -> Matrix:
        """Return the training rows."""
        return matrix.take(self.train)


def folds_of(
    matrix: Matrix,
    is_classifier: bool,
    cv: Any,
    groups: np.ndarray | None,
    order: str,
    seed: int | None,
    n_draws: int = 1,
) -> list[Fold]:
    """Return the folds of the rows of a matrix.

    Parameters
    ----------
    matrix : Matrix
    is_classifier : bool
        Whether to stratify by class.
    cv : int or scikit-learn splitter
    groups : ndarray of shape (n_samples,), optional
        Groups of rows that must be in the same fold, in the order of the matrix.
    order : {"random", "time"}
    seed : int, optional
    n_draws : int
        Number of times that random folds are drawn.

    Raises
    ------
    ConfigError
        There are fewer groups, or fewer rows of a class, than folds.
    DataError
        There are fewer than three rows.
    """
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold, TimeSeriesSplit

    n_samples, y = matrix.shape[0], matrix.read_target()
    if n_samples < LEAST_ROWS:
        problem = f"cross-validation needs at least {LEAST_ROWS} rows, found {n_samples}"
        raise DataError(problem, "X", "add rows, or give the number of features")
    if not hasattr(cv, "split"):
        fewest = int(np.unique(np.asarray(y), return_counts=True)[1].min()) if is_classifier else n_samples
        cv = max(2, min(int(cv), n_samples if groups is not None else fewest))
    known = matrix.source_rows
    in_source = np.arange(n_samples) if known is None else np.argsort(known, kind="stable")
    together = None if groups is None else _numbered(groups[in_source])
    draws: list[tuple[np.ndarray, Any, np.ndarray | None]] = []  # rows in an order, what splits them, their groups
    if hasattr(cv, "split"):
        draws = [(in_source, cv, together)]
    elif order == "time":
        draws = [(in_source, TimeSeriesSplit(int(cv)), together)]
    else:
        drawn, rng = drawn_order(matrix, seed), np.random.default_rng(seed)
        rows = (StratifiedKFold if is_classifier else KFold)(int(cv))
        whole = StratifiedGroupKFold if is_classifier else GroupKFold
        draws = [(drawn, rows, None) if groups is None else (in_source, whole(int(cv)), together)]
        for _ in range(1, n_draws):
            at = drawn[rng.permutation(n_samples)]
            if groups is None:
                draws.append((at, rows, None))
            else:
                shuffled = whole(int(cv), shuffle=True, random_state=int(rng.integers(2**31)))
                draws.append((at, shuffled, groups[at]))
    folds: list[Fold] = []
    for at, splitter, kept in draws:
        labels = np.asarray(y)[at] if is_classifier else None
        try:
            pieces = list(splitter.split(np.zeros((n_samples, 1)), labels, kept))
        except ValueError as fault:
            raise ConfigError(str(fault), "cv", "use fewer folds") from None
        folds += [
            Fold(len(folds) + k, np.sort(at[train]), np.sort(at[test])) for k, (train, test) in enumerate(pieces, 1)
        ]
    return folds


def drawn_order(matrix: Matrix, seed: int | None) -> np.ndarray:
    """Return the rows in random order: as they are if ingest shuffled them, else in the order that ingest would use."""
    n_samples = matrix.shape[0]
    return np.arange(n_samples) if matrix.rows_are_random else ingest_order(n_samples, seed)


def _numbered(groups: np.ndarray) -> np.ndarray:
    """Return groups as numbers in the order of their first rows, so that folds do not depend on the labels."""
    _, first, place = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[place]


class SizeCurve(NamedTuple):
    """The metric of each size on held-out rows."""

    sizes: np.ndarray
    metric: str
    by_fold: np.ndarray
    """Shape (n_folds, n_sizes)."""
    weight: np.ndarray
    """Weights of the folds' rows, shape (n_folds,)."""

    @property
    def mean(self) -> np.ndarray:
        """Mean over the folds, weighted by the weights of their rows; shape (n_sizes,)."""
        return np.average(self.by_fold, axis=0, weights=self.weight)

    @property
    def standard_error(self) -> np.ndarray:
        """Standard error of the mean, shape (n_sizes,)."""
        if len(self.by_fold) < 2:
            return np.full(len(self.sizes), np.nan)
        spread = np.average((self.by_fold - self.mean) ** 2, axis=0, weights=self.weight)
        return np.sqrt(spread / (len(self.by_fold) - 1))

    def chosen(self, rule: str) -> int:
        """Return the position of the size that a rule chooses."""
        mean = -self.mean if self.metric in METRICS_OF_ERRORS else self.mean
        if np.isnan(mean).all():
            return len(mean) - 1
        best = int(np.nanargmax(mean))
        if rule == "best" or len(self.by_fold) < 2:
            return best
        return int(np.flatnonzero(mean >= mean[best] - self.standard_error[best])[0])

    def columns(self, place: int) -> dict[str, np.ndarray]:
        """Return the curve as the history of a result; `place` is the position of the chosen size."""
        folds = {f"fold_{k}": scores for k, scores in enumerate(self.by_fold, 1)}
        means = {self.metric: self.mean, "standard_error": self.standard_error}
        return {"features": self.sizes, **means, "chosen": np.arange(len(self.sizes)) == place, **folds}

    def results(self) -> dict[str, Any]:
        """Return the curve in the form of scikit-learn's searches."""
        folds = {f"split{k}_test_score": scores for k, scores in enumerate(self.by_fold)}
        means = {"mean_test_score": self.mean, "standard_error": self.standard_error}
        return {"n_features_to_select": self.sizes, "metric": self.metric, **means, **folds}

    def note(self, k: int, rule: str) -> str:
        """Return a note on the chosen size."""
        why = "the best" if rule == "best" else "the fewest within one standard error of the best"
        error = self.standard_error[k]
        value = f"{self.metric} {self.mean[k]:.4g}{f' ± {error:.2g}' if np.isfinite(error) else ''}"
        return (
            f"{self.sizes[k]:,} features were chosen by cross-validation, {why} of {len(self.sizes)} sizes: "
            f"{value} in {len(self.by_fold)} folds"
        )


@dataclass(frozen=True)
class SizeSearch:
    """Settings of the search for the number of features: the parameters of `daskfs.SelectionCV`, for every selector."""

    sizes: Sequence[int] | None = None
    cv: Any = N_FOLDS
    rule: SizeRule = "best"
    metric: str | None = None
    groups: Any = None
    order: FoldOrder = "random"

    @classmethod
    def of(cls, asked: Any) -> Self:
        """Return the search given instead of a number: "cv", or a mapping with other than default settings."""
        return cls(**asked) if isinstance(asked, Mapping) else cls()

    def check(self, n_included: int = 0) -> None:
        """Refuse options that have no effect together, and sizes smaller than the number of columns always included.

        Raises
        ------
        ConfigError
        """
        if self.groups is not None and self.order == "time":
            raise ConfigError("has no effect with order='time'", "groups", "leave one of them out, or pass a splitter")
        if self.sizes is not None and (least := min(map(int, self.sizes), default=n_included)) < n_included:
            problem = f"expected sizes of at least {n_included} (columns that are always included), found {least}"
            remedy = f"leave out sizes below {n_included}, or list fewer columns in always_include"
            raise ConfigError(problem, "sizes", remedy)

    def sizes_of(self, n_samples: int, n_features: int, n_included: int = 0) -> list[int]:
        """Return the sizes, at most the number of features.

        Default sizes start at the number of columns that are always included, if there are any.
        """
        if self.sizes is None:
            return sorted({max(size, n_included) for size in default_sizes(n_samples, n_features)})
        return sorted({min(int(size), n_features) for size in self.sizes})

    @property
    def n_folds(self) -> int:
        """Number of folds for the plan."""
        return self.cv if isinstance(self.cv, int) else N_FOLDS

    def plan(self, recipe: Recipe, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Return what cross-validation of a path will read and hold in memory: see `fit`."""
        sizes = self.sizes_of(shape.n_samples, shape.n_features, recipe.make().n_included)
        return plan_sizes(recipe, shape, limits, sizes, self.n_folds, self._whose)

    @property
    def _whose(self) -> str:
        return " of whole groups" if self.groups is not None else " in time" if self.order == "time" else ""

    def fit(self, run: Run, recipe: Recipe, loss: str, seed: int | None) -> Found:
        """Return the selector fitted at the size that the rule chooses, and the curve.

        Parameters
        ----------
        run : Run
            Over rows of positive weight.
        recipe : Recipe
            The selector with the largest size.
        loss : str
        seed : int, optional
            Seed of the folds, if rows are not in random order.
        """
        metric = self.metric or default_metric(loss)
        check_metric(metric, loss, run.matrix)
        sizes = self.sizes_of(*run.matrix.shape, recipe.make().n_included)
        is_classifier = find_loss(loss).is_classifier
        groups = None if self.groups is None else run.matrix.row_groups(self.groups)
        if groups is None and self.order == "random" and not hasattr(self.cv, "split"):
            groups = run.matrix.declared_groups
        folds = folds_of(run.matrix, is_classifier, self.cv, groups, self.order, seed)
        curve = size_curve(run, recipe, sizes, folds, metric, [run.within("all")])
        place = curve.chosen(self.rule)
        selector = recipe.make()
        path = [sizes[place], sizes[-1]] if selector.is_nested else [sizes[place]]
        search = self if groups is None or self.groups is not None else replace(self, groups=run.matrix.rows_together)
        return Found(selector.fit_path(run.within("all"), path)[0], curve, place, search)

    def words(self) -> dict[str, Any]:
        """Return the settings for a result; groups and a splitter are described, not listed row by row."""
        found: dict[str, Any] = {"cv": self.cv if isinstance(self.cv, int) else repr(self.cv), "rule": self.rule}
        if self.groups is not None:
            is_name = isinstance(self.groups, str)
            found["groups"] = self.groups if is_name else f"{len(np.unique(np.asarray(self.groups)))} groups"
        return found | {"order": self.order}


class Found(NamedTuple):
    """The selector of the size that cross-validation chose, fitted on all rows."""

    selector: Any
    curve: SizeCurve
    place: int
    search: SizeSearch

    @property
    def size(self) -> int:
        """The number of features."""
        return int(self.curve.sizes[self.place])

    @property
    def result_arguments(self) -> dict[str, Any]:
        """The arguments for a result: a note on the choice, and the curve."""
        note, history = self.curve.note(self.place, self.search.rule), self.curve.columns(self.place)
        return {"notes": [note + self.search._whose], "history": history}


def size_curve(
    run: Run, recipe: Recipe, sizes: Sequence[int], folds: Sequence[Fold], metric: str, also: Sequence[Run] = ()
) -> SizeCurve:
    """Return the metric of each size of a selector's path on the rows of each fold.

    Parameters
    ----------
    run : Run
    recipe : Recipe
        Of the selector.
    sizes : sequence of int
        Ascending.
    folds : sequence of Fold
    metric : str
        A key of `daskfs.metrics.PREDICTION_METRICS`.
    also : sequence of Run
        See `daskfs.selectors.shared.samples.on_samples`.
    """
    found = on_samples(run, "fold", score_on_fold, recipe, folds, path_of_sizes, metric, list(sizes), also=also)
    return SizeCurve(np.array(sizes, dtype=np.int64), metric, *scores_of(found))


def scores_of(found: Sequence[Mapping[str, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the metric of each model on each fold, shape (n_folds, n_models), and the weights of the folds' rows.

    Models at the end of a path that are not in every fold are left out.
    """
    n_models = min(len(one["scores"]) for one in found)
    scores = np.array([one["scores"][:n_models] for one in found]).reshape(len(found), n_models)
    return scores, np.array([float(one["weight"]) for one in found])


def plan_sizes(
    recipe: Recipe, shape: DataShape, limits: Limits, sizes: Sequence[int], n_folds: int, whose: str = ""
) -> SelectorPlan:
    """Return what cross-validation of a path will read and hold in memory: see `SizeSearch.fit`."""
    if recipe.make().is_nested:
        what = f"one path of {len(sizes)} sizes in each of {n_folds} folds{whose} and on all rows"
        refit = budget_of_refits(shape, sizes[-1])
        try:
            plan = plan_samples(recipe, shape, limits, n_folds + 1, what)
        except PlanError as fault:
            if (fault.needed_nbytes or 0) > refit.nbytes:
                raise
            plan = None
        refit.refuse_over(limits.task_nbytes, f"refits of up to {sizes[-1]:,} features take", "use smaller sizes")
        assert plan is not None
        return replace(plan, task=max(plan.task, refit, key=lambda budget: budget.nbytes))
    what = f"a fit for each of {len(sizes)} sizes in each of {n_folds} folds{whose}, and one on all rows"
    return plan_samples(recipe, shape, limits, n_folds * len(sizes) + 1, what)


class FittedPath(NamedTuple):
    """Fitted models, which are compared on other rows."""

    predict: Callable[[Matrix], Iterator[tuple[Any, np.ndarray]]]
    """Yields, for each model, a selector that knows the loss and the classes, and the linear predictors of rows."""
    found: dict[str, np.ndarray] = {}  # noqa: RUF012 (never written)
    """Further arrays that are kept of a fold."""


def score_on_fold(
    selector: Any, run: Run, fold: Fold, fit: Callable[..., FittedPath], metric: str, *settings: Any
) -> dict[str, np.ndarray]:
    """Fit a path, ``fit(selector, run, *settings)``, on a fold's training rows; return its metrics on the test rows."""
    path = fit(selector, run, *settings)
    test = run.whole.take(fold.test)
    y, weight = test.read_target(), test.read_weight()
    scores = [metric_on(one, metric, y, z, weight) for one, z in path.predict(test)]
    total = float(len(fold.test) if weight is None else weight.sum())
    return {"scores": np.array(scores), "weight": np.array(total)} | path.found


def path_of_sizes(selector: Any, run: Run, sizes: list[int]) -> FittedPath:
    """Fit a selector for each of the sizes."""
    models = selector.fit_path(run, sizes, JUDGED)
    return FittedPath(lambda test: zip(models, _predictions(models, test), strict=True))


def default_metric(loss: str) -> str:
    """Return the default metric for comparing sizes: mean squared error, log loss, or accuracy."""
    record = find_loss(loss)
    return "mse" if not record.is_classifier else "log_loss" if record.has_probabilities else "accuracy"


def check_metric(metric: str, loss: str, matrix: Matrix) -> None:
    """Refuse a metric that does not apply to a loss's predictions, or to more than two classes.

    Raises
    ------
    ConfigError
    """
    record, of = find_loss(loss), ""
    taken = [name for name in record.metrics if name in PREDICTION_METRICS]
    if record.is_classifier and (n_classes := len(np.unique(np.asarray(matrix.read_target(slice(None)))))) > 2:
        taken, of = [name for name in taken if name not in METRICS_OF_SCORES], f" for {n_classes} classes"
    if metric not in taken:
        raise ConfigError(f"expected one of {', '.join(taken)}{of}, found {metric!r}", "metric", "choose one of them")


def _predictions(path: Sequence[Any], test: Matrix) -> list[np.ndarray]:
    """Return the linear predictors of all elements of a path; the columns that any of them uses are read once."""
    predictors = [one.predictor() for one in path]
    columns = np.unique(np.concatenate([predictor.columns for predictor in predictors]))
    found: list[list[np.ndarray]] = [[] for _ in path]
    n_rows = max(1, EVALUATED_NBYTES // max(1, test.dtype.itemsize * len(columns)))
    for start in range(0, test.shape[0], n_rows):
        rows: Rows = slice(start, min(start + n_rows, test.shape[0]))
        block = test.read(rows, columns)
        for k, predictor in enumerate(predictors):
            found[k].append(np.asarray(predictor(block[:, np.searchsorted(columns, predictor.columns)])))
    return [np.concatenate(parts) for parts in found]


def metric_on(selector: Any, metric: str, y: Any, z: np.ndarray, weight: np.ndarray | None) -> float:
    """Return a metric of a fitted selector's linear predictors of rows."""
    classes: Any = getattr(selector, "classes_", None)
    z = z[:, 0] if z.ndim == 2 and z.shape[1] == 1 else z
    if metric in METRICS_OF_SCORES:
        return metric_of(metric, y, z, weight) if len(np.unique(y)) == 2 else float("nan")
    if metric in METRICS_OF_PROBABILITIES:
        is_known = np.isin(y, classes)  # a class with few rows may occur in only one fold
        if not is_known.all():
            y, z, weight = np.asarray(y)[is_known], z[is_known], None if weight is None else weight[is_known]
        return metric_of(metric, y, selector._probabilities(z), weight, classes)
    return metric_of(metric, y, selector.response(z), weight, classes)
