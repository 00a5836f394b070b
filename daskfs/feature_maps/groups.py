"""Groups of columns that are selected together or not at all: a user's forms of them, and arrays.

A group is a list of columns. A column in several groups is repeated in the lists, never in the data. If any two groups
are disjoint or nested, they form a tree (Definition 1 of Tan, Tsang and Wang 2014). A group's score is at most that of
a group that contains it (Remark 2), so the groups below one that is not among the best are not scored.
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

from daskfs import errors
from daskfs.kernels.fgm.group_sums import sums_of
from daskfs.kernels.fgm.topk import largest, merged
from daskfs.matrix.names import Names
from daskfs.parameters import Kind

ConfigError = errors.ConfigError.about("groups")
DataError = errors.DataError.about("groups")
SourceError = errors.SourceError.about("groups")

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
    """Return whether groups in a user's form can be resolved only with the names of the columns."""
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
        Columns, concatenated by group.
    bounds : ndarray of shape (n_groups + 1,), int64
        Group g has ``members[bounds[g]:bounds[g + 1]]``.
    names : sequence of str
        Names of the groups.

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
        """Return groups from a user's form of them.

        Parameters
        ----------
        wanted : "schema", array-like, sequence of array-like, or mapping
            "schema": the columns of the table from which the features were encoded. Or a label for each column (None or
            NaN: a group of its own), or a pandas Series of labels indexed by the names of the columns. Or a sequence of
            groups, each of numbers or names of columns. Or a mapping of names to groups, or to further mappings: a
            tree, whose inner groups contain all columns of those below. Or ``{"file": ..., "column": ...}``, a CSV
            table with a column "name" of features and another one of their groups; a feature may occur in several
            lines. Columns without a group are groups of their own.
        n_features : int
        names : Names, optional
        of_table : ndarray of shape (n_features,), optional
            The table column that each feature was encoded from: see `Matrix.table_columns`.

        Raises
        ------
        DataError
            A column does not exist, a group is empty, or the number of labels differs from the number of columns.
        ConfigError
            "schema" for a matrix without a table.
        """
        names = Names(n_features) if names is None else names
        if isinstance(wanted, str):
            if of_table is None:
                raise ConfigError(
                    "this matrix does not know the table columns of its features",
                    "feature_groups",
                    "give labels, or ingest the table again",
                )
            return _of_labels(of_table.tolist(), names)
        if isinstance(wanted, Mapping):
            if set(wanted) == {"file", "column"}:
                wanted = _in_file(str(wanted["file"]), str(wanted["column"]), names)
            found = list(_walked(wanted, "", names, _named_in(wanted, names)))
            return _of_lists([group for _, group in found], [name for name, _ in found], names)
        if hasattr(wanted, "index") and hasattr(wanted, "to_numpy"):  # a pandas Series
            label_of = dict(zip(map(str, wanted.index), wanted.tolist(), strict=True))
            return _of_labels([label_of.get(str(names[j])) for j in range(n_features)], names)
        listed = wanted.tolist() if isinstance(wanted, np.ndarray) else list(wanted)
        if any(isinstance(item, Sequence | np.ndarray) and not isinstance(item, str) for item in listed):
            numbered = [f"group {k}" for k in range(len(listed))]
            known = _named_in(listed, names)
            lists = [_columns(item, name, names, known) for item, name in zip(listed, numbered, strict=True)]
            return _of_lists(lists, numbered, names)
        if len(listed) != n_features:
            raise DataError(
                f"expected a label for each of {n_features:,} columns, found {len(listed):,}", "feature_groups"
            )
        return _of_labels(listed, names)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.bounds) - 1

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of columns of each group, int64."""
        return np.diff(self.bounds)

    def most_columns(self, n_groups: int) -> int:
        """Return the largest number of columns of `n_groups` groups."""
        return int(np.sort(self.sizes)[::-1][:n_groups].sum())

    def most_groups(self, n_columns: int) -> int:
        """Return the largest number of groups of `n_columns` columns."""
        return int(np.searchsorted(np.cumsum(np.sort(self.sizes)), n_columns, side="right"))

    def __getitem__(self, group: int) -> np.ndarray:
        return self.members[self.bounds[group] : self.bounds[group + 1]]

    def columns_of(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of some groups, concatenated, and the group of each column."""
        parts = [np.empty(0, np.int64), *(self[int(g)] for g in groups)]
        return np.concatenate(parts), np.repeat(groups, self.sizes[groups])

    def sums(self, scores: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
        """Return the sum of the scores of the columns of each group, or of some groups."""
        groups = np.arange(self.n_groups) if groups is None else groups
        out = np.empty(len(groups))
        sums_of(scores, self.members, self.bounds, groups, out)
        return out

    def largest(
        self, scores: np.ndarray, n_wanted: int, by_chance: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the groups with the largest positive sums, decreasing, ties by number. Trees are pruned.

        Parameters
        ----------
        scores : ndarray of shape (n_columns,), float64
            Non-negative.
        n_wanted : int
        by_chance : ndarray of shape (n_groups,), float64, optional
            Non-negative values that are subtracted from the sums before the comparison: what chance would give.

        Returns
        -------
        groups : ndarray of shape (<= n_wanted,), int64
        sums : ndarray
            Sums minus `by_chance`.
        n_visited : int
            Number of groups whose scores were summed.
        """
        by_chance = np.zeros(self.n_groups) if by_chance is None else by_chance
        lift = float(by_chance.max(initial=0.0))  # a lifted 0 is a sum of 0, not one that equals `by_chance`

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
            # Rounding may let a part exceed the whole by one rounding per addition, and a part may have no `by_chance`.
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
        """Number and sizes of the groups, in words."""
        least, most = int(self.sizes.min()), int(self.sizes.max())
        sizes = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        kind = "a tree of " if self.is_tree else "overlapping: " if self.overlap else ""
        return f"{kind}{self.n_groups:,} groups of {sizes} column{'s' if most > 1 else ''} each"


@dataclass(frozen=True, eq=False)
class _Tree:
    """The nesting of groups."""

    is_tree: bool
    roots: np.ndarray
    children: np.ndarray
    bounds: np.ndarray
    """The children of group g are ``children[bounds[g]:bounds[g + 1]]``."""

    @classmethod
    def of(cls, groups: FeatureGroups) -> _Tree:
        """Return the tree. Groups are placed in decreasing size, each below the last one that owned its columns."""
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
        """Return the direct children of some groups."""
        parts = [self.children[self.bounds[g] : self.bounds[g + 1]] for g in groups.tolist()]
        return np.concatenate([np.empty(0, np.int64), *parts])


def _of_labels(labels: list[Any], names: Names) -> FeatureGroups:
    """Return groups of columns with equal labels, in order of appearance. None and NaN are groups of their own."""
    numbers: dict[Any, int] = {}
    group_of = np.empty(len(labels), np.int64)
    for j, label in enumerate(labels):
        is_alone = label is None or label != label
        group_of[j] = numbers.setdefault((j,) if is_alone else label, len(numbers))
    texts = [str(names[label[0]]) if isinstance(label, tuple) else str(label) for label in numbers]
    sizes = np.bincount(group_of, minlength=len(numbers))
    return FeatureGroups(np.argsort(group_of, kind="stable"), np.concatenate([[0], np.cumsum(sizes)]), texts)


def _of_lists(lists: list[np.ndarray], texts: list[str], names: Names) -> FeatureGroups:
    """Return the listed groups, followed by each column without a group."""
    members = np.concatenate([np.empty(0, np.int64), *lists])
    is_alone = np.ones(len(names), dtype=bool)
    is_alone[members] = False
    alone = np.flatnonzero(is_alone)
    bounds = np.cumsum([0, *(len(columns) for columns in lists), *[1] * len(alone)])
    return FeatureGroups(np.concatenate([members, alone]), bounds, texts + [str(names[j]) for j in alone.tolist()])


def _named_in(wanted: Any, names: Names) -> dict[str, int]:
    """Return the columns whose names are in any group; the names are scanned once."""

    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping | Sequence | np.ndarray):
            for item in value.values() if isinstance(value, Mapping) else value:
                yield from texts(item)

    return names.places(set(texts(wanted))) if names.are_given else {}


def _walked(
    wanted: Mapping[str, Any], prefix: str, names: Names, known: Mapping[str, int]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and columns of every group of a tree, inner groups before those that they contain."""
    for key, value in wanted.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            below = list(_walked(value, f"{name}/", names, known))
            if not below:
                raise DataError("expected columns, found none", f"feature_groups, {name}", "name some, or remove it")
            yield name, np.unique(np.concatenate([columns for _, columns in below]))
            yield from below
        else:
            yield name, _columns(value, name, names, known)


def _columns(wanted: Any, group: str, names: Names, known: Mapping[str, int]) -> np.ndarray:
    """Return the numbers of a group's columns, int64, from numbers or names, of which some columns are known."""
    where, n_features = f"feature_groups, {group}", len(names)
    listed = list(wanted) if isinstance(wanted, Sequence | np.ndarray) and not isinstance(wanted, str) else [wanted]
    found = [
        item if not isinstance(item, str) else known[item] if item in known else names.index(item) for item in listed
    ]
    for item in found:
        if not isinstance(item, Integral) or isinstance(item, bool) or not 0 <= int(item) < n_features:
            raise DataError(f"expected columns from 0 to {n_features - 1}, found {item!r}", where, "correct it")
    columns = np.array(found, dtype=np.int64)
    if not len(columns):
        raise DataError("expected columns, found none", where, "name some, or remove it")
    if len(np.unique(columns)) < len(columns):
        raise DataError("a column occurs twice", where, "name each column once")
    return columns


def _in_file(path: str, column: str, names: Names) -> dict[str, list[int]]:
    """Return the groups in a table of features, restricted to features of the matrix."""
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
