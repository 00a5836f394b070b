"""Selectors of which some columns are always part of the selection."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.matrix.base import Matrix
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.inputs import columns_of


class IncludesColumns(BaseSelector):
    """A selector with the parameter `always_include`, which a subclass declares."""

    always_include: Any

    @property
    def n_included(self) -> int:
        """Number of columns that are given as always included."""
        return 0 if self.always_include is None else int(np.asarray(self.always_include, dtype=object).size)

    def included_columns(self, matrix: Matrix) -> np.ndarray:
        """Return the columns that are always included, with their groups; no refit penalises them."""
        columns = columns_of(self.always_include, matrix.shape[1], matrix.names, "always_include")
        groups = self._groups_of(matrix)
        if groups is None or not len(columns):
            return columns
        held = [groups[g] for g in range(groups.n_groups) if np.isin(groups[g], columns).any()]
        return np.unique(np.concatenate(held))
