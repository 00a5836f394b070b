"""How MESSAGE cuts the rows into subsets (step 1), and assigns subsets to tasks that fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from daskfs.errors import ConfigError
from daskfs.kernels.blocks.column_entries import SPARSE
from daskfs.kernels.glm import path as glm_path
from daskfs.kernels.glm.fit import glm_fit_nbytes
from daskfs.kernels.glm.lsa import lsa_path_nbytes
from daskfs.kernels.glm.softmax import softmax_nbytes
from daskfs.kernels.group_lasso.path import default_max_columns, group_path_nbytes
from daskfs.kernels.lasso.path import default_max_features, gram_capacity, knot_capacity, path_nbytes
from daskfs.kernels.linear.correlations import correlations_nbytes
from daskfs.kernels.linear.gram_matrix import wants_whole_gram
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.selectors.message.choices import SelectionSettings
from daskfs.selectors.message.reweighted import EXPECTED_ROUNDS, reweighted_nbytes
from daskfs.selectors.message.screened import NEW_ROWS, PIECE_COLUMNS
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.rows import in_random_order
from daskfs.selectors.shared.work import Work, of_loss

GROUP_NBYTES = 128 << 20  # rows read by one task, if the memory allows and subsets are smaller
SMALL_NBYTES = 32 << 20  # smallest task whose overhead is small compared with its work
TASKS_PER_THREAD = 4  # so that workers finish together, and results arrive while they work
MIN_SUBSET_SIZE = 400
MIN_SUBSETS = 5  # for a vote, if there are enough rows
SUBSET_VALUES = 1 << 23  # 32 MiB of float32
EXPECTED_COLUMNS = 20  # selected columns assumed in the plan
EXPECTED_PASSES = 16  # of a path whose columns are screened
LEAST_NEAR = 2048  # columns near such a path, if memory allows
LEAST_MODEL = 64  # columns of its largest model if memory is short and the loss is not squared
MOST_IN_STEP = 32  # paths that share passes: more would save little
IN_STEP_NBYTES = 2 << 30  # of paths that share passes, if there is no limit


def check_subsets(n_subsets: int | None, subset_size: int | None) -> None:
    """Raise if both the number of subsets and their size are given."""
    if n_subsets is not None and subset_size is not None:
        raise ConfigError("expected n_subsets or subset_size, found both", "n_subsets", "leave one out")


def choose_n_subsets(
    n_samples: int,
    n_features: int,
    n_subsets: int | None,
    subset_size: int | None,
    n_values: int | None = None,
    least: int = MIN_SUBSETS,
) -> int:
    """Return the number of subsets m.

    By default five: more so that a subset has at most 2²³ values (32 MiB of float32), or fewer so that it has at least
    ``max(400, n_features // 5)`` rows. The number is odd, so that no vote is tied. On real tables, which have many weak
    signals, few large subsets predict better.

    Parameters
    ----------
    n_samples, n_features : int
    n_subsets, subset_size : int or None
        The user's parameters, at most one of them (`check_subsets`).
    n_values : int, optional
        Number of entries, if rows are sparse; by default that of all values.
    least : int
        Smallest number if there are enough rows: five for inference, one for prediction.

    Raises
    ------
    ConfigError
        A subset would have less than two rows.

    Examples
    --------
    >>> choose_n_subsets(10_000, 1000, None, None)
    5
    >>> choose_n_subsets(2_000_000, 74, None, None)
    19
    >>> choose_n_subsets(10_000, 1000, None, 500)
    20
    """
    name = "n_subsets"
    if subset_size is not None:
        name, n_subsets = "subset_size", max(1, n_samples // subset_size)
    elif n_subsets is None:
        wanted = _wanted_subsets(n_samples * n_features if n_values is None else n_values, least)
        return min(wanted, _most_subsets(n_samples, n_features))
    if n_samples < 2 * n_subsets:
        raise ConfigError(
            f"expected at least two rows per subset, found {n_samples} rows for {n_subsets} subsets",
            name,
            f"set n_subsets to at most {n_samples // 2}" if n_samples > 1 else "give more rows",
        )
    return n_subsets


def _wanted_subsets(n_values: int, least: int) -> int:
    return max(least, -(-n_values // SUBSET_VALUES)) | 1


def _most_subsets(n_samples: int, n_features: int) -> int:
    most = max(1, n_samples // max(MIN_SUBSET_SIZE, n_features // 5))
    return most - (most % 2 == 0)


def why_n_subsets(n_samples: int, n_features: int, n_values: int | None = None, least: int = MIN_SUBSETS) -> str:
    """Return a sentence: how many subsets `choose_n_subsets` chooses by default, and why.

    Examples
    --------
    >>> why_n_subsets(2_000_000, 74)
    '19 subsets of 105,264 rows were chosen: subsets of at most 8,388,608 values, for the memory of a task'
    """
    n_values = n_samples * n_features if n_values is None else n_values
    n_subsets = choose_n_subsets(n_samples, n_features, None, None, n_values, least)
    chosen = f"{n_subsets} subsets of {-(-n_samples // n_subsets):,} rows were chosen"
    if n_subsets == 1:
        chosen = f"one subset of all {n_samples:,} rows was chosen"
    if _most_subsets(n_samples, n_features) < _wanted_subsets(n_values, least):
        least = max(MIN_SUBSET_SIZE, n_features // 5)
        return f"{chosen}: a subset needs at least {least:,} rows to choose among {n_features:,} features"
    if n_subsets > least:
        return f"{chosen}: subsets of at most {SUBSET_VALUES:,} values, for the memory of a task"
    enough = "enough for a vote, and large subsets" if least == MIN_SUBSETS else "large subsets"
    return f"{chosen}: {enough} find weak signals"


@dataclass(frozen=True, slots=True)
class Subsets:
    """The rows of a matrix, cut into subsets that vote together, and the settings for selection."""

    data: DataShape
    settings: SelectionSettings
    partition: str = "random"
    n_entries: int | None = None
    """Number of entries of the largest subset, if subsets are read as sparse entries."""
    n_fits: int = 1
    """Number of fits on rows of one matrix that share passes over the codes if columns are screened."""

    @property
    def n_subsets(self) -> int:
        """Number of subsets: the paper's m."""
        return self.settings.n_subsets

    @property
    def n_rows(self) -> int:
        """Rows of the largest subset."""
        return -(-self.data.n_samples // self.n_subsets)

    @property
    def starts(self) -> np.ndarray:
        """The first row of every subset and, last, the number of rows, shape (n_subsets + 1,)."""
        return subset_starts(self.data.n_samples, self.n_subsets)

    @property
    def tile_rows(self) -> int:
        """Rows of a tile; a reader decodes them all to read one."""
        return self.data.tile_shape[0] if self.data.tile_shape else 1

    @property
    def n_always(self) -> int:
        """Number of columns that are in every model."""
        always, groups = self.settings.always, self.settings.groups
        return len(always) if groups is None else int(groups.sizes[list(always)].sum())

    def most_features(self, is_screened: bool) -> int:
        """Return the size of the largest model of the path of a squared loss, or of columns near a path."""
        most = default_max_features(self.n_rows, self.data.n_features, screened=is_screened) + self.n_always
        return min(self.data.n_features, self.settings.max_features or most)

    @property
    def most_columns(self) -> int:
        """Columns of the largest model that a subset may choose among groups."""
        n_rows, n_features = self.data.n_samples // self.n_subsets, self.data.n_features
        most = default_max_columns(n_rows, n_features, self.settings.n_candidates(n_features))
        return self.settings.max_features or most + self.n_always

    def select(self, n_subsets: int) -> Budget:
        """Return the memory of a task that selects on this many subsets."""
        n_rows, n_features, itemsize, task = self.n_rows, self.data.n_features, self.data.itemsize, Budget()
        if self.settings.most_near:
            return self._screen(n_subsets)
        if self.n_entries is not None:
            task.add("entries of the subsets", n_subsets * (n_rows * 32 + self.n_entries * (itemsize + 8)))
            task.add("entries of one by columns", self.n_entries * (itemsize + 20))  # and while they are transposed
            task.add("blocks of a sparse store", self.data.block_nbytes)
            return task.add("its path", self._path_nbytes())
        task.add("rows of the subsets", n_subsets * n_rows * (n_features * itemsize + 24))
        task.add("rows of one as float32", n_rows * n_features * 4 if itemsize < 4 else 0)
        if self.settings.record.is_quadratic:
            task.add("what paths leave for the refit", n_subsets * self.settings.cached_nbytes(n_features))
        return task.add("its path", self._path_nbytes()).add("tiles", self.data.tiles_nbytes)

    def select_nbytes(self, n_subsets: int) -> int:
        """Return the bytes of `select`."""
        return self.select(n_subsets).nbytes

    def _path_nbytes(self) -> int:
        n, p, how = self.n_rows, self.data.n_features, self.settings
        if how.groups is not None:
            k = how.max_features or default_max_columns(n, p, how.n_candidates(p)) + self.n_always
            return group_path_nbytes(n, p, how.groups.sizes, how.n_lambdas, k, self.n_entries)
        if how.record.is_quadratic:
            return path_nbytes(n, p, how.n_lambdas, self.most_features(is_screened=False), self.n_entries)
        if how.approx == "lsa":
            return lsa_path_nbytes(n, p, how.n_lambdas)
        k = how.max_features or glm_path.default_max_features(n, p) + self.n_always
        of_free = 16 * n * self.n_always  # copies, for the check that they are linearly independent
        return of_free + glm_path.glm_path_nbytes(n, p, how.n_lambdas, min(p, k), self.n_entries)

    def refit_nbytes(self, n_subsets: int, n_columns: int) -> int:
        """Return the memory of a task that refits this many columns on this many subsets."""
        n_rows, loss = self.n_rows, self.settings.record
        read = n_subsets * n_rows * (n_columns * max(self.data.itemsize, 4) + 24)
        if loss.has_classes:
            return read + softmax_nbytes(n_rows, n_columns, max(2, len(self.settings.classes))) + self.data.tiles_nbytes
        fit_nbytes = correlations_nbytes if loss.is_quadratic else glm_fit_nbytes
        return read + fit_nbytes(n_rows, n_columns) + self.data.tiles_nbytes

    # of matrices with products of columns, such as genotypes: only columns that come near a path are decoded

    @property
    def can_screen(self) -> bool:
        """Whether paths can do without most columns: products come from codes, and each column is a candidate."""
        how = self.settings
        return self.data.has_products and how.groups is None and how.estimator is None and how.approx is None

    @property
    def n_paths(self) -> int:
        """Number of paths of each subset: of several classes, one for each against the others."""
        n_classes = len(self.settings.classes) or self.data.n_classes
        return max(1, n_classes) if self.settings.record.has_classes else 1

    def screened(self, limits: Limits) -> Subsets:
        """Return these subsets, with only columns near the path decoded if there is one subset, or one does not fit.

        Each subset takes passes of its own over the codes of all rows: several are screened only if they have to.
        """
        limit = limits.task_nbytes
        if not self.can_screen or (self.n_subsets > 1 and (limit is None or self.select_nbytes(1) <= limit)):
            return self
        found = self
        if self.settings.max_features is None and not self.settings.record.is_quadratic:
            found = self._with_models_that_fit(limits)
        largest = found.most_features(is_screened=True)
        most, least = max(LEAST_NEAR, 8 * largest), 2 * largest
        while True:
            found = replace(found, settings=replace(found.settings, most_near=min(most, self.data.n_features)))
            if limit is None or most <= least or found.select_nbytes(1) <= limit:
                return found._in_step(limits)
            most = max(least, most * 3 // 4)

    def _with_models_that_fit(self, limits: Limits) -> Subsets:
        """Return these subsets with models that are small enough for the path and the refit of all their rows."""
        most = self.most_features(is_screened=True)
        while True:
            found = replace(self, settings=replace(self.settings, max_features=most, most_near=2 * most))
            needed = max(found.select_nbytes(1), found.refit_nbytes(1, most))
            if limits.task_nbytes is None or needed <= limits.task_nbytes or most <= LEAST_MODEL + self.n_always:
                return found
            most = max(LEAST_MODEL + self.n_always, most * 7 // 8)

    def _in_step(self, limits: Limits) -> Subsets:
        """Return these subsets with as many paths in step as there are, or as memory allows."""
        found, most = self, limits.task_nbytes or IN_STEP_NBYTES
        for n_in_step in range(2, min(self.n_fits * self.n_subsets * self.n_paths, MOST_IN_STEP) + 1):
            more = replace(self, settings=replace(self.settings, n_in_step=n_in_step))
            if more.select_nbytes(self.n_subsets) > most:
                break
            found = more
        return found

    def _screen(self, n_subsets: int) -> Budget:
        """Return the memory of a task that follows the paths of some subsets over near columns, some in step."""
        n_rows, n_stored, near = self.n_rows, self.data.n_stored or self.data.n_samples, self.settings.most_near
        task, n_in_step, most = Budget(), self.settings.n_in_step, self.most_features(is_screened=True)
        n_gram_rows = gram_capacity(near, most)
        task.add("target and weights", (n_subsets + n_in_step - 1) * n_rows * 24)
        task.add("vectors over the rows", n_in_step * (8 * (8 + 6 * self.n_always) * n_rows + 32 * n_stored))
        task.add("moments and derivatives of all columns", n_in_step * 24 * 8 * self.data.n_features)
        task.add("decoded columns", n_rows * (8 * NEW_ROWS + (8 + self.data.itemsize) * PIECE_COLUMNS))
        task.add("correlations of the near columns", (1 + n_in_step) * 8 * n_gram_rows * near)
        if not self.settings.record.is_quadratic:
            one = reweighted_nbytes(n_rows, self.data.n_features, self.n_always)
            task.add("predictions and curvatures", n_in_step * one)
        path = path_nbytes(0, near, self.settings.n_lambdas, most)
        others = (n_in_step - 1) * 9 * knot_capacity(most) * (most + 16)
        return task.add("its path", path).add("paths in step", others).add("tiles", self.data.tiles_nbytes)


def subset_starts(n_samples: int, n_subsets: int) -> np.ndarray:
    """Return the first row of every subset and, last, the number of rows, shape (n_subsets + 1,)."""
    return np.arange(n_subsets + 1) * n_samples // n_subsets


class Spread(NamedTuple):
    """Training rows before it is known which they are: some rows of a store, assumed to be evenly spread."""

    n_samples: int
    n_stored: int


def cut_into_tasks(
    subsets: Subsets, rows: Rows | Spread, numbers: np.ndarray, nbytes_of: Callable[[int], int], limits: Limits
) -> list[tuple[int, int]]:
    """Return runs [first, last) of consecutive subsets, one run per task.

    A boundary between tasks is moved by up to the rows of one tile to a place where no tile has rows of both tasks,
    since both would decode it.

    Parameters
    ----------
    subsets : Subsets
    rows : Rows or Spread
        Rows of all subsets, as rows of the matrix that is read.
    numbers : ndarray of int64, ascending
        The subsets to read.
    nbytes_of : callable
        Memory of a task as a linear function of its number of subsets.
    limits : Limits
    """
    longest = subsets_per_task(len(numbers), nbytes_of, limits)
    starts = subsets.starts[1:-1]
    tile_before, tile = (_rows_at(rows, at) // subsets.tile_rows for at in (starts - 1, starts))
    is_between = np.concatenate([[True], tile_before != tile, [True]])  # tiles; the boundary before a subset
    most_moved = min(longest // 2, subsets.tile_rows // subsets.n_rows)
    tasks = []
    for run in np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1):
        first, end = int(run[0]), int(run[-1]) + 1
        while first < end:
            last = min(first + longest, end)
            if last < end:
                between = np.flatnonzero(is_between[last - most_moved : last + 1])
                last -= most_moved - int(between[-1]) if len(between) else 0
            tasks.append((first, last))
            first = last
    return tasks


def together(tasks: Sequence[tuple[int, int]], most: int) -> list[list[tuple[int, int]]]:
    """Combine runs [first, last) of subsets into tasks of at most `most` subsets, in their order.

    A run that is longer is a task by itself.

    Examples
    --------
    >>> together([(0, 1), (3, 4), (6, 9), (20, 21)], most=3)
    [[(0, 1), (3, 4)], [(6, 9)], [(20, 21)]]
    """
    found: list[list[tuple[int, int]]] = []
    room = 0
    for first, last in tasks:
        if last - first > room:
            found.append([])
            room = most
        found[-1].append((first, last))
        room -= last - first
    return found


def _rows_at(rows: Rows | Spread, places: np.ndarray) -> np.ndarray:
    if isinstance(rows, Spread):
        return places * rows.n_stored // rows.n_samples
    return rows.start + places if isinstance(rows, slice) else rows[places]


def decoded_nbytes(subsets: Subsets, rows: slice | Spread, tasks: Sequence[tuple[int, int]]) -> int:
    """Return the bytes that are decoded by tasks that read all columns of their subsets."""
    n_rows, tile_columns = subsets.tile_rows, 1
    if subsets.data.tile_shape:
        tile_columns = subsets.data.tile_shape[1]
    starts, stops = subsets.starts[np.array(tasks)].T
    spans = _rows_at(rows, stops - 1) // n_rows - _rows_at(rows, starts) // n_rows + 1
    n_tiles = int(np.minimum(spans, stops - starts).sum())
    n_across = -(-subsets.data.n_features // tile_columns)
    return n_tiles * n_rows * n_across * tile_columns * subsets.data.itemsize


def subsets_per_task(n_subsets: int, nbytes_of: Callable[[int], int], limits: Limits) -> int:
    """Return the number of subsets per task: all threads busy to the end, 32 to 128 MiB each, within the limit.

    Parameters
    ----------
    n_subsets : int
    nbytes_of : callable
        Memory of a task as a linear function of its number of subsets.
    limits : Limits
    """
    one, two = nbytes_of(1), nbytes_of(2)
    subset_nbytes = max(1, two - one)
    per_thread = max(1, min(TASKS_PER_THREAD, n_subsets * subset_nbytes // (limits.n_threads * SMALL_NBYTES)))
    if limits.n_threads == 1:
        per_thread = 1
    wanted = min(max(1, GROUP_NBYTES // subset_nbytes), -(-n_subsets // (limits.n_threads * per_thread)))
    if limits.task_nbytes is not None:
        wanted = min(wanted, 1 + (limits.task_nbytes - one) // subset_nbytes)
    return max(1, wanted)


def refuse_large(subsets: Subsets, limits: Limits) -> None:
    """Refuse subsets of which one does not fit in the limit.

    Raises
    ------
    PlanError
        Names sizes that fit.
    """
    if limits.task_nbytes is None or subsets.select_nbytes(1) <= limits.task_nbytes:
        return
    what = f"one subset of {subsets.n_rows:,} rows x {subsets.data.n_features:,} columns takes"
    instead = _smaller_subsets(subsets, limits.task_nbytes)
    if subsets.data.has_products and not subsets.can_screen:
        instead += "; " * bool(instead) + "columns stay undecoded only without feature_groups, approx, estimator"
    subsets.select(1).refuse_over(limits.task_nbytes, what, instead)


def plan_message(subsets: Subsets, limits: Limits) -> SelectorPlan:
    """Return what MESSAGE will read and hold in memory.

    Raises
    ------
    PlanError
        One subset does not fit in the limit. The error names sizes that do.
    """
    n_samples, n_features, loss = subsets.data.n_samples, subsets.data.n_features, subsets.settings.loss
    n_stored, n_subsets = subsets.data.n_stored or n_samples, subsets.n_subsets
    refuse_large(subsets, limits)
    rows = slice(0, n_samples) if n_stored == n_samples else Spread(n_samples, n_stored)
    tasks = cut_into_tasks(subsets, rows, np.arange(n_subsets), subsets.select_nbytes, limits)
    read_nbytes = decoded_nbytes(subsets, rows, tasks)
    if subsets.partition == "strided" and subsets.tile_rows > 1:  # a task's rows are in all tiles
        read_nbytes = subsets.data.decoded_nbytes * len(tasks)
    per_task = max(last - first for first, last in tasks)
    n_passes, how = 1, f"{per_task} per task; one pass over all columns"
    if subsets.settings.most_near:  # two bits per value
        n_paths = subsets.n_paths * (1 if find_loss(loss).is_quadratic else EXPECTED_ROUNDS)
        n_near, n_in_step = subsets.settings.most_near, subsets.settings.n_in_step
        n_passes = -(-n_subsets * n_paths * EXPECTED_PASSES // n_in_step)
        read_nbytes = n_passes * -(-n_stored * n_features // 4)
        of = f", which {n_in_step} paths share" if n_in_step > 1 else ""
        how = f"about {n_passes} passes over the codes{of}, at most {n_near:,} columns near a path decoded"
    again = "the selected ones again where a subset's path did not visit them"
    if not find_loss(loss).is_quadratic:
        again = "two over the selected ones, or three if weak features are voted on again"
    return SelectorPlan(
        n_tasks=len(tasks),
        n_passes=n_passes,
        read_nbytes=read_nbytes,
        task=subsets.select(per_task),
        client=Budget()
        .add("vectors over the rows", n_samples * 24)
        .add("votes and scores", n_features * 64)
        .add("what the paths leave for the refit", n_subsets * subsets.settings.cached_nbytes(n_features)),
        text=f"message: {n_subsets} subsets of {subsets.n_rows:,} rows, {how}, {again}",
        work=_work(subsets, read_nbytes),
    )


def _work(subsets: Subsets, read_nbytes: int) -> Work | None:
    """Return the work: moments of all columns, and correlations of those a path visits, or of all pairs of columns.

    Losses other than the squared one read the selected columns twice more. Sparse subsets, groups and
    screened columns have not been measured.
    """
    if subsets.data.n_entries is not None or subsets.settings.groups is not None or subsets.settings.most_near:
        return None
    data, of = subsets.data, of_loss(subsets.settings.loss)
    n, p, grid = data.n_samples, data.n_features, subsets.data.grid
    n_tiles = read_nbytes / (grid.tile_rows * grid.tile_columns * data.itemsize)
    if of:
        n_tiles += 2 * n_tiles / grid.n_across * grid.tiles_touched_by(min(p, EXPECTED_COLUMNS))
    by_tasks = grid.of_tiles(n_tiles)
    by_tasks["values" + of] = float(n * p)
    by_tasks["rows" + of] = float(n)
    by_tasks["columns of subsets" + of] = float(subsets.n_subsets * p)
    if not of and wants_whole_gram(subsets.n_rows, p):
        by_tasks["correlations"] = float(n) * p**2
    return Work(by_tasks, {"fits": 1.0}, method="message")


def _smaller_subsets(subsets: Subsets, memory_limit: int) -> str:
    n_subsets, most = subsets.n_subsets, subsets.data.n_samples // 20
    while n_subsets < most:
        n_subsets = min(max(n_subsets + 1, n_subsets * 5 // 4), most)
        smaller = replace(subsets, settings=replace(subsets.settings, n_subsets=n_subsets))
        if smaller.select_nbytes(1) <= memory_limit:
            return f"set n_subsets={n_subsets} (subsets of {smaller.n_rows:,} rows)"
    return ""


def in_partition(matrix: Matrix, subsets: Subsets, random_state: Any, notes: list[str]) -> Matrix:
    """Return a matrix whose consecutive rows are the subsets: random rows, or every m-th row in the given order."""
    if subsets.partition == "strided":
        return strided(matrix, subsets.n_subsets)
    if subsets.n_subsets == 1 and not matrix.is_resident:
        return matrix  # all rows are one subset, in any order
    return in_random_order(matrix, random_state, notes, ', or set partition="strided"')


def strided(matrix: Matrix, n_subsets: int) -> Matrix:
    """Return a matrix in which subset i has rows i, i + m, i + 2 m, ... of the given order.

    The last n mod m rows go to the subsets that are larger by one, one row each.
    """
    n_samples = matrix.shape[0]
    starts = subset_starts(n_samples, n_subsets)
    n_each = n_samples // n_subsets
    is_larger = np.diff(starts) > n_each
    order = np.empty(n_samples, dtype=np.int64)
    for i in range(n_subsets):
        order[starts[i] : starts[i] + n_each] = np.arange(n_each) * n_subsets + i
    order[starts[1:][is_larger] - 1] = np.arange(n_each * n_subsets, n_samples)
    return matrix.take(order)


def most_entries(in_order: Matrix, subsets: Subsets) -> int | None:
    """Return the number of entries of the largest subset; None if any subset is read as a dense block."""
    counts = in_order.entry_counts(slice(None))
    if counts is None or subsets.settings.approx == "lsa":
        return None
    return _if_few(int(np.add.reduceat(counts, subsets.starts[:-1]).max()), subsets)


def promised_entries(subsets: Subsets) -> int | None:
    """Return a bound on the entries of any subset, whatever its rows; None if one may be read as a dense block."""
    crowding = subsets.data.crowding
    if crowding is None or subsets.settings.approx == "lsa":
        return None
    return _if_few(crowding.rows.of(subsets.n_rows), subsets)


def _if_few(n_entries: int, subsets: Subsets) -> int | None:
    """Return the number of entries of the largest subset if all subsets are read as sparse entries, else None."""
    n_rows = subsets.data.n_samples // subsets.n_subsets
    return n_entries if is_sparse(n_rows, subsets.data.n_features, n_entries) else None


def is_sparse(n_samples: int, n_features: int, n_entries: int) -> bool:
    """Return whether a subset is faster from its sparse entries than as a dense block."""
    return not wants_whole_gram(n_samples, n_features) and n_entries <= SPARSE * n_samples * n_features
