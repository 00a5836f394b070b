"""The summed loss of weighted rows, its residuals, and the shift that minimises it at given predictions.

The shift is the unpenalised part of the model: the intercept, and the coefficients of free columns, which are in the
model whatever is selected. With several classes, the shifts of the classes are concatenated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import add_row, copy_into, dot, largest_size, sum_of
from daskfs.kernels.linear.linalg import factorise, solve_cholesky
from daskfs.kernels.linear.weighted_gram import extend_hessian, member_products
from daskfs.kernels.losses import SPAN, derivatives, values

MAX_HALVINGS = 40
ARMIJO = 1e-4  # share of the predicted decrease that a step must achieve
ROUNDING = 2.0**-52  # a smaller predicted decrease, as a share of the loss, is below rounding


class Rows(NamedTuple):
    """Σ_i share_i loss(z_i, y_i), with work arrays; all of shape (n_samples,) except `loss`, `bits` and `free`.

    With several classes, each against the rest, the rows are repeated for each class and concatenated: shape (n_classes
    * n_samples,).
    """

    loss: int
    y: np.ndarray
    share: np.ndarray
    """C times the weight of the row."""
    moved: np.ndarray
    first: np.ndarray
    second: np.ndarray
    bits: np.ndarray
    free: np.ndarray
    """Shape (n_free, n_samples): columns without a penalty, the same for all classes."""


def new_rows(loss: int, y: np.ndarray, share: np.ndarray, free: np.ndarray | None = None) -> Rows:
    """Return the rows of a problem, with work arrays.

    Parameters
    ----------
    loss : int
    y : ndarray of shape (n_samples,) or (n_classes, n_samples), float64
    share : ndarray of shape (n_samples,), float64
    free : ndarray of shape (n_free, n_samples), float64, optional
    """
    y = np.atleast_2d(y)
    moved, first, second = np.zeros((3, y.size))
    bits, free = np.zeros(SPAN, dtype=np.int64), np.empty((0, y.shape[1])) if free is None else free
    return Rows(loss, y.ravel(), np.tile(share, len(y)), moved, first, second, bits, free)


@kernel
def of_class(rows, c, n_classes):  # type: ignore[no-untyped-def]
    """Return the rows of one class, which share the memory."""
    n = rows.y.shape[0] // n_classes
    here = slice(c * n, (c + 1) * n)
    return Rows(
        rows.loss, rows.y[here], rows.share[here], rows.moved[here], rows.first[here], rows.second[here], rows.bits,
        rows.free,
    )  # fmt: skip


@kernel
def shift_of_class(rows, shift, c):  # type: ignore[no-untyped-def]
    """Return a class's part of the shift: its intercept and the coefficients of the free columns."""
    width = 1 + rows.free.shape[0]
    return shift[c * width : (c + 1) * width]


@kernel
def _move(rows, z, shift):  # type: ignore[no-untyped-def]
    """Write the predictions of one class: `z` plus the intercept and the free columns."""
    for i in range(z.shape[0]):
        rows.moved[i] = z[i] + shift[0]
    for k in range(rows.free.shape[0]):
        add_row(rows.free, k, shift[k + 1], rows.moved)


@kernel
def class_loss(rows, z, shift):  # type: ignore[no-untyped-def]
    """Return Σ_i share_i loss of one class at the predictions `z` and a shift of shape (1 + n_free,)."""
    _move(rows, z, shift)
    values(rows.loss, 0.0, rows.moved, rows.y, rows.first, rows.bits)
    return dot(rows.share, rows.first)


@kernel
def class_dual(rows, z, shift, out):  # type: ignore[no-untyped-def]
    """Write v_i = -share_i loss' of one class, see `class_loss`. `rows.second` returns share times curvature."""
    _move(rows, z, shift)
    derivatives(rows.loss, 0.0, rows.moved, rows.y, rows.first, rows.second, rows.bits)
    for i in range(z.shape[0]):
        out[i] = -rows.share[i] * rows.first[i]
        rows.second[i] *= rows.share[i]


@kernel
def total_loss(rows, z, shift):  # type: ignore[no-untyped-def]
    """Return Σ_i share_i loss of all classes, for a `shift` of shape (n_classes * (1 + n_free),)."""
    n_classes = shift.shape[0] // (1 + rows.free.shape[0])
    n, total = z.shape[0] // n_classes, 0.0
    for c in range(n_classes):
        own = shift_of_class(rows, shift, c)
        total += class_loss(of_class(rows, c, n_classes), z[c * n : (c + 1) * n], own)
    return total


@kernel
def dual_variables(rows, z, shift, out):  # type: ignore[no-untyped-def]
    """Write the dual variables of all classes, see `class_dual`."""
    n_classes = shift.shape[0] // (1 + rows.free.shape[0])
    n = z.shape[0] // n_classes
    for c in range(n_classes):
        here, own = slice(c * n, (c + 1) * n), shift_of_class(rows, shift, c)
        class_dual(of_class(rows, c, n_classes), z[here], own, out[here])


@kernel
def fit_shift(rows, z, shift, n_steps, tol, fit_intercept):  # type: ignore[no-untyped-def]
    """Take up to `n_steps` Newton steps for each class's shift, shortened by Armijo's rule. Return shifts and loss.

    Stop when no derivative exceeds `tol` times Σ_i share_i. Without `fit_intercept`, only the free columns move.
    """
    n_classes = shift.shape[0] // (1 + rows.free.shape[0])
    n, total = z.shape[0] // n_classes, 0.0
    found = shift.copy()
    for c in range(n_classes):
        own = shift_of_class(rows, found, c)
        total += _fit_class(of_class(rows, c, n_classes), z[c * n : (c + 1) * n], own, n_steps, tol, fit_intercept)
    return found, total


@kernel
def _fit_class(rows, z, shift, n_steps, tol, fit_intercept):  # type: ignore[no-untyped-def]
    """Fit one class's shift in place, see `fit_shift`. Return the loss."""
    n, n_free, n_samples = shift.shape[0], rows.free.shape[0], z.shape[0]
    value = class_loss(rows, z, shift)
    enough = tol * sum_of(rows.share)
    v, work, members = np.empty(n_samples), np.empty(n_samples), np.arange(n_free)
    descent, step, moved = np.zeros(n), np.zeros(n), np.empty(n)
    hessian, chol = np.zeros((n, n)), np.zeros((n, n))
    for _ in range(n_steps):
        if is_stopped():
            break
        class_dual(rows, z, shift, v)
        descent[0] = sum_of(v) if fit_intercept else 0.0
        member_products(rows.free, members, n_free, v, descent)
        if largest_size(descent) <= enough:
            break
        extend_hessian(rows.free, members, n_free, 0, rows.second, hessian, work)
        if not fit_intercept:
            hessian[0, :] = 0.0
            hessian[:, 0] = 0.0
        factorise(hessian, n, 0.0, chol)
        fall = solve_cholesky(chol, n, descent, step)  # first-order prediction; 0 without curvature
        length, is_lower, lower = 1.0, False, value
        for _ in range(MAX_HALVINGS):
            if is_stopped() or fall <= 0.0:
                break
            for k in range(n):
                moved[k] = shift[k] + length * step[k]
            lower = class_loss(rows, z, moved)
            if lower <= value - ARMIJO * length * fall:
                is_lower = True
                break
            if length * fall <= ROUNDING * abs(value):
                break
            length *= 0.5
        if not is_lower:
            break
        copy_into(moved, shift)
        value = lower
    return value
