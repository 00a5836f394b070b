"""Screening of batches of columns. Workers import this file, so it is light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from daskfs.kernels.substitution.products import NO_WEIGHT, row_products
from daskfs.matrix.base import Matrix
from daskfs.matrix.buffers import BufferPool
from daskfs.selectors.online_substitution.columns import Columns, ColumnSettings, read_columns
from daskfs.selectors.shared.record import Record

SCREEN = 0.3
"""A column is promising if its gain, were it orthogonal to the members, exceeds this share of the removal cost."""


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

    def candidates(self, columns: Columns) -> np.ndarray:
        """Return the positions of promising columns, at most the `most` with the largest gains, ascending."""
        usable = (columns.scale > 0.0) & ~np.isin(columns.ids, self.members)
        gains = np.zeros(len(columns))
        for k, descent in enumerate(np.atleast_2d(self.descent)):
            descents = row_products(columns.rows, descent, NO_WEIGHT)
            if columns.is_int8:
                descents -= columns.offset * float(descent.sum())
            gradient = descents * (columns.factor / self.total)
            diagonal = columns.square + self.ridge
            if len(self.curvature):
                curvature = np.atleast_2d(self.curvature)[k]
                products = [row_products(row[None], row, curvature)[0] for row in columns.rows]
                diagonal = np.array(products) / self.total + self.ridge
            usable &= diagonal > 0.0
            gains += gradient**2 / np.where(usable, 2.0 * diagonal, 1.0)
        gains[~usable] = 0.0
        found = np.flatnonzero(gains > SCREEN * self.least)
        if len(found) > self.most:
            strongest = np.argsort(-gains[found], kind="stable")[: self.most]
            found = np.sort(found[strongest])
        return found


@dataclass(frozen=True, slots=True)
class Screened(Record):
    """Result of screening a batch."""

    columns: Columns
    """The promising columns."""
    n_usable: int
    """Number of columns that could have been presented."""
    n_found: int
    """Number of the promising columns, or of their groups."""


class BatchesToScreen(NamedTuple):
    """Neighbouring batches that one task screens."""

    batches: list[np.ndarray]
    together: int
    """Number of batches that are read at once."""


def screen_batches(
    matrix: Matrix, settings: ColumnSettings, weight: np.ndarray, screen: Screen, part: BatchesToScreen
) -> list[Screened]:
    """Read some batches of columns and return the promising columns of each."""
    buffers, found = BufferPool(), []
    for first in range(0, len(part.batches), part.together):
        some = part.batches[first : first + part.together]
        columns, stop = read_columns(matrix, np.concatenate(some), settings, weight, buffers), 0
        for ids in some:
            batch = columns.take(slice(stop, stop + len(ids)))
            found.append(_screened(batch, screen))
            stop += len(ids)
        del columns, batch  # otherwise their buffer counts as in use
    return found


def _screened(columns: Columns, screen: Screen) -> Screened:
    n_usable = int(((columns.scale > 0.0) & ~np.isin(columns.ids, screen.members)).sum())
    places = screen.candidates(columns)
    return Screened(columns.take(places), n_usable, len(places))
