"""The present point of a selection with any loss: coefficients, intercept, prediction, and the loss's derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs.kernels.linear.linalg import invert, multiply
from daskfs.kernels.losses import SPAN, derivatives, values
from daskfs.kernels.substitution.group_exchange import loads_of
from daskfs.kernels.substitution.products import NO_WEIGHT, row_products
from daskfs.losses import Loss, find_loss
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.base import BatchWidth, Engine, Rule
from daskfs.selectors.online_substitution.engines.quadratic import curved_products
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.shared.record import Record

INTERCEPT_STEPS = 20
EPSILON_SHARE = 0.1  # share of the target's standard deviation
JITTER = 1e-6  # share of the mean curvature, used if the loss has almost no curvature and there is no ridge
MAX_HALVINGS = 10
MAX_LAST_STEPS = 20


@dataclass(frozen=True, slots=True)
class LossSettings:
    """A loss, and how it is fitted."""

    loss: Loss
    threshold: float = 0.0
    """Threshold of the epsilon-insensitive loss."""
    fits_intercept: bool = False
    """Whether the intercept is a parameter of its own; it is not if columns and target are centred."""


def loss_settings(
    name: str, y: np.ndarray, weight: np.ndarray | None, epsilon: float | None, fits_intercept: bool
) -> LossSettings:
    """Return a loss with its settings for a target.

    Parameters
    ----------
    name : str
    y : ndarray of shape (n_samples,)
    weight : ndarray of shape (n_samples,), optional
    epsilon : float, optional
        Threshold of the epsilon-insensitive loss; by default a tenth of the target's standard deviation.
    fits_intercept : bool
        With the squared loss, columns and target are centred instead.
    """
    loss, threshold = find_loss(name), 0.0
    if loss.threshold == "spread":
        spread = np.sqrt(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
        threshold = EPSILON_SHARE * float(spread) if epsilon is None else float(epsilon)
    return LossSettings(loss, threshold, fits_intercept and not loss.is_quadratic)


@dataclass(slots=True)
class Coefficients(Record):
    """Coefficients of the members, of shape (capacity,), and the intercept."""

    coef: np.ndarray
    intercept: float


@dataclass
class Quadratic:
    """The quadratic approximation of the loss at a point, with the intercept profiled out."""

    total: float
    """Sum of the samples' curvatures; 0: no gain is possible."""
    derivative: np.ndarray
    """Derivative of each sample's loss."""
    sums: np.ndarray
    """Curvature-weighted sums of the members' columns, of shape (capacity,)."""
    inverse: np.ndarray
    """Inverse of the members' products, ridge included, of shape (capacity, capacity)."""
    optimum: np.ndarray
    """The members' coefficients at the minimum of the approximation, of shape (capacity,)."""
    squares: np.ndarray
    """The members' curvatures, without the ridge, of shape (capacity,)."""

    def copy(self) -> Quadratic:
        """Return a copy; arrays that exchanges change are not shared."""
        changed = (self.sums, self.inverse, self.optimum, self.squares)
        return Quadratic(self.total, self.derivative, *(array.copy() for array in changed))


class Point:
    """Coefficients of the members and an intercept, with the loss and its derivatives at their prediction.

    Parameters
    ----------
    members : Members
        Of floating point.
    y : ndarray of shape (n_samples,), float64
        Classes are -1 and +1.
    loss : LossSettings
    ridge : float
    least_pivot : float
        Threshold below which dependent members get an amount added to their diagonal; see
        `daskfs.kernels.substitution.group_exchange`. 0: never.
    """

    def __init__(
        self, members: Members, y: np.ndarray, loss: LossSettings, ridge: float, least_pivot: float = 0.0
    ) -> None:
        self.members, self.y, self.loss, self.ridge, self.least_pivot = members, y, loss, ridge, least_pivot
        self.coef = np.zeros(members.capacity)
        self.intercept, self.value = 0.0, 0.0
        self.prediction = np.zeros(len(y))
        self.derivative, self.curvature = np.zeros(len(y)), np.zeros(len(y))
        """Multiplied by the samples' weights."""
        self._values, self._bits = np.zeros(len(y)), np.empty(SPAN, np.int64)
        self.predict()
        if loss.fits_intercept:
            self._start_intercept()

    def coefficients(self) -> Coefficients:
        """Return the present coefficients and intercept."""
        return Coefficients(self.coef, self.intercept)

    def move_to(self, coefficients: Coefficients) -> None:
        """Move to other coefficients."""
        self.coef[:], self.intercept = coefficients.coef, coefficients.intercept
        self.predict()

    def predict(self) -> None:
        """Update prediction, value and derivatives after a change of the coefficients."""
        members, weight = self.members, self.members.weight
        members.predict(self.coef, self.intercept, self.prediction)
        at = (self.loss.loss.code, self.loss.threshold, self.prediction, self.y)
        values(*at, self._values, self._bits)
        derivatives(*at, self.derivative, self.curvature, self._bits)
        total = float((self._values * weight).sum() if len(weight) else self._values.sum())
        self.value = total / members.total + 0.5 * self.ridge * float((self.coef**2).sum())
        if len(weight):
            self.derivative *= weight
            self.curvature *= weight

    def _start_intercept(self) -> None:
        """Minimise over the intercept alone."""
        for _ in range(INTERCEPT_STEPS):
            curvature = float(self.curvature.sum())
            if curvature <= 0.0:
                return
            step, before, start = -float(self.derivative.sum()) / curvature, self.value, self.intercept
            while True:
                self.intercept = start + step
                self.predict()
                if self.value <= before or abs(step) < 1e-12:
                    break
                step *= 0.5
            if abs(step) <= 1e-12 * (1.0 + abs(self.intercept)):
                return

    def gradient(self, columns: Columns, derivative: np.ndarray) -> np.ndarray:
        """Return the derivative of the mean loss in each column's coefficient, without the ridge, of shape (B,)."""
        products: np.ndarray = row_products(columns.rows, derivative, NO_WEIGHT) / self.members.total
        return products

    def members_gradient(self, derivative: np.ndarray) -> np.ndarray:
        """Return the derivative in the members' coefficients, ridge included, of shape (n_members,)."""
        k = self.members.n_members
        products: np.ndarray = row_products(self.members.rows[:k], derivative, NO_WEIGHT) / self.members.total
        return products + self.ridge * self.coef[:k]

    def weighted(
        self,
        left: np.ndarray,
        right: np.ndarray,
        left_sums: np.ndarray,
        right_sums: np.ndarray,
        total: float,
        which: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return products weighted by the curvature, and centred by it if there is an intercept.

        Parameters
        ----------
        left, right : ndarray of shapes (A, n_samples) and (B, n_samples)
        left_sums, right_sums : ndarray of shapes (A,) and (B,)
            Curvature-weighted sums of these columns.
        total : float
            Sum of the curvatures.
        which : ndarray of int, optional
            Rows of `right` to use, for which `right_sums` is given; all by default.
        """
        centre = total if self.loss.fits_intercept else 0.0
        return curved_products(left, right, self.curvature, self.members.total, centre, left_sums, right_sums, which)

    def diagonal(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Return the curvature along each column, ridge included, and the curvature-weighted sums of the columns."""
        rows, curvature = columns.rows, self.curvature
        sums = row_products(rows, curvature, NO_WEIGHT)
        squares = np.array([row_products(row[None], row, curvature)[0] for row in rows])
        if self.loss.fits_intercept:
            squares -= sums**2 / float(curvature.sum())
        return np.maximum(squares, 0.0) / self.members.total + self.ridge, sums

    def quadratic(self) -> Quadratic:
        """Return the quadratic approximation of the loss at this point, minimised over the members."""
        members, k = self.members, self.members.n_members
        capacity, total = members.capacity, float(self.curvature.sum())
        derivative, rows = self.derivative.copy(), members.rows[:k]
        if self.loss.fits_intercept and total > 0.0:  # with the intercept profiled out
            derivative -= self.curvature * (float(self.derivative.sum()) / total)
        sums, inverse, optimum = np.zeros(capacity), np.zeros((capacity, capacity)), self.coef.copy()
        squares = np.zeros(capacity)
        sums[:k] = row_products(rows, self.curvature, NO_WEIGHT)
        if k and total > 0.0:
            matrix, found = self.weighted(rows, rows, sums[:k], sums[:k], total), np.zeros((k, k))
            squares[:k] = np.diagonal(matrix)
            matrix[np.diag_indices(k)] += self.ridge
            if self.least_pivot:
                matrix[np.diag_indices(k)] += loads_of(matrix, self.least_pivot)
            if not invert(matrix, found):
                matrix[np.diag_indices(k)] += JITTER * matrix.trace() / k
                if not invert(matrix, found):
                    return Quadratic(0.0, derivative, sums, inverse, optimum, squares)
            inverse[:k, :k] = found
            optimum[:k] -= multiply(found, self.members_gradient(derivative))
        return Quadratic(total, derivative, sums, inverse, optimum, squares)

    def exchanged(self, before: Quadratic, after: Quadratic) -> None:
        """Move to the minimum of the approximation, intercept included, after members were exchanged on it."""
        if self.loss.fits_intercept and before.total > 0.0:
            drift = float((after.sums * after.optimum).sum() - (before.sums * self.coef).sum())
            self.intercept -= (drift + float(self.derivative.sum())) / before.total
        self.coef[:] = after.optimum
        self.predict()

    def newton_step(self) -> None:
        """Move to the minimum of the quadratic approximation; shorten the step until the loss does not rise."""
        start, intercept, value = self.coef.copy(), self.intercept, self.value
        quadratic = self.quadratic()
        if quadratic.total <= 0.0:
            return
        direction, drift = quadratic.optimum - start, 0.0
        if self.loss.fits_intercept:
            drift = -(float((quadratic.sums * direction).sum()) + float(self.derivative.sum())) / quadratic.total
        length = 1.0
        for _ in range(MAX_HALVINGS):
            self.coef[:] = start + length * direction
            self.intercept = intercept + length * drift
            self.predict()
            if self.value <= value:
                return
            length *= 0.5
        self.coef[:], self.intercept = start, intercept
        self.predict()

    def at_minimum(self) -> tuple[np.ndarray, float, np.ndarray]:
        """Return coefficients and intercept at the loss's minimum over the members, and M⁻¹; the point stays."""
        coef, intercept = self.coef.copy(), self.intercept
        for _ in range(MAX_LAST_STEPS):
            before = self.value
            self.newton_step()
            if before - self.value <= 1e-10 * abs(before):
                break
        inverse, final, best = self.quadratic().inverse, self.coef.copy(), self.intercept
        self.move_to(Coefficients(coef, intercept))
        return final, best, inverse

    def terms(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Return the values that `Engine._terms` describes, for this point."""
        members, k = self.members, self.members.n_members
        rows, coef = members.held, self.coef[:k].copy()
        hessian, gradient = np.eye(k + 1), np.zeros(k + 1)
        hessian[1:, 1:] = curved_products(rows, rows, self.curvature, members.total)
        gradient[1:] = self.members_gradient(self.derivative) - self.ridge * coef
        if self.loss.fits_intercept:
            hessian[0, 0] = max(float(self.curvature.sum()) / members.total, np.finfo(float).tiny)
            hessian[0, 1:] = hessian[1:, 0] = row_products(rows, self.curvature, NO_WEIGHT) / members.total
            gradient[0] = float(self.derivative.sum()) / members.total
        return self.value - 0.5 * self.ridge * float((coef**2).sum()), gradient, hessian, np.append(0.0, coef)


class PointEngine(Engine):
    """An engine for any loss, with the coefficients, intercept and objective of a `Point`.

    Parameters
    ----------
    members : Members
        Of floating point.
    rule, mode, width
        See `Engine`.
    y : ndarray of shape (n_samples,), float64
        Classes are -1 and +1.
    loss : LossSettings
    """

    _least_pivot = 0.0

    def __init__(
        self, members: Members, rule: Rule, mode: str, width: BatchWidth, y: np.ndarray, loss: LossSettings
    ) -> None:
        super().__init__(members, rule, mode, width)
        self.point = Point(members, y, loss, rule.ridge, self._least_pivot)
        self.loss = loss.loss.name

    def _terms(self) -> list[tuple[float, np.ndarray, np.ndarray, np.ndarray]]:
        return [self.point.terms()]

    def _take_ridge(self, ridge: float) -> None:
        super()._take_ridge(ridge)
        self.point.ridge = ridge
        self.point.predict()

    @property
    def coef(self) -> np.ndarray:
        """Coefficients of the standardised columns, of shape (capacity,)."""
        return self.point.coef

    @property
    def intercept(self) -> float:
        """The intercept."""
        return self.point.intercept

    @property
    def value(self) -> float:
        """The objective."""
        return self.point.value
