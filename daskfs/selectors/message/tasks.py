"""The tasks of MESSAGE: read the rows of a few subsets, return small records.

Workers import this file, so it is light: numpy and the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.blocks.column_entries import SPARSE, ColumnEntries, column_entries, dense_block
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.kernels.linear.gram_matrix import wants_whole_gram
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.selectors.message.choices import Choices, NormalEquations, SelectionSettings
from daskfs.selectors.message.in_step import Steps, in_step
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
from daskfs.selectors.shared.refit_on_block import as_kernels_take_it, as_vector


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
    for k, X, y, weight in _subsets_with_all_columns(matrix, settings, group):
        choice = choose(X, y, weight, settings, group.first + k == 0, column_weight)
        if choice is None:
            raise bad_value_of(matrix, group.rows, X, group.bounds[k])
        choices.append(choice)
    return Choices.joined(choices)


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
        path = yield from screened_path(matrix, y, weight, **options)
    else:
        options |= {"loss": loss.name, "threshold": settings.threshold}
        path = yield from reweighted_path(matrix, y, weight, **options)
    return choice_on_path(path, y, weight, settings, is_first)


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
    matrix: Matrix, settings: SelectionSettings, group: SubsetGroup, columns: Rows = slice(None)
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield number in the group, rows, target and weights of every subset, in the form that kernels take."""
    X = matrix.read(group.rows, columns)
    y, weight = _target_and_weight(matrix, settings, group)
    for k, rows in enumerate(group.parts):
        yield k, as_kernels_take_it(X[rows]), y[rows], weight[rows]


def _subsets_with_all_columns(
    matrix: Matrix, settings: SelectionSettings, group: SubsetGroup
) -> Iterator[tuple[int, np.ndarray | ColumnEntries, np.ndarray, np.ndarray]]:
    """Yield the same with sparse entries where a subset has few; decided for each subset separately."""
    found = matrix.sparse_rows(group.rows)
    if found is None:
        yield from _subsets(matrix, settings, group)
        return
    y, weight = _target_and_weight(matrix, settings, group)
    for k, rows in enumerate(group.parts):
        starts = found.indptr[rows.start : rows.stop + 1]
        X = column_entries(starts, found.indices, found.data, matrix.shape[1])
        takes_entries = is_sparse(X.n_samples, matrix.shape[1], int(starts[-1] - starts[0]))
        yield k, X if takes_entries else dense_block(X), y[rows], weight[rows]


def is_sparse(n_samples: int, n_features: int, n_entries: int) -> bool:
    """Return whether a subset is faster from its sparse entries than as a dense block."""
    return not wants_whole_gram(n_samples, n_features) and n_entries <= SPARSE * n_samples * n_features


def _target_and_weight(
    matrix: Matrix, settings: SelectionSettings, group: SubsetGroup
) -> tuple[np.ndarray, np.ndarray]:
    y = _coded(as_vector(matrix.read_target(group.rows)), settings)
    found = matrix.read_weight(group.rows)
    return y, np.ones(len(y)) if found is None else as_vector(found)


def _coded(y: np.ndarray, settings: SelectionSettings) -> np.ndarray:
    """Return the target as the loss needs it: 1 for the positive class and -1 for the others; or class numbers."""
    if settings.classes:
        return np.searchsorted(np.array(settings.classes), y).astype(np.float64)
    return y if settings.positive is None else np.where(y == settings.positive, 1.0, -1.0)


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
