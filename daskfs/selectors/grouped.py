"""Shared code of selectors of groups of columns: the parameter, a matrix's groups, and the result's columns."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from daskfs import errors
from daskfs.feature_maps.groups import FeatureGroups, GroupsGiven, needs_names
from daskfs.matrix.base import Matrix
from daskfs.matrix.names import Names
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.shared.budget import DataShape

ConfigError = errors.ConfigError.about("groups")


class SelectsGroups(BaseSelector, kw_only=True):
    """A selector that selects groups of columns together or not at all.

    Parameters
    ----------
    feature_groups : "schema", array of labels, list of arrays, or mapping, optional
        Columns that are selected together or not at all. An array has a label for each column, a pandas Series for some
        columns. A list has groups, and a mapping gives names to groups, of column numbers or names. "schema" groups by
        the columns of the table that was ingested (all dummies of a category, all parts of a date). ``{"file": ...,
        "column": ...}`` names a CSV table with the features' names in "name". Columns without a group are selected
        alone. By default there are no groups. Groups must not overlap; only `FGM` supports overlapping groups, and
        trees of groups.
    """

    feature_groups: GroupsGiven | None = None

    groups_: np.ndarray
    group_names_: np.ndarray
    group_scores_: np.ndarray

    _takes_overlap: ClassVar[bool] = False
    """Whether a column may be in several groups."""

    @property
    def _units_by(self) -> str | None:
        return super()._units_by if self.feature_groups is None else "feature_groups"

    def _groups_of(self, matrix: Matrix) -> FeatureGroups | None:
        """Return the groups of a matrix's columns; None without groups."""
        if self.feature_groups is None:
            return None
        return self._groups(matrix.shape[1], matrix.names, matrix.table_columns)

    def _planned_groups(self, shape: DataShape) -> FeatureGroups | None:
        """Return the groups as far as they are known before the data: groups of names need the names."""
        if self.feature_groups is None or (shape.names is None and needs_names(self.feature_groups)):
            return None
        return self._groups(shape.n_features, shape.names, shape.table_columns)

    def _groups(self, n_features: int, names: Names | None, of_table: np.ndarray | None) -> FeatureGroups:
        groups = FeatureGroups.given(self.feature_groups, n_features, names, of_table)
        if groups.overlap and not self._takes_overlap:
            shared = np.flatnonzero(np.bincount(groups.members) > 1)[0]
            own = [str(groups.names[g]) for g in range(groups.n_groups) if shared in groups[g]]
            name = f"x{shared}" if names is None else names.describe(int(shared))
            raise ConfigError(
                f"expected groups that do not overlap, found {name} in {own[0]!r} and {own[1]!r}",
                "feature_groups",
                "keep it in one of them; FGM supports overlapping groups, and trees of groups",
            )
        return groups

    def _set_groups(self, groups: FeatureGroups, selected: np.ndarray, scores: np.ndarray) -> dict[str, np.ndarray]:
        """Set the selected groups; return the name and score of the strongest group of each selected column.

        Parameters
        ----------
        groups : FeatureGroups
        selected : ndarray of shape (n_selected_groups,), int64
            Strongest first; `selected_` has their columns.
        scores : ndarray of shape (n_selected_groups,)
        """
        self.groups_, self.group_scores_ = selected, scores
        self.group_names_ = np.array([str(groups.names[g]) for g in selected.tolist()], dtype=object)
        columns, _ = groups.columns_of(selected[::-1])
        places = np.repeat(np.arange(len(selected))[::-1], groups.sizes[selected[::-1]])
        strongest = dict(zip(columns.tolist(), places.tolist(), strict=True))
        of_each = np.array([strongest[j] for j in self.selected_.tolist()], dtype=np.int64)
        return {"group": self.group_names_[of_each], "group_score": scores[of_each]}
