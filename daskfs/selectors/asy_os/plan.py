"""The reads and the memory of asynchronous online substitution: integers in, integers out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from daskfs.kernels.substitution.products import BAND_ROWS
from daskfs.selectors.asy_os.leases import UNIT_NBYTES
from daskfs.selectors.online_substitution.plan import MAX_READ_NBYTES, REFIT_NBYTES
from daskfs.selectors.shared.budget import RESULT_COLUMN_NBYTES, TILES_NBYTES, Budget, DataShape, SelectorPlan
from daskfs.selectors.shared.work import Work, added, of_loss, of_refit

EPOCH_BLOCKS = 20
"""Smallest number of blocks of a worker per epoch: during a block it does not see the others' changes."""
WORKER_VECTORS, NODE_VECTORS = 12, 12
"""Number of float64 vectors of length n_samples in a worker and in the central node."""
WIDEST, READ_NBYTES = 4096, 16 << 20
"""Largest number of columns of a block; bytes read at once if workers take turns in this process."""
PIECE_COLUMNS = 128
"""Columns of a block whose products with the members are computed together."""
READ_COLUMNS = 512
"""Largest number of columns of such a read."""
N_REFITS = 2
"""Number of refits: on the columns held, and on the selected ones."""
N_BUFFERS = 3
"""Blocks of a worker: in use, being read, and in the stored form."""


def capacity_of(n_selected: int, n_workers: int, slots: float, n_always: int = 0) -> int:
    """Return how many columns each worker may hold: s if there is one worker, else its share of `slots` times s.

    Places for the columns that are always included, which are spread over the workers, are added; otherwise the workers
    that hold them would have less room for others.

    Examples
    --------
    >>> capacity_of(100, 1, 1.5), capacity_of(100, 20, 1.5), capacity_of(100, 20, 1.0), capacity_of(100, 20, 1.0, 30)
    (100, 8, 5, 7)
    """
    if n_workers == 1:
        return n_selected
    return min(n_selected, math.ceil(slots * n_selected / n_workers) + -(-n_always // n_workers))


def rho_of(n_workers: int, n_features: int, n_selected: int, m: float, c: float, tau_max: int) -> float:
    """Return ρ of Theorem 2, which requires a step below 0.5 / L_F (1 + ρ).

    ρ = (1/2m²q + 1/2(p - s)) τ² / c is the theorem's term with L_f = L_F: L_f bounds the gradient over the whole X,
    which is unknown in a stream. τ is the staleness that the central node allows.

    Examples
    --------
    >>> rho_of(20, 6000, 100, 5.0, 0.5, 20)
    0.8677966101694915
    """
    rest = max(1, n_features - n_selected)
    return (0.5 / (m * m * n_workers) + 0.5 / rest) * tau_max**2 / max(c, 1e-3)


@dataclass(frozen=True, slots=True)
class AsyncShape:
    """The facts that a plan is computed from."""

    n_samples: int
    n_features: int
    n_selected: int
    n_workers: int
    capacity: int
    """Columns of each worker."""
    itemsize: int
    """Bytes per value of columns in memory."""
    n_epochs: int
    tile_columns: int
    block_columns: int | None
    in_turn: bool
    """Whether all workers are in this process."""
    stored_itemsize: int = 4
    tiles_nbytes: int = TILES_NBYTES
    """Memory of the reader in addition to the blocks."""
    data: DataShape | None = None
    loss: str = "squared"
    n_problems: int = 1
    """Number of problems that share the columns: the number of classes if more than two."""
    n_always: int = 0
    """Number of columns that are always included."""

    @property
    def column_nbytes(self) -> int:
        """Bytes of one column in memory."""
        return self.n_samples * self.itemsize

    def worker(self, width: int) -> Budget:
        """Return the memory of a worker with blocks of `width` columns."""
        k, b, n_problems = self.capacity, width, self.n_problems
        with_a_block = 6 * b * k + 2 * min(b, 512) * b
        if n_problems > 1:
            piece = min(b, PIECE_COLUMNS)
            with_a_block = n_problems * (10 * piece * k + 2 * piece * piece)
        return (
            Budget()
            .add("selected columns", k * self.column_nbytes)
            .add("those that a refused block has overwritten", min(k, b) * self.column_nbytes)
            .add("their products", 6 * n_problems * k * k * 8)
            .add("products with a block", with_a_block * 8 + 2 * (k + b + 8) * BAND_ROWS * 8)
            .add("vectors over the rows", self.vectors(WORKER_VECTORS))
        )

    def vectors(self, n_vectors: int) -> int:
        """Return the bytes of this many vectors over the rows, for each prediction."""
        return n_vectors * self.n_problems * 8 * self.n_samples

    def task(self, width: int, read: int = 0, unit: int = 0) -> Budget:
        """Return the peak memory of one process above its baseline; the node may live in it.

        Parameters
        ----------
        width : int
            Columns of a block.
        read : int
            Columns that are read at once.
        unit : int
            Smallest number of columns that are leased together; 0: a block.
        """
        whole = self.worker(width).times(self.n_workers if self.in_turn else 1)
        least = min(READ_NBYTES, self.n_features * self.column_nbytes) if self.in_turn else 0
        whole.add("blocks of columns", N_BUFFERS * max(max(width, read) * self.column_nbytes, least))
        whole.add("leases of columns", UNIT_NBYTES * -(-self.n_features // (unit or width)))
        return whole.add("the central node", self.vectors(NODE_VECTORS)).add("tiles", self.tiles_nbytes)

    def process(self, width: int, read: int = 0, unit: int = 0) -> Budget:
        """Return the peak memory of one process; if workers take turns in the client, with the client's memory."""
        task = self.task(width, read, unit)
        return task + self.client if self.in_turn else task

    @property
    def client(self) -> Budget:
        """Memory in the client for the last choice among the columns held, and for the refit."""
        held = self.n_workers * self.capacity
        refit = min(held * self.column_nbytes, MAX_READ_NBYTES) + REFIT_NBYTES
        choice = Budget().add("refit", refit)
        choice.add("products of the columns held", 4 * self.n_problems * held * held * 8)
        choice.add("vectors over the rows", self.vectors(WORKER_VECTORS))
        choice.add("scores and coefficients", RESULT_COLUMN_NBYTES * self.n_features)
        choice.add("coefficients of further classes", (self.n_problems - 1) * 8 * self.n_features)
        return max(choice, self._last_round, self._first_fit, key=lambda budget: budget.nbytes)

    @property
    def _first_fit(self) -> Budget:
        """Memory of the first fit on the columns that are always included, before the workers begin."""
        if not self.n_always:
            return Budget()
        return replace(self, n_workers=1, capacity=self.n_always, in_turn=True).task(self.n_always)

    @property
    def _last_round(self) -> Budget:
        """Memory of a single worker to which all columns are presented again, if others left places empty."""
        if self.n_workers == 1:
            return Budget()
        width = self.block_columns or min(self.widest, self.tile_columns)
        return replace(self, n_workers=1, capacity=self.n_selected, in_turn=True).task(width)

    @property
    def widest(self) -> int:
        """Largest number of columns of a block with which each worker has `EPOCH_BLOCKS` blocks."""
        return min(WIDEST, max(1, self.n_features // (EPOCH_BLOCKS * self.n_workers)))


@dataclass(frozen=True, slots=True)
class Widths:
    """The widths of blocks."""

    unit: int
    """Smallest number of columns that are leased together."""
    narrowest: int
    widest: int
    tile: int
    part: int
    """Columns of a tile, and how many of them are read at once, in whole units."""
    process: Budget
    """Peak memory of one process, above its baseline."""


def choose_widths(shape: AsyncShape, memory_limit: int | None) -> Widths:
    """Return the widths of blocks: whole tiles or whole parts of them, as the memory allows.

    If workers take turns in this process, the width does not depend on tiles or memory, because the result depends on
    the width.

    Raises
    ------
    PlanError
        Not even the narrowest block fits in the limit. The error says what would fit.
    """
    fixed = shape.block_columns
    if fixed is None and shape.in_turn:
        fixed = max(1, min(shape.widest, 64))
    if fixed is not None:
        unit = narrowest = widest = min(fixed, shape.n_features)
    else:
        tile = max(1, min(shape.tile_columns, shape.n_features))
        units = [_part_of_tile(tile, 2 * shape.widest)]  # each part of a tile needs a read of the whole tile
        widest = max(units[0], shape.widest)
        while units[-1] > 1:
            units.append(_part_of_tile(units[-1], units[-1] // 2))
        fitting = (one for one in units if memory_limit is None or shape.task(one).nbytes <= memory_limit)
        unit = narrowest = next(fitting, min(units, key=lambda one: shape.task(one).nbytes))
        while widest > unit and memory_limit is not None and shape.task(widest, unit=unit).nbytes > memory_limit:
            widest = max(unit, widest // 2)
    what = f"{shape.n_workers} x {shape.capacity:,} columns of {shape.n_samples:,} values and blocks of {widest} take"
    more_workers = "" if shape.in_turn else f", or raise n_workers ({shape.n_workers})"
    process = shape.process(widest, unit=unit)
    process.refuse_over(memory_limit, f"in one process {what}", f"select fewer features{more_workers}")
    tile, part = _read_at_once(shape, unit, widest, memory_limit)
    return Widths(unit, narrowest, widest, tile, part, shape.process(widest, part, unit))


def _read_at_once(shape: AsyncShape, unit: int, widest: int, memory_limit: int | None) -> tuple[int, int]:
    """Return the number of columns of a tile, and how many are read at once, in whole units: all if they fit."""
    n_units = max(1, min(shape.tile_columns, shape.n_features) // unit)
    parts = (-(-n_units // k) for k in range(1, n_units))
    for n in dict.fromkeys(parts):
        fits = memory_limit is None or shape.process(widest, n * unit, unit).nbytes <= memory_limit
        if fits and n * unit * shape.column_nbytes <= MAX_READ_NBYTES:
            return n_units * unit, n * unit
    return n_units * unit, unit


def _part_of_tile(tile: int, most: int) -> int:
    """Return the largest divisor of a tile's columns that is at most `most`."""
    n_parts = -(-tile // max(1, most))
    while tile % n_parts:
        n_parts += 1
    return tile // n_parts


def plan_async(shape: AsyncShape, memory_limit: int | None) -> SelectorPlan:
    """Return what asynchronous online substitution will read and hold in memory.

    Raises
    ------
    PlanError
        It does not fit in the limit.
    """
    widths = choose_widths(shape, memory_limit)
    pass_nbytes = shape.n_samples * shape.n_features * shape.stored_itemsize
    blocks = f"{widths.widest}" if widths.narrowest == widths.widest else f"{widths.narrowest} to {widths.widest}"
    where = "taking turns in this process" if shape.in_turn else "with a central node"
    return SelectorPlan(
        n_tasks=1 if shape.in_turn else shape.n_workers + 1,
        n_passes=shape.n_epochs,
        read_nbytes=pass_nbytes * shape.n_epochs,
        task=widths.process,
        client=Budget() if shape.in_turn else shape.client,
        text=(
            f"async_online_substitution: {shape.n_workers} workers {where}, {shape.capacity} columns each, "
            f"{shape.capacity * shape.column_nbytes:,} bytes; up to {shape.n_epochs} passes in blocks of {blocks}"
        ),
        in_client="everything: the workers take turns in this process" if shape.in_turn else "",
        work=_work(shape, widths),
    )


def read_columns_in_turn(widest: int, column_nbytes: int, part: int) -> int:
    """Return how many columns are read at once if workers take turns: whole blocks, some MiB or a tile."""
    width = max(widest, READ_COLUMNS - READ_COLUMNS % widest)
    return max(min(width, max(1, READ_NBYTES // column_nbytes // widest) * widest), part - part % widest)


def _work(shape: AsyncShape, widths: Widths) -> Work | None:
    """Return the work: each worker tests its share of the columns against those that it holds.

    If fewer columns than a tile has are read at once, each tile is read several times. Each block ends with new
    predictions for all rows, from the columns held and at the central node. At the end the columns held are fitted,
    then those kept of them, and these once more. Several classes have not been measured.
    """
    if shape.data is None or shape.data.n_entries is not None or shape.n_problems > 1:
        return None
    n, p, n_epochs, grid = shape.n_samples, shape.n_features, shape.n_epochs, shape.data.grid
    width = max(widths.widest, widths.part)
    if shape.in_turn:
        width = read_columns_in_turn(widths.widest, shape.column_nbytes, widths.part)
    n_blocks = n_epochs * -(-p // widths.widest)
    of = of_loss(shape.loss)
    counts = grid.of_tiles(n_epochs * grid.columns(min(width, p)) * grid.n_down)
    counts[f"values{of}"] = float(n * p * n_epochs)
    counts[f"products with selected columns{of}"] = float(n * p * n_epochs * shape.capacity)
    counts[f"rows of blocks{of}"] = float(n * n_blocks)
    counts[f"values held, of blocks{of}"] = float(n * n_blocks * shape.capacity)
    tasks, client = of_refit(grid, shape.n_selected, max(shape.stored_itemsize, 4), shape.loss, n_fits=N_REFITS)
    client["fits"] = 1.0
    if shape.in_turn:
        return Work(in_client=added(counts, tasks, client), method="async_online_substitution")
    return Work(added(counts, tasks), client, n_at_once=shape.n_workers, method="async_online_substitution")
