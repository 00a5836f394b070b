"""Engines of online substitution for the squared loss: what happens to one chapter of columns.

All hold the members' products M = X_Sᵀ X_S / n + ridge, and differ in how they come by those of a newcomer:

``naive``   one column at a time: the residual, its product with the column, the column's products with the members
``gram``    a block at a time: all products with the members at once, with the rest of the block where one is accepted
``lazy``    as ``gram``, for those columns alone whose gradient could pay for the cheapest member

Blocks gallop: twice as wide while nobody is accepted, half as wide when somebody is, for an acceptance costs one
product with the rest of the block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs.kernels.substitution.exchange import exchange_scan, invert, multiply, removal_costs
from daskfs.kernels.substitution.products import NO_WEIGHT, row_products
from daskfs.kernels.substitution.steps import OS, PAPER, steps_scan
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.screen import Screen

SMALLEST_BLOCK, LARGEST_BLOCK = 32, 128
PAID_PRODUCTS = 12
"""Acceptances from which on all products of a block with itself cost less than those of each newcomer."""


@dataclass
class Rule:
    """What decides on a newcomer; see `daskfs.selectors.online_substitution.selector.OnlineSubstitution`."""

    name: str = "exchange"
    ridge: float = 0.0
    tolerance: float = 1e-3
    checks: bool = True
    eta: float = 0.0
    m: float = 1.0
    c: float = 0.5
    lipschitz: float = 0.0


@dataclass
class Tally:
    """What happened so far."""

    n_presented: int = 0
    n_exchanged: int = 0
    n_entered: int = 0
    n_refused: int = 0
    """Collinear newcomers, or those that the check refused."""
    n_reverted: int = 0
    """Blocks undone because the loss rose."""


class SquaredEngine:
    """State and walk common to all rules with the squared loss.

    Parameters
    ----------
    members : Members
    y : ndarray of shape (n_samples,), float64
        The target, centred where the columns are.
    rule : Rule
    engine : {"gram", "lazy", "naive"}
    """

    def __init__(self, members: Members, y: np.ndarray, rule: Rule, engine: str) -> None:
        self.members, self.y, self.rule, self.engine = members, y, rule, engine
        capacity = members.capacity
        self.matrix = np.zeros((capacity, capacity))
        self.linear, self.coef = np.zeros(capacity), np.zeros(capacity)
        weight = members.weight
        self.null_value = 0.5 * float(y @ (y * weight if len(weight) else y)) / members.total
        self.value = self.null_value
        self.intercept, self.threshold = 0.0, 0.0  # columns and target are centred
        self.narrowest, self.widest = SMALLEST_BLOCK, LARGEST_BLOCK
        self.width = self.narrowest
        self.tally = Tally()
        self._residual = np.zeros(len(y))

    def take(self, columns: Columns) -> None:
        """Present a chapter of columns, in their order."""
        if self.engine == "naive":
            for b in range(len(columns)):
                self._take_one(columns.take(slice(b, b + 1)))
            return
        start = 0
        while start < len(columns):
            width = min(self.width, len(columns) - start)
            piece = columns.take(slice(start, start + width))
            n_accepted = self._take_lazily(piece) if self.engine == "lazy" else self._take_block(piece)
            start += width
            self.width = max(self.narrowest, self.width // 2) if n_accepted else min(self.widest, self.width * 2)

    def _take_block(self, columns: Columns) -> int:
        members = self.members
        cross = self._room(len(columns))
        cross[:, : members.n_members] = members.cross(columns)
        return self.walk(columns, cross, members.against_target(columns, self.y), members.usable(columns))

    def _take_one(self, column: Columns) -> None:
        """The reference: the residual, the gradient and the column's products, each one pass over the members."""
        members, k = self.members, self.members.n_members
        usable = members.usable(column)
        if not usable[0]:
            return
        members.predict(-self.coef, 0.0, self._residual)
        self._residual += self.y
        cross = self._room(1)
        held = Columns(members.ids[:k], members.rows[:k], members.mean[:k], members.scale[:k], members.square[:k])
        cross[0, :k] = members.against(held, column)
        gradient = members.against_target(column, self._residual)
        self.walk(column, cross, gradient + row_products(cross, self.coef, NO_WEIGHT), usable)

    def _take_lazily(self, columns: Columns) -> int:
        if self.members.n_members < self.members.capacity:
            return self._take_block(columns)
        looked_at = self.screen(len(columns)).candidates(columns)
        self.tally.n_presented += int(self.members.usable(columns).sum()) - len(looked_at)
        return self._take_block(columns.take(looked_at)) if len(looked_at) else 0

    def _room(self, n_columns: int) -> np.ndarray:
        return np.zeros((n_columns, self.members.capacity))

    def walk(self, columns: Columns, cross: np.ndarray, linear: np.ndarray, usable: np.ndarray) -> int:
        """Let newcomers in one after the other; return how many."""
        members = self.members
        diagonal = columns.square + self.rule.ridge
        within = members.within(columns) if members.n_members < members.capacity and len(columns) > 1 else None
        placed: dict[int, int] = {}
        n_accepted = b = 0
        while True:
            b, slot = self._scan(cross, linear, diagonal, usable, b)
            if slot < 0:
                break
            n_accepted += 1
            self._enter(columns, b, slot, cross[b], linear[b], diagonal[b], usable)
            placed[slot] = b
            rest = slice(b + 1, len(columns))
            if b + 1 < len(columns):
                if within is None and n_accepted > PAID_PRODUCTS:
                    within = members.within(columns)
                if within is None:
                    cross[rest, slot] = members.against(columns.take(rest), columns.take(slice(b, b + 1)))
                else:
                    cross[rest, slot] = within[rest, b]
            b += 1
        members.copy_in(columns, placed)
        return n_accepted

    def _enter(
        self, columns: Columns, b: int, slot: int, row: np.ndarray, linear: float, diagonal: float, usable: np.ndarray
    ) -> None:
        members = self.members
        if slot < members.n_members:
            usable[(columns.ids == members.ids[slot]) & (columns.scale > 0.0)] = True  # may come back later
            self.tally.n_exchanged += 1
        members.describe(slot, columns, b)
        self.tally.n_entered += 1
        k = members.n_members
        self.matrix[slot, :k] = self.matrix[:k, slot] = row[:k]
        self.matrix[slot, slot] = diagonal
        self.linear[slot] = linear
        self._entered()

    def _scan(
        self, cross: np.ndarray, linear: np.ndarray, diagonal: np.ndarray, usable: np.ndarray, start: int
    ) -> tuple[int, int]:
        raise TypeError(f"{type(self).__name__} must define _scan()")

    def _entered(self) -> None:
        """Bring up to date what depends on the members' products."""

    def screen(self, most: int) -> Screen:
        """Return what columns are screened against."""
        raise TypeError(f"{type(self).__name__} must define screen()")

    def finish(self) -> None:
        """Find the least squares on the members' products, ridge included, and what dropping each would cost."""
        k = self.members.n_members
        inverse, self.final = np.zeros((k, k)), self.coef.copy()
        if k and invert(self.matrix[:k, :k].copy(), inverse):
            self.final[:k] = multiply(inverse, self.linear[:k].copy())
            self.costs = removal_costs(inverse, self.final, k)
        else:
            self.costs = 0.5 * self.final[:k] ** 2

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state, but for the columns of the members, which are read again."""
        tally = self.tally
        counts = [tally.n_presented, tally.n_exchanged, tally.n_entered, tally.n_refused, tally.n_reverted]
        return {
            "ids": self.members.ids[: self.members.n_members].copy(),
            "matrix": self.matrix.copy(),
            "linear": self.linear.copy(),
            "coef": self.coef.copy(),
            "numbers": np.array([self.value, float(self.width)]),
            "counts": np.array(counts, dtype=np.int64),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from what `arrays` returned; the members are in place already."""
        for name in ("matrix", "linear", "coef"):
            getattr(self, name)[...] = arrays[name]
        self.value, self.width = float(arrays["numbers"][0]), int(arrays["numbers"][1])
        self.tally = Tally(*(int(count) for count in arrays["counts"]))


class SquaredExchange(SquaredEngine):
    """The rule ``exchange``: see `daskfs.kernels.substitution.exchange`."""

    def __init__(self, members: Members, y: np.ndarray, rule: Rule, engine: str) -> None:
        super().__init__(members, y, rule, engine)
        self.inverse = np.zeros_like(self.matrix)
        self.n_since = 0

    def _scan(
        self, cross: np.ndarray, linear: np.ndarray, diagonal: np.ndarray, usable: np.ndarray, start: int
    ) -> tuple[int, int]:
        counts, change = np.zeros(2, np.int64), np.zeros(1)
        members = self.members
        b, slot = exchange_scan(
            cross, linear, diagonal, usable, start, self.inverse, self.coef,
            members.n_members, members.n_fixed, self.rule.tolerance, counts, change,
        )  # fmt: skip
        self.tally.n_presented += int(counts[0])
        self.tally.n_refused += int(counts[1])
        self.value += float(change[0])
        return int(b), int(slot)

    def _entered(self) -> None:
        self.n_since += 1
        k = self.members.n_members
        if self.n_since >= self.members.capacity:  # rank-one corrections have piled up rounding
            inverse = np.zeros((k, k))
            if invert(self.matrix[:k, :k].copy(), inverse):
                self.inverse[:k, :k] = inverse
                self.coef[:k] = multiply(inverse, self.linear[:k].copy())
                self.value = self.null_value - 0.5 * float(np.sum(self.linear[:k] * self.coef[:k]))
            self.n_since = 0

    def screen(self, most: int) -> Screen:
        """Return what columns are screened against: the residual, and the cost of the cheapest member."""
        members = self.members
        slope = members.predict(-self.coef, 0.0, np.empty(len(self.y)))
        slope += self.y
        if len(members.weight):
            slope *= members.weight
        costs = removal_costs(self.inverse, self.coef, members.n_members)[members.n_fixed :]
        least = float(costs.min()) if len(costs) else np.inf
        present = members.ids[: members.n_members].copy()
        return Screen(slope, NO_WEIGHT, members.total, least, self.rule.ridge, present, most)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state; see `SquaredEngine.arrays`."""
        return {**super().arrays(), "inverse": self.inverse.copy(), "since": np.array([self.n_since])}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from what `arrays` returned."""
        super().restore(arrays)
        self.inverse[...] = arrays["inverse"]
        self.n_since = int(arrays["since"][0])


class SquaredSteps(SquaredEngine):
    """The rules ``os`` and ``paper``: see `daskfs.kernels.substitution.steps`."""

    def __init__(self, members: Members, y: np.ndarray, rule: Rule, engine: str) -> None:
        super().__init__(members, y, rule, engine)
        self.product = np.zeros_like(self.coef)
        self.power = np.ones_like(self.coef)
        self.state = np.array([0.0, 0.0, self.value, -np.inf, 0.0])

    def _scan(
        self, cross: np.ndarray, linear: np.ndarray, diagonal: np.ndarray, usable: np.ndarray, start: int
    ) -> tuple[int, int]:
        counts = np.zeros(2, np.int64)
        members, rule = self.members, self.rule
        b, slot = steps_scan(
            cross, linear, diagonal, usable, start, self.matrix, self.linear, self.coef, self.product,
            members.n_members, members.n_fixed, PAPER if rule.name == "paper" else OS, rule.eta, rule.m, rule.c,
            rule.lipschitz, rule.checks, self.power, self.state, counts,
        )  # fmt: skip
        self.tally.n_presented += int(counts[0])
        self.tally.n_refused += int(counts[1])
        self.value = float(self.state[2])
        return int(b), int(slot)

    def _entered(self) -> None:
        k = self.members.n_members
        self.product[:k] = multiply(self.matrix[:k, :k].copy(), self.coef[:k].copy())
        self.state[2] = self.null_value + float(np.sum(self.coef[:k] * (0.5 * self.product[:k] - self.linear[:k])))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state; see `SquaredEngine.arrays`."""
        vectors = {"product": self.product.copy(), "power": self.power.copy(), "state": self.state.copy()}
        return {**super().arrays(), **vectors}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from what `arrays` returned."""
        super().restore(arrays)
        for name in ("product", "power", "state"):
            getattr(self, name)[...] = arrays[name]
