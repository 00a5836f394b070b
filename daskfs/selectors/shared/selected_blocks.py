"""Blocks of rows of the selected columns, over which the terms of a refit are summed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from copy import copy
from functools import reduce
from typing import Any, NamedTuple, Self, cast

import numpy as np

from daskfs.kernels.losses import saturated_values
from daskfs.losses import find_loss
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, as_vector
from daskfs.matrix.buffers import DEFAULT_BLOCK_NBYTES
from daskfs.matrix.split import folds_of_groups
from daskfs.selectors.shared.budget import Budget, DataShape
from daskfs.selectors.shared.elastic_net import N_FOLDS
from daskfs.selectors.shared.refit_on_block import (
    LaidOut,
    Model,
    RowTerms,
    laid_out,
    moments_on_rows,
    terms_of_laid,
    terms_on_rows,
)
from daskfs.selectors.shared.refit_on_entries import entries_of, terms_of_entries
from daskfs.selectors.shared.rows import ingest_order
from daskfs.selectors.shared.run import Run

# values of X per block; depends only on the number of columns, so that sums are the same everywhere
BLOCK_VALUES = 2**20
LAID_VALUES = 2 * BLOCK_VALUES  # values of X as float64, which plans count for a block and its copies


class Terms(NamedTuple):
    """The mean loss at a point, without a ridge."""

    value: float
    """Difference from the smallest possible loss of any predictions."""
    gradient: np.ndarray
    hessian: np.ndarray

    def first(self, k: int) -> Terms:
        """Return the terms of the intercept and the first k coefficients, with the others fixed at 0."""
        return (
            self
            if k + 1 == len(self.gradient)
            else Terms(self.value, self.gradient[: k + 1], np.ascontiguousarray(self.hessian[: k + 1, : k + 1]))
        )

    def with_ridge(self, solution: np.ndarray, ridge: float) -> Terms:
        """Return the terms with ``½ ridge Σ b²``, without the intercept."""
        return self.with_penalty(solution, np.concatenate([[0.0], np.full(len(solution) - 1, ridge)]))

    def with_penalty(self, solution: np.ndarray, penalty: np.ndarray) -> Terms:
        """Return the terms with ``½ Σ penalty b²``."""
        value = self.value + 0.5 * float((penalty * solution**2).sum())
        return Terms(value, self.gradient + penalty * solution, self.hessian + np.diag(penalty))


class SelectedBlocks:
    """Blocks of rows of the selected columns: kept in memory if they fit, otherwise read by the tasks of the run."""

    def __init__(self, run: Run, columns: np.ndarray, free: np.ndarray | None = None) -> None:
        self._least: float | None = None
        self.is_free = np.zeros(len(columns) + 1, dtype=bool)
        """Which of intercept and columns have no ridge."""
        self.is_free[0] = True
        if free is not None:
            self.is_free[1:] = free
        matrix, self.columns = run.matrix, cast(Rows, columns)
        n_samples = matrix.shape[0]
        length = max(1, BLOCK_VALUES // max(len(columns), 1))
        pieces = [(start, min(start + length, n_samples)) for start in range(0, n_samples, length)]
        room = DEFAULT_BLOCK_NBYTES if run.task_limit is None else min(run.task_limit // 2, DEFAULT_BLOCK_NBYTES)
        X = self._entries = entries_of(matrix, columns, pieces, room)
        if X is None and n_samples * len(columns) * np.dtype(matrix.dtype).itemsize <= room:
            X = _gathered(matrix, columns, pieces)
        if X is not None:
            y, weight = matrix.read_target(slice(None)), matrix.read_weight(slice(None))
            run, self.columns = Run(ArrayMatrix(X, y, weight, matrix.names[columns]), run.name), slice(None)
        self.groups = matrix.declared_groups
        self.run, self.parts = run, [run.rows(*piece) for piece in pieces]
        self.length, self.can_order = length, matrix.is_resident and not matrix.rows_are_random
        self.penalty = np.zeros(len(columns) + 1)
        """Fixed penalty on half the square of intercept and standardised coefficients, included in the terms."""
        self._laid: list[LaidOut] = []

    def first(self, k: int) -> Self:
        """Return the blocks of the first k columns."""
        if k + 1 == len(self.penalty):
            return self
        found = copy(self)
        found.columns = slice(0, k) if isinstance(self.columns, slice) else self.columns[:k]
        found.penalty, found.is_free = self.penalty[: k + 1], self.is_free[: k + 1]
        return found

    @property
    def n_free(self) -> int:
        """Number of columns without a ridge."""
        return int(self.is_free.sum()) - 1

    def penalties(self, ridge: float) -> np.ndarray:
        """Return the ridge on half the square of intercept and standardised coefficients."""
        return np.where(self.is_free, 0.0, ridge)

    def bounded(self, ridge: float) -> Self:
        """Return the blocks with a ridge on columns that otherwise have none, for losses without a finite minimum."""
        found = copy(self)
        found.penalty = self.penalty + np.where(self.is_free, ridge, 0.0)
        found.penalty[0] = 0.0
        return found

    def lay_out(self, centre: np.ndarray, scale: np.ndarray) -> None:
        """Keep standardised copies of the columns for the kernels, if they are in memory and few.

        Used for terms at several points; models must have these centres and scales.
        """
        is_small = self.run.matrix.shape[0] * len(centre) <= LAID_VALUES
        if isinstance(self.columns, slice) and is_small and self._entries is None:
            self._laid = [laid_out(self.run.matrix, self.columns, centre, scale, part) for part in self.parts]

    def moments(self, positive: float | None) -> tuple[float, float, np.ndarray, np.ndarray]:
        """Return the sum of the weights, the target's mean, and means and standard deviations of the columns."""
        parts = self.run.map("refit", moments_on_rows, self.parts, self.columns, positive)
        total = _sum(part.total for part in parts)
        location = _sum(part.total * part.y_mean for part in parts) / total
        mean = _sum(part.total * part.mean for part in parts) / total
        spread = _sum(part.total * (part.scale**2 + (part.mean - mean) ** 2) for part in parts) / total
        if np.isnan(spread).any():
            place = int(np.flatnonzero(np.isnan(spread))[0])
            raise self.run.matrix.bad_column(place if isinstance(self.columns, slice) else int(self.columns[place]))
        return float(total), float(location), mean, np.sqrt(spread)

    def terms(self, model: Model, total: float) -> Terms:
        """Return value (above the smallest possible loss), gradient and Hessian of the mean loss."""
        if self._entries is None:
            parts = [terms_of_laid(part, model) for part in self._laid]
        else:
            matrix, X = self.run.matrix, self._entries[:, : len(model.centre)]
            weight = matrix.read_weight(slice(None))
            weight = np.ones(X.shape[0]) if weight is None else as_vector(weight)
            parts = [terms_of_entries(X, as_vector(matrix.read_target(slice(None))), weight, model)]
        parts = parts or self.run.map("refit", terms_on_rows, self.parts, self.columns, model)
        value, gradient = _sum(part.value for part in parts) / total, _sum(part.gradient for part in parts) / total
        value = float(value) - self.least_loss(model.loss)
        terms = Terms(value, np.asarray(gradient), np.asarray(_sum(part.hessian for part in parts) / total))
        return terms.with_penalty(model.solution, self.penalty) if self.penalty.any() else terms

    def sum_of(self, terms: Callable[..., RowTerms], *arguments: Any) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the sums over all rows of value, gradient and Hessian, as a function computes them on some."""
        parts = self.run.map("refit", terms, self.parts, self.columns, *arguments)
        value, gradient, hessian = (
            _sum(getattr(part, of) for part in parts) for of in ("value", "gradient", "hessian")
        )
        return float(value), np.asarray(gradient), np.asarray(hessian)

    def least_loss(self, loss: str) -> float:
        """Return the mean loss of the best possible predictions; it is below 0 for large counts."""
        if find_loss(loss).least_is_zero:
            return 0.0
        if self._least is None:
            matrix = self.run.matrix
            y, weight = as_vector(matrix.read_target(slice(None))), matrix.read_weight(slice(None))
            weight = None if weight is None else as_vector(weight)
            self._least = float(np.average(saturated_values(find_loss(loss).code, y), weights=weight))
        return self._least

    def terms_of_folds(self, model: Model) -> list[RowTerms]:
        """Return the summed loss of each fold of the rows: folds of whole groups, or random as far as known."""
        matrix = self.run.matrix
        ends = np.linspace(0, matrix.shape[0], N_FOLDS + 1).astype(int)
        if self.groups is not None:
            of_row = folds_of_groups(self.groups, N_FOLDS)
            matrix = matrix.take(np.argsort(of_row, kind="stable"))
            ends = np.cumsum(np.bincount(of_row, minlength=N_FOLDS + 1), dtype=int)
        elif self.can_order:
            matrix = matrix.take(ingest_order(matrix.shape[0], 0))
        run = self.run.over(matrix)
        pieces = [
            (fold, start, min(start + self.length, stop))
            for fold, stop in enumerate(ends[1:])
            for start in range(ends[fold], stop, self.length)
        ]
        parts = run.map("refit", terms_on_rows, [run.rows(*piece[1:]) for piece in pieces], self.columns, model)
        of_folds = [[part for part, piece in zip(parts, pieces, strict=True) if piece[0] == k] for k in range(N_FOLDS)]
        return [
            RowTerms(
                *(_sum(getattr(part, name) for part in fold) for name in ("weight", "value", "gradient", "hessian"))
            )
            for fold in of_folds
            if fold
        ]


def budget_of_refits(shape: DataShape, n_columns: int) -> Budget:
    """Return the memory of a task that reads a block of rows of selected columns, and computes terms."""
    n_values = min(shape.n_samples * n_columns, BLOCK_VALUES)
    itemsize = 8 + 2 * max(shape.itemsize, 4)  # as read, as passed to kernels, and standardised
    return Budget({"a block of rows of the refits": itemsize * n_values}).add("tiles", shape.tiles_nbytes)


def _gathered(matrix: Matrix, columns: np.ndarray, pieces: list[tuple[int, int]]) -> np.ndarray:
    """Return the selected columns; stores are read tile by tile, in ascending order."""
    order = np.argsort(columns, kind="stable")
    inverse = np.argsort(order, kind="stable")
    out = np.empty((matrix.shape[0], len(columns)), dtype=matrix.dtype)
    for start, stop in pieces:
        block = matrix.read(slice(start, stop), columns[order])
        if not np.isfinite(block).all():
            row, place = (int(part[0]) for part in np.nonzero(~np.isfinite(block)))
            raise matrix.bad_value(start + row, int(columns[order][place]), block[row, place])
        out[start:stop] = block[:, inverse]
    return out


def _sum(terms: Iterable[Any]) -> Any:
    """Sum in the order of the rows; the built-in `sum` is compensated for Python floats from 3.12 on."""
    return reduce(operator.add, terms, 0)
