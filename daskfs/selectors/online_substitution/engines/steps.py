"""The rules ``os`` and ``paper``: Algorithm 1 line by line, on the columns themselves, for losses of bounded curvature.

With w the members' coefficients, u the prediction, and a candidate j:

    line 6        w_S ← w_S - step_S X_Sᵀ ∂L/∂u
    line 7        w_j = -step_j x_jᵀ ∂L/∂u                              with the previous u
    lines 9, 10   where there is no room, drop the smallest |w_k| of S and j
    line 12       f(next) - f(before) <= c (L/2 - 1/2 eta) |next - before|²; otherwise lines 15, 16: w_j = 0

``paper``: step_j = eta, step_S = eta / m, eta = 0.5 / L unless given, and L an upper bound of λmax over S and j.
``os``: a Newton step for the candidate, step_S = 1 / λmax over S, and f must not rise. In both, the members' step is
kept if the check refuses the candidate.

A group has a vector w_G and its norm instead of |w_j|; a column is a group of one. If the number of columns is limited,
a group may replace several.

The mode ``lazy`` lets the members step only after a candidate was accepted, so a refusal costs one product with the
derivative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from daskfs.kernels.linear.linalg import invert, multiply
from daskfs.kernels.substitution.group_exchange import loads_of
from daskfs.kernels.substitution.products import combine, cross_products, row_products
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.base import BatchWidth, Finished, Rule
from daskfs.selectors.online_substitution.engines.curved import Coefficients, PointEngine
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.objective import LossSettings

LAZY_STEPS = 2  # of the members after each acceptance
FLOOR = 0.05  # smallest curvature of a candidate, as a share of its upper bound
MARGIN = 1.02  # on the power iteration's estimate of the largest eigenvalue
COLD, WARM = 20, 3  # power iterations, initially and after an exchange
PART_OF_LIMIT = 0.99
"""Share of Theorem 2's limit, which must not be reached. By Theorem 3 the longest step has the best local optimum."""


@dataclass(slots=True)
class StepsState(Coefficients):
    """The state of the gradient descent."""

    power: np.ndarray
    """Vector of the power iteration, of shape (capacity,)."""
    largest: float
    """Its estimate of λmax(κ X_Sᵀ X_S / n + ridge)."""
    is_changed: bool
    """Whether the members have changed since the estimate."""


class StepsEngine(PointEngine):
    """Decides on columns or groups by the rules ``os`` and ``paper``; see `PointEngine`."""

    def __init__(
        self, members: Members, rule: Rule, mode: str, width: BatchWidth, y: np.ndarray, loss: LossSettings
    ) -> None:
        super().__init__(members, rule, mode, width, y, loss)
        self.point, self.kappa = self.points[0], loss.loss.curvature_bound
        self._eta, self._lipschitz = rule.eta, rule.lipschitz
        self._power, self._largest, self._is_changed = np.ones(members.capacity), 0.0, False

    def begin(self, coef: np.ndarray) -> None:
        """Start from these coefficients of the members; see `Engine.begin`."""
        super().begin(coef)
        self._power[:], self._largest, self._is_changed = 1.0, 0.0, True

    def meet(self, others: np.ndarray) -> None:
        """Set what others contribute to the prediction, and the paper's step below Theorem 2's limit."""
        super().meet(others)
        rule = self.rule
        if rule.rho is None or rule.name != "paper" or rule.eta > 0.0:
            return
        self._estimate()
        # a candidate of unit size adds at most its own curvature
        self._lipschitz = rule.lipschitz or self._largest + self.kappa
        self._eta = PART_OF_LIMIT * 0.5 / (self._lipschitz * (1.0 + rule.rho))

    def _take_batch(self, columns: Columns) -> int:
        members, n_before = self.members, self.counters.n_entered
        for piece in members.pieces(columns.ids, 1):
            group = columns.take(piece)
            is_member = (members.labels(members.columns.ids) == members.labels(group.ids[:1])).any()
            if group.scale[0] > 0.0 and not is_member:
                self._present(group)
        return self.counters.n_entered - n_before if self.mode == "lazy" else 0

    def _present(self, group: Columns) -> None:
        """Run lines 3 to 17 of the algorithm for one group; if lazy, step only after an entrance."""
        self.counters.n_presented += 1
        point, rule, is_lazy = self.point, self.rule, self.mode == "lazy"
        if not is_lazy:
            self._estimate()
        coef, step, bound = self._coefficients(group)
        before, start = point.value, point.coef.copy()
        if not is_lazy:
            self._step(step / rule.m if rule.name == "paper" else 1.0 / self._steepest)
        dropped = self._shortest(group, float((coef**2).sum()))
        if dropped is None:
            return
        allowed = math.inf
        if len(dropped):
            after = point.coef.copy()
            after[dropped] = 0.0
            moved = float(((after - start) ** 2).sum() + (coef**2).sum())
            allowed = before + (rule.c * (0.5 * bound - 0.5 / step) * moved if rule.name == "paper" else 0.0)
        if self._try(group, dropped, coef, allowed) and is_lazy:
            for _ in range(LAZY_STEPS):
                self._estimate()
                self._step(1.0 / self._steepest)

    def _coefficients(self, group: Columns) -> tuple[np.ndarray, float, float]:
        """Return w_G of line 7, the step, and the curvature bound it was computed from."""
        members, rule, k, q = self.members, self.rule, self.members.n_members, len(group)
        derivative, ridge = self.point.gradient(group), rule.ridge * np.eye(q)
        products = self.kappa * self._within(group, members.weight)
        square = float(np.linalg.eigvalsh(products + ridge)[-1])
        if rule.name == "os":
            curved, inverse = self._within(group, self.point.curvature), np.zeros((q, q))
            curved[range(q), range(q)] = np.maximum(np.diagonal(curved), FLOOR * np.diagonal(products))
            curved += ridge
            curved[range(q), range(q)] += loads_of(curved, self._least_pivot)
            invert(curved, inverse)
            return -multiply(inverse, derivative), 1.0 / square, square
        bound = self._lipschitz
        if bound == 0.0:  # of the 2 x 2 matrix of λ, the group's own curvature and its products with the members
            h = self.kappa * cross_products(group.rows, members.held, members.weight) / members.total
            bound = 0.5 * (self._largest + square + math.hypot(self._largest - square, 2.0 * float(np.linalg.norm(h))))
            bound = bound if k else square
        step = self._eta or 0.5 / bound
        return -step * derivative, step, bound

    def _within(self, group: Columns, weight: np.ndarray) -> np.ndarray:
        """Return the products of a group with itself, of shape (q, q)."""
        rows = group.rows
        if len(rows) == 1:
            return row_products(rows, rows[0], weight)[:, None] / self.members.total
        return cross_products(rows, rows, weight) / self.members.total

    @property
    def _steepest(self) -> float:
        return max(self._largest, self.kappa + self.rule.ridge)

    def _estimate(self) -> None:
        """Update the largest eigenvalue of κ X_Sᵀ X_S / n + ridge by power iterations, if the members have changed."""
        members, k, value = self.members, self.members.n_members, 0.0
        if not self._is_changed or not k:
            return
        vector, image = self._power[:k].copy(), np.empty(len(self.point.own))
        for _ in range(COLD if self._largest == 0.0 else WARM):
            size = float(np.linalg.norm(vector))
            vector = vector / size if size > 0.0 else np.full(k, 1.0 / math.sqrt(k))
            combine(members.rows, vector, 0.0, image)
            products = self.kappa * row_products(members.held, image, members.weight) / members.total
            vector = products + self.rule.ridge * vector
            value = float(np.linalg.norm(vector))
        self._power[:k] = vector
        self._largest, self._is_changed = MARGIN * value, False

    def _step(self, step: float) -> None:
        """Line 6: take a gradient step in the members' coefficients and the intercept, if there is one."""
        point, members = self.point, self.members
        gradient, drift = point.members_gradient(point.derivative), 0.0
        if point.fits_intercept:
            drift = float(point.derivative.sum()) / members.total
        length = float((gradient**2).sum()) + drift**2
        if self.rule.name == "os":
            image = np.empty(len(point.own))
            combine(members.rows, gradient, drift, image)
            squares = image**2 * members.weight if len(members.weight) else image**2
            curvature = self.kappa * float(squares.sum()) / members.total
            curvature += self.rule.ridge * float((gradient**2).sum())
            if step * curvature > 2.0 * length:  # the estimate was too low: the loss could rise
                self._largest = MARGIN * curvature / length
                step = 1.0 / self._largest
        if length > 0.0:
            coef = point.coef.copy()
            coef[: len(gradient)] -= step * gradient
            point.move_to(coef, point.intercept - step * drift)

    def _shortest(self, group: Columns, square: float) -> np.ndarray | None:
        """Lines 9 and 10: return the slots that a candidate of this squared length takes, or None if it is shorter."""
        members, layout = self.members, self.members.layout()
        needed = int(members.counted(members.labels(group.ids[:1]))[0]) - members.room(layout)
        gone, counted = np.zeros(len(layout.groups), bool), members.counted(layout.groups)
        squares = np.add.reduceat(self.point.coef[layout.slots] ** 2, layout.bounds[:-1]) if len(gone) else np.zeros(0)
        for m in np.argsort(squares[layout.n_fixed :], kind="stable") + layout.n_fixed:
            if needed <= 0:
                break
            gone[m] = True
            needed -= int(counted[m])
        if needed > 0 or float(squares[gone].sum()) >= square > 0.0 or (gone.any() and square == 0.0):
            return None
        return layout.slots_of(gone)

    def _try(self, group: Columns, dropped: np.ndarray, coef: np.ndarray, allowed: float) -> bool:
        """Lines 12 to 16: let a candidate enter, unless the loss exceeds `allowed`."""
        point, members, k = self.point, self.members, self.members.n_members
        change, lost, values = np.empty_like(point.own), np.empty_like(point.own), np.append(point.coef[:k], coef)
        combine(group.rows, coef, 0.0, change)
        if len(dropped):
            combine(members.rows[dropped], point.coef[dropped], 0.0, lost)
            change -= lost
        stays = np.delete(values, dropped)
        prediction = point.own + change + (point.others + point.intercept)
        if self.rule.checks and point.objective.value(prediction, point.objective.penalty(stays)) > allowed:
            self.counters.n_refused += 1
            return False
        source = members.exchange(dropped, group)
        point.move_to(np.append(values[source], np.zeros(members.capacity - len(source))), point.intercept)
        has_moved = source < k
        self._power[: len(source)][has_moved] = self._power[source[has_moved]]
        self._is_changed = True
        self.counters.n_exchanged += len(dropped) > 0
        self.counters.n_entered += 1
        return True

    def _take_ridge(self, ridge: float) -> None:
        super()._take_ridge(ridge)
        self._is_changed = True

    def finish(self) -> Finished:
        """Compute the removal costs at the minimum of the loss's quadratic approximation."""
        quadratic = self.point.quadratic()
        return self._finished(quadratic.optimum, self.point.intercept, quadratic.inverse)

    def _state(self) -> StepsState:
        intercept = np.array([self.point.intercept])
        return StepsState(self.coef, intercept, self._power, self._largest, self._is_changed)

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore(arrays)
        state = StepsState.unpack(arrays)
        self._power, self._largest, self._is_changed = state.power, state.largest, state.is_changed
