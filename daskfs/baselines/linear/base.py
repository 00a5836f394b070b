"""Base class of the FGM baselines that hold all rows: standardised columns, the search for C, the result."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csc_array, diags_array

from daskfs.baselines.base import SizedBaseline
from daskfs.errors import ConfigError
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.parameters import Positive, n_to_select
from daskfs.selectors.fgm.loss_weight import default_C
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.run import Run


@dataclass(frozen=True, slots=True)
class PenalisedFit(Record):
    """A fit at one weight of the loss."""

    coef: np.ndarray
    """Coefficients of standardised columns, shape (n_features,); with groups, those of each group in turn."""
    intercept: float
    n_iter: int


class LaidOut(NamedTuple):
    """All columns as the solver needs them: rows of positive weight, and the standardisation."""

    X: Any
    mean: np.ndarray
    """Shape (n_features,)."""
    inverse: np.ndarray
    """Inverses of the standard deviations; 0 for a constant column."""


class LinearBaseline(SizedBaseline):
    """Base class of l1-SVM, l1-LR, SGD-SLR and the group methods: fits of all columns on decreasing penalties.

    Bisection finds the first fit with at least `n_features_to_select` columns, and the columns with the largest
    coefficients are kept. An interrupted search resumes after the last C that was solved.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        Number of features: those with the largest coefficients in the fit of the largest penalty that keeps as many.
        "cv" chooses the number by cross-validation. A mapping does so with the options `cv`, `sizes`, `rule`, `metric`,
        `groups` and `order` of `daskfs.SelectionCV`.
    C : float, optional
        Weight of the loss; an alternative to `n_features_to_select`. By default ten times the smallest that selects
        anything.
    memory_limit : int or str, optional
        Memory that the fit may use, for example "1GiB". A limit that is too small raises an error.
    client : distributed.Client, optional
        Has no effect: the method runs in this process.
    """

    copies: ClassVar[int]
    """Bytes that the fit holds for each value of X."""

    score_kind = "standardised coefficient"

    C: Positive | None = None
    debias = False

    @abstractmethod
    def _solve(self, C: float, X: Any, y: np.ndarray, weight: np.ndarray, start: PenalisedFit | None) -> PenalisedFit:
        """Return the fit at one weight of the loss; `start` is the fit before it, if there was one."""

    @abstractmethod
    def _least(self, X: Any, y: np.ndarray, weight: np.ndarray) -> float:
        """Return the C below which nothing is selected."""

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        n_samples, n_features = shape.n_samples, shape.n_features
        client = Budget().add("all values as they are stored", shape.nbytes)
        client.add("as the solver takes them", self.copies * n_samples * n_features)
        client.add("vectors over rows and columns", 200 * (n_samples + n_features)).include(self._held(shape))
        what = f"{self.method} holds all {n_samples:,} rows x {n_features:,} columns,"
        client.refuse_over(limits.task_nbytes, what, "select with FGM, which reads columns block by block")
        text = f"{self.method}: all rows and columns in this process"
        return SelectorPlan(1, 1, shape.nbytes, Budget(), client, text, "everything: one machine holds all rows")

    def _held(self, shape: DataShape) -> Budget:
        """Return what the method holds in addition."""
        return Budget()

    def _check_combination(self) -> None:
        if self.C is not None and self.n_features_to_select is not None:
            raise ConfigError("expected C or n_features_to_select, found both", self.method, "set only one of them")

    def _fit(self, run: Run) -> None:
        n_units = self._n_units(run)
        n_to_select(self.n_features_to_select, n_units, n_units)
        self._plan(run.shape, run.limits)  # raises an error if the fit needs too much memory
        y, weight = self._target_and_weight(run.matrix)
        used = weight > 0.0
        self.n_fits_ = 0
        with run.reported("", 1) as advance, run.timed("select"):
            laid_out = self._laid_out(run, y, weight)
            rows = laid_out.X, y[used], weight[used]
            coef, intercept = self._search(laid_out.X, self._least(*rows), partial(self._fit_at, run, [], *rows))
            advance()
        of_table = self._take(laid_out, coef, intercept)
        columns = self.selected_
        notes = [f"{len(columns)} columns have a coefficient at C = {self.C_:.4g}, found in {self.n_fits_} fit(s)"]
        if self._shortfall():
            notes.append("no penalty tried keeps more features")
        if self.debias and len(columns):
            notes.append(self._debiased(run, float(weight.sum())))
        self.result_ = self._result_of(run, notes=notes, chosen={"C": self.C_}, columns=of_table)

    def _n_units(self, run: Run) -> int:
        """Return the number of units to select from: features, or groups."""
        return run.shape.n_features

    def _laid_out(self, run: Run, y: np.ndarray, weight: np.ndarray) -> LaidOut:
        """Return X standardised; sparse X as it is."""
        X, mean, inverse = _columns(run.matrix, weight)
        column_weight = run.matrix.weights_of_columns()
        if column_weight is not None:
            X = X * column_weight if isinstance(X, np.ndarray) else X @ diags_array(column_weight).tocsr()
            inverse = inverse * column_weight
        return LaidOut(X[weight > 0.0], mean, inverse)

    def _sizes(self, X: Any, coef: np.ndarray) -> np.ndarray:
        """Return the size of the coefficients of each unit."""
        return np.abs(coef)

    def _without(self, X: Any, coef: np.ndarray, dropped: np.ndarray) -> np.ndarray:
        """Return the coefficients without those of the dropped units."""
        kept = coef.copy()
        kept[dropped] = 0.0
        return kept

    def _take(self, laid_out: LaidOut, coef: np.ndarray, intercept: float) -> dict[str, np.ndarray]:
        """Set the selection, and return further columns of the result's table."""
        columns = np.flatnonzero(coef)
        on_scale = coef[columns] * laid_out.inverse[columns]
        shift = (laid_out.mean[columns] * on_scale).sum()
        self._set_selection(columns, np.abs(coef[columns]), on_scale, intercept - shift)
        return {}

    def _search(self, X: Any, least: float, fit_at: Callable[[float], PenalisedFit]) -> tuple[np.ndarray, float]:
        """Set C. Return the coefficients of the standardised columns and the intercept."""

        def n_kept(fit: PenalisedFit) -> int:
            return int(np.count_nonzero(self._sizes(X, fit.coef)))

        wanted = self.n_features_to_select
        if wanted is None:
            self.C_ = 10.0 * least if self.C is None else float(self.C)
            fit = fit_at(self.C_)
            return fit.coef, fit.intercept
        low, high = least, 1.5 * least
        fit = fit_at(high)
        while n_kept(fit) < wanted and self.n_fits_ < 30:
            low, high = high, 1.5 * high
            fit = fit_at(high)
        for _ in range(10):
            if n_kept(fit) <= wanted:
                break
            middle = float(np.sqrt(low * high))
            trial = fit_at(middle)
            if n_kept(trial) >= wanted:
                high, fit = middle, trial
            else:
                low = middle
        self.C_, sizes = high, self._sizes(X, fit.coef)
        dropped = np.lexsort((np.arange(len(sizes)), -sizes))[wanted:]
        return self._without(X, fit.coef, dropped), fit.intercept

    def _fit_at(
        self, run: Run, before: list[PenalisedFit], X: Any, y: np.ndarray, weight: np.ndarray, C: float
    ) -> PenalisedFit:
        """Return the fit at C, from a checkpoint or new. It is appended to `before`."""
        fit = run.load(f"C-{C!r}", PenalisedFit)
        if fit is None:
            fit = self._solve(C, X, y, weight, before[-1] if before else None)
            run.save(f"C-{C!r}", fit)
        before[:] = [fit]
        self.n_fits_, self.n_iter_ = self.n_fits_ + 1, fit.n_iter
        return fit

    def _debiased(self, run: Run, total_weight: float) -> str:
        """Refit the selected columns alone, without the penalty that shrank them, as FGM does."""
        is_likelihood = find_loss(self.loss_).is_likelihood
        ridge = None if is_likelihood else 1.0 / (default_C(total_weight, self.loss_, 1.0) * total_weight)
        fit = self._refitted(run, self.selected_, ridge)
        self.coef_[self.selected_], self.intercept_ = fit.coef, fit.intercept
        return f"the coefficients are those of a refit on the {len(self.selected_)} columns alone"


def _columns(matrix: Matrix, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return X standardised (sparse X as it is), the means, and the inverse standard deviations."""
    n_features = int(matrix.shape[1])
    entries = matrix.sparse_columns(slice(None))
    if entries is not None:
        shape = (entries.n_base_rows, n_features)
        X = csc_array((entries.data, entries.indices, entries.indptr), shape=shape).tocsr()
        return X if entries.taken is None else X[entries.taken], np.zeros(n_features), np.ones(n_features)
    X = np.array(matrix.read(slice(None)), dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # checked below
        mean = np.average(X, axis=0, weights=weight)
        X -= mean
        deviation = np.sqrt(np.average(X * X, axis=0, weights=weight))
    if not np.isfinite(deviation).all():
        raise matrix.bad_column(int(np.flatnonzero(~np.isfinite(deviation))[0]))
    scale = np.divide(1.0, deviation, out=np.zeros(n_features), where=deviation > 1e-12 * np.abs(mean))
    X *= scale
    return X, mean, scale
