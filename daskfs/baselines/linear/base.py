"""What the competitors of FGM share that hold all rows: columns of unit variance, classes as -1 and +1, a result."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csc_array

from daskfs.errors import ConfigError
from daskfs.matrix.base import Matrix
from daskfs.parameters import Count, Positive, n_to_select
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.fgm.loss_weight import default_C
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target, classes_of


class LinearBaseline(BaseSelector):
    """Base of l1-SVM, l1-LR and SGD-SLR: a penalised fit of all columns in memory, by falling penalties.

    The first fit with at least `n_features_to_select` columns, found by bisection, is kept, and of its columns those
    with the largest coefficients (standardised, where the matrix is dense).

    Parameters
    ----------
    n_features_to_select : int, optional
        Of the fit with the largest penalty that keeps as many, those with the largest coefficients.
    C : float, optional
        Instead, the weight of the loss; by default ten times the least that selects anything.
    memory_limit : int or str, optional
        What the fit may take, "1GiB" for example; refused where it does not suffice.
    client : distributed.Client, optional
        Has no effect: the method runs in this process.
    """

    copies: ClassVar[int]
    """Bytes for each value of X that the fit holds."""

    score_kind = "standardised coefficient"

    n_features_to_select: Count | None = None
    C: Positive | None = None
    debias = False

    @abstractmethod
    def _fit_at(self, C: float, X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float]:
        """Return coefficients and shift for one weight of the loss."""

    @abstractmethod
    def _least(self, X: Any, y: np.ndarray, weight: np.ndarray) -> float:
        """Return the C below which nothing is selected."""

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        n_samples, n_features = shape.n_samples, shape.n_features
        client = Budget().add("all values as they are stored", shape.nbytes)
        client.add("as the solver takes them", self.copies * n_samples * n_features)
        what = f"{self.method} holds all {n_samples:,} rows x {n_features:,} columns,"
        client.add("vectors over rows and columns", 200 * (n_samples + n_features)).refuse_over(
            limits.task_nbytes, what, "select with FGM, which reads columns block by block"
        )
        return SelectorPlan(
            n_tasks=1,
            n_passes=1,
            read_nbytes=shape.nbytes,
            task=Budget(),
            client=client,
            text=f"{self.method}: all rows and columns in this process",
        )

    def _check_combination(self) -> None:
        if self.C is not None and self.n_features_to_select is not None:
            raise ConfigError("expected C or n_features_to_select, found both", self.method, "leave one out")

    def _fit(self, run: Run) -> None:
        matrix, limit = run.matrix, run.task_limit
        n_samples, n_features = (int(length) for length in matrix.shape)
        n_to_select(self.n_features_to_select, n_features, n_features)
        self._plan(run.shape, Limits(limit))  # refuses what does not fit
        y, found = checked_target(matrix, self.loss), matrix.read_weight(slice(None))
        weight = np.ones(n_samples) if found is None else np.array(found, dtype=np.float64)
        used = weight > 0.0
        self.classes_ = classes_of(y[used], None)
        signs = np.where(y == self.classes_[1], 1.0, -1.0)
        with run.reported("", 1) as advance, run.timed("select"):
            X, mean, scale = _columns(matrix, weight)
            coef, shift, self.C_, self.n_fits_ = self._search(X[used], signs[used], weight[used])
            advance()
        self._finish(run, coef, shift, mean, scale, float(weight.sum()))

    def _search(self, X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float, float, int]:
        """Return coefficients, shift, C and how many fits it took."""
        if self.n_features_to_select is None:
            C = float(self.C) if self.C is not None else 10.0 * self._least(X, y, weight)
            return (*self._fit_at(C, X, y, weight), C, 1)
        wanted, low = self.n_features_to_select, self._least(X, y, weight)
        high, n_fits = 1.5 * low, 1
        fit = self._fit_at(high, X, y, weight)
        while np.count_nonzero(fit[0]) < wanted and n_fits < 30:
            low, high, n_fits = high, 1.5 * high, n_fits + 1
            fit = self._fit_at(high, X, y, weight)
        for _ in range(10):
            if np.count_nonzero(fit[0]) <= wanted:
                break
            middle = float(np.sqrt(low * high))
            n_fits += 1
            trial = self._fit_at(middle, X, y, weight)
            if np.count_nonzero(trial[0]) >= wanted:
                high, fit = middle, trial
            else:
                low = middle
        coef, shift = fit
        order = np.lexsort((np.arange(len(coef)), -np.abs(coef)))
        coef[order[wanted:]] = 0.0
        return coef, shift, high, n_fits

    def _finish(
        self, run: Run, coef: np.ndarray, shift: float, mean: np.ndarray, scale: np.ndarray, total_weight: float
    ) -> None:
        chosen = np.flatnonzero(coef)
        self.support_ = coef != 0.0
        self.scores_ = np.abs(coef)
        self.coef_ = coef * scale
        self.intercept_ = float(shift - (mean[chosen] * self.coef_[chosen]).sum())
        self.selected_ = chosen[np.lexsort((chosen, -self.scores_[chosen]))]
        notes = [f"{len(chosen)} columns have a coefficient at C = {self.C_:.4g}, found in {self.n_fits_} fit(s)"]
        wanted = self.n_features_to_select
        if wanted is not None and len(chosen) < wanted:
            notes.append(f"{wanted} features were asked for, but no penalty tried keeps as many")
        if self.debias and len(self.selected_):
            notes.append(self._refit(run, total_weight))
        self.result_ = self._result_of(run, notes=notes, chosen={"C": self.C_})

    def _refit(self, run: Run, total_weight: float) -> str:
        """Fit the selected columns alone, without the penalty that shrank them, as FGM does with its default C."""
        columns, loss = self.selected_, str(self.loss)
        ridge = 1.0 / (default_C(total_weight, loss, 1.0) * total_weight)
        fit = refit_selected(run, columns, MeanLoss(loss, float(self.classes_[1]), ridge=ridge))
        self.coef_[columns], self.intercept_ = fit.coef, fit.intercept
        return f"the coefficients are those of a refit on the {len(columns)} columns alone"


def _columns(matrix: Matrix, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return X standardised (a sparse one as it is), the means and the inverse deviations."""
    n_features = int(matrix.shape[1])
    entries = matrix.sparse_columns(slice(None))
    if entries is not None:
        shape = (entries.n_base_rows, n_features)
        X = csc_array((entries.data, entries.indices, entries.indptr), shape=shape).tocsr()
        return X if entries.taken is None else X[entries.taken], np.zeros(n_features), np.ones(n_features)
    X = np.array(matrix.read(slice(None)), dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is refused with its place
        mean = np.average(X, axis=0, weights=weight)
        X -= mean
        deviation = np.sqrt(np.average(X * X, axis=0, weights=weight))
    if not np.isfinite(deviation).all():
        raise matrix.bad_column(int(np.flatnonzero(~np.isfinite(deviation))[0]))
    scale = np.divide(1.0, deviation, out=np.zeros(n_features), where=deviation > 1e-12 * np.abs(mean))
    X *= scale
    return X, mean, scale
