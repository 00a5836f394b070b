"""Backward elimination: drop the column with the smallest removal cost until the requested number is left.

The cost is that of the loss's quadratic approximation at the fit of all remaining columns: ½ v_i² / (M⁻¹)_ii. It is
exact for the squared loss; with other losses the columns are refitted after every third of the removals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from daskfs.kernels.linear.linalg import invert_independent
from daskfs.losses import find_loss
from daskfs.selectors.shared.refit import Begun, MeanLoss, SelectedFit, model_of, refit_on_blocks
from daskfs.selectors.shared.refit_on_block import Model
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.selected_blocks import SelectedBlocks

ROUNDS = 3
COPY = 1e-3  # share of a column's curvature that a copy leaves unexplained


@dataclass(frozen=True, slots=True)
class Kept:
    """The remaining columns."""

    columns: np.ndarray
    """Shape (n_kept,): those that must stay first, then the others by cost, largest first."""
    costs: np.ndarray
    """Rise of the mean loss without each of them, shape (n_kept,)."""


def eliminate(
    run: Run, columns: np.ndarray, n_keep: int, mean_losses: Sequence[MeanLoss], always: Sequence[int] = ()
) -> Kept:
    """Drop columns until `n_keep` are left, or fewer if some depend on the others.

    Parameters
    ----------
    run : Run
        As for `daskfs.selectors.shared.refit.refit_selected`.
    columns : ndarray of shape (n_columns,), int64
    n_keep : int
    mean_losses : sequence of MeanLoss
        Usually one; with several classes one for each, whose costs are summed.
    always : sequence of int
        Columns among these that must stay, at most `n_keep` and linearly independent; they come first.
    """
    columns = np.sort(np.asarray(columns, dtype=np.int64))
    columns = columns[np.argsort(~np.isin(columns, always), kind="stable")]
    n_fixed = len(always)
    is_squared = find_loss(mean_losses[0].loss).is_quadratic
    rounds = 1 if is_squared else ROUNDS
    while True:
        fitted = [_fitted(run, columns, one) for one in mean_losses]
        copies = np.all([_copies(products, fit.ridge) for fit, _, products in fitted], axis=0).any(axis=0)
        copies[:n_fixed] = False
        if copies.any():  # with a ridge they would share a coefficient
            columns = columns[~copies]
            continue
        excess = len(columns) - n_keep
        n_now = max(0, -(-excess // rounds))
        left, costs = _drop([(products, model.solution) for _, model, products in fitted], n_now, n_fixed)
        columns, rounds = columns[left], max(1, rounds - 1)
        if len(columns) <= n_keep and (n_now == 0 or is_squared):
            break
    order = np.lexsort((columns, -costs, np.arange(len(columns)) >= n_fixed))
    return Kept(columns[order], costs[order])


def order_of_removal(
    run: Run, columns: np.ndarray, mean_losses: Sequence[MeanLoss], begun: Sequence[Begun | None] = ()
) -> np.ndarray:
    """Return columns in the reverse order of their removal: the column that would be removed last comes first.

    With losses other than the squared one, the remaining columns are refitted each time half of them are removed.

    Parameters
    ----------
    run, columns, mean_losses : see `eliminate`
    begun : sequence of Begun or None
        For each loss, a fit of the columns near the first fit, as a warm start.
    """
    is_squared, last = find_loss(mean_losses[0].loss).is_quadratic, []
    begun = begun or [None] * len(mean_losses)
    while len(columns) > 1:
        fitted = [_fitted(run, columns, *one) for one in zip(mean_losses, begun, strict=True)]
        removal = _Removal([(products, model.solution) for _, model, products in fitted])
        n_drop = len(columns) - 1 if is_squared else len(columns) // 2
        removed = np.array([removal.step() for _ in range(n_drop)], dtype=np.int64) - 1
        last.append(columns[removed])
        columns = np.delete(columns, removed)
        begun = [
            None if fit.is_separable else removal.fit(k, model, fit.ridge) for k, (fit, model, _) in enumerate(fitted)
        ]
    return np.concatenate([columns, *(gone[::-1] for gone in reversed(last))]).astype(np.int64)


def _fitted(
    run: Run, columns: np.ndarray, mean_loss: MeanLoss, begun: Begun | None = None
) -> tuple[SelectedFit, Model, np.ndarray]:
    """Return a fit of columns, the same for standardised columns, and the Hessian of the mean loss there."""
    with run.timed("refit"):
        blocks = SelectedBlocks(run, columns)
        (fit,) = refit_on_blocks(blocks, [len(columns)], mean_loss, run.matrix.shape[1], begun=begun)
        model, total = model_of(blocks, mean_loss, fit)
        terms = blocks.terms(model, total).with_ridge(model.solution, fit.ridge)
    return fit, model, terms.hessian


def _copies(products: np.ndarray, ridge: float) -> np.ndarray:
    """Return which columns (rows) explain a later one, bool; none without a ridge, since `_drop` detects them."""
    squares = np.diagonal(products)[1:] - ridge
    explained = np.triu(products[1:, 1:] ** 2 > (1.0 - COPY) * np.outer(squares, squares), 1)
    found: np.ndarray = explained & (squares > 0.0) & (ridge > 0.0)
    return found


def _drop(
    problems: Sequence[tuple[np.ndarray, np.ndarray]], n_drop: int, n_fixed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the columns that remain after `n_drop` removals, and their costs.

    The intercept and the first `n_fixed` columns stay. Columns that depend on others are always dropped.
    """
    removal = _Removal(problems, n_fixed)
    for _ in range(max(n_drop, int(removal.dead[1 + n_fixed :].sum()))):
        removal.step()
    return removal.alive - 1, removal.costs


class _Removal:
    """Removes columns one at a time, each time the one with the smallest removal cost in the quadratic approximations.

    Parameters
    ----------
    problems : sequence of (products, solution)
        For each prediction that shares the columns: the Hessian, and the intercept with the coefficients.
    n_fixed : int
        Number of columns that stay, the first ones.
    """

    def __init__(self, problems: Sequence[tuple[np.ndarray, np.ndarray]], n_fixed: int = 0) -> None:
        self.n_fixed = n_fixed
        found = [invert_independent(products) for products, _ in problems]
        self.inverses, self.dead = [one[0] for one in found], np.any([one[1] for one in found], axis=0)
        self.coefs = [solution.copy() for _, solution in problems]
        self.alive = np.arange(1, len(self.dead))

    @property
    def costs(self) -> np.ndarray:
        """Costs of the remaining columns."""
        dead, alive = self.dead[self.alive], self.alive
        found = np.zeros(len(alive))
        for inverse, coef in zip(self.inverses, self.coefs, strict=True):
            found += 0.5 * coef[alive] ** 2 / np.where(dead, 1.0, np.diag(inverse)[alive])
        return np.where(dead, 0.0, found)

    def step(self) -> int:
        """Remove one column; return which."""
        i = int(self.alive[self.n_fixed + np.argmin(self.costs[self.n_fixed :])])
        if not self.dead[i]:
            for inverse, coef in zip(self.inverses, self.coefs, strict=True):
                row, pivot = inverse[i].copy(), inverse[i, i]
                coef -= row * (coef[i] / pivot)
                inverse -= np.outer(row, row) / pivot
        self.alive = self.alive[self.alive != i]
        return i

    def fit(self, k: int, model: Model, ridge: float) -> Begun:
        """Return the minimum of the k-th approximation for the remaining columns, on the scale of the data."""
        scale, centre, solution = model.scale[self.alive - 1], model.centre[self.alive - 1], self.coefs[k]
        coef = np.divide(solution[self.alive], scale, out=np.zeros(len(scale)), where=scale > 0.0)
        return Begun(coef, float(solution[0] - (coef * centre).sum()), ridge)
