"""Arrays in memory as the source of a store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.arrays import as_column, as_matrix, as_targets, dense_rows, pieces_of_rows, refuse_odd_target
from daskfs.matrix.target import are_texts, kind_of
from daskfs.sources.base import Source, SourceBlock
from daskfs.store.row_checks import check_names

DataError = errors.DataError.about("shapes")
SourceError = errors.SourceError.about("shapes")


class ArraySource(Source):
    """A numpy array or scipy.sparse matrix as the source of a store.

    Parameters
    ----------
    X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
    weight : array-like of shape (n_samples,), optional
    feature_names, target_names : sequence of str, optional
        Default: ``x0, x1, ...`` and ``target``.
    description : str
        Where the arrays come from.

    Raises
    ------
    DataError
        Shapes that do not match, or values that are not numbers.
    """

    kind = "array"

    def __init__(
        self,
        X: Any,
        y: Any = None,
        weight: Any = None,
        feature_names: Sequence[str] | np.ndarray | None = None,
        target_names: Sequence[str] | None = None,
        description: str = "array in memory",
    ) -> None:
        self._X = as_matrix(X)
        n_samples, n_features = self._X.shape
        self.n_samples: int = int(n_samples)
        self.feature_names = check_names(feature_names, n_features)
        self.notes = []
        y, self._target_classes = coded_texts(y, self.notes)
        self._y = None if y is None else as_targets(y, n_samples)
        self._weight = None if weight is None else as_column(weight, n_samples, "weight")
        self.has_weight = weight is not None
        self.target_names = name_targets(self._y, target_names)
        self._description = description

    @property
    def target_classes(self) -> list[str] | None:
        """Original texts of the target's codes."""
        return self._target_classes

    def describe(self) -> dict[str, Any]:
        """Return kind, shape and dtype."""
        return {
            "kind": self.kind,
            "description": self._description,
            "shape": list(self._X.shape),
            "dtype": str(self._X.dtype),
        }

    def digest(self) -> str:
        """Return the SHA-256 of values, shapes and dtypes; the memory layout does not matter."""
        parts: list[np.ndarray] = []
        sha256 = hashlib.sha256(f"{self._X.shape} {self._X.dtype}".encode())
        if hasattr(self._X, "tocsr"):
            parts += [self._X.indptr, self._X.indices, self._X.data]
        else:
            for rows in pieces_of_rows(self._X):
                sha256.update(np.ascontiguousarray(self._X[rows]).data)
        parts += [part for part in (self._y, self._weight) if part is not None]
        for part in parts:
            sha256.update(f"{part.shape} {part.dtype}".encode())
            sha256.update(np.ascontiguousarray(part).data)
        return sha256.hexdigest()

    def estimate_target(self) -> TargetKind:
        """Return the inferred kind of target."""
        if self._target_classes is not None:
            return TargetKind(len(self._target_classes), is_declared=True)
        return PLAIN_NUMBERS if self._y is None or self._y.ndim != 1 else kind_of(self._y)

    def check(self) -> None:
        """Refuse an array without rows or columns."""
        if 0 in self._X.shape:
            raise SourceError(
                f"expected at least one row and one column, found shape {self._X.shape}", self._description
            )

    @property
    def resident(self) -> np.ndarray | None:  # type: ignore[override]
        """The array; None if it is sparse, memory-mapped or not C-contiguous."""
        is_plain = type(self._X) is np.ndarray and self._X.flags.c_contiguous
        return self._X if is_plain else None

    @property
    def encoding(self) -> dict[str, Any]:
        """Names of features and targets: an array with other names gives another store."""
        joined = "\n".join(self.feature_names)
        return {"features": hashlib.sha256(joined.encode()).hexdigest(), "targets": self.target_names}

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield consecutive rows; blocks of a dense array are views of it."""
        self.check()
        for start in range(0, self.n_samples, block_rows):
            rows = slice(start, min(start + block_rows, self.n_samples))
            yield SourceBlock(
                start,
                dense_rows(self._X, rows),
                None if self._y is None else self._y[rows],
                None if self._weight is None else self._weight[rows],
            )


def coded_texts(y: Any, notes: list[str]) -> tuple[Any, list[str] | None]:
    """Return a target of texts or categories as codes 0, 1, ..., and the texts; append a note about them.

    A lazy target of texts is computed first.
    """
    if y is not None and not hasattr(y, "__dask_graph__"):
        refuse_odd_target(y)
    if y is None or not are_texts(y):
        return y, None
    texts, codes = np.unique(np.asarray(y).astype(str), return_inverse=True)
    coded = ", ".join(f"{text!r} is {code}" for code, text in enumerate(texts.tolist()))
    notes.append(f"the target is coded: {coded}")
    return codes, texts.tolist()


def name_targets(y: np.ndarray | None, names: Sequence[str] | None) -> list[str]:
    """Return a name for each target: those given, or target, target0, ..."""
    n_targets = 0 if y is None else (1 if y.ndim == 1 else y.shape[1])
    if names is None:
        return ["target"] if n_targets == 1 else [f"target{k}" for k in range(n_targets)]
    if len(names) != n_targets:
        raise DataError(f"expected {n_targets} target name(s), found {len(names)}", "target", "one name per target")
    return [str(name) for name in names]
