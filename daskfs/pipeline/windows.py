"""Tests of variants one at a time, and their r2 with selected ones. Workers import this, so it imports little."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.matrix.base import Matrix

BLOCK_NBYTES = 8 * 2**20
"""Memory of the rows that a task reads together."""
TOL = 1e-10
"""Share of the squares below which a variant is constant, or a combination of the covariates."""


class Null(NamedTuple):
    """The model of the target without variants: intercept and always-included columns.

    The score of a variant x is U = x'residual. Its variance is V = x'Wx - |basis'W^½ x|² times the error variance.
    """

    residual: np.ndarray
    root_weight: np.ndarray
    """Square root of W: 1 for linear regression, p(1 - p) for logistic regression."""
    basis: np.ndarray
    """Orthonormal basis of W^½ times intercept and covariates, of shape (n_samples, rank)."""
    n_free: int | None
    """Degrees of freedom when a variant is added; None for a score test, whose error variance is 1."""

    def statistics(self, score: np.ndarray, variance: np.ndarray) -> dict[str, np.ndarray]:
        """Return coefficient, standard error and p-value of variants; NaN for those without variance."""
        from scipy.special import ndtr, stdtr

        coef, error = score / variance, 1.0 / np.sqrt(variance)
        if self.n_free is None:
            return {"coef": coef, "std_error": error, "p_value": 2.0 * ndtr(-np.abs(coef / error))}
        error *= np.sqrt(np.maximum(self.residual @ self.residual - score * coef, 0.0) / self.n_free)
        with np.errstate(divide="ignore", invalid="ignore"):  # a model that explains everything has no error
            return {"coef": coef, "std_error": error, "p_value": 2.0 * stdtr(self.n_free, -np.abs(coef / error))}


class Part(NamedTuple):
    """Neighbouring variants, and the selected variants whose windows reach them."""

    columns: np.ndarray
    selected: np.ndarray


def tested_variants(matrix: Matrix, null: Null, part: Part) -> dict[str, np.ndarray]:
    """Return score and variance of some variants, and r2 of each with each selected one (variants x selected)."""
    n_samples, n_variants = matrix.shape[0], len(part.columns)
    both = np.concatenate([part.columns, part.selected])
    width = 2 * len(both) + null.basis.shape[1] + len(part.selected) + 2
    step = max(1, BLOCK_NBYTES // (8 * width))
    products: Any = 0.0
    squares: Any = 0.0
    for start in range(0, n_samples, step):
        rows = slice(start, min(start + step, n_samples))
        X = np.empty((rows.stop - start, len(both)))
        X[:, :n_variants] = matrix.read(rows, part.columns)
        X[:, n_variants:] = matrix.read(rows, part.selected)
        weight, ones = null.root_weight[rows, None], np.ones((len(X), 1))
        right = [X[:, n_variants:], null.residual[rows, None], ones, weight * null.basis[rows]]
        products += X.T @ np.hstack(right)
        squares += np.square(X).T @ np.hstack([ones, weight**2])
    n_selected = len(part.selected)
    weighted = squares[:n_variants, 1]
    variance = weighted - np.square(products[:n_variants, n_selected + 2 :]).sum(axis=1)
    mean = products[:, n_selected + 1] / n_samples
    spread = squares[:, 0] - n_samples * mean**2
    spread[spread <= TOL * squares[:, 0]] = np.nan
    covariance = products[:n_variants, :n_selected] - n_samples * np.outer(mean[:n_variants], mean[n_variants:])
    return {
        "score": products[:n_variants, n_selected],
        "variance": np.where(variance > TOL * weighted, variance, np.nan),
        "r2": np.minimum(covariance**2 / np.outer(spread[:n_variants], spread[n_variants:]), 1.0),
    }
