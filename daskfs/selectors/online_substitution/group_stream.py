"""The stream of columns when whole groups are exchanged: columns arrive group by group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.selectors.online_substitution.columns import ColumnSettings, epoch_order
from daskfs.selectors.online_substitution.engines.base import Engine
from daskfs.selectors.online_substitution.group_screen import GroupPart, screen_groups
from daskfs.selectors.online_substitution.groups import StreamedGroups
from daskfs.selectors.online_substitution.plan import ReadPlan
from daskfs.selectors.online_substitution.screen import Screened
from daskfs.selectors.online_substitution.stream import SubstitutionStream
from daskfs.selectors.shared.run import Run


class GroupStream(SubstitutionStream):
    """Epochs over the groups of a matrix; see `SubstitutionStream`.

    Groups come in the order of their first columns. If the columns of each group are neighbours, this is the order of
    the columns.
    """

    def __init__(
        self,
        run: Run,
        engine: Engine,
        settings: ColumnSettings,
        plan: ReadPlan,
        groups: StreamedGroups,
        weight: np.ndarray = NO_WEIGHT,
        screens: bool = False,
    ) -> None:
        super().__init__(run, engine, settings, plan, weight, screens)
        self.groups, self._has_entries = groups, False

    def include(self, columns: np.ndarray) -> None:
        """Select the groups of some columns; they are never dropped."""
        wanted = np.unique(self.groups.group_of[columns])
        counted = int(self.groups.counted[wanted].sum())
        if counted > self.groups.limit:
            unit = "columns" if self.groups.counts_columns else "groups"
            problem = f"expected at most {self.groups.limit} {unit}, found {counted}"
            raise DataError(problem, "always_include", "raise n_features_to_select")
        if len(wanted):
            super().include(self.groups.in_order(wanted))

    def check_included(self, columns: np.ndarray) -> None:
        """Never drop the present members, and raise if they are not the groups of these columns."""
        self.engine.keep_members()
        present = self.groups.group_of[self.engine.members.columns.ids]
        missing = columns[~np.isin(self.groups.group_of[columns], present)]
        if len(missing):
            group = str(self.groups.groups.names[self.groups.group_of[missing[0]]])
            problem = "its columns are constant, or linear combinations of the columns before it"
            raise DataError(problem, f"always_include, group {group!r}", "drop it")

    def _order(self, order: Any, seed: int | None, epoch: int) -> np.ndarray:
        if isinstance(order, str):
            shuffled = epoch_order(self.groups.groups.n_groups, order, seed, epoch)
            return self.groups.in_order(self.groups.by_first_column[shuffled])
        return self.groups.in_order(self.groups.of_columns(order, "order", self.matrix.names))

    def _pieces(self, columns: np.ndarray, most: int) -> Iterator[slice]:
        return self.groups.pieces(columns, most)

    def _reads(self, columns: np.ndarray) -> Iterator[slice]:
        start = stop = 0
        for batch in self._pieces(columns, self.plan.batch):
            if batch.stop - start > self.plan.width and stop > start:
                yield slice(start, stop)
                start = stop
            stop = batch.stop
        if stop > start:
            yield slice(start, stop)

    def _screened(self, parts: list[np.ndarray], shared: tuple[Any, ...]) -> list[Screened]:
        labelled = [GroupPart(part, self.groups.group_of[part]) for part in parts]
        return self.run.round("screen", screen_groups, labelled, *shared)
