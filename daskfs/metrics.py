"""Metrics of predictions and selections: errors, accuracy, precision and recall, areas under curves, stability."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from daskfs import errors

DataError = errors.DataError.about("shapes")


def mse(y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean squared error, in squared units of y.

    Parameters
    ----------
    y, prediction : ndarray of shape (n_samples,)
    weight : ndarray of shape (n_samples,), optional

    Examples
    --------
    >>> mse(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    2.0
    """
    y, prediction = _pair(y, prediction)
    return float(np.average((y - prediction) ** 2, weights=weight))


def rmse(y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Root of the mean squared error, in units of y; parameters as in `mse`."""
    return float(np.sqrt(mse(y, prediction, weight)))


def mae(y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean absolute error, in units of y; parameters as in `mse`."""
    y, prediction = _pair(y, prediction)
    return float(np.average(np.abs(y - prediction), weights=weight))


def r2(y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Proportion of the variance of y explained: 1 - SSE/SST, NaN where y is constant; parameters as in `mse`.

    Examples
    --------
    >>> r2(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0]))
    0.5
    """
    y, prediction = _pair(y, prediction)
    total = float(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
    return 1.0 - mse(y, prediction, weight) / total if total > 0 else float("nan")


def accuracy(y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Proportion of labels predicted correctly; parameters as in `mse`."""
    y, prediction = np.asarray(y), np.asarray(prediction)
    _check_lengths(y, prediction)
    return float(np.average(y == prediction, weights=weight))


def auc(y: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Area under the ROC curve: probability that a sample of the greater label scores higher than one of the other.

    Ties count half.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Two distinct labels.
    score : ndarray of shape (n_samples,)
        Raw prediction, greater for the greater label.
    weight : ndarray of shape (n_samples,), optional

    Raises
    ------
    DataError
        y does not hold exactly two distinct labels.

    Examples
    --------
    >>> auc(np.array([-1, -1, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8]))
    0.75
    """
    positive, negative = _by_score(y, score, weight, "auc")
    below = np.cumsum(negative) - negative
    return float(positive @ (below + 0.5 * negative) / (positive.sum() * negative.sum()))


def average_precision(y: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean precision over the samples of the greater label, each at the threshold of its own score.

    Useful for a rare class: random scores have the proportion of the class. Parameters and errors as in `auc`.

    Examples
    --------
    >>> round(average_precision(np.array([-1, -1, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8])), 4)
    0.8333
    """
    positive, negative = (counts[::-1] for counts in _by_score(y, score, weight, "average_precision"))
    found = np.cumsum(positive)
    among = found + np.cumsum(negative)
    is_hit = positive > 0
    return float(positive[is_hit] @ (found[is_hit] / among[is_hit]) / positive.sum())


def balanced_accuracy(y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Mean over the classes of y of the proportion of their samples predicted correctly; parameters as in `mse`.

    Examples
    --------
    >>> balanced_accuracy(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]))
    0.5
    """
    hits, _, known = _by_class(y, prediction, weight, None)
    return float(np.mean(hits[known > 0] / known[known > 0]))


def precision_score(
    y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None, classes: np.ndarray | None = None
) -> float:
    """Precision: proportion correct among samples predicted to be of a class.

    This is for the greater of two classes; for more classes it is the mean over classes.

    Parameters
    ----------
    y, prediction : ndarray of shape (n_samples,)
        Labels.
    weight : ndarray of shape (n_samples,), optional
    classes : ndarray of shape (n_classes,), optional
        All labels, ascending; by default those of y and of the prediction.

    Examples
    --------
    >>> precision_score(np.array([0, 1, 1, 0]), np.array([1, 1, 1, 0]))
    0.6666666666666666
    """
    hits, predicted, _ = _by_class(y, prediction, weight, classes)
    return _of_classes(hits, predicted)


def recall_score(
    y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None, classes: np.ndarray | None = None
) -> float:
    """Recall: proportion of the samples of a class that are predicted correctly; parameters as in `precision_score`."""
    hits, _, known = _by_class(y, prediction, weight, classes)
    return _of_classes(hits, known)


def f1(
    y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None, classes: np.ndarray | None = None
) -> float:
    """Harmonic mean of a class's precision and recall; parameters as in `precision_score`.

    Examples
    --------
    >>> f1(np.array([0, 1, 1, 0]), np.array([1, 1, 1, 0]))
    0.8
    """
    hits, predicted, known = _by_class(y, prediction, weight, classes)
    return _of_classes(2.0 * hits, predicted + known)


def log_loss(
    y: np.ndarray, probability: np.ndarray, weight: np.ndarray | None = None, classes: np.ndarray | None = None
) -> float:
    """Mean of -log of the probability predicted for the true label, in nats.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels.
    probability : ndarray of shape (n_samples, n_classes)
        Probability of each class; for two classes also the second alone, of shape (n_samples,).
    weight : ndarray of shape (n_samples,), optional
    classes : ndarray of shape (n_classes,), optional
        All labels, ascending; by default those of y.

    Raises
    ------
    DataError
        y has other labels, or their number differs from that of the probabilities.

    Examples
    --------
    >>> round(log_loss(np.array([0, 1]), np.array([0.5, 0.5])), 6)
    0.693147
    """
    y, p = np.asarray(y), np.asarray(probability, dtype=np.float64)
    _check_lengths(y, p if p.ndim == 1 else p[:, 0])
    labels = np.unique(y) if classes is None else np.asarray(classes)
    p = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
    place = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    if p.shape[1] != len(labels) or (labels[place] != y).any():
        problem = f"expected {p.shape[1]} labels, as many as there are probabilities, found {len(labels)}"
        raise DataError(problem if p.shape[1] != len(labels) else "y has other labels", "y", "pass classes=")
    tiny = np.finfo(np.float64).eps
    of_class = np.clip(p, tiny, 1.0 - tiny)[np.arange(len(y)), place]
    return float(np.average(-np.log(of_class), weights=weight))


def selection_recall(selected: Collection[int], true: Collection[int]) -> float:
    """Proportion of the true features that were selected; 1 if there are no true features.

    Examples
    --------
    >>> selection_recall([3, 1, 7], [1, 2, 3])
    0.6666666666666666
    """
    return len(set(selected) & set(true)) / len(set(true)) if len(true) else 1.0


def selection_precision(selected: Collection[int], true: Collection[int]) -> float:
    """Proportion of the selected features that are true; 1 if nothing was selected."""
    return len(set(selected) & set(true)) / len(set(selected)) if len(selected) else 1.0


def recall(selected: Collection[int], true: Collection[int]) -> float:
    """Old name of `selection_recall`."""
    said = "recall is now called selection_recall; the metric of labels is recall_score"
    warnings.warn(said, FutureWarning, stacklevel=2)
    return selection_recall(selected, true)


def precision(selected: Collection[int], true: Collection[int]) -> float:
    """Old name of `selection_precision`."""
    said = "precision is now called selection_precision; the metric of labels is precision_score"
    warnings.warn(said, FutureWarning, stacklevel=2)
    return selection_precision(selected, true)


def jaccard(first: Collection[Any], second: Collection[Any]) -> float:
    """Jaccard index, the size of the intersection over that of the union; 1 for two empty selections.

    Examples
    --------
    >>> jaccard([1, 2, 3], [2, 3, 4])
    0.5
    """
    union = set(first) | set(second)
    return len(set(first) & set(second)) / len(union) if union else 1.0


def stability(selections: Sequence[Collection[int]]) -> float:
    """Mean Jaccard index over all pairs of selections; NaN for fewer than two.

    Examples
    --------
    >>> stability([[1, 2], [1, 2], [1, 3]])
    0.5555555555555555
    """
    pairs = [jaccard(first, second) for first, second in combinations(selections, 2)]
    return float(np.mean(pairs)) if pairs else float("nan")


PREDICTION_METRICS: dict[str, Callable[..., float]] = {
    "mse": mse,
    "rmse": rmse,
    "mae": mae,
    "r2": r2,
    "accuracy": accuracy,
    "auc": auc,
    "average_precision": average_precision,
    "balanced_accuracy": balanced_accuracy,
    "precision": precision_score,
    "recall": recall_score,
    "f1": f1,
    "log_loss": log_loss,
}
"""Metrics of predictions, by their names in a pipeline file."""
SELECTION_METRICS: dict[str, Callable[..., float]] = {
    "selection_recall": selection_recall,
    "selection_precision": selection_precision,
}
"""Metrics of selections, for data with known true features."""
METRICS_OF_SCORES = ("auc", "average_precision")
"""Metrics that take raw predictions instead of labels."""
METRICS_OF_PROBABILITIES = ("log_loss",)
METRICS_OF_ERRORS = ("mse", "rmse", "mae", "log_loss")
"""Metrics for which lower is better."""
METRICS_OF_CLASSES = ("precision", "recall", "f1", "log_loss")
"""Metrics that take the argument `classes`."""


def metric_of(
    name: str, y: np.ndarray, given: np.ndarray, weight: np.ndarray | None = None, classes: np.ndarray | None = None
) -> float:
    """Return a metric by its name.

    Parameters
    ----------
    name : str
        A key of `PREDICTION_METRICS`.
    y, given, weight : as that metric takes them
    classes : ndarray of shape (n_classes,), optional
        All labels, ascending, for `METRICS_OF_CLASSES`.
    """
    of_classes = {"classes": classes} if name in METRICS_OF_CLASSES else {}
    return PREDICTION_METRICS[name](y, given, weight, **of_classes)


def _by_class(
    y: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None, classes: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each class the weight of the samples correctly predicted, predicted to be of it, and truly of it."""
    y, prediction = np.asarray(y), np.asarray(prediction)
    _check_lengths(y, prediction)
    labels = np.union1d(y, prediction) if classes is None else np.asarray(classes)
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    of_y, of_prediction = np.searchsorted(labels, y), np.searchsorted(labels, prediction)
    size = max(len(labels), 2)
    known, predicted = np.bincount(of_y, w, size), np.bincount(of_prediction, w, size)
    return np.bincount(of_y, w * (y == prediction), size), predicted, known


def _of_classes(part: np.ndarray, whole: np.ndarray) -> float:
    """Return the proportion for the greater of two classes, or the mean over more classes; 0 for empty classes."""
    shares = np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
    return float(shares[1] if len(shares) == 2 else shares.mean())


N_ROUNDS, MOST_RESAMPLED = 300, 5_000
"""Number of bootstrap samples, and the maximum number of rows in each."""


def bootstrap_interval(
    metric: str,
    y: np.ndarray,
    prediction: np.ndarray,
    weight: np.ndarray | None = None,
    random_state: int = 0,
    classes: np.ndarray | None = None,
) -> tuple[float, float]:
    """Return the 95 % interval of a metric by the basic percentile bootstrap over rows; see `bootstrap_values`.

    Examples
    --------
    >>> low, high = bootstrap_interval("mse", np.zeros(100), np.arange(100.0) % 3)
    >>> low < mse(np.zeros(100), np.arange(100.0) % 3) < high
    True
    """
    of_all = metric_of(metric, np.asarray(y), np.asarray(prediction), weight, classes)
    return interval_of(of_all, bootstrap_values(metric, y, prediction, weight, random_state, classes))


def interval_of(of_all: float, values: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of a metric from its value on all rows and those of `bootstrap_values`."""
    known = values[np.isfinite(values)]
    if not len(known) or not np.isfinite(of_all):
        return of_all, of_all
    low, high = np.quantile(known, [0.025, 0.975])
    return float(min(low, of_all)), float(max(high, of_all))


def bootstrap_values(
    metric: str,
    y: np.ndarray,
    prediction: np.ndarray,
    weight: np.ndarray | None = None,
    random_state: int = 0,
    classes: np.ndarray | None = None,
) -> np.ndarray:
    """Return bootstrap values of a metric, shape (300,); NaN where it is not defined on the drawn rows.

    With more than 5000 rows, each sample has 5000 rows (the m out of n bootstrap), and the values are shrunk towards
    the metric of all rows by sqrt(m / n), the rate at which the error of a mean falls. The drawn rows depend only on
    the number of rows and the seed, so that differences between two sets of predictions are a paired bootstrap.

    Parameters
    ----------
    metric : str
        A key of `PREDICTION_METRICS`.
    y, prediction, weight : as that metric takes them
    random_state : int
        Seed of the bootstrap.
    classes : as in `metric_of`
    """
    y, prediction = np.asarray(y), np.asarray(prediction)
    n = len(y)
    n_drawn, rng = min(n, MOST_RESAMPLED), np.random.default_rng(random_state)
    of_all, found = metric_of(metric, y, prediction, weight, classes), np.full(N_ROUNDS, np.nan)
    for k in range(N_ROUNDS):
        rows = rng.integers(0, n, n_drawn)
        w = None if weight is None else weight[rows]
        if (w is not None and not w.sum() > 0) or (metric in METRICS_OF_SCORES and len(np.unique(y[rows])) < 2):
            continue
        found[k] = metric_of(metric, y[rows], prediction[rows], w, classes)
    values: np.ndarray = of_all + np.sqrt(n_drawn / n) * (found - of_all)
    return values


def _by_score(
    y: np.ndarray, score: np.ndarray, weight: np.ndarray | None, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the total weights of the greater and of the other label at each distinct score, ascending."""
    y, score = _pair(y, score)
    labels = np.unique(y)
    if len(labels) != 2:
        raise DataError(f"expected two labels, found {len(labels)}", "y", f"evaluate {metric} on rows of both classes")
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    _, group = np.unique(score, return_inverse=True)
    return np.bincount(group, weights=w * (y == labels[1])), np.bincount(group, weights=w * (y == labels[0]))


def _pair(y: np.ndarray, prediction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y = np.asarray(y, dtype=np.float64)
    prediction = np.asarray(prediction, dtype=np.float64)
    _check_lengths(y, prediction)
    return y, prediction


def _check_lengths(y: np.ndarray, prediction: np.ndarray) -> None:
    if y.shape != prediction.shape:
        raise DataError(f"expected two arrays of equal shape, found {y.shape} and {prediction.shape}", "metrics")
    if y.size == 0:
        raise DataError("expected at least one sample, found none", "metrics", "use more test rows")
