"""The fit of a loss on the selected columns of all rows, without a penalty: what "refit" means to every selector.

Newton's method: blocks of rows give value, gradient and Hessian of the loss, which add up. Only the selected columns
are read; they are kept where they fit, and else read again for each step, where the work runs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, cast

import numpy as np

from daskfs.kernels.glm.newton import LONGEST_LAST_STEP, weak_ridge
from daskfs.kernels.linear.linalg import factorise, solve_cholesky
from daskfs.kernels.losses import default_threshold
from daskfs.losses import HUBER, LOGISTIC, POISSON, SQUARED, SQUARED_HINGE, find_loss
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.matrix.buffers import DEFAULT_BLOCK_NBYTES
from daskfs.selectors.shared.refit_on_block import Model, as_vector, moments_on_rows, terms_on_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import null_intercept

BLOCK_VALUES = 2**20  # of X, in blocks that depend on the number of columns alone: the same sums everywhere
MAX_STEPS, MAX_HALVINGS = 50, 30
TOLERANCE = 1e-10  # of a step's gain, in parts of the loss without features: the error left is its square
NEGLIGIBLE = 1e-6  # part of the loss without features, below which classes count as linearly separable


@dataclass(frozen=True, slots=True)
class SelectedFit:
    """A fit of some columns."""

    coef: np.ndarray
    """Shape (n_columns,), on the scale of the data; 0 at a constant column and at one that depends on those before."""
    intercept: float
    mean_loss: float
    """Weighted mean of the loss over the rows, without the ridge's part."""
    scale: np.ndarray
    """Weighted standard deviations of the columns, shape (n_columns,)."""
    n_dependent: int
    """Columns that depend on those before them."""
    is_separable: bool
    """Whether there was no finite minimum (classes linearly separable): a weak ridge bounds the fit."""
    n_steps: int


@dataclass(frozen=True, slots=True)
class MeanLoss:
    """What is minimised: the mean loss of the rows and ``½ ridge Σ b²``, b the coefficients of standardised columns."""

    loss: str = "squared"
    """"squared", "logistic", "poisson", "huber" or "squared_hinge"."""
    positive: float | None = None
    """With a loss of two classes, the target's value for the one that counts as +1."""
    threshold: float | None = None
    """Threshold of the Huber loss; by default 1.345 robust standard deviations of the target."""
    ridge: float = 0.0


def refit_selected(run: Run, columns: np.ndarray, mean_loss: MeanLoss = MeanLoss()) -> SelectedFit:
    """Fit the target on some columns of a matrix, with an intercept.

    Parameters
    ----------
    run : Run
        Over a matrix with its target, and its weights where it has any. The selected columns are kept up to half the
        memory of a task (never beyond 128 MiB), and else read where the run's tasks are.
    columns : ndarray of shape (n_columns,), int64
        In any order; `coef` has the same.
    mean_loss : MeanLoss

    Returns
    -------
    SelectedFit

    Raises
    ------
    DataError
        NaN or infinity in a selected column.
    """
    loss, code, ridge = mean_loss.loss, find_loss(mean_loss.loss).code, mean_loss.ridge
    threshold = mean_loss.threshold
    if threshold is None:
        y, weight = as_vector(run.matrix.read_target(slice(None))), run.matrix.read_weight(slice(None))
        weight = np.ones(len(y)) if weight is None else as_vector(weight)
        threshold = default_threshold(y, weight) if code == HUBER else 0.0
    with run.timed("refit"):
        blocks = SelectedBlocks(run, np.asarray(columns, dtype=np.int64))
        total, location, centre, scale = blocks.moments(mean_loss.positive)
        start = np.zeros(len(columns) + 1)
        start[0] = _finite(null_intercept(loss, location), total)
        model = Model(loss, mean_loss.positive, float(threshold), start, centre, scale)
        fit = _descend(blocks, model, total, ridge, code)
        is_separable = fit is None
        if fit is None:  # no finite minimum
            fit = _descend(blocks, model, total, max(ridge, weak_ridge(total)), code, is_bounded=True)
    solution, mean, n_steps, n_dependent = fit  # type: ignore[misc]  # bounded fits are never None
    coef = np.divide(solution[1:], scale, out=np.zeros(len(scale)), where=scale > 0.0)
    intercept = float(solution[0] - (coef * centre).sum())
    return SelectedFit(coef, intercept, mean, scale, n_dependent, is_separable, n_steps)


def _descend(
    blocks: SelectedBlocks, model: Model, total: float, ridge: float, code: int, is_bounded: bool = False
) -> tuple[np.ndarray, float, int, int] | None:
    """Return solution, mean loss, number of steps and of dependent columns; None where there is no finite minimum.

    Apart from `daskfs.kernels.glm.newton.newton`, whose rows are in memory: here each look is a pass over all
    rows, which gives value, gradient and Hessian at once. So no factor is kept, and a step is halved by the value.
    """
    penalised = np.concatenate([[0.0], np.ones(len(model.scale))])
    value, gradient, hessian = blocks.terms(model, total, ridge * penalised)
    null, n_features = value, int((model.scale > 0.0).sum())
    factor, step = np.zeros_like(hessian), np.zeros(len(hessian))
    n_steps = n_dependent = 0
    for n_steps in range(1, MAX_STEPS + 1):
        rank = factorise(hessian, len(hessian), 0.0, factor)
        if n_steps == 1:
            n_dependent = n_features + 1 - rank
        gain = solve_cholesky(factor, len(hessian), -gradient, step)
        is_short = gain <= TOLERANCE * null
        if code in (LOGISTIC, POISSON, SQUARED_HINGE) and not is_bounded and _runs_away(value, null, is_short, step):
            return None
        if is_short or code == SQUARED:
            value -= 0.5 * gain
            model = replace(model, solution=model.solution + step)
            break
        model, value, gradient, hessian = _shortened(blocks, model, step, value, total, ridge * penalised)
    penalty = 0.5 * ridge * float((model.solution[1:] ** 2).sum())
    return model.solution, max(value - penalty, 0.0), n_steps, n_dependent


def _runs_away(value: float, null: float, is_short: bool, step: np.ndarray) -> bool:
    return (is_short and np.abs(step).max() > LONGEST_LAST_STEP) or value < NEGLIGIBLE * null


def _shortened(
    blocks: SelectedBlocks, model: Model, step: np.ndarray, value: float, total: float, penalty: np.ndarray
) -> tuple[Model, float, np.ndarray, np.ndarray]:
    """Take the step, or the largest half, quarter, ... of it with which the objective does not rise."""
    length = 1.0
    for _ in range(MAX_HALVINGS):
        moved = replace(model, solution=model.solution + length * step)
        terms = blocks.terms(moved, total, penalty)
        if terms[0] <= value:
            break
        length *= 0.5
    return moved, *terms


class SelectedBlocks:
    """Blocks of rows of the selected columns: kept in memory where they fit, or read by the tasks of the run."""

    def __init__(self, run: Run, columns: np.ndarray) -> None:
        matrix, self.columns = run.matrix, cast(Rows, columns)
        n_samples = matrix.shape[0]
        length = max(1, BLOCK_VALUES // max(len(columns), 1))
        pieces = [(start, min(start + length, n_samples)) for start in range(0, n_samples, length)]
        room = DEFAULT_BLOCK_NBYTES if run.task_limit is None else min(run.task_limit // 2, DEFAULT_BLOCK_NBYTES)
        if n_samples * len(columns) * np.dtype(matrix.dtype).itemsize <= room:
            y, weight = matrix.read_target(slice(None)), matrix.read_weight(slice(None))
            kept = ArrayMatrix(_gathered(matrix, columns, pieces), y, weight, matrix.names[columns])
            run, self.columns = Run(kept, run.name), slice(None)
        self.run, self.parts = run, [run.rows(*piece) for piece in pieces]

    def moments(self, positive: float | None) -> tuple[float, float, np.ndarray, np.ndarray]:
        """Return the sum of the weights, the target's mean, means and standard deviations of the columns."""
        parts = self.run.map("refit", moments_on_rows, self.parts, self.columns, positive)
        total = _sum(part.total for part in parts)
        location = _sum(part.total * part.y_mean for part in parts) / total
        mean = _sum(part.total * part.mean for part in parts) / total
        spread = _sum(part.total * (part.scale**2 + (part.mean - mean) ** 2) for part in parts) / total
        if np.isnan(spread).any():
            place = int(np.flatnonzero(np.isnan(spread))[0])
            raise self.run.matrix.bad_column(place if isinstance(self.columns, slice) else int(self.columns[place]))
        return float(total), float(location), mean, np.sqrt(spread)

    def terms(self, model: Model, total: float, ridge: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return value, gradient and Hessian of the mean loss with its ridge."""
        parts = self.run.map("refit", terms_on_rows, self.parts, self.columns, model)
        value = _sum(part.value for part in parts) / total + 0.5 * float((ridge * model.solution**2).sum())
        gradient = _sum(part.gradient for part in parts) / total + ridge * model.solution
        hessian = _sum(part.hessian for part in parts) / total + np.diag(ridge)
        return float(value), np.asarray(gradient), np.asarray(hessian)


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
    """Add up in the order of the rows; `sum` is compensated where numbers are Python's, from 3.12 on."""
    return reduce(operator.add, terms, 0)


def _finite(intercept: float, total: float) -> float:
    """Return the intercept, or where one class or no count is there, that of half a row that says the contrary."""
    return intercept if math.isfinite(intercept) else math.copysign(math.log(2.0 * total + 1.0), intercept)
