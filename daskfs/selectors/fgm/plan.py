"""How FGM cuts the columns into tasks and what it holds: integers in, integers out."""

from __future__ import annotations

from dataclasses import dataclass

from daskfs.kernels.fgm.mkl import mkl_nbytes
from daskfs.kernels.fgm.scores import GRANULE
from daskfs.selectors.shared.budget import Budget, SelectorPlan

TASK_NBYTES = 64 << 20  # of columns that one task reads: hides Dask's cost of a task
BUFFER_NBYTES = 12 << 20  # of a piece of rows
N_BUFFERS = 3  # pieces alive at once: one is scored, one is ready, one is read
TILE_NBYTES = 8 << 20  # a decoded and an encoded tile of the reader
KEPT_NBYTES = 512 << 20  # of inner products of groups; the oldest groups are merged beyond it
MAX_PASSES = 20
DEFAULT_PER_PASS = 10


@dataclass(frozen=True, slots=True)
class FgmShape:
    """What a plan needs to know."""

    n_samples: int
    n_features: int
    itemsize: int
    n_per_pass: int
    """The paper's B."""
    n_most: int
    """Features that may be selected."""
    n_passes: int
    """The paper's T."""
    solver: str = "apg"

    @property
    def n_kept(self) -> int:
        """Groups whose inner products are kept; depends on the rows alone, so that the bits do not depend on memory."""
        return KEPT_NBYTES // (3 * self.n_samples * max(self.itemsize, 4))

    @property
    def client(self) -> Budget:
        """Of the client process."""
        column_nbytes = self.n_samples * max(self.itemsize, 4)
        return (
            Budget()
            .add("selected columns", self.n_most * column_nbytes)
            .add("inner products of groups", 3 * min(self.n_kept, self.n_passes) * column_nbytes)
            .add("Newton steps", mkl_nbytes(self.n_samples, self.n_most) if self.solver != "apg" else 0)
            .add("vectors over the rows", self.n_samples * 160)
            .add("means, scales and scores", self.n_features * 64)
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """How the columns are cut."""

    width: int
    """Columns that one task scores."""
    piece_rows: int
    """Rows of them that it reads at a time."""
    n_read: int
    """Columns that one task reads for the cache."""
    task: Budget


def cut_columns(
    shape: FgmShape, memory_limit: int | None, n_threads: int, tile_shape: tuple[int, int], is_in_memory: bool = False
) -> Cut:
    """Return blocks of whole tiles, three pieces of which fit in the limit beside the vectors over the rows.

    Parameters
    ----------
    shape : FgmShape
    memory_limit : int or None
        Bytes that one task may take.
    n_threads : int
        Tasks that run at once.
    tile_shape : tuple of int
        Of the store.
    is_in_memory : bool
        Whether columns are scored where they lie.

    Raises
    ------
    PlanError
        The limit is too small; with the size that would fit.
    """
    n, m, itemsize = shape.n_samples, shape.n_features, shape.itemsize
    tile_columns = max(1, min(tile_shape[1], m))
    fixed = Budget().add("tiles", TILE_NBYTES).add("the dual variables", 24 * n)
    fixed.add("scores", 64 * (shape.n_most + shape.n_per_pass))
    least = fixed + Budget({"a piece of one column": N_BUFFERS * GRANULE * itemsize, "one column": 2 * n * itemsize})
    least.refuse_over(memory_limit, f"one column of {n:,} rows and the dual variables take")
    room = BUFFER_NBYTES if memory_limit is None else min(BUFFER_NBYTES, (memory_limit - fixed.nbytes) // N_BUFFERS)
    widest = max(1, room // (GRANULE * itemsize + 24))
    if memory_limit is not None:  # the sums of many columns must leave room to read one for the cache
        widest = min(widest, max(1, (memory_limit - fixed.nbytes - 2 * n * itemsize) // 40))
    wanted = max(tile_columns, TASK_NBYTES // max(1, n * itemsize), -(-m // 4096))
    if is_in_memory:
        wanted = m
    wanted = min(wanted, -(-m // (2 * n_threads)) if n_threads > 1 else m, m)
    wanted = min(-(-wanted // tile_columns) * tile_columns, m)
    width = wanted if is_in_memory else max(1, min(wanted, widest - widest % tile_columns or widest))
    piece = max(GRANULE, room // (width * itemsize + 24))
    tile_rows = tile_shape[0] if piece >= tile_shape[0] and tile_shape[0] % GRANULE == 0 else GRANULE
    piece = min(piece - piece % tile_rows, -(-n // GRANULE) * GRANULE)
    n_read = max(1, min(shape.n_per_pass, room // (n * itemsize)))
    score = 0 if is_in_memory else N_BUFFERS * min(piece, n) * width * itemsize
    task = fixed + Budget({"sums of the columns": 40 * width})
    task.add_largest(pieces_of_columns=score, columns_for_the_cache=2 * n * n_read * itemsize)
    return Cut(width, piece, n_read, task)


def plan_fgm(
    shape: FgmShape, memory_limit: int | None, n_threads: int, tile_shape: tuple[int, int] | None, with_statistics: bool
) -> SelectorPlan:
    """Return what FGM will read and hold.

    Raises
    ------
    PlanError
        The limit is too small; with the size that would fit.
    """
    cut = cut_columns(shape, memory_limit, n_threads, tile_shape or (1, shape.n_features))
    matrix_nbytes = shape.n_samples * shape.n_features * shape.itemsize
    n_passes = shape.n_passes + with_statistics
    merged = max(0, shape.n_passes - shape.n_kept)
    fate = f"; the inner products of the oldest {merged} groups are merged" if merged else ""
    return SelectorPlan(
        n_tasks=n_passes * -(-shape.n_features // cut.width),
        n_passes=n_passes,
        read_nbytes=n_passes * matrix_nbytes + shape.n_samples * shape.n_most * shape.itemsize,
        task=cut.task,
        client=shape.client,
        text=(
            f"fgm: up to {shape.n_most:,} features, {shape.n_per_pass} in each of up to {shape.n_passes} passes over "
            f"blocks of {cut.width:,} columns, {min(cut.piece_rows, shape.n_samples):,} rows at a time"
            f"{', and one pass for their statistics' if with_statistics else ''}{fate}"
        ),
    )
