"""What grafting and online L1 coordinate descent share: a penalty, given or looked for, and the cut to s columns."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from daskfs.baselines.columns.base import ColumnBaseline, Selection, largest, null_model
from daskfs.baselines.columns.standard_columns import StandardColumns
from daskfs.kernels.baselines.online_descent import products
from daskfs.kernels.glm.newton import Predictions, Problem, mean_loss
from daskfs.parameters import Count, Positive

FIRST_SHARE = 0.5  # of the smallest penalty that keeps nothing
NEXT_SHARE = 0.8
MAX_PENALTIES = 30


class L1Stream(ColumnBaseline):
    """Base of the online methods with an L1 penalty: what they keep is cut to the s largest coefficients.

    Parameters
    ----------
    penalty : float, optional
        λ, in units of the mean loss over standardised columns. By default it is looked for: half of the largest
        gradient at the start, then, after `n_epochs`, 0.8 times as much in each further pass until enough columns are
        kept.
    n_epochs : int
        How often the stream of columns comes by at the first penalty.
    """

    penalty: Positive | None = None
    n_epochs: Count = 2

    @abstractmethod
    def _start(self, columns: StandardColumns, n_select: int, intercept: float, at: Predictions) -> Any:
        """Return the model without columns."""

    @abstractmethod
    def _epoch(self, model: Any, columns: StandardColumns, problem: Problem, lam: float) -> None:
        """Let all columns come by once."""

    @abstractmethod
    def _coefficients(self, model: Any, n_features: int) -> np.ndarray:
        """Return the coefficients of all standardised columns."""

    @abstractmethod
    def _most_active(self, model: Any) -> int:
        """Return the largest number of coefficients so far."""

    def _planned_passes(self, n_features: int, n_select: int) -> tuple[int, str]:
        if self.penalty is not None:
            return self.n_epochs, "a pass over all columns for each epoch"
        return 1 + self.n_epochs + MAX_PENALTIES, f"up to {MAX_PENALTIES} passes in search of the penalty, often less"

    def _select(
        self, columns: StandardColumns, problem: Problem, total: float, n_select: int, notes: list[str]
    ) -> Selection:
        first, at = null_model(problem)
        lam = self.penalty
        if lam is None:
            lam = FIRST_SHARE * _largest_product(columns, at.residual)
        model = self._start(columns, n_select, first, at)
        lines: list[tuple[float, int, int, float]] = []
        n_penalties = MAX_PENALTIES if self.penalty is None else 1
        for trial in range(n_penalties):
            for _ in range(self.n_epochs if trial == 0 else 1):
                self._epoch(model, columns, problem, lam)
                n_active = int(np.count_nonzero(self._coefficients(model, columns.n_features)))
                lines.append((lam, n_active, self._most_active(model), float(mean_loss(problem, at.z, at))))
            if n_active >= n_select or lam == 0.0:
                break
            lam *= NEXT_SHARE
        chosen = largest(np.abs(self._coefficients(model, columns.n_features)), n_select)
        self.penalty_, self.n_active_ = lines[-1][0], n_active
        names = ("penalty", "n_active", "most_active", "objective")
        history = {name: np.array(values) for name, values in zip(names, zip(*lines, strict=True), strict=True)}
        return Selection(chosen, history)


def _largest_product(columns: StandardColumns, residual: np.ndarray) -> float:
    size = 0.0
    for _, block in columns.blocks("penalty"):
        out = np.empty(len(block))
        products(block, residual, out)
        size = max(size, float(np.abs(out).max()))
    return size
