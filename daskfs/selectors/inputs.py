"""What users hand to a selector, as a matrix; and Dask collections that stay lazy."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_random_state, validate_data

from daskfs.errors import DataError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix, not_finite
from daskfs.selectors.shared.responses import CLASSIFIERS, Response

if TYPE_CHECKING:
    from daskfs.selectors.base import BaseSelector


def is_lazy(X: Any) -> bool:
    """Whether X is a Dask collection."""
    return hasattr(X, "__dask_graph__")


def is_matrix(X: Any) -> bool:
    """Whether X is a feature store, rows of one, or anything else that reads its own blocks."""
    return isinstance(X, Matrix)


@contextmanager
def opened_matrix(
    selector: BaseSelector,
    X: Any,
    y: Any,
    sample_weight: Any,
    labels: np.ndarray | None = None,
    reset: bool = True,
) -> Iterator[tuple[Matrix, np.ndarray | None]]:
    """Give what the user handed over as a matrix, for as long as it is needed.

    Parameters
    ----------
    selector : BaseSelector
    X, y, sample_weight : as in `BaseSelector.fit`
    labels : ndarray of shape (n_classes,), optional
        Of a classifier, known from before; else those of `y`.
    reset : bool
        Whether the number and names of the features are learnt, or checked against those of before.

    Yields
    ------
    matrix : Matrix
        A classifier's labels in memory are replaced by their numbers 0, 1, ...
    labels : ndarray of shape (n_classes,), or None
        Which these numbers stand for, ascending.

    Raises
    ------
    DataError
        Values that are not finite, or a target given twice or not at all.
    """
    if is_matrix(X):
        if y is not None or sample_weight is not None:
            raise DataError("a store brings its own target and weights", "fit", "fit(store), without y or weights")
        if not reset:
            _check_width(X.shape[1], selector.n_features_in_)
        yield X, None
    elif is_lazy(X):
        with tempfile.TemporaryDirectory(prefix="daskfs-") as folder:
            yield _ingested(selector, X, y, sample_weight, Path(folder) / "fit.zarr"), None
    else:
        yield _in_memory(selector, X, y, sample_weight, labels, reset)


def _in_memory(
    selector: BaseSelector, X: Any, y: Any, sample_weight: Any, labels: np.ndarray | None, reset: bool
) -> tuple[ArrayMatrix, np.ndarray | None]:
    _refuse_non_finite_target(y)
    X, y = validate_data(
        selector,
        X,
        y,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,  # ArrayMatrix names the column and the row
        ensure_min_samples=2,
        y_numeric=selector.loss not in CLASSIFIERS,
        reset=reset,
    )
    if selector.loss in CLASSIFIERS:
        check_classification_targets(y)
        labels = _labels_of(y) if labels is None else labels
        y = _codes(y, labels)
    weight = None
    if sample_weight is not None:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return ArrayMatrix(X, y, weight, getattr(selector, "feature_names_in_", None)), labels


def _labels_of(y: np.ndarray) -> np.ndarray:
    labels: np.ndarray = np.unique(y)
    if len(labels) < 2:
        only = labels[0].item() if isinstance(labels[0], np.generic) else labels[0]
        raise DataError(f"expected two classes, found one class ({only!r})", "y", "check the target")
    return labels


def _codes(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    codes = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    unknown = np.flatnonzero(labels[codes] != y)
    if len(unknown):
        row = int(unknown[0])
        raise DataError(
            f"expected one of {labels.tolist()}, found {y[row]!r}", f"y, row {row}", "pass classes= with the first rows"
        )
    return codes


def _refuse_non_finite_target(y: Any) -> None:
    values = np.asarray(y)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise not_finite(f"target, row {row}", values.reshape(len(values), -1)[row].sum())


def _ingested(selector: BaseSelector, X: Any, y: Any, sample_weight: Any, path: Path) -> Matrix:
    from daskfs.sources.ingest import ingest

    if y is None:
        raise DataError("requires y to be passed, but the target y is None", "fit", "fit(X, y)")
    if sample_weight is not None:
        raise DataError(
            "weights of a Dask collection are not taken here", "sample_weight", "ingest it with weight=, fit the store"
        )
    dtypes = list(X.dtypes) if hasattr(X, "columns") else [X.dtype]
    for j, dtype in enumerate(dtypes):
        if getattr(dtype, "kind", "O") not in "buif":
            name = X.columns[j] if hasattr(X, "columns") else "X"
            raise DataError(f"expected numbers, found {dtype}", f"column {name!r}", "ingest it, which encodes text")
    is_single = all(isinstance(dtype, np.dtype) and np.can_cast(dtype, np.float32) for dtype in dtypes)
    seed = seed_of(selector.random_state)  # type: ignore[attr-defined]
    store: Matrix = ingest(X, path, y=y, dtype="float32" if is_single else "float64", random_state=seed)
    return store


def seed_of(random_state: Any) -> int | None:
    """Return the seed that a selector's random_state stands for."""
    if random_state is None:
        return None
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))


def lazy_columns(selector: BaseSelector, X: Any, columns: np.ndarray) -> Any:
    """Return the chosen columns of a dask Array or DataFrame, as lazy as it came.

    Raises
    ------
    DataError
        Other columns than those of the fit.
    """
    if hasattr(X, "columns"):
        found = [str(name) for name in X.columns]
        names = getattr(selector, "feature_names_in_", None)
        if names is None:
            _check_width(len(found), selector.n_features_in_)
            return X[[X.columns[j] for j in columns]]
        missing = [names[j] for j in columns if names[j] not in found]
        if missing:
            raise DataError(f"expected the column {missing[0]!r}, found none of this name", "X", "pass it")
        return X[[X.columns[found.index(names[j])] for j in columns]]
    _check_width(X.shape[1], selector.n_features_in_)
    return X[:, columns]


def _check_width(found: int, expected: int) -> None:
    if found != expected:
        raise DataError(f"X has {found} features, but {expected} were seen in fit", "X", "pass the same columns")


def lazy_response(X: Any, coef: np.ndarray, intercept: Any, response: Response) -> Any:
    """Return the response to ``X @ coef + intercept`` of a lazy collection that holds the chosen columns.

    A Series of a frame, where there is one number or label for each row; else an array.
    """
    example = response(np.zeros((1, *np.shape(intercept))) + intercept)
    if hasattr(X, "columns"):
        if example.ndim == 1:
            meta = ("prediction", example.dtype)
            return X.map_partitions(_respond_to_frame, coef, intercept, response, meta=meta)
        X = X.to_dask_array()
    X = X.rechunk({1: -1})
    if example.ndim == 1:
        return X.map_blocks(_respond_to_block, coef, intercept, response, dtype=example.dtype, drop_axis=1)
    chunks = (X.chunks[0], (example.shape[1],))
    return X.map_blocks(_respond_to_block, coef, intercept, response, dtype=example.dtype, chunks=chunks)


def _respond_to_block(X: np.ndarray, coef: np.ndarray, intercept: Any, response: Response) -> np.ndarray:
    result: np.ndarray = response(X @ coef + intercept)
    return result


def _respond_to_frame(frame: Any, coef: np.ndarray, intercept: Any, response: Response) -> Any:
    prediction = _respond_to_block(frame.to_numpy(dtype=np.float64), coef, intercept, response)
    return type(frame.index.to_series())(prediction, index=frame.index, name="prediction")


def predictor_blocks(selector: BaseSelector, matrix: Matrix, columns: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the linear predictor of consecutive rows of a matrix; only the chosen columns are read."""
    _check_width(matrix.shape[1], selector.n_features_in_)
    coef = selector._coef_of(columns)
    for block in matrix.row_blocks(columns=columns):
        yield block.X @ coef + selector.intercept_
