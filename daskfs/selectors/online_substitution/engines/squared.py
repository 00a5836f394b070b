"""The engine of the squared loss, for all rules: the loss is itself a quadratic model."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.substitution.entries import State
from daskfs.kernels.substitution.products import NO_WEIGHT, again, row_products
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.base import BatchWidth, Engine, Finished, Rule
from daskfs.selectors.online_substitution.engines.exchange import ExchangeModel
from daskfs.selectors.online_substitution.engines.quadratic import QuadraticModel, QuadraticState
from daskfs.selectors.online_substitution.engines.steps import StepsModel
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.screen import Screen


def quadratic_model(members: Members, rule: Rule, constant: float = 0.0) -> QuadraticModel:
    """Return the model of a rule."""
    model = ExchangeModel if rule.name == "exchange" else StepsModel
    return model(members, rule, constant)


class SquaredEngine(Engine):
    """Decides on columns with the squared loss.

    Parameters
    ----------
    members : Members
    rule : Rule
    mode : {"gram", "lazy", "naive"}
        "gram": all products of a batch with the members at once, and with the rest of the batch when a candidate
        enters. "lazy": as "gram", but only for columns whose gradient is large enough to pay for the cheapest removal.
        "naive": one column at a time: the residual, its product with the column, the column's products with the
        members.
    width : BatchWidth
    y : ndarray of shape (n_samples,), float64
        The target, centred if the columns are.
    """

    def __init__(self, members: Members, rule: Rule, mode: str, width: BatchWidth, y: np.ndarray) -> None:
        super().__init__(members, rule, mode, width)
        weight = members.weight
        self.y = y
        self.model = self._make_model(0.5 * float(y @ (y * weight if len(weight) else y)) / members.total)
        self.counters = self.model.counters

    def _make_model(self, constant: float) -> QuadraticModel:
        return quadratic_model(self.members, self.rule, constant)

    @property
    def coef(self) -> np.ndarray:
        """Coefficients of the columns as they are stored, of shape (capacity,)."""
        return self.model.coef

    @property
    def value(self) -> float:
        """The objective."""
        return self.model.value

    def _take_batch(self, columns: Columns) -> int:
        if self.mode == "naive":
            return sum(self._take_one(columns.take(slice(b, b + 1))) for b in range(len(columns)))
        members = self.members
        if self.mode == "lazy" and members.is_full:
            columns = self._candidates(columns)
        if not len(columns):
            return 0
        linear = members.against_target(columns, self.y)
        return self.model.walk(columns, self._cross(columns), linear, members.usable(columns), members)

    def _cross(self, columns: Columns) -> np.ndarray:
        """Return products of columns with the members, of shape (B, capacity), in a buffer that is reused."""
        k, cross = self.members.n_members, again("cross", (len(columns), self.members.capacity), np.float64)
        cross[:, :k], cross[:, k:] = self.members.cross(columns), 0.0
        return cross

    def _take_one(self, column: Columns) -> int:
        """Reference: residual, gradient and products of the column, each in one pass over the members."""
        members = self.members
        usable = members.usable(column)
        if not usable[0]:
            return 0
        cross = np.zeros((1, members.capacity))
        cross[0, : members.n_members] = members.against(members.columns, column)
        gradient = members.against_target(column, self._residual())
        return self.model.walk(column, cross, gradient + row_products(cross, self.coef, NO_WEIGHT), usable, members)

    def _residual(self) -> np.ndarray:
        residual = self.members.predict(-self.coef, 0.0, np.empty(len(self.y)))
        residual += self.y
        return residual

    def screen(self, most: int) -> Screen:
        """Return the state for screening: the residual, and the smallest removal cost."""
        if not isinstance(self.model, ExchangeModel):
            return super().screen(most)
        members, descent = self.members, self._residual()
        if len(members.weight):
            descent *= members.weight
        least = self._least_cost(self.model)
        present = members.ids[: members.n_members].copy()
        return Screen(descent, NO_WEIGHT, members.total, least, self.rule.ridge, present, most)

    def _least_cost(self, model: ExchangeModel) -> float:
        """Return the smallest removal cost."""
        return float(model.removal_costs()[self.members.n_fixed :].min(initial=np.inf))

    def _terms(self) -> list[tuple[float, np.ndarray, np.ndarray, np.ndarray]]:
        k, state = self.members.n_members, self.model.state
        hessian = np.eye(k + 1)  # columns and target are centred if there is an intercept
        hessian[1:, 1:] = state.matrix[:k, :k] - self.rule.ridge * np.eye(k)
        return [(self.model.constant, np.concatenate([[0.0], -state.linear[:k]]), hessian, np.zeros(k + 1))]

    def _take_ridge(self, ridge: float) -> None:
        super()._take_ridge(ridge)
        self.model.take_rule(self.rule)

    def entry_state(self) -> State | None:
        """Return the state for tests of columns by their entries alone."""
        members, model, k = self.members, self.model, self.members.n_members
        if self.mode != "gram" or not isinstance(model, ExchangeModel) or k < members.capacity or not k:
            return None
        weight = members.weight if len(members.weight) else np.ones(len(self.y))
        squares, none = np.diagonal(model.state.matrix) - self.rule.ridge, np.zeros(k)
        return State(
            members.held, members.offset, members.factor, none, model.state.inverse, model.coef, none, squares,
            weight, weight, self._residual() * weight,
        )  # fmt: skip

    def finish(self) -> Finished:
        """Solve least squares on the members' products, ridge included, and return the removal costs."""
        k, coef, inverse = self.members.n_members, self.coef.copy(), self.model.inverse_of_members()
        if inverse is None:
            return Finished(coef, 0.0, 0.5 * coef[:k] ** 2)
        coef[:k] = self.model.minimum(inverse)
        return self._finished(coef, 0.0, inverse)

    def _state(self) -> QuadraticState:
        state: QuadraticState = self.model.state
        return state

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.model.state, self.model.counters = self.model.State.unpack(arrays), self.counters
        self.model.rule = self.rule
