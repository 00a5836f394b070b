"""Arrays in memory as a matrix, and the checks of arrays that users pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from daskfs.errors import DataError
from daskfs.matrix.base import LARGEST, Matrix, not_finite
from daskfs.matrix.blocks import Rows, SparseColumns, SparseRows
from daskfs.matrix.names import Names

TargetError = DataError.about("target")

CHECK_NBYTES = 1 << 20
"""Bytes of values checked at once, so that they stay in the CPU's caches."""
_KEPT_DTYPES = ("float32", "float64", "int8")


class ArrayMatrix(Matrix):
    """A matrix in memory.

    Parameters
    ----------
    X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
        float32, float64 and int8 are kept, anything else is converted to float64. Sparse input stays sparse: `read`
        returns dense blocks of it, `sparse_rows` and `sparse_columns` its entries.
    y : array-like of shape (n_samples,), optional
    weight : array-like of shape (n_samples,), optional
    feature_names : sequence of str, optional
    shuffled : bool
        Whether the rows are already in random order.
    table_columns : ndarray of shape (n_features,), str, optional
        Columns of the table that the features were encoded from.

    Raises
    ------
    DataError
        Shapes do not match, or X, y or weight contains NaN or infinity (the error names column and row).
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        weight: Any = None,
        feature_names: Sequence[str] | np.ndarray | None = None,
        shuffled: bool = False,
        table_columns: np.ndarray | None = None,
    ) -> None:
        self._X = as_matrix(X)
        self._is_sparse = hasattr(self._X, "tocsr")
        self.shape = (int(self._X.shape[0]), int(self._X.shape[1]))
        self.dtype = np.dtype(self._X.dtype)
        self._names = Names(self.shape[1], None if feature_names is None else as_names(feature_names, self.shape[1]))
        self._shuffled, self._table_columns = shuffled, table_columns
        self._y = None if y is None else as_column(y, self.shape[0], "y")
        self._weight = None if weight is None else as_column(weight, self.shape[0], "weight")
        check_finite(self._X, self._names)

    @property
    def names(self) -> Names:
        """Names of the columns: x0, x1, ... by default."""
        return self._names

    @property
    def table_columns(self) -> np.ndarray | None:
        """Columns of the table that the features were encoded from, or None."""
        return self._table_columns

    @property
    def is_resident(self) -> bool:
        """True."""
        return True

    @property
    def rows_are_random(self) -> bool:
        """Whether the rows were declared to be in random order."""
        return self._shuffled

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense C-ordered block X[rows][:, columns], written to `out` if given."""
        block = dense_rows(self._X, rows, columns)
        if out is None:
            return np.ascontiguousarray(block)
        out[...] = block
        return out

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows], float64, or None."""
        return None if self._y is None else self._y[rows]

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows, float64, or None."""
        return None if self._weight is None else self._weight[rows]

    def sparse_rows(self, rows: Rows) -> SparseRows | None:
        """Return the entries of X[rows], without a copy if the rows are consecutive; None if X is dense."""
        if not self._is_sparse:
            return None
        if not isinstance(rows, slice):
            chosen = self._X[rows]
            return SparseRows(chosen.indptr.astype(np.int64), chosen.indices, chosen.data)
        start, stop, _ = rows.indices(self.shape[0])
        indptr = self._X.indptr[start : stop + 1].astype(np.int64)
        entries = slice(int(indptr[0]), int(indptr[-1]))
        return SparseRows(indptr - indptr[0], self._X.indices[entries], self._X.data[entries])

    def sparse_columns(self, columns: Rows) -> SparseColumns | None:
        """Return the entries of X[:, columns], without a copy if they are consecutive; None if X is dense."""
        if not self._is_sparse:
            return None
        csc = self._by_columns
        if isinstance(columns, slice):
            start, stop, _ = columns.indices(self.shape[1])
            return SparseColumns(csc.indptr[start : stop + 1], csc.indices, csc.data, self.shape[0])
        chosen = csc[:, columns]
        return SparseColumns(chosen.indptr, chosen.indices, chosen.data, self.shape[0])

    def entry_counts(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the number of entries of each row of X[rows]; None if X is dense."""
        return np.diff(self._X.indptr).astype(np.int64)[rows] if self._is_sparse else None

    @cached_property
    def _by_columns(self) -> Any:
        """X as a CSC matrix; its row indices are sorted and distinct, too."""
        return self._X.tocsc()

    def column_view(self, columns: slice) -> np.ndarray | None:
        """Return X[:, columns] without a copy; None if X is sparse."""
        return None if self._is_sparse else self._X[:, columns]

    def __repr__(self) -> str:
        return f"<ArrayMatrix: {self.shape[0]:,} x {self.shape[1]:,} {self.dtype}>"


def dense_rows(X: Any, rows: Rows, columns: Rows = slice(None)) -> np.ndarray:
    """Return X[rows][:, columns] dense, from a numpy array or a CSR matrix, without an unnecessary copy."""
    if isinstance(columns, slice) or isinstance(rows, slice) or hasattr(X, "tocsr"):
        block = X[rows][:, columns] if isinstance(columns, slice) else X[rows, :][:, columns]
    else:
        block = X[np.ix_(rows, columns)]
    return block.toarray() if hasattr(block, "toarray") else block


def check_finite(X: Any, names: Names) -> None:
    """Refuse NaN, infinity and values whose square overflows; the error names the column and the row.

    Raises
    ------
    DataError
    """
    if X.dtype.kind != "f":
        return
    if hasattr(X, "tocsr"):
        if can_be_squared(X.data).all():
            return
        entries = X.tocoo()
        first = int(np.flatnonzero(~can_be_squared(entries.data))[0])
        row, column, value = int(entries.row[first]), int(entries.col[first]), entries.data[first]
        raise not_finite(f"{names.describe(column)}, row {row}", value)
    lines = X if X.flags.c_contiguous else X.T  # in memory order
    if all(can_be_squared(lines[piece]).all() for piece in pieces_of_rows(lines, CHECK_NBYTES)):
        return
    for rows in pieces_of_rows(X):
        finite = can_be_squared(X[rows])
        if not finite.all():
            row, column = (int(part[0]) for part in np.nonzero(~finite))
            raise not_finite(f"{names.describe(column)}, row {rows.start + row}", X[rows][row, column])


def can_be_squared(values: np.ndarray) -> np.ndarray:
    """Return which values are finite and at most `LARGEST`; single precision cannot hold larger ones."""
    return np.abs(values) <= LARGEST if values.dtype == np.float64 else np.isfinite(values)


def pieces_of_rows(X: Any, nbytes: int = 16 << 20) -> Iterator[slice]:
    """Yield slices of consecutive rows of an array, of about `nbytes` bytes each."""
    row_nbytes = max(1, X.shape[1] * X.dtype.itemsize)
    step = max(1, nbytes // row_nbytes)
    for start in range(0, X.shape[0], step):
        yield slice(start, min(start + step, X.shape[0]))


def as_matrix(X: Any) -> Any:
    """Return an array of float32, float64 or int8, or a CSR matrix whose rows have sorted and distinct columns."""
    refuse_masked(X, "X")
    if hasattr(X, "tocsr"):
        given, X = X, X.tocsr()
        if not X.has_canonical_format:
            X = X.copy() if X is given else X
            X.sum_duplicates()
    else:
        X = np.asarray(X) if isinstance(X, np.matrix) else np.asanyarray(X)  # keeps an np.memmap
    if X.ndim != 2:
        raise DataError(f"expected a matrix of rows and columns, found {X.ndim} dimension(s)", "X", "X.reshape(-1, 1)")
    if X.dtype.name in _KEPT_DTYPES:
        return X
    if X.dtype.kind == "c":
        remedy = "pass the real and the imaginary parts as columns, or X.real"
        raise DataError(f"Complex data not supported: found {X.dtype}", "X", remedy)  # as scikit-learn says it
    if X.dtype.kind not in "buif":
        try:
            return X.astype(np.float64)
        except (TypeError, ValueError) as fault:
            raise DataError(
                f"expected numbers, found dtype {X.dtype} ({fault})", "X", "encode the text, or pass a DataFrame"
            ) from None
    return X.astype(np.float64)


def refuse_masked(values: Any, name: str) -> None:
    """Refuse a NumPy array with masked values, since NumPy and scikit-learn would use what is under the mask."""
    if isinstance(values, np.ma.MaskedArray) and (n_masked := np.ma.count_masked(values)):
        remedy = f"replace them with {name}.filled(value), or drop their rows"
        raise DataError(f"expected no masked values, found {n_masked:,}", name, remedy)


def refuse_odd_target(y: Any) -> None:
    """Refuse a target with masked values or missing labels, and one of dates or complex numbers."""
    refuse_masked(y, "y")
    values = np.asarray(y)
    if values.dtype.kind == "c":
        raise TargetError(f"Complex data not supported: found {values.dtype}", "y", "pass the real part, y.real")
    if values.dtype.kind in "mM":
        remedy = "convert it to numbers, for example days since the first date"
        raise TargetError(f"expected numbers or the names of classes, found {values.dtype}", "y", remedy)
    if values.dtype.kind == "O" and values.ndim:  # not None
        import pandas as pd

        if (is_missing := pd.isna(values)).any():
            row = int(np.argwhere(is_missing)[0][0])
            raise TargetError("expected a value, found none", f"target, row {row}", "drop the row")


def as_column(values: Any, n_samples: int, name: str) -> np.ndarray:
    """Return one finite float64 number per row; weights must be at least 0."""
    values = as_targets(values, n_samples, name)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(f"expected one value per row, found shape {values.shape}", name)
    if not can_be_squared(values).all():
        row = int(np.flatnonzero(~can_be_squared(values))[0])
        raise not_finite(f"{name}, row {row}", values[row])
    if name == "weight" and (values < 0).any():
        row = int(np.flatnonzero(values < 0)[0])
        raise DataError(f"expected weights of at least 0, found {values[row]}", f"weight, row {row}")
    return values


def as_targets(values: Any, n_samples: int, name: str = "y") -> np.ndarray:
    """Return one or several float64 numbers per row."""
    refuse_masked(values, name)
    try:
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as fault:
        raise DataError(f"expected numbers ({fault})", name, "code the labels as numbers") from None
    if values.ndim not in (1, 2) or len(values) != n_samples:
        raise DataError(f"expected {n_samples} rows as in X, found shape {values.shape}", name, "pass matching arrays")
    return values


def as_names(names: Sequence[str] | np.ndarray, n_features: int) -> np.ndarray:
    """Return an object array with one str per column."""
    if len(names) != n_features:
        raise DataError(f"expected {n_features} feature names, found {len(names)}", "names", "one name per column")
    result = np.empty(n_features, dtype=object)
    result[:] = [str(name) for name in names]
    return result
