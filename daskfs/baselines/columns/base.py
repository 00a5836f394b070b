"""Base class of the online substitution baselines: select s columns of a matrix and refit them.

All of them see centred columns of unit variance and an intercept that no constraint touches. They refit the selected
columns on all rows: by least squares with the squared loss, and by minimising the loss otherwise.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from daskfs.baselines.base import SizedBaseline
from daskfs.baselines.standard_columns import (
    CACHE_NBYTES,
    StandardColumns,
    block_columns,
    blocks_nbytes,
    columns_at_once,
    pieces_of_tiles,
)
from daskfs.kernels.glm.newton import Problem
from daskfs.losses import AT_ONCE, BOUNDED_CURVATURE
from daskfs.parameters import LossOf, n_to_select
from daskfs.selectors.base import SEPARATED
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run

MOST_BY_DEFAULT = 100
TOLERANCE = 1e-9
REFIT_NBYTES = 128 << 20  # bytes of selected columns that the refit keeps in memory
REFIT_BLOCKS_NBYTES = 24 << 20
KEPT_COLUMNS = "standardised columns, kept"
COLUMNS_AT_ONCE = "columns of a tile"
ONE_AFTER_THE_OTHER = "everything: columns are processed one at a time"

Chosen: TypeAlias = tuple[np.ndarray, list[tuple[float, ...]], list[str]]
"""Column numbers, rows of the history, and notes."""


@dataclass(frozen=True, slots=True)
class Selection(Record):
    """The selection as a checkpoint stores it."""

    features: np.ndarray
    """Column numbers, int64."""
    lines: np.ndarray
    """History: shape (n_lines, n_history_columns), float64."""
    notes: tuple[str, ...]
    n_passes: int


class ColumnBaseline(SizedBaseline):
    """Base class of the baselines that select a given number of columns. Subclasses define `_select`.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        The paper's s. The default is half of the features, at most 100. "cv" chooses the number by cross-validation. A
        mapping does so with the options `cv`, `sizes`, `rule`, `metric`, `groups` and `order` of `daskfs.SelectionCV`.
    loss : {"auto", "squared", "logistic", "squared_hinge"}
        Loss of a numeric or a two-class target. "auto" is squared for numbers and logistic for classes.
    memory_limit : int or str, optional
        Memory that the fit may use in addition to the process, for example "1GiB". A limit that is too small raises an
        error.
    client : distributed.Client, optional
        Has no effect: the method is sequential and runs in this process.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, by decreasing size of their standardised coefficients in the refit.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,)
        Coefficients of the refit, on the scale of the data.
    intercept_ : float
    scores_ : ndarray of shape (n_features,)
        Size of the standardised coefficient.
    result_ : SelectionResult
    """

    keeps_columns: ClassVar[bool] = False
    """Whether the standardised columns stay in memory between passes if they fit."""
    joins_for_good: ClassVar[bool] = False
    """Whether columns join one at a time, never leave, and their order does not depend on the number wanted."""
    ridge_of_path = 0.0
    history_columns: ClassVar[dict[str, type]]
    """Names and types of the history's columns."""

    score_kind = "standardised coefficient"

    loss: Annotated[str, LossOf(BOUNDED_CURVATURE, AT_ONCE, among=("squared", "logistic", "squared_hinge"))] = "auto"

    @property
    def is_nested(self) -> bool:
        """Whether a fit that selects fewer columns gives the first columns of this one."""
        return self.joins_for_good

    def _path_order(self, run: Run) -> np.ndarray:
        """Return the columns in the order in which they joined."""
        return self._joined

    @abstractmethod
    def _select(self, columns: StandardColumns, problem: Problem, n_select: int) -> Chosen:
        """Choose up to `n_select` columns. The last note says how they were chosen."""

    @abstractmethod
    def _held_nbytes(self, n_samples: int, n_features: int, n_select: int) -> int:
        """Return the memory in bytes that the method holds in addition to the blocks."""

    @abstractmethod
    def _planned_passes(self, n_select: int) -> tuple[int, str]:
        """Return the largest number of passes over all columns, and a description of them for the plan."""

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Plan a fit in the client process. These methods are sequential."""
        n_samples, n_features, itemsize = shape.n_samples, shape.n_features, shape.itemsize
        n_select = min(self._n_select(n_features), n_features)
        refitted = 2 * min(REFIT_NBYTES, itemsize * n_samples * n_select)
        client = (
            Budget()
            .add("blocks of columns", blocks_nbytes(n_samples, n_features, itemsize))
            .add("what the method holds", self._held_nbytes(n_samples, n_features, n_select))
            .add("refit", refitted + 48 * (n_select + 1) ** 2 + REFIT_BLOCKS_NBYTES)
            .add("vectors over the rows", 160 * n_samples)
            .add("vectors over the columns", 80 * n_features)
        )
        what = f"{self.method} of {n_select:,} out of {n_features:,} columns of {n_samples:,} rows holds"
        client.refuse_over(limits.task_nbytes, what, "select fewer features")
        n_passes, text = self._planned_passes(n_select)
        n_reads, where = n_passes, "columns in blocks"
        every, room = 8 * n_samples * n_features, CACHE_NBYTES
        if limits.task_nbytes is not None:
            room = min(room, limits.task_nbytes - client.nbytes)
        if self.keeps_columns and every <= room:  # all columns or none
            client.add(KEPT_COLUMNS, every)
            n_reads, where = 1, "columns stay in memory after the first"
        left = None if limits.task_nbytes is None else limits.task_nbytes - client.nbytes
        width, at_once = block_columns(n_samples, n_features), columns_at_once(shape, left)
        if at_once > width:
            client.add(COLUMNS_AT_ONCE, (at_once + width - 1) * n_samples * itemsize)
        read_nbytes = n_reads * _decoded_nbytes(shape, max(at_once, width), is_aligned=at_once > width)
        text = f"{self.method}: {text}, {where}, in this process"
        return SelectorPlan(1, n_passes, read_nbytes, Budget(), client, text, ONE_AFTER_THE_OTHER)

    def _n_select(self, n_features: int) -> int:
        """Return how many columns to select."""
        if self.n_features_to_select is None:
            return max(1, min(MOST_BY_DEFAULT, n_features // 2))
        return self.n_features_to_select

    def _fit(self, run: Run) -> None:
        n_features = int(run.matrix.shape[1])
        n_select = n_to_select(self._n_select(n_features), n_features, MOST_BY_DEFAULT)
        rows = weighted_rows(run.matrix)
        y, weight = self._target_and_weight(rows)
        shape = DataShape.of(rows)
        terms = self._plan(shape, Limits(run.task_limit)).client.terms
        at_once = terms.get(COLUMNS_AT_ONCE, 0) // (shape.n_samples * shape.itemsize)
        at_once -= at_once and block_columns(shape.n_samples, n_features) - 1
        with run.timed("select"):
            chosen = run.load("", Selection)
            if chosen is None:
                progress = None if run.is_part else run.progress
                counting = Run(rows, self.method, progress=progress)  # counts its passes; its time belongs to one step
                columns = StandardColumns(counting, y, weight, keep=KEPT_COLUMNS in terms, at_once=at_once)
                problem = Problem(self._loss.facts, 0.0, y, weight / columns.total_weight)
                features, lines, notes = self._select(columns, problem, n_select)
                table = np.array(lines, dtype=np.float64).reshape(-1, len(self.history_columns))
                chosen = Selection(features, table, tuple(notes), columns.n_passes)
                run.save("", chosen)
        self._joined = np.asarray(chosen.features, dtype=np.int64)
        notes = [*chosen.notes, *self._refit(run.over(rows), np.sort(chosen.features))]
        notes.append(f"{chosen.n_passes} passes over all columns")
        kinds = self.history_columns.items()
        history: dict[str, np.ndarray] = {name: chosen.lines[:, k].astype(kind) for k, (name, kind) in enumerate(kinds)}
        self.result_ = self._result_of(run, notes=notes, history=history, chosen={"n_features_to_select": n_select})

    def _refit(self, run: Run, features: np.ndarray) -> list[str]:
        """Fit the selected columns on all rows. The importance is the size of the standardised coefficient."""
        fit = self._refitted(run, features)
        self._set_selection(features, np.abs(fit.coef) * fit.scale, fit.coef, fit.intercept)
        notes = []
        if fit.n_dependent:
            notes.append(f"{fit.n_dependent} selected columns depend linearly on others and have no coefficient")
        if fit.is_separable:
            notes.append(SEPARATED)
        return notes


def _decoded_nbytes(shape: DataShape, width: int, is_aligned: bool) -> int:
    """Return the bytes that a pass decodes. Each piece of columns decodes every tile that it touches as a whole."""
    m, tile = shape.n_features, 1 if shape.tile_shape is None else shape.tile_shape[1]
    pieces = pieces_of_tiles(m, tile, width) if is_aligned else [(j, min(j + width, m)) for j in range(0, m, width)]
    return sum(-(-stop // tile) - start // tile for start, stop in pieces) * shape.tile_column_nbytes


def largest(size: np.ndarray, n_select: int) -> np.ndarray:
    """Return the positions of the `n_select` largest positive numbers, in decreasing order; ties keep their order."""
    order = np.argsort(-size, kind="stable")[:n_select]
    return order[size[order] > 0.0]
