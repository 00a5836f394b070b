"""The summed loss of weighted rows, its residuals, and the shift (intercept) that minimises it at given predictions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import dot, sum_of
from daskfs.kernels.losses import SPAN, derivatives, values

MAX_HALVINGS = 40
ARMIJO = 1e-4  # share of the foretold decrease that a step must bring
ROUNDING = 2.0**-52  # a decrease that is foretold to be a smaller share of the loss cannot be seen


class Rows(NamedTuple):
    """Σ_i share_i loss(z_i, y_i), and room to compute it; all of shape (n_samples,) but `loss` and `bits`.

    Of several classes, each against the rest, the rows stand once for each class, one class after the other: shape
    (n_classes * n_samples,).
    """

    loss: int
    y: np.ndarray
    share: np.ndarray
    """C times the weight of the row."""
    moved: np.ndarray
    first: np.ndarray
    second: np.ndarray
    bits: np.ndarray


def new_rows(loss: int, y: np.ndarray, share: np.ndarray) -> Rows:
    """Return the rows of a problem with room to work in.

    Parameters
    ----------
    loss : int
    y : ndarray of shape (n_samples,) or (n_classes, n_samples), float64
    share : ndarray of shape (n_samples,), float64
    """
    y = np.atleast_2d(y)
    moved, first, second = np.zeros((3, y.size))
    return Rows(loss, y.ravel(), np.tile(share, len(y)), moved, first, second, np.zeros(SPAN, dtype=np.int64))


@kernel
def of_class(rows, c, n_classes):  # type: ignore[no-untyped-def]
    """Return the rows of one class, which share their memory."""
    n = rows.y.shape[0] // n_classes
    here = slice(c * n, (c + 1) * n)
    return Rows(
        rows.loss, rows.y[here], rows.share[here], rows.moved[here], rows.first[here], rows.second[here], rows.bits
    )


@kernel
def class_loss(rows, z, shift):  # type: ignore[no-untyped-def]
    """Return Σ_i share_i loss(z_i + shift, y_i) of one class."""
    for i in range(z.shape[0]):
        rows.moved[i] = z[i] + shift
    values(rows.loss, 0.0, rows.moved, rows.y, rows.first, rows.bits)
    return dot(rows.share, rows.first)


@kernel
def class_dual(rows, z, shift, out):  # type: ignore[no-untyped-def]
    """Write v_i = -share_i loss'(z_i + shift, y_i) of one class; `rows.second` is left at share times curvature."""
    for i in range(z.shape[0]):
        rows.moved[i] = z[i] + shift
    derivatives(rows.loss, 0.0, rows.moved, rows.y, rows.first, rows.second, rows.bits)
    for i in range(z.shape[0]):
        out[i] = -rows.share[i] * rows.first[i]
        rows.second[i] *= rows.share[i]


@kernel
def total_loss(rows, z, shift):  # type: ignore[no-untyped-def]
    """Return Σ_i share_i loss(z_i + shift, y_i) of all classes, `shift` being of shape (n_classes,)."""
    n_classes = shift.shape[0]
    n, total = z.shape[0] // n_classes, 0.0
    for c in range(n_classes):
        total += class_loss(of_class(rows, c, n_classes), z[c * n : (c + 1) * n], shift[c])
    return total


@kernel
def dual_variables(rows, z, shift, out):  # type: ignore[no-untyped-def]
    """Write the dual variables of all classes, see `class_dual`."""
    n_classes = shift.shape[0]
    n = z.shape[0] // n_classes
    for c in range(n_classes):
        here = slice(c * n, (c + 1) * n)
        class_dual(of_class(rows, c, n_classes), z[here], shift[c], out[here])


@kernel
def fit_shift(rows, z, shift, n_steps, tol):  # type: ignore[no-untyped-def]
    """Take up to `n_steps` Newton steps for each class's shift, shortened by Armijo's rule; return shifts and loss.

    Ends early where the slope falls to `tol` times Σ_i share_i.
    """
    n_classes = shift.shape[0]
    n, total = z.shape[0] // n_classes, 0.0
    found = np.empty(n_classes)
    for c in range(n_classes):
        found[c], value = _fit_class(of_class(rows, c, n_classes), z[c * n : (c + 1) * n], shift[c], n_steps, tol)
        total += value
    return found, total


@kernel
def _fit_class(rows, z, shift, n_steps, tol):  # type: ignore[no-untyped-def]
    value = class_loss(rows, z, shift)
    enough = tol * sum_of(rows.share)
    v = np.empty(z.shape[0])
    for _ in range(n_steps):
        if is_stopped():
            break
        class_dual(rows, z, shift, v)
        slope, curvature = -sum_of(v), sum_of(rows.second)
        if abs(slope) <= enough or curvature <= 0.0:
            break
        step = -slope / curvature
        is_lower = False
        for _ in range(MAX_HALVINGS):
            if is_stopped():
                break
            lower = class_loss(rows, z, shift + step)
            if lower <= value + ARMIJO * slope * step:
                is_lower = True
                break
            if -slope * step <= ROUNDING * abs(value):
                break
            step *= 0.5
        if not is_lower:
            break
        shift += step
        value = lower
    return shift, value
