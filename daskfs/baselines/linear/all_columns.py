"""Base class of methods that hold all columns of all rows in memory: their rows and targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import as_vector
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.shared.targets import classes_of


def rows_of(matrix: Matrix) -> Any:
    """Return all rows; sparse ones as a csr_array."""
    entries = matrix.sparse_rows(slice(None))
    if entries is None:
        return matrix.read(slice(None))
    data = np.asarray(entries.data, dtype=np.float64)
    kind = np.int32 if max(matrix.shape[1], len(data)) < 2**31 else np.int64
    return csr_array((data, entries.indices.astype(kind), entries.indptr.astype(kind)), shape=matrix.shape)


def refuse_non_finite(matrix: Matrix, columns: np.ndarray) -> None:
    """Raise an error that names the first value of the columns that is not finite."""
    for j in columns:
        values = matrix.read(slice(None), np.array([j])).ravel()
        for row in np.flatnonzero(~np.isfinite(values)):
            raise matrix.bad_value(int(row), int(j), values[row])


class AllColumns(BaseSelector):
    """Base class of methods that fit all columns in memory."""

    @property
    def is_nested(self) -> bool:
        """Whether one fit contains the selections of fewer features."""
        return False

    @property
    def is_logistic(self) -> bool:
        """Whether the target is a class."""
        return find_loss(self.loss_).is_classifier

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Return the numeric targets, shape (n_samples, n_targets), and set the classes.

        Classes are -1 and 1, of two the second, of several each against the rest; with a loss of all classes 0 and 1.
        """
        if not self.is_logistic:
            return as_vector(y)[:, None]
        self.classes_ = classes_of(y, None, many=True)
        positive = self.classes_[1:] if len(self.classes_) == 2 and not self._loss.has_classes else self.classes_
        return np.where(y[:, None] == positive, 1.0, 0.0 if self._loss.has_classes else -1.0)
