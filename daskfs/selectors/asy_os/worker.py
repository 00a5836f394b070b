"""The worker of asynchronous online substitution, which processes blocks of columns.

Workers import this file, so it is light.
    3. receive features x_j from the pool
    4. read u_C from the central node
    5. u(t) = X_S(t) w_S(t)
    6. w_S(t) = w_S(t) - (eta / m) X_S(t)ᵀ ∂L/∂u_C
    7. w_j = -eta x_jᵀ ∂L/∂u_C
    8. S(t) = S(t) ∪ {j}
    9. where |S(t)| > s / q: drop the smallest weight
    13. push Δu(t) = X_S(t) w_S(t) - u(t)

Algorithm 3 of Yang, Fujimaki, Kusumura and Liu (KDD 2016), one block of features at a time. The quadratic models of
`daskfs.selectors.online_substitution.engines` decide on the candidates. Here the model is the quadratic approximation
of the loss at u_C, with the contributions of the other workers fixed:

    ½ vᵀ M v - cᵀ v,   M = Zᵀ D Z + λ₂,   c = Zᵀ (D u(t) - ∂L/∂u_C),   D = ∂²L/∂u_C²

for the worker's own columns Z and the candidates. With the squared loss it is the loss itself. With other losses, D is
that of an earlier u_C: it is recomputed after as many candidates as there are members, when the cost is no larger than
theirs.

With several classes each has such a model, with the same columns: gains and removal costs are summed over the classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from daskfs.kernels.substitution.products import NO_WEIGHT, row_products
from daskfs.matrix.base import Matrix
from daskfs.selectors.asy_os.node import NO_COLUMNS, Proposal, Reply, Share
from daskfs.selectors.asy_os.objective import SharedObjective
from daskfs.selectors.asy_os.plan import PIECE_COLUMNS
from daskfs.selectors.online_substitution.columns import Columns, ColumnSettings, read_columns
from daskfs.selectors.online_substitution.engines.base import BatchWidth, Rule
from daskfs.selectors.online_substitution.engines.classes import walk_together
from daskfs.selectors.online_substitution.engines.quadratic import curved_products
from daskfs.selectors.online_substitution.engines.squared import quadratic_model
from daskfs.selectors.online_substitution.members import Members

RENEW_AFTER = 32
"""Smallest number of candidates after which the curvature of the loss is recomputed."""
MAX_CORRECTIONS, MAX_HALVINGS = 3, 4


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of all workers, without the data."""

    objective: SharedObjective
    rule: Rule
    columns: ColumnSettings
    dtype: np.dtype
    """Dtype of columns in memory."""
    always: tuple[int, ...] = ()
    """Columns that are never dropped; they come first in a share."""


class Foreseen(NamedTuple):
    """Products of columns with the members, computed before the columns are presented."""

    ids: np.ndarray
    n_entered: int
    """Number of columns that had entered by then; the products lack members that entered later."""
    cross: np.ndarray


class SubstitutionWorker:
    """The columns of one worker, S(t), and their coefficients."""

    def __init__(self, settings: WorkerSettings, capacity: int) -> None:
        objective = settings.objective
        self.settings, self.objective, self.capacity = settings, objective, capacity
        shape, n_problems = objective.y.shape, len(np.atleast_2d(objective.y))
        self.members = Members(capacity, shape[-1], settings.dtype)
        self.models = [quadratic_model(self.members, settings.rule) for _ in range(n_problems)]
        """One model for each prediction, as for the products."""
        self.products = [CurvedProducts(objective.weight, objective.total)] * n_problems
        self._width = BatchWidth(widest=PIECE_COLUMNS)
        self._contribution = np.zeros(shape)
        self._after = np.zeros(shape)
        self._response = np.zeros(shape)
        self._since = np.inf  # candidates since the curvature was computed
        self._number = 0
        self._kept: list[dict[str, np.ndarray]] = []
        self._foreseen = Foreseen(NO_COLUMNS, 0, np.zeros((0, 0)))
        self._entered_before = 0
        self._before = Share(0, NO_COLUMNS, objective.no_coef)
        """The share before a batch."""

    def take_back(self, matrix: Matrix, share: Share) -> None:
        """Take over a share: its columns are read again."""
        self.members.n_members, self._number = 0, share.worker
        self._foreseen = Foreseen(NO_COLUMNS, 0, np.zeros((0, 0)))
        if len(share.columns):
            self.members.add(read_columns(matrix, share.columns, self.settings.columns, self.objective.weight))
        self.members.n_fixed = int(np.isin(share.columns, self.settings.always).sum())
        for model, coef in zip(self.models, share.coef.reshape(-1, len(self.models)).T, strict=True):
            model.begin(coef)
        self._contribution = self._predict(np.zeros_like(self._contribution))
        self._since = np.inf
        if self.objective.loss.is_quadratic:
            self._renew(None)

    def contribution(self) -> np.ndarray:
        """Return X_S(t) w_S(t), recomputed."""
        self._contribution = self._predict(np.zeros_like(self._contribution))
        return self._contribution

    def _predict(self, out: np.ndarray) -> np.ndarray:
        """Write the contribution of the members."""
        for model, row in zip(self.models, np.atleast_2d(out), strict=True):
            self.members.predict(model.coef, 0.0, row)
        return out

    @property
    def _coef(self) -> np.ndarray:
        """Coefficients of the members, in the form of a share."""
        k = self.members.n_members
        coef = np.array([model.coef[:k] for model in self.models]).T.reshape(k, *self.objective.no_coef.shape[1:])
        return np.ascontiguousarray(coef)

    def present(self, columns: Columns, reply: Reply) -> Proposal:
        """Let columns enter that pay, given the u_C of the reply, which includes this worker's contribution."""
        self._keep()
        self._look(reply)
        self._optimise()
        start, foreseen = 0, self._foreseen if np.array_equal(self._foreseen.ids, columns.ids) else None
        while start < len(columns):  # a lease is wide to save calls; pieces grow as the engines' batches do
            some = slice(start, start + self._width.width)
            piece, cross = columns.take(some), None if foreseen is None else foreseen.cross[some]
            start += len(piece)
            self._width.after(self._walk(piece, reply.held, self._with_members(piece, cross)))
        self._since += len(columns)
        return self._proposal(reply)

    def foresee(self, columns: Columns) -> None:
        """Compute the products of the members with the columns that will probably be presented next."""
        if self.objective.loss.is_quadratic:  # with other losses the products change with u_C
            cross = self.products[0].between(columns.rows, self.members.held)
            self._foreseen = Foreseen(columns.ids, self.members.n_entered, cross)

    def _with_members(self, columns: Columns, foreseen: np.ndarray | None) -> np.ndarray:
        """Return the products of columns with the members, of shape (n_problems, B, capacity).

        Only products that were not computed in advance are computed here.
        """
        members, products, k = self.members, self.products, self.members.n_members
        cross = np.zeros((len(products), len(columns), members.capacity))
        if foreseen is None:
            for found, one in zip(cross, products, strict=True):
                found[:, :k] = one.between(columns.rows, members.held)
            return cross
        cross[0, :, : foreseen.shape[1]] = foreseen
        new = np.flatnonzero(members.entered[:k] > self._foreseen.n_entered)
        if len(new):
            cross[0][:, new] = products[0].between(columns.rows, members.rows, new)
        return cross

    def _walk(self, columns: Columns, held: np.ndarray, cross: np.ndarray) -> int:
        """Let columns enter that pay, one after the other; return how many."""
        members, products = self.members, self.products
        usable = members.usable(columns)
        if len(held):
            usable &= ~np.isin(columns.ids, held)
        linear = np.array([row_products(columns.rows, one, NO_WEIGHT) for one in np.atleast_2d(self._response)])
        if self.objective.loss.is_quadratic:
            return self.models[0].walk(columns, cross[0], linear[0], usable, products[0])
        squares = np.array([one.squares(columns) for one in products])
        usable &= (squares > 0.0).all(axis=0)
        if len(self.models) > 1:
            return walk_together(self.models, columns, cross, linear, squares, usable, products)
        columns = replace(columns, square=squares[0])
        return self.models[0].walk(columns, cross[0], linear[0], usable, products[0])

    def reconsider(self, reply: Reply) -> Proposal:
        """Fit the columns chosen last to a new u_C, which contains this worker's former contribution."""
        self._look(reply)
        self._optimise(to_minimum=True)
        return self._proposal(reply)

    def settle(self, is_accepted: bool) -> None:
        """Continue from the proposal, or from the state before it."""
        if is_accepted:
            self._contribution, self._after = self._after, self._contribution
        else:
            self._revert()

    def holds(self) -> Share:
        """Return the columns held, and their coefficients."""
        return Share(self._number, self.members.ids[: self.members.n_members].copy(), self._coef)

    def _look(self, reply: Reply) -> None:
        """Compute the loss's derivative at u_C and, if it is due, its curvature."""
        objective, prediction = self.objective, _prediction_of(reply)
        if objective.loss.is_quadratic:
            np.subtract(objective.y, prediction, out=self._response)
            self._response += self._contribution
            if len(objective.weight):
                self._response *= objective.weight
            self._response /= objective.total
            return
        derivative, curvature = objective.derivatives(prediction)
        if self._since >= max(RENEW_AFTER, self.members.n_members):
            self._renew(curvature)
        self._respond(self._contribution, derivative)

    def _respond(self, contribution: np.ndarray, derivative: np.ndarray) -> None:
        """Set the working response D u(t) - ∂L/∂u_C, with the intercept profiled out."""
        objective, self._response = self.objective, np.empty_like(contribution)
        derivative = derivative * objective.weight if len(objective.weight) else derivative
        of_each = (np.atleast_2d(numbers) for numbers in (self._response, contribution, derivative))
        for products, response, u, slope in zip(self.products, *of_each, strict=True):
            np.subtract(products.weight * u, slope, out=response)
            if products.centre > 0.0:
                response -= products.weight * (float(response.sum()) / products.centre)
        self._response /= objective.total

    def _renew(self, curvature: np.ndarray | None) -> None:
        """Compute the members' products with the present curvature of the loss."""
        objective, members = self.objective, self.members
        if curvature is not None:
            weights = np.atleast_2d(curvature * objective.weight if len(objective.weight) else curvature)
            centres = [float(one.sum()) if objective.fits_intercept else 0.0 for one in weights]
            of_each = zip(weights, centres, strict=True)
            self.products = [CurvedProducts(one, objective.total, centre) for one, centre in of_each]
        left, right = members.held, members.held  # two views, so that both halves are summed, as elsewhere
        for model, products in zip(self.models, self.products, strict=True):
            model.set_products(products.between(left, right))
        self._since = 0.0

    def _optimise(self, to_minimum: bool = False) -> None:
        """Set the linear term, and the coefficients if the rule keeps them optimal."""
        for model, response in zip(self.models, np.atleast_2d(self._response), strict=True):
            model.set_linear(row_products(self.members.held, response, NO_WEIGHT), to_minimum)

    def _proposal(self, reply: Reply) -> Proposal:
        self._predict(self._after)
        is_checked = self.settings.rule.checks and not self.objective.loss.is_quadratic
        if is_checked and not self._corrected(_prediction_of(reply)):
            self._revert()
            self._predict(self._after)
        delta = self._after - self._contribution
        return Proposal(self.holds(), delta if delta.any() else None, reply.version)

    def _corrected(self, prediction: np.ndarray) -> bool:
        """Take Newton steps on the true loss if the approximation's minimum raised it; return whether it fell."""
        objective, k = self.objective, self.members.n_members
        before = objective.value(prediction, objective.penalty(self._before.coef))
        for _ in range(MAX_CORRECTIONS):
            value = self._value_after(prediction)
            if value <= before:
                return True
            starts = [model.coef[:k].copy() for model in self.models]
            derivative, curvature = objective.derivatives(prediction + (self._after - self._contribution))
            self._renew(curvature)
            self._respond(self._after, derivative)
            self._optimise(to_minimum=True)
            for halving in range(MAX_HALVINGS):
                for model, start in zip(self.models, starts, strict=True):
                    step = model.coef[:k] - start
                    model.set_coef(start + (step if halving == 0 else 0.5 * step))
                self._predict(self._after)
                if self._value_after(prediction) < value:
                    break
        return self._value_after(prediction) <= before

    def _value_after(self, prediction: np.ndarray) -> float:
        penalty = self.objective.penalty(self._coef)
        return self.objective.value(prediction + (self._after - self._contribution), penalty)

    def _keep(self) -> None:
        """Save the present state for `settle`."""
        self.members.keep()
        self._entered_before = self.members.n_entered
        self._kept, self._before = [model.kept() for model in self.models], self.holds()

    def _revert(self) -> None:
        for model, kept in zip(self.models, self._kept, strict=True):
            model.revert(kept)
        self.members.revert()
        if self.members.n_entered > self._entered_before:
            self._foreseen = Foreseen(NO_COLUMNS, 0, np.zeros((0, 0)))  # of members that are gone
        if not self.objective.loss.is_quadratic:
            self._since = np.inf


def _prediction_of(reply: Reply) -> np.ndarray:
    if reply.prediction is None:
        raise ValueError("expected u_C with the orders to work, found none")
    return reply.prediction


def contribution_of(matrix: Matrix, settings: WorkerSettings, share: Share) -> np.ndarray:
    """Return the contribution of a share to u_C; its columns are read."""
    worker = SubstitutionWorker(settings, max(1, len(share.columns)))
    worker.take_back(matrix, share)
    return worker.contribution()


@dataclass(frozen=True, slots=True)
class CurvedProducts:
    """Products of floating-point columns, weighted by the loss's curvature; see `Products`.

    With an intercept they are also centred by it, which profiles out the intercept.
    """

    weight: np.ndarray
    """D, of shape (n_samples,); with the squared loss the samples' weights, or `NO_WEIGHT`."""
    total: float
    """Sum of the samples' weights."""
    centre: float = 0.0
    """Sum of D, for centring; 0: columns are already centred, or are not to be."""

    def between(self, left: np.ndarray, right: np.ndarray, which: np.ndarray | None = None) -> np.ndarray:
        """Return the products of the rows of two arrays, of shape (A, B); only those of `which`, if given."""
        return curved_products(left, right, self.weight, self.total, self.centre, which=which)

    def within(self, columns: Columns) -> np.ndarray:
        """Return the products of a batch with itself, of shape (B, B)."""
        return self.between(columns.rows, columns.rows)

    def against(self, columns: Columns, one: Columns) -> np.ndarray:
        """Return the products of a batch with one column, of shape (B,)."""
        return self.between(columns.rows, one.rows)[:, 0]

    def squares(self, columns: Columns) -> np.ndarray:
        """Return each column's product with itself, of shape (B,)."""
        squares: np.ndarray = np.array([self.between(row[None], row[None])[0, 0] for row in columns.rows])
        return np.maximum(squares, 0.0)
