"""Selection on one subset by the user's estimator, instead of a path.

Workers import this file, so it is light: scikit-learn only if there is an estimator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.kernels.blocks.any_block import block_moments
from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.selectors.message.choices import Ballots, Choices, SelectionSettings, is_constant, of_one_subset


def chosen_by_estimator(
    X: np.ndarray | ColumnEntries, y: np.ndarray, weight: np.ndarray, settings: SelectionSettings
) -> Choices | None:
    """Select with a clone of the user's estimator: the columns with a nonzero coefficient, for all classes together."""
    m = block_moments(X, y, weight)
    if np.isnan(m.scale).any():
        return None
    y_mean: Any = m.y_mean
    if settings.classes:
        y_mean = np.bincount(y.astype(np.int64), weight, len(settings.classes)) / m.total
    selected, coef, intercept = np.empty(0, dtype=np.int64), np.empty(0), float(y[0])
    if y.min() < y.max():
        selected, coef, intercept = _fit_estimator(X, y, weight, settings.estimator)
    of_ballot = (np.zeros(1, dtype=np.int64), np.array([is_constant(y, weight)]), np.zeros(1), np.array([intercept]))
    return of_one_subset(m, y_mean, Ballots(*of_ballot, np.array([len(selected)]), selected, coef))


def _fit_estimator(
    X: np.ndarray | ColumnEntries, y: np.ndarray, weight: np.ndarray, estimator: Any
) -> tuple[np.ndarray, np.ndarray, float]:
    from sklearn.base import clone

    given: Any = X
    if isinstance(X, ColumnEntries):
        from scipy.sparse import csc_matrix

        given = csc_matrix((X.values, X.rows, X.starts), shape=X.shape)
    weights = {} if (weight == 1.0).all() else {"sample_weight": weight}
    fitted = clone(estimator).fit(given, y, **weights)
    coef = np.asarray(fitted.coef_, dtype=np.float64).reshape(-1, X.shape[1])
    selected = np.flatnonzero((coef != 0.0).any(axis=0))
    return selected, coef[0, selected], float(np.ravel(getattr(fitted, "intercept_", 0.0))[0])
