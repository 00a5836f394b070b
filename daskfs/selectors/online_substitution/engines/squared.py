"""The rule ``exchange`` with the squared loss: add a candidate exactly, then drop the feature that costs least.

    f(v) = ½ vᵀ M v - cᵀ v + constant,   M = Zᵀ A Z / n + ridge,   c = Zᵀ A y / n,   A the weights of the samples

Z has the members' columns; see `daskfs.kernels.substitution.exchange`. If the prediction is shared, y is what the
others leave unexplained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from daskfs.kernels.linear.linalg import invert, multiply
from daskfs.kernels.substitution.entries import State
from daskfs.kernels.substitution.exchange import COUNTS, Candidates, exchange_scan
from daskfs.kernels.substitution.group_exchange import loads_of
from daskfs.kernels.substitution.products import NO_WEIGHT, again
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.base import BatchWidth, Engine, Finished, Rule, entrances
from daskfs.selectors.online_substitution.engines.grouped import GroupBatch, followed, moved, walk_groups
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.screen import Screen, products_of_groups
from daskfs.selectors.shared.record import Record


@dataclass(slots=True)
class SquaredState(Record):
    """The objective over the members, minimised."""

    matrix: np.ndarray
    """M, of shape (capacity, capacity)."""
    linear: np.ndarray
    """c, of shape (capacity,)."""
    coef: np.ndarray
    """v, of shape (capacity,)."""
    inverse: np.ndarray
    """M⁻¹ of the members, of shape (capacity, capacity)."""
    value: float
    """f(v)."""
    n_since: int = 0
    """Number of entrances since the inverse was last recomputed."""


class Foreseen(NamedTuple):
    """Products of columns with the members, computed before the columns are taken."""

    ids: np.ndarray
    """The columns, neighbours in ascending order."""
    members: np.ndarray
    """The members of that time, by slot."""
    cross: np.ndarray


class SquaredEngine(Engine):
    """Decides on columns or groups with the squared loss, by the rule ``exchange``.

    Parameters
    ----------
    members : Members
    rule : Rule
    mode : {"gram", "lazy", "naive"}
        "gram": all products of a batch with the members at once, and with the rest of the batch when a candidate
        enters. "lazy": as "gram", but only for columns whose gradient is large enough to pay for the cheapest removal.
        "naive": as "gram", in batches of one.
    width : BatchWidth
    y : ndarray of shape (n_samples,), float64
        The target, centred if the columns are.
    """

    def __init__(self, members: Members, rule: Rule, mode: str, width: BatchWidth, y: np.ndarray) -> None:
        super().__init__(members, rule, mode, width)
        self.y, self._left = y, y
        self._constant = self._half_square(y)
        square, (linear, coef) = (members.capacity, members.capacity), np.zeros((2, members.capacity))
        self.state = SquaredState(np.zeros(square), linear, coef, np.zeros(square), self._constant)
        self._foreseen = Foreseen(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 0)))

    def _half_square(self, y: np.ndarray) -> float:
        weight = self.members.weight
        return 0.5 * float(y @ (y * weight if len(weight) else y)) / self.members.total

    @property
    def coef(self) -> np.ndarray:
        """Coefficients of the columns as they are stored, of shape (capacity,)."""
        return self.state.coef

    @property
    def value(self) -> float:
        """The objective."""
        return float(self.state.value)

    def meet(self, others: np.ndarray) -> None:
        """Set what others contribute to the prediction; see `Engine.meet`."""
        self._left = self.y - others
        self._constant = self._half_square(self._left)
        k = self.members.n_members
        self.state.linear[:k] = self.members.against_target(self.members.columns, self._left)
        self._to_minimum()

    def begin(self, coef: np.ndarray) -> None:
        """Start from these coefficients of the members; see `Engine.begin`."""
        state, k = self.state, self.members.n_members
        state.coef[:], state.n_since = 0.0, 0
        state.coef[:k] = coef
        state.matrix[:k, :k] = self.members.cross(self.members.columns)
        state.matrix[range(k), range(k)] += self.rule.ridge
        inverse = self._inverse_of_members()
        state.inverse[:k, :k] = 0.0 if inverse is None else inverse

    def minimise(self) -> None:
        """Do nothing: the state is always minimised."""

    def _take_batch(self, columns: Columns) -> int:
        members, n_before = self.members, self.counters.n_entered
        if self.mode == "lazy" and members.is_full:
            columns = self._candidates(columns)
        if len(columns):
            linear, cross = members.against_target(columns, self._left), self._cross(columns)
            walk = self._walk if members.groups is None else self._walk_groups
            walk(columns, cross, linear)
        return self.counters.n_entered - n_before

    def _cross(self, columns: Columns) -> np.ndarray:
        """Return products of columns with the members, of shape (B, capacity), in a buffer that is reused."""
        members, found = self.members, self._foreseen
        k, cross = members.n_members, again("cross", (len(columns), members.capacity), np.float64)
        first = int(np.searchsorted(found.ids, columns.ids[0]))
        part = slice(first, first + len(columns))
        if not np.array_equal(found.ids[part], columns.ids):
            cross[:, :k], cross[:, k:] = members.cross(columns), 0.0
            return cross
        then = np.append(found.members, np.full(members.capacity - len(found.members), -1))
        cross[:] = 0.0
        cross[:, : len(found.members)] = found.cross[part]
        new = np.flatnonzero(members.ids[:k] != then[:k])
        if len(new):
            cross[:, new] = members.cross_with(columns, new)
        return cross

    def foresee(self, columns: Columns) -> None:
        """Compute products of the members with columns that will probably be taken next."""
        members = self.members
        self._foreseen = Foreseen(columns.ids, members.columns.ids.copy(), members.cross(columns))

    def _walk(self, columns: Columns, cross: np.ndarray, linear: np.ndarray) -> None:
        """Let columns enter one after the other; `cross` changes."""
        members, state, counters, rule = self.members, self.state, self.counters, self.rule
        diagonal, usable = columns.square + rule.ridge, members.usable(columns)
        candidates, counts, change = Candidates(cross, linear, diagonal, usable), np.zeros(1, COUNTS), np.zeros(1)

        def scan(start: int) -> tuple[int, int]:
            b, slot = exchange_scan(
                candidates, start, state.inverse, state.coef, np.diagonal(state.matrix) - rule.ridge, rule.ridge,
                rule.price, members.n_members, members.n_fixed, rule.tolerance, counts, change,
            )  # fmt: skip
            return int(b), int(slot)

        def after(b: int) -> np.ndarray:
            return members.against(columns.take(slice(b + 1, None)), columns.take(slice(b, b + 1)))

        placed: dict[int, int] = {}
        for b, slot, replaces in entrances(
            members, columns, cross, usable, scan, lambda: members.within(columns), after
        ):
            counters.n_exchanged += replaces
            counters.n_entered += 1
            placed[slot], k = b, members.n_members
            state.value, change[0] = state.value + float(change[0]), 0.0
            state.matrix[slot, :k] = state.matrix[:k, slot] = cross[b, :k]
            state.matrix[slot, slot], state.linear[slot] = diagonal[b], linear[b]
            self._entered()
        members.copy_in(columns, placed)
        counters.n_presented += int(counts[0]["n_presented"])
        counters.n_refused += int(counts[0]["n_refused"])

    def _walk_groups(self, columns: Columns, cross: np.ndarray, linear: np.ndarray) -> None:
        """Let groups enter one after the other; `cross` changes."""
        members, state, counters, ridge = self.members, self.state, self.counters, self.rule.ridge
        batch = GroupBatch.of(members, columns, cross, linear)
        batch.products = products_of_groups(columns, batch.bounds, members.weight, members.total)
        for one in batch.products:
            one[range(len(one)), range(len(one))] += ridge
        for entrance in walk_groups(
            members, batch, state.inverse, state.coef, lambda: np.diagonal(state.matrix) - ridge, self.rule, counters,
            lambda rest, slots: members.cross_with(columns.take(rest), slots),
        ):  # fmt: skip
            followed(state.matrix, entrance, batch.products[entrance.group])
            moved(state.linear, entrance, linear[entrance.columns])
            state.value = self._constant - 0.5 * float(np.sum(state.linear * state.coef))
            self._entered()

    def _entered(self) -> None:
        self.state.n_since += 1
        if self.state.n_since >= self.members.capacity:  # rank-one updates have accumulated rounding errors
            self._renew()

    def _renew(self) -> None:
        """Recompute the inverse, and go to the minimum."""
        k, inverse = self.members.n_members, self._inverse_of_members()
        if inverse is not None:
            self.state.inverse[:k, :k] = inverse
            self._to_minimum()
        self.state.n_since = 0

    def _to_minimum(self) -> None:
        state, k = self.state, self.members.n_members
        state.coef[:k] = multiply(state.inverse[:k, :k].copy(), state.linear[:k].copy())
        state.value = self._constant - 0.5 * float(np.sum(state.linear[:k] * state.coef[:k]))

    def _inverse_of_members(self) -> np.ndarray | None:
        """Return the recomputed M⁻¹; None if the members are linearly dependent. Groups get loads: see `loads_of`."""
        k, matrix = self.members.n_members, self.state.matrix
        if self.members.groups is not None:
            matrix[range(k), range(k)] += loads_of(matrix[:k, :k].copy(), 0.5 * self._least_pivot)
        inverse = np.zeros((k, k))
        return inverse if k and invert(matrix[:k, :k].copy(), inverse) else None

    def _residual(self) -> np.ndarray:
        residual = self.members.predict(-self.coef, 0.0, np.empty(len(self.y)))
        residual += self._left
        return residual

    def screen(self, most: int) -> Screen:
        """Return the state for screening: the residual, and the smallest removal cost."""
        descent = self._residual()
        if len(self.members.weight):
            descent *= self.members.weight
        return self._screen(descent, NO_WEIGHT, self._costs(self.state.inverse, self.coef), most)

    def _terms(self) -> list[tuple[float, np.ndarray, np.ndarray, np.ndarray]]:
        k, state = self.members.n_members, self.state
        hessian = np.eye(k + 1)  # columns and target are centred if there is an intercept
        hessian[1:, 1:] = state.matrix[:k, :k] - self.rule.ridge * np.eye(k)
        return [(self._constant, np.concatenate([[0.0], -state.linear[:k]]), hessian, np.zeros(k + 1))]

    def _take_ridge(self, ridge: float) -> None:
        k = self.members.n_members
        self.state.matrix[range(k), range(k)] += ridge - self.rule.ridge
        super()._take_ridge(ridge)
        self._renew()

    def entry_state(self) -> State | None:
        """Return the state for tests of columns by their entries alone."""
        members, state, k = self.members, self.state, self.members.n_members
        if self.mode != "gram" or k < members.capacity or not k:
            return None
        weight = members.weight if len(members.weight) else np.ones(len(self.y))
        squares, none = np.diagonal(state.matrix) - self.rule.ridge, np.zeros(k)
        return State(
            members.held, members.offset, members.factor, none, state.inverse, state.coef, none, squares,
            weight, weight, self._residual() * weight,
        )  # fmt: skip

    def finish(self) -> Finished:
        """Solve least squares on the members' products, ridge included, and return the removal costs."""
        k, coef, inverse = self.members.n_members, self.coef.copy(), self._inverse_of_members()
        if inverse is None:
            return Finished(coef, 0.0, 0.5 * coef[:k] ** 2)
        coef[:k] = multiply(inverse, self.state.linear[:k].copy())
        return self._finished(coef, 0.0, inverse)

    def _state(self) -> SquaredState:
        return self.state

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.state = SquaredState.unpack(arrays)
