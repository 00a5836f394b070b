"""Algorithm 1 of FGM: worst-case analyses and subproblems by turns, what ends them, and what a checkpoint keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfs.kernels.fgm.shift import new_rows
from daskfs.selectors.fgm.restricted_problem import RestrictedModel, SolverSettings, lower_bound
from daskfs.selectors.fgm.run import ColumnPasses

OPTIMAL_GAP = 1e-7  # at which the passes end: what has been selected is the optimum over all columns
HISTORY = ("pass", "features", "new", "objective", "loss", "gap", "largest_score", "iterations", "held_out_loss")


@dataclass(frozen=True, slots=True)
class Stopping:
    """What ends the passes."""

    n_wanted: int | None
    n_per_pass: int
    n_passes: int
    tol: float
    held_out: np.ndarray | None
    """Weights of the rows held out, 0 of the others."""
    patience: int


class FgmPasses:
    """The passes over one matrix."""

    def __init__(
        self,
        columns: ColumnPasses,
        model: RestrictedModel,
        stopping: Stopping,
        settings: SolverSettings,
        centre: np.ndarray,
        inverse: np.ndarray,
        name: str = "",
    ) -> None:
        self.name = name
        self.columns, self.model, self.stopping, self.settings = columns, model, stopping, settings
        self.centre, self.inverse = centre, inverse
        self.history: list[list[float]] = []
        self.bound = -np.inf
        """The best lower bound of the optimum over all columns."""
        self.reason = ""
        self.notes: list[str] = []

    def run(self, *, certify: bool, share_of_all: np.ndarray | None) -> None:
        """Pass after pass, until a rule ends it.

        Parameters
        ----------
        certify : bool
            Whether one more pass gives the gap of the last model.
        share_of_all : ndarray of shape (n_samples,), optional
            C times weight of all rows, on which the groups are fitted in the end where some rows were held out.
        """
        columns, model, stopping = self.columns, self.model, self.stopping
        self._restore()
        with columns.run.reported(self.name, stopping.n_passes, len(self.history)) as advance:
            is_done = self._is_done() if self.history else False
            while not is_done:
                group, best = self._worst_case()
                if not len(group):
                    self.reason = "no column has a score above 0"
                    break
                if stopping.n_wanted is None and self._gap_before <= OPTIMAL_GAP:
                    self.reason = "the optimum over all columns is reached"
                    break
                self._take(group)
                n_iter = self._solve()
                held_out = np.nan if stopping.held_out is None else model.mean_loss(stopping.held_out)
                row = [len(self.history) + 1, len(self.selected()[0]), self._n_new, model.objective, model.loss]
                self.history.append([*row, self._gap_before, best, n_iter, held_out])
                is_done = self._is_done()
                self._save()
                advance()
            if stopping.held_out is not None and share_of_all is not None:
                self._back_to_best()
                self._fit_all_rows(share_of_all)
            if certify:
                self._bounded(model.dual())

    def selected(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the selected columns, ascending, and the coefficients of the standardised columns.

        Those in any group where a number was asked for, else those with a coefficient.
        """
        features, coef = self.model.coefficients()
        kept = coef != 0.0 if self.stopping.n_wanted is None else np.ones(len(coef), dtype=bool)
        return features[kept], coef[kept]

    @property
    def lowest_held_out(self) -> float:
        """The lowest mean loss of the rows held out, after any pass."""
        return min((row[-1] for row in self.history), default=float("inf"))

    @property
    def gap(self) -> float:
        """Share of the objective by which it may lie above the optimum over all columns."""
        objective = self.model.objective
        return max(0.0, (objective - self.bound) / objective) if objective > 0.0 and np.isfinite(self.bound) else 0.0

    def _worst_case(self) -> tuple[np.ndarray, float]:
        """Return the columns of the next group and the largest score."""
        v = self.model.dual()
        found, scores = self._bounded(v)
        before = self.model.objective
        self._gap_before = max(0.0, (before - self.bound) / before) if before > 0.0 else 0.0
        best = float(scores[0]) if len(scores) else 0.0
        return self._chosen(found), best

    def _bounded(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Score all columns; raise the lower bound."""
        n_per_pass = self.stopping.n_per_pass
        n_asked = n_per_pass + (0 if self.stopping.n_wanted is None else len(self.model.features))
        found, scores = self.columns.worst_case(v, n_asked, self.centre, self.inverse)
        self.bound = max(self.bound, lower_bound(self.model.rows, v, float(scores[:n_per_pass].sum())))
        return found, scores

    def _chosen(self, found: np.ndarray) -> np.ndarray:
        """Return the B largest; where a number of features is asked for, no more new ones than are left to it.

        Features that a group has already may come again, as long as the passes left suffice for the number; then, and
        where none of the B largest is new, the best new ones are taken alone.
        """
        n_per_pass, n_wanted = self.stopping.n_per_pass, self.stopping.n_wanted
        group, known = found[:n_per_pass], self.model.features
        if n_wanted is not None:
            is_new, n_left = ~np.isin(found, known), n_wanted - len(known)
            n_passes_left = self.stopping.n_passes - len(self.history)
            if -(-n_left // n_per_pass) >= n_passes_left or not is_new[:n_per_pass].any():
                group = found[is_new][: min(n_per_pass, n_left)]
            else:
                group = group[~is_new[:n_per_pass] | (np.cumsum(is_new[:n_per_pass]) <= n_left)]
        self._n_new = int((~np.isin(group, known)).sum())
        return group

    def _take(self, group: np.ndarray) -> None:
        missing = self.model.missing(group)
        if len(missing):
            values = self.columns.read(missing)
            self.model.cache(missing, values, self.centre[missing], self.inverse[missing])
        self.model.add_group(group)

    def _solve(self) -> int:
        with self.columns.run.timed("subproblems"):
            return self.model.solve(self.settings)

    def _is_done(self) -> bool:
        """Whether a rule ends the passes; says which."""
        stopping, model = self.stopping, self.model
        n_selected = len(self.selected()[0])
        if stopping.n_wanted is not None and n_selected >= stopping.n_wanted:
            self.reason = f"{n_selected} features were asked for"
            return True
        if stopping.held_out is not None:
            losses = [row[-1] for row in self.history]
            since = len(losses) - 1 - int(np.argmin(losses))
            if since >= stopping.patience:
                self.reason = f"the loss of the rows held out has not fallen for {since} passes"
                return True
        elif stopping.n_wanted is None:
            before = self.history[-2][3] if len(self.history) > 1 else self._null
            if before - model.objective <= stopping.tol * self._null:
                self.reason = f"the last pass lowered the objective by less than {stopping.tol:g} of its first value"
                return True
        if len(self.history) >= stopping.n_passes:
            self.reason = f"{stopping.n_passes} passes were made"
            return True
        return False

    def _back_to_best(self) -> None:
        """Keep the groups up to the pass whose held-out loss is lowest."""
        if not self.history:
            return
        best = int(np.argmin([row[-1] for row in self.history]))
        n_groups = best + 1
        model = self.model
        if len(model.bounds) - 1 > n_groups:
            model.bounds = model.bounds[: n_groups + 1]
            model.members, model.coef = model.members[: model.bounds[-1]], model.coef[: model.bounds[-1]]
        self.notes.append(f"the loss of the rows held out was lowest after pass {n_groups} of {len(self.history)}")

    def _fit_all_rows(self, share: np.ndarray) -> None:
        """Solve the last subproblem on all rows, those held out too."""
        model = self.model
        model.rows = new_rows(model.rows.loss, model.rows.y, share)
        self.bound = -np.inf  # the bounds so far are of fewer rows
        if len(model.coef):
            self._solve()
        else:
            model.start(self.settings.fit_intercept)
        self.notes.append("the chosen groups were fitted again on all rows, those held out included")

    def _save(self) -> None:
        model = self.model
        arrays = {
            "ids": model.ids, "members": model.members, "bounds": model.bounds, "coef": model.coef,
            "scalars": np.array([model.shift, model.tau, model.objective, model.loss, self.bound]),
            "history": np.array(self.history),
        }  # fmt: skip
        self.columns.run.save(f"{self.name}-pass-{len(self.history)}".strip("-"), arrays)

    def _restore(self) -> None:
        """Go on after the last pass that was kept, or begin."""
        model, run = self.model, self.columns.run
        model.start(self.settings.fit_intercept)
        self._null = model.objective
        saved: dict[str, Any] | None = None
        t = 1
        while (found := run.load(f"{self.name}-pass-{t}".strip("-"), dict)) is not None:
            saved, t = found, t + 1
        if saved is None:
            return
        ids = saved["ids"]
        model.cache(ids, self.columns.read(ids), self.centre[ids], self.inverse[ids])
        model.members, model.bounds, model.coef = saved["members"], saved["bounds"], saved["coef"]
        model.shift, model.tau, model.objective, model.loss, self.bound = (float(x) for x in saved["scalars"])
        self.history = saved["history"].tolist()
