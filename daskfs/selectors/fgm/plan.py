"""How FGM cuts the columns into tasks and what it holds: integers in, integers out.

width = whole tiles
.------------.------------.------
| piece_rows |            |            A task scores one block of columns, all rows of it. It reads pieces
|------------|------------|------      of piece_rows rows, three alive: one is scored, one is ready, one
n rows | piece_rows |            |            is read. Columns that a group takes are read again, at most n_read
|------------|            |            of a block of tiles in a task, and kept by the client.
|    ...     |    ...     |
'------------'------------'------
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from daskfs.errors import ConfigError
from daskfs.kernels.fgm.mkl import mkl_nbytes
from daskfs.kernels.fgm.scores import GRANULE
from daskfs.selectors.shared.budget import TILES_NBYTES, Budget, DataShape, Limits, SelectorPlan

TASK_NBYTES = 64 << 20  # of columns that one task reads: hides Dask's cost of a task
BUFFER_NBYTES = 12 << 20  # of a piece of rows
SUMS_NBYTES = 48  # of the sums that a task keeps of a column
N_BUFFERS = 3  # pieces alive at once: one is scored, one is ready, one is read
KEPT_NBYTES = 512 << 20  # of inner products of groups; the oldest groups are merged beyond it
MAX_PASSES, PER_PASS = 20, 10  # by default
PASSES_TO_COUNT = 10  # in which an asked number of features is reached, by default


class Sizes(NamedTuple):
    """How many features, and in how many passes."""

    per_pass: int
    """The paper's B."""
    most: int
    """Features that may be selected."""
    n_passes: int
    """The paper's T, at most."""


def choose_sizes(wanted: int | None, per_pass: int | None, max_passes: int | None, n_features: int) -> Sizes:
    """Return the sizes that the parameters of FGM ask for.

    Parameters
    ----------
    wanted, per_pass, max_passes : int or None
        `n_features_to_select`, `n_features_per_pass` and `max_passes`.
    n_features : int
        Of the matrix.

    Raises
    ------
    ConfigError
        So many passes are too few for so many features.
    """
    if wanted is None:
        per_pass, n_passes = min(per_pass or PER_PASS, n_features), max_passes or MAX_PASSES
        return Sizes(per_pass, min(per_pass * n_passes, n_features), n_passes)
    least = max(1, -(-wanted // (max_passes or PASSES_TO_COUNT)))
    if per_pass is not None and max_passes is not None and per_pass < least:
        raise ConfigError(
            f"{wanted:,} features do not come in {max_passes} passes of {per_pass}",
            "n_features_per_pass",
            f"set it to at least {least}, or allow more max_passes",
        )
    per_pass = min(per_pass or least, n_features)
    return Sizes(per_pass, wanted, max_passes or 2 * -(-wanted // per_pass))


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
    """Rows of them that it reads at a time."""
    n_read: int
    """Columns that one task reads for the client to keep."""
    task: Budget


def cut_columns(shape: DataShape, sizes: Sizes, limits: Limits, in_place: bool = False, n_problems: int = 1) -> Cut:
    """Return blocks of whole tiles, three pieces of which fit in the limit beside the vectors over the rows.

    Parameters
    ----------
    shape : DataShape
    sizes : Sizes
    limits : Limits
    in_place : bool
        Whether columns are scored as they lie in memory.
    n_problems : int
        Dual variables of each row: with several classes one for each.

    Raises
    ------
    PlanError
        The limit is too small; with the size that would fit.
    """
    n, m, itemsize, limit = shape.n_samples, shape.n_features, shape.itemsize, limits.task_nbytes
    tile_rows, tile_columns = shape.tile_shape or (1, m)
    tile_columns = max(1, min(tile_columns, m))
    fixed = Budget().add("tiles", TILES_NBYTES).add("dual variables", (8 + 16 * n_problems) * n)
    fixed.add("scores", 64 * (sizes.most + sizes.per_pass))
    sums_nbytes = SUMS_NBYTES * (1 + n_problems) // 2
    least = fixed + Budget({"pieces of one column": N_BUFFERS * GRANULE * itemsize, "one column": 2 * n * itemsize})
    least.refuse_over(limit, f"one column of {n:,} rows and the dual variables take")
    room = BUFFER_NBYTES if limit is None else min(BUFFER_NBYTES, (limit - fixed.nbytes) // N_BUFFERS)
    widest = max(1, room // (GRANULE * itemsize + 24))
    if limit is not None:  # the sums of many columns must leave room to read one that the client keeps
        widest = min(widest, max(1, (limit - fixed.nbytes - 2 * n * itemsize) // sums_nbytes))
    wanted = m if in_place else max(tile_columns, TASK_NBYTES // max(1, n * itemsize), -(-m // 4096))
    wanted = min(wanted, -(-m // (2 * limits.n_threads)) if limits.n_threads > 1 else m, m)
    wanted = min(-(-wanted // tile_columns) * tile_columns, m)
    width = wanted if in_place else max(1, min(wanted, widest - widest % tile_columns or widest))
    piece = max(GRANULE, room // (width * itemsize + 24))
    step = tile_rows if piece >= tile_rows and tile_rows % GRANULE == 0 else GRANULE
    piece = min(piece - piece % step, -(-n // GRANULE) * GRANULE)
    n_read = max(1, min(sizes.per_pass, room // (n * itemsize)))
    task = fixed + Budget({"sums of the columns": sums_nbytes * width})
    task.add_largest(
        pieces_of_columns=0 if in_place else N_BUFFERS * min(piece, n) * width * itemsize,
        columns_for_the_client=2 * n * n_read * itemsize,
    )
    return Cut(width, piece, n_read, task)


def plan_fgm(
    shape: DataShape,
    sizes: Sizes,
    limits: Limits,
    solver: str,
    n_scored: int,
    n_problems: int = 1,
    refits: bool = False,
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

    Raises
    ------
    PlanError
        The limit is too small; with the size that would fit.
    """
    cut, n_samples = cut_columns(shape, sizes, limits, n_problems=n_problems), shape.n_samples
    n_rows = n_samples * n_problems
    column_nbytes, n_kept = n_samples * max(shape.itemsize, 4), n_kept_groups(n_rows, shape.itemsize)
    client = (
        Budget()
        .add("selected columns", sizes.most * column_nbytes)
        .add("inner products of groups", 3 * min(n_kept, n_scored) * column_nbytes * n_problems)
        .add("Newton steps", mkl_nbytes(n_samples, sizes.most) if solver != "apg" else 0)
        .add("selected columns, in the refit", (8 + 2 * max(shape.itemsize, 4)) * n_samples * sizes.most * refits)
        .add("vectors over the rows", n_rows * 160)
        .add("means, scales, scores and coefficients", shape.n_features * (64 + 8 * n_problems))
    )
    n_passes = n_scored + 1  # one for means and standard deviations
    merged = max(0, n_scored - n_kept)
    fate = f"; the inner products of the oldest {merged} groups are merged" if merged else ""
    return SelectorPlan(
        n_tasks=n_passes * -(-shape.n_features // cut.width),
        n_passes=n_passes,
        read_nbytes=n_passes * shape.nbytes + n_samples * sizes.most * shape.itemsize,
        task=cut.task,
        client=client,
        text=(
            f"fgm: up to {sizes.most:,} features, {sizes.per_pass} in each of up to {n_scored} passes over blocks of "
            f"{cut.width:,} columns, {min(cut.piece_rows, n_samples):,} rows at a time, and one pass for their "
            f"statistics{fate}"
        ),
    )
