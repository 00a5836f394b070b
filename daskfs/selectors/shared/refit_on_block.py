"""What the refit on selected columns asks of a block of rows. Imported by workers, hence light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfs.kernels.glm.fit import newton_terms
from daskfs.kernels.linear.moments import moments
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows


@dataclass(frozen=True, slots=True)
class Model:
    """A linear predictor of columns that are centred and scaled the same on every block."""

    loss: str
    positive: float | None
    """The target's value for the class that counts as +1; None for a target of numbers."""
    threshold: float
    """Of the Huber loss."""
    solution: np.ndarray
    """The intercept, then the coefficients of ``(x - centre) / scale``."""
    centre: np.ndarray
    scale: np.ndarray
    """0 where a column takes no part."""


def moments_on_rows(matrix: Matrix, columns: Rows, positive: float | None, rows: Rows) -> dict[str, np.ndarray]:
    """Return total, mean and scale of the columns on some rows; a total of 0 where no row has weight."""
    X, y, weight = read_rows(matrix, columns, positive, rows)
    if not weight.any():
        nothing = np.zeros(X.shape[1])
        return {"total": np.zeros(1), "y_mean": np.zeros(1), "mean": nothing, "scale": nothing}
    m = moments(X, y, weight)
    return {"total": np.array([m.total]), "y_mean": np.array([m.y_mean]), "mean": m.mean, "scale": m.scale}


def terms_on_rows(matrix: Matrix, columns: Rows, model: Model, rows: Rows) -> dict[str, np.ndarray]:
    """Return value, gradient and Hessian of the summed loss of some rows."""
    X, y, weight = read_rows(matrix, columns, model.positive, rows)
    n = len(model.solution)
    if not weight.any():
        return {"value": np.zeros(1), "gradient": np.zeros(n), "hessian": np.zeros((n, n))}
    terms = newton_terms(
        X,
        y,
        weight,
        loss=model.loss,
        coef=model.solution[1:],
        intercept=model.solution[0],
        centre=model.centre,
        scale=model.scale,
        threshold=model.threshold,
    )
    return {"value": np.array([terms.value]), "gradient": terms.gradient, "hessian": terms.hessian}


def read_rows(
    matrix: Matrix, columns: Rows, positive: float | None, rows: Rows
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and weight of some rows as the kernels take them, classes as -1 and +1."""
    X = as_kernels_take_it(matrix.read(rows, columns))
    y = as_vector(matrix.read_target(rows))
    if positive is not None:
        y = np.where(y == positive, 1.0, -1.0)
    found = matrix.read_weight(rows)
    return X, y, np.ones(len(y)) if found is None else as_vector(found)


def as_vector(values: Any) -> np.ndarray:
    """float64, contiguous and writable: for numba, read-only arrays are another type, compiled again."""
    return np.require(values, dtype=np.float64, requirements=["C", "W"])


def as_kernels_take_it(X: np.ndarray) -> np.ndarray:
    """float32 (which holds int8 exactly) or float64, C-ordered and writable; a copy only where it must be."""
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float32)
    return np.require(X, dtype=dtype, requirements=["C", "W"])
