"""Compute the evidence of a report (`daskfs.evidence`) while a run has access to the data.

It uses what a run holds anyway (targets and predictions of the test rows), the store's statistics if they are small,
and a sample of the selected columns.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.errors import Suspicion
from daskfs.evidence import DataRecord, EvidenceRecord, FeatureRecord, MissingRecord
from daskfs.matrix.base import Matrix
from daskfs.pipeline.column_sample import MOST_DESCRIBED, ColumnSample, coefficients_by_class
from daskfs.pipeline.predicting import linear_predictor
from daskfs.pipeline.prediction_quality import Constant, Predicted, finite, label, record_of_test, warnings_on_test
from daskfs.result import SelectionResult
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.diagnostics.remarks import MOST_FEATURES
from daskfs.selectors.diagnostics.signal_beyond import signal_beyond
from daskfs.selectors.shared.run import Run
from daskfs.sources.sparse.base import SparseSource
from daskfs.store.feature_store import FeatureStore
from daskfs.version import __version__

PIECE_ROWS = 1 << 20
"""Number of training rows read at a time."""
COMMAND = "daskfs run pipeline.yaml --set output=again"
SIGNAL_ROWS, MOST_SIGNAL_COLUMNS = 1_000, 4_096
"""Number of training rows, and maximum number of columns, for testing whether all columns explain more together."""


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
            FeatureRecord(str(name), finite(float(deviation)), None, None, by_class)
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
    sample = ColumnSample(store, train if test is None else test, selector, result)
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
    return [label(float(code), classes) for code in selector.classes_] if several else []


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


def _baseline(train: Matrix, tested: Predicted) -> float:
    """Return the mean or the most frequent label of the training rows, which are read in pieces."""
    constant = Constant(is_class=tested.loss.is_classifier)
    for start in range(0, train.shape[0], PIECE_ROWS):
        rows = slice(start, min(start + PIECE_ROWS, train.shape[0]))
        y = train.read_target(rows)
        assert y is not None
        constant.update(y, train.read_weight(rows))
    return constant.value
