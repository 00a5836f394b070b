"""Screening of batches of columns or groups. Workers import this file, so it is light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from daskfs.kernels.substitution.group_exchange import group_gains
from daskfs.kernels.substitution.products import NO_WEIGHT, row_products
from daskfs.matrix.base import Matrix
from daskfs.matrix.buffers import BufferPool
from daskfs.selectors.online_substitution.columns import Columns, ColumnSettings, read_columns
from daskfs.selectors.online_substitution.groups import bounds_of
from daskfs.selectors.online_substitution.members import products_within
from daskfs.selectors.shared.record import Record

SCREEN = 0.3
"""A candidate is promising if its gain, were it orthogonal to the members, exceeds this share of the removal cost."""


def products_of_groups(columns: Columns, bounds: np.ndarray, weight: np.ndarray, total: float) -> list[np.ndarray]:
    """Return the products of each group with itself, of shape (q, q); the diagonal has the columns' mean squares."""
    products = []
    for first, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        own = columns.take(slice(first, stop))
        within = products_within(own, weight, total) if stop - first > 1 else np.zeros((1, 1))
        within[range(stop - first), range(stop - first)] = own.square
        products.append(within)
    return products


def stacked(products: list[np.ndarray], bounds: np.ndarray) -> np.ndarray:
    """Return the products of all groups stacked vertically, of shape (B, widest)."""
    found = np.zeros((int(bounds[-1]), max(len(one) for one in products)))
    for first, one in zip(bounds[:-1].tolist(), products, strict=True):
        found[first : first + len(one), : len(one)] = one
    return found


@dataclass(frozen=True, slots=True)
class Screen:
    """The state of a selection that columns are screened against: the same for all tasks of a round."""

    descent: np.ndarray
    """Minus the derivative of each sample's loss, times its weight; shape (n_samples,), or (n_classes, n_samples)."""
    curvature: np.ndarray
    """Curvature of each sample's loss, times its weight; `NO_WEIGHT` if a column's curvature is its mean square."""
    total: float
    """Sum of the samples' weights."""
    least: float
    """The smallest removal cost of the members."""
    ridge: float
    members: np.ndarray
    """Column numbers of the members."""
    most: int
    """Largest number of candidates that a task may return."""
    weight: np.ndarray
    """Weights of the samples, or `NO_WEIGHT`."""
    least_pivot: float
    """With groups: the share of a column's mean square that the columns before it must leave unexplained."""

    def candidates(self, columns: Columns) -> np.ndarray:
        """Return the positions of promising columns, at most the `most` with the largest gains, ascending."""
        gradients, diagonals = [], []
        for k, descent in enumerate(np.atleast_2d(self.descent)):
            gradients.append(self._gradient(columns, descent))
            diagonals.append(columns.square + self.ridge)
            if len(self.curvature):
                curvature = np.atleast_2d(self.curvature)[k]
                products = [row_products(row[None], row, curvature)[0] for row in columns.rows]
                diagonals[k] = np.array(products) / self.total + self.ridge
        return self.promising(self.usable(columns.ids, columns.scale), np.array(gradients), np.array(diagonals))

    def usable(self, ids: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Return which columns are neither constant nor members; bool of shape (B,)."""
        usable: np.ndarray = (scale > 0.0) & ~np.isin(ids, self.members)
        return usable

    def promising(self, usable: np.ndarray, gradients: np.ndarray, diagonals: np.ndarray) -> np.ndarray:
        """Return the positions of promising columns; derivatives and curvatures have shape (n_problems, B)."""
        usable = usable & (diagonals > 0.0).all(axis=0)
        gains = np.sum(gradients**2 / np.where(usable, 2.0 * diagonals, 1.0), axis=0)
        gains[~usable] = 0.0
        found = np.flatnonzero(gains > SCREEN * self.least)
        if len(found) > self.most:
            strongest = np.argsort(-gains[found], kind="stable")[: self.most]
            found = np.sort(found[strongest])
        return found

    def groups(self, columns: Columns, labels: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the positions of the columns of promising groups, ascending, and the number of non-member groups.

        If a group were orthogonal to the members, its gain would be half the square of the residual's projection on its
        span.
        """
        bounds = bounds_of(labels)
        if len(bounds) == 1:
            return np.empty(0, np.int64), 0
        if len(self.curvature):
            pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
            products = [products_within(columns.take(slice(a, b)), self.curvature, self.total) for a, b in pairs]
        else:
            products = products_of_groups(columns, bounds, self.weight, self.total)
        for one in products:
            one[range(len(one)), range(len(one))] += self.ridge
        is_member = np.add.reduceat(np.isin(columns.ids, self.members), bounds[:-1]) > 0
        gradient = self._gradient(columns, self.descent)
        gains = np.where(is_member, 0.0, group_gains(gradient, stacked(products, bounds), bounds, self.least_pivot))
        order = np.argsort(-gains, kind="stable")
        sizes = np.diff(bounds)
        chosen = order[gains[order] > SCREEN * self.least]
        fitting = np.cumsum(sizes[chosen]) <= self.most
        chosen = np.sort(chosen[fitting] if fitting.any() else chosen[:1])
        return np.flatnonzero(np.isin(np.repeat(np.arange(len(sizes)), sizes), chosen)), int((~is_member).sum())

    def _gradient(self, columns: Columns, descent: np.ndarray) -> np.ndarray:
        descents = row_products(columns.rows, descent, NO_WEIGHT)
        if columns.is_int8:
            descents -= columns.offset * float(descent.sum())
        gradient: np.ndarray = descents * (columns.factor / self.total)
        return gradient


@dataclass(frozen=True, slots=True)
class Screened(Record):
    """Result of screening a batch."""

    columns: Columns
    """The promising columns."""
    n_usable: int
    """Number of columns or groups that could have been presented."""
    n_found: int
    """Number of the promising columns, or of their groups."""


class BatchesToScreen(NamedTuple):
    """Neighbouring batches that one task screens."""

    batches: list[np.ndarray]
    together: int
    """Number of batches that are read at once."""
    labels: list[np.ndarray] | None = None
    """The group of each column, group after group; None: each column is a group of its own."""


def screen_batches(
    matrix: Matrix, settings: ColumnSettings, weight: np.ndarray, screen: Screen, part: BatchesToScreen
) -> list[Screened]:
    """Return the promising columns of some batches; only these are read if the matrix has products with vectors."""
    found = _by_products(matrix, settings, weight, screen, part)
    if found is not None:
        return found
    buffers, found = BufferPool(), []
    for first in range(0, len(part.batches), part.together):
        some = part.batches[first : first + part.together]
        columns, stop = read_columns(matrix, np.concatenate(some), settings, weight, buffers), 0
        for n, ids in enumerate(some, start=first):
            batch = columns.take(slice(stop, stop + len(ids)))
            found.append(_screened(batch, screen, None if part.labels is None else part.labels[n]))
            stop += len(ids)
        del columns, batch  # otherwise their buffer counts as in use
    return found


def _by_products(
    matrix: Matrix, settings: ColumnSettings, weight: np.ndarray, screen: Screen, part: BatchesToScreen
) -> list[Screened] | None:
    """Return the promising columns by the matrix's own products and moments.

    None if it has none, or if they do not suffice: for groups, losses with curvatures, and columns that are not
    neighbours. `SubstitutionShape.screens_codes` foresees it.
    """
    ids = np.concatenate(part.batches)
    columns = slice(int(ids.min()), int(ids.max()) + 1)
    if part.labels is not None or len(screen.curvature) or columns.stop - columns.start > len(ids):
        return None
    products = matrix.column_products(columns, np.atleast_2d(screen.descent))
    moments = matrix.column_moments(columns, weight if len(weight) else np.ones(matrix.shape[0]))
    if products is None or moments is None:
        return None
    centre = moments.mean if settings.centres else np.zeros(len(moments.mean))
    variance = moments.std**2 + (moments.mean - centre) ** 2
    scale = np.sqrt(variance) if settings.scales else (variance > 0.0).astype(np.float64)
    square = np.ones(len(scale)) if settings.scales else variance
    column_weight = matrix.weights_of_columns(columns)
    if column_weight is not None:
        products, centre, square = products * column_weight, centre * column_weight, square * column_weight**2
    totals = np.atleast_2d(screen.descent).sum(axis=1)
    gradients = (products - totals[:, None] * centre) / np.where(scale > 0.0, scale, 1.0) / screen.total
    found = []
    for batch in part.batches:
        at = batch - columns.start
        usable = screen.usable(batch, scale[at])
        places = screen.promising(usable, gradients[:, at], np.tile(square[at] + screen.ridge, (len(gradients), 1)))
        candidates = read_columns(matrix, batch[places], settings, weight)
        found.append(Screened(candidates, int(usable.sum()), len(places)))
    return found


def _screened(columns: Columns, screen: Screen, labels: np.ndarray | None) -> Screened:
    if labels is None:
        places = screen.candidates(columns)
        n_usable = int(screen.usable(columns.ids, columns.scale).sum())
        return Screened(columns.take(places), n_usable, len(places))
    is_used = columns.scale > 0.0
    columns, labels = (columns, labels) if is_used.all() else (columns.take(is_used), labels[is_used])
    places, n_usable = screen.groups(columns, labels)
    return Screened(columns.take(places), n_usable, len(np.unique(labels[places])))
