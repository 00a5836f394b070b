"""How FGM cuts the columns into tasks and what it holds: integers in, integers out.

width = whole tiles
.------------.------------.------
|    tile    |            |            A task scores one block of columns, all rows of it, as its tiles pass by: each
|------------|------------|------      is decoded once. Columns that a group takes are read again, at most n_read of
|            |            |            a column of tiles in a task, and kept by the client. What is neither stored in
|------------|            |            tiles nor lies in memory row by row is read in pieces of piece_rows rows,
|    ...     |    ...     |            three alive: one is scored, one is ready, one is read.
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

TASK_NBYTES = 64 << 20  # of columns that one task reads: hides Dask's cost of a task
READ_NBYTES = 36 << 20  # of columns that one task reads for the client, and of their copy that travels
FORESEEN = 4  # times as many columns as a group takes: on Gaussian sets no group took others
BUFFER_NBYTES = 12 << 20  # of a piece of rows
SUMS_NBYTES = 48  # of the sums that a task keeps of a column
N_BUFFERS = 3  # pieces alive at once: one is scored, one is ready, one is read
KEPT_NBYTES = 512 << 20  # of inner products of groups; the oldest groups are merged beyond it
MAX_PASSES, PER_PASS = 20, 10  # by default
PASSES_TO_COUNT = 10  # in which an asked number of features is reached, by default
CACHED_ROWS = 200_000  # of the vectors over the rows that a problem goes through, about: more are fetched each time
REFIT_VALUES, REFIT_COPIES = 1 << 20, 3  # of the selected columns, in blocks of rows of the refit
IN_CLIENT = "the problems restricted to the groups taken so far, between passes"

Way: TypeAlias = Literal["strips", "in place", "pieces"]
"""How tasks come by the values of columns."""


@dataclass(frozen=True, slots=True)
class Units:
    """How many units there are to select from, and of how many columns; a unit is a column, or selected whole."""

    n_units: int
    most_columns: Callable[[int], int] = int
    """How many columns so many units have at most."""
    most_units: Callable[[int], int] = int
    """How many units so many columns can be at most."""
    included_columns: int = 0
    """Columns that are in the model whatever is selected, and are none to select from."""
    included_units: int = 0
    """Units that they are."""

    def without(self, n_columns: int, n_units: int) -> Units:
        """Return the units left to select from, where others with so many columns are always included."""
        return replace(self, n_units=self.n_units - n_units, included_columns=n_columns, included_units=n_units)


class Sizes(NamedTuple):
    """How many units, and in how many passes."""

    per_pass: int
    """The paper's B."""
    most: int
    """Units that may be selected."""
    n_passes: int
    """The paper's T, at most."""
    columns_per_pass: int
    """Columns that B units have at most."""
    most_columns: int
    """Columns that may be selected."""
    included_columns: int = 0
    """Columns that are in the model whatever is selected, beside those."""

    @property
    def held_columns(self) -> int:
        """Columns that are held at last."""
        return self.most_columns + self.included_columns


def choose_sizes(
    wanted: int | None, per_pass: int | None, max_passes: int | None, units: Units, counts_columns: bool = False
) -> Sizes:
    """Return the sizes that the parameters of FGM ask for, of what is selected beside the columns always included.

    Parameters
    ----------
    wanted, per_pass, max_passes : int or None
        `n_features_to_select`, `n_features_per_pass` and `max_passes`.
    units : Units
        Of the matrix.
    counts_columns : bool
        Whether so many columns are wanted, and not units.

    Raises
    ------
    ConfigError
        So many passes are too few for so many features, or more are always included than are wanted.
    """
    included = units.included_columns
    if wanted is None:
        per_pass, n_passes = max(1, min(per_pass or PER_PASS, units.n_units)), max_passes or MAX_PASSES
        most = min(per_pass * n_passes, units.n_units)
        return Sizes(per_pass, most, n_passes, units.most_columns(per_pass), units.most_columns(most), included)
    counted = included if counts_columns else units.included_units
    if counted > wanted:
        problem = f"expected at most {wanted} of what n_features_to_select counts, found {counted}"
        raise ConfigError(problem, "always_include", "raise n_features_to_select")
    wanted -= counted
    most = max(min(wanted, 1), units.most_units(wanted)) if counts_columns else wanted
    least = max(1, -(-most // (max_passes or PASSES_TO_COUNT)))
    if per_pass is not None and max_passes is not None and per_pass < least:
        raise ConfigError(
            f"{wanted:,} features do not come in {max_passes} passes of {per_pass}",
            "n_features_per_pass",
            f"set it to at least {least}, or allow more max_passes",
        )
    per_pass = max(1, min(per_pass or least, units.n_units))
    n_passes, most_columns = max_passes or 2 * -(-most // per_pass), units.most_columns(most)
    most_columns = min(most_columns, wanted) if counts_columns else most_columns
    return Sizes(per_pass, most, n_passes, min(units.most_columns(per_pass), most_columns), most_columns, included)


def n_kept_groups(n_rows: int, itemsize: int) -> int:
    """Return how many groups' inner products are kept; of the rows alone, so that memory does not change a bit.

    Of several classes the rows count once for each.
    """
    return KEPT_NBYTES // (3 * n_rows * max(itemsize, 4))


@dataclass(frozen=True, slots=True)
class Cut:
    """How the columns are cut."""

    width: int
    """Columns that one task scores."""
    piece_rows: int
    """Rows of them that it reads at a time, where it reads pieces."""
    n_read: int
    """Columns that one task reads for the client to keep."""
    n_foreseen: int
    """Columns that tasks keep while they score, for the next group may take them."""
    task: Budget


def cut_columns(
    shape: DataShape,
    sizes: Sizes,
    limits: Limits,
    way: Way = "strips",
    n_problems: int = 1,
    scoring: Budget | None = None,
) -> Cut:
    """Return blocks of whole tiles whose sums fit in the limit beside the vectors over the rows.

    Parameters
    ----------
    shape : DataShape
    sizes : Sizes
    limits : Limits
    way : {"strips", "in place", "pieces"}
        How tasks come by the values: tile by tile, as they lie in memory, or read in pieces, three of which fit too.
    n_problems : int
        Dual variables of each row: with several classes one for each.
    scoring : Budget, optional
        What a feature map takes to score its columns; it has to fit as well.

    Raises
    ------
    PlanError
        The limit is too small; with the size that would fit.
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
    """Return what a task takes to score the columns of a feature map; nothing where there is none."""
    if cost is None:
        return Budget()
    return Budget().add("dual variables", dual_nbytes(n_samples, n_problems)).include(Budget(cost.task))


def dual_nbytes(n_samples: int, n_problems: int) -> int:
    """Return the bytes of the vectors over the rows that every task is sent, and of a copy of the dual variables."""
    return (8 + 16 * n_problems) * n_samples


class Reads(NamedTuple):
    """Decoded bytes: of a tile whole, whatever is wanted of it. Columns of a group lie as far apart as they can."""

    a_pass: int
    """Of all columns, by the tasks that score them."""
    first_group: int
    """Of the columns of a group of which none could be foreseen."""
    later_group: int
    """Of the columns of a group of which as many were foreseen as are kept."""
    included: int = 0
    """Of the columns that are always included."""


def reads_of(shape: DataShape, sizes: Sizes, cut: Cut) -> Reads:
    """Return what tasks decode.

    A block that ends within a tile has it decoded again by the next one: so where not even the sums of the columns of
    a tile fit in the limit.
    """
    m, tile_columns = shape.n_features, 1 if shape.tile_shape is None else shape.tile_shape[1]
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
    """Return what FGM will read and hold.

    Parameters
    ----------
    shape, sizes, limits : as in `cut_columns`
    solver : str
    n_scored : int
        Passes in which all columns are scored.
    n_problems : int
        As in `cut_columns`.
    refits : bool
        Whether the selected columns are fitted once more, alone.
    n_trials : int
        How often as many passes are made at most to choose C.
    groups : FeatureGroups, optional
        Of columns that are selected together.
    cost : MapCost, optional
        Of the features that a map makes of the columns; `sizes` are then of these.
    loss : str

    Raises
    ------
    PlanError
        The limit is too small; with the size that would fit.
    """
    n_samples = shape.n_samples
    scoring = scoring_of(cost, n_samples, n_problems)
    cut = cut_columns(shape, sizes, limits, n_problems=n_problems, scoring=scoring)
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
        counted += f" beside {sizes.included_columns:,} columns that are always included"
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
                f"{'' if shape.has_statistics else ', one for statistics of the columns'}, and one for the scores that "
                f"the columns have alone{fate}"
            ),
            in_client=IN_CLIENT,
            work=Work({"entries paired": float(n_passes * n_values)}, in_client, method="fgm"),
        )
    share = reads.a_pass / max(1, shape.decoded_nbytes)
    again = f", which decode tiles {share:.3g} times, for so the limit has it" if share > 1.0 else ""
    return SelectorPlan(
        n_tasks=n_passes * -(-shape.n_features // cut.width),
        n_passes=n_passes,
        read_nbytes=n_passes * reads.a_pass + groups_nbytes,
        task=cut.task,
        client=client,
        text=(
            f"fgm: up to {counted}, {sizes.per_pass} in each of up to {n_scored} passes over blocks of "
            f"{cut.width:,} columns{again}{'' if shape.has_statistics else ', and one for their statistics'}{fate}; "
            f"up to {more_nbytes / 2**20:,.0f} MiB more where groups take columns that were not foreseen"
        ),
        in_client=IN_CLIENT,
        work=_work(shape, reads, n_passes, groups_nbytes, n_problems, in_client),
    )


def _in_client(n_rows: int, sizes: Sizes, n_passes: int, loss: str, refits: bool, n_times: int) -> dict[str, float]:
    """Return what the client computes: a problem after each pass, of the groups up to it, and the refit.

    How many steps a problem takes depends on the data: the time of one value of a selected column is of the usual few.
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
    """Return what is computed: tiles pass by; those that hold columns of groups are read once more."""
    grid, of_column = shape.grid, max(1, shape.tile_column_nbytes)
    scored = float(n_passes * (shape.n_entries or shape.n_samples * shape.n_features) * n_problems)
    by_tasks = grid.of_tiles(n_passes * reads.a_pass / of_column * grid.n_down)
    by_tasks["values" if shape.n_entries is None else "entries"] = scored
    by_tasks["values read for groups"] = groups_nbytes / of_column * grid.n_down * grid.tile
    return Work(by_tasks, in_client, method="fgm")
