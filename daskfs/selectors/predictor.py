"""The linear predictor of a fitted selector, from the columns that it reads.

The result for a row depends only on that row, not on its block: products are summed within the row, in an order that
depends on the number of columns. BLAS would depend on the shape of the block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.feature_maps.base import MadeFeatures

_PIECE_NBYTES = 1 << 18
"""Bytes of products that are summed together, small enough for the cache."""


class LinearPredictor(NamedTuple):
    """Computes ``X @ coef + intercept`` for blocks of rows."""

    columns: np.ndarray
    """Columns of X in a block, ascending, int64."""
    coef: np.ndarray
    """Coefficients of these columns, or of the features made of them; shape (n_columns,) or (n_columns, n_classes)."""
    intercept: Any
    """A number, or with several classes an array."""
    made: MadeFeatures | None = None
    """The features made of the columns; None: the columns themselves."""

    def __call__(self, X: Any) -> Any:
        """Return the linear predictor of some rows.

        Parameters
        ----------
        X : ndarray or sparse array of shape (n_rows, n_columns)
        """
        return self.without_intercept(X) + self.intercept

    def without_intercept(self, X: Any) -> Any:
        """Return ``X @ coef`` for some rows."""
        if self.made is None and hasattr(X, "toarray"):
            return X @ self.coef
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        return _sums_of_rows(X if self.made is None else self.made.of(X), self.coef)

    def of_entries(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, n_rows: int) -> np.ndarray:
        """Return ``X @ coef`` for rows given by their entries; the entries of a row are summed in order.

        Parameters
        ----------
        rows, columns : ndarray of shape (n_entries,), int64
            Rows of the block, and positions among the predictor's columns.
        values : ndarray of shape (n_entries,), float64
        n_rows : int
        """
        if self.made is not None:
            X = np.zeros((n_rows, len(self.columns)))
            X[rows, columns] = values
            return np.asarray(self.without_intercept(X))
        sums = [np.bincount(rows, values * of_class[columns], n_rows) for of_class in np.atleast_2d(self.coef.T)]
        return sums[0] if self.coef.ndim == 1 else np.stack(sums, axis=1)


def _sums_of_rows(X: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Return ``X @ coef``, with each row summed separately."""
    by_class = np.atleast_2d(coef.T)  # also without columns
    found = np.zeros((len(X), len(by_class)))
    step = max(1, _PIECE_NBYTES // (8 * max(1, len(coef))))
    room = np.empty((min(step, len(X)), len(coef)))
    for start in range(0, len(X) if len(coef) else 0, step):
        piece = X[start : start + step]
        for k, of_class in enumerate(by_class):
            products = np.multiply(piece, of_class, out=room[: len(piece)])
            np.add.reduce(products, axis=1, out=found[start : start + step, k])
    return found[:, 0] if coef.ndim == 1 else found
