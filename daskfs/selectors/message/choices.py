"""The choices of all subsets, stored by column, so that a thousand small subsets take as few arrays as one.

A task returns the choices of its subsets. They are joined in the order of the subsets; votes and the refit query them.
Where a subset has several items (ballots, constant columns, visited features), they are stored one after the other,
with a count per subset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from daskfs.selectors.message.subset import (
    NormalEquations,
    PathMoments,
    PathTable,
    SelectionSettings,
    SubsetChoice,
)
from daskfs.selectors.shared.record import Record

PAIRS = 1 << 16
"""Pairs of columns, over all subsets processed together."""


@dataclass(frozen=True, slots=True)
class Ballots(Record):
    """The models that subsets choose, one after the other: see `daskfs.selectors.message.subset.Ballot`."""

    of_class: np.ndarray
    abstains: np.ndarray
    least_penalty: np.ndarray
    intercept: np.ndarray
    n_selected: np.ndarray
    """These five have shape (n_ballots,)."""
    selected: np.ndarray
    """Shape (sum of n_selected,); `coef` has the same."""
    coef: np.ndarray

    def taken(self, is_taken: np.ndarray) -> Ballots:
        """Return the ballots where the mask, of shape (n_ballots,), is true."""
        of_feature = np.repeat(is_taken, self.n_selected)
        return Ballots(
            self.of_class[is_taken],
            self.abstains[is_taken],
            self.least_penalty[is_taken],
            self.intercept[is_taken],
            self.n_selected[is_taken],
            self.selected[of_feature],
            self.coef[of_feature],
        )


@dataclass(frozen=True, slots=True)
class VisitedMoments(Record):
    """Moments of the features that squared-loss paths visited, for the refit: see `PathMoments` in `subset`."""

    y_variance: np.ndarray
    n_features: np.ndarray
    """Shape (n_subsets,); `y_variance` has the same."""
    features: np.ndarray
    """Shape (sum of n_features,); the next three have the same."""
    mean: np.ndarray
    scale: np.ndarray
    cross: np.ndarray
    gram_below: np.ndarray

    @classmethod
    def of(cls, all_visited: Sequence[PathMoments]) -> VisitedMoments:
        """Return the moments of all subsets, stored by column."""
        names = ("features", "mean", "scale", "cross", "gram_below")
        columns = [np.concatenate([getattr(visited, name) for visited in all_visited]) for name in names]
        n_features = np.array([len(visited.features) for visited in all_visited], dtype=np.int64)
        return cls(np.array([visited.y_variance for visited in all_visited]), n_features, *columns)


@dataclass(frozen=True, slots=True)
class Choices(Record):
    """The choices of subsets, in their order: see `daskfs.selectors.message.subset.SubsetChoice`."""

    total: np.ndarray
    """Shape (n_subsets,); the next five have the same, except `y_mean` of several classes: (n_subsets, n_classes)."""
    y_mean: np.ndarray
    n_unsolved: np.ndarray
    n_separable: np.ndarray
    n_ballots: np.ndarray
    n_constant: np.ndarray
    ballots: Ballots
    """Within a subset sorted by class; within a class by falling penalty."""
    constant: np.ndarray
    """Shape (sum of n_constant,); `constant_value` has the same."""
    constant_value: np.ndarray
    visited: VisitedMoments | None = None
    paths: tuple[PathTable, ...] = ()
    """The path of the first subset, if it is among these."""

    @classmethod
    def of(cls, choices: Sequence[SubsetChoice]) -> Choices:
        """Return the choices of single subsets, joined."""
        of_each = [
            sorted((*choice.ballots, *choice.with_less), key=lambda ballot: ballot.of_class) for choice in choices
        ]
        ballots = [ballot for own in of_each for ballot in own]
        all_visited = [choice.visited for choice in choices if choice.visited is not None]
        return cls(
            np.array([choice.total for choice in choices]),
            np.array([choice.y_mean for choice in choices]),
            np.array([choice.n_unsolved for choice in choices]),
            np.array([choice.n_separable for choice in choices]),
            np.array([len(own) for own in of_each]),
            np.array([len(choice.constant) for choice in choices]),
            Ballots(
                np.array([ballot.of_class for ballot in ballots]),
                np.array([ballot.abstains for ballot in ballots]),
                np.array([ballot.least_penalty for ballot in ballots]),
                np.array([ballot.intercept for ballot in ballots]),
                np.array([len(ballot.selected) for ballot in ballots]),
                np.concatenate([ballot.selected for ballot in ballots]),
                np.concatenate([ballot.coef for ballot in ballots]),
            ),
            np.concatenate([choice.constant for choice in choices]),
            np.concatenate([choice.constant_value for choice in choices]),
            VisitedMoments.of(all_visited) if all_visited else None,
            tuple(choice.path for choice in choices if choice.path is not None),
        )

    def __len__(self) -> int:
        return len(self.total)

    @property
    def path(self) -> PathTable | None:
        """The path of the first subset, if it is here."""
        return self.paths[0] if self.paths else None

    @property
    def of_subset(self) -> np.ndarray:
        """The subset of every ballot, shape (n_ballots,)."""
        return np.repeat(np.arange(len(self)), self.n_ballots)

    @property
    def _begins(self) -> np.ndarray:
        """Which ballots are the first of their subset and class."""
        of_subset, of_class = self.of_subset, self.ballots.of_class
        begins = np.ones(len(of_subset), dtype=bool)
        begins[1:] = (of_subset[1:] != of_subset[:-1]) | (of_class[1:] != of_class[:-1])
        return begins

    def first(self) -> Choices:
        """Return the choices with the penalty of the pass: one ballot per class."""
        return self._cast(self._begins)

    def among(self, settings: SelectionSettings, n_features: int) -> Choices:
        """Return the choices with other settings (more subsets vote): one ballot per class."""
        totals, place = np.unique(self.total, return_inverse=True)
        penalty = np.array([settings.penalty(total, n_features) for total in totals])[place]
        starts, n_all = np.flatnonzero(self._begins), len(self.ballots.n_selected)
        is_cheap = self.ballots.least_penalty <= penalty[self.of_subset]
        chosen = np.minimum.reduceat(np.where(is_cheap, np.arange(n_all), n_all), starts)
        is_cast = np.zeros(n_all, dtype=bool)
        is_cast[np.minimum(chosen, np.append(starts[1:], n_all) - 1)] = True
        more = float(penalty[0]) - settings.least_penalty(float(self.total[0]), n_features)
        return replace(self._cast(is_cast), paths=tuple(replace(path, more=more) for path in self.paths))

    def _cast(self, is_cast: np.ndarray) -> Choices:
        """Return the same choices with only some of the ballots."""
        n_ballots = np.bincount(self.of_subset[is_cast], minlength=len(self))
        return replace(self, ballots=self.ballots.taken(is_cast), n_ballots=n_ballots)

    @property
    def n_selected(self) -> np.ndarray:
        """Number of features that each subset chose for any class, shape (n_subsets,)."""
        if (self.n_ballots == 1).all():
            return self.ballots.n_selected
        of_feature = np.repeat(self.of_subset, self.ballots.n_selected)
        pairs = np.unique(np.stack([of_feature, self.ballots.selected]), axis=1)
        return np.bincount(pairs[0], minlength=len(self))

    def are_constant(self, n_features: int) -> np.ndarray:
        """Return which columns are constant on all subsets, shape (n_features,)."""
        return np.bincount(self.constant, minlength=n_features) == len(self)

    def normal_equations(self, columns: np.ndarray) -> tuple[NormalEquations | None, np.ndarray]:
        """Return the normal equations of the subsets whose paths visited all columns, as `refit` in `subset` would.

        Parameters
        ----------
        columns : ndarray of shape (n_columns,), int64, ascending

        Returns
        -------
        NormalEquations or None
            Of these subsets, in their order.
        ndarray of shape (n_subsets,), bool
            Mask of these subsets.
        """
        visited = self.visited
        if visited is None:
            return None, np.zeros(len(self), dtype=bool)
        of_visited, of_constant = (np.repeat(np.arange(len(self)), n) for n in (visited.n_features, self.n_constant))
        is_visited, place = _places(visited.features, columns)
        is_constant, constant_place = _places(self.constant, columns)
        n_found = np.bincount(of_visited[is_visited], minlength=len(self))
        is_known = n_found + np.bincount(of_constant[is_constant], minlength=len(self)) == len(columns)
        if not is_known.any():
            return None, is_known
        ends = np.cumsum(visited.n_features)
        within = np.arange(len(of_visited)) - np.repeat(ends - visited.n_features, visited.n_features)
        shape = len(self), len(columns)
        number, (mean, scale, cross) = np.full(shape, -1), (np.zeros(shape) for _ in range(3))
        at = of_visited[is_visited], place
        number[at], mean[at] = within[is_visited], visited.mean[is_visited]
        scale[at], cross[at] = visited.scale[is_visited], visited.cross[is_visited]
        mean[of_constant[is_constant], constant_place] = self.constant_value[is_constant]
        n_pairs = visited.n_features * (visited.n_features - 1) // 2
        gram = _correlations(number[is_known], (np.cumsum(n_pairs) - n_pairs)[is_known], visited.gram_below)
        of_subset = (self.total, self.y_mean, visited.y_variance, mean, scale, cross)
        return NormalEquations(*(*(one[is_known] for one in of_subset), gram)), is_known


def _places(known: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a mask of the entries of `known` that are in `columns` (ascending), and their positions there."""
    places = np.searchsorted(columns, known)
    is_there = columns[np.minimum(places, len(columns) - 1)] == known
    return is_there, places[is_there]


def _correlations(number: np.ndarray, start: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return the correlations of columns in every subset; 0 between a column and a constant one.

    Parameters
    ----------
    number : ndarray of shape (n_subsets, n_columns)
        Index of each column among those that the subset's path visited; -1 if it is constant.
    start : ndarray of shape (n_subsets,)
        Where the correlations of a subset begin in `below`: those below the diagonal, row by row.
    """
    n_subsets, n = number.shape
    gram = np.empty((n_subsets, n, n))
    step = max(1, PAIRS // (n * n))
    for some in (slice(i, i + step) for i in range(0, n_subsets, step)):
        row, column = number[some, :, None], number[some, None, :]
        high, low = np.maximum(row, column), np.minimum(row, column)
        place = start[some, None, None] + high * (high - 1) // 2 + low
        is_pair = (low >= 0) & (high > low)
        gram[some] = np.where(is_pair, below[np.where(is_pair, place, 0)] if len(below) else 0.0, 0.0)
    gram[:, np.arange(n), np.arange(n)] = 1.0
    return gram
