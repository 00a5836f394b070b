"""The rules ``os`` and ``paper`` on a quadratic model: Algorithm 1 in terms of the members' products.

See `daskfs.kernels.substitution.steps`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs.kernels.linear.linalg import multiply
from daskfs.kernels.substitution.exchange import COUNTS, Candidates
from daskfs.kernels.substitution.steps import (
    COLD,
    MARGIN,
    OS,
    PAPER,
    STATE,
    Model,
    StepRule,
    largest_eigenvalue,
    steps_scan,
)
from daskfs.selectors.online_substitution.engines.base import Rule
from daskfs.selectors.online_substitution.engines.quadratic import QuadraticModel, QuadraticState
from daskfs.selectors.online_substitution.members import Members

PART_OF_LIMIT = 0.99
"""Share of Theorem 2's limit, which must not be reached. By Theorem 3 the longest step has the best local optimum."""


@dataclass(slots=True)
class StepsState(QuadraticState):
    """The model on the way to its minimum."""

    product: np.ndarray
    """M v, of shape (capacity,)."""
    power: np.ndarray
    """Vector of the power iteration, of shape (capacity,)."""
    largest: float = 0.0
    """Its estimate of λmax(M)."""
    is_changed: bool = False
    """Whether the members have changed since the estimate."""
    excess: float = -np.inf
    """The largest excess of f over the bound of inequality (11)."""
    moved: float = 0.0
    """Σ |v_next - v|² over all steps."""


class StepsModel(QuadraticModel):
    """The model, with a gradient step of the members for each candidate; see `QuadraticModel`."""

    State = StepsState
    reverted = ("matrix", "linear", "coef", "product")

    def __init__(self, members: Members, rule: Rule, constant: float = 0.0) -> None:
        super().__init__(members, rule, constant)
        self._eta, self._lipschitz = rule.eta, rule.lipschitz

    def _first_state(self, capacity: int) -> StepsState:
        matrix, (linear, coef, product) = np.zeros((capacity, capacity)), np.zeros((3, capacity))
        return StepsState(matrix, linear, coef, self.constant, product, np.ones(capacity))

    def _scan(
        self, cross: np.ndarray, linear: np.ndarray, diagonal: np.ndarray, usable: np.ndarray, start: int
    ) -> tuple[int, int]:
        members, rule, state = self.members, self.rule, self.state
        model = Model(state.matrix, state.linear, state.coef, state.product, state.power)
        name = PAPER if rule.name == "paper" else OS
        steps = StepRule(name, self._eta, rule.m, rule.c, self._lipschitz, rule.checks)
        found = np.array([(state.largest, state.value, state.excess, state.moved, state.is_changed)], STATE)
        counts = np.zeros(1, COUNTS)
        b, slot = steps_scan(
            Candidates(cross, linear, diagonal, usable), start, model, members.n_members, members.n_fixed, steps,
            found, counts,
        )  # fmt: skip
        state.largest, state.value, state.excess, state.moved, state.is_changed = found[0].item()
        self.counters.n_presented += int(counts[0]["n_presented"])
        self.counters.n_refused += int(counts[0]["n_refused"])
        return int(b), int(slot)

    def _entered(self) -> None:
        state, k = self.state, self.members.n_members
        state.product[:k] = multiply(state.matrix[:k, :k].copy(), state.coef[:k].copy())
        state.value = self.constant + float(np.sum(state.coef[:k] * (0.5 * state.product[:k] - state.linear[:k])))

    def renew(self) -> None:
        """Recompute M v and the value; λmax has changed."""
        self._entered()
        self.state.is_changed = True

    def begin(self, coef: np.ndarray) -> None:
        """Start from these coefficients; see `QuadraticModel.begin`."""
        super().begin(coef)
        self.state.power[:], self.state.largest, self.state.is_changed = 1.0, 0.0, True

    def set_linear(self, linear: np.ndarray, to_minimum: bool = False) -> None:
        """Replace c; see `QuadraticModel.set_linear`."""
        k = self.members.n_members
        self.state.linear[:k] = linear
        if to_minimum:
            inverse = self.inverse_of_members()
            if inverse is not None:
                self.coef[:k] = self.minimum(inverse)
        self._entered()
        self._shorten_step()

    def revert(self, kept: dict[str, np.ndarray]) -> None:
        """Restore the model; λmax has changed."""
        super().revert(kept)
        self.state.is_changed = True

    def _shorten_step(self) -> None:
        """Set the step of the paper's rule below Theorem 2's limit for the present members."""
        state, rule, k = self.state, self.rule, self.members.n_members
        if rule.rho is None or rule.name != "paper" or rule.eta > 0.0:
            return
        bound = rule.lipschitz
        if bound == 0.0:
            largest = MARGIN * largest_eigenvalue(state.matrix, k, state.power, COLD) if k else 0.0
            bound = largest + 1.0  # a candidate of unit size adds at most its own curvature
        self._eta, self._lipschitz = PART_OF_LIMIT * 0.5 / (bound * (1.0 + rule.rho)), bound
