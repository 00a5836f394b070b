"""Groups of columns for online substitution: their order, where blocks end, and how many groups fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from daskfs import errors
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.matrix.names import Names

DataError = errors.DataError.about("columns-that-arrive")


def bounds_of(labels: np.ndarray) -> np.ndarray:
    """Return the starts of runs of equal labels, and the end of the last run.

    Examples
    --------
    >>> bounds_of(np.array([4, 4, 1, 7, 7]))
    array([0, 2, 3, 5])
    """
    if not len(labels):
        return np.zeros(1, np.int64)
    return np.concatenate([[0], np.flatnonzero(np.diff(labels)) + 1, [len(labels)]])


@dataclass(frozen=True, eq=False)
class StreamedGroups:
    """Groups that are exchanged whole.

    Parameters
    ----------
    groups : FeatureGroups
        Without overlaps.
    limit : int
        Number of groups, or of their columns, to select.
    counts_columns : bool
        Whether `limit` counts columns.
    """

    groups: FeatureGroups
    limit: int
    counts_columns: bool

    @cached_property
    def group_of(self) -> np.ndarray:
        """The group of each column, int64."""
        found = np.empty(len(self.groups.members), np.int64)
        found[self.groups.members] = np.repeat(np.arange(self.groups.n_groups), self.groups.sizes)
        return found

    @cached_property
    def counted(self) -> np.ndarray:
        """What each group counts towards `limit`: 1, or its number of columns."""
        return self.groups.sizes if self.counts_columns else np.ones(self.groups.n_groups, np.int64)

    @property
    def capacity(self) -> int:
        """Largest number of columns that the selected groups can have."""
        return self.limit if self.counts_columns else self.groups.most_columns(self.limit)

    @property
    def widest(self) -> int:
        """Number of columns of the largest group that can be selected."""
        sizes = self.groups.sizes
        return int(sizes[sizes <= self.capacity].max(initial=1))

    @property
    def are_adjacent(self) -> bool:
        """Whether the columns of each group are neighbours."""
        return int((np.diff(self.group_of) != 0).sum()) + 1 == self.groups.n_groups

    def in_order(self, groups: np.ndarray) -> np.ndarray:
        """Return the columns of those groups that can be selected, group after group, ascending within each."""
        rank = np.empty(self.groups.n_groups, np.int64)
        rank[groups] = np.arange(len(groups))
        columns = self.groups.columns_of(groups[self.groups.sizes[groups] <= self.capacity])[0]
        return columns[np.lexsort((columns, rank[self.group_of[columns]]))]

    @cached_property
    def by_first_column(self) -> np.ndarray:
        """The groups in the order of their first columns."""
        first = np.minimum.reduceat(self.groups.members, self.groups.bounds[:-1])
        return np.argsort(first, kind="stable")

    def of_columns(self, columns: np.ndarray, where: str, names: Names) -> np.ndarray:
        """Return the groups of some columns, in the order of their first column; the columns must cover each group.

        Raises
        ------
        DataError
            Columns of a group are left out.
        """
        groups, first, n_found = np.unique(self.group_of[columns], return_index=True, return_counts=True)
        cut = np.flatnonzero(n_found < self.groups.sizes[groups])
        if len(cut):
            group = int(groups[cut[0]])
            left_out = int(np.setdiff1d(self.groups[group], columns)[0])
            problem = f"leaves {names.describe(left_out)} of the group {str(self.groups.names[group])!r} out"
            raise DataError(problem, where, "name all columns of a group, or none")
        return groups[np.argsort(first)]

    def to_include(self, columns: np.ndarray) -> np.ndarray:
        """Return the columns of the groups of some columns, which are to be selected first.

        Raises
        ------
        DataError
            They are more than may be selected.
        """
        wanted = np.unique(self.group_of[columns])
        counted = int(self.counted[wanted].sum())
        if counted > self.limit:
            unit = "columns" if self.counts_columns else "groups"
            problem = f"expected at most {self.limit} {unit}, found {counted}"
            raise DataError(problem, "always_include", "raise n_features_to_select")
        return self.in_order(wanted)

    def refuse_left_out(self, columns: np.ndarray, selected: np.ndarray) -> None:
        """Raise if the groups of some columns are not among those of the selected ones."""
        missing = columns[~np.isin(self.group_of[columns], self.group_of[selected])]
        if len(missing):
            group = str(self.groups.names[self.group_of[missing[0]]])
            problem = "its columns are constant, or linear combinations of the columns before it"
            raise DataError(problem, f"always_include, group {group!r}", "drop it")

    def pieces(self, columns: np.ndarray, most: int) -> Iterator[slice]:
        """Yield slices of columns: whole groups of at most `most` columns, or one larger group."""
        bounds, start = bounds_of(self.group_of[columns]), 0
        while start < len(columns):
            stop = int(bounds[np.searchsorted(bounds, start + most, side="right") - 1])
            if stop <= start:
                stop = int(bounds[np.searchsorted(bounds, start, side="right")])
            yield slice(start, stop)
            start = stop
