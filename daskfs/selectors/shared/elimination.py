"""Some columns too many: drop the one whose removal costs least, until so many are left as were asked for.

The cost is that of the loss's parabola at the fit of all columns that are left: ½ v_i² / (M⁻¹)_ii. With the squared
loss it is exact; with others the columns are fitted again after every third of the removals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfs.cluster.workers import Workers
from daskfs.kernels.glm.newton import factorise, solve_factored
from daskfs.kernels.losses import SQUARED, loss_code
from daskfs.matrix.base import Matrix
from daskfs.selectors.shared.refit import SelectedBlocks, SelectedFit, refit_selected
from daskfs.selectors.shared.refit_on_block import Model

ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left."""

    columns: np.ndarray
    """Shape (n_kept,), by cost, the dearest first."""
    costs: np.ndarray
    """What the mean loss would rise by without each of them, shape (n_kept,)."""
    n_dropped: int


def eliminate(
    matrix: Matrix,
    columns: np.ndarray,
    n_keep: int,
    loss: str,
    *,
    positive: float | None = None,
    ridge: float = 0.0,
    threshold: float | None = None,
    workers: Workers | None = None,
    memory_limit: int | None = None,
) -> Kept:
    """Drop columns until `n_keep` are left, or fewer where some depend on the others.

    Parameters
    ----------
    matrix : Matrix
    columns : ndarray of shape (n_columns,), int64
    n_keep : int
    loss, positive, ridge, threshold, workers, memory_limit
        As in `daskfs.selectors.shared.refit.refit_selected`.
    """
    columns = np.sort(np.asarray(columns, dtype=np.int64))
    n_before = len(columns)
    rounds = 1 if loss_code(loss) == SQUARED else ROUNDS
    told: dict[str, Any] = {
        "positive": positive,
        "threshold": threshold,
        "workers": workers,
        "memory_limit": memory_limit,
    }
    while True:
        fit = refit_selected(matrix, columns, loss, ridge=ridge, **told)
        products, coef = _parabola(matrix, columns, loss, fit, ridge, positive, threshold, workers, memory_limit)
        excess = len(columns) - n_keep
        n_now = max(0, -(-excess // rounds))
        left, costs = _drop(products, coef, n_now)
        columns, rounds = columns[left], max(1, rounds - 1)
        if len(columns) <= n_keep and (n_now == 0 or loss_code(loss) == SQUARED):
            break
    order = np.lexsort((columns, -costs))
    return Kept(columns[order], costs[order], n_before - len(columns))


def _parabola(
    matrix: Matrix,
    columns: np.ndarray,
    loss: str,
    fit: SelectedFit,
    ridge: float,
    positive: float | None,
    threshold: float | None,
    workers: Workers | None,
    memory_limit: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Hessian of the mean loss at a fit, in standardised columns, and the coefficients of these."""
    from daskfs.cluster.workers import Here

    blocks = SelectedBlocks(matrix, columns, workers or Here(), memory_limit)
    total, _, centre, scale = blocks.moments(positive)
    coef = fit.coef * scale
    solution = np.concatenate([[fit.intercept + float((fit.coef * centre).sum())], coef])
    model = Model(loss, positive, float(threshold or 0.0), solution, centre, scale)
    _, _, hessian = blocks.terms(model, total, ridge * np.concatenate([[0.0], np.ones(len(scale))]))
    return hessian, solution


def _drop(products: np.ndarray, solution: np.ndarray, n_drop: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the columns that stay after `n_drop` removals, and their costs; the intercept stays.

    Columns that depend on others go in any case.
    """
    k = len(solution)
    inverse, dead = _inverse(products)
    coef = solution.copy()
    alive = np.arange(1, k)
    costs = _costs(inverse, coef, alive, dead)
    for _ in range(max(n_drop, int(dead[1:].sum()))):
        i = int(alive[np.argmin(costs)])
        if not dead[i]:
            row, pivot = inverse[i].copy(), inverse[i, i]
            coef -= row * (coef[i] / pivot)
            inverse -= np.outer(row, row) / pivot
        alive = alive[alive != i]
        costs = _costs(inverse, coef, alive, dead)
    return alive - 1, costs


def _costs(inverse: np.ndarray, coef: np.ndarray, alive: np.ndarray, dead: np.ndarray) -> np.ndarray:
    costs: np.ndarray = 0.5 * coef[alive] ** 2 / np.where(dead[alive], 1.0, np.diag(inverse)[alive])
    return np.where(dead[alive], 0.0, costs)


def _inverse(products: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the inverse, 0 in rows of columns that depend on those before them, and which these are."""
    k = len(products)
    factor = np.zeros_like(products)
    factorise(products.copy(), k, 0.0, factor)
    dead = np.diag(factor) <= 0.0
    inverse = np.zeros_like(products)
    for i in np.flatnonzero(~dead):
        unit, column = np.zeros(k), np.zeros(k)
        unit[i] = 1.0
        solve_factored(factor, k, unit, column)
        inverse[:, i] = column
    return inverse, dead
