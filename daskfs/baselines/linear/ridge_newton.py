"""Ridge regression and ridge logistic regression for very many columns: Newton steps without forming the Hessian.

    minimise   Σ_i w_i loss(y_i, x_i b + a) + ½ λ |b|²     over b (n_columns,) and the intercept a

A step solves H d = -gradient by conjugate gradients, preconditioned by approximate diagonal elements of H. Each of
their iterations costs one product with X and one with its transpose. The step is halved until the objective falls.
Several targets (each class against the rest) are solved side by side: X is read once for all.

The last step is one that lowers the objective by little of what is left of it. A small gradient says less: with a small
ridge it is small far from the minimum too, and the end would depend on the start.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MAX_STEPS, MAX_HALVINGS, MAX_PRODUCTS = 20, 12, 200
TOLERANCE = 1e-3
"""Gain of the last step, as a share of the objective. The step leaves a hundredth of it, or less; if its equations are
not solved to the end, the gain has to be smaller still."""
FORCING, FORCING_SQUARED = 0.1, 1e-3
"""Relative residuals of the conjugate gradients; smaller where the Hessian stays the same."""


class Problem(NamedTuple):
    """Scaled rows and their targets."""

    X: Any
    """Shape (n_samples, n_columns): dense, float32, centred; or a scipy.sparse.csr_array."""
    y: np.ndarray
    """Shape (n_samples, n_targets): numbers, or -1 and 1."""
    weight: np.ndarray
    """Shape (n_samples, 1)."""
    is_logistic: bool
    squares: np.ndarray
    """Shape (n_columns, 1): weighted sums of the squares of the columns."""

    def of_columns(self, columns: np.ndarray) -> Problem:
        """Return the problem of some columns."""
        return self._replace(X=self.X[:, columns], squares=self.squares[columns])

    def times(self, coef: np.ndarray) -> np.ndarray:
        """Return X b."""
        found: np.ndarray = self.X @ coef.astype(self.X.dtype, copy=False)
        return found.astype(np.float64, copy=False)

    def adjoint(self, left: np.ndarray) -> np.ndarray:
        """Return Xᵀ r."""
        found: np.ndarray = self.X.T @ left.astype(self.X.dtype, copy=False)
        return found.astype(np.float64, copy=False)

    def losses(self, z: np.ndarray) -> np.ndarray:
        """Return the total loss of each target."""
        each = np.logaddexp(0.0, -self.y * z) if self.is_logistic else 0.5 * (z - self.y) ** 2
        found: np.ndarray = (self.weight * each).sum(axis=0)
        return found

    def derivatives(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and second derivatives of the loss with respect to the linear predictor of every row."""
        if not self.is_logistic:
            return self.weight * (z - self.y), np.broadcast_to(self.weight, z.shape)
        wrong = 0.5 * (1.0 - np.tanh(0.5 * self.y * z))
        return -self.weight * self.y * wrong, self.weight * wrong * (1.0 - wrong)


class Solution(NamedTuple):
    """Coefficients of the scaled columns."""

    coef: np.ndarray
    """Shape (n_columns, n_targets)."""
    intercept: np.ndarray
    """Shape (n_targets,)."""


def null_solution(problem: Problem) -> Solution:
    """Return the optimal intercepts without columns."""
    mean = (problem.weight * problem.y).sum(axis=0) / problem.weight.sum()
    if problem.is_logistic:
        edge = 1.0 / (problem.weight.sum() + 1.0)
        share = np.clip(0.5 * (1.0 + mean), edge, 1.0 - edge)
        mean = np.log(share / (1.0 - share))
    return Solution(np.zeros((problem.X.shape[1], problem.y.shape[1])), mean)


def fit_ridge(problem: Problem, ridge: float, start: Solution) -> Solution:
    """Return the minimum for a ridge λ, starting from another solution."""
    coef, intercept = start
    z = problem.times(coef) + intercept
    for _ in range(MAX_STEPS):
        first, second = problem.derivatives(z)
        gradient = problem.adjoint(first) + ridge * coef, first.sum(axis=0)
        step, is_solved = _newton_step(problem, ridge, second, gradient)
        along = problem.times(step.coef) + step.intercept
        gain = -0.5 * ((gradient[0] * step.coef).sum(axis=0) + gradient[1] * step.intercept)
        before = problem.losses(z) + 0.5 * ridge * (coef**2).sum(axis=0)
        length = np.ones(len(before))
        for _ in range(MAX_HALVINGS):
            after = problem.losses(z + length * along) + 0.5 * ridge * ((coef + length * step.coef) ** 2).sum(axis=0)
            is_worse = after > before
            if not is_worse.any():
                break
            length = np.where(is_worse, 0.5 * length, length)
        length[is_worse] = 0.0
        coef, intercept, z = coef + length * step.coef, intercept + length * step.intercept, z + length * along
        if not length.any() or (gain <= (TOLERANCE if is_solved else TOLERANCE**2) * before).all():
            break
    return Solution(coef, intercept)


def _newton_step(
    problem: Problem, ridge: float, second: np.ndarray, gradient: tuple[np.ndarray, np.ndarray]
) -> tuple[Solution, bool]:
    """Solve H d = -gradient for d, for all targets side by side. Return whether all residuals are small enough."""
    tiny = np.finfo(float).tiny  # constant columns without a ridge, and classes that are told apart, have no curvature
    of_intercept = np.maximum(second.sum(axis=0), tiny)
    diagonal = np.maximum(problem.squares * (of_intercept / problem.weight.sum()) + ridge, tiny)
    left, left_of_intercept = -gradient[0], -gradient[1]
    d, a = np.zeros_like(left), np.zeros_like(left_of_intercept)
    p, q = left / diagonal, left_of_intercept / of_intercept
    squares = (left * p).sum(axis=0) + left_of_intercept * q
    enough = (FORCING if problem.is_logistic else FORCING_SQUARED) ** 2 * squares
    for _ in range(MAX_PRODUCTS):
        is_open = squares > enough
        if not is_open.any():
            return Solution(d, a), True
        bent = second * (problem.times(p) + q)
        Hp, Hq = problem.adjoint(bent) + ridge * p, bent.sum(axis=0)
        curvature = (p * Hp).sum(axis=0) + q * Hq
        length = np.divide(squares, curvature, out=np.zeros_like(squares), where=is_open & (curvature > 0.0))
        d, a = d + length * p, a + length * q
        left, left_of_intercept = left - length * Hp, left_of_intercept - length * Hq
        weighed, weighed_intercept = left / diagonal, left_of_intercept / of_intercept
        now = (left * weighed).sum(axis=0) + left_of_intercept * weighed_intercept
        share = np.divide(now, squares, out=np.zeros_like(now), where=squares > 0.0)
        p, q = weighed + share * p, weighed_intercept + share * q
        squares = np.where(length > 0.0, now, 0.0)
    return Solution(d, a), False
