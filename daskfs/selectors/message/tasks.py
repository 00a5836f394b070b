"""The passes of MESSAGE over its subsets, and their tasks: read the rows of a few subsets, return small records.

Workers import this file, so it is light: numpy and the kernels.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.blocks.column_entries import ColumnEntries, column_entries, dense_block
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, as_kernels_take_it, as_vector
from daskfs.selectors.message.choices import Choices, NormalEquations, SelectionSettings
from daskfs.selectors.message.in_step import Steps, in_step
from daskfs.selectors.message.plan import (
    Subsets,
    cut_into_tasks,
    is_sparse,
    refuse_large,
    subsets_per_task,
    together,
)
from daskfs.selectors.message.reweighted import reweighted_path
from daskfs.selectors.message.screened import screened_path
from daskfs.selectors.message.subset import (
    Derivatives,
    MaximumLikelihood,
    Point,
    by_class,
    choice_on_path,
    choose,
    derivatives,
    joined_classes,
    refit,
)
from daskfs.selectors.shared.run import Run


@dataclass(frozen=True, slots=True)
class SubsetGroup:
    """Subsets that one task reads together, in their order.

    `rows` are the rows of the matrix that belong to them; the k-th subset has ``rows[bounds[k]:bounds[k + 1]]``.
    """

    first: int
    last: int
    bounds: tuple[int, ...]
    rows: Rows

    @property
    def name(self) -> str:
        """First and last of the subsets."""
        return f"{self.first}-{self.last}"

    @property
    def parts(self) -> list[slice]:
        """The rows of each subset, among those of the group."""
        return [slice(start, stop) for start, stop in pairwise(self.bounds)]


class SubsetPasses:
    """The passes over the subsets of a run's matrix. Each subset is a range of consecutive rows."""

    def __init__(self, run: Run, subsets: Subsets) -> None:
        refuse_large(subsets, run.limits)
        self.run, self.subsets, self.settings = run, subsets, subsets.settings

    def select(self) -> Choices:
        """Step 2: select on every subset."""
        settings = self.settings if self.settings.groups is None else self.run.keep(self.settings)  # sent once
        return Choices.joined(self.run.map("select", select_on_block, self.groups(), settings, record=Choices))

    def refit(
        self,
        columns: np.ndarray,
        numbers: Sequence[int] | np.ndarray,
        with_errors: bool = False,
        asked: ColumnGroups | None = None,
    ) -> NormalEquations | MaximumLikelihood:
        """Fit the columns on the subsets with these numbers; see `daskfs.selectors.message.subset.refit`."""
        record = NormalEquations if self.settings.record.is_quadratic else MaximumLikelihood
        groups = self.groups(numbers, lambda n: self.subsets.refit_nbytes(n, len(columns)))
        key = _digest(columns) + "-errors" * with_errors + ("" if asked is None else _digest(np.concatenate(asked)))
        shared = self._of_columns, columns, with_errors, asked
        return record.joined(self.run.map("refit", refit_on_block, groups, *shared, record=record, key=key))

    def derivatives(self, columns: np.ndarray, point: Point, which: str = "") -> Derivatives:
        """Return gradient and Hessian of every subset's loss at a point; `which` distinguishes points."""
        groups = self.groups(nbytes_of=lambda n: self.subsets.refit_nbytes(n, len(columns)))
        shared, key = (self._of_columns, columns, point), _digest(columns) + which
        return Derivatives.joined(
            self.run.map("newton", derivatives_on_block, groups, *shared, record=Derivatives, key=key)
        )

    @property
    def _of_columns(self) -> SelectionSettings:
        """The settings for tasks that are given their columns."""
        return replace(self.settings, groups=None, always=())

    def groups(
        self,
        numbers: Sequence[int] | np.ndarray | None = None,
        nbytes_of: Callable[[int], int] | None = None,
    ) -> list[SubsetGroup]:
        """Return subsets in groups, one per task: consecutive subsets, or several short runs that are far apart.

        Parameters
        ----------
        numbers : sequence of int, ascending, optional
            By default all subsets.
        nbytes_of : callable, optional
            Memory of a task as a function of its number of subsets; by default of one that selects.
        """
        subsets, limits, nbytes_of = self.subsets, self.run.limits, nbytes_of or self.subsets.select_nbytes
        numbers = np.arange(subsets.n_subsets) if numbers is None else np.asarray(numbers)
        starts, rows = subsets.starts, self.run.rows(0, subsets.data.n_samples)
        tasks = cut_into_tasks(subsets, rows, numbers, nbytes_of, limits)
        groups = []
        for runs in together(tasks, subsets_per_task(len(numbers), nbytes_of, limits)):
            own = np.concatenate([np.arange(*run) for run in runs])
            bounds = np.append(0, np.cumsum(starts[own + 1] - starts[own]))
            places = [self.run.rows(int(starts[first]), int(starts[last])) for first, last in runs]
            its_rows = places[0] if len(places) == 1 else np.r_[tuple(places)]
            groups.append(SubsetGroup(int(own[0]), int(own[-1]), tuple(bounds.tolist()), its_rows))
        return groups


def _digest(columns: np.ndarray) -> str:
    return f"-{zlib.crc32(np.asarray(columns, dtype=np.int64).tobytes()):08x}"


def select_on_block(matrix: Matrix, settings: SelectionSettings, group: SubsetGroup) -> Choices:
    """Select on every subset of a group.

    Raises
    ------
    DataError
        NaN or infinity, with the column's name and the row.
    """
    choices, column_weight = [], matrix.weights_of_columns()
    if settings.most_near:
        return select_together(matrix, [(None, (settings, group))])[0]
    for k, X, y, weight in _subsets(matrix, settings, group):
        choice = choose(X, y, weight, settings, group.first + k == 0, column_weight)
        if choice is None:
            raise bad_value_of(matrix, group.rows, X, group.bounds[k])
        choices.append(choice)
    return Choices.joined(choices)


def refit_on_block(
    matrix: Matrix,
    settings: SelectionSettings,
    columns: np.ndarray,
    with_errors: bool,
    asked: ColumnGroups | None,
    group: SubsetGroup,
) -> NormalEquations | MaximumLikelihood:
    """Fit the columns, ascending, on every subset of a group."""
    subsets = _subsets(matrix, settings, group, columns)
    found = [refit(X, y, weight, settings, with_errors, asked) for _, X, y, weight in subsets]
    return type(found[0]).joined(found)  # type: ignore[arg-type]  # all are of one type


def derivatives_on_block(
    matrix: Matrix, settings: SelectionSettings, columns: np.ndarray, point: Point, group: SubsetGroup
) -> Derivatives:
    """Return gradient and Hessian of the summed loss on every subset of a group."""
    subsets = _subsets(matrix, settings, group, columns)
    return Derivatives.joined([derivatives(X, y, weight, settings, point) for _, X, y, weight in subsets])


def _subsets(
    matrix: Matrix, settings: SelectionSettings, group: SubsetGroup, columns: np.ndarray | None = None
) -> Iterator[tuple[int, Any, np.ndarray, np.ndarray]]:
    """Yield number in the group, X, target and weights of every subset, in the form that kernels take.

    With all columns, X are sparse entries where a subset has few; this is decided for each subset separately.
    """
    y, weight = _target_and_weight(matrix, settings, group)
    entries = matrix.sparse_rows(group.rows) if columns is None else None
    if entries is None:
        block = matrix.read(group.rows, slice(None) if columns is None else columns)
    for k, rows in enumerate(group.parts):
        if entries is None:
            X: Any = as_kernels_take_it(block[rows])
        else:
            starts = entries.indptr[rows.start : rows.stop + 1]
            X = column_entries(starts, entries.indices, entries.data, matrix.shape[1])
            if settings.approx or not is_sparse(X.n_samples, matrix.shape[1], int(starts[-1] - starts[0])):
                X = dense_block(X)
        yield k, X, y[rows], weight[rows]


def _target_and_weight(
    matrix: Matrix, settings: SelectionSettings, group: SubsetGroup
) -> tuple[np.ndarray, np.ndarray]:
    """Return the target as the loss needs it (1 for the positive class, else -1; or class numbers), and the weights."""
    y, weight = as_vector(matrix.read_target(group.rows)), matrix.read_weight(group.rows)
    if settings.classes:
        y = np.searchsorted(np.array(settings.classes), y).astype(np.float64)
    elif settings.positive is not None:
        y = np.where(y == settings.positive, 1.0, -1.0)
    return y, np.ones(len(y)) if weight is None else as_vector(weight)


def bad_value_of(matrix: Matrix, rows: Rows, X: np.ndarray | ColumnEntries, start: int = 0) -> DataError:
    """Return the error for the first bad value of a block whose moments are not finite; it begins at `start` of `rows`.

    The bad value is the first NaN or infinity; if there is none, the largest value, whose square overflows.
    """
    block = dense_block(X) if isinstance(X, ColumnEntries) else X
    bad = ~np.isfinite(block)
    row, column = (int(k) for k in np.unravel_index(np.argmax(bad if bad.any() else np.abs(block)), block.shape))
    stored = rows.start + start + row if isinstance(rows, slice) else int(rows[start + row])
    if bad.any():
        return matrix.bad_value(stored, column, block[row, column])
    place = f"{matrix.names.describe(column)}, row {matrix.source_row(stored)}"
    return DataError(
        f"{block[row, column]:g} is too large to be squared", place, "correct the value, or scale the column"
    )


def select_together(
    matrix: Matrix, parts: Sequence[tuple[Matrix | None, tuple[SelectionSettings, SubsetGroup]]]
) -> list[Choices]:
    """Select on the subsets of several fits, with only columns near a path decoded.

    See `daskfs.selectors.shared.ahead` for the parts. As many paths are in step as the settings allow.
    """
    paths = list[Steps[Choices]]()
    for base, (settings, group) in parts:
        base = matrix if base is None else base
        y, weight = _target_and_weight(base, settings, group)
        own, column_weight = np.arange(base.shape[0])[group.rows], base.weights_of_columns()
        for k, rows in enumerate(group.parts):
            some = base.take(own[rows])
            for c, (its_y, its_settings) in enumerate(by_class(y[rows], settings)):
                is_first = group.first + k == 0 and c == 0
                paths.append(_screened_choice(some, column_weight, weight[rows], its_y, its_settings, is_first))
    n_in_step = min(settings.n_in_step for _, (settings, _) in parts)
    starts = np.linspace(0, len(paths), -(-len(paths) // n_in_step) + 1).astype(int)
    choices = iter([choice for first, last in pairwise(starts) for choice in in_step(paths[first:last])])
    found = []
    for _, (settings, group) in parts:
        n_each = max(1, len(settings.classes))
        found.append(Choices.joined([joined_classes([*islice(choices, n_each)], settings) for _ in group.parts]))
    return found


def _screened_choice(
    matrix: Matrix,
    column_weight: np.ndarray | None,
    weight: np.ndarray,
    y: np.ndarray,
    settings: SelectionSettings,
    is_first: bool,
) -> Steps[Choices]:
    total, loss = float(weight.sum()), settings.record
    options = settings.of_path(total, matrix.shape[1])
    options["penalty"] = settings.least_penalty(total, matrix.shape[1])
    options |= {"free": np.array(settings.always, dtype=np.int64), "most_near": settings.most_near}
    options |= {"column_weight": column_weight}
    if loss.is_quadratic:
        path = yield from screened_path(matrix, y, weight, max_cached=settings.max_cached, **options)
    else:
        options |= {"loss": loss.name, "threshold": settings.threshold}
        path = yield from reweighted_path(matrix, y, weight, **options)
    return choice_on_path(path, y, weight, settings, is_first)
