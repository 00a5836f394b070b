"""Screening of groups of columns. Workers import this file, so it is light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from daskfs.kernels.substitution.group_exchange import group_gains
from daskfs.kernels.substitution.products import NO_WEIGHT, row_products
from daskfs.matrix.base import Matrix
from daskfs.selectors.online_substitution.columns import Columns, ColumnSettings, read_columns
from daskfs.selectors.online_substitution.members import products_within
from daskfs.selectors.online_substitution.screen import SCREEN, Screen, Screened


class GroupPart(NamedTuple):
    """Columns that one task screens, group after group."""

    ids: np.ndarray
    labels: np.ndarray
    """The group of each column."""


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


def products_of_groups(columns: Columns, bounds: np.ndarray, weight: np.ndarray, total: float) -> list[np.ndarray]:
    """Return the products of each group with itself, of shape (q, q); the diagonal has the columns' mean squares."""
    products = []
    for first, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        own = columns.take(slice(first, stop))
        within = products_within(own, weight, total) if stop - first > 1 else np.zeros((1, 1))
        within[range(stop - first), range(stop - first)] = own.square
        products.append(within)
    return products


@dataclass(frozen=True, slots=True)
class GroupScreen(Screen):
    """The state of a selection that groups are screened against; see `Screen`."""

    weight: np.ndarray
    """Weights of the samples, or `NO_WEIGHT`."""
    least_pivot: float

    @classmethod
    def of(cls, screen: Screen, weight: np.ndarray, least_pivot: float) -> GroupScreen:
        """Return the screen for groups."""
        given = (screen.descent, screen.curvature, screen.total, screen.least, screen.ridge)
        return cls(*given, screen.members, screen.most, weight, least_pivot)

    def groups(self, columns: Columns, labels: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the positions of the columns of promising groups, ascending, and the number of non-member groups.

        If a group were orthogonal to the members, its gain would be half the square of the residual's projection on its
        span.
        """
        bounds = bounds_of(labels)
        if len(bounds) == 1:
            return np.empty(0, np.int64), 0
        descents = row_products(columns.rows, self.descent, NO_WEIGHT)
        if columns.is_int8:
            descents -= columns.offset * float(self.descent.sum())
        gradient = descents * (columns.factor / self.total)
        if len(self.curvature):
            pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
            products = [products_within(columns.take(slice(a, b)), self.curvature, self.total) for a, b in pairs]
        else:
            products = products_of_groups(columns, bounds, self.weight, self.total)
        stacked = np.zeros((len(columns), int(np.diff(bounds).max())))
        for first, one in zip(bounds[:-1].tolist(), products, strict=True):
            one[range(len(one)), range(len(one))] += self.ridge
            stacked[first : first + len(one), : len(one)] = one
        is_member = np.add.reduceat(np.isin(columns.ids, self.members), bounds[:-1]) > 0
        gains = np.where(is_member, 0.0, group_gains(gradient, stacked, bounds, self.least_pivot))
        order = np.argsort(-gains, kind="stable")
        sizes = np.diff(bounds)
        chosen = order[gains[order] > SCREEN * self.least]
        fitting = np.cumsum(sizes[chosen]) <= self.most
        chosen = np.sort(chosen[fitting] if fitting.any() else chosen[:1])
        return np.flatnonzero(np.isin(np.repeat(np.arange(len(sizes)), sizes), chosen)), int((~is_member).sum())


def screen_groups(
    matrix: Matrix, settings: ColumnSettings, weight: np.ndarray, screen: GroupScreen, part: GroupPart
) -> Screened:
    """Read some groups and return the promising ones."""
    columns = read_columns(matrix, part.ids, settings, weight)
    is_used = columns.scale > 0.0
    columns, labels = (columns, part.labels) if is_used.all() else (columns.take(is_used), part.labels[is_used])
    places, n_usable = screen.groups(columns, labels)
    return Screened(columns.take(places), n_usable, len(np.unique(labels[places])))
