"""Online L0 coordinate descent: one step for each column as it comes, and only the s largest coefficients are kept.

    Input: columns x_1, ..., x_p in a stream, number of features s
    1. For each column x_j: w_j = w_j - ∇_j f(w) / L_j;
    2. if more than s coefficients are not zero, the smallest becomes zero and its column is forgotten.
    3. Again, for the number of epochs.

The L0 coordinate descent of section 5 of H. Yang, R. Fujimaki, Y. Kusumura and J. Liu, "Online Feature Selection: A
Limited-Memory Substitution Algorithm and Its Asynchronous Parallel Variation", Proceedings of the 22nd ACM SIGKDD
Conference (2016), one of "two naive online implementations".

Differs from the paper
----------------------
* Columns are standardised, so that L_j is the bound of the loss's curvature, and there is an intercept, which takes a
  step after each of theirs.
* A candidate whose coefficient is not larger than the smallest is refused before anything moves, as adding and
  dropping it would end.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from daskfs.baselines.columns.base import Chosen, ColumnBaseline, null_model
from daskfs.baselines.columns.standard_columns import StandardColumns
from daskfs.kernels.baselines.online_descent import l0_steps, no_columns
from daskfs.kernels.glm.newton import Problem, mean_loss
from daskfs.parameters import Count


class OnlineL0(ColumnBaseline):
    """Select from a stream of columns by coordinate descent that keeps s coefficients.

    Parameters
    ----------
    n_epochs : int
        How often the stream of columns comes by.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, scores_ : as of `daskfs.baselines.columns.base.ColumnBaseline`
    result_ : SelectionResult
        Its history has one row for each epoch: epoch, taken (candidates that came in), n_active, objective.

    Notes
    -----
    Holds the kept columns, 8 n s bytes, and one block.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(500)
    >>> OnlineL0(2).fit(X, y).selected_
    array([3, 7])
    """

    method = "online_l0"
    history_columns: ClassVar = {"epoch": int, "taken": int, "n_active": int, "objective": float}

    n_epochs: Count = 2

    def _held_nbytes(self, n_samples: int, n_features: int, n_select: int) -> int:
        return 8 * n_samples * (n_select + 8) + 8 * n_features

    def _planned_passes(self, n_select: int) -> tuple[int, str]:
        return self.n_epochs, "a pass over all columns for each epoch"

    def _select(self, columns: StandardColumns, problem: Problem, n_select: int) -> Chosen:
        first, at = null_model(problem)
        intercept = np.array([first])
        kept = no_columns(columns.n_samples, columns.n_features, n_select)
        lines: list[tuple[float, ...]] = []
        for epoch in range(self.n_epochs):
            n_taken = 0
            for start, block in columns.blocks():
                n_taken += l0_steps(problem, self._loss.curvature_bound, block, start, kept, intercept, at)
            lines.append((epoch + 1, n_taken, kept.n_held[0], mean_loss(problem, at.z, at)))
        n = int(kept.n_held[0])
        order = np.argsort(-np.abs(kept.coef[:n]), kind="stable")
        why = f"they have the largest coefficients after {self.n_epochs} epochs of coordinate steps"
        return kept.features[:n][order], lines, [why]
