"""The rule ``exchange`` for losses other than the squared one, with a quadratic approximation.

At the point before a batch, the loss is replaced by its quadratic approximation, with the curvature D of each sample.
Products of columns are weighted by D and centred by their D-weighted means, which profiles out the intercept. The
exchanges of `daskfs.kernels.substitution.exchange` are made on the approximation. Then one Newton step with a line
search follows on the true loss, and the batch is undone if the true loss has risen.

Several classes have an approximation each, with the same members: gains and removal costs are summed over the classes.

If the prediction is shared, the members respond to it even if no column enters, all columns that are taken at once are
one batch, Newton steps follow only if the true loss has risen, and D is kept for as many columns as there are members,
so that it costs no more than they do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from daskfs.kernels.substitution.entries import State
from daskfs.kernels.substitution.exchange import COUNTS, Candidates, exchange_scan
from daskfs.kernels.substitution.products import NO_WEIGHT, row_products
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.base import (
    LEAST_PIVOT,
    BatchWidth,
    Engine,
    Finished,
    Rule,
    entrances,
)
from daskfs.selectors.online_substitution.engines.grouped import GroupBatch, moved, walk_groups
from daskfs.selectors.online_substitution.engines.point import Point, Quadratic
from daskfs.selectors.online_substitution.engines.several import SeveralProblems
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.objective import LossSettings
from daskfs.selectors.online_substitution.screen import Screen
from daskfs.selectors.shared.record import Record

NEWTON_STEPS = 1  # after each batch with an exchange
MORE_STEPS = 4  # if the loss is still above its value before the batch
ROUNDING = 1e-12
RENEW_AFTER = 32
"""Smallest number of columns after which the curvature is recomputed if the prediction is shared."""


@dataclass(slots=True)
class Coefficients(Record):
    """Coefficients of the members, of shape ([n_classes,] capacity), and the intercept of each class."""

    coef: np.ndarray
    intercept: np.ndarray


class PointEngine(Engine):
    """An engine for any loss, with the coefficients, intercept and objective of a `Point` for each prediction.

    Parameters
    ----------
    members : Members
        Of floating point.
    rule, mode, width
        See `Engine`.
    y : ndarray of shape (n_samples,), with several classes (n_classes, n_samples), float64
        Classes are -1 and +1.
    loss : LossSettings
    """

    def __init__(
        self, members: Members, rule: Rule, mode: str, width: BatchWidth, y: np.ndarray, loss: LossSettings
    ) -> None:
        super().__init__(members, rule, mode, width)
        least_pivot = 0.0 if members.groups is None else LEAST_PIVOT
        self.points = [Point(members, one, loss, rule.ridge, least_pivot) for one in np.atleast_2d(y)]
        self._shape, self._is_shared = y.shape[:-1], False
        self.loss = loss.loss.name

    @property
    def coef(self) -> np.ndarray:
        """Coefficients of the standardised columns, of shape ([n_classes,] capacity)."""
        return np.array([point.coef for point in self.points]).reshape((*self._shape, -1))

    @property
    def intercept(self) -> float | np.ndarray:
        """The intercept, with several classes of each."""
        found = np.array([point.intercept for point in self.points])
        return found if self._shape else float(found[0])

    @property
    def value(self) -> float:
        """The objective: with several classes the sum over these."""
        return float(sum(point.value for point in self.points))

    def meet(self, others: np.ndarray) -> None:
        """Set what others contribute to the predictions; see `Engine.meet`."""
        self._is_shared = True
        for point, one in zip(self.points, np.atleast_2d(others), strict=True):
            point.meet(one)

    def begin(self, coef: np.ndarray) -> None:
        """Start from these coefficients of the members; see `Engine.begin`."""
        for point, one in zip(self.points, np.atleast_2d(coef), strict=True):
            point.move_to(np.append(one, np.zeros(len(point.coef) - len(one))), 0.0)

    def minimise(self) -> None:
        """Move to the minimum over the members by Newton steps."""
        for point in self.points:
            point.minimise()

    def contribution(self) -> np.ndarray:
        """Return what the members contribute to each prediction, without the intercept."""
        return np.array([point.own for point in self.points]).reshape((*self._shape, -1))

    def _terms(self) -> list[tuple[float, np.ndarray, np.ndarray, np.ndarray]]:
        return [point.terms() for point in self.points]

    def _take_ridge(self, ridge: float) -> None:
        super()._take_ridge(ridge)
        for point in self.points:
            point.ridge = ridge

    def _state(self) -> Record:
        return Coefficients(self.coef, np.atleast_1d(self.intercept))

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        state = Coefficients.unpack(arrays)
        for point, coef, intercept in zip(self.points, np.atleast_2d(state.coef), state.intercept, strict=True):
            point.objective.ridge = self.rule.ridge
            point.move_to(coef, 0.0 if self._is_shared else float(intercept))  # others contribute the intercept


class CurvedEngine(PointEngine):
    """Decides on columns or groups with any loss by the rule ``exchange``; see `PointEngine`."""

    _approximations: list[Quadratic] | None = None
    _n_since = 0
    """Columns taken since the curvature was computed."""

    def meet(self, others: np.ndarray) -> None:
        """Set what others contribute to the predictions; see `Engine.meet`."""
        super().meet(others)
        before = self._approximations
        if self._n_since >= max(RENEW_AFTER, self.members.n_members) or before is None:
            self._approximations = None
        else:
            self._approximations = [point.quadratic(one) for point, one in zip(self.points, before, strict=True)]

    def begin(self, coef: np.ndarray) -> None:
        """Start from these coefficients of the members; see `Engine.begin`."""
        super().begin(coef)
        self._approximations = None

    def minimise(self) -> None:
        """Move to the minimum of the approximations, and on by Newton steps if the loss has risen."""
        self.take(self.members.columns.take(slice(0)))

    def take(self, columns: Columns) -> None:
        """Present columns in their order; see `Engine.take`."""
        if self._is_shared:
            self._take_batch(columns)
        else:
            super().take(columns)

    def _quadratics(self) -> list[Quadratic]:
        """Return the quadratic approximations at the present points."""
        if self._approximations is None:
            self._approximations, self._n_since = [point.quadratic() for point in self.points], 0
        return self._approximations

    def _has_curvature(self) -> bool:
        """Return whether any gain is possible: not if for some class every sample's loss has zero curvature."""
        return min(one.total for one in self._quadratics()) > 0.0

    def _take_batch(self, columns: Columns) -> int:
        if not self._has_curvature():
            self.counters.n_presented += self.members.n_usable(columns)
            return 0
        if self.mode == "lazy" and self.members.is_full:
            columns = self._candidates(columns)
        self._n_since += len(columns)
        return self._exchange(columns) if len(columns) or self._is_shared else 0

    def _exchange(self, columns: Columns) -> int:
        """Exchange on the approximations, then check the true losses; return how many entered."""
        before, value, counters = self._quadratics(), self.value, replace(self.counters)
        after = [one.copy() for one in before]
        if self._is_shared:
            for batch in self._batches(columns):
                self.width.after(self._walk(batch, after))
        else:
            self.keep()
            self._walk(columns, after)
        n_entered, n_steps = self.counters.n_entered - counters.n_entered, 0 if self._is_shared else NEWTON_STEPS
        if not n_entered and not self._is_shared:
            return 0
        for point, old, new in zip(self.points, before, after, strict=True):
            point.exchanged(old, new)
        self._approximations = after if self._is_shared else None
        for step in range(n_steps + MORE_STEPS):
            if step >= n_steps and self.value <= value:
                break
            self._approximations = None
            for point in self.points:
                point.newton_step()
        if self.value <= value + ROUNDING * abs(value):
            if not self._is_shared:
                self.members.forget()
            return n_entered
        self.revert()
        if not self._is_shared:
            self.members.forget()
            self._approximations = before
        self.counters.n_exchanged, self.counters.n_entered = counters.n_exchanged, counters.n_entered
        if n_entered > 1 and len(self.points) > 1:  # some of them may be accepted, even if all together are not
            self.counters = counters
            half = len(columns) // 2
            return self._exchange(columns.take(slice(half))) + self._exchange(columns.take(slice(half, None)))
        self.counters.n_reverted += 1
        return 0

    def _walk(self, columns: Columns, quadratics: list[Quadratic]) -> int:
        """Let columns or groups enter one by one; return how many entered."""
        members, points, rows, k = self.members, self.points, columns.rows, self.members.n_members
        counters, n_before = self.counters, self.counters.n_entered
        each = list(zip(points, quadratics, strict=True))
        found = [point.diagonal(one, columns) for point, one in each]
        diagonal, sums = np.array([one[0] for one in found]), np.array([one[1] for one in found])
        cross = np.zeros((len(points), len(columns), members.capacity))
        for c, (point, one) in enumerate(each):
            cross[c, :, :k] = point.products(one, rows, members.held, sums[c], one.sums[:k])
        linear = np.array([row_products(rows, one.response, NO_WEIGHT) for one in quadratics])
        if members.groups is not None:
            self._walk_groups(columns, quadratics[0], cross[0], linear[0], sums[0])
            return counters.n_entered - n_before
        usable = members.usable(columns) & (diagonal > 0.0).all(axis=0)
        counts = np.zeros(1, COUNTS)
        several = SeveralProblems(members, self.rule, quadratics, cross, linear, diagonal, usable, counts)
        candidates, change = Candidates(cross[0], linear[0], diagonal[0], usable), np.zeros(1)

        def scan(start: int) -> tuple[int, int]:
            if len(points) > 1:
                return several.scan(start)
            one, rule = quadratics[0], self.rule
            b, slot = exchange_scan(
                candidates, start, one.inverse, one.optimum, one.squares, rule.ridge, rule.price,
                members.n_members, members.n_fixed, rule.tolerance, counts, change,
            )  # fmt: skip
            return int(b), int(slot)

        def products(left: slice, right: slice) -> np.ndarray:
            of_each = [
                point.products(one, rows[left], rows[right], sums[c, left], sums[c, right])
                for c, (point, one) in enumerate(each)
            ]
            return np.moveaxis(np.array(of_each), 0, 2) if len(points) > 1 else of_each[0]

        by_class_last = np.moveaxis(cross, 0, 2) if len(points) > 1 else cross[0]  # shares memory
        everything, placed = slice(None), dict[int, int]()
        for b, slot, replaces in entrances(
            members, columns, by_class_last, usable, scan, lambda: products(everything, everything),
            lambda b: products(slice(b + 1, None), slice(b, b + 1))[:, 0],
        ):  # fmt: skip
            counters.n_entered += 1
            counters.n_exchanged += replaces
            for c, one in enumerate(quadratics):
                one.sums[slot], one.squares[slot] = sums[c, b], diagonal[c, b] - self.rule.ridge
            placed[slot] = b
        members.copy_in(columns, placed)
        counters.n_presented += int(counts[0]["n_presented"])
        counters.n_refused += int(counts[0]["n_refused"])
        return counters.n_entered - n_before

    def _walk_groups(
        self, columns: Columns, quadratic: Quadratic, cross: np.ndarray, linear: np.ndarray, sums: np.ndarray
    ) -> None:
        """Let groups enter one after the other; `cross` changes."""
        members, point, rows, ridge = self.members, self.points[0], columns.rows, self.rule.ridge
        batch = GroupBatch.of(members, columns, cross, linear)
        for first, stop in zip(batch.bounds[:-1].tolist(), batch.bounds[1:].tolist(), strict=True):
            own, of_own = rows[first:stop], sums[first:stop]
            within = point.products(quadratic, own, own, of_own, of_own)
            batch.products.append(within + ridge * np.eye(stop - first))

        def with_slots(rest: slice, slots: np.ndarray) -> np.ndarray:
            of_slots = row_products(members.rows[slots], quadratic.curvature, NO_WEIGHT)
            return point.products(quadratic, rows[rest], members.rows, sums[rest], of_slots, slots)

        for entrance in walk_groups(
            members, batch, quadratic.inverse, quadratic.optimum, lambda: quadratic.squares, self.rule, self.counters,
            with_slots,
        ):  # fmt: skip
            moved(quadratic.sums, entrance, sums[entrance.columns])
            moved(quadratic.squares, entrance, np.diagonal(batch.products[entrance.group]) - ridge)

    def screen(self, most: int) -> Screen:
        """Return the state for screening: derivatives of the losses, and the smallest removal cost."""
        quadratics, costs = self._quadratics(), np.zeros(0)
        if self._has_curvature():
            costs = np.sum([self._costs(one.inverse, one.optimum) for one in quadratics], axis=0)
        descent = -np.array([one.derivative for one in quadratics]).reshape((*self._shape, -1))
        curvature = np.array([one.curvature for one in quadratics]).reshape((*self._shape, -1))
        return self._screen(descent, curvature, costs, most)

    def _take_ridge(self, ridge: float) -> None:
        super()._take_ridge(ridge)
        self._approximations = None

    def entry_state(self) -> State | None:
        """Return the state for tests of columns by their entries alone."""
        members, k = self.members, self.members.n_members
        if self.mode != "gram" or self._shape or k < members.capacity or not k or not self._has_curvature():
            return None
        point, quadratic = self.points[0], self._quadratics()[0]
        weight = members.weight if len(members.weight) else np.ones(len(point.own))
        return State(
            members.held, members.offset, members.factor, quadratic.sums, quadratic.inverse, quadratic.optimum,
            point.coef - quadratic.optimum, quadratic.squares, weight, quadratic.curvature, -quadratic.derivative,
        )  # fmt: skip

    def finish(self) -> Finished:
        """Compute the minima of the losses over the members, and the removal costs; the engine does not change."""
        ends = [self._finished(*point.at_minimum()) for point in self.points]
        if not self._shape:
            return ends[0]
        coef, intercept = np.array([one.coef for one in ends]), np.array([one.intercept for one in ends])
        return Finished(coef, intercept, np.sum([one.costs for one in ends], axis=0))

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore(arrays)
        self._approximations = None
