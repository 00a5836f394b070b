"""Stand-ins: the columns that could replace a selected one, and how much the objective would rise.

At the refit on the selected columns S, the loss of every row is approximated by a quadratic function of its prediction.
(This is exact for the squared loss; for others it is the first step of Newton's method.) Let P be the inverse of its
Hessian in S and the intercept, b the coefficients, and for another column k let a_k be its products with S, d_k with
itself, g_k its gradient, and u_k = P a_k. Then

    without j              the loss is larger by   ½ b_j² / P_jj
    k in the place of j    it is larger by that, less   ½ (g_k - u_kj b_j / P_jj)² / (d_k - a_kᵀu_k + u_kj² / P_jj)

so that one pass over the columns gives all pairs of j and k. With several classes, each against the rest, the losses
are summed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from daskfs.kernels.glm.newton import new_predictions
from daskfs.kernels.linear.linalg import invert_independent
from daskfs.kernels.losses import derivatives
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import as_kernels_take_it, as_vector
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.refit import MeanLoss, model_of
from daskfs.selectors.shared.refit_of_classes import FITTED_INSTEAD, fit_each_class
from daskfs.selectors.shared.refit_on_block import Model
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.selected_blocks import SelectedBlocks

if TYPE_CHECKING:
    import pandas as pd

N_CANDIDATES, PIECE_NBYTES = 512, 16 << 20
"""Columns of a task, and bytes of them that it reads at once."""
ALIKE = 0.9
"""Correlation from which on columns belong to the same bundle."""
NOTHING_NEW = 1e-9
"""Share of a column's square left unexplained by the selected ones, below which it cannot take part."""


class Candidates(NamedTuple):
    """Columns that one task examines."""

    name: str
    columns: slice


@dataclass(frozen=True, slots=True)
class Swaps(Record):
    """The best stand-ins of each selected column, those with the smallest loss first; all of shape (n_selected, n)."""

    candidate: np.ndarray
    """Column numbers; -1 if there are fewer."""
    correlation: np.ndarray
    increase: np.ndarray
    """Rise of the mean loss if it replaces the column."""

    def best(self, n: int) -> Swaps:
        """Return the n best."""
        order = np.lexsort((self.candidate, np.where(self.candidate < 0, np.inf, self.increase)), axis=1)[:, :n]
        return Swaps(*(np.take_along_axis(one, order, 1) for one in (self.candidate, self.correlation, self.increase)))


def stand_ins(run: Run, selected: np.ndarray, loss: str, n_best: int) -> pd.DataFrame:
    """Return the best stand-ins of each selected column among all others as a table: see `BaseSelector.stand_ins`.

    Parameters
    ----------
    run : Run
    selected : ndarray of shape (n_selected,), int64
    loss : str
    n_best : int
    """
    from pandas import DataFrame

    columns, n_features = np.sort(selected), run.matrix.shape[1]
    fits = fit_each_class(run, columns, FITTED_INSTEAD.get(loss, loss), ridge=0.0)
    positives: list[float | None] = [None]
    if fits.classes is not None:
        positives = [float(label) for label in (fits.classes[1:] if len(fits.fits) == 1 else fits.classes)]
    models, inverses, dropped = [], [], np.zeros(len(columns))
    with run.timed("refit"):
        blocks = SelectedBlocks(run, columns)
        for positive, fit in zip(positives, fits.fits, strict=True):
            model, total = model_of(blocks, MeanLoss(fits.loss, positive), fit)
            inverse, _ = invert_independent(blocks.terms(model, total).with_ridge(model.solution, fit.ridge).hessian)
            models.append(model)
            inverses.append(inverse)
            dropped += _without(inverse, model)
        correlation = blocks.terms(replace(models[0], loss="squared"), total).hessian[1:, 1:]
    step = max(1, min(N_CANDIDATES, n_features))
    parts = [Candidates(str(j), slice(j, min(j + step, n_features))) for j in range(0, n_features, step)]
    shared = columns, tuple(models), np.array(inverses), n_best
    found = run.over(run.matrix, by="columns").map("stand-ins", best_swaps, parts, *shared)
    of_swaps = ("candidate", "correlation", "increase")
    together = Swaps(*(np.concatenate([getattr(one, name) for one in found], axis=1) for name in of_swaps))
    swaps = together.best(n_best)
    names, bundle, lines = run.matrix.names, bundles(columns, swaps, correlation), list[tuple[Any, ...]]()
    for k in np.searchsorted(columns, selected):
        of_each = zip(swaps.candidate[k], swaps.correlation[k], swaps.increase[k], strict=True)
        for j, alike, increase in of_each:
            if j >= 0:
                share = increase / dropped[k] if dropped[k] > 0.0 else np.nan
                lines.append(
                    (str(names[columns[k]]), str(names[int(j)]), int(j), alike, increase, share, int(bundle[k]))
                )
    heads = ("feature", "stand_in", "index", "correlation", "loss_increase", "share_lost", "bundle")
    return DataFrame(lines, columns=list(heads))


def _without(inverse: np.ndarray, model: Model) -> np.ndarray:
    """Return the rise of the mean loss without each column."""
    variance = np.diag(inverse)[1:]
    return np.divide(0.5 * model.solution[1:] ** 2, variance, out=np.zeros(len(variance)), where=variance > 0.0)


def best_swaps(
    matrix: Matrix,
    columns: np.ndarray,
    models: tuple[Model, ...],
    inverses: np.ndarray,
    n_best: int,
    candidates: Candidates,
) -> Swaps:
    """Return the best stand-ins of the selected columns among some columns."""
    n_samples, others = matrix.shape[0], np.arange(candidates.columns.start, candidates.columns.stop)
    both = np.union1d(columns, others)
    length = max(1, PIECE_NBYTES // (8 * len(both)))
    sums: _Sums | None = None
    for start in range(0, n_samples, length):
        rows = slice(start, min(start + length, n_samples))
        X = as_kernels_take_it(matrix.read(rows, both)).astype(np.float64)
        given, y = matrix.read_weight(rows), as_vector(matrix.read_target(rows))
        weight = np.ones(len(y)) if given is None else as_vector(given)
        selected, rest = X[:, np.searchsorted(both, columns)], X[:, np.searchsorted(both, others)]
        if sums is None:
            sums = _Sums(len(models), len(columns), _shift_and_scale(selected), _shift_and_scale(rest))
        sums.add(selected, rest, y, weight, models)
    assert sums is not None
    increase = sum(_increases(sums, r, inverses[r], model) for r, model in enumerate(models)) / sums.total
    correlation = sums.correlations()
    increase = np.where(np.isin(others, columns) | ~np.isfinite(correlation), np.inf, increase)
    of_all = Swaps(np.where(np.isfinite(increase), others, -1), correlation, increase)
    return of_all.best(n_best)


def _shift_and_scale(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the shift and scale that bring columns near mean 0 and size 1, from their first rows."""
    scale = X.std(axis=0)
    return X.mean(axis=0), np.where(scale > 0.0, scale, 1.0)


class _Sums:
    """Products of selected columns and candidates, summed over the rows and weighted by each model's curvature."""

    def __init__(
        self, n_models: int, n_selected: int, own: tuple[np.ndarray, np.ndarray], others: tuple[np.ndarray, np.ndarray]
    ) -> None:
        n_others = len(others[0])
        self.own, self.others, self.total = own, others, 0.0
        self.products = np.zeros((n_models, n_selected + 1, n_others))  # a_k
        self.squares, self.gradient = np.zeros((2, n_models, n_others))  # d_k and g_k
        self.moments = [np.zeros(n_selected), np.zeros(n_selected), np.zeros(n_others), np.zeros(n_others)]
        self.cross = np.zeros((n_selected, n_others))

    def add(
        self, selected: np.ndarray, rest: np.ndarray, y: np.ndarray, weight: np.ndarray, models: tuple[Model, ...]
    ) -> None:
        """Add some rows."""
        S, K = (selected - self.own[0]) / self.own[1], (rest - self.others[0]) / self.others[1]
        self.total += float(weight.sum())
        for k, one in enumerate((weight @ S, weight @ S**2, weight @ K, weight @ K**2)):
            self.moments[k] += one
        self.cross += (S * weight[:, None]).T @ K
        at = new_predictions(len(y))
        for r, model in enumerate(models):
            varies = model.scale > 0.0
            Z = np.ones((len(y), 1 + S.shape[1]))
            Z[:, 1:] = np.where(varies, (selected - model.centre) / np.where(varies, model.scale, 1.0), 0.0)
            at.z[:] = Z @ model.solution
            target = y if model.positive is None else np.where(y == model.positive, 1.0, -1.0)
            derivatives(find_loss(model.loss).code, model.threshold, at.z, target, at.residual, at.curvature, at.bits)
            curvature = weight * at.curvature
            self.products[r] += (Z * curvature[:, None]).T @ K
            self.squares[r] += curvature @ K**2
            self.gradient[r] += (weight * at.residual) @ K

    def correlations(self) -> np.ndarray:
        """Return the correlations of selected columns with candidates; NaN for a constant one."""
        own_mean, own_square, mean, square = (one / self.total for one in self.moments)
        spread = np.sqrt(np.outer(np.maximum(own_square - own_mean**2, 0.0), np.maximum(square - mean**2, 0.0)))
        covariance = self.cross / self.total - np.outer(own_mean, mean)
        found: np.ndarray = np.divide(covariance, spread, out=np.full(spread.shape, np.nan), where=spread > 1e-12)
        return found


def _increases(sums: _Sums, r: int, inverse: np.ndarray, model: Model) -> np.ndarray:
    """Return the rise of the summed loss of one model if each candidate replaces each column."""
    P, b = inverse / sums.total, model.solution[1:]
    variance = np.diag(P)[1:]
    u = (P @ sums.products[r])[1:]
    explained = np.einsum("ik,ij,jk->k", sums.products[r], P, sums.products[r])
    ratio = np.divide(b, variance, out=np.zeros(len(b)), where=variance > 0.0)[:, None]
    weight = np.divide(1.0, variance, out=np.zeros(len(b)), where=variance > 0.0)[:, None]
    left = sums.squares[r] - explained + u**2 * weight
    score = sums.gradient[r] - u * ratio
    gain = np.divide(0.5 * score**2, left, out=np.zeros(left.shape), where=left > NOTHING_NEW * sums.squares[r])
    increases: np.ndarray = 0.5 * b[:, None] * ratio - gain
    return increases


def bundles(columns: np.ndarray, swaps: Swaps, correlation: np.ndarray) -> np.ndarray:
    """Return the bundle number of each selected column; a bundle has correlated columns or a stand-in in common.

    Parameters
    ----------
    columns : ndarray of shape (n_selected,), int64
    swaps : Swaps
    correlation : ndarray of shape (n_selected, n_selected)
        Correlations between selected columns.

    Returns
    -------
    ndarray of shape (n_selected,), int64
        From 1 on, in the order of the columns.
    """
    bundle, first_like = np.arange(len(columns)), dict[int, int]()
    for k in range(len(columns)):
        like = set(np.flatnonzero(np.abs(correlation[k]) >= ALIKE).tolist())
        for j, alike in zip(swaps.candidate[k], swaps.correlation[k], strict=True):
            if j >= 0 and abs(alike) >= ALIKE:
                like.add(first_like.setdefault(int(j), k))
        bundle[np.isin(bundle, bundle[list(like)])] = bundle[k]
    _, first, place = np.unique(bundle, return_index=True, return_inverse=True)
    numbers: np.ndarray = np.argsort(np.argsort(first))[place.ravel()] + 1
    return numbers
