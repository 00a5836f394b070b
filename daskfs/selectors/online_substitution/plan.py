"""What online substitution reads and holds: integers in, integers out."""

from __future__ import annotations

from dataclasses import dataclass

from daskfs.errors import PlanError
from daskfs.kernels.substitution.products import BAND_ROWS
from daskfs.selectors.base import SelectorPlan

TILE_NBYTES = 8 << 20  # a decoded and an encoded tile of the reader
READ_NBYTES = 8 << 20  # read at once where columns are short: a read has its price
COPY_NBYTES = 2 << 20  # of columns in memory, which are copied into a block
MAX_READ_NBYTES = 128 << 20
VECTORS = 10  # of n_samples float64: target, weights, prediction, derivatives and what a step needs
REFIT_NBYTES = 3 * 8 << 20  # blocks of rows of the refit


@dataclass(frozen=True, slots=True)
class SubstitutionShape:
    """What a plan needs to know."""

    n_samples: int
    n_features: int
    n_selected: int
    itemsize: int
    """Of the columns as they are held."""
    stored_itemsize: int
    chapter: int
    tile_columns: int
    """Columns of a tile; 1 where there are no tiles."""
    n_epochs: int
    n_screened: int = 0
    """Columns that one round of screening looks at; 0: none."""

    @property
    def column_nbytes(self) -> int:
        """Of one column in memory."""
        return self.n_samples * self.itemsize

    def fixed_nbytes(self, n_selected: int) -> int:
        """Return what is held beside the blocks that are read: members, products, vectors, candidates, the refit."""
        s, b = n_selected, self.chapter
        members = s * self.column_nbytes
        products = 3 * s * s * 8 + 6 * b * s * 8 + 2 * b * b * 8 + 2 * (s + b + 8) * BAND_ROWS * 8
        refit = min(members, MAX_READ_NBYTES) + REFIT_NBYTES
        vectors = VECTORS * 8 * self.n_samples + self.n_screened // 2 * self.column_nbytes
        return members + products + vectors + max(refit, b * self.n_samples) + TILE_NBYTES

    def read_nbytes(self, width: int, prefetch: int) -> int:
        """Return what blocks of so many columns take."""
        converted = 0 if self.itemsize == self.stored_itemsize else width * self.n_samples * self.stored_itemsize
        return (1 + prefetch) * width * self.column_nbytes + converted


@dataclass(frozen=True, slots=True)
class Reading:
    """How columns are read."""

    width: int
    """Columns read at once, a multiple of the chapter."""
    prefetch: int
    nbytes: int
    """Peak memory of the whole selection, beside the process itself."""


def choose_reading(shape: SubstitutionShape, memory_limit: int | None) -> Reading:
    """Return how wide blocks are read: whole tiles where the memory allows, else the least.

    Raises
    ------
    PlanError
        Not even one chapter fits in the limit; with the number of features that would.
    """
    chapter_nbytes = max(1, shape.chapter * shape.column_nbytes)
    least_nbytes = READ_NBYTES if shape.tile_columns > 1 else COPY_NBYTES
    wanted = max(-(-shape.tile_columns // shape.chapter), least_nbytes // chapter_nbytes, 1)
    if memory_limit is None:
        wanted = min(wanted, max(1, MAX_READ_NBYTES // chapter_nbytes))
    wanted = min(wanted, -(-shape.n_features // shape.chapter))
    fixed = shape.fixed_nbytes(shape.n_selected)
    narrower = [wanted >> k for k in range(1, wanted.bit_length())]
    for n_chapters, prefetch in [(n, ahead) for n in (wanted, *narrower) for ahead in (1, 0)]:
        width = n_chapters * shape.chapter
        needed = fixed + shape.read_nbytes(width, prefetch)
        if memory_limit is None or needed <= memory_limit:
            return Reading(width, prefetch, needed)
    raise _too_small(shape, memory_limit or 0, fixed + shape.read_nbytes(shape.chapter, 0))


def _too_small(shape: SubstitutionShape, limit: int, needed: int) -> PlanError:
    fits = shape.n_selected
    while fits > 0 and shape.fixed_nbytes(fits) + shape.read_nbytes(shape.chapter, 0) > limit:
        fits = fits - 1 if fits < 64 else fits * 63 // 64
    smaller = f", or select at most {fits} features" if fits else ", or set block_columns lower"
    fault = PlanError(
        f"{shape.n_selected:,} columns of {shape.n_samples:,} values and blocks of {shape.chapter} take "
        f"{needed:,} bytes, the limit is {limit:,} bytes",
        "memory_limit",
        f"allow at least {needed:,} bytes{smaller}",
    )
    fault.needed_nbytes = needed
    return fault


def plan_substitution(shape: SubstitutionShape, memory_limit: int | None, n_threads: int = 1) -> SelectorPlan:
    """Return what online substitution will read and hold.

    Raises
    ------
    PlanError
        It does not fit in the limit.
    """
    reading = choose_reading(shape, memory_limit)
    n_reads = -(-shape.n_features // reading.width) * shape.n_epochs
    pass_nbytes = shape.n_samples * shape.n_features * shape.stored_itemsize
    how = f"blocks of {reading.width} columns, {'the next one read ahead' if reading.prefetch else 'one at a time'}"
    task_nbytes, client_nbytes, n_tasks = reading.nbytes, 0, n_reads
    if shape.n_screened:
        task_nbytes = shape.read_nbytes(shape.chapter, 0) + 4 * 8 * shape.n_samples + TILE_NBYTES
        client_nbytes = reading.nbytes
        n_tasks = -(-shape.n_features // shape.chapter) * shape.n_epochs
        how = f"tasks of {shape.chapter} columns in rounds of {shape.n_screened}"
    return SelectorPlan(
        n_tasks=n_tasks,
        n_passes=shape.n_epochs,
        task_nbytes=task_nbytes,
        read_nbytes=pass_nbytes * shape.n_epochs,
        client_nbytes=client_nbytes,
        text=(
            f"online_substitution: {shape.n_selected} columns held, {shape.n_selected * shape.column_nbytes:,} bytes; "
            f"up to {shape.n_epochs} passes over all columns in {how}"
        ),
    )
