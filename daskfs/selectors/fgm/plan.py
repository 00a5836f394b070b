"""How FGM cuts the columns into tasks, and how much memory it needs: integers in, integers out.

width = whole tiles
.------------.------------.------
|    tile    |            |            A task scores all rows of one block of columns while their tiles are decoded,
|------------|------------|------      each once. Columns that enter a group are read again, at most n_read of a
|            |            |            column of tiles per task, and are kept by the client. A matrix that has no
|------------|            |            tiles, and does not lie in memory row by row, is read in pieces of piece_rows
|    ...     |    ...     |            rows; three are in memory: one is scored, one is ready, one is being read.
'------------'------------'------
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from daskfs.errors import ConfigError
from daskfs.feature_maps.base import MapCost
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.kernels.fgm.mkl import mkl_nbytes
from daskfs.kernels.fgm.scores import GRANULE
from daskfs.matrix.buffers import DEFAULT_BLOCK_NBYTES
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan, most_within
from daskfs.selectors.shared.work import Work, added, of_loss, of_newton

TASK_NBYTES = 64 << 20  # columns that one task reads; large enough to hide Dask's cost per task
READ_NBYTES = 36 << 20  # columns that one task reads for the client, and the copy that is sent
FORESEEN = 4  # times the columns of a group; on Gaussian data no group took other columns
BUFFER_NBYTES = 12 << 20  # a piece of rows
SUMS_NBYTES = 48  # sums that a task keeps per column
N_BUFFERS = 3  # pieces in memory: one is scored, one is ready, one is being read
KEPT_NBYTES = 512 << 20  # inner products of groups; beyond it the oldest groups are merged
MAX_PASSES, PER_PASS = 20, 10  # defaults
PASSES_TO_COUNT = 10  # default number of passes to reach a requested number of features
CACHED_ROWS = 200_000  # about the largest vectors over the rows that stay in the processor's cache
REFIT_VALUES, REFIT_COPIES = 1 << 20, 3  # values of the selected columns per row block of the refit; copies of them
IN_CLIENT = "the problems restricted to the groups taken so far, between passes"

Way: TypeAlias = Literal["strips", "in place", "pieces"]
"""How tasks obtain the values of columns."""


@dataclass(frozen=True, slots=True)
class Units:
    """The number of units to select from, and how many columns they have. A unit is a column, or a group of columns."""

    n_units: int
    most_columns: Callable[[int], int] = int
    """Upper bound of the columns of a number of units."""
    most_units: Callable[[int], int] = int
    """Upper bound of the units of a number of columns."""
    included_columns: int = 0
    """Columns that are always in the model and cannot be selected."""
    included_units: int = 0
    """Units of these columns."""

    def without(self, n_columns: int, n_units: int) -> Units:
        """Return the units that can be selected if others, with so many columns, are always included."""
        return replace(self, n_units=self.n_units - n_units, included_columns=n_columns, included_units=n_units)


class Sizes(NamedTuple):
    """The number of units and passes."""

    per_pass: int
    """The paper's B."""
    most: int
    """Units that may be selected."""
    n_passes: int
    """Largest number of passes, the paper's T."""
    columns_per_pass: int
    """Largest number of columns of B units."""
    most_columns: int
    """Columns that may be selected."""
    included_columns: int = 0
    """Columns that are always in the model, in addition."""

    @property
    def held_columns(self) -> int:
        """Columns held at the end."""
        return self.most_columns + self.included_columns


def choose_sizes(
    wanted: int | None, per_pass: int | None, max_passes: int | None, units: Units, counts_columns: bool = False
) -> Sizes:
    """Return the sizes for the parameters of FGM. Columns always included are not counted in what is selected.

    Parameters
    ----------
    wanted, per_pass, max_passes : int or None
        `n_features_to_select`, `n_features_per_pass` and `max_passes`.
    units : Units
        Of the matrix.
    counts_columns : bool
        Whether `wanted` counts columns instead of units.

    Raises
    ------
    ConfigError
        The passes are too few for the number of features, or more are always included than requested.
    """
    included = units.included_columns
    if wanted is None:
        per_pass, n_passes = max(1, min(per_pass or PER_PASS, units.n_units)), max_passes or MAX_PASSES
        most = min(per_pass * n_passes, units.n_units)
        return Sizes(per_pass, most, n_passes, units.most_columns(per_pass), units.most_columns(most), included)
    counted = included if counts_columns else units.included_units
    if counted > wanted:
        problem = f"expected at most {wanted} (n_features_to_select), found {counted}"
        raise ConfigError(problem, "always_include", "raise n_features_to_select")
    wanted -= counted
    most = max(min(wanted, 1), units.most_units(wanted)) if counts_columns else wanted
    least = max(1, -(-most // (max_passes or PASSES_TO_COUNT)))
    if per_pass is not None and max_passes is not None and per_pass < least:
        raise ConfigError(
            f"{max_passes} passes of {per_pass} cannot select {wanted:,} features",
            "n_features_per_pass",
            f"set it to at least {least}, or allow more max_passes",
        )
    per_pass = max(1, min(per_pass or least, units.n_units))
    n_passes, most_columns = max_passes or 2 * -(-most // per_pass), units.most_columns(most)
    most_columns = min(most_columns, wanted) if counts_columns else most_columns
    return Sizes(per_pass, most, n_passes, min(units.most_columns(per_pass), most_columns), most_columns, included)


def n_kept_groups(n_rows: int, itemsize: int) -> int:
    """Return how many groups' inner products are kept. It depends only on the rows, so that memory changes no bit.

    With several classes, the rows count once per class.
    """
    return KEPT_NBYTES // (3 * n_rows * max(itemsize, 4))


@dataclass(frozen=True, slots=True)
class Cut:
    """How the columns are cut."""

    width: int
    """Columns that one task scores."""
    piece_rows: int
    """Rows that it reads at a time, if it reads pieces."""
    n_read: int
    """Columns that one task reads for the client to keep."""
    n_foreseen: int
    """Columns whose values tasks keep during scoring, because the next group may take them."""
    task: Budget


def cut_columns(
    shape: DataShape,
    sizes: Sizes,
    limits: Limits,
    way: Way = "strips",
    n_problems: int = 1,
    scoring: Budget | None = None,
) -> Cut:
    """Return blocks of whole tiles whose sums, together with the vectors over the rows, fit in the limit.

    Parameters
    ----------
    shape : DataShape
    sizes : Sizes
    limits : Limits
    way : {"strips", "in place", "pieces"}
        How tasks obtain the values: tile by tile, without reading them (from memory, or from codes), or in pieces,
        three of which must fit too.
    n_problems : int
        Dual variables per row: one, or one per class with several classes.
    scoring : Budget, optional
        Memory that a feature map needs to score its columns; it must fit as well.

    Raises
    ------
    PlanError
        The limit is too small. The error names the size that would fit.
    """
    n, m, itemsize, limit = shape.n_samples, shape.n_features, shape.itemsize, limits.task_nbytes
    tile_columns = max(1, min(m if shape.tile_shape is None else shape.tile_shape[1], m))
    fixed = Budget().add("tiles", shape.tiles_nbytes).add("dual variables", dual_nbytes(n, n_problems))
    fixed.add("scores", 64 * (sizes.most_columns + sizes.columns_per_pass))
    sums_nbytes = SUMS_NBYTES * (1 + n_problems) // 2
    least = fixed + Budget({"one column": 2 * n * itemsize, "its sums": sums_nbytes})
    least.add("entries of one column", shape.columns_nbytes(1))
    if way == "pieces":
        least.add("pieces of one column", N_BUFFERS * GRANULE * itemsize)
    if scoring is not None and scoring.nbytes > least.nbytes:
        scoring.refuse_over(limit, "scoring the columns of the feature map takes")
    least.refuse_over(limit, f"one column of {n:,} rows and the dual variables take")
    column_nbytes = max(1, shape.columns_nbytes(m) // m) if shape.n_entries is not None else max(1, n * itemsize)
    wanted = max(tile_columns, TASK_NBYTES // column_nbytes, -(-m // 4096))
    if way == "in place" and shape.n_entries is None:
        wanted = m
    wanted = min(wanted, -(-m // (2 * limits.n_threads)) if limits.n_threads > 1 else m, m)
    width = min(-(-wanted // tile_columns) * tile_columns, m)
    if way == "pieces":
        width = min(width, BUFFER_NBYTES // (GRANULE * itemsize))
    if limit is not None:
        # The sums of many columns must leave room to read one that the client keeps, and for pieces of them.
        widest = (limit - fixed.nbytes - 2 * n * itemsize) // sums_nbytes
        if way == "pieces":
            widest = min(widest, (limit - fixed.nbytes) // (sums_nbytes + N_BUFFERS * GRANULE * itemsize))
        width = min(width, max(1, widest - widest % tile_columns or widest))
        if shape.n_entries is not None:
            left = limit - fixed.nbytes - 2 * n * itemsize
            width = most_within(lambda k: sums_nbytes * k + shape.columns_nbytes(k), left, width)
    fixed.add("sums of the columns", sums_nbytes * width)
    fixed.add("entries of the columns", shape.columns_nbytes(width))
    room = BUFFER_NBYTES if limit is None else min(BUFFER_NBYTES, (limit - fixed.nbytes) // N_BUFFERS)
    piece = min(max(1, room // (GRANULE * width * itemsize)), -(-n // GRANULE)) * GRANULE
    left = READ_NBYTES if limit is None else min(READ_NBYTES, limit - fixed.nbytes)
    n_fitting = left // (2 * n * itemsize)
    n_read = max(1, min(max(sizes.columns_per_pass, sizes.included_columns), n_fitting))
    n_foreseen = min(FORESEEN * sizes.columns_per_pass, n_fitting, m) if way == "strips" else 0
    task = fixed.add_largest(
        columns_that_groups_may_take=2 * n * n_foreseen * itemsize,
        pieces_of_columns=N_BUFFERS * min(piece, n) * width * itemsize if way == "pieces" else 0,
        columns_for_the_client=2 * n * n_read * itemsize,
    )
    return Cut(width, piece, n_read, n_foreseen, task)


def scoring_of(cost: MapCost | None, n_samples: int, n_problems: int) -> Budget:
    """Return the memory of a task that scores the columns of a feature map; nothing without a map."""
    if cost is None:
        return Budget()
    return Budget().add("dual variables", dual_nbytes(n_samples, n_problems)).include(Budget(cost.task))


def dual_nbytes(n_samples: int, n_problems: int) -> int:
    """Return the bytes of the vectors over the rows that every task receives, and of a copy of the dual variables."""
    return (8 + 16 * n_problems) * n_samples


class Reads(NamedTuple):
    """Decoded bytes; if products are made from codes, the codes' bytes.

    A value costs its whole tile; columns of a group are assumed as far apart as possible.
    """

    a_pass: int
    """All columns, by the tasks that score them."""
    first_group: int
    """The columns of a group if none of their values were kept."""
    later_group: int
    """The columns of a group if as many values were kept as possible."""
    included: int = 0
    """The columns that are always included."""


def reads_of(shape: DataShape, sizes: Sizes, cut: Cut) -> Reads:
    """Return the number of bytes that tasks decode.

    If a block ends within a tile, the next block decodes the tile again. This happens only if the sums of one tile's
    columns do not fit in the limit.
    """
    m, tile_columns = shape.n_features, 1 if shape.tile_shape is None else shape.tile_shape[1]
    if shape.has_products:  # two bits per value, and only the columns that are used
        of_column = -(-(shape.n_stored or shape.n_samples) // 4)
        counts = m, sizes.columns_per_pass, sizes.columns_per_pass, sizes.included_columns
        return Reads(*(n_columns * of_column for n_columns in counts))
    starts = np.arange(0, m, cut.width)
    stops = np.minimum(starts + cut.width, m)
    n_in_pass = int((-(-stops // tile_columns) - starts // tile_columns).sum())

    def apart(n_columns: int) -> int:
        n_tiles = min(n_columns, -(-m // tile_columns))
        return (n_tiles + (n_columns - n_tiles) // cut.n_read) * shape.tile_column_nbytes

    later = apart(max(0, sizes.columns_per_pass - cut.n_foreseen))
    first = apart(sizes.columns_per_pass)
    return Reads(n_in_pass * shape.tile_column_nbytes, first, later, apart(sizes.included_columns))


def plan_fgm(
    shape: DataShape,
    sizes: Sizes,
    limits: Limits,
    solver: str,
    n_scored: int,
    n_problems: int = 1,
    refits: bool = False,
    n_trials: int = 0,
    groups: FeatureGroups | None = None,
    cost: MapCost | None = None,
    loss: str = "squared",
) -> SelectorPlan:
    """Return what FGM will read and hold in memory.

    Parameters
    ----------
    shape, sizes, limits : as in `cut_columns`
    solver : str
    n_scored : int
        Passes in which all columns are scored.
    n_problems : int
        As in `cut_columns`.
    refits : bool
        Whether there is a refit on the selected columns.
    n_trials : int
        Number of values of C that are tried, each with up to as many passes.
    groups : FeatureGroups, optional
        Columns that are selected together.
    cost : MapCost, optional
        Cost of the features that a map makes of the columns; `sizes` then count these.
    loss : str

    Raises
    ------
    PlanError
        The limit is too small. The error names the size that would fit.
    """
    n_samples = shape.n_samples
    scoring = scoring_of(cost, n_samples, n_problems)
    way: Way = "in place" if shape.has_products else "strips"
    cut = cut_columns(shape, sizes, limits, way, n_problems, scoring)
    reads = reads_of(shape, sizes, cut)
    n_rows = n_samples * n_problems
    column_nbytes, n_kept = n_samples * max(shape.itemsize, 4), n_kept_groups(n_rows, shape.itemsize)
    refit_nbytes = min(sizes.held_columns * column_nbytes, DEFAULT_BLOCK_NBYTES)
    refit_nbytes += REFIT_COPIES * 8 * min(n_samples * sizes.held_columns, REFIT_VALUES)
    client = (
        Budget()
        .add("selected columns", sizes.held_columns * column_nbytes)
        .add("columns always included, and a copy", 2 * 8 * sizes.included_columns * n_samples)
        .add("columns that groups may take", 2 * cut.n_foreseen * n_samples * shape.itemsize)
        .add("inner products of groups", 3 * min(n_kept, n_scored) * column_nbytes * n_problems)
        .add("Newton steps", mkl_nbytes(n_samples, sizes.held_columns) if solver != "apg" else 0)
        .add("selected columns, in the refit", refit_nbytes * refits)
        .add("vectors over the rows", n_rows * 160)
        .add("means, scales, scores and coefficients", shape.n_features * (64 + 8 * n_problems))
    )
    counted = f"{sizes.most:,} features"
    if groups is not None:
        client.add("groups and their scores", 16 * shape.n_features + 8 * len(groups.members) + 200 * groups.n_groups)
        counted = f"{sizes.most:,} of {groups.text}"
    if sizes.included_columns:
        counted += f" and {sizes.included_columns:,} columns that are always included"
    n_later = max(0, -(-sizes.most // sizes.per_pass) - 1) * (1 + n_trials)
    groups_nbytes = (1 + n_trials) * (reads.first_group + reads.included) + n_later * reads.later_group
    more_nbytes = n_later * (reads.first_group - reads.later_group)
    n_passes = n_scored * (1 + n_trials) + (not shape.has_statistics)
    merged = max(0, n_scored - n_kept)
    in_client = _in_client(n_rows, sizes, n_scored, loss, refits, 1 + n_trials)
    fate = f"; the inner products of the oldest {merged} groups are merged" if merged else ""
    if cost is not None:
        client.add("what the feature map knows of the columns, and a copy that is sent", 2 * cost.sent_nbytes)
        n_reads = (n_scored * sizes.columns_per_pass) * (1 + n_trials)
        n_of_columns = 1 + (not shape.has_statistics)
        n_passes, n_values = n_scored * (1 + n_trials), shape.n_entries or n_samples * shape.n_features
        return SelectorPlan(
            n_tasks=n_passes * cost.n_tasks + n_of_columns * -(-shape.n_features // cut.width),
            n_passes=n_passes + n_of_columns,
            read_nbytes=n_passes * cost.read_nbytes
            + n_of_columns * reads.a_pass
            + 2 * n_reads * shape.tile_column_nbytes,
            task=max(cut.task, scoring, key=lambda budget: budget.nbytes),
            client=client,
            text=(
                f"fgm: up to {sizes.most:,} of {cost.text}; {sizes.per_pass} in each of up to {n_scored} passes"
                f"{'' if shape.has_statistics else ', one for statistics of the columns'}, and one for the scores of "
                f"the original columns{fate}"
            ),
            in_client=IN_CLIENT,
            work=Work({"entries paired": float(n_passes * n_values)}, in_client, method="fgm"),
        )
    share = reads.a_pass / max(1, shape.decoded_nbytes)
    again = f", which decode tiles {share:.3g} times because of the memory limit" if share > 1.0 else ""
    return SelectorPlan(
        n_tasks=n_passes * -(-shape.n_features // cut.width),
        n_passes=n_passes,
        read_nbytes=n_passes * reads.a_pass + groups_nbytes,
        task=cut.task,
        client=client,
        text=(
            f"fgm: up to {counted}, {sizes.per_pass} in each of up to {n_scored} passes over blocks of "
            f"{cut.width:,} columns{again}{'' if shape.has_statistics else ', and one for their statistics'}{fate}; "
            f"up to {more_nbytes / 2**20:,.0f} MiB more if groups take columns that were not kept"
        ),
        in_client=IN_CLIENT,
        work=_work(shape, reads, n_passes, groups_nbytes, n_problems, in_client),
    )


def _in_client(n_rows: int, sizes: Sizes, n_passes: int, loss: str, refits: bool, n_times: int) -> dict[str, float]:
    """Return the client's work: a problem after each pass, on the groups up to it, and the refit.

    The number of steps of a problem depends on the data; the time per value of a selected column assumes a typical
    number.
    """
    of = of_loss(loss)
    n_held = sum(min(sizes.most_columns, (k + 1) * sizes.columns_per_pass) for k in range(n_passes))
    n_held += sizes.included_columns * n_passes
    counts = {
        "fits": 1.0,
        f"rows of problems{of}": float(n_rows * n_passes * n_times),
        f"rows of problems beyond the cache{of}": float(max(0, n_rows - CACHED_ROWS) * n_passes * n_times),
        f"values selected{of}": float(n_rows * n_held * n_times),
    }
    return added(counts, of_newton(n_rows, sizes.held_columns, loss)) if refits else counts


def _work(
    shape: DataShape, reads: Reads, n_passes: int, groups_nbytes: int, n_problems: int, in_client: dict[str, float]
) -> Work:
    """Return the work: tiles are scored, and those with columns of groups are read once more."""
    grid, of_column = shape.grid, max(1, shape.tile_column_nbytes)
    scored = float(n_passes * (shape.n_entries or shape.n_samples * shape.n_features) * n_problems)
    by_tasks = grid.of_tiles(n_passes * reads.a_pass / of_column * grid.n_down)
    by_tasks["values" if shape.n_entries is None else "entries"] = scored
    by_tasks["values read for groups"] = groups_nbytes / of_column * grid.n_down * grid.tile
    return Work(by_tasks, in_client, method="fgm")
