"""Algorithm 1 of FGM: worst-case analyses and subproblems by turns, what ends them, and what a checkpoint keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from daskfs.selectors.fgm.plan import Cut, Sizes
from daskfs.selectors.fgm.restricted_problem import RestrictedProblem, Solution, lower_bound
from daskfs.selectors.fgm.tasks import (
    Best,
    ColumnMoments,
    ColumnRange,
    best_of_block,
    best_of_both,
    read_columns,
    sums_of_block,
)
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.run import Run

PRIOR_ROWS = 30.0  # of dummies, counts and tf-idf, see `prior_variance`
COMMON_SIZE = 3.0  # factor up to which columns are taken to share a unit
OPTIMAL_GAP = 1e-7  # at which the passes end: what has been selected is the optimum over all columns
HISTORY = ("pass", "features", "new", "objective", "loss", "gap", "largest_score", "iterations", "held_out_loss")


def column_moments(run: Run, cut: Cut, weight: np.ndarray, is_weighted: bool) -> ColumnMoments:
    """Return means, standard deviations and minima of all columns: the store's, or of these rows, in a pass.

    Parameters
    ----------
    run : Run
    cut : Cut
    weight : ndarray of shape (n_samples,)
        Rows of 0 take no part.
    is_weighted : bool
        Whether any weight differs from 1.

    Raises
    ------
    DataError
        NaN or infinity, with the column's name.
    """
    known = None if is_weighted else run.matrix.column_statistics()
    if known is None:
        parts = run.map("statistics", sums_of_block, _blocks(run, cut), weight, record=ColumnMoments)
        return ColumnMoments.joined(parts)
    is_finite = np.isfinite(known.minimum) & np.isfinite(known.maximum) & np.isfinite(known.std)
    bad = np.flatnonzero((known.n_missing > 0) | ~is_finite)
    if len(bad):
        raise run.matrix.bad_column(int(bad[0]))
    return ColumnMoments(known.mean, known.std, known.minimum)


def _blocks(run: Run, cut: Cut) -> list[ColumnRange]:
    n_features = run.matrix.shape[1]
    starts = range(0, n_features, cut.width)
    return [ColumnRange(start, min(start + cut.width, n_features), cut.piece_rows) for start in starts]


@dataclass(frozen=True, slots=True)
class Scaling:
    """How columns are standardised on the fly: x̃_j = (x_j - centre_j) inverse_j."""

    centre: np.ndarray
    """Shape (n_features,); 0 where columns are not centred."""
    inverse: np.ndarray
    """0 of a column that says nothing; else 1 where columns are not normalised."""
    variance: np.ndarray
    """Of the columns x̃_j about their means."""
    n_mostly_zero: int = 0
    """Columns whose deviations were taken with `PRIOR_ROWS` more rows."""

    @classmethod
    def of(cls, moments: ColumnMoments, n_rows: float, is_centred: bool, normalize: bool | str) -> Self:
        """Return the scaling of columns with these moments over so many rows; `normalize` is that of FGM."""
        mean, deviation = moments.mean, moments.deviation
        spread = deviation if is_centred else np.sqrt(deviation * deviation + mean * mean)
        further, n_mostly_zero = np.zeros(len(spread)), 0
        if normalize == "auto":
            further = prior_variance(moments, n_rows)
            n_mostly_zero = int((further > 0.0).sum())
        scale = np.hypot(spread, np.sqrt(further))
        inverse = np.divide(1.0, scale, out=np.zeros(len(scale)), where=spread > 0.0)
        if not normalize:
            inverse = (spread > 0.0).astype(np.float64)
        centre = mean.copy() if is_centred else np.zeros(len(mean))
        return cls(centre, inverse, (deviation * inverse) ** 2, n_mostly_zero)


def prior_variance(moments: ColumnMoments, n_rows: float) -> np.ndarray:
    """Return what is added to the variances of dummies, counts and tf-idf, by which columns are divided; 0 of others.

    Columns are taken for such where no value is below 0 and some are 0. Divided by its deviation alone, a category of 5
    rows of 10,000 scores as high as one of 5,000 where both say as much of their own rows: the few rows of each of
    many categories say something by chance. `PRIOR_ROWS` more rows, as large as the column's own that are not 0, let it
    count for ``m / (m + PRIOR_ROWS)`` of that, m = (Σ x)² / Σ x² rows on which it stands. How large they are is the
    columns' common size where a column's own is within `COMMON_SIZE` of it, so that a word's many mentions count.

    Parameters
    ----------
    moments : ColumnMoments
    n_rows : float
        The sum of the weights.

    Returns
    -------
    ndarray of shape (n_features,), float64

    Examples
    --------
    >>> share = np.array([0.5, 0.01])
    >>> dummies = ColumnMoments(share, np.sqrt(share * (1.0 - share)), np.zeros(2))
    >>> prior_variance(dummies, 1000.0).round(3)
    array([0.022, 0.022])
    """
    mean, variance = moments.mean, moments.deviation**2
    chosen = (moments.minimum == 0.0) & (variance > 0.0)
    further = np.zeros(len(mean))
    if chosen.any():
        mean, variance = mean[chosen], variance[chosen]
        size = variance * (1.0 + (moments.deviation[chosen] / mean) ** 2)  # n variance / m
        common = np.median(size)
        further[chosen] = PRIOR_ROWS / n_rows * np.clip(common, size / COMMON_SIZE**2, size * COMMON_SIZE**2)
    return further


class Columns:
    """The columns of a matrix as FGM sees them: standardised on the fly, scored and read where the tasks run."""

    def __init__(self, run: Run, cut: Cut, scaling: Scaling) -> None:
        self.run, self.cut, self.scaling = run, cut, scaling
        self.n_passes = 0
        """Worst-case analyses so far."""
        none = np.empty(0, np.int64)
        self._best = Best(none, none, none, np.empty((0, run.matrix.shape[0]), run.matrix.dtype))
        """What the last one found: the best columns, and the values of those that could be foreseen."""

    def worst_case(self, v: np.ndarray, n_wanted: int, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns with the largest scores: Algorithms 2 and 5.

        The best of the last analysis that are not held are most often the best of this one: the tasks keep the values
        of some of them, so that the tiles need not be decoded again for those that a group takes.

        Parameters
        ----------
        v : ndarray of shape (n_classes, n_samples)
            Dual variables.
        n_wanted : int
        held : ndarray of int64
            Columns whose values are not needed.

        Returns
        -------
        columns : ndarray of shape (<= n_wanted,), int64
            By falling score, ties by number.
        scores : ndarray
            Theirs, ``Σ_c (x̃_jᵀ v_c)²``.
        """
        scaling = self.scaling
        parts = [
            part.scaled(scaling.centre[part.start : part.stop], scaling.inverse[part.start : part.stop])
            for part in _blocks(self.run, self.cut)
        ]
        last = self._best.columns
        likely = np.sort(last[~np.isin(last, held)][: self.cut.n_foreseen])
        n_asked = n_wanted + self.cut.n_foreseen
        join = partial(best_of_both, n_wanted=n_asked)
        self._best = self.run.reduce("scores", best_of_block, parts, join, v, n_asked, likely)
        self.n_passes += 1
        return self._best.columns[:n_wanted], self._best.scores[:n_wanted]

    def give(self, problem: RestrictedProblem, columns: np.ndarray) -> None:
        """Read columns for a restricted problem to keep, which does not have them."""
        if not len(columns):
            return
        order = np.argsort(columns, kind="stable")
        values = np.empty((len(columns), self.run.matrix.shape[0]), self.run.matrix.dtype)
        kept = {column: at for at, column in enumerate(self._best.kept.tolist())}
        is_kept = np.isin(columns[order], self._best.kept)
        for k in order[is_kept].tolist():
            values[k] = self._best.values[kept[int(columns[k])]]
        order = order[~is_kept]
        groups = self._read_groups(columns[order])
        at = np.cumsum([0, *(len(group) for group in groups)])
        for k, part in self.run.each("columns", read_columns, groups):
            values[order[at[k] : at[k + 1]]] = part
        problem.keep(columns, values, self.scaling.centre[columns], self.scaling.inverse[columns])

    def _read_groups(self, ascending: np.ndarray) -> list[np.ndarray]:
        """Return columns by the tasks that read them: those of one block of tiles together."""
        if self.run.matrix.is_resident:
            return [ascending]
        tile = max(1, self.run.matrix.tile_shape[1])
        groups: list[list[int]] = []
        for column in ascending.tolist():
            if groups and groups[-1][0] // tile == column // tile and len(groups[-1]) < self.cut.n_read:
                groups[-1].append(column)
            else:
                groups.append([column])
        return [np.array(group, dtype=np.int64) for group in groups]


class Pass(NamedTuple):
    """A line of the history, see HISTORY."""

    number: float
    n_features: float
    n_new: float
    objective: float
    loss: float
    gap: float
    """Before the pass."""
    largest_score: float
    n_iter: float
    held_out_loss: float


@dataclass(frozen=True, slots=True)
class KeptPasses(Record):
    """What a checkpoint knows of the passes so far."""

    solution: Solution
    bound: float
    history: np.ndarray
    """Shape (n_passes, len(HISTORY))."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """What ends the passes."""

    n_wanted: int | None
    tol: float
    held_out: np.ndarray | None
    """Weights of the rows held out, 0 of the others."""
    patience: int


class Passes:
    """The passes over the columns of one matrix, for one C.

    Parameters
    ----------
    columns : Columns
    problem : RestrictedProblem
        Without a group.
    sizes : Sizes
    stopping : Stopping
    name : str
        What sets the checkpoints apart from those of another C.
    """

    def __init__(
        self, columns: Columns, problem: RestrictedProblem, sizes: Sizes, stopping: Stopping, name: str = ""
    ) -> None:
        self.columns, self.problem, self.sizes, self.stopping = columns, problem, sizes, stopping
        self.name, self._kept = name, f"{name}-pass" if name else "pass"
        self.null_objective = problem.objective
        self.bound = -np.inf
        """The best lower bound of the optimum over all columns."""
        self.history: list[Pass] = []
        self.reason = ""
        self.notes: list[str] = []

    def run(self) -> None:
        """Pass after pass, from the last one that a checkpoint has, until a rule ends it."""
        run, problem, stopping = self.columns.run, self.problem, self.stopping
        self._resume()
        with run.reported(self.name, self.sizes.n_passes, len(self.history)) as advance:
            is_done = self._is_done() if self.history else False
            while not is_done:
                found, scores = self.score()
                gap_before, group = self.gap, self._group(found)
                if not len(group):
                    self.reason = "no column has a score above 0"
                    break
                if stopping.n_wanted is None and gap_before <= OPTIMAL_GAP:
                    self.reason = "the optimum over all columns is reached"
                    break
                n_new = int((~np.isin(group, problem.features)).sum())
                self.columns.give(problem, problem.missing(group))
                problem.add_group(group)
                with run.timed("subproblems"):
                    n_iter = problem.solve()
                held_out = np.nan if stopping.held_out is None else problem.mean_loss(stopping.held_out)
                number, n_features = len(self.history) + 1, len(self.selected()[0])
                line = (number, n_features, n_new, problem.objective, problem.loss, gap_before, scores[0], n_iter)
                self.history.append(Pass(*map(float, (*line, held_out))))
                is_done = self._is_done()
                kept = KeptPasses(problem.solution(), float(self.bound), np.array(self.history))
                run.save(f"{self._kept}-{number}", kept)
                advance()

    def score(self) -> tuple[np.ndarray, np.ndarray]:
        """Score all columns at the present solution, which raises the lower bound; return the largest."""
        v, known = self.problem.dual(), self.problem.features
        n_asked = self.sizes.per_pass + (0 if self.stopping.n_wanted is None else len(known))
        found, scores = self.columns.worst_case(v, n_asked, known)
        quadratic = float(scores[: self.sizes.per_pass].sum())
        self.bound = max(self.bound, lower_bound(self.problem.rows, v.ravel(), quadratic))
        return found, scores

    def fit_all_rows(self, share: np.ndarray) -> None:
        """Fit the groups up to the pass with the lowest held-out loss on all rows, those held out too.

        Parameters
        ----------
        share : ndarray of shape (n_samples,)
            C times weight of all rows.
        """
        n_groups = 0
        if self.history:
            n_groups = 1 + int(np.argmin([line.held_out_loss for line in self.history]))
            self.notes.append(f"the loss of the rows held out was lowest after pass {n_groups} of {len(self.history)}")
        with self.columns.run.timed("subproblems"):
            self.problem.refit(share, n_groups)
        self.bound = -np.inf  # the bounds so far are of fewer rows
        self.notes.append("the chosen groups were fitted again on all rows, those held out included")

    def selected(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the selected columns, ascending, and the coefficients of the standardised columns.

        Those in any group where a number was asked for, else those with a coefficient; of shapes (n_selected,) and
        (n_classes, n_selected).
        """
        features, coef = self.problem.coefficients()
        kept = coef.any(axis=0) if self.stopping.n_wanted is None else np.ones(len(features), dtype=bool)
        return features[kept], coef[:, kept]

    @property
    def lowest_held_out(self) -> float:
        """The lowest mean loss of the rows held out, after any pass."""
        return min((line.held_out_loss for line in self.history), default=float("inf"))

    @property
    def gap(self) -> float:
        """Share of the objective by which it may lie above the optimum over all columns."""
        objective = self.problem.objective
        return max(0.0, (objective - self.bound) / objective) if objective > 0.0 and np.isfinite(self.bound) else 0.0

    def history_columns(self) -> dict[str, np.ndarray]:
        """Return the history as a result has it."""
        lines = np.array(self.history).reshape(-1, len(HISTORY))
        columns = {name: lines[:, k] for k, name in enumerate(HISTORY)}
        columns |= {name: columns[name].astype(np.int64) for name in ("pass", "features", "new", "iterations")}
        if self.stopping.held_out is None:
            del columns["held_out_loss"]
        return columns

    def _group(self, found: np.ndarray) -> np.ndarray:
        """Return the B largest; where a number of features is asked for, no more new ones than are left to it.

        Features that a group has already may come again, as long as the passes left suffice for the number; then, and
        where none of the B largest is new, the best new ones are taken alone.
        """
        per_pass, n_wanted = self.sizes.per_pass, self.stopping.n_wanted
        if n_wanted is None:
            return found[:per_pass]
        known = self.problem.features
        is_new, n_left = ~np.isin(found, known), n_wanted - len(known)
        n_passes_left = self.sizes.n_passes - len(self.history)
        if -(-n_left // per_pass) >= n_passes_left or not is_new[:per_pass].any():
            return found[is_new][: min(per_pass, n_left)]
        return found[:per_pass][~is_new[:per_pass] | (np.cumsum(is_new[:per_pass]) <= n_left)]

    def _is_done(self) -> bool:
        """Whether a rule ends the passes; says which."""
        stopping, objective = self.stopping, self.problem.objective
        n_selected = len(self.selected()[0])
        if stopping.n_wanted is not None and n_selected >= stopping.n_wanted:
            self.reason = f"{n_selected} features were asked for"
            return True
        if stopping.held_out is not None:
            losses = [line.held_out_loss for line in self.history]
            since = len(losses) - 1 - int(np.argmin(losses))
            if since >= stopping.patience:
                self.reason = f"the loss of the rows held out has not fallen for {since} passes"
                return True
        elif stopping.n_wanted is None:
            before = self.history[-2].objective if len(self.history) > 1 else self.null_objective
            if before - objective <= stopping.tol * self.null_objective:
                self.reason = f"the last pass lowered the objective by less than {stopping.tol:g} of its first value"
                return True
        if len(self.history) >= self.sizes.n_passes:
            self.reason = f"{self.sizes.n_passes} passes were made"
            return True
        return False

    def _resume(self) -> None:
        """Go on after the last pass that was kept."""
        saved, number = None, 1
        while (found := self.columns.run.load(f"{self._kept}-{number}", KeptPasses)) is not None:
            saved, number = found, number + 1
        if saved is not None:
            self.columns.give(self.problem, saved.solution.ids)
            self.problem.restore(saved.solution)
            self.bound, self.history = saved.bound, [Pass(*line) for line in saved.history.tolist()]
