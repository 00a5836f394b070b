"""The reads and the memory of online substitution: integers in, integers out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from daskfs.kernels.substitution.products import BAND_ROWS
from daskfs.losses import find_loss
from daskfs.selectors.shared.budget import (
    RESULT_COLUMN_NBYTES,
    TILES_NBYTES,
    Budget,
    DataShape,
    SelectorPlan,
    most_within,
)
from daskfs.selectors.shared.work import Work, added, of_loss, of_newton

SMALLEST_BATCH, LARGEST_BATCH = 32, 128
ROUND_BATCHES = 8  # screened against the same members; the result depends on it, so it is fixed
READ_NBYTES = 8 << 20  # smallest read of short columns: each read has a fixed cost
COPY_NBYTES = 4 << 20  # of columns in memory, which are copied into a block
MAX_READ_NBYTES = 128 << 20
MOST_JUDGED = 8192  # sparse columns that are tested together from their entries
VECTORS = 10  # float64 vectors of length n_samples: target, weights, prediction, derivatives, and work arrays of a step
REFIT_NBYTES = 3 * 8 << 20  # row blocks of the refit
HISTORY = ("epoch", "n_presented", "n_members", "n_exchanged", "n_refused", "n_reverted", "objective")
MOST_LINES = 100_000  # history lines per epoch, at most
HISTORY_COPIES = 4  # copies: while it grows, in the checkpoint, in the result and in its table


def batch_of(block_columns: int | None, n_selected: int) -> int:
    """Return the number of columns per batch: at most that of the members, so that products with the members dominate.

    It depends neither on memory nor on tiles: with losses other than the squared one, the result depends on it.

    Examples
    --------
    >>> batch_of(None, 10), batch_of(None, 100), batch_of(None, 500), batch_of(17, 500)
    (32, 64, 128, 17)
    """
    if block_columns is not None:
        return int(block_columns)
    batch = SMALLEST_BATCH
    while batch < LARGEST_BATCH and 2 * batch <= n_selected:
        batch *= 2
    return batch


def batches_of_task(n_threads: int) -> int:
    """Return the number of batches of a round that one task screens, if `n_threads` tasks can run at once.

    Examples
    --------
    >>> [batches_of_task(n) for n in (1, 3, 8, 1000)]
    [8, 3, 1, 1]
    """
    return -(-ROUND_BATCHES // n_threads)


@dataclass(frozen=True, slots=True)
class SubstitutionShape:
    """The facts that a plan is computed from."""

    n_samples: int
    n_features: int
    n_selected: int
    itemsize: int
    """Bytes per value of columns in memory."""
    stored_itemsize: int
    batch: int
    """Columns decided on together."""
    tile_columns: int
    """Columns of a tile; 1 if there are no tiles."""
    n_epochs: int
    tiles_nbytes: int = TILES_NBYTES
    """Memory of the reader in addition to the blocks."""
    n_screened: int = 0
    """Columns that one round of screening reads; 0: no screening."""
    undoes: bool = False
    """Whether a batch may be undone: the columns that it replaced are kept until then."""
    widest: int = 1
    """Columns of the largest group, if groups are exchanged."""
    n_groups: int = 0
    """Number of groups that may be selected; 0: columns are selected."""
    entries_nbytes: Callable[[int], int] = lambda n_columns: 0
    """Bytes of this many columns of a sparse store as their entries."""
    data: DataShape | None = None
    loss: str = "squared"
    n_threads: int = 1
    """Tasks that run at once."""
    n_problems: int = 1
    """Number of problems that share the columns: the number of classes if more than two."""

    @property
    def together(self) -> int:
        """Smallest number of columns that are read together: a batch, or the largest group."""
        return max(self.batch, self.widest)

    @property
    def n_judged(self) -> int:
        """Sparse columns that are tested together from their entries, a multiple of the batch; 0: none are.

        Columns of a store are read as they are: reading their entries costs more than the tests save.
        """
        if self.tile_columns > 1:
            return 0
        most = max(1, min(MOST_JUDGED, self.n_features) // self.batch)
        n_batches = most_within(lambda n: self.entries_nbytes(n * self.batch), READ_NBYTES, most)
        return n_batches * self.batch

    @property
    def column_nbytes(self) -> int:
        """Bytes of one column in memory."""
        return self.n_samples * self.itemsize

    @property
    def _n_lines(self) -> int:
        """Number of lines of the history."""
        return self.n_epochs * min(-(-self.n_features // self.batch), MOST_LINES)

    def _of_them(self, n_columns: int) -> int:
        """Return `n_columns`, at most the number of features."""
        return min(n_columns, self.n_features)

    def held(self, n_selected: int) -> Budget:
        """Return the memory that is held in addition to the blocks that are read."""
        s, b, n_problems = n_selected, self._of_them(self.together), self.n_problems
        with_a_block = 6 * b * s + 2 * b * b if n_problems == 1 else n_problems * (10 * b * s + 2 * b * b)
        members = s * self.column_nbytes
        refit = min(members, MAX_READ_NBYTES) + REFIT_NBYTES
        replaced = (s if self.n_groups else min(s, b)) * self.column_nbytes if self.undoes else 0
        if self.n_groups:
            return self._held_groups(s, refit, replaced)
        return (
            Budget()
            .add("selected columns", members)
            .add("their products", 3 * n_problems * s * s * 8)
            .add("products with a block", 8 * with_a_block + 2 * (s + b + 8) * BAND_ROWS * 8)
            .add("vectors over the rows", VECTORS * n_problems * 8 * self.n_samples)
            .add("scores, coefficients and order of the columns", (RESULT_COLUMN_NBYTES + 8) * self.n_features)
            .add("coefficients of further classes", (n_problems - 1) * 8 * self.n_features)
            .add("history", HISTORY_COPIES * 8 * len(HISTORY) * self._n_lines)
            .add(
                "screened candidates",
                self._of_them(self.n_screened // 2 + b * (self.n_screened > 0)) * self.column_nbytes,
            )
            .add_largest(
                refit=refit,
                a_block_as_it_is_checked=b * self.n_samples,
                columns_that_may_come_back=replaced,
            )
            .add("entries of columns that are judged", self.entries_nbytes(self.n_judged))
            .add("tiles", self.tiles_nbytes)
        )

    def _held_groups(self, s: int, refit: int, replaced: int) -> Budget:
        """Return the same for groups. Groups are read in every epoch, and never tested from their entries."""
        b, q = self._of_them(self.together), self.widest
        return (
            Budget()
            .add("selected columns", s * self.column_nbytes)
            .add("their products", (3 * s * s + 5 * (s + q) ** 2) * 8)
            .add("products with a block", 6 * b * (s + q) * 8 + 2 * b * b * 8 + 2 * (s + b + 8) * BAND_ROWS * 8)
            .add("vectors over the rows", VECTORS * 8 * self.n_samples)
            .add("scores, coefficients and order of the columns", (RESULT_COLUMN_NBYTES + 8) * self.n_features)
            .add("history", HISTORY_COPIES * 8 * len(HISTORY) * self._n_lines)
            .add("groups and their order", 12 * 8 * self.n_features)
            .add("screened candidates", self._of_them(self.n_screened // 2) * self.column_nbytes)
            .add("a batch without its constant columns", 2 * b * self.column_nbytes)
            .add_largest(refit=refit, a_block_as_it_is_checked=b * self.n_samples, columns_that_may_come_back=replaced)
            .add("tiles", self.tiles_nbytes)
        )

    def read_nbytes(self, width: int, prefetch: int) -> int:
        """Return the memory of blocks of this many columns."""
        width = self._of_them(width)
        converted = 0 if self.itemsize == self.stored_itemsize else width * self.n_samples * self.stored_itemsize
        return (1 + prefetch) * width * self.column_nbytes + converted

    @property
    def screens_codes(self) -> bool:
        """Whether columns are screened by products with codes, and only candidates are decoded."""
        has_products = self.data is not None and self.data.has_products
        return bool(self.n_screened) and has_products and not self.n_groups and find_loss(self.loss).is_quadratic

    def screening(self, n_together: int) -> Budget:
        """Return the memory of a screening task that reads this many batches at once."""
        n_read = 0 if self.screens_codes else n_together * self.together
        task = Budget().add("a block of columns", self.read_nbytes(n_read, 0))
        task.add("vectors over the rows", (2 + 2 * self.n_problems) * 8 * self.n_samples).add(
            "tiles", self.tiles_nbytes
        )
        if self.n_groups:
            return task.add("columns that are returned", 2 * self.together * self.column_nbytes)
        if n_together > 1:
            task.add(
                "columns that are returned", batches_of_task(self.n_threads) * self.batch // 2 * self.column_nbytes
            )
        return task

    def n_together(self, width: int) -> int:
        """Return how many batches are read at once for screening: those of a task, limited by the width of a block."""
        return 1 if self.n_groups else min(batches_of_task(self.n_threads), max(1, width // self.batch))

    def whole(self, n_selected: int, width: int, prefetch: int) -> Budget:
        """Return the memory of a selection that reads this many columns at once."""
        return self.held(n_selected).add("blocks of columns", self.read_nbytes(width, prefetch))


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How columns are read."""

    batch: int
    """Columns decided on together."""
    width: int
    """Columns read at once, a multiple of the batch."""
    prefetch: int
    memory: Budget
    """Memory of the whole selection, in addition to the process's baseline."""
    n_judged: int = MOST_JUDGED
    """Sparse columns that are tested together from their entries; 0: none are."""
    n_together: int = 1
    """Batches that are read at once for screening."""


def choose_read_plan(shape: SubstitutionShape, memory_limit: int | None) -> ReadPlan:
    """Return the width of the blocks to read: whole tiles if the memory allows, else the smallest possible.

    Raises
    ------
    PlanError
        Not even one batch fits in the limit. The error names a number of features that does.
    """
    batch_nbytes = max(1, shape.together * shape.column_nbytes)
    least_nbytes = READ_NBYTES if shape.tile_columns > 1 else COPY_NBYTES
    wanted = max(-(-shape.tile_columns // shape.together), least_nbytes // batch_nbytes, 1)
    if memory_limit is None:
        wanted = min(wanted, max(1, MAX_READ_NBYTES // batch_nbytes))
    wanted = min(wanted, -(-shape.n_features // shape.together))
    narrower = [wanted >> k for k in range(1, wanted.bit_length())]
    most_ahead = 1 if shape.tile_columns > 1 else 0  # reading ahead would fetch from another core's cache
    for n_batches, prefetch in [(n, ahead) for n in (wanted, *narrower) for ahead in range(most_ahead, -1, -1)]:
        width = n_batches * shape.together
        needed = shape.whole(shape.n_selected, width, prefetch)
        if memory_limit is None or needed.nbytes <= memory_limit:
            return ReadPlan(shape.batch, width, prefetch, needed, shape.n_judged, shape.n_together(width))
    what = f"{shape.n_selected:,} columns of {shape.n_samples:,} values and blocks of {shape.together} take"
    narrowest = shape.whole(shape.n_selected, shape.together, 0)
    narrowest.refuse_over(memory_limit, what, _fewer(shape, memory_limit or 0))
    return ReadPlan(shape.batch, shape.together, 0, narrowest, shape.n_judged)


def _fewer(shape: SubstitutionShape, limit: int) -> str:
    fits = shape.n_selected
    while fits > 0 and shape.whole(fits, shape.together, 0).nbytes > limit:
        fits = fits - 1 if fits < 64 else fits * 63 // 64
    if shape.n_groups:
        return f"select fewer groups, with at most {fits} columns" if fits else "make the largest groups smaller"
    return f"select at most {fits} features" if fits else "use a smaller block_columns"


def plan_substitution(shape: SubstitutionShape, memory_limit: int | None) -> SelectorPlan:
    """Return what online substitution will read and hold in memory.

    Raises
    ------
    PlanError
        It does not fit in the limit.
    """
    read = choose_read_plan(shape, memory_limit)
    n_reads = -(-shape.n_features // read.width) * shape.n_epochs
    pass_nbytes = shape.n_samples * shape.n_features * shape.stored_itemsize
    if shape.screens_codes:  # two bits per value, for products and for moments; candidates are not counted
        pass_nbytes = 2 * -(-shape.n_samples // 4) * shape.n_features
    how = f"blocks of {read.width} columns, {'the next one read ahead' if read.prefetch else 'one at a time'}"
    task, client, n_tasks = Budget(), read.memory, n_reads
    in_client = "columns are read and exchanged one after the other; with schedule: screen the workers read them"
    if shape.n_screened:
        task, n_batches = shape.screening(read.n_together), 1 if shape.n_groups else batches_of_task(shape.n_threads)
        n_tasks = -(-shape.n_features // (n_batches * shape.batch)) * shape.n_epochs
        how = f"tasks of {n_batches * shape.batch} columns in rounds of {shape.n_screened}"
        in_client = "the exchanges of the candidates that the workers find"
    if shape.n_groups:
        how += f", up to {shape.n_groups:,} groups selected"
    return SelectorPlan(
        n_tasks=n_tasks,
        n_passes=shape.n_epochs,
        read_nbytes=pass_nbytes * shape.n_epochs,
        task=task,
        client=client,
        text=(
            f"online_substitution: {shape.n_selected} columns held, {shape.n_selected * shape.column_nbytes:,} bytes; "
            f"up to {shape.n_epochs} passes over all columns in {how}"
        ),
        in_client=in_client,
        work=_work(shape, read),
    )


def _work(shape: SubstitutionShape, read: ReadPlan) -> Work | None:
    """Return the work per column: it is stored, multiplied with the selected columns, and possibly exchanged.

    Screening begins when all places are taken. From then on workers read batches and make one product per column, and
    the client exchanges candidates. If columns are in random order, the k-th is among the best s so far with
    probability s / k. Not measured: groups, several classes, screening for losses other than the squared one, and
    sparse columns that are tested from their entries.
    """
    if shape.data is None or shape.data.n_entries is not None or shape.n_groups or shape.n_problems > 1:
        return None
    if shape.n_screened and not find_loss(shape.loss).is_quadratic:
        return None
    n, s, grid = shape.n_samples, shape.n_selected, shape.data.grid
    n_seen, n_all = shape.n_features, shape.n_features * shape.n_epochs
    by_tasks: dict[str, float] = {}
    in_client = {"fits": 1.0} | grid.of_tiles(grid.columns(read.width) * grid.n_down * shape.n_epochs)
    if shape.n_screened:
        n_seen = min(-(-s // shape.batch) * shape.batch, shape.n_features)
        n_first = min((-(-n_seen // read.width) + read.prefetch) * read.width, shape.n_features)
        in_client |= grid.of_tiles(replace(grid, n_features=n_first).columns(read.width) * grid.n_down)
        task, at_once = batches_of_task(shape.n_threads) * shape.batch, read.n_together * shape.batch
        passes = [n_seen, *[0] * (shape.n_epochs - 1)]
        n_screens = sum(grid.columns_in_rounds(first, shape.n_screened, task, at_once) for first in passes)
        by_tasks = grid.of_tiles(n_screens * grid.n_down) | {"values screened": float(n * (n_all - n_seen))}
    of = of_loss(shape.loss)
    n_exchanged = s * math.log(max(1.0, n_all / s))
    n_products = n_seen + (n_exchanged if shape.n_screened else 0.0)
    in_client[f"values{of}"] = n * n_products
    in_client[f"products with selected columns{of}"] = n * n_products * s
    in_client["values presented again"] = 0.0 if shape.n_screened else float(n * (n_all - n_seen))
    in_client[f"values exchanged{of}"] = n * shape.batch * n_exchanged  # the rest of a batch is tested again
    n_at_once = ROUND_BATCHES if shape.n_screened else math.inf
    return Work(by_tasks, added(in_client, of_newton(n, s, shape.loss)), n_at_once, method="online_substitution")
