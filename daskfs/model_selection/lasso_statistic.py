"""Importance of columns and knockoffs in a Lasso on both with a cross-validated penalty, computed out of core.

    1. In one pass, sum the products of columns and responses over the rows of each of 5 folds.
    2. For decreasing penalties, fit the Lasso on the rows outside a fold, and compute its squared error on the fold,
       both from these sums. Choose the penalty with the smallest total error.
    3. Return the absolute coefficients, for standardised columns, of the Lasso on all rows at that penalty.

If there are more columns than fit into the sums, only the pairs that correlate most with a response are used. A pass
over all columns with the residuals then finds pairs that violate the Lasso's optimality conditions. They replace pairs
with zero coefficients, until there are none, or `LOOKS` times.

Responses are numbers, or an indicator for each class. Counts are replaced by their square roots, and with the Huber
loss values far from the median are clipped. For normal columns, which knockoffs assume, the least-squares coefficients
are proportional to those of any model with one linear predictor (K.-C. Li, N. Duan (1989): Regression analysis under
link violation. Ann. Stat. 17, 1009-1052). Therefore classes and counts need no other loss to compare a column with its
knockoff.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from daskfs.kernels.linear.coordinate_descent import descend
from daskfs.kernels.linear.gram_tiles import BAND_ROWS, padded
from daskfs.kernels.linear.knockoffs import add_product, add_sums
from daskfs.kernels.losses import default_threshold, weighted_median
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import as_slice
from daskfs.model_selection.knockoff_columns import KnockoffMatrix
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.run import Run

FOLDS, RANGES_PER_FOLD = 5, 8
"""Number of folds, and of ranges of consecutive rows in each, because rows need not be in random order."""
MOST_COLUMNS = 2000
"""Maximum number of columns and knockoffs in the sums; independent of the memory limit, as it changes results."""
N_PENALTIES, PATIENCE = 100, 15
"""Number of penalties on a path, and number tried without a smaller error before stopping."""
LOOKS = 3
PIECE_VALUES = 1 << 20
"""Number of values read at a time when all columns are read."""
TOLERANCE = 1e-6
"""Convergence tolerance of a coefficient's change, in standard deviations of the response."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows that are held out together: every fifth range of rows."""

    name: str
    starts: np.ndarray
    stops: np.ndarray

    def pieces(self, n_columns: int) -> Iterator[slice]:
        """Yield the rows in bands, or in smaller pieces with very many columns."""
        length = max(1, min(BAND_ROWS, PIECE_VALUES // max(1, n_columns)))
        for start, stop in zip(self.starts.tolist(), self.stops.tolist(), strict=True):
            for first in range(start, stop, length):
                yield slice(first, min(first + length, stop))

    @property
    def rows(self) -> np.ndarray:
        """Numbers of the rows."""
        return np.concatenate([np.arange(*ends) for ends in zip(self.starts, self.stops, strict=True)])


@dataclass(frozen=True, slots=True)
class FoldSums(Record):
    """Σ w, and Σ w z zᵀ of standardised columns, of responses and of 1."""

    total: float
    products: np.ndarray

    def without(self, fold: FoldSums | None) -> tuple[np.ndarray, np.ndarray]:
        """Return means and covariances of columns and responses over all rows except those of a fold."""
        covariance, total = self.products[:-1, :-1].copy(), self.total
        mean = self.products[:-1, -1].copy()
        if fold is not None:
            covariance -= fold.products[:-1, :-1]
            mean -= fold.products[:-1, -1]
            total -= fold.total
        covariance /= total
        mean /= total
        for line, one in zip(covariance, mean.tolist(), strict=True):
            line -= one * mean
        return mean, covariance


@dataclass(frozen=True, slots=True)
class RowsLeft(Record):
    """An array of one fold, such as predictions in the order of its rows, shape (n_rows, n_responses)."""

    left: np.ndarray


class Columns(NamedTuple):
    """Some columns, and their means and scales for standardising."""

    numbers: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    """0 for constant columns."""

    def take(self, places: np.ndarray) -> Self:
        """Return a subset of the columns."""
        return type(self)(*(one[places] for one in self))

    def read(self, matrix: Matrix, rows: slice) -> np.ndarray:
        """Return the standardised columns of some rows."""
        inverse = np.divide(1.0, self.scale, out=np.zeros(len(self.scale)), where=self.scale > 0.0)
        values: np.ndarray = (matrix.read(rows, as_slice(self.numbers)) - self.mean) * inverse
        return values


class Solution(NamedTuple):
    """The Lasso solution for one response."""

    coef: np.ndarray
    intercept: float
    penalty: float


class LassoSizes:
    """Computes the absolute coefficients of all columns in the Lasso (see the module), with a selector's interface.

    Attributes
    ----------
    loss_ : str
        Loss that determines the responses.
    sizes_ : ndarray of shape (n_columns,)
    """

    loss_: str
    sizes_: np.ndarray
    is_silent = True

    def _planned(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        m, n_looks = min(shape.n_features, MOST_COLUMNS), LOOKS if shape.n_features > MOST_COLUMNS else 0
        n_responses = shape.n_classes if shape.n_classes > 2 else 1
        square = 8 * (m + n_responses + 6) ** 2
        task = Budget({"products of a fold": 3 * square, "rows of a fold": 48 * BAND_ROWS * (m + n_responses + 6)})
        task.add("tiles", shape.tiles_nbytes).add(
            "responses", 8 * n_responses * shape.n_samples + 24 * shape.n_features
        )
        client = Budget({"products of all folds": (FOLDS + 3) * square})
        client.add("responses", 24 * n_responses * shape.n_samples + 64 * shape.n_features)
        if n_looks:
            values = min(PIECE_VALUES, BAND_ROWS * shape.n_features)
            task.add("rows of all columns", 32 * max(values, shape.n_features))
            task.add("products of all columns", 24 * n_responses * shape.n_features)
            client.add("products of all columns", 8 * (FOLDS + 3) * n_responses * shape.n_features)
        what = f"the sums for a Lasso of {m:,} columns and knockoffs need"
        task.refuse_over(limits.task_nbytes, what, 'set statistic="coefficient"')
        of_columns = f"{m:,} of {shape.n_features:,}" if n_looks else f"{m:,}"
        return SelectorPlan(
            n_tasks=FOLDS * (2 + 3 * n_looks if n_looks else 1),
            n_passes=1 + (2 + 2 * n_looks if n_looks else 0),
            read_nbytes=shape.nbytes * (1 + 3 * n_looks),
            task=task,
            client=client,
            text=f"a Lasso of {of_columns} columns and knockoffs, its penalty by {FOLDS} folds",
        )

    def fit_run(self, run: Run) -> Self:
        """Compute the coefficients on a run over a `KnockoffMatrix`."""
        matrix = run.matrix
        assert isinstance(matrix, KnockoffMatrix)
        search = _Search.over(run, matrix, self.loss_)
        p, room = matrix.shape[1] // 2, MOST_COLUMNS // 2
        pairs = np.arange(p)
        if p > room:
            pairs = _first(search.pair_sizes(search.responses).max(axis=1), room)
        for look in range(LOOKS + 1):
            columns = search.all_columns.take(np.sort(np.r_[2 * pairs, 2 * pairs + 1]))
            solutions = search.solutions(columns)
            if p <= room or look == LOOKS:
                break
            left = search.pair_sizes(search.left(columns, solutions))
            over = (left / [one.penalty for one in solutions]).max(axis=1)
            over[pairs] = 0.0
            if over.max() <= 1.0:
                break
            in_use = columns.numbers[np.any([one.coef != 0.0 for one in solutions], axis=0)] // 2
            over[in_use] = np.inf
            over[np.setdiff1d(pairs, in_use)] = np.minimum(over.min(), 1.0)
            pairs = _first(over, room)
        self.sizes_ = np.zeros(2 * p)
        self.sizes_[columns.numbers] = np.sqrt(np.sum([one.coef**2 for one in solutions], axis=0))
        return self


@dataclass
class _Search:
    """State that is constant while the Lasso is fitted."""

    run: Run
    matrix: KnockoffMatrix
    all_columns: Columns
    responses: np.ndarray
    """Shape (n_samples, n_responses), standardised."""
    total: float
    folds: list[Fold]

    @classmethod
    def over(cls, run: Run, matrix: KnockoffMatrix, loss: str) -> Self:
        """Return the state for a target."""
        n_samples, n_columns = matrix.shape
        moments = np.repeat(matrix.means, 2), np.repeat(matrix.deviations, 2)
        weight = matrix.read_weight(slice(None))
        total = float(n_samples if weight is None else weight.sum())
        bounds = np.unique(np.linspace(0, n_samples, FOLDS * RANGES_PER_FOLD + 1).astype(np.int64))
        folds = [Fold(f"{k}", bounds[:-1][k::FOLDS], bounds[1:][k::FOLDS]) for k in range(min(FOLDS, len(bounds) - 1))]
        responses = responses_of(np.asarray(matrix.read_target(slice(None))), weight, loss)
        all_columns = Columns(np.arange(n_columns), *moments)
        return cls(run.over(matrix, by="columns"), matrix, all_columns, responses, total, folds)

    def solutions(self, columns: Columns) -> list[Solution]:
        """Return the Lasso on these columns for each response."""
        found = self.run.map("lasso", sums_on_fold, self.folds, columns, self.run.keep(self.responses))
        sums = [one for one in found if one.total > 0.0]
        whole = FoldSums(sum(one.total for one in sums), sums[0].products.copy())
        for one in sums[1:]:
            whole.products[...] += one.products
        return [_cross_validated(sums, whole, len(columns.numbers), r) for r in range(self.responses.shape[1])]

    def left(self, columns: Columns, solutions: list[Solution]) -> np.ndarray:
        """Return the residuals of the Lasso."""
        coef = np.array([one.coef for one in solutions])
        active = np.flatnonzero(coef.any(axis=0))
        shared = columns.take(active), np.ascontiguousarray(coef[:, active].T)
        parts = self.run.map("what is left", predictions_on_fold, self.folds, *shared)
        left = self.responses - [one.intercept for one in solutions]
        for fold, part in zip(self.folds, parts, strict=True):
            left[fold.rows] -= part.left
        return left

    def pair_sizes(self, right: np.ndarray) -> np.ndarray:
        """Return the larger absolute covariance of each column or its knockoff with `right`, shape (p, n_right)."""
        parts = self.run.map("correlations", cross_on_fold, self.folds, self.all_columns, self.run.keep(right))
        cross = np.abs(np.sum([part.left for part in parts], axis=0)) / self.total
        return np.maximum(cross[0::2], cross[1::2])


def sums_on_fold(matrix: Matrix, columns: Columns, responses: np.ndarray, fold: Fold) -> FoldSums:
    """Return the sums of products of a fold."""
    w = len(columns.numbers) + responses.shape[1]
    sums, total, nowhere = np.zeros((padded(w + 2), padded(w + 2))), 0.0, np.zeros(w)
    for rows in fold.pieces(len(columns.numbers)):
        values = np.column_stack([columns.read(matrix, rows), responses[rows]])
        weight = _weight(matrix, rows)
        add_sums(values, weight, nowhere, sums)
        total += float(weight.sum())
    kept = np.r_[:w, w + 1]
    products = sums[np.ix_(kept, kept)]
    for a in range(w):
        products[a + 1 :, a] = products[a, a + 1 :]
    return FoldSums(total, products)


def predictions_on_fold(matrix: Matrix, columns: Columns, coef: np.ndarray, fold: Fold) -> RowsLeft:
    """Return the predictions of coefficients, shape (n_columns, n_responses), for a fold's rows."""
    return RowsLeft(
        np.concatenate([_product(columns.read(matrix, rows), coef) for rows in fold.pieces(len(columns.numbers))])
    )


def cross_on_fold(matrix: Matrix, columns: Columns, right: np.ndarray, fold: Fold) -> RowsLeft:
    """Return the weighted sums of products of all columns with those of `right` over a fold's rows."""
    found = np.zeros((len(columns.numbers), right.shape[1]))
    for rows in fold.pieces(len(columns.numbers)):
        found += _product(columns.read(matrix, rows).T, right[rows] * _weight(matrix, rows)[:, None])
    return RowsLeft(found)


def responses_of(y: np.ndarray, weight: np.ndarray | None, loss: str) -> np.ndarray:
    """Return the standardised responses of a target, shape (n_samples, n_responses).

    Examples
    --------
    >>> responses_of(np.array([0.0, 4.0, 0.0, 4.0]), None, "poisson").ravel()
    array([-1.,  1., -1.,  1.])
    >>> responses_of(np.array([1, 2, 3]), None, "multinomial").shape
    (3, 3)
    """
    kind = find_loss(loss)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    if kind.is_classifier:
        classes = np.unique(y[weight > 0.0])
        found = np.column_stack([y == label for label in (classes[1:] if len(classes) == 2 else classes)]).astype(float)
    else:
        found = y.astype(np.float64)[:, None]
        if kind.target == "count":
            found = np.sqrt(found)
        elif kind.threshold == "noise":
            middle, reach = weighted_median(found[:, 0], weight), 2.0 * default_threshold(found[:, 0], weight)
            found = np.clip(found, middle - reach, middle + reach)
    found = found - np.average(found, axis=0, weights=weight)
    deviation = np.sqrt(np.average(found**2, axis=0, weights=weight))
    return np.divide(found, deviation, out=np.zeros_like(found), where=deviation > 0.0)


def _cross_validated(folds: list[FoldSums], whole: FoldSums, m: int, response: int) -> Solution:
    """Return the Lasso on all rows at the penalty with the smallest mean error on the folds."""
    mean = whole.products[:-1, -1] / whole.total
    with_response = whole.products[:m, m + response] / whole.total - mean[:m] * mean[m + response]
    largest = float(np.abs(with_response).max(initial=0.0))
    least = 1e-2 if whole.total < m else 1e-3
    penalties = largest * least ** np.linspace(0.0, 1.0, N_PENALTIES)
    if largest == 0.0 or len(folds) < 2:
        return Solution(np.zeros(m), float(mean[m + response]), max(largest, 1e-300))
    errors, n_tried = np.zeros(N_PENALTIES), N_PENALTIES
    for fold in folds:
        of_fold, best, at = np.empty(N_PENALTIES), np.inf, 0
        for k, (coef, intercept) in enumerate(_path(whole, fold, penalties, m, response)):
            of_fold[k] = _squared_error(fold, coef, intercept, response)
            if of_fold[k] < best:
                best, at = of_fold[k], k
            if k >= min(at + PATIENCE, n_tried - 1):
                break
        n_tried = k + 1
        errors[:n_tried] += of_fold[:n_tried]
    chosen = int(np.argmin(errors[:n_tried]))
    for coef, intercept in _path(whole, None, penalties[: chosen + 1], m, response):
        solution = Solution(coef.copy(), intercept, float(penalties[chosen]))
    return solution


def _path(
    whole: FoldSums, fold: FoldSums | None, penalties: np.ndarray, m: int, response: int
) -> Iterator[tuple[np.ndarray, float]]:
    """Yield coefficients and intercept for each of decreasing penalties, without the rows of a fold.

    Coefficients are valid only until the next ones.
    """
    mean, covariance = whole.without(fold)
    hessian, left, coef = covariance[:m, :m].copy(), covariance[:m, m + response].copy(), np.zeros(m)
    tol = TOLERANCE * max(float(covariance[m + response, m + response]), 0.0) ** 0.5
    del covariance
    for penalty in penalties.tolist():
        descend(hessian, m, 0, left, coef, penalty, tol)
        yield coef, float(mean[m + response] - mean[:m] @ coef)


def _squared_error(fold: FoldSums, coef: np.ndarray, intercept: float, response: int) -> float:
    """Return the sum of squared errors on a fold."""
    m = len(coef)
    active = np.flatnonzero(coef)
    kept = np.r_[active, m + response, len(fold.products) - 1]
    of = np.r_[-coef[active], 1.0, -intercept]
    return float(of @ fold.products[np.ix_(kept, kept)] @ of)


def _first(sizes: np.ndarray, n: int) -> np.ndarray:
    """Return the ascending indices of the n largest; the first ones of equal values."""
    return np.sort(np.argsort(-sizes, kind="stable")[:n])


def _weight(matrix: Matrix, rows: slice) -> np.ndarray:
    weight = matrix.read_weight(rows)
    return np.ones(rows.stop - rows.start) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    product = np.zeros((left.shape[0], right.shape[1]))
    add_product(left, np.ascontiguousarray(right), product)
    return product
