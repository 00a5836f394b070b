"""The rules ``os`` and ``paper`` when whole groups are exchanged: Algorithm 1 with w_G instead of w_j.

A candidate is the coefficients of a group, w_G = -eta X_Gᵀ ∂L/∂u, or a Newton step with the rule ``os``. The smallest
entry is the group with the shortest w_K, or several groups if the number of columns is limited and the candidate needs
more room.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.linear.linalg import invert, multiply
from daskfs.kernels.substitution.group_exchange import loads_of
from daskfs.kernels.substitution.products import cross_products
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.gradient import FLOOR, LAZY_STEPS, GradientEngine
from daskfs.selectors.online_substitution.engines.grouped import LEAST_PIVOT, TakesGroups
from daskfs.selectors.online_substitution.group_members import Layout


class GroupGradientEngine(TakesGroups, GradientEngine):
    """Decides on groups by the rules ``os`` and ``paper``; see `GradientEngine`."""

    _least_pivot = LEAST_PIVOT

    def _take_batch(self, columns: Columns) -> int:
        groups, n_before = self.members.groups, self.counters.n_entered
        for piece in groups.pieces(columns.ids, 1):
            group = columns.take(piece)
            layout = self.members.layout()
            if groups.group_of[group.ids[0]] not in layout.groups:
                self._present_group(group, layout)
        return self.counters.n_entered - n_before if self.mode == "lazy" else 0

    def _present_group(self, group: Columns, layout: Layout) -> None:
        """Run lines 3 to 17 of the algorithm for one group; if lazy, step only after an entrance."""
        self.counters.n_presented += 1
        point, rule, k = self.point, self.rule, self.members.n_members
        is_lazy = self.mode == "lazy"
        if self.steps.is_changed and k and not is_lazy:
            self._estimate()
        coef, step, bound = self._coefficients(group)
        before, start = point.value, point.coef.copy()
        if not is_lazy:
            self._step(step / rule.m if rule.name == "paper" else 1.0 / self._steepest())
        moved = float(((point.coef - start) ** 2).sum())
        dropped = self._shortest(group, float((coef**2).sum()), layout)
        if dropped is None:
            self._account(before, bound, step, moved)
            return
        further = moved + float((coef**2).sum())
        further += float((start[dropped] ** 2).sum() - ((point.coef[dropped] - start[dropped]) ** 2).sum())
        scale = rule.c * (0.5 * bound - 0.5 / step) if rule.name == "paper" else 0.0
        is_accepted = self._try_group(group, dropped, coef, before + scale * further if len(dropped) else math.inf)
        self._account(before, bound, step, further if is_accepted else moved)
        if is_lazy and is_accepted:
            for _ in range(LAZY_STEPS):
                if self.steps.is_changed:
                    self._estimate()
                self._step(1.0 / self._steepest())

    def _coefficients(self, group: Columns) -> tuple[np.ndarray, float, float]:
        """Return w_G, the step, and the curvature bound it was computed from."""
        point, members, rule, k = self.point, self.members, self.rule, self.members.n_members
        derivative = point.gradient(group, point.derivative)
        ridge, q = rule.ridge * np.eye(len(group)), len(group)
        products = self.kappa * cross_products(group.rows, group.rows, members.weight) / members.total
        square = float(np.linalg.eigvalsh(products + ridge)[-1])
        if rule.name == "os":
            curved = cross_products(group.rows, group.rows, point.curvature) / members.total
            floor = FLOOR * np.diagonal(products)
            curved[range(q), range(q)] = np.maximum(np.diagonal(curved), floor)
            curved += ridge
            curved[range(q), range(q)] += loads_of(curved, max(rule.tolerance, LEAST_PIVOT))
            inverse = np.zeros((q, q))
            invert(curved, inverse)
            return -multiply(inverse, derivative), 1.0 / square, square
        bound = rule.lipschitz
        if bound == 0.0:
            bound = square
            if k:
                h = self.kappa * cross_products(group.rows, members.held, members.weight) / members.total
                bound = 0.5 * (self.steps.largest + square)
                bound += 0.5 * math.sqrt((self.steps.largest - square) ** 2 + 4.0 * float((h**2).sum()))
        step = 0.5 / bound if rule.eta == 0.0 else rule.eta
        return -step * derivative, step, bound

    def _shortest(self, group: Columns, square: float, layout: Layout) -> np.ndarray | None:
        """Return the slots of the groups that a candidate of this squared length replaces, or None."""
        members = self.members
        counted = members.groups.counted
        needed = int(counted[members.groups.group_of[group.ids[0]]]) - members.room(layout)
        gone = np.zeros(len(layout.groups), bool)
        squares = np.add.reduceat(self.point.coef[layout.slots] ** 2, layout.bounds[:-1]) if len(gone) else np.zeros(0)
        for m in np.argsort(squares[layout.n_fixed :], kind="stable") + layout.n_fixed:
            if needed <= 0:
                break
            gone[m] = True
            needed -= int(counted[layout.groups[m]])
        if needed > 0 or float(squares[gone].sum()) >= square > 0.0 or (gone.any() and square == 0.0):
            return None
        return layout.slots_of(gone)

    def _try_group(self, group: Columns, dropped: np.ndarray, coef: np.ndarray, allowed: float) -> bool:
        """Run lines 10 to 16 for a group."""
        point, members = self.point, self.members
        k, start = members.n_members, point.coef.copy()
        members.keep()
        source = members.exchange(dropped, group)
        point.coef[:] = 0.0
        point.coef[: len(source)] = np.concatenate([start[:k], coef])[source]
        point.predict()
        is_accepted = not (self.rule.checks and point.value > allowed)
        if is_accepted:
            self.counters.n_exchanged += len(dropped) > 0
            self.counters.n_entered += 1
            has_moved = source < k
            self.steps.power[: len(source)][has_moved] = self.steps.power[source[has_moved]]
            self.steps.is_changed = True
        else:
            members.revert()
            point.coef[:] = start
            point.predict()
            self.counters.n_refused += 1
        members.forget()
        return is_accepted
