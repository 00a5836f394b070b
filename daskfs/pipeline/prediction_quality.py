"""Judge the predictions of a model on test rows: metrics with intervals, calibration, residuals, warnings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from daskfs.cells import digits
from daskfs.evidence import CalibrationBin, QualityRecord
from daskfs.losses import Loss, find_loss
from daskfs.metrics import (
    METRICS_OF_PROBABILITIES,
    METRICS_OF_SCORES,
    PREDICTION_METRICS,
    bootstrap_interval,
    bootstrap_values,
    interval_of,
    metric_of,
)
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.shared.responses import sigmoid

MOST_CLASSES = 30
"""Maximum number of classes of a confusion matrix, or of columns of coefficients by class."""
MOST_DRAWN = 100_000
"""Maximum number of test rows used in figures."""
N_BINS = 10
OF_THE_ERROR = 0.3
"""Minimum share of the squared error for which a single row is reported."""
FEW_ROWS = 50


class Predicted(NamedTuple):
    """The test rows and their predictions."""

    y: np.ndarray
    weight: np.ndarray | None
    predictor: np.ndarray
    """Linear predictor, of shape (n_rows,) or (n_rows, n_classes)."""
    prediction: np.ndarray
    loss: Loss
    classes: np.ndarray | None = None
    """Labels of a classifier, ascending."""
    probability: np.ndarray | None = None
    """Probability of each class, if the loss has probabilities."""

    @classmethod
    def by(cls, selector: BaseSelector, y: np.ndarray, predictor: np.ndarray, weight: np.ndarray | None) -> Predicted:
        """Return the predictions of a selector from the linear predictor of rows."""
        own = find_loss(selector.loss_)
        loss = find_loss("multinomial") if predictor.ndim > 1 else own
        classes = selector.classes_ if own.is_classifier else None
        probability = selector._probabilities(predictor) if own.has_probabilities else None
        return cls(y, weight, predictor, selector.response(predictor), loss, classes, probability)

    def has(self, metric: str) -> bool:
        """Return whether a metric of predictions can be computed."""
        return metric in PREDICTION_METRICS and (metric not in METRICS_OF_PROBABILITIES or self.probability is not None)

    def of(self, metric: str) -> Any:
        """Return the predictions that a metric takes: probabilities, scores or values."""
        if metric in METRICS_OF_PROBABILITIES:
            return self.probability
        return self.predictor if metric in METRICS_OF_SCORES else self.prediction

    def some(self, n_rows: int) -> Predicted:
        """Return at most about `n_rows` equally spaced rows."""
        at = slice(None, None, -(-len(self.y) // n_rows) or 1)
        weight = None if self.weight is None else self.weight[at]
        probability = None if self.probability is None else self.probability[at]
        return self._replace(
            y=self.y[at],
            weight=weight,
            predictor=self.predictor[at],
            prediction=self.prediction[at],
            probability=probability,
        )

    def metric(self, name: str) -> float:
        """Return a metric of predictions."""
        return metric_of(name, self.y, self.of(name), self.weight, self.classes)

    def drawn(self, name: str) -> np.ndarray:
        """Return bootstrap values of a metric: see `daskfs.metrics.bootstrap_values`."""
        return bootstrap_values(name, self.y, self.of(name), self.weight, classes=self.classes)

    def metrics(self, names: Sequence[str]) -> dict[str, float]:
        """Return the metrics that can be computed, by name."""
        return {name: self.metric(name) for name in names if self.has(name)}

    def baseline(self, metric: str, value: float) -> float:
        """Return the metric of a constant prediction; NaN for metrics of probabilities."""
        if metric in METRICS_OF_PROBABILITIES:
            return float("nan")
        given = np.broadcast_to(0.0 if metric in METRICS_OF_SCORES else value, len(self.y))
        return metric_of(metric, self.y, given, self.weight, self.classes)


class Constant:
    """The constant prediction (the mean, or the most frequent class) from targets given in pieces."""

    def __init__(self, *, is_class: bool) -> None:
        self.is_class, self._total, self._n, self._rows = is_class, 0.0, Counter[float](), 0.0

    def update(self, y: np.ndarray, weight: np.ndarray | None) -> None:
        """Add rows."""
        w = np.ones(len(y)) if weight is None else weight
        if self.is_class:
            labels, codes = np.unique(y, return_inverse=True)
            self._n.update(dict(zip(labels.tolist(), np.bincount(codes, weights=w).tolist(), strict=True)))
        self._total, self._rows = self._total + float(y @ w), self._rows + float(w.sum())

    @property
    def value(self) -> float:
        """The mean or the most frequent label."""
        return max(self._n, key=lambda label: self._n[label]) if self.is_class else self._total / self._rows


def record_of_test(
    tested: Predicted,
    baseline: float,
    metrics: Mapping[str, float],
    classes: list[str] | None = None,
    by_size: tuple[str, list[int], list[float]] = ("", [], []),
    refitted: Predicted | None = None,
) -> QualityRecord:
    """Return the quality of the predictions on the test rows.

    Parameters
    ----------
    tested : Predicted
    baseline : float
        Prediction of the baseline for every row.
    metrics : mapping of str to float
        The requested metrics; only `PREDICTION_METRICS` are used.
    classes : list of str, optional
        Labels of the target's codes.
    by_size : (str, list of int, list of float)
        A metric, numbers of features and the values of the metric.
    refitted : Predicted, optional
        The same rows predicted by the refit; its metrics begin with ``refit_``.
    """
    y, weight = tested.y, tested.weight
    known = [name for name, value in metrics.items() if tested.has(name) and np.isfinite(value)]
    values = {name: tested.drawn(name) for name in known}
    intervals = {name: list(interval_of(tested.metric(name), values[name])) for name in known}
    if refitted is not None:
        for name in (name for name in known if refitted.has(name)):
            values[f"refit_{name}"] = found = refitted.drawn(name)
            intervals[f"refit_{name}"] = list(interval_of(refitted.metric(name), found))
    errors = {} if tested.loss.is_classifier else {name: tested.metric(name) for name in ("rmse", "mae")}
    for name in errors:
        if name not in intervals:
            intervals[name] = list(interval_of(errors[name], tested.drawn(name)))
    drawn = tested.some(MOST_DRAWN)
    record = QualityRecord(
        n_rows=len(y),
        baseline=_in_words(baseline, classes, tested.loss.is_classifier),
        baseline_metrics={name: finite(tested.baseline(name, baseline)) for name in {**dict.fromkeys(known), **errors}},
        intervals=intervals,
        calibration=_calibration(drawn),
        residual_edges=[],
        residual_counts=[],
        labels=[],
        confusion=[],
        metric_by_size=by_size[0],
        sizes=by_size[1],
        values=by_size[2],
        rows=_digest(y, weight),
        drawn={name: [finite(float(f"{value:.7g}")) for value in of_name] for name, of_name in values.items()},
        errors=errors,
    )
    if not tested.loss.is_classifier:
        residuals = drawn.y - drawn.prediction
        low, high = np.quantile(residuals, [0.005, 0.995])
        counts, edges = np.histogram(np.clip(residuals, low, high), bins=31 if high > low else 1)
        record.residual_edges.extend(edges.tolist())
        record.residual_counts.extend(counts.tolist())
    else:
        labels = np.unique(np.concatenate([y, tested.prediction]))
        if len(labels) <= MOST_CLASSES:
            pairs = np.searchsorted(labels, y) * len(labels) + np.searchsorted(labels, tested.prediction)
            counts = np.bincount(pairs, minlength=len(labels) ** 2).reshape(len(labels), -1)
            record.labels.extend(label(float(code), classes) for code in labels)
            record.confusion.extend(counts.tolist())
    return record


def warnings_on_test(
    tested: Predicted, record: QualityRecord, metrics: Mapping[str, float], source_row: Any = None
) -> Iterable[str]:
    """Yield warnings about the predictions: too good, no better than a constant, or dominated by one row.

    Parameters
    ----------
    tested : Predicted
    record : QualityRecord
    metrics : mapping of str to float
    source_row : function, optional
        Returns the source row of a test row.
    """
    n_rows = record.n_rows
    if n_rows < FEW_ROWS:
        yield f"only {n_rows} test rows, so the metrics are imprecise"
    name = "accuracy" if tested.loss.is_classifier else "r2"
    value = tested.metric(name)
    if n_rows >= FEW_ROWS and value >= 0.9999:
        how = f"the predictions are perfect or nearly so ({name} {value:.4f})"
        yield f"possible leak: {how}: is a feature only known after the target?"
    baseline = PREDICTION_METRICS[name](tested.y, np.broadcast_to(_constant(tested), n_rows), tested.weight)
    low = bootstrap_interval(name, tested.y, tested.prediction, tested.weight)[0] if n_rows > 1 else np.nan
    if low <= (baseline if np.isfinite(baseline) else 0.0):
        yield f"not significantly better than always predicting {record.baseline}, on {n_rows:,} test rows"
    if not tested.loss.is_classifier and n_rows >= 20:
        squares = (tested.y - tested.prediction) ** 2 * (1.0 if tested.weight is None else tested.weight)
        worst = int(np.argmax(squares))
        share = float(squares[worst] / squares.sum()) if squares.sum() > 0 else 0.0
        if share >= OF_THE_ERROR:
            at = worst if source_row is None else source_row(worst)
            found = f"target {digits(tested.y[worst])}, predicted {digits(tested.prediction[worst])}"
            yield f"one row causes {share:.0%} of the squared error on the test rows: row {at} of the source ({found})"


def _constant(tested: Predicted) -> float:
    """Return the best constant prediction of the test rows."""
    if not tested.loss.is_classifier:
        return float(np.average(tested.y, weights=tested.weight))
    labels, codes = np.unique(tested.y, return_inverse=True)
    return float(labels[np.argmax(np.bincount(codes, weights=tested.weight))])


def _calibration(tested: Predicted) -> list[CalibrationBin]:
    """Return mean target and mean prediction for each tenth of the rows, sorted by prediction."""
    y, predicted = tested.y, tested.prediction
    if tested.loss.is_classifier:
        if tested.predictor.ndim > 1 or not tested.loss.has_probabilities:
            return []
        y, predicted = (y == y.max()).astype(np.float64), sigmoid(tested.predictor)
    predicted = np.asarray(predicted, dtype=np.float64)
    order = np.argsort(predicted, kind="stable")
    found = []
    for rows in np.array_split(order, min(N_BINS, max(1, len(y) // 5))):
        weight = np.ones(len(rows)) if tested.weight is None else tested.weight[rows]
        if not weight.sum() > 0:
            continue
        mean, at = (float(np.average(values[rows], weights=weight)) for values in (y, predicted))
        n = float(weight.sum()) ** 2 / float((weight**2).sum())  # rows of weight 1 that say as much
        if tested.loss.is_classifier:
            low, high = _wilson_interval(mean, n)
        else:
            half = 1.96 * math.sqrt(float(np.average((y[rows] - mean) ** 2, weights=weight)) / n)
            low, high = mean - half, mean + half
        found.append(CalibrationBin(at, mean, low, high, len(rows)))
    return found


def _wilson_interval(share: float, n: float) -> tuple[float, float]:
    """Return the 95 % interval of a proportion (Wilson 1927), which has a width where none or all of the rows are 1."""
    z = 1.96
    centre, half = share + z * z / (2.0 * n), z * math.sqrt(share * (1.0 - share) / n + (z / (2.0 * n)) ** 2)
    low, high = (centre - half) / (1.0 + z * z / n), (centre + half) / (1.0 + z * z / n)
    return min(max(0.0, low), share), max(share, min(1.0, high))  # rounding may leave a share of 0 or 1 outside


def _digest(y: np.ndarray, weight: np.ndarray | None) -> str:
    held = np.ascontiguousarray(y, dtype=np.float64).tobytes()
    return sha256(
        held + (b"" if weight is None else np.ascontiguousarray(weight, dtype=np.float64).tobytes())
    ).hexdigest()


def _in_words(baseline: float, classes: list[str] | None, is_classifier: bool) -> str:
    if not is_classifier:
        return f"the mean of the training rows, {digits(baseline)}"
    return f"the most frequent class of the training rows, {label(baseline, classes)}"


def label(code: float, classes: list[str] | None) -> str:
    """Return the text that a code of the target stands for, or the number."""
    is_code = classes is not None and code.is_integer() and 0 <= code < len(classes)
    return classes[int(code)] if is_code and classes is not None else f"{code:g}"


def finite(value: float) -> float | None:
    """Return a number as JSON can hold it: None for NaN and infinity."""
    return value if np.isfinite(value) else None
