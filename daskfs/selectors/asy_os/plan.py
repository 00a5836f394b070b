"""What asynchronous online substitution reads and holds: integers in, integers out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from daskfs.errors import PlanError
from daskfs.kernels.substitution.products import BAND_ROWS
from daskfs.selectors.base import SelectorPlan
from daskfs.selectors.online_substitution.plan import MAX_READ_NBYTES, REFIT_NBYTES, TILE_NBYTES

EPOCH_BLOCKS = 20
"""Blocks of each worker in an epoch, at least: a block sees nothing of what the others do meanwhile."""
WORKER_VECTORS, NODE_VECTORS = 12, 12
"""Of n_samples float64, in a worker and in the central node."""
WIDEST, READ_NBYTES = 4096, 16 << 20
"""Columns of a block at most, and what is read at once where workers take turns in this process."""
N_BUFFERS = 3
"""Blocks of a worker: in use, being read, and as they are stored."""


@dataclass(frozen=True, slots=True)
class AsyncShape:
    """What a plan needs to know."""

    n_samples: int
    n_features: int
    n_selected: int
    n_workers: int
    capacity: int
    """Columns of each worker."""
    itemsize: int
    """Of the columns as they are held."""
    n_epochs: int
    tile_columns: int
    block_columns: int | None
    in_turn: bool
    """Whether all workers are in this process."""
    stored_itemsize: int = 4

    @property
    def column_nbytes(self) -> int:
        """Of one column in memory."""
        return self.n_samples * self.itemsize

    def worker_nbytes(self, width: int) -> int:
        """Return what a worker holds that looks at blocks of so many columns."""
        k, b = self.capacity, width
        held = (k + min(k, b)) * self.column_nbytes  # columns that a refused block has overwritten are kept
        products = (6 * k * k + 6 * b * k + 2 * min(b, 512) * b) * 8 + 2 * (k + b + 8) * BAND_ROWS * 8
        return held + products + WORKER_VECTORS * 8 * self.n_samples

    def task_nbytes(self, width: int) -> int:
        """Return the peak of one process beside itself: with its blocks, and the node, which lives in one of them."""
        node = NODE_VECTORS * 8 * self.n_samples
        if not self.in_turn:
            return self.worker_nbytes(width) + N_BUFFERS * width * self.column_nbytes + node + TILE_NBYTES
        read = min(READ_NBYTES, self.n_features * self.column_nbytes)
        chapters = N_BUFFERS * max(width * self.column_nbytes, read)
        return self.n_workers * self.worker_nbytes(width) + chapters + node + TILE_NBYTES

    @property
    def client_nbytes(self) -> int:
        """What the last choice among the columns held and the refit take, where the client is."""
        held = self.n_workers * self.capacity
        refit = min(held * self.column_nbytes, MAX_READ_NBYTES) + REFIT_NBYTES
        choice = refit + 4 * held * held * 8 + WORKER_VECTORS * 8 * self.n_samples
        return max(choice, self._last_round_nbytes)

    @property
    def _last_round_nbytes(self) -> int:
        """What a single worker takes to which columns are presented again, where others have left places empty."""
        if self.n_workers == 1:
            return 0
        width = self.block_columns or min(self.widest, self.tile_columns)
        alone = replace(self, n_workers=1, capacity=self.n_selected)
        read = N_BUFFERS * max(width * self.column_nbytes, min(READ_NBYTES, self.n_features * self.column_nbytes))
        return alone.worker_nbytes(width) + read + NODE_VECTORS * 8 * self.n_samples + TILE_NBYTES

    @property
    def widest(self) -> int:
        """Columns of a block so that each worker has `EPOCH_BLOCKS` of them."""
        return min(WIDEST, max(1, self.n_features // (EPOCH_BLOCKS * self.n_workers)))


@dataclass(frozen=True, slots=True)
class Widths:
    """How wide blocks are."""

    unit: int
    """Columns that are leased together at least."""
    narrowest: int
    widest: int
    nbytes: int
    """Peak memory of one process, beside itself."""


def choose_widths(shape: AsyncShape, memory_limit: int | None) -> Widths:
    """Return how wide blocks are: whole tiles or whole parts of them, as the memory allows.

    Where workers take turns in this process the width does not depend on the tiles or the memory, for the answer
    depends on it.

    Raises
    ------
    PlanError
        Not even the narrowest block fits in the limit; with what would.
    """
    fixed = shape.block_columns
    if fixed is None and shape.in_turn:
        fixed = max(1, min(shape.widest, 64))
    if fixed is not None:
        unit = narrowest = widest = min(fixed, shape.n_features)
    else:
        tile = max(1, min(shape.tile_columns, shape.n_features))
        unit = _part_of_tile(tile, 2 * shape.widest)  # each part of a tile costs a reading of the whole
        widest = max(unit, shape.widest)
        while unit > 1 and memory_limit is not None and shape.task_nbytes(unit) > memory_limit:
            unit = _part_of_tile(unit, unit // 2)
        narrowest = unit
        while widest > unit and memory_limit is not None and shape.task_nbytes(widest) > memory_limit:
            widest = max(unit, widest // 2)
    needed = shape.task_nbytes(widest) + (shape.client_nbytes if shape.in_turn else 0)
    if memory_limit is not None and needed > memory_limit:
        raise _too_small(shape, memory_limit, needed, widest)
    return Widths(unit, narrowest, widest, needed)


def _part_of_tile(tile: int, most: int) -> int:
    """Return the largest divisor of a tile's columns that is no more than `most`."""
    n_parts = -(-tile // max(1, most))
    while tile % n_parts:
        n_parts += 1
    return tile // n_parts


def _too_small(shape: AsyncShape, limit: int, needed: int, width: int) -> PlanError:
    fault = PlanError(
        f"{shape.n_workers} x {shape.capacity:,} columns of {shape.n_samples:,} values and blocks of {width} take "
        f"{needed:,} bytes in one process, the limit is {limit:,} bytes",
        "memory_limit",
        f"allow at least {needed:,} bytes, or select fewer features"
        + ("" if shape.in_turn else f", or raise n_workers ({shape.n_workers})"),
    )
    fault.needed_nbytes = needed
    return fault


def plan_async(shape: AsyncShape, memory_limit: int | None) -> SelectorPlan:
    """Return what asynchronous online substitution will read and hold.

    Raises
    ------
    PlanError
        It does not fit in the limit.
    """
    widths = choose_widths(shape, memory_limit)
    pass_nbytes = shape.n_samples * shape.n_features * shape.stored_itemsize
    blocks = f"{widths.widest}" if widths.narrowest == widths.widest else f"{widths.narrowest} to {widths.widest}"
    where = "taking turns in this process" if shape.in_turn else "beside a central node"
    return SelectorPlan(
        n_tasks=1 if shape.in_turn else shape.n_workers + 1,
        n_passes=shape.n_epochs,
        task_nbytes=widths.nbytes,
        read_nbytes=pass_nbytes * shape.n_epochs,
        client_nbytes=0 if shape.in_turn else shape.client_nbytes,
        text=(
            f"async_online_substitution: {shape.n_workers} workers {where}, {shape.capacity} columns each, "
            f"{shape.capacity * shape.column_nbytes:,} bytes; up to {shape.n_epochs} passes in blocks of {blocks}"
        ),
    )
