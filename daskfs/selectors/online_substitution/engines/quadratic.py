"""A quadratic model of the loss in the coefficients of the members, and the entrance of candidates.

    f(v) = ½ vᵀ M v - cᵀ v + constant,   M = Zᵀ D Z / n + ridge

Z has the members' columns. With the squared loss f is the loss itself, D = 1 and c = Zᵀ y / n. If the prediction is
shared with other workers, whose features are meanwhile fixed, c is computed from what these leave unexplained, and D
may be the curvature of another loss (`daskfs.selectors.asy_os.worker`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from daskfs.kernels.linear.linalg import invert, multiply
from daskfs.kernels.substitution.products import NO_WEIGHT, cross_products, row_products
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.base import Counters, Rule, entrances
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.shared.record import Record


def curved_products(
    left: np.ndarray,
    right: np.ndarray,
    weight: np.ndarray,
    total: float,
    centre: float = 0.0,
    left_sums: np.ndarray | None = None,
    right_sums: np.ndarray | None = None,
    which: np.ndarray | None = None,
) -> np.ndarray:
    """Return (Σ_i d_i a_i b_i - Σ_i d_i a_i · Σ_i d_i b_i / Σ_i d_i) / n of floating-point columns, shape (A, B).

    Parameters
    ----------
    left, right : ndarray of shapes (A, n_samples) and (B, n_samples)
    weight : ndarray of shape (n_samples,), or `NO_WEIGHT`
        d, the curvature of each sample's loss.
    total : float
        n, the sum of the samples' weights.
    centre : float
        Σ d, which centres the columns to profile out the intercept. 0: they are not centred.
    left_sums, right_sums : ndarray of shapes (A,) and (B,), optional
        Σ_i d_i a_i and Σ_i d_i b_i, if known.
    which : ndarray of int, optional
        Rows of `right` to use; all by default.
    """
    products = cross_products(left, right, weight, which)
    if centre > 0.0:
        right = right if which is None else right[which]
        right_sums = row_products(right, weight, NO_WEIGHT) if right_sums is None else right_sums
        if left_sums is None:
            left_sums = right_sums if left is right else row_products(left, weight, NO_WEIGHT)
        products -= left_sums[:, None] * (right_sums / centre)
    products /= total
    return products


class Products(Protocol):
    """The inner products of columns that M consists of: `Members` themselves, or others."""

    def within(self, columns: Columns) -> np.ndarray:
        """Return the products of a batch with itself, of shape (B, B)."""

    def against(self, columns: Columns, one: Columns) -> np.ndarray:
        """Return the products of a batch with one column, of shape (B,)."""


@dataclass(slots=True)
class QuadraticState(Record):
    """The model; subclasses add what their rule needs."""

    matrix: np.ndarray
    """M of the members, ridge included, of shape (capacity, capacity)."""
    linear: np.ndarray
    """c, of shape (capacity,)."""
    coef: np.ndarray
    """v, of shape (capacity,)."""
    value: float
    """f(v)."""


class QuadraticModel(ABC):
    """The model of the present members, and the rule by which candidates replace them.

    Parameters
    ----------
    members : Members
    rule : Rule
    constant : float
        f without features.
    """

    State: ClassVar[type[QuadraticState]]
    reverted: ClassVar[tuple[str, ...]]
    """The fields of the state that `revert` restores."""

    def __init__(self, members: Members, rule: Rule, constant: float = 0.0) -> None:
        self.members, self.rule, self.constant = members, rule, constant
        self.counters = Counters()
        self.state: Any = self._first_state(members.capacity)

    @abstractmethod
    def _first_state(self, capacity: int) -> QuadraticState:
        """Return the state without members."""

    @property
    def coef(self) -> np.ndarray:
        """v, of shape (capacity,)."""
        coef: np.ndarray = self.state.coef
        return coef

    @property
    def value(self) -> float:
        """f(v)."""
        return float(self.state.value)

    def walk(
        self, columns: Columns, cross: np.ndarray, linear: np.ndarray, usable: np.ndarray, products: Products
    ) -> int:
        """Let candidates enter one after the other; return how many entered.

        Parameters
        ----------
        columns : Columns
            With their squares as in M.
        cross : ndarray of shape (B, capacity)
            Products with the members; changed in place.
        linear : ndarray of shape (B,)
            Entries of c.
        usable : ndarray of shape (B,), bool
            Changed in place.
        products : Products
        """
        members, counters = self.members, self.counters
        diagonal = columns.square + self.rule.ridge
        placed: dict[int, int] = {}
        n_before = counters.n_entered
        for b, slot, replaces in entrances(
            members,
            columns,
            cross,
            usable,
            scan=lambda start: self._scan(cross, linear, diagonal, usable, start),
            within=lambda: products.within(columns),
            after=lambda b: products.against(columns.take(slice(b + 1, None)), columns.take(slice(b, b + 1))),
        ):
            counters.n_exchanged += replaces
            counters.n_entered += 1
            self.enter(slot, cross[b], diagonal[b], linear[b])
            placed[slot] = b
        members.copy_in(columns, placed)
        return counters.n_entered - n_before

    def enter(self, slot: int, cross: np.ndarray, square: float, linear: float) -> None:
        """Add the member in a slot: its products with the members, its own square, and its entry of c."""
        state, k = self.state, self.members.n_members
        state.matrix[slot, :k] = state.matrix[:k, slot] = cross[:k]
        state.matrix[slot, slot] = square
        state.linear[slot] = linear
        self._entered()

    @abstractmethod
    def _scan(
        self, cross: np.ndarray, linear: np.ndarray, diagonal: np.ndarray, usable: np.ndarray, start: int
    ) -> tuple[int, int]:
        """Return the first candidate to enter from `start` on and its slot; a slot below 0 means none."""

    @abstractmethod
    def _entered(self) -> None:
        """Update what depends on the members' products."""

    @abstractmethod
    def renew(self) -> None:
        """Recompute from scratch what depends on the members' products."""

    def take_rule(self, rule: Rule) -> None:
        """Continue with a rule that has another ridge."""
        k = self.members.n_members
        self.state.matrix[np.arange(k), np.arange(k)] += rule.ridge - self.rule.ridge
        self.rule = rule
        self.renew()

    # the following methods are for a shared prediction

    def begin(self, coef: np.ndarray) -> None:
        """Start from these coefficients of the present members, of shape (n_members,); call `set_products` next."""
        self.coef[:] = 0.0
        self.coef[: len(coef)] = coef

    def set_products(self, products: np.ndarray) -> None:
        """Replace the products of the members, of shape (n_members, n_members), without the ridge."""
        k = self.members.n_members
        self.state.matrix[:k, :k] = products
        self.state.matrix[range(k), range(k)] += self.rule.ridge

    @abstractmethod
    def set_linear(self, linear: np.ndarray, to_minimum: bool = False) -> None:
        """Replace c, of shape (n_members,). v moves to the minimum if the rule keeps it there, or if `to_minimum`."""

    def set_coef(self, coef: np.ndarray) -> None:
        """Move to these coefficients of the members, on the way to a minimum."""
        self.coef[: len(coef)] = coef

    def kept(self) -> dict[str, np.ndarray]:
        """Return what `revert` restores. The members save and restore their own state."""
        return {name: getattr(self.state, name).copy() for name in self.reverted}

    def revert(self, kept: dict[str, np.ndarray]) -> None:
        """Restore the model; the members have been restored already."""
        for name, array in kept.items():
            getattr(self.state, name)[...] = array

    def inverse_of_members(self) -> np.ndarray | None:
        """Return the recomputed M⁻¹ of the members; None if they are linearly dependent."""
        k = self.members.n_members
        inverse = np.zeros((k, k))
        return inverse if k and invert(self.state.matrix[:k, :k].copy(), inverse) else None

    def minimum(self, inverse: np.ndarray) -> np.ndarray:
        """Return M⁻¹ c."""
        k = self.members.n_members
        found: np.ndarray = multiply(inverse, self.state.linear[:k].copy())
        return found
