"""Shared code of the engines that exchange whole groups; see `daskfs.kernels.substitution.group_exchange`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from daskfs.kernels.substitution.exchange import COUNTS
from daskfs.kernels.substitution.group_exchange import (
    GroupCandidates,
    GroupedModel,
    drop,
    enlarge,
    group_costs,
    group_scan,
    orthonormalise,
)
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.base import Counters, Engine, Finished, Rule
from daskfs.selectors.online_substitution.group_members import GroupMembers
from daskfs.selectors.online_substitution.group_screen import GroupScreen

LEAST_PIVOT = 1e-5
"""Share of a column's mean square that the columns before it must leave unexplained: the precision of float32."""


class TakesGroups(Engine):
    """An engine that is presented whole groups, one after the other, and exchanges them whole."""

    members: GroupMembers

    def take(self, columns: Columns) -> None:
        """Present groups of columns in their order. They are not changed."""
        start = 0
        while start < len(columns):
            most = 1 if self.mode == "naive" else self.width.width
            piece = next(self.members.groups.pieces(columns.ids[start:], most))
            some = columns.take(slice(start, start + piece.stop))
            start += piece.stop
            if not some.scale.all():  # constant columns belong to their group, but explain nothing
                some = some.take(some.scale > 0.0)
            self.width.after(self._take_batch(some) if len(some) else 0)

    def entry_state(self) -> None:
        """Return None: groups are not tested by their entries."""

    def screen(self, most: int) -> GroupScreen:
        """Return the state that groups are screened against."""
        least_pivot = max(self.rule.tolerance, LEAST_PIVOT)
        return GroupScreen.of(super().screen(most), self.members.weight, least_pivot)

    def _finished(self, coef: np.ndarray, intercept: float, inverse: np.ndarray) -> Finished:
        layout, alone = self.members.layout(), super()._finished(coef, intercept, inverse)
        costs = group_costs(inverse, coef, layout.slots, layout.bounds)
        return alone._replace(groups=layout.groups, group_costs=costs)

    def _candidates(self, columns: Columns) -> Columns:
        labels = self.members.groups.group_of[columns.ids]
        places, n_usable = self.screen(len(columns)).groups(columns, labels)
        self.counters.n_presented += n_usable - len(np.unique(labels[places]))
        return columns.take(places)


@dataclass
class GroupBatch:
    """Groups of candidates that are decided on together."""

    columns: Columns
    cross: np.ndarray
    """Products with the members, of shape (B, >= n_members); changed in place."""
    linear: np.ndarray
    """Entries of c, of shape (B,)."""
    products: list[np.ndarray]
    """Products of each group with itself, ridge included, of shape (q, q)."""
    bounds: np.ndarray
    groups: np.ndarray
    """Numbers of the groups."""

    @property
    def stacked(self) -> np.ndarray:
        """The products of all groups stacked vertically, of shape (B, widest)."""
        stacked = np.zeros((len(self.columns), max(len(one) for one in self.products)))
        for first, one in zip(self.bounds[:-1].tolist(), self.products, strict=True):
            stacked[first : first + len(one), : len(one)] = one
        return stacked


class GroupEntrance(NamedTuple):
    """A group that has entered."""

    group: int
    """Position in the batch."""
    columns: slice
    """Columns of the batch."""
    cross: np.ndarray
    """Products of its columns with the former members, of shape (q, n_members)."""
    source: np.ndarray
    """The former slot of each member; numbers from the former number of members on stand for the group's columns."""
    slots: np.ndarray
    """Slots of the group's columns."""
    load: np.ndarray
    """Amounts added to the diagonal of its products, of shape (q,)."""
    n_replaced: int


def walk_groups(
    members: GroupMembers,
    batch: GroupBatch,
    inverse: np.ndarray,
    coef: np.ndarray,
    squares: Callable[[], np.ndarray],
    rule: Rule,
    counters: Counters,
    with_slots: Callable[[slice, np.ndarray], np.ndarray],
) -> Iterator[GroupEntrance]:
    """Let groups enter one after the other; yield each one once it is in its slots.

    Parameters
    ----------
    members : GroupMembers
    batch : GroupBatch
    inverse, coef : ndarray of shapes (capacity, capacity) and (capacity,)
        M⁻¹ and v of the members; changed in place.
    squares : callable
        Returns the diagonal of M without the ridge, of shape (capacity,).
    rule : Rule
    counters : Counters
        Counts the groups presented and refused.
    with_slots : callable
        Returns the products of some of the columns with the members in some slots.
    """
    least_pivot = max(rule.tolerance, LEAST_PIVOT)
    stacked, counted, bounds = batch.stacked, members.groups.counted, batch.bounds
    counts, start = np.zeros(1, COUNTS), 0
    while True:
        layout, k = members.layout(), members.n_members
        candidates = GroupCandidates(
            batch.cross, batch.linear, stacked, bounds, counted[batch.groups], ~np.isin(batch.groups, layout.groups)
        )
        model = GroupedModel(
            inverse, coef, squares(), layout.slots, layout.bounds, counted[layout.groups], layout.n_fixed,
            members.room(layout),
        )  # fmt: skip
        gone = np.zeros(len(layout.groups), bool)
        g = int(group_scan(candidates, start, model, rule.ridge, rule.tolerance, least_pivot, counts, gone))
        if g == len(batch.groups):
            break
        one = slice(int(bounds[g]), int(bounds[g + 1]))
        q = one.stop - one.start
        cross, within = batch.cross[one, :k].copy(), batch.products[g]
        z, factor, (y, load) = np.zeros((q, k)), np.zeros((q, q)), np.zeros((2, q))
        orthonormalise(
            cross, batch.linear[one], within, inverse, coef, k, rule.tolerance, least_pivot, z, factor, y, load
        )
        more, values = enlarge(inverse, coef, k, z, factor, y)
        dropped = layout.slots_of(gone)
        drop(more, values, dropped)
        source = members.exchange(dropped, batch.columns.take(one))
        m = members.n_members
        inverse[:], coef[:] = 0.0, 0.0
        inverse[:m, :m], coef[:m] = more[np.ix_(source, source)], values[source]
        slots = np.flatnonzero(source >= k)
        rest = slice(one.stop, len(batch.columns))
        if rest.start < rest.stop:
            kept = source < k
            batch.cross[rest, :m][:, kept] = batch.cross[rest][:, source[kept]]
            batch.cross[rest, slots] = with_slots(rest, slots)
        yield GroupEntrance(g, one, cross, source, slots, load, int(gone.sum()))
        start = g + 1
    counters.n_presented += int(counts[0]["n_presented"])
    counters.n_refused += int(counts[0]["n_refused"])


def followed(matrix: np.ndarray, entrance: GroupEntrance, within: np.ndarray) -> None:
    """Update the products of the members, of shape (capacity, capacity), after an entrance."""
    k, q = entrance.cross.shape[1], len(within)
    more = np.zeros((k + q, k + q))
    more[:k, :k], more[k:, :k], more[:k, k:] = matrix[:k, :k], entrance.cross, entrance.cross.T
    more[k:, k:] = within
    more[range(k, k + q), range(k, k + q)] += entrance.load
    m = len(entrance.source)
    matrix[:] = 0.0
    matrix[:m, :m] = more[np.ix_(entrance.source, entrance.source)]


def moved(values: np.ndarray, entrance: GroupEntrance, new: np.ndarray) -> None:
    """Update numbers of the members, of shape (capacity,), after an entrance."""
    m, k = len(entrance.source), entrance.cross.shape[1]
    values[:m], values[m:] = np.concatenate([values[:k], new])[entrance.source], 0.0
