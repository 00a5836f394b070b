"""What users hand to a selector, as a matrix; and Dask collections that stay lazy."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_random_state, validate_data

from daskfs.blocks import Matrix
from daskfs.errors import DataError
from daskfs.sources.arrays import ArrayMatrix

if TYPE_CHECKING:
    from daskfs.selectors.base import BaseSelector


def is_lazy(X: Any) -> bool:
    """Whether X is a Dask collection."""
    return hasattr(X, "__dask_graph__")


def is_matrix(X: Any) -> bool:
    """Whether X is a feature store, rows of one, or anything else that reads its own blocks."""
    return hasattr(X, "read") and hasattr(X, "read_target")


@contextmanager
def opened_matrix(selector: BaseSelector, X: Any, y: Any, sample_weight: Any) -> Iterator[Matrix]:
    """Give what the user handed over as a matrix, for as long as it is needed.

    Raises
    ------
    DataError
        Values that are not finite, or a target given twice or not at all.
    """
    if is_matrix(X):
        if y is not None or sample_weight is not None:
            raise DataError("a store brings its own target and weights", "fit", "fit(store), without y or weights")
        yield X
    elif is_lazy(X):
        with tempfile.TemporaryDirectory(prefix="daskfs-") as folder:
            yield _ingested(selector, X, y, sample_weight, Path(folder) / "fit.zarr")
    else:
        yield _in_memory(selector, X, y, sample_weight)


def _in_memory(selector: BaseSelector, X: Any, y: Any, sample_weight: Any) -> ArrayMatrix:
    _refuse_non_finite_target(y)
    X, y = validate_data(
        selector,
        X,
        y,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,  # ArrayMatrix names the column and the row
        ensure_min_samples=2,
        y_numeric=True,
    )
    weight = None
    if sample_weight is not None:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return ArrayMatrix(X, y, weight, getattr(selector, "feature_names_in_", None))


def _refuse_non_finite_target(y: Any) -> None:
    values = np.asarray(y)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        found = "NaN" if np.isnan(values.reshape(len(values), -1)[row]).any() else "infinity"
        raise DataError(f"expected finite numbers, found {found}", f"target, row {row}", "drop the row")


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


def lazy_prediction(X: Any, coef: np.ndarray, intercept: float) -> Any:
    """Return ``X @ coef + intercept`` of a lazy collection that holds the chosen columns."""
    if hasattr(X, "columns"):
        return X.map_partitions(_predict_frame, coef, intercept, meta=("prediction", "float64"))
    return X @ coef + intercept


def _predict_frame(frame: Any, coef: np.ndarray, intercept: float) -> Any:
    return (frame.astype("float64") * coef).sum(axis=1, skipna=False).rename("prediction") + intercept


def prediction_blocks(selector: BaseSelector, matrix: Any, columns: np.ndarray) -> Iterator[np.ndarray]:
    """Yield predictions for consecutive rows of a matrix; only the chosen columns are read."""
    _check_width(matrix.shape[1], selector.n_features_in_)
    for block in matrix.row_blocks(columns=columns):
        yield block.X @ selector.coef_[columns] + selector.intercept_
