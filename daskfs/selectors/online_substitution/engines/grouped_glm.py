"""The rule ``exchange`` for losses other than the squared one when whole groups are exchanged."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.substitution.group_exchange import group_costs
from daskfs.kernels.substitution.products import NO_WEIGHT, row_products
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.glm import GlmEngine
from daskfs.selectors.online_substitution.engines.grouped import (
    LEAST_PIVOT,
    GroupBatch,
    TakesGroups,
    moved,
    walk_groups,
)
from daskfs.selectors.online_substitution.engines.point import Quadratic


class GroupGlmEngine(TakesGroups, GlmEngine):
    """Decides on groups with any loss; see `GlmEngine`."""

    _least_pivot = LEAST_PIVOT

    def _walk(self, columns: Columns, quadratic: Quadratic) -> tuple[int, int]:
        members, point, rows, total = self.members, self.point, columns.rows, quadratic.total
        sums, bounds = row_products(rows, point.curvature, NO_WEIGHT), members.groups.bounds_in(columns.ids)
        k = members.n_members
        products = []
        for first, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            own, of_own = rows[first:stop], sums[first:stop]
            products.append(point.weighted(own, own, of_own, of_own, total) + self.rule.ridge * np.eye(stop - first))
        cross = np.zeros((len(columns), members.capacity))
        cross[:, :k] = point.weighted(rows, members.rows[:k], sums, quadratic.sums[:k], total)
        linear = row_products(cross, point.coef, NO_WEIGHT) - point.gradient(columns, quadratic.derivative)
        batch = GroupBatch(columns, cross, linear, products, bounds, members.groups.group_of[columns.ids[bounds[:-1]]])

        def with_slots(rest: slice, slots: np.ndarray) -> np.ndarray:
            of_slots = row_products(members.rows[slots], point.curvature, NO_WEIGHT)
            return point.weighted(rows[rest], members.rows, sums[rest], of_slots, total, slots)

        n_entered = n_exchanged = 0
        for entrance in walk_groups(
            members, batch, quadratic.inverse, quadratic.optimum, lambda: quadratic.squares, self.rule, self.counters,
            with_slots,
        ):  # fmt: skip
            n_entered += 1
            n_exchanged += entrance.n_replaced > 0
            moved(quadratic.sums, entrance, sums[entrance.columns])
            moved(quadratic.squares, entrance, np.diagonal(products[entrance.group]) - self.rule.ridge)
        return n_entered, n_exchanged

    def _least_cost(self, quadratic: Quadratic) -> float:
        layout = self.members.layout()
        costs = group_costs(quadratic.inverse, quadratic.optimum, layout.slots, layout.bounds)
        return float(costs[layout.n_fixed :].min(initial=np.inf))
