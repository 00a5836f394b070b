"""What screening asks of batches of columns. Imported by workers, hence light."""

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
"""A column is looked at closer where its gain, were it orthogonal to the members, is this part of the least cost."""


@dataclass(frozen=True, slots=True)
class Screen:
    """The state of a selection that columns are screened against: the same for all tasks of a round."""

    descent: np.ndarray
    """Minus the derivative of each sample's loss, with its weight, of shape (n_samples,), with several classes
    (n_classes, n_samples)."""
    curvature: np.ndarray
    """Of each sample's loss, with its weight, of the same shape; `NO_WEIGHT` where that of a column is its mean
    square."""
    total: float
    """Sum of the samples' weights."""
    least: float
    """What the cheapest removal of a member costs."""
    ridge: float
    members: np.ndarray
    """Numbers of the members' columns."""
    most: int
    """Candidates that a task may return."""

    def candidates(self, columns: Columns) -> np.ndarray:
        """Return the places of the columns that could pay, at most the `most` strongest of them, ascending."""
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
    """What is found of a batch."""

    columns: Columns
    """Those that could pay."""
    n_usable: int
    """How many could have been presented."""
    n_found: int
    """How many these are: columns, or groups of them."""


class BatchesToScreen(NamedTuple):
    """Neighbouring batches that one task screens."""

    batches: list[np.ndarray]
    together: int
    """How many of them are read at once."""


def screen_batches(
    matrix: Matrix, settings: ColumnSettings, weight: np.ndarray, screen: Screen, part: BatchesToScreen
) -> list[Screened]:
    """Read some batches of columns and return those of each that could pay."""
    buffers, found = BufferPool(), []
    for first in range(0, len(part.batches), part.together):
        some = part.batches[first : first + part.together]
        columns, stop = read_columns(matrix, np.concatenate(some), settings, weight, buffers), 0
        for ids in some:
            batch = columns.take(slice(stop, stop + len(ids)))
            found.append(_screened(batch, screen))
            stop += len(ids)
        del columns, batch  # or their buffer counts as in use
    return found


def _screened(columns: Columns, screen: Screen) -> Screened:
    n_usable = int(((columns.scale > 0.0) & ~np.isin(columns.ids, screen.members)).sum())
    places = screen.candidates(columns)
    return Screened(columns.take(places), n_usable, len(places))
