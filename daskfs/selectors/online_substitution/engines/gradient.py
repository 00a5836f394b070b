"""The rules ``os`` and ``paper`` for any loss, on the columns themselves: Algorithm 1 line by line.

``naive``  every column: prediction, derivative, a gradient step of the members, the newcomer's weight, the check
``lazy``   the members step only after somebody was accepted, so that a refusal costs one product with the derivative
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.substitution.exchange import removal_costs
from daskfs.kernels.substitution.products import combine, row_products
from daskfs.kernels.substitution.steps import COLD, MARGIN, WARM
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.exchange import LARGEST_BLOCK, SMALLEST_BLOCK, Rule, Tally
from daskfs.selectors.online_substitution.engines.point import Point
from daskfs.selectors.online_substitution.members import Members

LAZY_STEPS = 2  # of the members after each acceptance
FLOOR = 0.05  # of a newcomer's curvature, in parts of the most it can be


class Descent:
    """Engine of the gradient rules; see `SquaredEngine`.

    Parameters
    ----------
    members : Members
        Of floating point.
    y : ndarray of shape (n_samples,), float64
    rule : Rule
    engine : {"naive", "lazy"}
    loss : int
    threshold : float
    fits_intercept : bool
    kappa : float
        The most that the loss curves.
    """

    def __init__(
        self,
        members: Members,
        y: np.ndarray,
        rule: Rule,
        engine: str,
        loss: int,
        threshold: float,
        fits_intercept: bool,
        kappa: float,
    ) -> None:
        self.members, self.rule, self.engine, self.threshold, self.kappa = members, rule, engine, threshold, kappa
        self.point = Point(members, y, loss, threshold, rule.ridge, fits_intercept)
        self.tally = Tally()
        self.narrowest, self.widest = SMALLEST_BLOCK, LARGEST_BLOCK
        self.width = self.narrowest
        self.power = np.ones(members.capacity)
        self.largest, self.is_dirty = 0.0, False
        self.excess, self.moved = -math.inf, 0.0
        """Largest excess over what inequality (11) allows; Σ |next - before|²."""
        self._image = np.zeros(len(y))

    @property
    def value(self) -> float:
        """The objective."""
        return self.point.value

    @property
    def coef(self) -> np.ndarray:
        """Weights of the columns as they are held."""
        return self.point.coef

    def take(self, columns: Columns) -> None:
        """Present a chapter of columns, in their order."""
        if self.engine == "naive":
            for b in range(len(columns)):
                self._present(columns.take(slice(b, b + 1)))
            return
        start = 0
        while start < len(columns):
            width = min(self.width, len(columns) - start)
            n_accepted = self._take_lazily(columns.take(slice(start, start + width)))
            start += width
            self.width = max(self.narrowest, self.width // 2) if n_accepted else min(self.widest, self.width * 2)

    def _present(self, column: Columns) -> None:
        """Lines 3 to 17 of the algorithm for one column."""
        if not self.members.usable(column)[0]:
            return
        self.tally.n_presented += 1
        point, rule, k = self.point, self.rule, self.members.n_members
        if self.is_dirty and k:
            self._estimate()
        slope = float(point.gradient(column, point.derivative)[0])
        step_j, bound = self._newcomer_step(column)
        step_s = step_j / rule.m if rule.name == "paper" else 1.0 / self._steepest()
        before, start = point.value, point.coef.copy()
        self._step(step_s)
        moved = float(((point.coef - start) ** 2).sum())
        newcomer = -step_j * slope
        slot = self._loser(newcomer)
        if slot < 0:
            self._account(before, bound, step_j, moved)
            return
        dropped = moved + newcomer**2
        if slot < k:
            dropped += start[slot] ** 2 - (point.coef[slot] - start[slot]) ** 2
        scale = rule.c * (0.5 * bound - 0.5 / step_j) if rule.name == "paper" else 0.0
        is_accepted = self._try(column, slot, newcomer, before + scale * dropped if slot < k else math.inf)
        self._account(before, bound, step_j, dropped if is_accepted else moved)

    def _account(self, before: float, bound: float, step_j: float, moved: float) -> None:
        self.moved += moved
        if self.rule.name == "paper":
            allowed = self.rule.c * (0.5 * bound - 0.5 / step_j) * moved
            self.excess = max(self.excess, self.point.value - before - allowed)

    def _newcomer_step(self, column: Columns) -> tuple[float, float]:
        """Return the newcomer's step and the bound of the curvature that it was taken from."""
        rule, members, k = self.rule, self.members, self.members.n_members
        square = self.kappa * float(column.square[0]) + rule.ridge
        if rule.name == "os":
            curved = float(row_products(column.rows, column.rows[0], self.point.curvature)[0]) / members.total
            return 1.0 / (max(curved, FLOOR * self.kappa * float(column.square[0])) + rule.ridge), square
        bound = rule.lipschitz
        if bound == 0.0:
            bound = square
            if k:
                h = self.kappa * row_products(members.rows[:k], column.rows[0], members.weight) / members.total
                bound = 0.5 * (self.largest + square)
                bound += 0.5 * math.sqrt((self.largest - square) ** 2 + 4.0 * float((h**2).sum()))
        return 0.5 / bound if rule.eta == 0.0 else rule.eta, bound

    def _steepest(self) -> float:
        return max(self.largest, self.kappa + self.rule.ridge)

    def _estimate(self) -> None:
        """Bring the largest eigenvalue of κ X_Sᵀ X_S / n + ridge up to date by power iterations."""
        members, k = self.members, self.members.n_members
        vector, value = self.power[:k].copy(), 0.0
        for _ in range(COLD if self.largest == 0.0 else WARM):
            size = math.sqrt(float((vector**2).sum()))
            vector = vector / size if size > 0.0 else np.full(k, 1.0 / math.sqrt(k))
            combine(members.rows, vector, 0.0, self._image)
            image = self.kappa * row_products(members.rows[:k], self._image, members.weight) / members.total
            image += self.rule.ridge * vector
            value = math.sqrt(float((image**2).sum()))
            vector = image
        self.power[:k] = vector
        self.largest, self.is_dirty = MARGIN * value, False

    def _step(self, step: float) -> None:
        """Lines 4 and 6: a gradient step of the members and, where there is one, the intercept."""
        point, k = self.point, self.members.n_members
        if not k and not point.fits_intercept:
            return
        gradient = point.members_gradient(point.derivative)
        drift = float(point.derivative.sum()) / self.members.total if point.fits_intercept else 0.0
        if self.rule.name == "os":
            combine(self.members.rows, gradient, drift, self._image)
            weight = self.members.weight
            squares = self._image**2 * weight if len(weight) else self._image**2
            bend = self.kappa * float(squares.sum()) / self.members.total
            bend += self.rule.ridge * float((gradient**2).sum())
            length = float((gradient**2).sum()) + drift**2
            if step * bend > 2.0 * length:  # the estimate was too low: the loss could rise
                self.largest = MARGIN * bend / length
                step = 1.0 / self.largest
        point.coef[:k] -= step * gradient
        point.intercept -= step * drift
        point.predict()

    def _loser(self, newcomer: float) -> int:
        """Return the slot that a newcomer would take, -1 where it has the smallest weight itself."""
        members, k = self.members, self.members.n_members
        if k < members.capacity:
            return k
        sizes = np.abs(self.point.coef[members.n_fixed : k])
        if not len(sizes) or sizes.min() >= abs(newcomer):
            return -1
        return members.n_fixed + int(np.argmin(sizes))

    def _try(self, column: Columns, slot: int, newcomer: float, allowed: float) -> bool:
        """Lines 10 to 16: put a newcomer into a slot, and take it out again if the loss is above what is allowed."""
        point, members = self.point, self.members
        described, n_before, old = members.described(), members.n_members, float(point.coef[slot])
        point.coef[slot] = newcomer
        members.swap(column, {slot: 0})
        members.describe(slot, column, 0)
        point.predict()
        if self.rule.checks and point.value > allowed:
            members.swap(column, {slot: 0})
            members.describe_again(n_before, described)
            point.coef[slot] = old
            point.predict()
            self.tally.n_refused += 1
            return False
        self.tally.n_exchanged += slot < n_before
        self.tally.n_entered += 1
        self.is_dirty = True
        return True

    def _take_lazily(self, columns: Columns) -> int:
        """Present a block against the members as they stand; they step after each acceptance."""
        members, point = self.members, self.point
        usable = members.usable(columns)
        self.tally.n_presented += int(usable.sum())
        squares = self.kappa * columns.square
        n_accepted = start = 0
        while start < len(columns):
            rest = columns.take(slice(start, None))
            slopes = point.gradient(rest, point.derivative)
            if n_accepted == 0 or start == 0 or not self._has_constant_curvature():
                curved = self._curvature_of(columns)
            steps = 1.0 / (np.maximum(curved[start:], FLOOR * squares[start:]) + self.rule.ridge)
            b = self._first(rest, usable[start:], -steps * slopes)
            if b < 0:
                break
            start += b + 1
            n_accepted += 1
            for _ in range(LAZY_STEPS):
                if self.is_dirty:
                    self._estimate()
                self._step(1.0 / self._steepest())
        return n_accepted

    def _has_constant_curvature(self) -> bool:
        return bool(self.point.loss == 0)

    def _curvature_of(self, columns: Columns) -> np.ndarray:
        curvature = self.point.curvature
        products = [row_products(row[None], row, curvature)[0] for row in columns.rows]
        return np.array(products) / self.members.total

    def _first(self, columns: Columns, usable: np.ndarray, weights: np.ndarray) -> int:
        """Let the first column in that wins; return its place in the block, -1 where there is none."""
        members, point = self.members, self.point
        is_full = members.n_members == members.capacity
        least = np.abs(point.coef[members.n_fixed : members.n_members]).min(initial=np.inf) if is_full else -1.0
        for b in np.flatnonzero(usable & (np.abs(weights) > least)):
            slot = self._loser(float(weights[b]))
            gone = members.ids[slot]
            if self._try(columns.take(slice(b, b + 1)), slot, float(weights[b]), point.value if is_full else math.inf):
                usable[(columns.ids == gone) & (columns.scale > 0.0)] = is_full
                return int(b)
        return -1

    def finish(self) -> None:
        """Find what dropping each member would cost, at the minimum of the loss's parabola."""
        parabola = self.point.parabola()
        self.final, self.intercept = parabola.optimum, self.point.intercept
        self.costs = removal_costs(parabola.inverse, parabola.optimum, self.members.n_members)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state, but for the columns of the members, which are read again."""
        tally, point = self.tally, self.point
        counts = [tally.n_presented, tally.n_exchanged, tally.n_entered, tally.n_refused, tally.n_reverted]
        numbers = [point.intercept, float(self.width), self.largest, float(self.is_dirty), self.excess, self.moved]
        return {
            "ids": self.members.ids[: self.members.n_members].copy(),
            "coef": point.coef.copy(),
            "power": self.power.copy(),
            "numbers": np.array(numbers),
            "counts": np.array(counts, dtype=np.int64),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from what `arrays` returned; the members are in place already."""
        point = self.point
        point.coef[:], self.power[:] = arrays["coef"], arrays["power"]
        point.intercept, width, self.largest, dirty, self.excess, self.moved = (float(x) for x in arrays["numbers"])
        self.width, self.is_dirty = int(width), bool(dirty)
        point.predict()
        self.tally = Tally(*(int(count) for count in arrays["counts"]))
