"""The rule ``exchange`` with the squared loss when whole groups are exchanged."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.substitution.group_exchange import group_costs, loads_of
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.exchange import ExchangeModel
from daskfs.selectors.online_substitution.engines.grouped import (
    LEAST_PIVOT,
    GroupBatch,
    TakesGroups,
    followed,
    moved,
    walk_groups,
)
from daskfs.selectors.online_substitution.engines.quadratic import QuadraticModel
from daskfs.selectors.online_substitution.engines.squared import SquaredEngine
from daskfs.selectors.online_substitution.group_members import GroupMembers
from daskfs.selectors.online_substitution.group_screen import products_of_groups


class GroupExchangeModel(ExchangeModel):
    """The model at its minimum over the members of some groups; see `ExchangeModel`."""

    members: GroupMembers

    def walk_groups(self, columns: Columns, cross: np.ndarray, linear: np.ndarray) -> int:
        """Let groups enter one after the other; return how many entered.

        Parameters
        ----------
        columns : Columns
            Whole groups, without their constant columns.
        cross : ndarray of shape (B, capacity)
            Products with the members; changed in place.
        linear : ndarray of shape (B,)
            Entries of c.
        """
        members, state, counters = self.members, self.state, self.counters
        bounds = members.groups.bounds_in(columns.ids)
        products = products_of_groups(columns, bounds, members.weight, members.total)
        for one in products:
            one[range(len(one)), range(len(one))] += self.rule.ridge
        batch = GroupBatch(columns, cross, linear, products, bounds, members.groups.group_of[columns.ids[bounds[:-1]]])
        n_before = counters.n_entered
        for entrance in walk_groups(
            members, batch, state.inverse, state.coef, lambda: np.diagonal(state.matrix) - self.rule.ridge,
            self.rule, counters, lambda rest, slots: members.cross_with(columns.take(rest), slots),
        ):  # fmt: skip
            counters.n_entered += 1
            counters.n_exchanged += entrance.n_replaced > 0
            followed(state.matrix, entrance, products[entrance.group])
            moved(state.linear, entrance, linear[entrance.columns])
            state.value = self.constant - 0.5 * float(np.sum(state.linear * state.coef))
            self._entered()
        return counters.n_entered - n_before

    def inverse_of_members(self) -> np.ndarray | None:
        """Return the recomputed M⁻¹ of the members, after adding to the diagonal of dependent columns."""
        k, matrix = self.members.n_members, self.state.matrix
        matrix[range(k), range(k)] += loads_of(matrix[:k, :k].copy(), 0.5 * max(self.rule.tolerance, LEAST_PIVOT))
        return super().inverse_of_members()

    def removal_costs(self) -> np.ndarray:
        """Return the rise of f when each group is dropped and the others are refitted, shape (n_groups,)."""
        layout = self.members.layout()
        costs: np.ndarray = group_costs(self.state.inverse, self.coef, layout.slots, layout.bounds)
        return costs


class GroupSquaredEngine(TakesGroups, SquaredEngine):
    """Decides on groups with the squared loss; see `SquaredEngine`."""

    model: GroupExchangeModel

    def _make_model(self, constant: float) -> QuadraticModel:
        return GroupExchangeModel(self.members, self.rule, constant)

    def _take_batch(self, columns: Columns) -> int:
        members = self.members
        if self.mode == "lazy" and members.is_full:
            columns = self._candidates(columns)
        if not len(columns):
            return 0
        return self.model.walk_groups(columns, self._cross(columns), members.against_target(columns, self.y))

    def _least_cost(self, model: ExchangeModel) -> float:
        return float(model.removal_costs()[self.members.layout().n_fixed :].min(initial=np.inf))
