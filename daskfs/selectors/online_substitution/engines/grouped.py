"""The exchange of whole groups; see `daskfs.kernels.substitution.group_exchange`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from daskfs.kernels.substitution.exchange import COUNTS
from daskfs.kernels.substitution.group_exchange import (
    GroupCandidates,
    GroupedModel,
    drop,
    enlarge,
    group_scan,
    orthonormalise,
)
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.base import LEAST_PIVOT, Counters, Rule
from daskfs.selectors.online_substitution.groups import bounds_of
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.screen import stacked


@dataclass
class GroupBatch:
    """Groups of candidates that are decided on together."""

    columns: Columns
    cross: np.ndarray
    """Products with the members, of shape (B, >= n_members); changed in place."""
    linear: np.ndarray
    """Entries of c, of shape (B,)."""
    bounds: np.ndarray
    groups: np.ndarray
    """Numbers of the groups."""
    products: list[np.ndarray] = field(default_factory=list)
    """Products of each group with itself, ridge included, of shape (q, q)."""

    @classmethod
    def of(cls, members: Members, columns: Columns, cross: np.ndarray, linear: np.ndarray) -> GroupBatch:
        """Return the batch of some columns, still without the products of the groups."""
        labels = members.labels(columns.ids)
        bounds = bounds_of(labels)
        return cls(columns, cross, linear, bounds, labels[bounds[:-1]])


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


def walk_groups(
    members: Members,
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
    members : Members
    batch : GroupBatch
    inverse, coef : ndarray of shapes (capacity, capacity) and (capacity,)
        M⁻¹ and v of the members; changed in place.
    squares : callable
        Returns the diagonal of M without the ridge, of shape (capacity,).
    rule : Rule
    counters : Counters
        Counts the groups presented, refused, entered and exchanged.
    with_slots : callable
        Returns the products of some of the columns with the members in some slots.
    """
    least_pivot = max(rule.tolerance, LEAST_PIVOT)
    bounds, products = batch.bounds, stacked(batch.products, batch.bounds)
    counts, start = np.zeros(1, COUNTS), 0
    while True:
        layout, k = members.layout(), members.n_members
        candidates = GroupCandidates(
            batch.cross, batch.linear, products, bounds, members.counted(batch.groups),
            ~np.isin(batch.groups, layout.groups),
        )  # fmt: skip
        model = GroupedModel(
            inverse, coef, squares(), layout.slots, layout.bounds, members.counted(layout.groups), layout.n_fixed,
            members.room(layout),
        )  # fmt: skip
        gone = np.zeros(len(layout.groups), bool)
        g = int(group_scan(candidates, start, model, rule.ridge, rule.price, rule.tolerance, least_pivot, counts, gone))
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
        counters.n_entered += 1
        counters.n_exchanged += bool(gone.any())
        yield GroupEntrance(g, one, cross, source, slots, load)
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
