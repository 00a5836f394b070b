"""Lasso paths over all rows of a matrix, out of core: one pass for the moments, then one for each batch of Gram rows.

A path needs only the Gram rows of the features that enter it, so memory grows with p times the size of the model and
not with n. The paths of several weightings of the rows (bootstrap samples) share their passes.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from daskfs.baselines.lasso.tasks import (
    GramRequest,
    GramRows,
    MomentSums,
    RowPart,
    Weighting,
    add_moments,
    add_rows,
    block_rows,
    finished_moments,
    gram_on_block,
    moments_on_block,
)
from daskfs.kernels.lasso.from_gram import lasso_path_from_gram, least_squares_from_gram, wanted_rows
from daskfs.kernels.lasso.path import default_max_features, gram_capacity
from daskfs.kernels.lasso.result import LassoPath
from daskfs.kernels.linear.moments import Moments, weighed
from daskfs.matrix.blocks import Rows
from daskfs.selectors.message.choices import SelectionSettings
from daskfs.selectors.shared.budget import Budget, DataShape, SelectorPlan
from daskfs.selectors.shared.run import Run

FIRST_ROWS, MOST_ROWS = 16, 64  # Gram rows of the first pass; most of a later one, which doubles the number


class BlockPasses:
    """Passes over the row blocks of a run's matrix."""

    def __init__(self, run: Run) -> None:
        self.run, self.n_passes = run, 0
        n_samples, n_features = run.matrix.shape
        bounds = [*range(0, n_samples, block_rows(n_features)), n_samples]
        self.parts = [RowPart(k, run.rows(*piece)) for k, piece in enumerate(pairwise(bounds))]
        self.sizes = np.diff(bounds)

    def moments(self, weightings: list[Weighting], columns: Rows = slice(None)) -> list[Moments]:
        """Return the moments for each weighting."""
        shared = (columns, tuple(weightings))
        key = self._next_key()
        sums = self.run.reduce(
            "moments", moments_on_block, self.parts, add_moments, *shared, record=MomentSums, key=key
        )
        return finished_moments(sums)

    def gram(self, requests: list[GramRequest], columns: Rows = slice(None)) -> list[np.ndarray]:
        """Return the Gram rows for each request."""
        shared = (columns, tuple(requests))
        key = self._next_key()
        found = self.run.reduce("gram", gram_on_block, self.parts, add_rows, *shared, record=GramRows, key=key)
        return np.split(found.rows, np.cumsum([len(request.features) for request in requests])[:-1])

    def _next_key(self) -> str:
        self.n_passes += 1
        return f"-{self.n_passes}"


def lasso_paths(passes: BlockPasses, weightings: list[Weighting], settings: SelectionSettings) -> list[LassoPath]:
    """Return the Lasso path for each weighting, as far as the criterion needs it."""
    n_features = passes.run.matrix.shape[1]
    column_weight = passes.run.matrix.weights_of_columns()
    all_moments = [weighed(m, column_weight) for m in passes.moments(weightings)]
    features = [np.empty(0, dtype=np.int64) for _ in weightings]
    gram = [np.empty((0, n_features)) for _ in weightings]
    first = n_features if n_features <= MOST_ROWS else FIRST_ROWS
    wanted = [wanted_rows(m, features[0], m.cross, first) for m in all_moments]
    paths: list[LassoPath | None] = [None] * len(weightings)
    while True:
        waiting = [k for k, rows in enumerate(wanted) if len(rows)]
        if waiting:
            requests = [GramRequest(weightings[k], all_moments[k], wanted[k]) for k in waiting]
            for k, rows in zip(waiting, passes.gram(requests), strict=True):
                features[k] = np.concatenate([features[k], wanted[k]])
                gram[k] = np.concatenate([gram[k], rows])
        for k, path in enumerate(paths):
            if path is None or len(wanted[k]):
                paths[k], wanted[k] = lasso_path_from_gram(
                    all_moments[k],
                    features[k],
                    gram[k],
                    **settings.of_path(all_moments[k].total, n_features),
                    batch=min(max(FIRST_ROWS, len(features[k])), MOST_ROWS),
                    column_weight=column_weight,
                )
        if not any(len(rows) for rows in wanted):
            return [path for path in paths if path is not None]


def least_squares_over_blocks(passes: BlockPasses, columns: np.ndarray) -> tuple[np.ndarray, float, bool]:
    """Fit the target on a few columns by least squares, over all rows.

    Returns
    -------
    coef : ndarray of shape (len(columns),)
        On the scale of the data; 0 for a constant column.
    intercept : float
    is_singular : bool
        Whether the columns are linearly dependent, so that the solution of least norm was taken.
    """
    if not len(columns):
        y, weight = np.asarray(passes.run.matrix.read_target()), passes.run.matrix.read_weight()
        return np.empty(0), float(np.average(y, weights=weight)), False
    everything = Weighting()
    (m,) = passes.moments([everything], columns)
    varying = np.flatnonzero(m.scale > 0.0)
    (gram,) = passes.gram([GramRequest(everything, m, varying)], columns)
    fit = least_squares_from_gram(m, varying, gram[:, varying])
    coef = np.where(np.isnan(fit.coef), 0.0, fit.coef)
    return coef, m.y_mean - float((m.mean * coef).sum()), fit.is_singular


def plan_paths(
    method: str, shape: DataShape, n_paths: int, max_features: int | None, memory_limit: int | None
) -> SelectorPlan:
    """Return the plan of `lasso_paths`: passes, bytes read, and peak memory.

    Parameters
    ----------
    method : str
    shape : DataShape
    n_paths : int
        Number of weightings of the rows.
    max_features : int or None
    memory_limit : int or None
        Bytes that a task, or the client in addition to its process, may use.

    Raises
    ------
    PlanError
        A block or the Gram rows of the paths do not fit. The error says what would fit.
    """
    n_samples, n_features = shape.n_samples, shape.n_features
    rows = min(block_rows(n_features), n_samples)
    n_blocks = -(-n_samples // rows)
    k = most_features(shape, max_features)
    task, client = paths_budgets(shape, n_paths, k)
    what = f"{n_paths} path(s) over {n_features:,} columns with up to {k:,} features take"
    max(task, client, key=lambda budget: budget.nbytes).refuse_over(memory_limit, what, "set a smaller max_features")
    n_passes = 2 if n_features <= MOST_ROWS else 4
    return SelectorPlan(
        n_tasks=n_blocks,
        n_passes=n_passes,
        task=task,
        read_nbytes=n_passes * shape.held_nbytes,
        client=client,
        text=f"{method}: {n_blocks} blocks of {rows:,} rows; a pass for the moments and one to three for Gram rows, "
        "more if a model has dozens of features",
    )


def most_features(shape: DataShape, max_features: int | None) -> int:
    """Return the maximum number of features of a path."""
    n_samples, n_features = shape.n_samples, shape.n_features
    return min(max_features or default_max_features(n_samples, n_features), n_features)


def paths_budgets(shape: DataShape, n_paths: int, max_features: int) -> tuple[Budget, Budget]:
    """Return the memory budgets of a task and of the client while `n_paths` paths are followed."""
    n_features, itemsize = shape.n_features, shape.itemsize if shape.itemsize >= 4 else 5  # int8 is read and converted
    rows = min(block_rows(n_features), shape.n_samples)
    sums_nbytes = 8 * n_paths * n_features * MOST_ROWS
    task = Budget().add("a block of rows", rows * n_features * itemsize + 8 * rows * (MOST_ROWS + 8))
    task.add("sums of Gram rows", 3 * sums_nbytes).add("tiles", shape.tiles_nbytes)
    client = Budget().add("Gram rows of the paths", paths_nbytes(n_paths, n_features, max_features))
    return task, client.add("sums of Gram rows", 2 * sums_nbytes)


def paths_nbytes(n_paths: int, n_features: int, max_features: int) -> int:
    """Return the bytes of the Gram rows that `n_paths` paths may need, and of following one of them."""
    capacity = gram_capacity(n_features, max_features)
    return 8 * n_features * (n_paths * (capacity + 8) + capacity) + 8 * capacity * (4 * capacity + 100)
