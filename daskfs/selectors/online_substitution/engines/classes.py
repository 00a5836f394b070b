"""The rule ``exchange`` with several classes: one against the rest, with shared columns.

Each class k has its own coefficients, intercept and quadratic approximation (`daskfs.kernels.substitution.exchange`,
which defines the symbols: inverse M⁻¹, h, a, σ, g). A column is selected for all classes, so gains and costs are
summed:

    gain = ½ Σ_k g_k² / σ_k,   the cost of dropping i = ½ Σ_k v'_ki² / (M_k⁻¹)'_ii

With few entering candidates, a whole batch is tested at once by matrix products. If predictions are shared with other
workers, each class has its own model (`walk_together`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from daskfs.kernels.substitution.exchange import MIN_GAIN, removal_costs
from daskfs.kernels.substitution.products import NO_WEIGHT, row_products
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.base import BatchWidth, Engine, Finished, Rule, entrances
from daskfs.selectors.online_substitution.engines.exchange import ExchangeModel
from daskfs.selectors.online_substitution.engines.glm import MORE_STEPS, NEWTON_STEPS, ROUNDING
from daskfs.selectors.online_substitution.engines.point import Coefficients, LossSettings, Point, Quadratic
from daskfs.selectors.online_substitution.engines.quadratic import Products, QuadraticModel
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.screen import Screen
from daskfs.selectors.shared.record import Record


@dataclass(slots=True)
class _Coefficients(Record):
    """Coefficients and intercepts of all classes, of shapes (n_classes, capacity) and (n_classes,)."""

    coef: np.ndarray
    intercept: np.ndarray


class ClassesEngine(Engine):
    """Decides on columns that several classes share.

    Parameters
    ----------
    members : Members
        Of floating point.
    rule, mode, width
        See `Engine`.
    y : ndarray of shape (n_classes, n_samples), float64
        +1 in the rows of a class, -1 in the others.
    loss : LossSettings
    """

    def __init__(
        self, members: Members, rule: Rule, mode: str, width: BatchWidth, y: np.ndarray, loss: LossSettings
    ) -> None:
        super().__init__(members, rule, mode, width)
        self.points = [Point(members, one, loss, rule.ridge) for one in y]
        self.loss = loss.loss.name
        self._approximations: list[Quadratic] | None = None

    @property
    def coef(self) -> np.ndarray:
        """Coefficients of the standardised columns, of shape (n_classes, capacity)."""
        return np.array([point.coef for point in self.points])

    @property
    def intercept(self) -> np.ndarray:
        """The intercepts, of shape (n_classes,)."""
        return np.array([point.intercept for point in self.points])

    @property
    def value(self) -> float:
        """The objective: the sum over the classes."""
        return float(sum(point.value for point in self.points))

    def _quadratics(self) -> list[Quadratic]:
        """Return the quadratic approximations at the present points."""
        if self._approximations is None:
            self._approximations = [point.quadratic() for point in self.points]
        return self._approximations

    def _take_batch(self, columns: Columns) -> int:
        if min(one.total for one in self._quadratics()) <= 0.0:  # for some class every sample's loss has zero curvature
            self.counters.n_presented += self.members.n_usable(columns)
            return 0
        if self.mode == "lazy" and self.members.is_full:
            columns = self._candidates(columns)
        return self._exchange(columns) if len(columns) else 0

    def screen(self, most: int) -> Screen:
        """Return the state for screening: derivatives of the losses, and the smallest removal cost."""
        members, quadratics = self.members, self._quadratics()
        least = np.inf
        if min(one.total for one in quadratics) > 0.0:
            least = float(self._removal_costs(quadratics)[members.n_fixed :].min(initial=np.inf))
        descent, curvature = -np.array([one.derivative for one in quadratics]), [one.curvature for one in self.points]
        present = members.ids[: members.n_members].copy()
        return Screen(descent, np.array(curvature), members.total, least, self.rule.ridge, present, most)

    def _removal_costs(self, quadratics: list[Quadratic]) -> np.ndarray:
        """Return the rise of the summed approximations when each member is dropped, of shape (n_members,)."""
        costs = [removal_costs(one.inverse, one.optimum, self.members.n_members) for one in quadratics]
        return np.asarray(np.sum(costs, axis=0))

    def _exchange(self, columns: Columns) -> int:
        """Exchange on the approximations, then check the true losses; return how many entered."""
        members, counters, value = self.members, self.counters, self.value
        counted = counters.n_presented, counters.n_refused
        before, kept = self._quadratics(), self._state()
        members.keep()
        after = [one.copy() for one in before]
        n_entered, n_exchanged = self._walk(columns, after)
        if not n_entered:
            return 0
        for point, old, new in zip(self.points, before, after, strict=True):
            point.exchanged(old, new)
        for step in range(NEWTON_STEPS + MORE_STEPS):
            if step >= NEWTON_STEPS and self.value <= value:
                break
            for point in self.points:
                point.newton_step()
        is_lower = self.value <= value + ROUNDING * abs(value)
        if is_lower:
            self._approximations = None
            counters.n_exchanged += n_exchanged
            counters.n_entered += n_entered
        else:
            members.revert()
            self._move_to(kept)
        members.forget()
        if is_lower:
            return n_entered
        if n_entered > 1:  # some of them may be accepted, even if all together are not
            counters.n_presented, counters.n_refused = counted
            half = len(columns) // 2
            return self._exchange(columns.take(slice(half))) + self._exchange(columns.take(slice(half, None)))
        counters.n_reverted += 1
        return 0

    def _walk(self, columns: Columns, quadratics: list[Quadratic]) -> tuple[int, int]:
        """Let candidates enter one by one; return how many entered, and how many of them replaced a feature."""
        members, points, rows, k = self.members, self.points, columns.rows, self.members.n_members
        n_classes = len(points)
        found = [point.diagonal(columns) for point in points]
        diagonal, sums = np.array([one[0] for one in found]), np.array([one[1] for one in found])
        cross = np.zeros((n_classes, len(columns), members.capacity))
        linear = np.zeros((n_classes, len(columns)))
        for c, (point, one) in enumerate(zip(points, quadratics, strict=True)):
            cross[c, :, :k] = point.weighted(rows, members.rows[:k], sums[c], one.sums[:k], one.total)
            linear[c] = row_products(cross[c], point.coef, NO_WEIGHT) - point.gradient(columns, one.derivative)
        batch = _Batch(members, self.rule, quadratics, cross, linear, diagonal)
        batch.usable = members.usable(columns) & (diagonal > 0.0).all(axis=0)

        def products(left: slice, right: slice) -> np.ndarray:
            found = [
                point.weighted(rows[left], rows[right], sums[c, left], sums[c, right], quadratics[c].total)
                for c, point in enumerate(points)
            ]
            return np.moveaxis(np.array(found), 0, 2)

        def after(b: int) -> np.ndarray:
            return products(slice(b + 1, None), slice(b, b + 1))[:, 0]

        everything, n_entered, n_exchanged, placed = slice(None), 0, 0, {}
        by_class_last = np.moveaxis(cross, 0, 2)  # shares memory
        for b, slot, replaces in entrances(
            members, columns, by_class_last, batch.usable, batch.scan, lambda: products(everything, everything), after
        ):
            n_entered += 1
            n_exchanged += replaces
            for c, one in enumerate(quadratics):
                one.sums[slot], one.squares[slot] = sums[c, b], diagonal[c, b] - self.rule.ridge
            placed[slot] = b
        members.copy_in(columns, placed)
        self.counters.n_presented += batch.n_presented
        self.counters.n_refused += batch.n_refused
        return n_entered, n_exchanged

    def _terms(self) -> list[tuple[float, np.ndarray, np.ndarray, np.ndarray]]:
        return [point.terms() for point in self.points]

    def _take_ridge(self, ridge: float) -> None:
        super()._take_ridge(ridge)
        for point in self.points:
            point.ridge = ridge
            point.predict()
        self._approximations = None

    def finish(self) -> Finished:
        """Compute the minima of the losses over the members, and the removal costs; the engine does not change."""
        k, ends = self.members.n_members, [point.at_minimum() for point in self.points]
        costs = [removal_costs(inverse, coef, k) for coef, _, inverse in ends]
        coef, intercept = np.array([end[0] for end in ends]), np.array([end[1] for end in ends])
        return Finished(coef, intercept, np.sum(costs, axis=0))

    def _state(self) -> _Coefficients:
        return _Coefficients(self.coef, self.intercept)

    def _move_to(self, state: _Coefficients) -> None:
        for point, coef, intercept in zip(self.points, state.coef, state.intercept, strict=True):
            point.move_to(Coefficients(coef, float(intercept)))

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        for point in self.points:
            point.ridge = self.rule.ridge
        self._move_to(_Coefficients.unpack(arrays))
        self._approximations = None


def walk_together(
    models: Sequence[QuadraticModel],
    columns: Columns,
    cross: np.ndarray,
    linear: np.ndarray,
    squares: np.ndarray,
    usable: np.ndarray,
    products: Sequence[Products],
) -> int:
    """Let candidates enter that pay for the models of all classes together; return how many entered.

    It does for several models what `QuadraticModel.walk` does for one.

    Parameters
    ----------
    models : sequence of QuadraticModel
        One for each class, with the same members and the rule "exchange".
    columns : Columns
    cross : ndarray of shape (n_classes, B, capacity)
        Products with the members; changed in place.
    linear, squares : ndarray of shape (n_classes, B)
        Entries of c, and each column's product with itself.
    usable : ndarray of shape (B,), bool
        Changed in place.
    products : sequence of Products
    """
    members, rule = models[0].members, models[0].rule
    diagonal = squares + rule.ridge
    batch = _Batch(members, rule, cast(Sequence[ExchangeModel], models), cross, linear, diagonal)
    batch.usable = usable

    def within() -> np.ndarray:
        return np.moveaxis(np.array([one.within(columns) for one in products]), 0, 2)

    def after(b: int) -> np.ndarray:
        rest, entered = columns.take(slice(b + 1, None)), columns.take(slice(b, b + 1))
        return np.array([one.against(rest, entered) for one in products]).T

    placed: dict[int, int] = {}
    n_entered, by_class_last = 0, np.moveaxis(cross, 0, 2)  # shares memory
    for b, slot, _ in entrances(members, columns, by_class_last, usable, batch.scan, within, after):
        n_entered += 1
        for c, model in enumerate(models):
            model.enter(slot, cross[c, b], diagonal[c, b], linear[c, b])
        placed[slot] = b
    members.copy_in(columns, placed)
    return n_entered


class _Minimised(Protocol):
    """A quadratic approximation at its minimum: `Quadratic`, or `ExchangeModel`."""

    @property
    def inverse(self) -> np.ndarray:
        """Inverse of the members' products, ridge included, of shape (capacity, capacity)."""

    @property
    def optimum(self) -> np.ndarray:
        """The members' coefficients, of shape (capacity,)."""

    @property
    def squares(self) -> np.ndarray:
        """The members' curvatures, without the ridge, of shape (capacity,)."""


class _Batch:
    """Candidates and the approximations of all classes, which change as candidates enter.

    Parameters
    ----------
    members : Members
    rule : Rule
    quadratics : sequence of Quadratic or ExchangeModel
        Changed in place.
    cross : ndarray of shape (n_classes, B, capacity)
        M between candidates and members.
    linear, diagonal : ndarray of shape (n_classes, B)
        c_j and M_jj.
    """

    usable: np.ndarray
    """Which candidates may enter, bool of shape (B,)."""

    def __init__(
        self,
        members: Members,
        rule: Rule,
        quadratics: Sequence[_Minimised],
        cross: np.ndarray,
        linear: np.ndarray,
        diagonal: np.ndarray,
    ) -> None:
        self.members, self.rule, self.quadratics = members, rule, quadratics
        self.cross, self.linear, self.diagonal = cross, linear, diagonal
        self.n_presented = self.n_refused = 0

    def scan(self, start: int) -> tuple[int, int]:
        """Let the first candidate from `start` on enter that pays; return its position and slot (below 0: none)."""
        members, k = self.members, self.members.n_members
        inverse = np.array([one.inverse[:k, :k] for one in self.quadratics])
        coef = np.array([one.optimum[:k] for one in self.quadratics])
        squares = np.array([one.squares[:k] for one in self.quadratics])
        h, diagonal = np.ascontiguousarray(self.cross[:, start:, :k]), self.diagonal[:, start:]
        a = h @ inverse
        pivot = diagonal - (a * h).sum(axis=2)
        is_copy = np.zeros(pivot.shape[1], bool)
        if self.rule.ridge > 0.0:  # a copy would share the coefficients of a member
            like = h**2 > (1.0 - self.rule.tolerance) * (diagonal - self.rule.ridge)[:, :, None] * squares[:, None]
            is_copy = like.all(axis=0).any(axis=1)
        is_refused = is_copy | ~(pivot >= self.rule.tolerance * diagonal).all(axis=0)
        gradient = self.linear[:, start:] - (h @ coef[:, :, None])[:, :, 0]
        step = gradient / np.where(is_refused, 1.0, pivot)  # the candidate's coefficient if it entered
        gain = 0.5 * (gradient * step).sum(axis=0)
        may_enter = self.usable[start:] & ~is_refused
        slots = np.full(len(gain), k)
        if members.is_full:
            moved = coef[:, None] - a * step[:, :, None]
            own = np.diagonal(inverse, axis1=1, axis2=2)[:, None] + a**2 / np.where(is_refused, 1.0, pivot)[:, :, None]
            costs = 0.5 * (moved**2 / own).sum(axis=0)[:, members.n_fixed :]
            slots = members.n_fixed + costs.argmin(axis=1) if costs.shape[1] else slots
            may_enter &= costs.min(axis=1, initial=np.inf) < gain * (1.0 - MIN_GAIN)
        places = np.flatnonzero(may_enter)
        looked_at = slice(start, len(self.usable) if not len(places) else start + int(places[0]) + 1)
        self.n_presented += int(self.usable[looked_at].sum())
        self.n_refused += int((self.usable[looked_at] & is_refused[: looked_at.stop - start]).sum())
        if not len(places):
            return len(self.usable), -1
        b = int(places[0])
        for c, one in enumerate(self.quadratics):
            _let_in(one, k, int(slots[b]), a[c, b], float(pivot[c, b]), float(step[c, b]))
        return start + b, int(slots[b])


def _let_in(quadratic: _Minimised, k: int, slot: int, a: np.ndarray, pivot: float, step: float) -> None:
    """Update inverse and optimum for a candidate in a slot: a new one after the k members, or that of a member."""
    inverse, coef = np.empty((k + 1, k + 1)), np.append(quadratic.optimum[:k] - a * step, step)
    inverse[:k, :k] = quadratic.inverse[:k, :k] + np.outer(a, a / pivot)
    inverse[k, :k] = inverse[:k, k] = -a / pivot
    inverse[k, k] = 1.0 / pivot
    stay = np.arange(k + 1)
    if slot < k:
        row, own = inverse[slot].copy(), inverse[slot, slot]
        coef -= row * (coef[slot] / own)
        inverse -= np.outer(row, row / own)
        stay = stay[:k]
        stay[slot] = k
    n = len(stay)
    quadratic.inverse[:n, :n], quadratic.optimum[:n] = inverse[np.ix_(stay, stay)], coef[stay]
