"""Arrays in memory: as a matrix that selectors stream (`ArrayMatrix`), and as a source of a store (`ArraySource`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from daskfs.errors import DataError, SourceError
from daskfs.matrix.base import Rows, SparseRows
from daskfs.matrix.streaming import Streamable
from daskfs.sources.base import Source, SourceBlock

CHECK_NBYTES = 16 * 2**20
_KEPT_DTYPES = ("float32", "float64", "int8")


class ArrayMatrix(Streamable):
    """A matrix in memory, with the face of a feature store.

    Parameters
    ----------
    X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
        float32, float64 and int8 are kept, anything else is converted to float64. Sparse input stays so: `read` gives
        dense blocks of it, `read_sparse` the entries.
    y : array-like of shape (n_samples,), optional
    weight : array-like of shape (n_samples,), optional
    feature_names : sequence of str, optional
    shuffled : bool
        Whether the rows already stand in random order.

    Raises
    ------
    DataError
        Shapes that do not fit; NaN or infinity in X, y or weight (with the column and the row).
    """

    in_memory = True

    def __init__(
        self,
        X: Any,
        y: Any = None,
        weight: Any = None,
        feature_names: Sequence[str] | np.ndarray | None = None,
        shuffled: bool = False,
    ) -> None:
        self._X = _as_matrix(X)
        self.shape = (int(self._X.shape[0]), int(self._X.shape[1]))
        self.dtype = np.dtype(self._X.dtype)
        self.feature_names = None if feature_names is None else _as_names(feature_names, self.shape[1])
        self.shuffled = shuffled
        self._y = None if y is None else _as_column(y, self.shape[0], "y")
        self._weight = None if weight is None else _as_column(weight, self.shape[0], "weight")
        check_finite(self._X, self.feature_names)

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense C-ordered block X[rows][:, columns]; into `out` where given."""
        block = dense_rows(self._X, rows, columns)
        if out is None:
            return np.ascontiguousarray(block)
        out[...] = block
        return out

    @property
    def dense_array(self) -> np.ndarray | None:
        """X itself, to be read without a copy; None where it is sparse."""
        return None if hasattr(self._X, "tocsr") else self._X

    @cached_property
    def by_columns(self) -> Any:
        """X as a CSC matrix, rows ascending and each once, made when first asked for; None where X is dense."""
        if not hasattr(self._X, "tocsr"):
            return None
        by_columns = self._X.tocsc()
        by_columns.sum_duplicates()
        return by_columns

    def read_sparse(self, rows: Rows) -> SparseRows | None:
        """Return the entries of X[rows], without a copy where the rows are consecutive; None where X is dense."""
        if not hasattr(self._X, "tocsr"):
            return None
        if not isinstance(rows, slice):
            chosen = self._X[rows]
            return SparseRows(chosen.indptr.astype(np.int64), chosen.indices, chosen.data)
        start, stop, _ = rows.indices(self.shape[0])
        indptr = self._X.indptr[start : stop + 1].astype(np.int64)
        entries = slice(int(indptr[0]), int(indptr[-1]))
        return SparseRows(indptr - indptr[0], self._X.indices[entries], self._X.data[entries])

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows], float64, or None."""
        return None if self._y is None else self._y[rows]

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows, float64, or None."""
        return None if self._weight is None else self._weight[rows]

    def __repr__(self) -> str:
        return f"<ArrayMatrix: {self.shape[0]:,} x {self.shape[1]:,} {self.dtype}>"


class ArraySource(Source):
    """A numpy array or scipy.sparse matrix as the source of a store.

    Parameters
    ----------
    X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
    weight : array-like of shape (n_samples,), optional
    feature_names, target_names : sequence of str, optional
        ``x0, x1, ...`` and ``target`` by default.
    description : str
        Where the arrays come from.

    Raises
    ------
    DataError
        Shapes that do not fit, or values that are not numbers.
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
        self._X = _as_matrix(X)
        n_samples, n_features = self._X.shape
        names = default_names(n_features) if feature_names is None else feature_names
        self._names = [str(name) for name in _as_names(names, n_features)]
        self._y = None if y is None else _as_targets(y, n_samples)
        self._weight = None if weight is None else _as_column(weight, n_samples, "weight")
        self.has_weight = weight is not None
        self._target_names = _name_targets(self._y, target_names)
        self._description = description
        self.notes = []

    def describe(self) -> dict[str, Any]:
        """Return kind, shape and dtype."""
        return {
            "kind": self.kind,
            "description": self._description,
            "shape": list(self._X.shape),
            "dtype": str(self._X.dtype),
        }

    def digest(self) -> str:
        """Return the SHA-256 of values, shapes and dtypes; the order in memory does not matter."""
        parts: list[np.ndarray] = []
        sha256 = hashlib.sha256(f"{self._X.shape} {self._X.dtype}".encode())
        if hasattr(self._X, "tocsr"):
            parts += [self._X.indptr, self._X.indices, self._X.data]
        else:
            for rows in _pieces(self._X):
                sha256.update(np.ascontiguousarray(self._X[rows]).data)
        parts += [part for part in (self._y, self._weight) if part is not None]
        for part in parts:
            sha256.update(f"{part.shape} {part.dtype}".encode())
            sha256.update(np.ascontiguousarray(part).data)
        return sha256.hexdigest()

    def check(self) -> None:
        """Refuse an array without rows or columns."""
        if 0 in self._X.shape:
            raise SourceError(
                f"expected at least one row and one column, found shape {self._X.shape}", self._description
            )

    @property
    def n_samples(self) -> int:
        """Rows of X."""
        return int(self._X.shape[0])

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns."""
        return self._names

    @property
    def target_names(self) -> list[str]:
        """Names of the targets."""
        return self._target_names

    @property
    def encoding(self) -> dict[str, Any]:
        """Names of features and targets: renamed columns make another store."""
        joined = "\n".join(self._names)
        return {"features": hashlib.sha256(joined.encode()).hexdigest(), "targets": self._target_names}

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


def dense_rows(X: Any, rows: Rows, columns: Rows = slice(None)) -> np.ndarray:
    """Return X[rows][:, columns] dense, from a numpy array or a CSR matrix, without a needless copy."""
    if isinstance(columns, slice) or isinstance(rows, slice) or hasattr(X, "tocsr"):
        block = X[rows][:, columns] if isinstance(columns, slice) else X[rows, :][:, columns]
    else:
        block = X[np.ix_(rows, columns)]
    return block.toarray() if hasattr(block, "toarray") else block


def default_names(n_features: int) -> list[str]:
    """Return x0, x1, ..."""
    return [f"x{j}" for j in range(n_features)]


def check_finite(X: Any, feature_names: np.ndarray | None = None) -> None:
    """Refuse NaN and infinity, naming the column and the row.

    Raises
    ------
    DataError
    """
    values = X.data if hasattr(X, "tocsr") else X
    if values.dtype.kind != "f":
        return
    if hasattr(X, "tocsr"):
        if np.isfinite(values).all():
            return
        entries = X.tocoo()
        first = int(np.flatnonzero(~np.isfinite(entries.data))[0])
        _raise_not_finite(entries.data[first], int(entries.row[first]), int(entries.col[first]), feature_names)
    for rows in _pieces(X):
        finite = np.isfinite(X[rows])
        if not finite.all():
            row, column = (int(part[0]) for part in np.nonzero(~finite))
            _raise_not_finite(X[rows][row, column], rows.start + row, column, feature_names)


def _raise_not_finite(value: Any, row: int, column: int, feature_names: np.ndarray | None) -> None:
    name = f"column {column}" if feature_names is None else f"column '{feature_names[column]}'"
    found = "NaN" if np.isnan(value) else "infinity"
    raise DataError(
        f"expected finite numbers, found {found}", f"{name}, row {row}", "drop the row or fill in the value"
    )


def _pieces(X: Any) -> Iterator[slice]:
    row_nbytes = max(1, X.shape[1] * X.dtype.itemsize)
    step = max(1, CHECK_NBYTES // row_nbytes)
    for start in range(0, X.shape[0], step):
        yield slice(start, min(start + step, X.shape[0]))


def _as_matrix(X: Any) -> Any:
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    else:
        X = np.asanyarray(X)  # a np.memmap stays one
    if X.ndim != 2:
        raise DataError(f"expected a matrix of rows and columns, found {X.ndim} dimension(s)", "X", "X.reshape(-1, 1)")
    if X.dtype.name in _KEPT_DTYPES:
        return X
    if X.dtype.kind not in "buif":
        try:
            return X.astype(np.float64)
        except (TypeError, ValueError) as fault:
            raise DataError(
                f"expected numbers, found dtype {X.dtype} ({fault})", "X", "encode the text, or pass a DataFrame"
            ) from None
    return X.astype(np.float64)


def _as_column(values: Any, n_samples: int, name: str) -> np.ndarray:
    values = _as_targets(values, n_samples, name)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(f"expected one value per row, found shape {values.shape}", name)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(f"expected finite numbers, found {values[row]}", f"{name}, row {row}", "drop the row")
    if name == "weight" and (values < 0).any():
        row = int(np.flatnonzero(values < 0)[0])
        raise DataError(f"expected weights of at least 0, found {values[row]}", f"weight, row {row}")
    return values


def _as_targets(values: Any, n_samples: int, name: str = "y") -> np.ndarray:
    try:
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as fault:
        raise DataError(f"expected numbers ({fault})", name, "code the labels as numbers") from None
    if values.ndim not in (1, 2) or len(values) != n_samples:
        raise DataError(f"expected {n_samples} rows as in X, found shape {values.shape}", name, "pass matching arrays")
    return values


def _as_names(names: Sequence[str] | np.ndarray, n_features: int) -> np.ndarray:
    if len(names) != n_features:
        raise DataError(f"expected {n_features} feature names, found {len(names)}", "names", "one name per column")
    result = np.empty(n_features, dtype=object)
    result[:] = [str(name) for name in names]
    return result


def _name_targets(y: np.ndarray | None, names: Sequence[str] | None) -> list[str]:
    n_targets = 0 if y is None else (1 if y.ndim == 1 else y.shape[1])
    if names is None:
        return ["target"] if n_targets == 1 else [f"target{k}" for k in range(n_targets)]
    if len(names) != n_targets:
        raise DataError(f"expected {n_targets} target name(s), found {len(names)}", "target", "one name per target")
    return [str(name) for name in names]
