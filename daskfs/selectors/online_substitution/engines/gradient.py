"""The rules ``os`` and ``paper`` for any loss, computed on the columns themselves: Algorithm 1 line by line.

``naive``  for every column: prediction, derivative, a gradient step of the members, the candidate's coefficient, the
check
``lazy``   the members take a step only after a candidate was accepted, so a refusal costs one product with the
derivative
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from daskfs.kernels.substitution.products import combine, row_products
from daskfs.kernels.substitution.steps import COLD, MARGIN, WARM
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.base import BatchWidth, Finished, Rule
from daskfs.selectors.online_substitution.engines.point import Coefficients, LossSettings, PointEngine
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.shared.record import Record

LAZY_STEPS = 2  # of the members after each acceptance
FLOOR = 0.05  # smallest curvature of a candidate, as a share of its upper bound


@dataclass(slots=True)
class _Gradient(Record):
    """The state of the gradient descent."""

    power: np.ndarray
    """Vector of the power iteration, of shape (capacity,)."""
    largest: float = 0.0
    """Its estimate of λmax(κ X_Sᵀ X_S / n + ridge)."""
    is_changed: bool = False
    """Whether the members have changed since the estimate."""
    excess: float = -math.inf
    """The largest excess of the objective over the bound of inequality (11)."""
    moved: float = 0.0
    """Σ |w_next - w|² over all steps."""


@dataclass(slots=True)
class _GradientState(Coefficients):
    steps: _Gradient


class GradientEngine(PointEngine):
    """Decides with any loss of bounded curvature by the rules ``os`` and ``paper``; see `PointEngine`."""

    def __init__(
        self, members: Members, rule: Rule, mode: str, width: BatchWidth, y: np.ndarray, loss: LossSettings
    ) -> None:
        super().__init__(members, rule, mode, width, y, loss)
        self.kappa = loss.loss.curvature_bound
        self.steps = _Gradient(np.ones(members.capacity))
        self._image = np.zeros(len(y))

    def _take_batch(self, columns: Columns) -> int:
        if self.mode == "lazy":
            return self._take_lazily(columns)
        for b in range(len(columns)):
            self._present(columns.take(slice(b, b + 1)))
        return 0  # one column at a time, whatever the width

    def _present(self, column: Columns) -> None:
        """Run lines 3 to 17 of the algorithm for one column."""
        if not self.members.usable(column)[0]:
            return
        self.counters.n_presented += 1
        point, rule, k = self.point, self.rule, self.members.n_members
        if self.steps.is_changed and k:
            self._estimate()
        derivative = float(point.gradient(column, point.derivative)[0])
        step_j, bound = self._candidate_step(column)
        step_s = step_j / rule.m if rule.name == "paper" else 1.0 / self._steepest()
        before, start = point.value, point.coef.copy()
        self._step(step_s)
        moved = float(((point.coef - start) ** 2).sum())
        coef_j = -step_j * derivative
        slot = self._slot_for(coef_j)
        if slot < 0:
            self._account(before, bound, step_j, moved)
            return
        dropped = moved + coef_j**2
        if slot < k:
            dropped += start[slot] ** 2 - (point.coef[slot] - start[slot]) ** 2
        scale = rule.c * (0.5 * bound - 0.5 / step_j) if rule.name == "paper" else 0.0
        is_accepted = self._try(column, slot, coef_j, before + scale * dropped if slot < k else math.inf)
        self._account(before, bound, step_j, dropped if is_accepted else moved)

    def _account(self, before: float, bound: float, step_j: float, moved: float) -> None:
        self.steps.moved += moved
        if self.rule.name == "paper":
            allowed = self.rule.c * (0.5 * bound - 0.5 / step_j) * moved
            self.steps.excess = max(self.steps.excess, self.point.value - before - allowed)

    def _candidate_step(self, column: Columns) -> tuple[float, float]:
        """Return the candidate's step, and the curvature bound it was computed from."""
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
                bound = 0.5 * (self.steps.largest + square)
                bound += 0.5 * math.sqrt((self.steps.largest - square) ** 2 + 4.0 * float((h**2).sum()))
        return 0.5 / bound if rule.eta == 0.0 else rule.eta, bound

    def _steepest(self) -> float:
        return max(self.steps.largest, self.kappa + self.rule.ridge)

    def _estimate(self) -> None:
        """Update the largest eigenvalue of κ X_Sᵀ X_S / n + ridge by power iterations."""
        members, k = self.members, self.members.n_members
        vector, value = self.steps.power[:k].copy(), 0.0
        for _ in range(COLD if self.steps.largest == 0.0 else WARM):
            size = math.sqrt(float((vector**2).sum()))
            vector = vector / size if size > 0.0 else np.full(k, 1.0 / math.sqrt(k))
            combine(members.rows, vector, 0.0, self._image)
            image = self.kappa * row_products(members.rows[:k], self._image, members.weight) / members.total
            image += self.rule.ridge * vector
            value = math.sqrt(float((image**2).sum()))
            vector = image
        self.steps.power[:k] = vector
        self.steps.largest, self.steps.is_changed = MARGIN * value, False

    def _step(self, step: float) -> None:
        """Lines 4 and 6: take a gradient step in the members' coefficients and the intercept, if there is one."""
        point, k = self.point, self.members.n_members
        if not k and not point.loss.fits_intercept:
            return
        gradient = point.members_gradient(point.derivative)
        drift = float(point.derivative.sum()) / self.members.total if point.loss.fits_intercept else 0.0
        if self.rule.name == "os":
            combine(self.members.rows, gradient, drift, self._image)
            weight = self.members.weight
            squares = self._image**2 * weight if len(weight) else self._image**2
            curvature = self.kappa * float(squares.sum()) / self.members.total
            curvature += self.rule.ridge * float((gradient**2).sum())
            length = float((gradient**2).sum()) + drift**2
            if step * curvature > 2.0 * length:  # the estimate was too low: the loss could rise
                self.steps.largest = MARGIN * curvature / length
                step = 1.0 / self.steps.largest
        point.coef[:k] -= step * gradient
        point.intercept -= step * drift
        point.predict()

    def _slot_for(self, coef_j: float) -> int:
        """Return the slot that a candidate would take, or -1 if its coefficient is the smallest."""
        members, k = self.members, self.members.n_members
        if k < members.capacity:
            return k
        sizes = np.abs(self.point.coef[members.n_fixed : k])
        if not len(sizes) or sizes.min() >= abs(coef_j):
            return -1
        return members.n_fixed + int(np.argmin(sizes))

    def _try(self, column: Columns, slot: int, coef_j: float, allowed: float) -> bool:
        """Lines 10 to 16: put a candidate into a slot, and remove it if the loss exceeds `allowed`."""
        point, members = self.point, self.members
        n_before, old = members.n_members, float(point.coef[slot])
        members.keep()
        point.coef[slot] = coef_j
        members.describe(slot, column, 0)
        members.copy_in(column, {slot: 0})
        point.predict()
        is_accepted = not (self.rule.checks and point.value > allowed)
        if is_accepted:
            self.counters.n_exchanged += slot < n_before
            self.counters.n_entered += 1
            self.steps.is_changed = True
        else:
            members.revert()
            point.coef[slot] = old
            point.predict()
            self.counters.n_refused += 1
        members.forget()
        return is_accepted

    def _take_lazily(self, columns: Columns) -> int:
        """Present a batch to the present members; they take steps after each acceptance."""
        members, point = self.members, self.point
        usable = members.usable(columns)
        self.counters.n_presented += int(usable.sum())
        squares = self.kappa * columns.square
        n_accepted = start = 0
        while start < len(columns):
            rest = columns.take(slice(start, None))
            derivatives = point.gradient(rest, point.derivative)
            if n_accepted == 0 or start == 0 or not point.loss.loss.is_quadratic:
                curved = self._curvature_of(columns)
            steps = 1.0 / (np.maximum(curved[start:], FLOOR * squares[start:]) + self.rule.ridge)
            b = self._first(rest, usable[start:], -steps * derivatives)
            if b < 0:
                break
            start += b + 1
            n_accepted += 1
            for _ in range(LAZY_STEPS):
                if self.steps.is_changed:
                    self._estimate()
                self._step(1.0 / self._steepest())
        return n_accepted

    def _curvature_of(self, columns: Columns) -> np.ndarray:
        curvature = self.point.curvature
        products = [row_products(row[None], row, curvature)[0] for row in columns.rows]
        return np.array(products) / self.members.total

    def _first(self, columns: Columns, usable: np.ndarray, weights: np.ndarray) -> int:
        """Let the first column that is accepted enter; return its position in the batch, or -1 if there is none."""
        members, point = self.members, self.point
        is_full = members.n_members == members.capacity
        least = np.abs(point.coef[members.n_fixed : members.n_members]).min(initial=np.inf) if is_full else -1.0
        for b in np.flatnonzero(usable & (np.abs(weights) > least)):
            slot = self._slot_for(float(weights[b]))
            gone = members.ids[slot]
            if self._try(columns.take(slice(b, b + 1)), slot, float(weights[b]), point.value if is_full else math.inf):
                usable[(columns.ids == gone) & (columns.scale > 0.0)] = is_full
                return int(b)
        return -1

    def _take_ridge(self, ridge: float) -> None:
        super()._take_ridge(ridge)
        self.steps.is_changed = True

    def finish(self) -> Finished:
        """Compute the removal costs at the minimum of the loss's quadratic approximation."""
        quadratic = self.point.quadratic()
        return self._finished(quadratic.optimum, self.point.intercept, quadratic.inverse)

    def _state(self) -> _GradientState:
        return _GradientState(self.coef, self.point.intercept, self.steps)

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        state = _GradientState.unpack(arrays)
        self.point.ridge = self.rule.ridge
        self.point.move_to(state)
        self.steps = state.steps
