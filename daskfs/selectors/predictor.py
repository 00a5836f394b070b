"""The linear predictor of a fitted selector, from the columns that it reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.feature_maps.base import MadeFeatures


class LinearPredictor(NamedTuple):
    """Makes ``X @ coef + intercept`` of blocks of rows."""

    columns: np.ndarray
    """Columns of X that a block has, ascending, int64."""
    coef: np.ndarray
    """Shape (n_columns,), of several classes (n_columns, n_classes): of these, or of what is made of them."""
    intercept: Any
    """A number, or of several classes an array."""
    made: MadeFeatures | None = None
    """What is made of the columns; None: they are taken as they are."""

    def __call__(self, X: Any) -> Any:
        """Return the linear predictor of some rows.

        Parameters
        ----------
        X : ndarray or sparse array of shape (n_rows, n_columns)
        """
        return self.without_intercept(X) + self.intercept

    def without_intercept(self, X: Any) -> Any:
        """Return ``X @ coef`` of some rows."""
        if self.made is not None:
            X = self.made.of(X.toarray() if hasattr(X, "toarray") else X)
        return X @ self.coef
