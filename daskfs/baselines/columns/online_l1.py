"""Online L1 coordinate descent: one soft-thresholded step for each column as it comes.

    Input: columns x_1, ..., x_p in a stream, penalty λ
    1. For each column x_j: w_j = soft(w_j - ∇_j f(w) / L_j, λ / L_j).
    2. Again, for the number of epochs. The s features of largest coefficients are selected.

The L1 coordinate descent of section 5 of H. Yang, R. Fujimaki, Y. Kusumura and J. Liu, "Online Feature Selection: A
Limited-Memory Substitution Algorithm and Its Asynchronous Parallel Variation", Proceedings of the 22nd ACM SIGKDD
Conference (2016), one of "two naive online implementations".

Differs from the paper
----------------------
* Columns are standardised, so that L_j is the bound of the loss's curvature, and there is an intercept, which takes a
  step after each of theirs.
* The paper takes the λ with which the batch method selects at least s features; online nobody knows it. Without
  `penalty` it is looked for in further passes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.baselines.columns.l1_stream import L1Stream
from daskfs.baselines.columns.standard_columns import StandardColumns
from daskfs.kernels.baselines.online_descent import l1_steps
from daskfs.kernels.glm.newton import Predictions, Problem
from daskfs.losses import find_loss


class OnlineL1(L1Stream):
    """Select from a stream of columns by coordinate descent with an L1 penalty, cut to s columns.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, scores_ : as of `daskfs.baselines.columns.base.ColumnBaseline`
    penalty_ : float
        That was used last.
    n_active_ : int
        Columns with a coefficient before the cut.
    result_ : SelectionResult
        Its history has one row for each pass: penalty, n_active, most_active, objective.

    Notes
    -----
    Holds no column: a coefficient for each and the predictions.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(500)
    >>> OnlineL1(2).fit(X, y).selected_
    array([3, 7])
    """

    method = "online_l1"

    def _held_nbytes(self, n_samples: int, n_features: int, n_select: int) -> int:
        return 64 * n_samples + 40 * n_features

    def _why(self) -> str:
        return f"they have the largest of {self.n_active_} coefficients with the penalty {self.penalty_:.4g}"

    def _start(self, columns: StandardColumns, n_select: int, intercept: float, at: Predictions) -> _Model:
        return _Model(np.zeros(columns.n_features), np.array([intercept]), at, np.zeros(1, dtype=np.int64))

    def _epoch(self, model: _Model, columns: StandardColumns, problem: Problem, lam: float) -> None:
        for first, block in columns.blocks("online-l1"):
            l1_steps(
                problem, find_loss(self.loss).curvature_bound, block, first, lam, model.coef, model.intercept, model.at
            )
            model.most[0] = max(model.most[0], np.count_nonzero(model.coef))

    def _coefficients(self, model: _Model, n_features: int) -> np.ndarray:
        return model.coef

    def _most_active(self, model: _Model) -> int:
        return int(model.most[0])


class _Model(NamedTuple):
    coef: np.ndarray
    intercept: np.ndarray
    at: Predictions
    most: np.ndarray
