"""MESSAGE with groups of columns, which are selected together or not at all.

Subsets choose columns in any case. `counted` turns their ballots into ballots for groups: a group is chosen if any of
its columns is, and is constant if all of them are. Votes and everything after them use the groups only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from daskfs.errors import Caution
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.selectors.message.choices import Choices, SelectionSettings
from daskfs.selectors.message.subset import Gain
from daskfs.selectors.message.votes import Units, notes_on_votes


def units_of_groups(groups: FeatureGroups) -> Units:
    """Return the groups as what subsets vote on. If each has one column, the Lasso path is enough."""
    unit_of = np.empty(len(groups.members), dtype=np.int64)
    unit_of[groups.members] = np.repeat(np.arange(groups.n_groups), groups.sizes)
    of_path = ColumnGroups(groups.members, groups.bounds)
    return Units(unit_of, groups.n_groups, "group", groups, None if of_path.are_columns else of_path)


def counted(choices: Choices, units: Units) -> Choices:
    """Return choices of groups: a group is chosen if any of its columns is, and constant if all of them are."""
    ballots, n_ballots, n_units = choices.ballots, len(choices.ballots.n_selected), units.n_units
    of_ballot = np.repeat(np.arange(n_ballots), ballots.n_selected)
    pairs = np.unique(of_ballot * n_units + units.unit_of[ballots.selected])
    n_selected = np.bincount(pairs // n_units, minlength=n_ballots)
    of_subset = np.repeat(np.arange(len(choices)), choices.n_constant)
    found, n_columns = np.unique(of_subset * n_units + units.unit_of[choices.constant], return_counts=True)
    constant = found[n_columns == np.bincount(units.unit_of)[found % n_units]]
    return replace(
        choices,
        ballots=replace(ballots, n_selected=n_selected, selected=pairs % n_units, coef=np.zeros(len(pairs))),
        n_constant=np.bincount(constant // n_units, minlength=len(choices)),
        constant=constant % n_units,
        constant_value=np.zeros(len(constant)),
    )


def asked_groups(units: Units, is_asked: np.ndarray, columns: np.ndarray) -> ColumnGroups:
    """Return the positions in `columns` of the columns of some groups."""
    of_column = units.unit_of[columns]
    parts = [np.flatnonzero(of_column == g) for g in np.flatnonzero(is_asked)]
    return ColumnGroups(np.concatenate(parts), np.cumsum([0, *(len(part) for part in parts)]))


def z_of_gain(gain: Gain, penalty: np.ndarray, total: np.ndarray, settings: SelectionSettings) -> np.ndarray:
    """Return the root of each gain divided by its price, with the sign of a single coefficient, of some subsets.

    It is above 1 where a group lowers the criterion of a subset, whose `penalty` is the price of the first degree of
    freedom.
    """
    of_column = np.array([settings.per_column(float(one)) for one in total])[:, None]
    price = penalty[:, None] + of_column * (np.abs(gain.df) - 1.0)
    return np.sign(gain.df) * np.sqrt(np.maximum(gain.size, 0.0) / np.where(gain.df == 0.0, 1.0, price))


def notes_on_groups(groups: FeatureGroups, frequency: np.ndarray, most_columns: int) -> list[str]:
    """Return notes that describe the groups, and count those that are constant or too large to be selected.

    `most_columns` is the size of a subset's largest model.
    """
    notes = [groups.text, *notes_on_votes(frequency, groups.names, "group")]
    n_large = int((groups.sizes > most_columns + 1).sum())
    if n_large:
        notes.append(
            Caution(
                f"{n_large} group(s) have more columns than a subset's largest model ({most_columns:,}) and "
                "cannot be selected: use fewer subsets, or set max_features"
            )
        )
    return notes
