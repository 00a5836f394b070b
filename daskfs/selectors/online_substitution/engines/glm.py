"""The rule ``exchange`` for losses other than the squared one, with a quadratic approximation.

At the point before a batch, the loss is replaced by its quadratic approximation, with the curvature D of each sample.
Products of columns are weighted by D and centred by their D-weighted means, which profiles out the intercept. The
exchanges of `daskfs.kernels.substitution.exchange` are made on the approximation. Then one Newton step with a line
search follows on the true loss, and the batch is undone if the true loss has risen.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.substitution.entries import State
from daskfs.kernels.substitution.exchange import COUNTS, Candidates, exchange_scan, removal_costs
from daskfs.kernels.substitution.products import NO_WEIGHT, row_products
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.base import Finished, entrances
from daskfs.selectors.online_substitution.engines.point import Coefficients, PointEngine, Quadratic
from daskfs.selectors.online_substitution.screen import Screen

NEWTON_STEPS = 1  # after each batch with an exchange
MORE_STEPS = 4  # if the loss is still above its value before the batch
ROUNDING = 1e-12


class GlmEngine(PointEngine):
    """Decides with any loss by the rule ``exchange``; see `PointEngine`."""

    _approximation: Quadratic | None = None

    def _take_batch(self, columns: Columns) -> int:
        quadratic, members = self._quadratic(), self.members
        if quadratic.total <= 0.0:  # every sample's loss has zero curvature: no gain is possible
            self.counters.n_presented += members.n_usable(columns)
            return 0
        if self.mode == "lazy" and members.is_full:
            columns = self._candidates(columns)
        return self._exchange(columns, quadratic) if len(columns) else 0

    def _quadratic(self) -> Quadratic:
        """Return the quadratic approximation at the present point."""
        if self._approximation is None:
            self._approximation = self.point.quadratic()
        return self._approximation

    def screen(self, most: int) -> Screen:
        """Return the state for screening: the derivative of the loss, and the smallest removal cost."""
        members, quadratic = self.members, self._quadratic()
        least = self._least_cost(quadratic) if quadratic.total > 0.0 else np.inf
        present, curvature = members.ids[: members.n_members].copy(), self.point.curvature.copy()
        return Screen(-quadratic.derivative, curvature, members.total, least, self.rule.ridge, present, most)

    def _least_cost(self, quadratic: Quadratic) -> float:
        """Return the smallest removal cost."""
        costs = removal_costs(quadratic.inverse, quadratic.optimum, self.members.n_members)
        return float(costs[self.members.n_fixed :].min(initial=np.inf))

    def _exchange(self, columns: Columns, before: Quadratic) -> int:
        """Exchange on the approximation, then check the true loss; return how many entered."""
        members, point, counters = self.members, self.point, self.counters
        coef, intercept, value = point.coef.copy(), point.intercept, point.value
        members.keep()
        after = before.copy()
        n_entered, n_exchanged = self._walk(columns, after)
        if not n_entered:
            return 0
        point.exchanged(before, after)
        for step in range(NEWTON_STEPS + MORE_STEPS):
            if step >= NEWTON_STEPS and point.value <= value:
                break
            point.newton_step()
        is_lower = point.value <= value + ROUNDING * abs(value)
        if is_lower:
            self._approximation = None
            counters.n_exchanged += n_exchanged
            counters.n_entered += n_entered
        else:
            members.revert()
            point.coef[:], point.intercept = coef, intercept
            point.predict()
            counters.n_reverted += 1
        members.forget()
        return n_entered if is_lower else 0

    def _walk(self, columns: Columns, quadratic: Quadratic) -> tuple[int, int]:
        """Let candidates enter one by one; return how many entered, and how many of them replaced a feature."""
        members, point, rows, total = self.members, self.point, columns.rows, quadratic.total
        diagonal, sums = point.diagonal(columns)
        usable = members.usable(columns) & (diagonal > 0.0)
        k = members.n_members
        cross = np.zeros((len(columns), members.capacity))
        cross[:, :k] = point.weighted(rows, members.rows[:k], sums, quadratic.sums[:k], total)
        linear = row_products(cross, point.coef, NO_WEIGHT) - point.gradient(columns, quadratic.derivative)
        counts, change = np.zeros(1, COUNTS), np.zeros(1)

        def scan(start: int) -> tuple[int, int]:
            b, slot = exchange_scan(
                Candidates(cross, linear, diagonal, usable), start, quadratic.inverse, quadratic.optimum,
                quadratic.squares, self.rule.ridge,
                members.n_members, members.n_fixed, self.rule.tolerance, counts, change,
            )  # fmt: skip
            return int(b), int(slot)

        def within() -> np.ndarray:
            return point.weighted(rows, rows, sums, sums, total)

        def after(b: int) -> np.ndarray:
            rest, one = slice(b + 1, None), slice(b, b + 1)
            return point.weighted(rows[rest], rows[one], sums[rest], sums[one], total)[:, 0]

        placed: dict[int, int] = {}
        n_entered = n_exchanged = 0
        for b, slot, replaces in entrances(members, columns, cross, usable, scan, within, after):
            n_entered += 1
            n_exchanged += replaces
            quadratic.sums[slot], quadratic.squares[slot] = sums[b], diagonal[b] - self.rule.ridge
            placed[slot] = b
        members.copy_in(columns, placed)
        self.counters.n_presented += int(counts[0]["n_presented"])
        self.counters.n_refused += int(counts[0]["n_refused"])
        return n_entered, n_exchanged

    def _take_ridge(self, ridge: float) -> None:
        super()._take_ridge(ridge)
        self._approximation = None

    def entry_state(self) -> State | None:
        """Return the state for tests of columns by their entries alone."""
        members, point, k = self.members, self.point, self.members.n_members
        if self.mode != "gram" or k < members.capacity or not k:
            return None
        quadratic = self._quadratic()
        if quadratic.total <= 0.0:
            return None
        weight = members.weight if len(members.weight) else np.ones(len(point.y))
        return State(
            members.held, members.offset, members.factor, quadratic.sums, quadratic.inverse, quadratic.optimum,
            point.coef - quadratic.optimum, quadratic.squares, weight, point.curvature, -quadratic.derivative,
        )  # fmt: skip

    def finish(self) -> Finished:
        """Compute the loss's minimum over the members by Newton steps, and removal costs; change nothing."""
        return self._finished(*self.point.at_minimum())

    def _state(self) -> Coefficients:
        return self.point.coefficients()

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.point.ridge = self.rule.ridge
        self.point.move_to(Coefficients.unpack(arrays))
        self._approximation = None
