"""Ridge regression, logistic and multinomial, for very many columns: Newton steps without forming the Hessian.

    minimise   Σ_i w_i loss(y_i, x_i b + a) + ½ λ |b|²     over b (n_columns, n_targets) and the intercepts a

A step solves H d = -gradient by conjugate gradients, preconditioned by approximate diagonal elements of H. Each of
their iterations costs one product with X and one with its transpose. The step is halved until the objective falls.
The classes of the multinomial loss are one problem. Other targets are solved side by side: X is read once for all.

The last step is one that lowers the objective by little of what is left of it. A small gradient says less: with a small
ridge it is small far from the minimum too, and the end would depend on the start.

Unknowns are arrays of shape (n_columns + 1, n_targets), with the intercepts in the last row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from daskfs.losses import Loss

MAX_STEPS, MAX_HALVINGS, MAX_PRODUCTS = 100, 12, 200
TOLERANCE = 3e-4
"""Gain of the last step, as a share of the objective. The step leaves a hundredth of it, or less; if its equations are
not solved to the end, the gain has to be smaller still."""
FORCING, FORCING_SQUARED = 0.1, 1e-3
"""Relative residuals of the conjugate gradients; smaller where the Hessian stays the same."""


class Problem(NamedTuple):
    """Scaled rows and their targets."""

    X: Any
    """Shape (n_samples, n_columns): dense, float32, centred; or a scipy.sparse.csr_array."""
    y: np.ndarray
    """Shape (n_samples, n_targets): numbers; -1 and 1 for the logistic loss; 0 and 1 for the multinomial loss."""
    weight: np.ndarray
    """Shape (n_samples, 1)."""
    loss: Loss
    """Squared, logistic or multinomial."""
    squares: np.ndarray
    """Shape (n_columns, 1): weighted sums of the squares of the columns."""

    def of_columns(self, columns: np.ndarray) -> Problem:
        """Return the problem of some columns."""
        return self._replace(X=self.X[:, columns], squares=self.squares[columns])

    def times(self, unknowns: np.ndarray) -> np.ndarray:
        """Return X b + a."""
        found: np.ndarray = self.X @ unknowns[:-1].astype(self.X.dtype, copy=False)
        return found + unknowns[-1]

    def adjoint(self, left: np.ndarray) -> np.ndarray:
        """Return Xᵀ r, and the sums of r in the last row."""
        return np.concatenate([self.X.T @ left.astype(self.X.dtype, copy=False), left.sum(axis=0, keepdims=True)])

    def dot(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the inner product of each target's values; that of all values, shape (1,), if they are one problem."""
        found: np.ndarray = (left * right).sum(axis=0)
        return found.sum(keepdims=True) if self.loss.has_classes else found

    def objective(self, z: np.ndarray, ridge: np.ndarray, unknowns: np.ndarray) -> np.ndarray:
        """Return the loss of each problem at the linear predictors z, and its penalty."""
        penalty = 0.5 * self.dot(ridge * unknowns, unknowns)
        if self.loss.is_quadratic:
            return self.dot(self.weight, 0.5 * (z - self.y) ** 2) + penalty
        if self.loss.has_classes:
            of_rows = logsumexp(z, axis=1, keepdims=True) - (self.y * z).sum(axis=1, keepdims=True)
            return self.dot(self.weight, of_rows) + penalty
        return self.dot(self.weight, np.logaddexp(0.0, -self.y * z)) + penalty

    def derivatives(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first derivatives of the loss with respect to the linear predictors, and those that `bent` takes.

        These are the second derivatives; for the multinomial loss the probabilities of the classes.
        """
        if self.loss.is_quadratic:
            return self.weight * (z - self.y), np.broadcast_to(self.weight, z.shape)
        if self.loss.has_classes:
            share = softmax(z, axis=1)
            return self.weight * (share - self.y), share
        wrong = 0.5 * (1.0 - np.tanh(0.5 * self.y * z))
        return -self.weight * self.y * wrong, self.weight * wrong * (1.0 - wrong)

    def bent(self, second: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Return how the first derivatives change along a direction of the linear predictors."""
        if not self.loss.has_classes:
            return second * direction
        mean = (second * direction).sum(axis=1, keepdims=True)
        found: np.ndarray = self.weight * second * (direction - mean)
        return found

    def diagonal(self, second: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """Return approximate diagonal elements of the Hessian, in the shape of the unknowns."""
        each = self.weight * second * (1.0 - second) if self.loss.has_classes else second
        shares = np.append(self.squares / self.weight.sum(), [[1.0]], axis=0)
        tiny = np.finfo(float).tiny  # constant columns without a ridge, and separated classes, have no curvature
        found: np.ndarray = np.maximum(shares * each.sum(axis=0) + ridge, tiny)
        return found


def null_solution(problem: Problem) -> np.ndarray:
    """Return the optimal intercepts without columns."""
    mean = (problem.weight * problem.y).sum(axis=0) / problem.weight.sum()
    edge = 1.0 / (problem.weight.sum() + 1.0)
    if problem.loss.has_classes:
        mean = np.log(np.maximum(mean, edge))
    elif problem.loss.is_classifier:
        share = np.clip(0.5 * (1.0 + mean), edge, 1.0 - edge)
        mean = np.log(share / (1.0 - share))
    return np.append(np.zeros((problem.X.shape[1], len(mean))), mean[None], axis=0)


def fit_ridge(problem: Problem, ridge: float, start: np.ndarray) -> np.ndarray:
    """Return the unknowns that minimise the objective for a ridge λ, starting from others.

    Those of the multinomial loss sum to 0 over the classes: another sum has the same loss and a larger penalty.
    """
    unknowns, z = start, problem.times(start)
    of_each = np.full((len(start), 1), ridge)
    of_each[-1] = 0.0
    for _ in range(MAX_STEPS):
        first, second = problem.derivatives(z)
        gradient = problem.adjoint(first) + of_each * unknowns
        step, is_solved = _newton_step(problem, of_each, second, gradient)
        along, gain = problem.times(step), -0.5 * problem.dot(gradient, step)
        before = problem.objective(z, of_each, unknowns)
        length = np.ones(len(before))
        for _ in range(MAX_HALVINGS):
            is_worse = problem.objective(z + length * along, of_each, unknowns + length * step) > before
            if not is_worse.any():
                break
            length = np.where(is_worse, 0.5 * length, length)
        length[is_worse] = 0.0
        unknowns, z = unknowns + length * step, z + length * along
        if not length.any() or (gain <= (TOLERANCE if is_solved else TOLERANCE**2) * before).all():
            break
    return unknowns - unknowns.mean(axis=1, keepdims=True) if problem.loss.has_classes else unknowns


def _newton_step(
    problem: Problem, ridge: np.ndarray, second: np.ndarray, gradient: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Solve H d = -gradient for d. Return whether the residuals of all problems are small enough."""
    diagonal = problem.diagonal(second, ridge)
    d, left = np.zeros_like(gradient), -gradient
    p = left / diagonal
    squares = problem.dot(left, p)
    enough = (FORCING_SQUARED if problem.loss.is_quadratic else FORCING) ** 2 * squares
    for _ in range(MAX_PRODUCTS):
        is_open = squares > enough
        if not is_open.any():
            return d, True
        Hp = problem.adjoint(problem.bent(second, problem.times(p))) + ridge * p
        curvature = problem.dot(p, Hp)
        length = np.divide(squares, curvature, out=np.zeros_like(squares), where=is_open & (curvature > 0.0))
        d, left = d + length * p, left - length * Hp
        weighed = left / diagonal
        now = problem.dot(left, weighed)
        p = weighed + np.divide(now, squares, out=np.zeros_like(now), where=squares > 0.0) * p
        squares = np.where(length > 0.0, now, 0.0)
    return d, False
