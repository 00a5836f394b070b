"""The first step of a fit: the user's data as a matrix, the loss settled by its target, and the run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from pandas import unique
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from daskfs import errors
from daskfs.cluster.open import parse_bytes, workers_of
from daskfs.cluster.workers import Workers
from daskfs.losses import AUTO, LOSSES, PLAIN_NUMBERS, TargetKind, find_loss
from daskfs.matrix.arrays import ArrayMatrix, as_column
from daskfs.matrix.base import Matrix
from daskfs.matrix.target import are_texts, kind_of, kind_of_target
from daskfs.selectors.inputs import (
    check_width,
    codes_of,
    ingested,
    is_lazy,
    is_matrix,
    labels_of,
    refuse_a_name_twice,
    refuse_non_finite_target,
    seed_of,
)
from daskfs.selectors.predicting import Predicts
from daskfs.selectors.shared.run import Checkpoint, Run
from daskfs.selectors.tables import begun, ingested_table
from daskfs.sources.in_memory import has_more_than_numbers, is_table, read_once
from daskfs.watching.base import Progress

DataError = errors.DataError.about("shapes")


class Opens(Predicts):
    """Reads arrays, tables, stores and Dask collections as matrices."""

    random_state: Any

    def _setting(self, name: str) -> Any:
        """Return a setting for running a fit: `client`, `memory_limit`, `schema` or `verbose`."""
        return getattr(self, name)

    @contextmanager
    def _opened(
        self, X: Any, y: Any, sample_weight: Any, labels: np.ndarray | None = None, is_first: bool = True
    ) -> Iterator[tuple[Matrix, np.ndarray | None]]:
        """Yield the user's data as a matrix, for as long as it is needed.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        labels : ndarray of shape (n_classes,), optional
            Labels of a classifier, if already known; else those of `y`.
        is_first : bool
            Take the number and names of the features from X; if False, check them against the fitted ones.

        Yields
        ------
        matrix : Matrix
            A classifier's labels in memory are replaced by their numbers 0, 1, ...
        labels : ndarray of shape (n_classes,), or None
            The labels with these numbers, ascending.

        Raises
        ------
        DataError
            X is a path, values are not finite, or the target is given twice or not at all.
        """
        if isinstance(X, (str, PathLike)):
            remedy = "use open_store(path) for a feature store, or ingest(path, store, target=...) for a file"
            raise DataError(f"expected data, found a path, {str(X)!r}", "X", remedy)
        X = read_once(X)
        if is_matrix(X):
            if y is not None or sample_weight is not None:
                raise DataError("a store has its own target and weights", "fit", "use fit(store), without y or weights")
            if is_first:
                self._settle_loss(kind_of_target(X))
            else:
                check_width(X.shape[1], self._n_columns)
            yield X, None
            return
        schema, name, self._table_notes = self._setting("schema"), type(self).__name__, ()
        if is_first:
            is_encoded = is_table(X) and (schema is not None or has_more_than_numbers(X))
        else:
            is_encoded = self.encoder_ is not None  # if the table of the fit was encoded
        if is_lazy(X):
            coded, labels = self._coded(y, labels, is_first)
            with tempfile.TemporaryDirectory(prefix="daskfs-") as folder:
                into = Path(folder) / "fit.zarr", seed_of(self.random_state)
                if is_encoded:
                    table, self._table_notes = ingested_table(X, coded, sample_weight, schema, y, name, *into)
                    yield table, labels
                else:
                    yield ingested(X, coded, sample_weight, *into), labels
            return
        refuse_non_finite_target(y)
        has_texts = are_texts(y)
        if is_encoded:
            if y is None:
                raise DataError("requires y to be passed, but the target y is None", "fit", "fit(X, y)")
            column = column_or_1d(y, warn=True)
        else:
            refuse_a_name_twice(X)
            X, column = validate_data(
                self,
                X,
                y,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,  # ArrayMatrix reports the column and the row
                ensure_min_samples=2,
                y_numeric=not has_texts and self.loss not in (name for name in LOSSES if LOSSES[name].is_classifier),
                reset=is_first,
            )
        coded, labels = self._coded(column, labels, is_first, has_texts)
        weight = None
        if sample_weight is not None:
            weight = as_column(sample_weight, len(column), "weight")
            if not weight.any():
                raise DataError("every weight is zero", "sample_weight", "give at least one row a positive weight")
        if not is_encoded:
            yield ArrayMatrix(X, coded, weight, getattr(self, "feature_names_in_", None)), labels
        elif is_first:
            matrix, self._table_notes = begun(X, y, weight, schema, coded, name)
            yield matrix, labels
        else:
            values = self._columns_of(X, np.arange(self._n_columns), self.encoder_)
            columns = [one for one, (start, stop) in self.encoder_.spans.items() for _ in range(start, stop)]
            names = self.encoder_.feature_names
            yield ArrayMatrix(values, coded, weight, names, table_columns=np.array(columns)), labels

    def _coded(
        self, y: Any, labels: np.ndarray | None, is_first: bool, has_texts: bool | None = None
    ) -> tuple[Any, np.ndarray | None]:
        """Settle the loss for a target; return the target, with labels replaced by their numbers, and the labels.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            May be lazy; it is computed for a classifier.
        labels : ndarray of shape (n_classes,), optional
            If they are already known.
        is_first : bool
            If False, the loss is that of the fit so far.
        has_texts : bool, optional
            Whether the target was given as texts or categories.
        """
        if y is None:
            return None, labels
        if is_first:
            if labels is not None:
                kind = TargetKind(len(labels), is_declared=True)
            elif are_texts(y) if has_texts is None else has_texts:
                texts = unique(np.asarray(y).ravel())
                if len(texts) and isinstance(texts[0], str):
                    from daskfs.sources.sniffing import refuse_numbers_as_classes

                    refuse_numbers_as_classes(texts.tolist(), len(y), "y")
                kind = TargetKind(len(texts), is_declared=True)
            else:
                kind = kind_of(np.asarray(y).ravel()) if self.loss == AUTO else PLAIN_NUMBERS
            self._settle_loss(kind)
        elif self.loss != AUTO:
            self.loss_ = self.loss
        if not find_loss(self.loss_).is_classifier:
            return y, None
        y = np.asarray(y)
        check_classification_targets(y)
        labels = labels_of(y) if labels is None else labels
        return codes_of(y, labels), labels

    def _run(
        self,
        matrix: Matrix,
        workers: Workers | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Run:
        """Return the run of one fit, by default on ``client``."""
        limit = self._setting("memory_limit")
        limit = None if limit is None else parse_bytes(limit) - matrix.ahead_nbytes
        workers = workers_of(self._setting("client")) if workers is None else workers
        return Run(matrix, self.method, workers, progress, checkpoint, limit)
