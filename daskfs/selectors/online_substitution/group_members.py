"""The members of online substitution when groups of columns are selected together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.groups import StreamedGroups
from daskfs.selectors.online_substitution.members import Members


class Layout(NamedTuple):
    """The positions of the selected groups."""

    groups: np.ndarray
    """Numbers of the groups, shape (n_groups,); those that are never dropped first."""
    slots: np.ndarray
    """Slots of the members, group after group, shape (n_members,)."""
    bounds: np.ndarray
    """Group m has ``slots[bounds[m]:bounds[m + 1]]``."""
    n_fixed: int
    """Number of groups that are never dropped."""

    def slots_of(self, which: np.ndarray) -> np.ndarray:
        """Return the slots of some of the groups, ascending."""
        return np.sort(self.slots[np.repeat(which, np.diff(self.bounds))])


class GroupMembers(Members):
    """Members that enter and leave in groups; see `Members`.

    Parameters
    ----------
    groups : StreamedGroups
    n_samples, dtype, weight
        As for `Members`.
    """

    def __init__(self, groups: StreamedGroups, n_samples: int, dtype: np.dtype, weight: np.ndarray = NO_WEIGHT) -> None:
        super().__init__(groups.capacity, n_samples, dtype, weight)
        self.groups = groups

    def layout(self) -> Layout:
        """Return the present positions of the groups."""
        labels = self.groups.group_of[self.ids[: self.n_members]]
        present, first, place = np.unique(labels, return_index=True, return_inverse=True)
        slots = np.argsort(first[place], kind="stable")
        order = np.argsort(first)
        bounds = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(present))[order])])
        return Layout(present[order], slots, bounds, int((first < self.n_fixed).sum()))

    def room(self, layout: Layout) -> int:
        """Return how much can still be added, in the unit of `limit`, before a group must be dropped."""
        return int(self.groups.limit - self.groups.counted[layout.groups].sum())

    @property
    def is_full(self) -> bool:
        """Whether a candidate must replace selected groups, even if it counts only 1."""
        return self.room(self.layout()) <= 0

    def n_usable(self, columns: Columns) -> int:
        """Return the number of groups among the columns that are not members."""
        found = np.unique(self.groups.group_of[columns.ids])
        return int((~np.isin(found, self.layout().groups)).sum())

    def exchange(self, dropped: np.ndarray, columns: Columns) -> np.ndarray:
        """Put columns into the slots of dropped ones, then into new slots; fill gaps with the last members.

        Parameters
        ----------
        dropped : ndarray of int
            Slots, ascending.
        columns : Columns

        Returns
        -------
        ndarray of shape (n_members,)
            The former slot of the content of each slot; numbers from the former number of members on stand for the new
            columns.
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
