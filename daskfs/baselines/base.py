"""Base of the baselines that select a given number of columns for one target, of numbers or two classes."""

from __future__ import annotations

import numpy as np

from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.selectors.shared.refit import MeanLoss, SelectedFit, refit_selected
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target, classes_of
from daskfs.selectors.sized import SelectsSize


class SizedBaseline(SelectsSize):
    """A baseline that selects a given number of columns for one target."""

    def _target_and_weight(self, matrix: Matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of the target and weights of all rows; two classes are learnt here and coded as -1 and +1."""
        y, given = checked_target(matrix, self.loss_), matrix.read_weight(slice(None))
        weight = np.ones(len(y)) if given is None else np.array(given, dtype=np.float64)
        if find_loss(self.loss_).is_classifier:
            self.classes_ = classes_of(y[weight > 0.0], None)
            y = np.where(y == self.classes_[1], 1.0, -1.0)
        return np.array(y, dtype=np.float64), weight

    def _refitted(self, run: Run, columns: np.ndarray, ridge: float | None = 0.0) -> SelectedFit:
        """Return the fit of the loss, with at most two classes, on some columns only."""
        positive = float(self.classes_[1]) if find_loss(self.loss_).is_classifier else None
        return refit_selected(run, columns, MeanLoss(self.loss_, positive, ridge=ridge))
