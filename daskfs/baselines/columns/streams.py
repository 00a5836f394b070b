"""Baselines that process columns as they arrive: online L0 and L1 coordinate descent, and grafting.

    Input: columns x_1, ..., x_p in a stream, penalty λ or number of features s
    1. For each column x_j
       online L0:  w_j = w_j - ∇_j f(w) / L_j; if more than s coefficients are nonzero, the smallest is set to zero
                   and its column is dropped.
       online L1:  w_j = soft(w_j - ∇_j f(w) / L_j, λ / L_j).
       grafting:   if x_j is outside the model and |∇_j f(w)| > λ, it joins; f(w) + λ ‖w‖₁ is minimised over the
                   columns of the model, and those whose coefficient becomes zero leave.
    2. Repeat for the number of epochs. The s features with the largest coefficients are selected.

The "two naive online implementations" of section 5 of H. Yang, R. Fujimaki, Y. Kusumura and J. Liu, "Online Feature
Selection: A Limited-Memory Substitution Algorithm and Its Asynchronous Parallel Variation", Proceedings of the 22nd
ACM SIGKDD Conference (2016), L0 and L1; and its benchmark, S. Perkins and J. Theiler, "Online Feature Selection using
Grafting", Proceedings of the 20th International Conference on Machine Learning (2003), section 5.

Differs from the papers
-----------------------
* Columns are standardised, so L_j is the bound of the loss's curvature. An unpenalised intercept takes a step after
  each column's step; in grafting it is fitted together with the columns.
* Online L0 rejects a candidate in advance if its coefficient is not larger than the smallest one. Adding and dropping
  it would give the same result.
* Yang et al. take the λ with which the batch method selects at least s features; an online method cannot know it. If
  `penalty` is not given, further passes search for it.
* The memory of grafting is bounded: once `max_active` columns are held, further ones are rejected, and a note says so.
  Without the bound, grafting holds as many columns as the penalty admits, six to ten times s if there is little noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from daskfs.baselines.columns.base import Chosen, ColumnBaseline, largest
from daskfs.baselines.null_model import null_model
from daskfs.baselines.standard_columns import StandardColumns
from daskfs.kernels.baselines.grafting import fit_entered, graft_block
from daskfs.kernels.baselines.online_descent import l0_steps, l1_steps, no_columns
from daskfs.kernels.glm.curvatures import update_hessian
from daskfs.kernels.glm.newton import Problem, mean_loss
from daskfs.kernels.glm.state import COMBINED, ENTERED, new_state
from daskfs.parameters import Count, Positive

FIRST_SHARE = 0.5  # of the smallest penalty that selects nothing
NEXT_SHARE = 0.8
MAX_PENALTIES = 30
ACTIVE_PER_SELECTED = 10
FAR = 0.1  # a longer first step renews the Hessian, in the same units
TOLERANCE = 1e-4  # largest step of a converged fit, in units of the mean loss's scale


class OnlineL0(ColumnBaseline):
    """Select from a stream of columns by coordinate descent that keeps the s largest coefficients.

    Parameters
    ----------
    n_epochs : int
        Number of times that the stream of columns is repeated.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, scores_ : see `daskfs.baselines.columns.base.ColumnBaseline`
    result_ : SelectionResult
        The history has one row for each epoch: epoch, taken (number of candidates that joined), n_active, objective.

    Notes
    -----
    The fit holds the kept columns, 8 n s bytes, and one block.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> OnlineL0(2).fit(X, 2 * X[:, 3] - X[:, 7]).selected_
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


class L1Stream(ColumnBaseline):
    """Base class of the online methods with an L1 penalty.

    Parameters
    ----------
    penalty : float, optional
        λ, in units of the mean loss over standardised columns. If not given, it is searched for: it starts at half of
        the largest initial gradient, and after `n_epochs` each further pass lowers it by the factor 0.8 until enough
        columns are kept.
    n_epochs : int
        Number of passes over the stream of columns at the first penalty.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, scores_ : see `daskfs.baselines.columns.base.ColumnBaseline`
    penalty_ : float
        The last penalty used.
    n_active_ : int
        Number of columns with a nonzero coefficient before the cut.
    result_ : SelectionResult
        The history has one row for each pass: penalty, n_active, most_active, objective.
    """

    _weighs_columns = True
    history_columns: ClassVar = {"penalty": float, "n_active": int, "most_active": int, "objective": float}

    penalty: Positive | None = None
    n_epochs: Count = 2

    @abstractmethod
    def _model(self, problem: Problem, n_features: int, n_select: int) -> _Model:
        """Return the model without columns."""

    @property
    def penalty_(self) -> float:
        """The last λ used."""
        return float(self.result_.history["penalty"].iloc[-1])

    @property
    def n_active_(self) -> int:
        """Number of columns with a nonzero coefficient before the cut."""
        return int(self.result_.history["n_active"].iloc[-1])

    @property
    def _n_asked(self) -> int | None:
        """Return the number of columns asked for; None if the user set the penalty, which may keep fewer."""
        return self.n_features_to_select if self.penalty is None else None

    def _planned_passes(self, n_select: int) -> tuple[int, str]:
        if self.penalty is not None:
            return self.n_epochs, "a pass over all columns for each epoch"
        return 1 + self.n_epochs + MAX_PENALTIES, f"up to {MAX_PENALTIES} passes to find the penalty, often fewer"

    def _select(self, columns: StandardColumns, problem: Problem, n_select: int) -> Chosen:
        model = self._model(problem, columns.n_features, n_select)
        lam = self.penalty
        if lam is None:
            lam = FIRST_SHARE * float(np.abs(columns.products(model.at.residual)).max())
        lines: list[tuple[float, ...]] = []
        for trial in range(MAX_PENALTIES if self.penalty is None else 1):
            for _ in range(self.n_epochs if trial == 0 else 1):
                model.begin(lam)
                for first, block in columns.blocks():
                    model.take(block, first, lam)
                n_active = int(np.count_nonzero(model.coefficients()))
                lines.append((lam, n_active, model.most_active, mean_loss(problem, model.at.z, model.at)))
            if n_active >= n_select or lam == 0.0:
                break
            lam *= NEXT_SHARE
        why = f"they have the largest of {n_active} coefficients at the penalty {lines[-1][0]:.4g}"
        return largest(np.abs(model.coefficients()), n_select), lines, [*model.notes, why]


class _Model(ABC):
    """Coefficients of standardised columns with an L1 penalty, and their predictions."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.most_active = problem, 0
        self.first_intercept, self.at = null_model(problem)

    @abstractmethod
    def begin(self, lam: float) -> None:
        """Prepare the model for a penalty before a pass over the columns."""

    @abstractmethod
    def take(self, block: np.ndarray, first: int, lam: float) -> None:
        """Process the columns of a block; each is a row of it."""

    @abstractmethod
    def coefficients(self) -> np.ndarray:
        """Return the coefficients of all columns."""

    @property
    def notes(self) -> list[str]:
        """Return notes on the passes."""
        return []


class OnlineL1(L1Stream):
    """Select from a stream of columns by coordinate descent with an L1 penalty, cut to s columns.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, scores_, penalty_, n_active_, result_ : see `L1Stream`

    Notes
    -----
    The fit holds no columns, only one coefficient per column and the predictions.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> OnlineL1(2).fit(X, 2 * X[:, 3] - X[:, 7]).selected_
    array([3, 7])
    """

    method = "online_l1"

    def _held_nbytes(self, n_samples: int, n_features: int, n_select: int) -> int:
        return 64 * n_samples + 40 * n_features

    def _model(self, problem: Problem, n_features: int, n_select: int) -> _Model:
        return _Descent(problem, n_features, self._loss.curvature_bound)


class _Descent(_Model):
    def __init__(self, problem: Problem, n_features: int, bound: float) -> None:
        super().__init__(problem)
        self.bound, self.intercept, self.coef = bound, np.array([self.first_intercept]), np.zeros(n_features)

    def begin(self, lam: float) -> None:
        """Do nothing: each step receives the penalty."""

    def take(self, block: np.ndarray, first: int, lam: float) -> None:
        l1_steps(self.problem, self.bound, block, first, lam, self.coef, self.intercept, self.at)
        self.most_active = max(self.most_active, int(np.count_nonzero(self.coef)))

    def coefficients(self) -> np.ndarray:
        return self.coef


class Grafting(L1Stream):
    """Select from a stream of columns by grafting, cut to s columns.

    Parameters
    ----------
    max_active : int, optional
        Maximum number of columns held; by default ten times as many as are selected.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, scores_, penalty_, n_active_, result_ : see `L1Stream`

    Notes
    -----
    The fit holds up to `max_active` columns, 8 n max_active bytes, and 5 max_active² numbers.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> Grafting(2).fit(X, 2 * X[:, 3] - X[:, 7]).selected_
    array([3, 7])
    """

    method = "grafting"

    max_active: Count | None = None

    def _capacity(self, n_features: int, n_select: int) -> int:
        return min(n_features, self.max_active or ACTIVE_PER_SELECTED * n_select)

    def _held_nbytes(self, n_samples: int, n_features: int, n_select: int) -> int:
        capacity = self._capacity(n_features, n_select)
        return 8 * n_samples * (capacity + 48) + 8 * (capacity + 1) * ((1 + COMBINED) * capacity + 16) + 48 * n_features

    def _model(self, problem: Problem, n_features: int, n_select: int) -> _Model:
        return _Grafted(problem, n_features, self._capacity(n_features, n_select))


class _Grafted(_Model):
    def __init__(self, problem: Problem, n_features: int, capacity: int) -> None:
        super().__init__(problem)
        self.state = new_state(np.empty((len(problem.y), 1)), capacity)._replace(at=self.at)
        self.state.coef[0] = self.first_intercept
        self.slot = np.full(n_features, -1, dtype=np.int64)
        self.n_refused, self.capacity = 0, capacity
        deviation = float(np.sqrt((problem.share * (problem.y - problem.share @ problem.y) ** 2).sum()))
        self.tol, self.far = TOLERANCE * max(deviation, 1e-300), FAR * deviation

    def begin(self, lam: float) -> None:
        update_hessian(self.problem, True, self.state)
        if self.state.counts[ENTERED]:
            fit_entered(self.problem, lam, self.tol, self.far, self.slot, self.state)

    def take(self, block: np.ndarray, first: int, lam: float) -> None:
        self.n_refused += graft_block(self.problem, block, first, lam, self.tol, self.far, self.slot, self.state)[1]
        self.most_active = max(self.most_active, int(self.state.counts[ENTERED]))

    def coefficients(self) -> np.ndarray:
        coef, n = np.zeros(len(self.slot)), int(self.state.counts[ENTERED])
        coef[self.state.entered[:n]] = self.state.coef[1 : n + 1]
        return coef

    @property
    def notes(self) -> list[str]:
        if not self.n_refused:
            return []
        return [f"{self.n_refused} columns were refused because {self.capacity} were held: increase max_active"]
