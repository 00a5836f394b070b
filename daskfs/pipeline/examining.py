"""Compute the evidence of a report (`daskfs.evidence`) while a run has access to the data.

It uses what a run holds anyway (targets and predictions of the test rows), the store's statistics if they are small,
and a sample: the first test rows of the first selected columns, at most 4 MiB.
"""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daskfs.cells import digits
from daskfs.errors import Suspicion
from daskfs.evidence import (
    CalibrationBin,
    DataRecord,
    EvidenceRecord,
    FeatureRecord,
    MissingRecord,
    NearMiss,
    QualityRecord,
)
from daskfs.losses import Loss, find_loss
from daskfs.matrix.base import Matrix
from daskfs.metrics import (
    METRICS_OF_PROBABILITIES,
    METRICS_OF_SCORES,
    PREDICTION_METRICS,
    bootstrap_interval,
    bootstrap_values,
    interval_of,
    metric_of,
)
from daskfs.pipeline.predicting import linear_predictor
from daskfs.result import SelectionResult, greatest_scores, parents_in
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.diagnostics.remarks import MOST_FEATURES
from daskfs.selectors.diagnostics.signal_beyond import signal_beyond
from daskfs.selectors.shared.responses import sigmoid
from daskfs.selectors.shared.run import Run
from daskfs.sources.sparse.base import SparseSource
from daskfs.store.feature_store import FeatureStore
from daskfs.version import __version__

MOST_DESCRIBED = 10_000
"""Maximum number of selected features that are described individually."""
SAMPLE_ROWS, SAMPLE_COLUMNS = 2_000, 256
MOST_NEAR_MISSES, NEAR_FEATURES = 20, 256
"""Maximum number of near misses (one per column), and number of features examined for them."""
MOST_CLASSES = 30
"""Maximum number of classes of a confusion matrix."""
N_BINS = 10
MOST_DRAWN, PIECE_ROWS = 100_000, 1 << 20
"""Maximum number of test rows used in figures, and number of training rows read at a time."""
N_STEPS = 12
COMMAND = "daskfs run pipeline.yaml --set output=again"

ALIKE, STANDS_IN, IS_TARGET = 0.99, 0.7, 0.999
"""Minimum correlations of near duplicates, of a replacement for a feature, and of a copy of the target."""
IN_A_BUNDLE = 0.9
SIGNAL_ROWS, MOST_SIGNAL_COLUMNS = 1_000, 4_096
"""Number of training rows, and maximum number of columns, for testing whether all columns explain more together."""
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


def evidence_of_stream(
    source: SparseSource,
    split: str,
    selector: BaseSelector,
    result: SelectionResult,
    tested: Predicted | None,
    baseline: float,
) -> EvidenceRecord:
    """Return the evidence of a model trained on a stream, without the parts that need to read rows again.

    Parameters
    ----------
    source : SparseSource
    split : str
        Description of how the test rows were chosen.
    selector : BaseSelector
    result : SelectionResult
        Result with metrics.
    tested : Predicted, optional
        The test rows, if any.
    baseline : float
        Prediction of the baseline for each test row.
    """
    document, classes = source.describe(), source.target_classes
    table = result.table.head(MOST_DESCRIBED)
    deviations = table["deviation"] if "deviation" in table else [np.nan] * len(table)
    of_classes = coefficients_by_class(selector, len(table))
    warnings = [*source.suspicions, *(str(note) for note in result.notes if isinstance(note, Suspicion))]
    record = None
    if tested is not None:
        record = record_of_test(tested, baseline, result.metrics, classes)
        warnings += warnings_on_test(tested, record, result.metrics)
    return EvidenceRecord(
        data=DataRecord(
            source=without_folder(str(document.get("description") or source.kind)),
            target=", ".join(source.target_names),
            classes=classes,
            split=split,
            nbytes=None,
            n_columns=None,
            n_missing=None,
            n_constant=None,
            missing=[MissingRecord(**one) for one in source.missing],
        ),
        features=[
            FeatureRecord(str(name), _finite(float(deviation)), None, None, by_class)
            for name, deviation, by_class in zip(table["name"], deviations, of_classes, strict=True)
        ],
        warnings=list(dict.fromkeys(warnings)),
        test=record,
        command=COMMAND,
        versions=versions(),
        class_labels=class_labels(selector, classes),
    )


def evidence_of(
    store: Matrix,
    train: Matrix,
    test: Matrix | None,
    split: str,
    selector: BaseSelector,
    result: SelectionResult,
    tested: Predicted | None,
    refitted: Predicted | None = None,
    suspicions: Sequence[str] = (),
    classes: list[str] | None = None,
) -> EvidenceRecord:
    """Return the evidence of a selection on the rows of a store.

    Parameters
    ----------
    store, train, test : Matrix
        All rows, the training rows and the test rows.
    split : str
        Description of the split.
    selector : BaseSelector
        Selector fitted to `train`.
    result : SelectionResult
        Result with metrics.
    tested, refitted : Predicted, optional
        The test rows with a target, predicted by the selector and by the common refit of the pipeline.
    suspicions : sequence of str
        Warnings of the source, given before the run.
    classes : list of str, optional
        Labels of the class codes, if `store` does not have them.
    """
    sample = _Sample(store, train if test is None else test, selector, result)
    data = _data_of(store, split, classes)
    warnings = [*suspicions, *(str(note) for note in result.notes if isinstance(note, Suspicion))]
    warnings += [*_polygenic(train, selector)]
    warnings += [*sample.warnings(data.target, data.classes is not None or selector_classifies(selector))]
    record = None
    if tested is not None and len(tested.y):
        record = record_of_test(
            tested, _baseline(train, tested), result.metrics, data.classes, sample.by_size(tested), refitted
        )
        rows = None if test is None else test.source_row
        warnings += [*warnings_on_test(tested, record, result.metrics, rows)]
    return EvidenceRecord(
        data=data,
        features=sample.features(),
        near_misses=sample.near_misses(),
        warnings=list(dict.fromkeys(warnings)),
        test=record,
        command=COMMAND,
        versions=versions(),
        bundles=sample.bundles(),
        class_labels=class_labels(selector, data.classes),
    )


def examine(selector: BaseSelector, train: Any, test: Any = None) -> SelectionResult:
    """Return the result of a fitted selector with the evidence that reports and plots show.

    Parameters
    ----------
    selector : fitted selector
        Its ``result_`` is replaced by the returned result.
    train : store, or tuple (X, y) or (X, y, sample_weight)
        The training data.
    test : store, or tuple (X, y) or (X, y, sample_weight), optional
        Held-out rows, for metrics with intervals, calibration and residuals.

    Returns
    -------
    SelectionResult
        ``save(folder)`` saves it, and ``daskfs report folder`` then writes its report.

    Raises
    ------
    DataError
        The columns differ from those of the fit, or values are not finite.

    Examples
    --------
    >>> from daskfs import FGM, examine
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 4))
    >>> y = 3 * X[:, 1] + rng.standard_normal(300)
    >>> fgm = FGM(1).fit(X[:200], y[:200])
    >>> result = examine(fgm, (X[:200], y[:200]), test=(X[200:], y[200:]))
    >>> sorted(result.metrics), result.evidence.test.n_rows, list(result.figures())[:2]
    (['mae', 'r2', 'rmse'], 100, ['effects', 'coefficients'])
    """
    fitted = copy(selector)
    with ExitStack() as opened:

        def matrix_of(rows: Any) -> Matrix:
            given = rows if isinstance(rows, tuple) else (rows, None)
            labels = getattr(selector, "classes_", None)
            X, y, weight = (*given, None)[:3]
            matrix, numbered = opened.enter_context(selector._opened(X, y, weight, labels, is_first=False))
            if numbered is not None:  # the target of the matrix holds codes instead of labels
                fitted.classes_ = np.arange(len(numbered), dtype=np.float64)
            return matrix

        known, unseen = matrix_of(train), None if test is None else matrix_of(test)
        result = replace(selector.result_)
        texts = None if fitted.__dict__.get("classes_") is None else [str(label) for label in selector.classes_]
        tested = None
        if unseen is not None:
            predictor = linear_predictor(fitted.predictor(), Run(unseen, "evaluate"))
            y = unseen.read_target()
            assert y is not None
            tested = Predicted.by(fitted, y, predictor, unseen.read_weight())
            wanted = ("rmse", "mae", "r2") if not tested.loss.is_classifier else tested.loss.default_metrics
            result.metrics = tested.metrics(wanted)
        found = evidence_of(known, known, unseen, "", fitted, result, tested, classes=texts)
        result.evidence = replace(found, command="")
    selector.result_ = result
    return result


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which a result depends."""
    from importlib.metadata import version

    packages = ("numpy", "numba", "dask", "zarr")
    return {"daskfs": __version__, "python": platform.python_version()} | {name: version(name) for name in packages}


def class_labels(selector: BaseSelector, classes: list[str] | None) -> list[str]:
    """Return the labels of more than two classes, which each have coefficients; an empty list for two classes."""
    several = selector.coef_.ndim > 1 and selector_classifies(selector)
    return [_label(float(code), classes) for code in selector.classes_] if several else []


def selector_classifies(selector: BaseSelector) -> bool:
    """Return whether a fitted selector predicts labels."""
    return getattr(selector, "classes_", None) is not None


def _data_of(store: Matrix, split: str, classes: list[str] | None) -> DataRecord:
    source: Mapping[str, Any] = store.source if isinstance(store, FeatureStore) else {}
    described = source.get("description") or source.get("kind") or store.description or "arrays in memory"
    (n_samples, n_features), of_store = store.shape, store.target_classes
    several = source.get("table_columns")
    n_columns = None if several is None else n_features - sum(stop - first - 1 for first, stop in several.values())
    known = store.column_statistics() if n_features <= MOST_FEATURES else None
    return DataRecord(
        source=without_folder(str(described)),
        target=", ".join(store.target_names),
        classes=classes if of_store is None else list(of_store),
        split=split,
        nbytes=n_samples * n_features * store.dtype.itemsize,
        n_columns=n_columns,
        n_missing=None if known is None else int(np.sum(known.n_missing)),
        n_constant=None if known is None else int((known.minimum == known.maximum).sum()),
        missing=[MissingRecord(**one) for one in source.get("missing", ())],
    )


def without_folder(source: str) -> str:
    """Return the description of a source without its folder, since reports are shown to others.

    Examples
    --------
    >>> without_folder("/home/ann/trial/sales-*.csv and 3 more"), without_folder("s3://bucket/sales.csv")
    ('sales-*.csv and 3 more', 's3://bucket/sales.csv')
    """
    return Path(source).name if Path(source).is_absolute() else source


class _Sample:
    """A sample of rows of the selected columns and of near misses."""

    def __init__(self, store: Matrix, matrix: Matrix, selector: BaseSelector, result: SelectionResult) -> None:
        self.store, self.matrix, self.selector, self.result = store, matrix, selector, result
        self.is_made = selector.made_ is not None
        self.columns = np.empty(0, np.int64) if self.is_made else selector.selected_[:SAMPLE_COLUMNS].astype(np.int64)
        self.names = [str(name) for name in result.table["name"].head(len(self.columns))]
        self._near, self._near_of, self._n_near = self._nearest()
        self.X = self._read(self.columns)
        self.near_X = self._read(self._near)
        self.y = matrix.read_target(slice(0, len(self.X)))

    def _nearest(self) -> tuple[np.ndarray, list[str], Counter[str]]:
        """Return the unselected features with the highest scores, the best of each column of the table.

        Also return their columns, and the number of features with high scores by column.
        """
        scores = self.result.scores
        if scores is None or self.is_made or len(scores) != self.matrix.shape[1]:
            return np.empty(0, np.int64), [], Counter()
        best = greatest_scores(scores, NEAR_FEATURES, self.selector.selected_)
        of = columns_of(self.store, best, [str(self.matrix.names[int(j)]) for j in best])
        first = [k for k, name in enumerate(of) if name not in of[:k]][:MOST_NEAR_MISSES]
        return best[first], [of[k] for k in first], Counter(of)

    def _read(self, columns: np.ndarray) -> np.ndarray:
        """Return the sampled rows of some columns, in the given order."""
        n_rows = min(SAMPLE_ROWS, self.matrix.shape[0])
        if not len(columns):
            return np.empty((n_rows, 0))
        in_order = np.argsort(columns)
        X = np.empty((n_rows, len(columns)))
        X[:, in_order] = self.matrix.read(slice(0, n_rows), columns[in_order])
        return X

    def features(self) -> list[FeatureRecord]:
        """Return the record of each selected feature."""
        table, store = self.result.table.head(MOST_DESCRIBED), self.store
        of_classes = coefficients_by_class(self.selector, len(table))
        if self.is_made:
            of = [" × ".join(of.name for of in parents_in(row)) for row in table.to_dict("records")]
            return [FeatureRecord(name, None, None, None, one) for name, one in zip(of, of_classes, strict=True)]
        index = table["index"].to_numpy()
        known = store.column_statistics() if store.shape[1] <= MOST_FEATURES else None
        numbers = np.full((3, len(index)), np.nan)
        if known is not None:
            numbers[:] = known.std[index], known.minimum[index], known.maximum[index]
        elif len(self.columns):
            found = self.X.std(axis=0), self.X.min(axis=0), self.X.max(axis=0)
            numbers[:, : len(self.columns)] = found
        names = columns_of(store, index, [str(name) for name in table["name"]])
        return [
            FeatureRecord(name, _finite(deviation), _finite(minimum), _finite(maximum), by_class)
            for name, (deviation, minimum, maximum), by_class in zip(names, numbers.T.tolist(), of_classes, strict=True)
        ]

    def near_misses(self) -> list[NearMiss]:
        """Return the near misses, each with the selected feature that can replace it."""
        found, scores, correlation = [], self.result.scores, _correlations(self.near_X, self.X)
        for k, j in enumerate(self._near):
            assert scores is not None
            best = int(np.argmax(correlation[k])) if correlation.shape[1] else -1
            is_like = best >= 0 and correlation[k, best] >= STANDS_IN
            like, alike = (self.names[best], round(float(correlation[k, best]), 4)) if is_like else (None, None)
            name, of = str(self.matrix.names[int(j)]), self._near_of[k]
            found.append(NearMiss(name, float(scores[j]), like, alike, of, self._n_near[of]))
        return found

    def bundles(self) -> list[list[str]]:
        """Return groups of highly correlated selected features and near misses, the most important group first."""
        X = np.column_stack([self.X, self.near_X])
        names = [*self.names, *(str(self.matrix.names[int(j)]) for j in self._near)]
        alike, taken, found = _correlations(X, X) >= IN_A_BUNDLE, set[int](), []
        for k in range(len(self.names)):
            own = [j for j in np.flatnonzero(alike[k]).tolist() if j not in taken]
            if k in own and len(own) > 1:
                taken.update(own)
                found.append([names[j] for j in sorted(own, key=lambda j: (j != k, j))])
        return found

    def warnings(self, target: str, are_classes: bool) -> Iterable[str]:
        """Yield warnings about the selected columns: possible copies of the target, and near duplicates."""
        from daskfs.sources.schema_inference import named_like, share_by_order

        for name in self.names if target else ():
            if named_like(name, target):
                yield (
                    f"possible leak: the name {name!r} resembles the target's ({target!r}): is this column known when "
                    "predictions are made?"
                )
        if len(self.X) < 20:
            return
        if self.y is not None and self.y.ndim == 1 and len(np.unique(self.y)) > 1:
            codes = np.unique(self.y, return_inverse=True)[1]
            is_skewed = np.bincount(codes).max() / len(codes) >= 0.99
            strength = _correlations(self.X, self.y[:, None])[:, 0] if not are_classes else np.zeros(self.X.shape[1])
            for k, name in enumerate(self.names):
                if are_classes and not is_skewed:
                    strength[k] = share_by_order(self.X[:, k], codes)
                if strength[k] >= IS_TARGET:
                    how = (
                        "predicts the class of nearly every row"
                        if are_classes
                        else f"has correlation {strength[k]:.4f}"
                    )
                    yield (f"possible leak: {name!r} alone {how}: is it a copy of the target, or only known after it?")
        correlation = np.triu(_correlations(self.X, self.X), 1)
        pairs = np.argwhere(correlation >= ALIKE)[:5]
        if len(pairs):
            listed = ", ".join(f"{self.names[i]!r} and {self.names[j]!r}" for i, j in pairs)
            yield f"selected features that are nearly identical (correlation above {ALIKE}): {listed}"

    def by_size(self, tested: Predicted) -> tuple[str, list[int], list[float]]:
        """Return a metric by number of first features of the model, with the others fixed at their means."""
        n_rows, n_columns = self.X.shape
        coef = self.selector.coef_
        metric = tested.loss.default_metrics[0] if tested.loss.is_classifier else "r2"
        if self.is_made or n_columns != len(self.selector.selected_) or coef.ndim > 1 or n_rows < 2 or n_columns < 2:
            return "", [], []
        if metric == "accuracy" and len(np.unique(tested.y[:n_rows])) < 2:
            return "", [], []
        shares = (self.X - self.X.mean(axis=0)) * coef[self.columns]
        rest = float(self.selector.intercept_) + float(self.X.mean(axis=0) @ coef[self.columns])
        sums = np.cumsum(shares, axis=1) + rest
        sizes = np.unique(np.round(np.geomspace(1, n_columns, N_STEPS)).astype(int))
        weight = None if tested.weight is None else tested.weight[:n_rows]
        values = []
        for size in sizes:
            predicted = self.selector.response(sums[:, size - 1])
            values.append(PREDICTION_METRICS[metric](tested.y[:n_rows], predicted, weight))
        if not np.isfinite(values).all():
            return "", [], []
        return metric, sizes.tolist(), values


def _polygenic(train: Matrix, selector: BaseSelector) -> Iterable[str]:
    """Yield a warning if many unselected features carry signal together; only tested if little has to be read."""
    n_samples, n_features = train.shape
    n_selected = len(selector.selected_)
    if selector.made_ is not None or not 4 * n_selected < n_features <= MOST_SIGNAL_COLUMNS or n_samples < SIGNAL_ROWS:
        return
    columns, is_classifier = np.sort(selector.selected_).astype(np.int64), selector_classifies(selector)
    found = signal_beyond(Run(train, "evaluate"), columns, is_classifier, 0, n_rows=SIGNAL_ROWS)
    if found.is_polygenic:
        yield str(found)


def coefficients_by_class(selector: BaseSelector, n_features: int) -> list[list[float | None] | None]:
    """Return the coefficients of the first selected features by class; None for each without several classes.

    With more than 30 classes the result is None too, since the table would be too wide.
    """
    coef = selector.coef_.T
    if coef.ndim == 1 or coef.shape[1] > MOST_CLASSES:
        return [None] * n_features
    if selector.made_ is None:
        predictor = selector.predictor()
        coef = predictor.coef[np.searchsorted(predictor.columns, selector.selected_)]
    return [[_finite(value) for value in of_feature] for of_feature in coef[:n_features].tolist()]


def columns_of(store: Matrix, index: np.ndarray, names: list[str]) -> list[str]:
    """Return the columns of the table from which features were encoded; the features' own names without a table."""
    if not isinstance(store, FeatureStore):
        of = store.table_columns
        return names if of is None else [str(of[int(j)]) for j in index]
    several = store.source.get("table_columns")
    if not several:
        return names
    spans = sorted((first, stop, name) for name, (first, stop) in several.items())
    at = np.searchsorted([first for first, _, _ in spans], index, side="right") - 1
    return [spans[k][2] if k >= 0 and j < spans[k][1] else name for k, j, name in zip(at, index, names, strict=True)]


def _correlations(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return the absolute correlations of the columns of X with those of Z; 0 for constant columns."""

    def unit(A: np.ndarray) -> np.ndarray:
        A = A - A.mean(axis=0)
        norm = np.sqrt((A**2).sum(axis=0))
        return np.divide(A, norm, out=np.zeros_like(A), where=norm > 1e-12 * max(1.0, float(norm.max(initial=0.0))))

    return np.abs(unit(X).T @ unit(Z))


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


def _baseline(train: Matrix, tested: Predicted) -> float:
    """Return the mean or the most frequent label of the training rows, which are read in pieces."""
    constant = Constant(is_class=tested.loss.is_classifier)
    for start in range(0, train.shape[0], PIECE_ROWS):
        rows = slice(start, min(start + PIECE_ROWS, train.shape[0]))
        y = train.read_target(rows)
        assert y is not None
        constant.update(y, train.read_weight(rows))
    return constant.value


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
        baseline_metrics={
            name: _finite(tested.baseline(name, baseline)) for name in {**dict.fromkeys(known), **errors}
        },
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
        drawn={name: [_finite(float(f"{value:.7g}")) for value in of_name] for name, of_name in values.items()},
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
            record.labels.extend(_label(float(label), classes) for label in labels)
            record.confusion.extend(counts.tolist())
    return record


def _digest(y: np.ndarray, weight: np.ndarray | None) -> str:
    held = np.ascontiguousarray(y, dtype=np.float64).tobytes()
    return sha256(
        held + (b"" if weight is None else np.ascontiguousarray(weight, dtype=np.float64).tobytes())
    ).hexdigest()


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _in_words(baseline: float, classes: list[str] | None, is_classifier: bool) -> str:
    if not is_classifier:
        return f"the mean of the training rows, {digits(baseline)}"
    return f"the most frequent class of the training rows, {_label(baseline, classes)}"


def _label(code: float, classes: list[str] | None) -> str:
    is_code = classes is not None and code.is_integer() and 0 <= code < len(classes)
    return classes[int(code)] if is_code and classes is not None else f"{code:g}"


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
