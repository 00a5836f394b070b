"""What a worker of asynchronous online substitution makes of a block of columns. Imported by workers, hence light.

    3. receive features x_j from the pool
    4. read u_C from the central node
    5. u(t) = X_S(t) w_S(t)
    6. w_S(t) = w_S(t) - (eta / m) X_S(t)ᵀ ∂L/∂u_C
    7. w_j = -eta x_jᵀ ∂L/∂u_C
    8. S(t) = S(t) ∪ {j}
    9. where |S(t)| > s / q: drop the smallest weight
    13. push Δu(t) = X_S(t) w_S(t) - u(t)

Algorithm 3 of Yang, Fujimaki, Kusumura and Liu (KDD 2016), a block of features at a time. The engines of
`online_substitution.engines.exchange` decide on the newcomers, with the parabola of the loss at u_C and with
what the other workers hold fixed:

    ½ vᵀ M v - cᵀ v,   M = Zᵀ D Z + λ₂,   c = Zᵀ (D u(t) - ∂L/∂u_C),   D = ∂²L/∂u_C²

of the worker's own columns Z and the newcomers. With the squared loss it is the loss itself. With others D is that of
an earlier u_C: it is renewed after as many newcomers as there are members, when it costs no more than they did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from daskfs.kernels.losses import SQUARED
from daskfs.kernels.substitution.exchange import invert, multiply
from daskfs.kernels.substitution.products import NO_WEIGHT, cross_products, row_products
from daskfs.kernels.substitution.steps import COLD, MARGIN, largest_eigenvalue
from daskfs.matrix.base import Matrix
from daskfs.selectors.asy_os.messages import Share
from daskfs.selectors.asy_os.objective import SharedObjective
from daskfs.selectors.online_substitution.columns import Columns, ColumnSettings, read_columns
from daskfs.selectors.online_substitution.engines.exchange import Rule, SquaredExchange, SquaredSteps
from daskfs.selectors.online_substitution.members import Members

RENEW_AFTER = 32
"""Newcomers, at least, after which the loss is bent anew."""
MAX_CORRECTIONS, MAX_HALVINGS = 3, 4
WIDEST = 128
"""Columns whose products with the members are made at once."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What all workers are told."""

    objective: SharedObjective
    rule: Rule
    columns: ColumnSettings
    stretch: float = 0.0
    """ρ of Theorem 2: with the paper's rule eta = 0.5 / L_F (1 + ρ), where no eta is given."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a worker would like to change; `delta` None: nothing."""

    delta: np.ndarray | None
    columns: np.ndarray
    coef: np.ndarray


class SubstitutionWorker:
    """The columns of one worker, S(t), and their coefficients.

    Parameters
    ----------
    settings : WorkerSettings
    capacity, n_samples : int
    dtype : dtype
        Of the columns.
    """

    def __init__(self, settings: WorkerSettings, capacity: int, n_samples: int, dtype: np.dtype) -> None:
        self.settings, self.objective = settings, settings.objective
        self.members = _Members(capacity, n_samples, dtype, settings.objective.weight)
        engine = SquaredExchange if settings.rule.name == "exchange" else SquaredSteps
        self.engine: Any = engine(self.members, np.zeros(n_samples), settings.rule, "gram")
        self._contribution = np.zeros(n_samples)
        self._after = np.zeros(n_samples)
        self._pull = np.zeros(n_samples)
        self._since = np.inf  # newcomers since the loss was bent
        self._kept: Any = None

    def take_back(self, matrix: Matrix, share: Share) -> None:
        """Become the worker that holds a share: its columns are read again."""
        members, engine = self.members, self.engine
        members.n_members = 0
        if len(share.columns):
            block = read_columns(matrix, share.columns, self.settings.columns, self.objective.weight)
            for b in range(len(block)):
                members.describe(b, block, b)
            members.copy_in(block, {b: b for b in range(len(block))})
        k = members.n_members
        engine.coef[:] = 0.0
        engine.coef[:k] = share.coef
        self._contribution = members.predict(engine.coef, 0.0, np.zeros_like(self._contribution))
        self._since = np.inf
        if self.objective.loss == SQUARED:
            self._renew(np.ones(0))
        engine.n_since = 0
        if hasattr(engine, "power"):
            engine.power[:], engine.state[:2] = 1.0, (0.0, 1.0)

    def contribution(self) -> np.ndarray:
        """Return X_S(t) w_S(t), computed anew."""
        self._contribution = self.members.predict(self.engine.coef, 0.0, np.zeros_like(self._contribution))
        return self._contribution

    def present(self, columns: Columns, held: np.ndarray, prediction: np.ndarray) -> Proposal:
        """Let columns in that pay.

        Parameters
        ----------
        columns : Columns
        held : ndarray of int64
            Columns that others hold.
        prediction : ndarray of shape (n_samples,)
            u_C, this worker's contribution included.
        """
        self._keep()
        self._look(prediction, len(columns))
        self._optimise()
        engine, start = self.engine, 0
        while start < len(columns):  # a lease is wide for the calls' sake; pieces gallop as the engines' blocks do
            piece = columns.take(slice(start, start + engine.width))
            n_accepted = self._walk(piece, held)
            start += len(piece)
            engine.width = max(engine.narrowest, engine.width // 2) if n_accepted else min(2 * engine.width, WIDEST)
        self._since += len(columns)
        return self._proposal(prediction)

    def _walk(self, columns: Columns, held: np.ndarray) -> int:
        """Let those in that pay, one after the other; return how many."""
        members = self.members
        cross = np.zeros((len(columns), members.capacity))
        cross[:, : members.n_members] = members.cross(columns)
        usable = members.usable(columns)
        if len(held):
            usable &= ~np.isin(columns.ids, held)
        linear = row_products(columns.rows, self._pull, NO_WEIGHT)
        if self.objective.loss != SQUARED:
            columns = replace(columns, square=members.squares(columns))
            usable &= columns.square > 0.0
        return int(self.engine.walk(columns, cross, linear, usable))

    def reconsider(self, prediction: np.ndarray) -> Proposal:
        """Fit the columns chosen last to a new u_C, which this worker's contribution is part of as it was."""
        self._look(prediction, 0)
        self._optimise(exactly=True)
        return self._proposal(prediction)

    def settle(self, is_accepted: bool) -> None:
        """Go on from what was proposed, or from what was before."""
        if is_accepted:
            self._contribution, self._after = self._after, self._contribution
        else:
            self._revert()

    def _look(self, prediction: np.ndarray, n_columns: int) -> None:
        """Take the loss's slope at u_C and, where it is due, its bend."""
        objective, total = self.objective, self.objective.total
        if objective.loss == SQUARED:
            np.subtract(objective.y, prediction, out=self._pull)
            self._pull += self._contribution
            if len(objective.weight):
                self._pull *= objective.weight
            self._pull /= total
            return
        slope, bend = objective.slopes(prediction)
        if self._since >= max(RENEW_AFTER, self.members.n_members):
            self._renew(bend)
        self._set_pull(self._contribution, slope)

    def _set_pull(self, contribution: np.ndarray, slope: np.ndarray) -> None:
        """D u(t) - ∂L/∂u_C, after the intercept's best answer."""
        objective, members = self.objective, self.members
        slope = slope * objective.weight if len(objective.weight) else slope
        self._pull = members.weight * contribution - slope
        if members.bend_total > 0.0:
            self._pull -= members.weight * (float(self._pull.sum()) / members.bend_total)
        self._pull /= objective.total

    def _renew(self, bend: np.ndarray) -> None:
        """Compute the members' products with the loss's present bend."""
        members, engine, objective = self.members, self.engine, self.objective
        if objective.loss != SQUARED:
            members.weight = bend * objective.weight if len(objective.weight) else bend
            members.bend_total = float(members.weight.sum()) if objective.fits_intercept else 0.0
        k = members.n_members
        if k:
            engine.matrix[:k, :k] = members.products(members.rows[:k], members.rows[:k])
            engine.matrix[range(k), range(k)] += engine.rule.ridge
        self._invert()
        self._since = 0.0

    def _invert(self) -> None:
        k = self.members.n_members
        if k and hasattr(self.engine, "inverse"):
            inverse = np.zeros((k, k))
            invert(self.engine.matrix[:k, :k].copy(), inverse)
            self.engine.inverse[:k, :k] = inverse

    def _optimise(self, exactly: bool = False) -> None:
        """Set the linear term, and the coefficients where the rule keeps them optimal."""
        engine, k = self.engine, self.members.n_members
        engine.linear[:k] = row_products(self.members.rows[:k], self._pull, NO_WEIGHT)
        if hasattr(engine, "inverse"):
            engine.coef[:k] = multiply(engine.inverse[:k, :k].copy(), engine.linear[:k].copy())
        elif exactly and k:
            inverse = np.zeros((k, k))
            if invert(engine.matrix[:k, :k].copy(), inverse):
                engine.coef[:k] = multiply(inverse, engine.linear[:k].copy())
        if hasattr(engine, "product"):
            engine._entered()
            self._set_steps()

    def _set_steps(self) -> None:
        """Theorem 2's step of the paper's rule, for the members as they are."""
        engine, rule, k = self.engine, self.settings.rule, self.members.n_members
        if rule.name != "paper" or rule.eta > 0.0:
            return
        bound = rule.lipschitz
        if bound == 0.0:
            largest = MARGIN * largest_eigenvalue(engine.matrix, k, engine.power, COLD) if k else 0.0
            bound = largest + 1.0  # a newcomer of unit size adds no more than its own
        engine.rule = replace(rule, eta=0.5 / (bound * (1.0 + self.settings.stretch)), lipschitz=bound)

    def _proposal(self, prediction: np.ndarray) -> Proposal:
        members, engine = self.members, self.engine
        members.predict(engine.coef, 0.0, self._after)
        if self.objective.loss != SQUARED and self.settings.rule.checks and not self._corrected(prediction):
            self._revert()
            members.predict(engine.coef, 0.0, self._after)
        k = members.n_members
        ids, coef = members.ids[:k].copy(), engine.coef[:k].copy()
        delta = self._after - self._contribution
        return Proposal(delta if delta.any() else None, ids, coef)

    def _corrected(self, prediction: np.ndarray) -> bool:
        """Take Newton steps on the true loss where the parabola's minimum has raised it; tell whether it fell."""
        engine, objective = self.engine, self.objective
        kept = self._kept[1]
        before = objective.value(prediction, objective.penalty(kept["coef"][: self._kept[0]]))
        for _ in range(MAX_CORRECTIONS):
            value = self._value_after(prediction)
            if value <= before:
                return True
            k, coef = self.members.n_members, engine.coef.copy()
            shifted = prediction + (self._after - self._contribution)
            slope, bend = objective.slopes(shifted)
            self._renew(bend)
            self._set_pull(self._after, slope)
            self._optimise(exactly=True)
            for halving in range(MAX_HALVINGS):
                step = engine.coef[:k] - coef[:k]
                engine.coef[:k] = coef[:k] + (step if halving == 0 else 0.5 * step)
                self.members.predict(engine.coef, 0.0, self._after)
                if self._value_after(prediction) < value:
                    break
        return bool(self._value_after(prediction) <= before)

    def _value_after(self, prediction: np.ndarray) -> float:
        penalty = self.objective.penalty(self.engine.coef[: self.members.n_members])
        return self.objective.value(prediction + (self._after - self._contribution), penalty)

    def _keep(self) -> None:
        """Remember what is held, for `settle`."""
        names = [name for name in ("matrix", "linear", "coef", "inverse", "product") if hasattr(self.engine, name)]
        self._kept = (self.members.n_members, {name: getattr(self.engine, name).copy() for name in names})
        self.members.keep()

    def _revert(self) -> None:
        for name, array in self._kept[1].items():
            getattr(self.engine, name)[...] = array
        self.members.revert()
        if hasattr(self.engine, "power"):
            self.engine.state[1] = 1.0  # the largest eigenvalue is another one
        if self.objective.loss != SQUARED:
            self._since = np.inf


class _Members(Members):
    """Members that can go back to what they were, and whose products are weighted by the loss's bend where it has one.

    With an intercept they are then centred by it too, which is the intercept's best answer.
    """

    bend_total = 0.0
    """Sum of the weights that columns are centred by; 0: columns are centred already, or are not to be."""
    _kept: Any = None
    _rows: dict[int, np.ndarray]

    def keep(self) -> None:
        """Remember who they are; columns that are overwritten from now on are kept."""
        self._kept, self._rows = (self.n_members, self.described()), {}

    def copy_in(self, columns: Columns, placed: dict[int, int]) -> None:
        """Copy the values of newcomers."""
        if self._kept is not None:
            for slot in placed:
                if slot < self._kept[0] and slot not in self._rows:
                    self._rows[slot] = self.rows[slot].copy()
        super().copy_in(columns, placed)

    def revert(self) -> None:
        """Go back."""
        self.describe_again(*self._kept)
        for slot, row in self._rows.items():
            self.rows[slot] = row

    def usable(self, columns: Columns) -> np.ndarray:
        """Return which columns may enter: not constant, not members; bool of shape (B,)."""
        mine = set(self.ids[: self.n_members].tolist())
        is_new = np.array([j not in mine for j in columns.ids.tolist()], bool)
        return is_new & (columns.scale > 0.0)

    def products(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return weighted products of columns, centred where that is due, of shape (A, B)."""
        products = cross_products(left, right, self.weight)
        if self.bend_total > 0.0:
            right_sums = row_products(right, self.weight, NO_WEIGHT)
            left_sums = right_sums if left is right else row_products(left, self.weight, NO_WEIGHT)
            products -= left_sums[:, None] * (right_sums / self.bend_total)
        products /= self.total
        return products

    def cross(self, columns: Columns) -> np.ndarray:
        """Return the products of a block with the members, of shape (B, n_members)."""
        return self.products(columns.rows, self.rows[: self.n_members])

    def within(self, columns: Columns) -> np.ndarray:
        """Return the products of a block with itself, of shape (B, B)."""
        return self.products(columns.rows, columns.rows)

    def against(self, columns: Columns, one: Columns) -> np.ndarray:
        """Return the products of a block with one column, of shape (B,)."""
        return self.products(columns.rows, one.rows)[:, 0]

    def squares(self, columns: Columns) -> np.ndarray:
        """Return each column's product with itself, of shape (B,)."""
        squares: np.ndarray = np.array([self.products(row[None], row[None])[0, 0] for row in columns.rows])
        return np.maximum(squares, 0.0)
