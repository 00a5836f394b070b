"""The units that subsets vote on: columns, or groups of columns that are selected together or not at all.

Subsets choose columns in both cases. For groups, `Groups.counted` turns column ballots into group ballots: a group is
chosen if any of its columns is, and is constant if all of them are. Votes and everything after them use units only.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from daskfs.errors import Caution
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.matrix.names import Names
from daskfs.selectors.message.choices import Choices, SelectionSettings
from daskfs.selectors.message.fits import Average, SubsetFits
from daskfs.selectors.message.votes import notes_on_votes, second_vote


class Columns:
    """Subsets vote on each column."""

    kind = "feature"

    def __init__(self, n_features: int) -> None:
        self.n_units = n_features

    @property
    def of_path(self) -> ColumnGroups | None:
        """Groups that a path keeps together."""
        return None

    def counted(self, choices: Choices) -> Choices:
        """Return choices in units instead of columns."""
        return choices

    def columns(self, is_kept: np.ndarray) -> np.ndarray:
        """Return the columns of some units, ascending."""
        return np.flatnonzero(is_kept)

    def have(self, columns: np.ndarray) -> np.ndarray:
        """Return which units contain any of some columns, shape (n_units,), bool."""
        return np.isin(np.arange(self.n_units), columns)

    def on_path(self, is_unit: np.ndarray) -> tuple[int, ...]:
        """Return some units by their numbers on a path: groups only if the path keeps any together."""
        numbers = self.columns(is_unit) if self.of_path is None else np.flatnonzero(is_unit)
        return tuple(numbers.tolist())

    def asked(self, is_asked: np.ndarray, columns: np.ndarray) -> ColumnGroups | None:
        """Return which columns belong to the units of the second vote, if the units are groups."""
        return None

    def confirmed(self, fits: SubsetFits, is_contender: np.ndarray, settings: SelectionSettings) -> np.ndarray:
        """Return which contenders more than half of the subsets confirm in the second vote."""
        penalty = np.array([settings.penalty(total, self.n_units) for total in fits.total])
        is_confirmed = np.zeros(self.n_units, dtype=bool)
        is_confirmed[fits.columns[second_vote(fits.z(), penalty, settings.n_subsets)]] = True
        return is_confirmed & is_contender

    def of_columns(self, values: np.ndarray) -> np.ndarray:
        """Return the value of each column's unit."""
        return values

    def ranked(
        self, is_kept: np.ndarray, frequency: np.ndarray, columns: np.ndarray, average: Average
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the kept units, most important first, and their columns in this order.

        They are sorted by inclusion frequency, then by absolute standardised coefficient.
        """
        order = columns[np.lexsort((columns, -average.importance, -frequency[columns]))]
        return order, order

    def notes_on(self, frequency: np.ndarray, names: Names | None, most_columns: int) -> list[str]:
        """Return the notes on units that were not voted on; `most_columns` is the size of a subset's largest model."""
        return notes_on_votes(frequency, names)


class Groups(Columns):
    """Subsets vote on groups of columns."""

    kind = "group"

    def __init__(self, groups: FeatureGroups) -> None:
        super().__init__(groups.n_groups)
        self.groups = groups

    @property
    def of_path(self) -> ColumnGroups | None:
        """Groups that a path keeps together; None if each has one column, so that the Lasso is enough."""
        of_path = ColumnGroups(self.groups.members, self.groups.bounds)
        return None if of_path.are_columns else of_path

    @cached_property
    def _group_of(self) -> np.ndarray:
        group_of = np.empty(len(self.groups.members), dtype=np.int64)
        group_of[self.groups.members] = np.repeat(np.arange(self.n_units), self.groups.sizes)
        return group_of

    def counted(self, choices: Choices) -> Choices:
        """Return choices of groups: a group is chosen if any of its columns is, and constant if all of them are."""
        ballots, n_ballots = choices.ballots, len(choices.ballots.n_selected)
        of_ballot = np.repeat(np.arange(n_ballots), ballots.n_selected)
        pairs = np.unique(of_ballot * self.n_units + self._group_of[ballots.selected])
        n_selected = np.bincount(pairs // self.n_units, minlength=n_ballots)
        of_subset = np.repeat(np.arange(len(choices)), choices.n_constant)
        found, n_columns = np.unique(of_subset * self.n_units + self._group_of[choices.constant], return_counts=True)
        constant = found[n_columns == self.groups.sizes[found % self.n_units]]
        return replace(
            choices,
            ballots=replace(ballots, n_selected=n_selected, selected=pairs % self.n_units, coef=np.zeros(len(pairs))),
            n_constant=np.bincount(constant // self.n_units, minlength=len(choices)),
            constant=constant % self.n_units,
            constant_value=np.zeros(len(constant)),
        )

    def columns(self, is_kept: np.ndarray) -> np.ndarray:
        """Return the columns of some groups, ascending."""
        return np.flatnonzero(is_kept[self._group_of])

    def have(self, columns: np.ndarray) -> np.ndarray:
        """Return which groups contain any of some columns, shape (n_units,), bool."""
        return np.isin(np.arange(self.n_units), self._group_of[columns])

    def asked(self, is_asked: np.ndarray, columns: np.ndarray) -> ColumnGroups | None:
        """Return the positions in `columns` of the columns of some groups."""
        groups = self._group_of[columns]
        parts = [np.flatnonzero(groups == g) for g in np.flatnonzero(is_asked)]
        return ColumnGroups(np.concatenate(parts), np.cumsum([0, *(len(part) for part in parts)]))

    def confirmed(self, fits: SubsetFits, is_contender: np.ndarray, settings: SelectionSettings) -> np.ndarray:
        """Return the contenders that more than half of the subsets vote for: those that lower their criterion."""
        gain = fits.gain()
        of_column = np.array([settings.per_column(total) for total in fits.total])[:, None]
        of_group = np.array([settings.penalty(total, self.n_units) for total in fits.total])[:, None]
        price = of_group + of_column * (np.abs(gain.df) - 1.0)
        z = np.sign(gain.df) * np.sqrt(np.maximum(gain.size, 0.0) / np.where(gain.df == 0.0, 1.0, price))
        is_confirmed = np.zeros(self.n_units, dtype=bool)
        is_confirmed[np.flatnonzero(is_contender)[second_vote(z, np.ones(len(z)), settings.n_subsets)]] = True
        return is_confirmed

    def of_columns(self, values: np.ndarray) -> np.ndarray:
        """Return the value of each column's group."""
        return values[self._group_of]

    def ranked(
        self, is_kept: np.ndarray, frequency: np.ndarray, columns: np.ndarray, average: Average
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the kept groups, most important first, and their columns; columns of a group stand together."""
        importance = np.zeros(len(self._group_of))
        importance[columns] = average.importance
        norms = np.sqrt(np.bincount(self._group_of, importance**2, minlength=self.n_units))
        groups = np.flatnonzero(is_kept)
        groups = groups[np.lexsort((groups, -norms[groups], -frequency[groups]))]
        own = (self.groups[int(g)] for g in groups)
        parts = [part[np.lexsort((part, -importance[part]))] for part in own]
        return groups, np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def notes_on(self, frequency: np.ndarray, names: Names | None, most_columns: int) -> list[str]:
        """Return notes that describe the groups, and count those that are constant or too large to be selected."""
        notes = [self.groups.text, *notes_on_votes(frequency, self.groups.names, "group")]
        n_large = int((self.groups.sizes > most_columns + 1).sum())
        if n_large:
            notes.append(
                Caution(
                    f"{n_large} group(s) have more columns than a subset's largest model ({most_columns:,}) and "
                    "cannot be selected: use fewer subsets, or set max_features"
                )
            )
        return notes
