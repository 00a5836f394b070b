"""The users' data as a matrix; and Dask collections that stay lazy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.errors import did_you_mean
from daskfs.feature_maps.base import MadeFeatures
from daskfs.matrix.base import Matrix, not_finite
from daskfs.matrix.names import Names
from daskfs.selectors.predictor import LinearPredictor
from daskfs.sources.in_memory import is_table

DataError = errors.DataError.about("shapes")


def is_lazy(X: Any) -> bool:
    """Return whether X is a Dask collection."""
    return hasattr(X, "__dask_graph__")


def is_matrix(X: Any) -> bool:
    """Return whether X is a feature store, rows of one, or anything else that reads its own blocks."""
    return isinstance(X, Matrix)


def labels_of(y: np.ndarray) -> np.ndarray:
    """Return the labels of a target, ascending; raise if there is only one."""
    labels: np.ndarray = np.unique(y)
    if len(labels) < 2:
        only = labels[0].item() if isinstance(labels[0], np.generic) else labels[0]
        raise DataError(f"expected two classes, found one class ({only!r})", "y", "check the target")
    return labels


def codes_of(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the position of each row's label among the labels; raise if it is not among them."""
    codes = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    unknown = np.flatnonzero(labels[codes] != y)
    if len(unknown):
        row = int(unknown[0])
        raise DataError(
            f"expected one of {labels.tolist()}, found {y[row]!r}", f"y, row {row}", "pass classes= with the first rows"
        )
    return codes


def refuse_non_finite_target(y: Any) -> None:
    """Refuse NaN and infinity, with the row."""
    values = np.asarray(y)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise not_finite(f"target, row {row}", values.reshape(len(values), -1)[row].sum())


def ingested(X: Any, y: Any, sample_weight: Any, path: Path, seed: int | None) -> Matrix:
    """Return a Dask collection and its target as a store at a path."""
    from daskfs.sources.ingest import ingest

    if y is None:
        raise DataError("requires y to be passed, but the target y is None", "fit", "fit(X, y)")
    dtypes = list(X.dtypes) if hasattr(X, "columns") else [X.dtype]
    for j, dtype in enumerate(dtypes):
        if getattr(dtype, "kind", "O") not in "buif":
            name = X.columns[j] if hasattr(X, "columns") else "X"
            raise DataError(f"expected numbers, found {dtype}", f"column {name!r}", "ingest the data to encode text")
    is_single = all(isinstance(dtype, np.dtype) and np.can_cast(dtype, np.float32) for dtype in dtypes)
    store: Matrix = ingest(
        X, path, y=y, weight=sample_weight, dtype="float32" if is_single else "float64", random_state=seed
    )
    return store


def seed_of(random_state: Any) -> int | None:
    """Return the seed for a selector's random_state."""
    if random_state is None:
        return None
    if isinstance(random_state, Integral):
        return int(random_state)
    from sklearn.utils.validation import check_random_state

    return int(check_random_state(random_state).randint(2**31))


def lazy_columns(X: Any, columns: np.ndarray, n_features: int, names: np.ndarray | None) -> Any:
    """Return the selected columns of a dask Array or DataFrame, without computing them.

    Parameters
    ----------
    X : dask Array or DataFrame
    columns : ndarray of shape (n_columns,), int64
    n_features : int
        Number of features in the fit.
    names : ndarray of shape (n_features,), optional
        Feature names of the fit, by which the columns of a frame are found.

    Raises
    ------
    DataError
        The columns differ from those of the fit.
    """
    if not hasattr(X, "columns"):
        check_width(X.shape[1], n_features)
        return X[:, columns]
    found = [str(name) for name in X.columns]
    if names is None:
        check_width(len(found), n_features)
        return X[[X.columns[j] for j in columns]]
    missing = [names[j] for j in columns if names[j] not in found]
    if missing:
        raise DataError(f"expected the column {missing[0]!r}, found none of this name", "X", "add the column")
    return X[[X.columns[found.index(names[j])] for j in columns]]


def refuse_a_name_twice(X: Any) -> None:
    """Refuse a table with duplicate column names: features are identified by their names."""
    if not is_table(X):
        return
    names = Counter(X.column_names if hasattr(X, "column_names") else X.columns)
    for name, n_columns in names.items():
        if n_columns > 1:
            raise DataError(f"two columns are called {name!r}", "X", "rename one of them")


def check_width(found: int, expected: int) -> None:
    """Refuse a number of features that differs from the fit."""
    if found != expected:
        raise DataError(f"X has {found} features, but {expected} were seen in fit", "X", "pass the same columns")


def lazy_response(X: Any, predictor: LinearPredictor, response: Callable[[Any], Any]) -> Any:
    """Return the response to the linear predictor of a lazy collection that has exactly the predictor's columns.

    The result is a Series for a frame if there is one number or label per row, otherwise an array.
    """
    example = response(np.zeros((1, *np.shape(predictor.intercept))) + predictor.intercept)
    if hasattr(X, "columns"):
        if example.ndim == 1:
            meta = ("prediction", example.dtype)
            return X.map_partitions(_respond_to_frame, predictor, response, meta=meta)
        X = X.to_dask_array()
    X = X.rechunk({1: -1})
    if example.ndim == 1:
        return X.map_blocks(_respond_to_block, predictor, response, dtype=example.dtype, drop_axis=1)
    chunks = (X.chunks[0], (example.shape[1],))
    return X.map_blocks(_respond_to_block, predictor, response, dtype=example.dtype, chunks=chunks)


def _respond_to_block(X: np.ndarray, predictor: LinearPredictor, response: Callable[[Any], Any]) -> np.ndarray:
    result: np.ndarray = response(predictor(X))
    return result


def _respond_to_frame(frame: Any, predictor: LinearPredictor, response: Callable[[Any], Any]) -> Any:
    import pandas as pd

    prediction = _respond_to_block(frame.to_numpy(dtype=np.float64), predictor, response)
    return pd.Series(prediction, index=frame.index, name="prediction")


def lazy_made(X: Any, made: MadeFeatures, names: np.ndarray) -> Any:
    """Return features made from a lazy collection of their parents, without computing them."""
    if hasattr(X, "columns"):
        import pandas as pd

        meta = pd.DataFrame(np.empty((0, len(names))), columns=names)
        return X.map_partitions(_made_of_frame, made, names, meta=meta)
    X = X.rechunk({1: -1})
    dtype = np.dtype(np.float64 if X.dtype == np.float64 else np.float32)
    return X.map_blocks(made.of, dtype=dtype, chunks=(X.chunks[0], (len(names),)))


def _made_of_frame(frame: Any, made: MadeFeatures, names: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(made.of(frame.to_numpy(dtype=np.float64)), index=frame.index, columns=names)


def dense_columns(X: Any, columns: np.ndarray) -> np.ndarray:
    """Return some columns of an array, a sparse matrix or a frame as an array of real numbers."""
    chosen = X.iloc[:, columns].to_numpy() if hasattr(X, "iloc") else X[:, columns]
    dense = np.asarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen)
    return dense if dense.dtype.kind == "f" else dense.astype(np.float64)


def columns_of(asked: Any, n_features: int, names: Names | None, parameter: str) -> np.ndarray:
    """Return the columns that a parameter gives by numbers or names, as int64.

    Raises
    ------
    DataError
        A column does not exist, or is given twice.
    """
    values = [] if asked is None else list(np.asarray(asked, dtype=object).ravel())
    numbers = []
    texts = {value for value in values if isinstance(value, str)}
    known = {} if names is None or not names.are_given else names.places(texts)
    for value in values:
        if isinstance(value, str):
            if value not in known:
                hint = "" if names is None or names.given is None else did_you_mean(value, names.given.tolist())
                raise DataError(f"there is no column {value!r}{hint}", parameter, "use names or numbers of columns")
            numbers.append(known[value])
        elif not isinstance(value, Integral) or isinstance(value, bool) or not 0 <= int(value) < n_features:
            raise DataError(
                f"expected numbers of columns from 0 to {n_features - 1}, found {value!r}", parameter, "correct it"
            )
        else:
            numbers.append(int(value))
    columns = np.array(numbers, dtype=np.int64)
    if len(np.unique(columns)) < len(columns):
        values_, counts = np.unique(columns, return_counts=True)
        raise DataError(f"duplicate column {int(values_[counts > 1][0])}", parameter, "name each column once")
    return columns


def refuse_too_many(always: np.ndarray, most: int) -> None:
    """Refuse more columns that are always included than are selected.

    Raises
    ------
    DataError
    """
    if len(always) > most:
        problem = f"expected at most {most} columns, found {len(always)}"
        raise DataError(problem, "always_include", "raise n_features_to_select")


def refuse_left_out(always: np.ndarray, held: np.ndarray, names: Names) -> None:
    """Refuse columns that should always be included and could not be.

    Raises
    ------
    DataError
        Names the first of them.
    """
    missing = always[~np.isin(always, held)]
    if len(missing):
        place = f"always_include, column {names[missing[0]]!r}"
        raise DataError("is constant, or a linear combination of the columns before it", place, "drop it")
