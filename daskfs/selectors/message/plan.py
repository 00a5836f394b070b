"""How MESSAGE cuts the rows into subsets and the subsets into tasks: integers in, integers out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral

from daskfs.errors import ConfigError
from daskfs.kernels.glm import path as glm_path
from daskfs.kernels.glm.fit import glm_fit_nbytes
from daskfs.kernels.glm.lsa import lsa_path_nbytes
from daskfs.kernels.glm.softmax import softmax_nbytes
from daskfs.kernels.lasso.least_squares import least_squares_nbytes
from daskfs.kernels.lasso.path import default_max_features, path_nbytes
from daskfs.selectors.shared.budget import Budget, SelectorPlan

GROUP_NBYTES = 128 << 20  # of rows read by one task, where the memory allows and subsets are smaller
CACHE_NBYTES = 20 << 10  # what a subset's path leaves behind for the refit: half of 64 x 64 numbers, and a few vectors
TILE_NBYTES = 8 << 20  # a decoded and an encoded tile of the reader
MIN_SUBSET_SIZE = 400
MIN_SUBSETS = 5  # for a vote, where the rows suffice
SUBSET_VALUES = 1 << 23  # 32 MiB of float32


def choose_n_subsets(
    n_samples: int, n_features: int, n_subsets: int | None, subset_size: int | None, n_values: int | None = None
) -> int:
    """Return the number of subsets m.

    By default five, or more so that a subset has at most 2²³ values (32 MiB of float32), or fewer so that it has at
    least ``max(400, n_features // 5)`` rows; an odd number, so that no vote is tied. On real tables, with their many
    weak signals, few large subsets predict better.

    Parameters
    ----------
    n_samples, n_features : int
    n_subsets, subset_size : int or None
        What the user asked for, at most one of them.
    n_values : int, optional
        Entries of sparse rows; all values by default.

    Raises
    ------
    ConfigError
        Both given, or subsets of less than two rows.

    Examples
    --------
    >>> choose_n_subsets(10_000, 1000, None, None)
    5
    >>> choose_n_subsets(2_000_000, 74, None, None)
    19
    >>> choose_n_subsets(10_000, 1000, None, 500)
    20
    """
    if n_subsets is not None and subset_size is not None:
        raise ConfigError("expected n_subsets or subset_size, found both", "message", "leave one out")
    if n_subsets is None and subset_size is None:
        wanted = _wanted_subsets(n_samples * n_features if n_values is None else n_values)
        return min(wanted, _most_subsets(n_samples, n_features))
    name, asked = ("n_subsets", n_subsets) if subset_size is None else ("subset_size", subset_size)
    least = 1 if name == "n_subsets" else 2
    if not is_whole(asked, least):
        raise ConfigError(f"expected a whole number of at least {least}, found {asked!r}", name)
    n_subsets = int(asked) if name == "n_subsets" else max(1, n_samples // int(asked))  # type: ignore[arg-type]
    if n_samples < 2 * n_subsets:
        raise ConfigError(
            f"expected at least two rows per subset, found {n_samples} rows for {n_subsets} subsets",
            name,
            f"set n_subsets to at most {n_samples // 2}" if n_samples > 1 else "give more rows",
        )
    return n_subsets


def _wanted_subsets(n_values: int) -> int:
    return max(MIN_SUBSETS, -(-n_values // SUBSET_VALUES)) | 1


def _most_subsets(n_samples: int, n_features: int) -> int:
    most = max(1, n_samples // max(MIN_SUBSET_SIZE, n_features // 5))
    return most - (most % 2 == 0)


def why_n_subsets(n_samples: int, n_features: int, n_values: int | None = None) -> str:
    """Return in words how many subsets `choose_n_subsets` chooses by default, and why.

    Examples
    --------
    >>> why_n_subsets(2_000_000, 74)
    '19 subsets of 105,264 rows were chosen: subsets of at most 8,388,608 values, for the memory of a task'
    """
    n_values = n_samples * n_features if n_values is None else n_values
    n_subsets = choose_n_subsets(n_samples, n_features, None, None, n_values)
    chosen = f"{n_subsets} subsets of {-(-n_samples // n_subsets):,} rows were chosen"
    if n_subsets == 1:
        chosen = f"one subset of all {n_samples:,} rows was chosen"
    if _most_subsets(n_samples, n_features) < _wanted_subsets(n_values):
        least = max(MIN_SUBSET_SIZE, n_features // 5)
        return f"{chosen}: a subset takes at least {least:,} rows to choose among {n_features:,} features"
    if n_subsets > MIN_SUBSETS:
        return f"{chosen}: subsets of at most {SUBSET_VALUES:,} values, for the memory of a task"
    return f"{chosen}: enough for a vote, and large subsets find weak signals"


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number of at least `least`; True is no number."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def subset_start(i: int, n_samples: int, n_subsets: int) -> int:
    """Return the first row of subset i; subset i ends where subset i + 1 starts."""
    return i * n_samples // n_subsets


@dataclass(frozen=True, slots=True)
class Shape:
    """What a plan needs to know: of the matrix, and of the way it is selected on."""

    n_samples: int
    n_features: int
    itemsize: int
    n_subsets: int
    n_lambdas: int = 100
    max_features: int | None = None
    loss: str = "squared"
    is_strided: bool = False
    is_approximate: bool = False
    n_classes: int = 2
    n_entries: int | None = None
    """Of the largest subset, where subsets are read as their entries."""

    @property
    def largest_subset(self) -> int:
        """Rows."""
        return -(-self.n_samples // self.n_subsets)

    def select(self, n_subsets: int) -> Budget:
        """Return the memory of a task that selects on so many subsets."""
        rows, task = self.largest_subset, Budget()
        if self.n_entries is not None:
            task.add("entries of the subsets", n_subsets * (rows * 32 + self.n_entries * (self.itemsize + 8)))
            task.add("entries of one by columns", self.n_entries * (self.itemsize + 20))  # and on the way there
            return task.add("its path", self._path_nbytes(rows))
        task.add("rows of the subsets", n_subsets * rows * (self.n_features * self.itemsize + 24))
        task.add("rows of one as float32", rows * self.n_features * 4 if self.itemsize < 4 else 0)
        return task.add("its path", self._path_nbytes(rows)).add("tiles", TILE_NBYTES)

    def select_nbytes(self, n_subsets: int) -> int:
        """Return the bytes of `select`."""
        return self.select(n_subsets).nbytes

    def _path_nbytes(self, rows: int) -> int:
        p = self.n_features
        if self.loss == "squared":
            return path_nbytes(rows, p, self.n_lambdas, min(p, self.max_features or default_max_features(rows, p)))
        if self.is_approximate:
            return lsa_path_nbytes(rows, p, self.n_lambdas)
        k = self.max_features or glm_path.default_max_features(rows, p)
        return glm_path.glm_path_nbytes(rows, p, self.n_lambdas, min(p, k))

    def refit_nbytes(self, n_subsets: int, n_selected: int) -> int:
        """Return the memory of a task that refits so many columns on so many subsets."""
        rows = self.largest_subset
        read = n_subsets * rows * (n_selected * max(self.itemsize, 4) + 24)
        if self.loss == "multinomial":
            return read + softmax_nbytes(rows, n_selected, self.n_classes) + TILE_NBYTES
        fit_nbytes = least_squares_nbytes if self.loss == "squared" else glm_fit_nbytes
        return read + fit_nbytes(rows, n_selected) + TILE_NBYTES


def subsets_per_task(n_subsets: int, nbytes_of: Callable[[int], int], memory_limit: int | None, n_threads: int) -> int:
    """Return how many subsets one task reads: all threads busy, tasks of about 128 MiB, within the limit.

    Parameters
    ----------
    n_subsets : int
    nbytes_of : callable
        Memory of a task of so many subsets; grows by the same for each.
    memory_limit : int or None
        Bytes that one task may take.
    n_threads : int
        Tasks that run at once on all workers.
    """
    one, two = nbytes_of(1), nbytes_of(2)
    subset_nbytes = max(1, two - one)
    wanted = min(max(1, GROUP_NBYTES // subset_nbytes), -(-n_subsets // n_threads))
    if memory_limit is not None:
        wanted = min(wanted, 1 + (memory_limit - one) // subset_nbytes)
    return max(1, wanted)


def plan_message(shape: Shape, memory_limit: int | None, n_threads: int, tile_rows: int = 1) -> SelectorPlan:
    """Return what MESSAGE will read and hold.

    Parameters
    ----------
    shape : Shape
    memory_limit : int or None
        Bytes that one task may take.
    n_threads : int
        Tasks that run at once on all workers.
    tile_rows : int
        Rows of the store's tiles: a task reads whole ones.

    Raises
    ------
    PlanError
        One subset does not fit in the limit; with the sizes that would.
    """
    if memory_limit is not None and shape.select_nbytes(1) > memory_limit:
        what = f"one subset of {shape.largest_subset:,} rows x {shape.n_features:,} columns takes"
        shape.select(1).refuse_over(memory_limit, what, _smaller_subsets(shape, memory_limit))
    per_task = subsets_per_task(shape.n_subsets, shape.select_nbytes, memory_limit, n_threads)
    n_tasks = -(-shape.n_subsets // per_task)
    n_read = shape.n_samples + (tile_rows - 1) * (n_tasks - 1)
    if shape.is_strided and tile_rows > 1:  # a task's rows are in all tiles
        n_read = shape.n_samples * n_tasks
    read_nbytes = n_read * shape.n_features * shape.itemsize
    again = "the selected ones again where a subset's path has not met them"
    if shape.loss != "squared":
        again = "two over the selected ones, or four where weak features are looked at again"
    return SelectorPlan(
        n_tasks=n_tasks,
        n_passes=1,
        read_nbytes=read_nbytes,
        task=shape.select(per_task),
        client=Budget()
        .add("vectors over the rows", shape.n_samples * 24)
        .add("votes and scores", shape.n_features * 64)
        .add("what the paths leave for the refit", shape.n_subsets * CACHE_NBYTES),
        text=(
            f"message: {shape.n_subsets} subsets of {shape.largest_subset:,} rows, {per_task} per task; "
            f"one pass over all columns, {again}"
        ),
    )


def _smaller_subsets(shape: Shape, memory_limit: int) -> str:
    n_subsets = shape.n_subsets
    while n_subsets < shape.n_samples // 20:
        n_subsets = min(max(n_subsets + 1, n_subsets * 5 // 4), shape.n_samples // 20)
        smaller = replace(shape, n_subsets=n_subsets)
        if smaller.select_nbytes(1) <= memory_limit:
            return f"set n_subsets={n_subsets} (subsets of {smaller.largest_subset:,} rows)"
    return ""
