"""Groups of columns that are selected whole or not at all: as users say them, and as arrays.

A group is a list of columns. A column in several groups is repeated in the lists, never in the data. Where any two
groups are disjoint or one holds the other they are a tree (Definition 1 of Tan, Tsang and Wang 2014): a group scores no
more than one that holds it (Remark 2), so that below a group which is not among the best none has to be looked at.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np

from daskfs.errors import ConfigError, DataError, SourceError
from daskfs.kernels.fgm.group_sums import sums_of
from daskfs.kernels.fgm.topk import largest, merged
from daskfs.matrix.names import Names
from daskfs.parameters import Kind

SCHEMA = "schema"
"""Groups are the columns of the table that was encoded: all dummies of a category, all parts of a date."""


def _may_be_groups(value: Any) -> bool:
    if isinstance(value, str):
        return value == SCHEMA
    return isinstance(value, Mapping | Sequence | np.ndarray) or hasattr(value, "__array__")


_DOC = '"schema", array of labels, list of arrays, or mapping'
GroupsGiven: TypeAlias = Annotated[
    Any,
    Kind(
        _DOC, _may_be_groups, "'schema', a label for each column, a list of groups, or a mapping of names to groups",
        str | list[Any] | dict[str, Any],
    ),
]  # fmt: skip
"""The parameter `feature_groups`."""


def needs_names(wanted: Any) -> bool:
    """Whether groups, as a user says them, can be made out only where the columns' names are known."""
    if wanted is None:
        return False
    if isinstance(wanted, Mapping):
        return set(wanted) == {"file", "column"} or any(needs_names([group]) for group in wanted.values())
    if isinstance(wanted, str) or (hasattr(wanted, "index") and hasattr(wanted, "to_numpy")):
        return True
    groups = [item for item in wanted if isinstance(item, Sequence | Mapping) and not isinstance(item, str)]
    return any(
        needs_names(group) if isinstance(group, Mapping) else any(isinstance(column, str) for column in group)
        for group in groups
    )


@dataclass(frozen=True, eq=False)
class FeatureGroups:
    """Groups of the columns of a matrix.

    Parameters
    ----------
    members : ndarray of shape (n_members,), int64
        Columns, group after group.
    bounds : ndarray of shape (n_groups + 1,), int64
        Group g has ``members[bounds[g]:bounds[g + 1]]``.
    names : sequence of str
        Of the groups.

    Examples
    --------
    >>> groups = FeatureGroups.given(["age", "job", "job", "age"], 4)
    >>> [groups[g].tolist() for g in range(groups.n_groups)], list(groups.names)
    ([[0, 3], [1, 2]], ['age', 'job'])
    >>> groups.largest(np.array([1.0, 4.0, 0.5, 3.0]), 1)
    (array([1]), array([4.5]), 2)
    """

    members: np.ndarray
    bounds: np.ndarray
    names: Sequence[str] = field(repr=False)

    @classmethod
    def given(
        cls, wanted: Any, n_features: int, names: Names | None = None, of_table: np.ndarray | None = None
    ) -> FeatureGroups:
        """Return groups as a user says them.

        Parameters
        ----------
        wanted : "schema", array-like, sequence of array-like, or mapping
            "schema": the columns of the table from which the features were encoded. A label for each column (None or
            NaN: it is alone), or a pandas Series of labels with the columns' names as index. A sequence of groups,
            each of numbers or names of columns. A mapping of names to groups, or to mappings: a tree, whose inner
            groups hold all columns of those below. Or ``{"file": ..., "column": ...}``, a table in CSV with a column
            "name" for the feature and another for its group; a feature may be in several lines. Columns that are in no
            group are selected alone.
        n_features : int
        names : Names, optional
        of_table : ndarray of shape (n_features,), optional
            Which column of the table each feature was encoded from: see `Matrix.table_columns`.

        Raises
        ------
        DataError
            Columns that do not exist, empty groups, or labels of which there are not as many as columns.
        ConfigError
            "schema" of a matrix that does not know one.
        """
        names = Names(n_features) if names is None else names
        if isinstance(wanted, str):
            if of_table is None:
                raise ConfigError(
                    "this matrix does not know which columns of a table its features came from",
                    "feature_groups",
                    "give labels, or ingest the table again",
                )
            return _of_labels(of_table.tolist(), names)
        if isinstance(wanted, Mapping):
            if set(wanted) == {"file", "column"}:
                wanted = _in_file(str(wanted["file"]), str(wanted["column"]), names)
            found = list(_walked(wanted, "", names, n_features))
            return _of_lists([group for _, group in found], [name for name, _ in found], names)
        if hasattr(wanted, "index") and hasattr(wanted, "to_numpy"):  # a pandas Series
            label_of = dict(zip(map(str, wanted.index), wanted.tolist(), strict=True))
            return _of_labels([label_of.get(str(names[j])) for j in range(n_features)], names)
        listed = wanted.tolist() if isinstance(wanted, np.ndarray) else list(wanted)
        if any(isinstance(item, Sequence | np.ndarray) and not isinstance(item, str) for item in listed):
            numbered = [f"group {k}" for k in range(len(listed))]
            lists = [_columns(item, name, names, n_features) for item, name in zip(listed, numbered, strict=True)]
            return _of_lists(lists, numbered, names)
        if len(listed) != n_features:
            raise DataError(
                f"expected a label for each of {n_features:,} columns, found {len(listed):,}", "feature_groups"
            )
        return _of_labels(listed, names)

    @property
    def n_groups(self) -> int:
        """How many there are."""
        return len(self.bounds) - 1

    @cached_property
    def sizes(self) -> np.ndarray:
        """Columns of each group, int64."""
        return np.diff(self.bounds)

    def most_columns(self, n_groups: int) -> int:
        """Return how many columns so many groups have at most."""
        return int(np.sort(self.sizes)[::-1][:n_groups].sum())

    def most_groups(self, n_columns: int) -> int:
        """Return how many groups so many columns can hold at most."""
        return int(np.searchsorted(np.cumsum(np.sort(self.sizes)), n_columns, side="right"))

    def __getitem__(self, group: int) -> np.ndarray:
        return self.members[self.bounds[group] : self.bounds[group + 1]]

    def columns_of(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of some groups, one group after the other, and of each column its group."""
        parts = [np.empty(0, np.int64), *(self[int(g)] for g in groups)]
        return np.concatenate(parts), np.repeat(groups, self.sizes[groups])

    def sums(self, scores: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
        """Return the sums of the scores of the columns of each group, or of some groups."""
        groups = np.arange(self.n_groups) if groups is None else groups
        out = np.empty(len(groups))
        sums_of(scores, self.members, self.bounds, groups, out)
        return out

    def largest(
        self, scores: np.ndarray, n_wanted: int, by_chance: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the groups with the largest sums, of those above 0, by falling sum, ties by number; of a tree, pruned.

        Parameters
        ----------
        scores : ndarray of shape (n_columns,), float64
            Not negative.
        n_wanted : int
        by_chance : ndarray of shape (n_groups,), float64, optional
            Not negative: taken from the sums before these are compared.

        Returns
        -------
        groups : ndarray of shape (<= n_wanted,), int64
        sums : ndarray
            Less those by chance.
        n_visited : int
            Groups whose scores were summed.
        """
        by_chance = np.zeros(self.n_groups) if by_chance is None else by_chance
        lift = float(by_chance.max(initial=0.0))  # so that 0 says that a group has nothing, not what chance would have

        def lifted(sums: np.ndarray, groups: Any = slice(None)) -> np.ndarray:
            return np.where(sums > 0.0, sums - by_chance[groups] + lift, 0.0)

        if not self.is_tree:
            groups, found = largest(lifted(self.sums(scores)), 0, n_wanted)
            return groups, found - lift, self.n_groups
        tree, n_visited = self._tree, 0
        best: tuple[np.ndarray, np.ndarray] = (np.empty(0, np.int64), np.empty(0))
        level = tree.roots
        while len(level):
            sums = self.sums(scores, level)
            n_visited += len(level)
            is_positive = sums > 0.0
            best = merged(best, (level[is_positive], lifted(sums, level)[is_positive]), n_wanted)
            floor = best[1][-1] if len(best[1]) == n_wanted else 0.0
            # Summed in another order, a part may exceed the whole by a rounding of each addition; chance may have none.
            bound = sums * (1.0 + 2.0**-51 * self.sizes[level]) + lift
            level = tree.below(level[is_positive & (bound >= floor)])
        return best[0], best[1] - lift, n_visited

    @property
    def is_tree(self) -> bool:
        """Whether any two groups are disjoint or nested, and some are nested."""
        return self._tree.is_tree

    @cached_property
    def _tree(self) -> _Tree:
        return _Tree.of(self)

    @property
    def overlap(self) -> bool:
        """Whether a column is in more than one group."""
        return len(np.unique(self.members)) < len(self.members)

    @property
    def text(self) -> str:
        """How many groups of how many columns, in words."""
        least, most = int(self.sizes.min()), int(self.sizes.max())
        sizes = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        kind = "a tree of " if self.is_tree else "overlapping: " if self.overlap else ""
        return f"{kind}{self.n_groups:,} groups of {sizes} column{'s' if most > 1 else ''} each"


@dataclass(frozen=True, eq=False)
class _Tree:
    """Which groups lie in which others."""

    is_tree: bool
    roots: np.ndarray
    children: np.ndarray
    bounds: np.ndarray
    """Group g holds ``children[bounds[g]:bounds[g + 1]]``, and what these hold."""

    @classmethod
    def of(cls, groups: FeatureGroups) -> _Tree:
        """Return the tree: the groups from the largest on, each below the one that last took its columns."""
        n = groups.n_groups
        flat = cls(False, np.arange(n), np.empty(0, np.int64), np.zeros(n + 1, np.int64))
        if not groups.overlap:
            return flat
        owner = np.full(int(groups.members.max()) + 1, -1)
        parent = np.empty(n, np.int64)
        for g in np.argsort(-groups.sizes, kind="stable").tolist():
            columns = groups[g]
            parent[g] = owner[columns[0]]
            if (owner[columns] != parent[g]).any():
                return flat
            owner[columns] = g
        order = np.argsort(parent, kind="stable")
        n_below = np.bincount(parent + 1, minlength=n + 1)
        bounds = np.cumsum(n_below) - n_below[0]
        return cls(True, order[: n_below[0]], order[n_below[0] :], bounds)

    def below(self, groups: np.ndarray) -> np.ndarray:
        """Return the groups directly below some groups."""
        parts = [self.children[self.bounds[g] : self.bounds[g + 1]] for g in groups.tolist()]
        return np.concatenate([np.empty(0, np.int64), *parts])


def _of_labels(labels: list[Any], names: Names) -> FeatureGroups:
    """Return groups of columns with the same label, numbered as they first appear; None and NaN stand alone."""
    numbers: dict[Any, int] = {}
    group_of = np.empty(len(labels), np.int64)
    for j, label in enumerate(labels):
        is_alone = label is None or label != label
        group_of[j] = numbers.setdefault((j,) if is_alone else label, len(numbers))
    texts = [str(names[label[0]]) if isinstance(label, tuple) else str(label) for label in numbers]
    sizes = np.bincount(group_of, minlength=len(numbers))
    return FeatureGroups(np.argsort(group_of, kind="stable"), np.concatenate([[0], np.cumsum(sizes)]), texts)


def _of_lists(lists: list[np.ndarray], texts: list[str], names: Names) -> FeatureGroups:
    """Return groups as they are listed, then each column that is in none, alone."""
    members = np.concatenate([np.empty(0, np.int64), *lists])
    is_alone = np.ones(len(names), dtype=bool)
    is_alone[members] = False
    alone = np.flatnonzero(is_alone)
    bounds = np.cumsum([0, *(len(columns) for columns in lists), *[1] * len(alone)])
    return FeatureGroups(np.concatenate([members, alone]), bounds, texts + [str(names[j]) for j in alone.tolist()])


def _walked(wanted: Mapping[str, Any], prefix: str, names: Names, n_features: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and columns of every group of a tree, inner groups before those that they hold."""
    for key, value in wanted.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            below = list(_walked(value, f"{name}/", names, n_features))
            if not below:
                raise DataError("expected columns, found none", f"feature_groups, {name}", "name some, or leave it out")
            yield name, np.unique(np.concatenate([columns for _, columns in below]))
            yield from below
        else:
            yield name, _columns(value, name, names, n_features)


def _columns(wanted: Any, group: str, names: Names, n_features: int) -> np.ndarray:
    """Return the columns that a group names, by their numbers or names, as int64."""
    where = f"feature_groups, {group}"
    listed = list(wanted) if isinstance(wanted, Sequence | np.ndarray) and not isinstance(wanted, str) else [wanted]
    found = [names.index(item) if isinstance(item, str) else item for item in listed]
    for item in found:
        if not isinstance(item, Integral) or isinstance(item, bool) or not 0 <= int(item) < n_features:
            raise DataError(f"expected columns from 0 to {n_features - 1}, found {item!r}", where, "correct it")
    columns = np.array(found, dtype=np.int64)
    if not len(columns):
        raise DataError("expected columns, found none", where, "name some, or leave it out")
    if len(np.unique(columns)) < len(columns):
        raise DataError("a column is in it twice", where, "name each column once")
    return columns


def _in_file(path: str, column: str, names: Names) -> dict[str, list[int]]:
    """Return the groups of a table of features, those of its features that the matrix has."""
    number = {str(name): j for j, name in enumerate(names)}
    groups: dict[str, list[int]] = {}
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            lines = csv.DictReader(file)
            for wanted in ("name", column):
                if wanted not in (lines.fieldnames or ()):
                    raise SourceError(f"expected a column {wanted!r}, found {lines.fieldnames}", path, "correct it")
            for line in lines:
                if line["name"] in number and line[column]:
                    groups.setdefault(line[column], []).append(number[line["name"]])
    except (OSError, UnicodeDecodeError) as fault:
        raise SourceError(f"cannot be read: {fault}", path, "check the path") from fault
    if not groups:
        raise SourceError("none of its features is a column of the matrix", path, "check the names")
    return groups
