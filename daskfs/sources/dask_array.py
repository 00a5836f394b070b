"""Dask arrays: row blocks computed one after the other."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from daskfs.errors import DataError
from daskfs.matrix.names import Names
from daskfs.sources.arrays import coded_texts
from daskfs.sources.base import Source, SourceBlock


class DaskArraySource(Source):
    """A two-dimensional dask array; lengths of chunks may be unknown.

    Parameters
    ----------
    X : dask.array.Array of shape (n_samples, n_features)
        Chunks may hold numpy arrays or scipy.sparse matrices.
    y : dask array or array-like of shape (n_samples,), optional
        A lazy one must have the row chunks of X.
    feature_names, target_names : sequence of str, optional

    Raises
    ------
    DataError
        Not two-dimensional, an unknown number of columns, or a target that does not fit.
    """

    kind = "dask-array"

    def __init__(
        self,
        X: Any,
        y: Any = None,
        feature_names: Sequence[str] | None = None,
        target_names: Sequence[str] | None = None,
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
        if y is not None and hasattr(y, "numblocks") and y.numblocks[0] != self._X.numblocks[0]:
            raise DataError(
                f"expected the {self._X.numblocks[0]} row chunks of X, found {y.numblocks[0]}", "y", "rechunk y as X is"
            )

    @property
    def target_classes(self) -> list[str] | None:
        """Texts that the target was given as."""
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
        """Return the digest of the graph: Dask's names are equal for equal graphs over equal inputs."""
        y = self._y.name if hasattr(self._y, "dask") else self._y
        sha256 = hashlib.sha256(f"{self._X.name} {y if isinstance(y, str) else ''}".encode())
        if y is not None and not isinstance(y, str):
            sha256.update(np.ascontiguousarray(y, dtype=np.float64).data)
        return sha256.hexdigest()

    @property
    def encoding(self) -> dict[str, Any]:
        """Names of features and targets."""
        joined = "\n".join(self.feature_names)
        return {"features": hashlib.sha256(joined.encode()).hexdigest(), "targets": self.target_names}

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield each chunk in pieces of at most `block_rows` rows (pieces end where chunks end)."""
        lazy = list(self._y.to_delayed().ravel()) if hasattr(self._y, "to_delayed") else None
        start = 0
        for k, delayed in enumerate(self._X.to_delayed()[:, 0]):
            X = delayed.compute()
            stop = start + X.shape[0]
            y = lazy[k].compute() if lazy is not None else None if self._y is None else np.asarray(self._y)[start:stop]
            if y is not None and len(y) != X.shape[0]:
                raise DataError(
                    f"expected {X.shape[0]} targets, found {len(y)}", f"y, from row {start}", "rechunk y as X is"
                )
            for row in range(0, X.shape[0], block_rows):
                piece = X[row : row + block_rows]
                piece = piece.toarray() if hasattr(piece, "toarray") else np.asarray(piece)
                part = None if y is None else np.asarray(y[row : row + block_rows], dtype=np.float64)
                yield SourceBlock(start + row, piece, part)
            start = stop
        if lazy is None and self._y is not None and len(self._y) != start:
            raise DataError(f"expected {start} targets as the rows of X, found {len(self._y)}", "y")
