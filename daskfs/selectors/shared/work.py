"""Counts of a fit's operations, known before the data: decoded tiles, values, products. Their times are measured.

A reader decodes whole tiles; a tile that several blocks touch is decoded once for each.

    >>> n_tiles_touched(100, 10, 20)  # ten blocks of half a tile
    10
    >>> n_tiles_touched(100, 30, 20)  # 0-30 touches two, 30-60 two, 60-90 two, 90-100 one
    7
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from daskfs.losses import find_loss
from daskfs.matrix.buffers import DEFAULT_BLOCK_NBYTES
from daskfs.matrix.spans import Spans

MOST_CUTS = 1 << 20  # of blocks in pieces, up to which it is counted exactly which of them end where a tile does
REFIT_VALUES = 1 << 20  # values of the selected columns per block of rows of the refit
LOOKS = 6  # passes over all rows in the refit of a loss other than the squared one: Newton steps, for some ridges


@dataclass(frozen=True, slots=True)
class Work:
    """Number of operations of each kind in a fit, to predict its time; the names are the method's own.

    The time per operation is measured, by method and name: `daskfs.pipeline.cost.MEASURED`. Those of reading and of the
    refit are the same for all methods.
    """

    by_tasks: Mapping[str, float] = field(default_factory=dict)
    in_client: Mapping[str, float] = field(default_factory=dict)
    """Work of a single process, however many workers there are."""
    n_at_once: float = math.inf
    """Largest number of tasks of a pass that can run at the same time."""
    method: str = ""
    """Method whose operations they are, if not the method that plans."""


def added(*counts: Mapping[str, float]) -> dict[str, float]:
    """Return the summed operations of several parts."""
    total: dict[str, float] = {}
    for some in counts:
        for unit, count in some.items():
            total[unit] = total.get(unit, 0.0) + count
    return total


def n_tiles_touched(length: int, width: int, tile: int, block: int | None = None) -> int:
    """Return how many tiles consecutive blocks touch in total; a tile counts once for each block.

    Parameters
    ----------
    length : int
        Rows or columns.
    width : int
        Of a block.
    tile : int
        Rows or columns of a tile.
    block : int, optional
        If given, blocks are the pieces of larger blocks of so many rows; the last piece of each may be shorter.
    """
    if length <= 0:
        return 0
    n_tiles = -(-length // tile)
    if block is None or width >= block:
        width = min(width, length) if block is None else block
        return -(-length // width) + n_tiles - -(-length // math.lcm(width, tile))
    n_blocks, rest = divmod(length, block)
    n_pieces = n_blocks * -(-block // width) + -(-rest // width)
    if n_pieces > MOST_CUTS:  # few of these end where a tile does
        return n_pieces + n_tiles - 1
    ends = (np.arange(-(-length // block))[:, None] * block + np.arange(0, block, width)).ravel()
    ends = ends[(ends > 0) & (ends < length)]
    return n_pieces + n_tiles - 1 - int(np.count_nonzero(ends % tile == 0))


@dataclass(frozen=True, slots=True)
class Grid:
    """The tiles of a store, some rows of which are read."""

    n_samples: int
    n_features: int
    tile_rows: int = 1
    tile_columns: int = 1
    n_stored: int | None = None
    """Rows of the store; the rows to read are assumed to be evenly spread among them."""
    n_entries: int | None = None
    """Number of entries of these rows in a sparse store, assumed to be evenly spread over tiles."""

    @property
    def n_down(self) -> int:
        """Number of rows of tiles."""
        return -(-(self.n_stored or self.n_samples) // self.tile_rows)

    @property
    def n_across(self) -> int:
        """Number of columns of tiles."""
        return -(-self.n_features // self.tile_columns)

    @property
    def tile(self) -> float:
        """Values of a tile, including padding."""
        if self.n_entries is None:
            return float(self.tile_rows * self.tile_columns)
        spread = (self.n_stored or self.n_samples) / max(1, self.n_samples)
        return self.n_entries * spread / (self.n_down * self.n_across)

    @property
    def unit(self) -> str:
        """Name of what is read."""
        return "values read" if self.n_entries is None else "entries read"

    def of_tiles(self, n_tiles: float) -> dict[str, float]:
        """Return what is read of so many tiles."""
        return {self.unit: n_tiles * self.tile}

    def rows(self, n_rows: int, width: int, block: int | None = None) -> int:
        """Return how many rows of tiles blocks of rows touch, see `n_tiles_touched`."""
        spread = (self.n_stored or self.n_samples) / max(1, self.n_samples)
        if spread == 1.0:
            return n_tiles_touched(n_rows, width, self.tile_rows, block)
        scaled = [None if one is None else max(1, round(one * spread)) for one in (n_rows, width, block)]
        return n_tiles_touched(scaled[0] or 1, scaled[1] or 1, self.tile_rows, scaled[2])

    def spans(self, spans: Spans, starts: np.ndarray, stops: np.ndarray) -> int:
        """Return how many rows of tiles are decoded if spans are read at once.

        >>> Grid(100, 1, 10).spans(Spans.within(10, 4), np.array([0, 15]), np.array([15, 25]))
        9
        """
        spread = (self.n_stored or self.n_samples) / max(1, self.n_samples)
        first, last = (np.floor(one * spread).astype(np.int64) for one in (starts, stops - 1))
        tile = self.tile_rows
        if spans.part >= tile:
            return int((last // tile - first // tile + 1).sum())
        per_tile = -(-tile // spans.part)
        of_first, of_last = (one // tile * per_tile + one % tile // spans.part for one in (first, last))
        return int((of_last - of_first + 1).sum())

    def columns(self, width: int) -> int:
        """Return how many columns of tiles blocks of columns touch."""
        return n_tiles_touched(self.n_features, width, self.tile_columns)

    def columns_in_rounds(self, first: int, n_round: int, n_task: int, at_once: int) -> int:
        """Return how many columns of tiles are touched from column `first` on by tasks that take columns in rounds.

        >>> Grid(1, 100, 1, 10).columns_in_rounds(0, 40, 20, 8)  # 0-8, 8-16, 16-20, 20-28, 28-36, 36-40, 40-48, ...
        20
        """
        n_columns = self.n_features - first
        tasks = ((start, min(start + n_task, n_round)) for start in range(0, n_round, n_task))
        within = np.array([at for start, stop in tasks for at in range(start, stop, at_once)])
        starts = (np.arange(0, n_columns, n_round)[:, None] + within).ravel()
        starts = starts[starts < n_columns]
        stops = np.append(starts[1:], n_columns)
        return int(((first + stops - 1) // self.tile_columns - (first + starts) // self.tile_columns + 1).sum())

    def tiles_touched_by(self, n_columns: int) -> float:
        """Return the expected number of columns of tiles that `n_columns` arbitrary columns lie in."""
        return self.n_across * -math.expm1(n_columns * math.log1p(-1.0 / self.n_across)) if self.n_across > 1 else 1.0


def of_refit(
    grid: Grid, n_columns: int, itemsize: int, loss: str, room: int | None = None, n_fits: int = 1
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the work of `refit_selected` on some columns: in tasks, or in the client if it keeps the columns.

    Parameters
    ----------
    grid : Grid
    n_columns : int
    itemsize : int
        Bytes of a value of the columns in memory.
    loss : str
    room : int, optional
        Memory limit of a task in bytes; by default none.
    n_fits : int
        Number of fits.
    """
    if not n_columns:
        return {}, {}
    n_values = grid.n_samples * n_columns
    is_kept = n_values * itemsize <= (DEFAULT_BLOCK_NBYTES if room is None else min(room // 2, DEFAULT_BLOCK_NBYTES))
    looks = 1 if find_loss(loss).is_quadratic else LOOKS
    n_reads = n_fits * (1 if is_kept else 1 + looks)
    n_tiles = n_reads * grid.rows(grid.n_samples, max(1, REFIT_VALUES // n_columns)) * grid.tiles_touched_by(n_columns)
    counts = added(grid.of_tiles(n_tiles), of_newton(grid.n_samples, n_columns, loss, n_fits))
    return ({}, counts) if is_kept else (counts, {})


def of_loss(loss: str) -> str:
    """Return the suffix of names of measured work: a pass with a quadratic loss is cheaper than with another."""
    return "" if find_loss(loss).is_quadratic else ", likelihood"


def of_newton(n_samples: int, n_columns: int, loss: str, n_fits: int = 1) -> dict[str, float]:
    """Return the work of a refit on columns in memory, with the usual number of steps if the loss is not squared."""
    of = of_loss(loss)
    n_values = float(n_fits * n_samples * n_columns)
    return {f"values refitted{of}": n_values, f"products refitted{of}": n_values * n_columns}
