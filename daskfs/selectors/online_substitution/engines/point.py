"""The present point of a selection with any loss: coefficients, intercept, prediction, and the loss's derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs.kernels.linear.linalg import invert, multiply
from daskfs.kernels.substitution.group_exchange import loads_of
from daskfs.kernels.substitution.products import NO_WEIGHT, cross_products, row_products
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.objective import LossSettings, Objective

JITTER = 1e-6  # share of the mean curvature, used if the loss has almost no curvature and there is no ridge
MAX_HALVINGS = 10
MAX_LAST_STEPS = 20


@dataclass
class Quadratic:
    """The quadratic approximation of the loss at a point, with the intercept profiled out.

    The products of columns are Σ_i d_i a_i b_i / n, with d the curvature. If there is an intercept, columns are centred
    by their d-weighted means, which profiles it out.
    """

    curvature: np.ndarray
    """d, the curvature of each sample's loss; that of an earlier point if the approximation was moved."""
    total: float
    """Sum of the curvatures; 0: no gain is possible."""
    derivative: np.ndarray
    """Derivative of each sample's loss."""
    response: np.ndarray
    """d u - derivative, with u the members' prediction: its products with columns are the linear term."""
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
        given = (self.curvature, self.total, self.derivative, self.response)
        return Quadratic(*given, *(array.copy() for array in changed))


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
        self.members, self.least_pivot, self.fits_intercept = members, least_pivot, loss.fits_intercept
        self.objective = Objective(loss.loss.name, y, members.weight, ridge, loss.threshold, loss.fits_intercept)
        self.coef = np.zeros(members.capacity)
        self.others: np.ndarray | float = 0.0
        """What others contribute to the prediction, if they share it: their features and the intercept."""
        self.own = np.zeros(len(y))
        """The members' contribution to the prediction, without the intercept."""
        self.objective.without_features()
        self.intercept, self.value = float(self.objective.intercept[0]), 0.0
        self.derivative, self.curvature = self.own, self.own
        """Multiplied by the samples' weights."""
        self.look()

    @property
    def ridge(self) -> float:
        """The ridge in the objective."""
        return self.objective.ridge

    @ridge.setter
    def ridge(self, ridge: float) -> None:
        self.objective.ridge = ridge
        self.look()

    def move_to(self, coef: np.ndarray, intercept: float) -> None:
        """Move to other coefficients."""
        self.coef[:], self.intercept = coef, intercept
        self.members.predict(self.coef, 0.0, self.own)
        self.look()

    def meet(self, others: np.ndarray | float) -> None:
        """Set what others contribute to the prediction, the intercept included."""
        self.others, self.intercept = others, 0.0
        self.look()

    def look(self) -> None:
        """Update value and derivatives."""
        prediction = self.own + (self.others + self.intercept)
        self.value = self.objective.value(prediction, self.objective.penalty(self.coef))
        self.derivative, self.curvature = self.objective.derivatives(prediction)

    def gradient(self, columns: Columns) -> np.ndarray:
        """Return the derivative of the mean loss in each column's coefficient, without the ridge, of shape (B,)."""
        products: np.ndarray = row_products(columns.rows, self.derivative, NO_WEIGHT) / self.members.total
        return products

    def members_gradient(self, derivative: np.ndarray) -> np.ndarray:
        """Return the derivative in the members' coefficients, ridge included, of shape (n_members,)."""
        products: np.ndarray = row_products(self.members.held, derivative, NO_WEIGHT) / self.members.total
        return products + self.ridge * self.coef[: self.members.n_members]

    def products(
        self,
        quadratic: Quadratic,
        left: np.ndarray,
        right: np.ndarray,
        left_sums: np.ndarray,
        right_sums: np.ndarray,
        which: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the products of columns in an approximation.

        Parameters
        ----------
        quadratic : Quadratic
        left, right : ndarray of shapes (A, n_samples) and (B, n_samples)
        left_sums, right_sums : ndarray of shapes (A,) and (B,)
            Curvature-weighted sums of these columns.
        which : ndarray of int, optional
            Rows of `right` to use, for which `right_sums` is given; all by default.
        """
        products = cross_products(left, right, quadratic.curvature, which)
        if self.fits_intercept:
            products -= left_sums[:, None] * (right_sums / quadratic.total)
        products /= self.members.total
        return products

    def diagonal(self, quadratic: Quadratic, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Return the curvature along each column, ridge included, and the curvature-weighted sums of the columns."""
        rows, curvature = columns.rows, quadratic.curvature
        sums = row_products(rows, curvature, NO_WEIGHT)
        squares = np.array([row_products(row[None], row, curvature)[0] for row in rows])
        if self.fits_intercept:
            squares -= sums**2 / quadratic.total
        return np.maximum(squares, 0.0) / self.members.total + self.ridge, sums

    def quadratic(self, before: Quadratic | None = None) -> Quadratic:
        """Return the quadratic approximation of the loss at this point, minimised over the members.

        Parameters
        ----------
        before : Quadratic, optional
            An approximation at an earlier point, over the same members, whose curvature is kept.
        """
        members, k, capacity = self.members, self.members.n_members, self.members.capacity
        if before is None:
            squares, sums, inverse = np.zeros(capacity), np.zeros(capacity), np.zeros((capacity, capacity))
            found = Quadratic(
                self.curvature,
                float(self.curvature.sum()),
                self.derivative,
                self.own,
                sums,
                inverse,
                self.coef,
                squares,
            )
            sums[:k] = row_products(members.held, self.curvature, NO_WEIGHT)
            if k and found.total > 0.0 and not self._invert(found):
                found.total = 0.0
        else:
            found = before.copy()
        found.derivative, found.optimum = self.derivative, self.coef.copy()
        found.response = found.curvature * self.own - self.derivative
        if self.fits_intercept and found.total > 0.0:  # with the intercept profiled out
            found.derivative = self.derivative - found.curvature * (float(self.derivative.sum()) / found.total)
            found.response -= found.curvature * (float(found.response.sum()) / found.total)
        found.response /= members.total
        if k and found.total > 0.0:
            found.optimum[:k] -= multiply(found.inverse[:k, :k].copy(), self.members_gradient(found.derivative))
        return found

    def _invert(self, quadratic: Quadratic) -> bool:
        """Set the inverse and the squares of the members; return False if there is no inverse."""
        k, rows, sums = self.members.n_members, self.members.held, quadratic.sums[: self.members.n_members]
        matrix, inverse = self.products(quadratic, rows, rows, sums, sums), np.zeros((k, k))
        quadratic.squares[:k] = np.diagonal(matrix)
        matrix[np.diag_indices(k)] += self.ridge
        if self.least_pivot:
            matrix[np.diag_indices(k)] += loads_of(matrix, self.least_pivot)
        if not invert(matrix, inverse):
            matrix[np.diag_indices(k)] += JITTER * matrix.trace() / k
            if not invert(matrix, inverse):
                return False
        quadratic.inverse[:k, :k] = inverse
        return True

    def exchanged(self, before: Quadratic, after: Quadratic) -> None:
        """Move to the minimum of the approximation, intercept included, after members were exchanged on it."""
        intercept = self.intercept
        if self.fits_intercept and before.total > 0.0:
            drift = float((after.sums * after.optimum).sum() - (before.sums * self.coef).sum())
            intercept -= (drift + float(self.derivative.sum())) / before.total
        self.move_to(after.optimum, intercept)

    def newton_step(self) -> None:
        """Move to the minimum of the quadratic approximation; shorten the step until the loss does not rise."""
        start, intercept, value = self.coef.copy(), self.intercept, self.value
        quadratic = self.quadratic()
        if quadratic.total <= 0.0:
            return
        direction, drift = quadratic.optimum - start, 0.0
        if self.fits_intercept:
            drift = -(float((quadratic.sums * direction).sum()) + float(self.derivative.sum())) / quadratic.total
        length = 1.0
        for _ in range(MAX_HALVINGS):
            self.move_to(start + length * direction, intercept + length * drift)
            if self.value <= value:
                return
            length *= 0.5
        self.move_to(start, intercept)

    def minimise(self) -> None:
        """Move to the loss's minimum over the members by Newton steps."""
        for _ in range(MAX_LAST_STEPS):
            before = self.value
            self.newton_step()
            if before - self.value <= 1e-10 * abs(before):
                break

    def at_minimum(self) -> tuple[np.ndarray, float, np.ndarray]:
        """Return coefficients and intercept at the loss's minimum over the members, and M⁻¹; the point stays."""
        coef, intercept = self.coef.copy(), self.intercept
        self.minimise()
        found = self.coef.copy(), self.intercept, self.quadratic().inverse
        self.move_to(coef, intercept)
        return found

    def terms(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Return the values that `Engine._terms` describes, for this point."""
        members, k = self.members, self.members.n_members
        rows, coef = members.held, self.coef[:k].copy()
        hessian, gradient = np.eye(k + 1), np.zeros(k + 1)
        hessian[1:, 1:] = cross_products(rows, rows, self.curvature) / members.total
        gradient[1:] = self.members_gradient(self.derivative) - self.ridge * coef
        if self.fits_intercept:
            hessian[0, 0] = max(float(self.curvature.sum()) / members.total, np.finfo(float).tiny)
            hessian[0, 1:] = hessian[1:, 0] = row_products(rows, self.curvature, NO_WEIGHT) / members.total
            gradient[0] = float(self.derivative.sum()) / members.total
        return self.value - self.objective.penalty(coef), gradient, hessian, np.append(0.0, coef)
