"""The first step of a fit: the user's data as a matrix, and a classifier's labels as codes."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from pandas import unique
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from daskfs import errors
from daskfs.losses import AUTO, LOSSES, PLAIN_NUMBERS, Loss, TargetKind
from daskfs.matrix.arrays import ArrayMatrix, as_column, refuse_masked
from daskfs.matrix.base import Matrix
from daskfs.matrix.target import are_texts, kind_of, kind_of_target, plain
from daskfs.selectors.inputs import check_width, is_lazy, refuse_non_finite_target, seed_of
from daskfs.selectors.predicting import FittedColumns
from daskfs.selectors.tables import begun, ingested_table
from daskfs.sources.in_memory import has_more_than_numbers, is_table, read_once

DataError = errors.DataError.about("shapes")


class Input:
    """The user's data, checked. The target's `kind` decides on the loss; then they can be `opened` as a matrix.

    Parameters
    ----------
    X, y, sample_weight : as in `BaseSelector.fit`
    loss : str
        Its name, or "auto".
    schema : as in `BaseSelector`
    columns : FittedColumns or None
        Those of the fit so far; None: X is the first data.
    check : callable
        scikit-learn's `validate_data` for this estimator; only used for numbers in memory.

    Raises
    ------
    DataError
        X is a path or is no matrix or table, values are not finite, or the target is given twice or not at all.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        loss: str,
        schema: Any,
        columns: FittedColumns | None,
        check: Callable[..., tuple[Any, np.ndarray]],
    ) -> None:
        if isinstance(X, (str, PathLike)):
            remedy = "use open_store(path) for a feature store, or ingest(path, store, target=...) for a file"
            raise DataError(f"expected data, found a path, {str(X)!r}", "X", remedy)
        self.X, self.y, self.weight = read_once(X), y, sample_weight
        refuse_masked(X, "X")  # before scikit-learn forgets the mask
        if isinstance(self.X, (Mapping, Iterator)) and not hasattr(X, "shape"):
            remedy = "pass pandas.DataFrame(X); for blocks of rows, see fit_blocks and partial_fit"
            raise DataError(f"expected a matrix or a data frame, found a {type(X).__name__}", "X", remedy)
        self.target, self.loss, self.schema, self.columns = y, loss, schema, columns
        if isinstance(self.X, Matrix):
            if y is not None or sample_weight is not None:
                raise DataError("a store has its own target and weights", "fit", "use fit(store), without y or weights")
            if columns is not None:
                check_width(self.X.shape[1], columns.n_columns)
            return
        if columns is None:
            self.is_encoded = is_table(self.X) and (schema is not None or has_more_than_numbers(self.X))
        else:
            self.is_encoded = columns.encoder is not None  # if the table of the fit was encoded
        if y is None and (self.is_encoded or is_lazy(self.X)):
            raise DataError("requires y to be passed, but the target y is None", "fit", "fit(X, y)")
        if is_lazy(self.X):
            self.y = self.target = _beside_lazy_rows(y)
            return
        refuse_non_finite_target(y)
        y = plain(y)
        if self.is_encoded:
            self.target = column_or_1d(y, warn=True)
        else:
            if is_table(self.X):
                names = self.X.column_names if hasattr(self.X, "column_names") else self.X.columns
                for name, n_columns in Counter(names).items():
                    if n_columns > 1:
                        raise DataError(f"two columns are called {name!r}", "X", "rename one of them")
            self.X, self.target = check(
                self.X,
                y,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,  # ArrayMatrix reports the column and the row
                ensure_min_samples=2 if columns is None else 1,
                y_numeric=not are_texts(y) and not (loss in LOSSES and LOSSES[loss].is_classifier),
            )
        if sample_weight is not None:
            self.weight = as_column(sample_weight, len(self.target), "weight")
            if not self.weight.any():
                raise DataError("every weight is zero", "sample_weight", "give at least one row a positive weight")

    def kind(self, labels: np.ndarray | None) -> TargetKind:
        """Return the kind of the target; see `kind_of_labels`."""
        if isinstance(self.X, Matrix):
            return kind_of_target(self.X)
        return kind_of_labels(self.y if are_texts(self.y) else self.target, self.loss, labels)

    @contextmanager
    def opened(
        self, loss: Loss, labels: np.ndarray | None, names: np.ndarray | None, random_state: Any, method: str
    ) -> Iterator[tuple[Matrix, np.ndarray | None, list[str]]]:
        """Yield the matrix, for as long as it is needed, the labels as in `coded`, and notes on a table's schema."""
        X, y, weight, schema = self.X, self.y, self.weight, self.schema
        if isinstance(X, Matrix):
            yield X, None, []
            return
        codes, labels = coded(self.target, loss, labels, weight)
        if is_lazy(X):
            with tempfile.TemporaryDirectory(prefix="daskfs-") as folder:
                into = Path(folder) / "fit.zarr", seed_of(random_state)
                if self.is_encoded:
                    table, notes = ingested_table(X, codes, weight, schema, y, method, *into)
                    yield table, labels, notes
                else:
                    yield _ingested(X, codes, weight, *into), labels, []
        elif not self.is_encoded:
            yield ArrayMatrix(X, codes, weight, names), labels, []
        elif self.columns is None:
            matrix, notes = begun(X, y, weight, schema, codes, method)
            yield matrix, labels, notes
        else:
            values, encoder = self.columns.encoded(X, np.arange(self.columns.n_columns)), self.columns.encoder
            of_table = [one for one, (start, stop) in encoder.spans.items() for _ in range(start, stop)]
            matrix = ArrayMatrix(values, codes, weight, encoder.feature_names, table_columns=np.array(of_table))
            yield matrix, labels, []


def _beside_lazy_rows(y: Any) -> Any:
    """Return a target, which may be lazy too: its only column, and objects computed, as texts or numbers."""
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        y = y[y.columns[0]] if hasattr(y, "columns") else y[:, 0]
    if getattr(y, "dtype", None) != np.dtype(object):
        return y
    y = np.asarray(y)
    refuse_non_finite_target(y)
    return plain(y)


def kind_of_labels(y: Any, loss: str, labels: np.ndarray | None) -> TargetKind:
    """Return the kind of a target that is not in a matrix, as far as the loss, a name or "auto", depends on it.

    A lazy target is computed if its values decide. `labels` are those of a classifier if they are already known.
    """
    if labels is not None:
        return TargetKind(len(labels), is_declared=True)
    if are_texts(y):
        texts = unique(np.asarray(y).ravel())
        if len(texts) and isinstance(texts[0], str):
            from daskfs.sources.sniffing import refuse_numbers_as_classes

            refuse_numbers_as_classes(texts.tolist(), len(y), "y")
        return TargetKind(len(texts), is_declared=True)
    return kind_of(np.asarray(y).ravel()) if loss == AUTO else PLAIN_NUMBERS


def coded(y: Any, loss: Loss, labels: np.ndarray | None, weight: Any = None) -> tuple[Any, np.ndarray | None]:
    """Return a target with its labels, ascending, replaced by their codes, and the labels; numbers as they are.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        May be lazy; it is computed for a classifier.
    loss : Loss
    labels : ndarray of shape (n_classes,), optional
        If they are already known.
    weight : array-like of shape (n_samples,), optional
        A row of weight 0 may have any label.

    Raises
    ------
    DataError
        There is only one label, or one that is not known.
    """
    if not loss.is_classifier:
        return y, None
    y = np.asarray(y)
    check_classification_targets(y)
    if labels is None:
        labels = np.unique(y)
        if len(labels) < 2:
            only = labels[0].item() if isinstance(labels[0], np.generic) else labels[0]
            raise DataError(f"expected two classes, found one class ({only!r})", "y", "check the target")
    codes = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    is_unknown = labels[codes] != y
    unknown = np.flatnonzero(is_unknown if weight is None else is_unknown & (np.asarray(weight) > 0.0))
    if len(unknown):
        row = int(unknown[0])
        raise DataError(
            f"expected one of {labels.tolist()}, found {y[row : row + 1].tolist()[0]!r}",
            f"y, row {row}",
            "pass classes= with the first rows",
        )
    return codes, labels


def _ingested(X: Any, y: Any, sample_weight: Any, path: Path, seed: int | None) -> Matrix:
    """Return a Dask collection and its target as a store at a path."""
    from daskfs.sources.ingest import ingest

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
