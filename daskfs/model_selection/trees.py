"""Whether boosted trees predict better than selections: a check on a sample of rows.

    1. In each of five folds, draw at most 2,000 training rows. Of more than 100 columns keep those whose value or
       squared distance from the mean has the largest correlation with the target on these rows.
    2. Fit scikit-learn's histogram gradient boosting with eight leaves per tree, in one thread, and compute the metric
       of the comparison on all rows of the fold.
    3. Trees are better if the mean difference to the best selection, which saw all training rows, exceeds two standard
       errors. Then cross-validate FGM over splines and over pairs of columns on the same rows.

Nothing is chosen by this check. It says what linear effects of columns miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from daskfs.baselines.linear.ridge_elimination import RidgeElimination
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import as_vector
from daskfs.metrics import METRICS_OF_ERRORS
from daskfs.model_selection.comparing import Compared, Contender, Place
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.cross_validation import N_FOLDS, FittedPath, Fold, SizeCurve, score_on_fold, scores_of
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.samples import on_samples

FEWEST_ROWS, MOST_ROWS, MOST_COLUMNS, LEAVES = 200, 2_000, 100, 8
MOST_CLASSES = 10
"""Each class has a hundred trees of its own."""
READ_VALUES = 1 << 17
"""Number of values that are read together."""
TREES_NBYTES = 32 << 20
"""Histograms of a tree, its sample, and what is read together."""


class Trees(Contender):
    """Boosted trees of a sample of the rows; its selector is only asked for classes and probabilities."""

    selector: RidgeElimination

    @property
    def name(self) -> str:
        """Unique name among the contenders."""
        return "trees"

    @staticmethod
    def takes(shape: DataShape) -> bool:
        """Return whether the data are dense, with enough rows, few classes, and columns quickly read for a sample."""
        is_small = shape.n_features <= 1 << 14 and shape.n_classes <= MOST_CLASSES
        return is_small and shape.n_entries is None and shape.n_samples >= FEWEST_ROWS

    def plan(self, shape: DataShape, limits: Limits, n_folds: int) -> SelectorPlan:
        """Return the plan of its fits in all folds."""
        n_outputs = max(1, shape.n_classes)
        task = Budget().add("trees, their sample and its reading", TREES_NBYTES + shape.tiles_nbytes)
        task.add("predictions", 3 * 8 * n_outputs * shape.n_samples)
        task.refuse_over(limits.task_nbytes, "trees of a sample of rows take", "allow more memory")
        return SelectorPlan(N_FOLDS, 2 * N_FOLDS, 2 * N_FOLDS * shape.nbytes, task, Budget(), "trees of sampled rows")

    def evaluated(self, run: Run, folds: Sequence[Fold], metric: str, also: Sequence[Run] = ()) -> list[Compared]:
        """Evaluate the trees on the first folds."""
        scores, weight = scores_of(on_samples(run, "fold", score_on_fold, self.recipe, sampled(folds), trees, metric))
        size = np.array([min(run.matrix.shape[1], MOST_COLUMNS)])
        return [Compared(self.recipe, SizeCurve(size, metric, scores, weight))]


def sampled(folds: Sequence[Fold]) -> list[Fold]:
    """Return the folds of the first draw, each with a sample of its training rows."""
    rng = np.random.default_rng(0)
    return [
        replace(fold, train=np.sort(rng.permutation(fold.train)[:MOST_ROWS])) for fold in folds[:N_FOLDS]
    ]  # rows of a store are read in order


def trees(selector: RidgeElimination, run: Run) -> FittedPath:
    """Fit boosted trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    # with so few rows, several threads wait for each other longer than they work, on a busy machine for minutes
    one_thread = partial(threadpool_limits, limits=1, user_api="openmp")
    matrix = run.matrix
    y, weight = selector.targets(as_vector(matrix.read_target(slice(None)))), matrix.read_weight(slice(None))
    columns = related(matrix, y)
    given = y[:, 0] if y.shape[1] == 1 else np.argmax(y, axis=1)
    if selector.is_logistic and len(np.unique(given)) == 1:  # a rare class may be missing from a sample
        return FittedPath(lambda test: iter([(selector, np.zeros((test.shape[0], y.shape[1])))]))
    made = HistGradientBoostingClassifier if selector.is_logistic else HistGradientBoostingRegressor
    model = made(max_leaf_nodes=LEAVES, random_state=0)
    with one_thread():
        model.fit(matrix.read(slice(None), columns), given, weight)

    def predict(test: Matrix) -> Iterator[tuple[RidgeElimination, np.ndarray]]:
        step = max(1, READ_VALUES // len(columns))
        starts = range(0, test.shape[0], step)
        blocks = (test.read(slice(start, min(start + step, test.shape[0])), columns) for start in starts)
        several = y.shape[1] > 1
        respond = model.decision_function if selector.is_logistic else model.predict
        respond = model.predict_proba if several else respond
        with one_thread():
            found = np.concatenate([respond(block) for block in blocks])
        if several:  # the predictors from which the selector computes these probabilities
            shares = np.full((test.shape[0], y.shape[1]), np.finfo(float).tiny)
            shares[:, model.classes_] = np.clip(found, 1e-15, 1.0 - 1e-15)
            found = np.log(shares) if selector._loss.has_classes else np.log(shares) - np.log1p(-shares)
        yield selector, found

    return FittedPath(predict)


def related(matrix: Matrix, y: np.ndarray) -> np.ndarray:
    """Return the columns that are most correlated with a target, by value or by squared distance from the mean."""
    n_samples, n_features = matrix.shape
    if n_features <= MOST_COLUMNS:
        return np.arange(n_features)
    score, targets = np.zeros(n_features), y - y.mean(axis=0)
    targets = targets / np.maximum(np.linalg.norm(targets, axis=0), np.finfo(float).tiny)
    step = max(1, READ_VALUES // n_samples)
    for start in range(0, n_features, step):
        some = slice(start, min(start + step, n_features))
        deviation = matrix.read(slice(None), some).astype(np.float64)
        for _ in range(2):
            deviation -= deviation.mean(axis=0)
            norm = np.maximum(np.linalg.norm(deviation, axis=0), np.finfo(float).tiny)
            score[some] = np.maximum(score[some], np.abs(deviation.T @ targets).max(axis=1) / norm)
            deviation **= 2
    return np.sort(np.argsort(-score, kind="stable")[:MOST_COLUMNS])


def gain_over(best: Place, curve: SizeCurve, k: int = 0) -> tuple[float, float]:
    """Return by how much a curve's model is better than a selection, and the standard error, paired over the folds."""
    losses = curve.by_fold[:, k] if curve.metric in METRICS_OF_ERRORS else -curve.by_fold[:, k]
    gain = (best.losses[: len(losses)] - losses)[:, None]
    found = SizeCurve(curve.sizes[:1], curve.metric, gain, curve.weight)
    return float(found.mean[0]), float(found.standard_error[0])


def notes_on_trees(
    tried: Compared, best: Place, run: Run, folds: Sequence[Fold], maps: Sequence[Contender]
) -> list[str]:
    """Return a note if trees are better than the best selection by more than two standard errors.

    Parameters
    ----------
    tried : Compared
        The trees.
    best : Place
        The best selection.
    run : Run
        Over the rows of the folds.
    folds : sequence of Fold
    maps : sequence of Contender
        FGM over feature maps, which are only evaluated for the note.
    """
    gain, error = gain_over(best, tried.curve)
    if not gain > 2.0 * error:
        return []
    metric, n_columns = tried.curve.metric, int(tried.curve.sizes[0])
    n_trained = min(MOST_ROWS, min(len(fold.train) for fold in folds[:N_FOLDS]))
    said = (
        f"boosted trees predict better than the best selection: {metric} {tried.curve.mean[0]:.4g} with {n_columns:,} "
        f"columns and {n_trained:,} training rows, better by {gain:.2g} ± {error:.2g} in {len(tried.curve.by_fold)} "
        f"folds. Effects are nonlinear, or columns act together"
    )
    reached = []
    for one in maps:
        (found,) = one.evaluated(run.within(f"trees-{one.recipe.parameters['feature_map']}"), sampled(folds), metric)
        mean = found.curve.mean if metric in METRICS_OF_ERRORS else -found.curve.mean
        k = int(np.nanargmin(mean))
        better, error = gain_over(best, found.curve, k)
        name = f"FGM({int(found.curve.sizes[k])}, feature_map='{one.recipe.parameters['feature_map']}')"
        how = "better" if better > 0.0 else "worse"
        reached.append(f"{name} has {found.curve.mean[k]:.4g}, {how} by {abs(better):.2g} ± {error:.2g}")
    if reached:
        return [f"{said}. On the same rows {' and '.join(reached)}"]
    return [f"{said}: try FGM(feature_map='splines') or FGM(feature_map='pairs')"]
