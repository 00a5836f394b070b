"""Dask arrays: row blocks, computed one at a time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.cluster.promises import token_of
from daskfs.matrix.arrays import refuse_masked
from daskfs.matrix.names import Names
from daskfs.sources.arrays import coded_texts
from daskfs.sources.base import Source, SourceBlock

DataError = errors.DataError.about("arrays")


class DaskArraySource(Source):
    """A two-dimensional dask array; chunk lengths may be unknown.

    Parameters
    ----------
    X : dask.array.Array of shape (n_samples, n_features)
        Chunks may hold numpy arrays or scipy.sparse matrices.
    y : dask array or array-like of shape (n_samples,), optional
        A lazy one must have the same row chunks as X.
    feature_names, target_names : sequence of str, optional
    weight : dask array or array-like of shape (n_samples,), optional
        Like y.

    Raises
    ------
    DataError
        Not two-dimensional, an unknown number of columns, or a target that does not match.
    """

    kind = "dask-array"

    def __init__(
        self,
        X: Any,
        y: Any = None,
        feature_names: Sequence[str] | None = None,
        target_names: Sequence[str] | None = None,
        weight: Any = None,
    ) -> None:
        if X.ndim != 2 or math.isnan(X.shape[1]):
            raise DataError(f"expected a matrix with a known number of columns, found shape {X.shape}", "X")
        self._X = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
        self.notes = []
        self._y, self._target_classes = coded_texts(y, self.notes)
        self.n_samples = None if math.isnan(X.shape[0]) else int(X.shape[0])
        self.feature_names = [str(name) for name in (feature_names if feature_names is not None else Names(X.shape[1]))]
        self.target_names = [str(name) for name in target_names or ["target"]] if y is not None else []
        if len(self.feature_names) != X.shape[1]:
            raise DataError(f"expected {X.shape[1]} feature names, found {len(self.feature_names)}", "names")
        self._y = _in_chunks_of(self._X, self._y, "y")
        self._weight, self.has_weight = _in_chunks_of(self._X, weight, "weight"), weight is not None

    @property
    def target_classes(self) -> list[str] | None:
        """Original texts of the target's codes."""
        return self._target_classes

    def describe(self) -> dict[str, Any]:
        """Return kind, shape and chunks."""
        shape = [None if math.isnan(length) else int(length) for length in self._X.shape]
        return {
            "kind": self.kind,
            "description": "dask array",
            "shape": shape,
            "dtype": str(self._X.dtype),
            "n_chunks": self._X.numblocks[0],
        }

    def digest(self) -> str:
        """Return the digest of the graph: equal graphs over equal inputs have equal names in Dask."""
        y = self._y.name if hasattr(self._y, "dask") else self._y
        sha256 = hashlib.sha256(f"{self._X.name} {y if isinstance(y, str) else ''}".encode())
        if y is not None and not isinstance(y, str):
            sha256.update(np.ascontiguousarray(y, dtype=np.float64).data)
        if self.has_weight:
            sha256.update(token_of(self._weight).encode())
        return sha256.hexdigest()

    @property
    def encoding(self) -> dict[str, Any]:
        """Names of features and targets."""
        joined = "\n".join(self.feature_names)
        return {"features": hashlib.sha256(joined.encode()).hexdigest(), "targets": self.target_names}

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield each chunk in pieces of at most `block_rows` rows; pieces do not cross chunks."""
        of_rows = _OfRows(self._y, "targets", "y"), _OfRows(self._weight, "weights", "weight")
        start = 0
        for k, delayed in enumerate(self._X.to_delayed()[:, 0]):
            X = delayed.compute()
            refuse_masked(X, "X")
            stop = start + X.shape[0]
            y, weight = (values.of(k, start, stop) for values in of_rows)
            for row in range(0, X.shape[0], block_rows):
                piece = X[row : row + block_rows]
                piece = piece.toarray() if hasattr(piece, "toarray") else np.asarray(piece)
                rows = slice(row, row + block_rows)
                yield SourceBlock(
                    start + row, piece, None if y is None else y[rows], None if weight is None else weight[rows]
                )
            start = stop
        for values in of_rows:
            values.conclude(start)


def _in_chunks_of(X: Any, values: Any, name: str) -> Any:
    """Return the values of the rows in the row chunks of X, as far as these are known."""
    if not hasattr(values, "chunks"):
        return values
    found, expected = values.shape[0], X.shape[0]
    if found == expected:
        return values.rechunk((X.chunks[0], *values.shape[1:]))
    if not math.isnan(found - expected):
        raise DataError(f"expected {expected} values, one per row of X, found {found}", name)
    if values.numblocks[0] != X.numblocks[0]:
        problem = f"expected the {X.numblocks[0]} row chunks of X, found {values.numblocks[0]}"
        raise DataError(problem, name, "call compute_chunk_sizes() on both, or rechunk it like X")
    return values


class _OfRows:
    """One number per row, lazy or not."""

    def __init__(self, values: Any, what: str, name: str) -> None:
        self._values, self._what, self._name = values, what, name
        self._lazy = list(values.to_delayed().ravel()) if hasattr(values, "to_delayed") else None

    def of(self, k: int, start: int, stop: int) -> np.ndarray | None:
        """Return the values of chunk k, which holds these rows."""
        if self._values is None:
            return None
        found = np.asarray(self._values)[start:stop] if self._lazy is None else np.asarray(self._lazy[k].compute())
        if len(found) != stop - start:
            problem = f"expected {stop - start} {self._what}, found {len(found)}"
            raise DataError(problem, f"{self._name}, from row {start}", "rechunk it like X")
        return np.asarray(found, dtype=np.float64)

    def conclude(self, n_samples: int) -> None:
        """Refuse more values than rows."""
        if self._lazy is None and self._values is not None and len(self._values) != n_samples:
            problem = f"expected {n_samples} {self._what}, one per row of X, found {len(self._values)}"
            raise DataError(problem, self._name)
