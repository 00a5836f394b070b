"""Sandwich standard errors of a fit of given columns: valid even if the noise does not match the loss.

The minimum b of the summed loss Σ w_i l(z_i, y_i) has asymptotically the covariance H⁻¹ M H⁻¹, H the Hessian there and
M = Σ w_i l'(z_i)² x_i x_iᵀ, times n / (n - k) for k coefficients (Huber 1967; White 1980: HC1). A row of weight 2
counts as two rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs.kernels.glm.fit import newton_terms
from daskfs.kernels.glm.newton import new_predictions
from daskfs.kernels.linear.linalg import invert_independent
from daskfs.kernels.losses import derivatives
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.refit import MeanLoss, SelectedFit, model_of
from daskfs.selectors.shared.refit_on_block import Model, read_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.selected_blocks import SelectedBlocks


@dataclass(frozen=True, slots=True)
class RowSquares(Record):
    """M of some rows, for the intercept and the coefficients of standardised columns."""

    squares: np.ndarray


def squares_on_rows(matrix: Matrix, columns: Rows, model: Model, rows: Rows) -> RowSquares:
    """Return M of some rows."""
    X, y, weight = read_rows(matrix, columns, model.positive, rows)
    at, centre, scale = new_predictions(len(y)), model.centre, model.scale
    slope = np.divide(model.solution[1:], scale, out=np.zeros(len(scale)), where=scale > 0.0)
    at.z[:] = X @ slope + (model.solution[0] - float(centre @ slope))
    derivatives(find_loss(model.loss).code, model.threshold, at.z, y, at.residual, at.curvature, at.bits)
    weight = weight * at.residual**2
    if not weight.any():
        return RowSquares(np.zeros((len(scale) + 1, len(scale) + 1)))
    nowhere = np.zeros(len(scale))
    products = newton_terms(X, y, weight, loss="squared", coef=nowhere, intercept=0.0, centre=centre, scale=scale)
    return RowSquares(products.hessian)


def robust_errors(run: Run, columns: np.ndarray, mean_loss: MeanLoss, fit: SelectedFit) -> np.ndarray:
    """Return the standard errors of the coefficients of a fit, shape (n_columns,), on the scale of the data.

    NaN for columns that are constant or depend on others, and everywhere if the fit has no finite minimum.

    Parameters
    ----------
    run, columns, mean_loss : as for `daskfs.selectors.shared.refit.refit_selected`
    fit : SelectedFit
        Its result. With a ridge these are errors around the value to which the ridge shrinks.
    """
    n = len(columns)
    if fit.is_separable or not n:
        return np.full(n, np.nan)
    with run.timed("refit"):
        blocks = SelectedBlocks(run, columns)
        model, total = model_of(blocks, mean_loss, fit)
        hessian = blocks.terms(model, total).with_ridge(model.solution, fit.ridge).hessian * total
        parts = blocks.run.map("refit", squares_on_rows, blocks.parts, blocks.columns, model)
        squares = np.sum([part.squares for part in parts], axis=0)
    inverse, dead = invert_independent(hessian)
    if total <= n + 1:
        return np.full(n, np.nan)
    variance = np.einsum("ij,jk,ik->i", inverse, squares, inverse)[1:] * total / (total - n - 1.0)
    is_known = (model.scale > 0.0) & ~dead[1:] & (variance > 0.0)
    return np.where(is_known, np.sqrt(np.maximum(variance, 0.0)) / np.where(is_known, model.scale, 1.0), np.nan)
