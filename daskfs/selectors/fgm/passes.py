"""Algorithm 1 of FGM: alternate worst-case analyses and subproblems, apply the stopping rules, write checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from daskfs.selectors.fgm.candidates import Candidates, Found
from daskfs.selectors.fgm.plan import Sizes
from daskfs.selectors.fgm.restricted_problem import RestrictedProblem, Solution, lower_bound
from daskfs.selectors.shared.record import Record

OPTIMAL_GAP = 1e-7  # gap at which the passes stop: the selection is optimal over all columns
HISTORY = ("pass", "features", "new", "objective", "loss", "gap", "largest_score", "iterations", "held_out_loss")


class Pass(NamedTuple):
    """A line of the history; see HISTORY."""

    number: float
    n_features: float
    n_new: float
    objective: float
    loss: float
    gap: float
    """Duality gap before the pass."""
    largest_score: float
    n_iter: float
    held_out_loss: float


@dataclass(frozen=True, slots=True)
class KeptPasses(Record):
    """The state of the passes in a checkpoint."""

    solution: Solution
    bound: float
    history: np.ndarray
    """Shape (n_passes, len(HISTORY))."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """The stopping rules."""

    n_wanted: int | None
    tol: float
    held_out: np.ndarray | None
    """Weights of the held-out rows, 0 for the others."""
    patience: int
    counts_columns: bool = False
    """Whether `n_wanted` counts columns instead of units."""


class Passes:
    """The passes over the candidates, for one C.

    Parameters
    ----------
    candidates : Candidates
    problem : RestrictedProblem
        Without a group.
    sizes : Sizes
    stopping : Stopping
    name : str
        Distinguishes the checkpoints of different values of C.
    """

    def __init__(
        self, candidates: Candidates, problem: RestrictedProblem, sizes: Sizes, stopping: Stopping, name: str = ""
    ) -> None:
        self.candidates, self.problem, self.sizes, self.stopping = candidates, problem, sizes, stopping
        self.name, self._kept = name, f"{name}-pass" if name else "pass"
        self.null_objective = problem.objective
        self.bound = -np.inf
        """The best lower bound of the optimum over all columns."""
        self.history: list[Pass] = []
        self.reason = ""
        self.notes: list[str] = []

    def run(self) -> None:
        """Run passes, starting after the last one in a checkpoint, until a stopping rule applies."""
        run, problem, stopping = self.candidates.run, self.problem, self.stopping
        self._resume()
        with run.reported(self.name, self.sizes.n_passes, len(self.history)) as advance:
            is_done = self._is_done()
            while not is_done:
                found = self.score()
                gap_before, units = self.gap, self._group(found.units)
                if not len(units):
                    self.reason = "no column has a positive score"
                    if len(found.units) and stopping.counts_columns:
                        self.reason = "no further group fits in the requested number of features"
                    break
                if stopping.n_wanted is None and gap_before <= OPTIMAL_GAP:
                    self.reason = "the optimum over all columns is reached"
                    break
                n_new = int((~np.isin(units, problem.units)).sum())
                columns, unit_of = self.candidates.columns_of(units)
                self.candidates.give(problem, problem.missing(columns))
                problem.add_group(columns, unit_of)
                with run.timed("subproblems"):
                    n_iter = problem.solve()
                held_out = np.nan if stopping.held_out is None else problem.mean_loss(stopping.held_out)
                number, n_features = len(self.history) + 1, len(self.selected()[0])
                largest = found.scores[0]
                line = (number, n_features, n_new, problem.objective, problem.loss, gap_before, largest, n_iter)
                self.history.append(Pass(*map(float, (*line, held_out))))
                run.learn("pass", number, problem.objective, lambda: self.selected()[0])
                is_done = self._is_done()
                kept = KeptPasses(problem.solution(), float(self.bound), np.array(self.history))
                run.save(f"{self._kept}-{number}", kept)
                advance()

    def score(self) -> Found:
        """Score all candidates at the present solution, which raises the lower bound; return the best."""
        v, known, sizes = self.problem.dual(), np.unique(self.problem.units), self.sizes
        n_asked = sizes.per_pass + (0 if self.stopping.n_wanted is None else len(known))
        if self.stopping.counts_columns:
            n_asked = self.candidates.n_units  # any of them may be the best one that fits
        found = self.candidates.worst_case(v, n_asked, sizes.per_pass, known)
        of_loss = self.problem.settings.conjugate
        self.bound = max(self.bound, lower_bound(self.problem.rows, v.ravel(), found.quadratic, of_loss))
        return found

    def fit_all_rows(self, share: np.ndarray) -> None:
        """Refit on all rows, held-out ones included, the groups up to the pass with the lowest held-out loss.

        Parameters
        ----------
        share : ndarray of shape (n_samples,)
            C times the weight of all rows.
        """
        n_groups = 0
        if self.history:
            n_groups = 1 + int(np.argmin([line.held_out_loss for line in self.history]))
            self.notes.append(f"the held-out loss was lowest after pass {n_groups} of {len(self.history)}")
        with self.candidates.run.timed("subproblems"):
            self.problem.refit(share, n_groups)
        self.bound = -np.inf  # earlier bounds are for fewer rows
        self.notes.append("the chosen groups were refitted on all rows, held-out rows included")

    def selected(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the selected columns, ascending, and the coefficients of the standardised columns.

        They are the columns always included and those of the selected units: if a number was requested, all units in
        any group, otherwise those with a nonzero coefficient. Shapes are (n_selected,) and (n_classes, n_selected).
        """
        problem = self.problem
        features, coef = problem.coefficients()
        kept = np.isin(features, problem.members[np.isin(problem.units, self.selected_units()[0])])
        kept |= np.isin(features, problem.included)
        return features[kept], coef[:, kept]

    def selected_units(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the selected units, ascending, and the norms of their standardised columns' coefficients."""
        units, norms, is_used = self.problem.norms()
        kept = is_used if self.stopping.n_wanted is None else np.ones(len(units), dtype=bool)
        return units[kept], norms[kept]

    @property
    def gap(self) -> float:
        """Largest possible distance of the objective from the optimum over all columns, as a share of the objective."""
        objective = self.problem.objective
        return max(0.0, (objective - self.bound) / objective) if objective > 0.0 and np.isfinite(self.bound) else 0.0

    def history_columns(self) -> dict[str, np.ndarray]:
        """Return the history as the columns of a result."""
        lines = np.array(self.history).reshape(-1, len(HISTORY))
        columns = {name: lines[:, k] for k, name in enumerate(HISTORY)}
        columns |= {name: columns[name].astype(np.int64) for name in ("pass", "features", "new", "iterations")}
        if self.stopping.held_out is None:
            del columns["held_out_loss"]
        return columns

    def _group(self, found: np.ndarray) -> np.ndarray:
        """Return the B units with the largest scores; with a requested number, no more new ones than are still missing.

        Units that are already in a group may be chosen again while the remaining passes suffice to reach the number.
        Otherwise, and if none of the B units is new, only new ones are chosen.
        """
        per_pass, n_wanted = self.sizes.per_pass, self.stopping.n_wanted
        if n_wanted is None:
            return found[:per_pass]
        known = self.problem.units
        n_left = n_wanted - self._n_counted
        if self.stopping.counts_columns:
            found = self._that_fit(found, n_left)
            n_left = self.sizes.most - len(np.unique(known))
        is_new = ~np.isin(found, known)
        n_passes_left = self.sizes.n_passes - len(self.history)
        if -(-n_left // per_pass) >= n_passes_left or not is_new[:per_pass].any():
            return found[is_new][: min(per_pass, n_left)]
        return found[:per_pass][~is_new[:per_pass] | (np.cumsum(is_new[:per_pass]) <= n_left)]

    def _that_fit(self, found: np.ndarray, n_left: int) -> np.ndarray:
        """Return the units whose columns still fit, the best first; units that are already in a group need no room."""
        held, fitting, n_new = set(self.problem.features.tolist()), [], 0
        for unit in found:
            new = set(self.candidates.columns_of(np.array([unit]))[0].tolist()) - held
            if len(new) <= n_left:
                fitting.append(unit)
                held |= new
                n_left -= len(new)
                n_new += bool(new)
            if n_new == self.sizes.per_pass:
                break
        return np.array(fitting, dtype=np.int64)

    @property
    def _n_counted(self) -> int:
        """The number selected so far, in the unit of the requested number: units, or columns."""
        return len(self.selected()[0] if self.stopping.counts_columns else self.selected_units()[0])

    def _is_done(self) -> bool:
        """Return whether a stopping rule applies, and set the reason."""
        stopping, objective = self.stopping, self.problem.objective
        if stopping.n_wanted is not None and self._n_counted >= stopping.n_wanted:
            counted = "features" if stopping.counts_columns else self.candidates.kind
            self.reason = f"the requested number of {counted} is reached"
            return True
        if not self.history:
            return False
        if stopping.held_out is not None:
            losses = [line.held_out_loss for line in self.history]
            since = len(losses) - 1 - int(np.argmin(losses))
            if since >= stopping.patience:
                self.reason = f"the loss on held-out rows has not decreased for {since} passes"
                return True
        elif stopping.n_wanted is None:
            before = self.history[-2].objective if len(self.history) > 1 else self.null_objective
            if before - objective <= stopping.tol * self.null_objective:
                self.reason = f"the last pass lowered the objective by less than {stopping.tol:g} of its initial value"
                return True
        if len(self.history) >= self.sizes.n_passes:
            self.reason = f"the maximum of {self.sizes.n_passes} passes is reached"
            return True
        return False

    def _resume(self) -> None:
        """Continue after the last pass in a checkpoint."""
        saved, number = None, 1
        while (found := self.candidates.run.load(f"{self._kept}-{number}", KeptPasses)) is not None:
            saved, number = found, number + 1
        if saved is not None:
            self.candidates.give(self.problem, self.problem.missing(saved.solution.ids))
            self.problem.restore(saved.solution)
            self.bound, self.history = saved.bound, [Pass(*line) for line in saved.history.tolist()]
