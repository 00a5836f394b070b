"""Ridge elimination: fit all columns with a ridge, keep the third with the largest coefficients, and repeat.

    1. Scale the columns and fit all of them with a ridge.
    2. Keep the third with the largest coefficients and refit them, starting from their coefficients.
    3. Repeat down to the wanted number of columns.

Recursive feature elimination with a linear machine: I. Guyon, J. Weston, S. Barnhill, V. Vapnik (2002): Gene selection
for cancer classification using support vector machines. Machine Learning 46, 389-422. There, half of the columns leave
at a time, and the model is a support vector machine.

If many weak features carry the signal together, no short selection predicts as well as all of them. All columns are
held in memory: dense ones as float32, sparse ones as their entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from daskfs.baselines.linear.all_columns import AllColumns, refuse_non_finite, rows_of
from daskfs.baselines.linear.ridge_newton import Problem, fit_ridge, null_solution
from daskfs.losses import Loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import as_vector
from daskfs.parameters import Count, LossOf, Positive, n_to_select
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target

LOSSES = ("squared", "logistic", "multinomial")
"""Losses of the ridges, and of `daskfs.Auto`."""
KEPT = 1 / 3
"""Share of the columns kept from one fit to the next."""
FEWEST = 50
"""Fewest columns on a path. With fewer columns and few rows, many ridges fit the folds by chance."""
RIDGES = tuple(10.0 ** (1.0 - 0.5 * k) for k in range(11))
"""Ridges, decreasing, as shares of the sum of the columns' variances."""
BLOCK = 1 << 17
"""Number of values centred together in float64."""
N_VECTORS = 16
"""Number of values that the solver holds for each column and target."""


class LaidOut(NamedTuple):
    """All rows in memory."""

    X: Any
    """Dense, or a csr_array of float64."""
    y: np.ndarray
    weight: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    """Weighted standard deviations of the columns."""

    def problem(self, y: np.ndarray, loss: Loss, inverse: np.ndarray) -> Problem:
        """Return the problem of the columns times `inverse`; dense columns are centred."""
        if isinstance(self.X, np.ndarray):
            X: Any = np.empty(self.X.shape, dtype=np.float32)
            for some in _blocks(self.X):
                X[some] = (self.X[some] - self.mean) * inverse
        else:
            X = csr_array((self.X.data * inverse[self.X.indices], self.X.indices, self.X.indptr), shape=self.X.shape)
        mean = 0.0 if isinstance(X, np.ndarray) else self.mean
        squares = self.weight.sum() * (self.scale**2 + mean**2) * inverse**2
        return Problem(X, y, self.weight[:, None], loss, squares[:, None])


def laid_out(matrix: Matrix) -> LaidOut:
    """Return all rows of a matrix, with the means and standard deviations of its columns."""
    y, given = as_vector(matrix.read_target(slice(None))), matrix.read_weight(slice(None))
    weight = np.ones(len(y)) if given is None else as_vector(given)
    X: Any = rows_of(matrix)
    total = weight.sum()
    if isinstance(X, np.ndarray):
        mean, square = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        for some in _blocks(X):
            mean += weight[some] @ X[some].astype(np.float64)
        mean /= total
        for some in _blocks(X):
            square += weight[some] @ (X[some] - mean) ** 2
        variance = square / total
    else:
        mean = (weight @ X) / total
        variance = (weight @ X.power(2)) / total - mean**2
    if not np.isfinite(variance).all():
        refuse_non_finite(matrix, np.flatnonzero(~np.isfinite(variance)))
    is_constant = variance <= 1e-12 * (mean**2 + variance)
    return LaidOut(X, y, weight, mean, np.where(is_constant, 0.0, np.sqrt(np.maximum(variance, 0.0))))


def _blocks(X: np.ndarray) -> Iterator[slice]:
    """Yield slices of rows that are centred together."""
    step = max(1, BLOCK // X.shape[1])
    return (slice(start, start + step) for start in range(0, len(X), step))


def larger_ridges(ridge: float, loss: Loss) -> list[float]:
    """Return the ridges with which a fit begins: from far away, Newton's steps for classes hardly come near.

    Examples
    --------
    >>> from daskfs.losses import find_loss
    >>> larger_ridges(2.0, find_loss("logistic")), larger_ridges(2.0, find_loss("squared"))
    ([10.0, 3.1622776601683795], [])
    """
    return [] if loss.is_quadratic else [one for one in RIDGES if one > ridge]


class Step(NamedTuple):
    """A fit of some columns, on the scale of the data."""

    columns: np.ndarray
    """Columns, ascending."""
    coef: np.ndarray
    """Shape (n_columns, n_targets)."""
    intercept: np.ndarray
    importance: np.ndarray
    """Norms of the coefficients of the columns scaled to unit variance."""


def sizes_to(fewest: int, n_features: int) -> list[int]:
    """Return the numbers of columns of the successive fits, decreasing.

    Examples
    --------
    >>> sizes_to(10, 2000), sizes_to(10, 12), sizes_to(5, 4)
    ([2000, 666, 222, 74, 24, 10], [12, 10], [4])
    """
    sizes = [n_features]
    while (size := int(sizes[-1] * KEPT)) > fewest:
        sizes.append(size)
    return [*sizes, fewest] if sizes[-1] > fewest else sizes


def eliminate(
    data: LaidOut, y: np.ndarray, loss: Loss, scaling: str, ridges: Sequence[float], sizes: Sequence[int]
) -> Iterator[list[Step]]:
    """Yield, for each ridge, the fits on decreasing numbers of columns.

    Parameters
    ----------
    data : LaidOut
    y : ndarray of shape (n_samples, n_targets)
    loss : Loss
        One of `LOSSES`.
    scaling : {"unit", "none"}
    ridges : sequence of float
        Shares of the sum of the variances of the fitted columns, decreasing. Each fit starts from the one before.
    sizes : sequence of int
        Decreasing; the first is the number of all columns.
    """
    inverse = np.divide(1.0, data.scale, out=np.zeros(len(data.scale)), where=data.scale > 0.0)
    if scaling == "none":
        inverse = np.where(data.scale > 0.0, 1.0, 0.0)
    problem = data.problem(y, loss, inverse)
    centre = data.mean if isinstance(data.X, np.ndarray) else np.zeros(len(data.mean))
    variance = (data.scale * inverse) ** 2
    total, of_all = float(variance.sum()), null_solution(problem)
    for ridge in larger_ridges(ridges[0], loss):
        of_all = fit_ridge(problem, ridge * total, of_all)
    for ridge in ridges:
        of_all = now = fit_ridge(problem, ridge * total, of_all)
        columns, some, steps = np.arange(len(inverse)), problem, list[Step]()
        for size in sizes:
            if size < len(columns):
                importance = _norms(now[:-1] * (inverse * data.scale)[columns, None])
                kept = np.sort(np.argsort(-importance, kind="stable")[:size])
                columns, some = columns[kept], some.of_columns(kept)
                now = fit_ridge(some, ridge * float(variance[columns].sum()), now[np.append(kept, -1)])
            coef = now[:-1] * inverse[columns, None]
            importance = _norms(coef * data.scale[columns, None])
            steps.append(Step(columns, coef, now[-1] - centre[columns] @ coef, importance))
        yield steps


def _norms(coef: np.ndarray) -> np.ndarray:
    norms: np.ndarray = np.sqrt((coef**2).sum(axis=1))
    return norms


class RidgeElimination(AllColumns):
    """Fit all columns with a ridge, and drop the two thirds with the smallest coefficients, repeatedly.

    Parameters
    ----------
    n_features_to_select : int, optional
        Number of columns that remain; by default all.
    loss : {"auto", "squared", "logistic", "multinomial"}
        Several classes have one model with the multinomial loss, the default; with the logistic loss, each is fitted
        against the rest.
    ridge : float
        Penalty, as a share of the sum of the columns' variances, relative to the sum of the rows' losses.
    scaling : {"unit", "none"}
        "unit" scales columns to unit variance. With "none", words and categories of few rows count less.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns by decreasing size of their scaled coefficients.
    scores_ : ndarray of shape (n_features,)
        Sizes of the scaled coefficients, or their norms over the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfs.baselines.linear.ridge_elimination import RidgeElimination
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 30))
    >>> selector = RidgeElimination(n_features_to_select=2).fit(X, X[:, 3] - X[:, 7])
    >>> np.sort(selector.selected_)
    array([3, 7])
    """

    method = "ridge_elimination"
    score_kind = "standardised coefficient"

    n_features_to_select: Count | None = None
    loss: Annotated[str, LossOf(among=LOSSES, several=True)] = "auto"
    ridge: Positive = 1e-2
    ridges: ClassVar[tuple[float, ...]] = RIDGES
    scaling: Literal["unit", "none"] = "unit"

    @staticmethod
    def sizes_of(n_features: int) -> list[int]:
        """Return the numbers of columns of its path, decreasing."""
        return sizes_to(FEWEST, n_features)

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        n_targets = max(1, shape.n_classes if shape.n_classes > 2 or self._loss.has_classes else 1)
        task = Budget()
        if shape.n_entries is None:
            task.add("all columns, as read and scaled", shape.nbytes + 6 * shape.n_samples * shape.n_features)
            task.add("rows that are centred together", 3 * 8 * max(BLOCK, shape.n_features))
        else:
            task.add("all entries, as read and scaled", 44 * shape.n_entries)
        task.add("vectors over columns and rows", 8 * N_VECTORS * n_targets * (shape.n_features + shape.n_samples))
        task.add("tiles", shape.tiles_nbytes)
        task.refuse_over(limits.task_nbytes, "all columns in memory take", "ask for a number of features")
        return SelectorPlan(1, 1, shape.nbytes, task, Budget(), "all columns are held in memory")

    def _fit(self, run: Run) -> None:
        self._plan(run.shape, run.limits)
        n_features = run.matrix.shape[1]
        size = n_to_select(self.n_features_to_select, n_features, n_features)
        with run.timed("ridge"), run.reported("ridge", 1):
            data = laid_out(run.matrix)
            checked_target(run.matrix, self.loss_)
            y = self.targets(data.y)
            sizes = sizes_to(size, n_features)
            (steps,) = eliminate(data, y, self._loss, self.scaling, [self.ridge], sizes)
        self.take(steps[-1])
        self.result_ = self._result_of(run, notes=[])

    def take(self, step: Step) -> Self:
        """Select the columns of a fit."""
        is_one = step.coef.shape[1] == 1
        coef = step.coef[:, 0] if is_one else step.coef.T
        self._set_selection(step.columns, step.importance, coef, step.intercept[0] if is_one else step.intercept)
        return self
