"""The members of online substitution where groups of columns are selected whole."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.groups import StreamedGroups
from daskfs.selectors.online_substitution.members import Members


class Layout(NamedTuple):
    """Where the members' groups are."""

    groups: np.ndarray
    """Numbers of the groups, those never dropped first, of shape (n_groups,)."""
    slots: np.ndarray
    """Of the members, group after group, of shape (n_members,)."""
    bounds: np.ndarray
    """Group m has ``slots[bounds[m]:bounds[m + 1]]``."""
    n_fixed: int
    """Groups that are never dropped."""

    def slots_of(self, which: np.ndarray) -> np.ndarray:
        """Return the slots of some of the groups, ascending."""
        return np.sort(self.slots[np.repeat(which, np.diff(self.bounds))])


class GroupMembers(Members):
    """Members that come and go in groups; see `Members`.

    Parameters
    ----------
    groups : StreamedGroups
    n_samples, dtype, weight
        As `Members` takes them.
    """

    def __init__(self, groups: StreamedGroups, n_samples: int, dtype: np.dtype, weight: np.ndarray = NO_WEIGHT) -> None:
        super().__init__(groups.capacity, n_samples, dtype, weight)
        self.groups = groups

    def layout(self) -> Layout:
        """Return where the groups are now."""
        labels = self.groups.group_of[self.ids[: self.n_members]]
        present, first, place = np.unique(labels, return_index=True, return_inverse=True)
        slots = np.argsort(first[place], kind="stable")
        order = np.argsort(first)
        bounds = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(present))[order])])
        return Layout(present[order], slots, bounds, int((first < self.n_fixed).sum()))

    def room(self, layout: Layout) -> int:
        """Return what more groups may count before one has to go."""
        return int(self.groups.limit - self.groups.counted[layout.groups].sum())

    @property
    def is_full(self) -> bool:
        """Whether a group of one column has to replace others."""
        return self.room(self.layout()) <= 0

    def n_usable(self, columns: Columns) -> int:
        """Return how many groups that are no members there are among columns."""
        found = np.unique(self.groups.group_of[columns.ids])
        return int((~np.isin(found, self.layout().groups)).sum())

    def exchange(self, dropped: np.ndarray, columns: Columns) -> np.ndarray:
        """Give columns the slots of others, and the next ones; the last members move where slots would be left over.

        Parameters
        ----------
        dropped : ndarray of int
            Slots, ascending.
        columns : Columns

        Returns
        -------
        ndarray of shape (n_members,)
            Whose each slot was before; from the number of members before on, the columns'.
        """
        k, q = self.n_members, len(columns)
        size = k - len(dropped) + q
        slots = np.concatenate([dropped, np.arange(k, k + q)])[:q]
        source = np.arange(max(k, size))
        source[slots] = k + np.arange(q)
        holes = dropped[q:][dropped[q:] < size]
        source[holes] = np.setdiff1d(np.arange(size, k), dropped)
        for slot in holes.tolist():
            self._write(slot, self.rows[source[slot]])
            for part in self._descriptions():
                part[slot] = part[source[slot]]
        for b, slot in enumerate(slots.tolist()):
            self.describe(slot, columns, b)
            self._write(slot, columns.rows[b])
        self.n_members, self.ids[size:] = size, -1
        return source[:size]
