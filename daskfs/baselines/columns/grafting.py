"""Grafting: a column whose gradient exceeds the penalty joins the model, which is then optimised anew.

    Input: columns x_1, ..., x_p in a stream, penalty λ
    1. For each column x_j outside the model: if |∇_j f(w)| > λ, it joins;
    2. minimise f(w) + λ ‖w‖₁ over the model's columns; those whose coefficient becomes zero leave.
    3. Again, for the number of epochs. The s features of largest coefficients are selected.

S. Perkins and J. Theiler, "Online Feature Selection using Grafting", Proceedings of the 20th International Conference
on Machine Learning (2003), section 5 (the online variant); the benchmark of section 5 of H. Yang, R. Fujimaki, Y.
Kusumura and J. Liu, "Online Feature Selection: A Limited-Memory Substitution Algorithm and Its Asynchronous Parallel
Variation", Proceedings of the 22nd ACM SIGKDD Conference (2016).

Differs from the papers
-----------------------
* Columns are standardised and there is an intercept without penalty.
* The memory is bounded: where `max_active` columns are held, further ones are refused, which a note says. Without it
  grafting holds as many columns as the penalty lets in, six to ten times s where the noise is small.
* Yang et al. take the λ with which the batch method selects at least s features; online nobody knows it. Without
  `penalty` it is looked for in further passes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from daskfs.baselines.columns.l1_stream import L1Stream
from daskfs.baselines.columns.standard_columns import StandardColumns
from daskfs.kernels.baselines.grafting import drop_zeros, graft_block
from daskfs.kernels.glm.newton import Predictions, Problem, hessian_weights
from daskfs.kernels.glm.proximal import solve_entered
from daskfs.kernels.glm.state import ENTERED, GlmState, new_state
from daskfs.kernels.linear.weighted_gram import extend_hessian
from daskfs.parameters import Count

ACTIVE_PER_SELECTED = 10
TOLERANCE = 1e-4  # of a fit's last step, in units of the mean loss's scale


class Grafting(L1Stream):
    """Select from a stream of columns by grafting, cut to s columns.

    Parameters
    ----------
    max_active : int, optional
        Columns held at most; by default ten times as many as are selected.

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
    Holds up to `max_active` columns, 8 n max_active bytes, and as many squared numbers.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(500)
    >>> Grafting(2).fit(X, y).selected_
    array([3, 7])
    """

    method = "grafting"

    max_active: Count | None = None

    def _capacity(self, n_features: int, n_select: int) -> int:
        return min(n_features, self.max_active or ACTIVE_PER_SELECTED * n_select)

    def _held_nbytes(self, n_samples: int, n_features: int, n_select: int) -> int:
        capacity = self._capacity(n_features, n_select)
        return 8 * n_samples * (capacity + 48) + 8 * (capacity + 1) * (capacity + 12) + 48 * n_features

    def _why(self) -> str:
        return f"they have the largest of {self.n_active_} coefficients with the penalty {self.penalty_:.4g}"

    def _select(self, columns: Any, problem: Problem, total: float, n_select: int, notes: list[str]) -> Any:
        self._unit = max(float(np.sqrt((problem.share * (problem.y - problem.share @ problem.y) ** 2).sum())), 1e-300)
        self._n_refused = 0
        chosen = super()._select(columns, problem, total, n_select, notes)
        if self._n_refused:
            room = self._capacity(columns.n_features, n_select)
            notes.append(f"{self._n_refused} columns found no room among the {room} held: a larger max_active has more")
        del self._unit, self._n_refused
        return chosen

    def _start(self, columns: StandardColumns, n_select: int, intercept: float, at: Predictions) -> _Model:
        capacity = self._capacity(columns.n_features, n_select)
        state = new_state(columns.n_samples, 1, capacity)._replace(at=at)
        state.coef[0] = intercept
        return _Model(state, np.full(columns.n_features, -1, dtype=np.int64), np.zeros(1, dtype=np.int64))

    def _epoch(self, model: _Model, columns: StandardColumns, problem: Problem, lam: float) -> None:
        state, slot, tol = model.state, model.slot, TOLERANCE * self._unit
        n = int(state.counts[ENTERED])
        hessian_weights(problem, state.at, state.weight)
        extend_hessian(state.columns, state.identity, n, 0, state.weight, state.hessian, state.work)
        if n:
            solve_entered(problem, lam, tol, math.inf, state)
            drop_zeros(slot, state)
        for first, block in columns.blocks("grafting"):
            _, n_refused = graft_block(problem, block, first, lam, tol, slot, state)
            self._n_refused += n_refused
            model.most[0] = max(model.most[0], state.counts[ENTERED])

    def _coefficients(self, model: _Model, n_features: int) -> np.ndarray:
        coef, n = np.zeros(n_features), int(model.state.counts[ENTERED])
        coef[model.state.entered[:n]] = model.state.coef[1 : n + 1]
        return coef

    def _most_active(self, model: _Model) -> int:
        return int(model.most[0])


class _Model(NamedTuple):
    state: GlmState
    slot: np.ndarray
    most: np.ndarray
