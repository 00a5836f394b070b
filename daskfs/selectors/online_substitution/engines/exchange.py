"""The rule ``exchange``: add a candidate exactly, then drop the selected feature with the smallest removal cost.
See `daskfs.kernels.substitution.exchange`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs.kernels.linear.linalg import multiply
from daskfs.kernels.substitution.exchange import COUNTS, Candidates, exchange_scan, removal_costs
from daskfs.selectors.online_substitution.engines.quadratic import QuadraticModel, QuadraticState


@dataclass(slots=True)
class ExchangeState(QuadraticState):
    """The model, minimised over the members."""

    inverse: np.ndarray
    """M⁻¹ of the members, of shape (capacity, capacity)."""
    n_since: int = 0
    """Number of entrances since the inverse was last recomputed."""


class ExchangeModel(QuadraticModel):
    """The model at its minimum; see `QuadraticModel`."""

    State = ExchangeState
    reverted = ("matrix", "linear", "coef", "inverse")

    @property
    def inverse(self) -> np.ndarray:
        """M⁻¹ of the members, of shape (capacity, capacity)."""
        inverse: np.ndarray = self.state.inverse
        return inverse

    @property
    def optimum(self) -> np.ndarray:
        """v, the minimiser, of shape (capacity,)."""
        return self.coef

    @property
    def squares(self) -> np.ndarray:
        """The members' products with themselves, without the ridge, of shape (capacity,)."""
        squares: np.ndarray = np.diagonal(self.state.matrix) - self.rule.ridge
        return squares

    def _first_state(self, capacity: int) -> ExchangeState:
        square = (capacity, capacity)
        return ExchangeState(np.zeros(square), np.zeros(capacity), np.zeros(capacity), self.constant, np.zeros(square))

    def _scan(
        self, cross: np.ndarray, linear: np.ndarray, diagonal: np.ndarray, usable: np.ndarray, start: int
    ) -> tuple[int, int]:
        members, state = self.members, self.state
        counts, change = np.zeros(1, COUNTS), np.zeros(1)
        b, slot = exchange_scan(
            Candidates(cross, linear, diagonal, usable), start, state.inverse, state.coef, self.squares,
            self.rule.ridge, members.n_members, members.n_fixed, self.rule.tolerance, counts, change,
        )  # fmt: skip
        self.counters.n_presented += int(counts[0]["n_presented"])
        self.counters.n_refused += int(counts[0]["n_refused"])
        state.value += float(change[0])
        return int(b), int(slot)

    def _entered(self) -> None:
        self.state.n_since += 1
        if self.state.n_since >= self.members.capacity:  # rank-one updates have accumulated rounding errors
            self.renew()

    def renew(self) -> None:
        """Recompute the inverse, and go to the minimum."""
        state, k, inverse = self.state, self.members.n_members, self.inverse_of_members()
        if inverse is not None:
            state.inverse[:k, :k] = inverse
            state.coef[:k] = self.minimum(inverse)
            state.value = self.constant - 0.5 * float(np.sum(state.linear[:k] * state.coef[:k]))
        state.n_since = 0

    def removal_costs(self) -> np.ndarray:
        """Return the rise of f when each member is dropped and the others are refitted, shape (n_members,)."""
        costs: np.ndarray = removal_costs(self.state.inverse, self.coef, self.members.n_members)
        return costs

    def begin(self, coef: np.ndarray) -> None:
        """Start from these coefficients; see `QuadraticModel.begin`."""
        super().begin(coef)
        self.state.n_since = 0

    def set_products(self, products: np.ndarray) -> None:
        """Replace the products of the members; see `QuadraticModel.set_products`."""
        super().set_products(products)
        k, inverse = self.members.n_members, self.inverse_of_members()
        self.state.inverse[:k, :k] = 0.0 if inverse is None else inverse

    def set_linear(self, linear: np.ndarray, to_minimum: bool = False) -> None:
        """Replace c and go to the minimum."""
        state, k = self.state, self.members.n_members
        state.linear[:k] = linear
        state.coef[:k] = multiply(state.inverse[:k, :k].copy(), state.linear[:k].copy())
