"""The multinomial fit of many coefficients for linearly separable classes, bounded by a weak ridge.

Coefficients become large, and the class of most rows becomes certain. Conjugate gradients then need hundreds of
products per step, and full steps overshoot. But a certain row has no curvature, and an uncertain row has curvature only
in the few classes that compete for it. The Hessian of those alone is formed and factored (Levenberg 1944, Marquardt
1963). Its damping is increased until steps gain what they predict, and it leads to a zero of the gradient of all rows.
The problem is that of `daskfs.kernels.glm.softmax_many`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.glm.softmax_many import softmax_gradient, softmax_value
from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import copy_into, dot_of_first
from daskfs.kernels.linear.gram_tiles import TILE, add_tiles
from daskfs.kernels.linear.linalg import solve_cholesky

MOST_UNKNOWNS = 2500  # largest Hessian that is formed: 100 MiB with its factor
MAX_TRIALS = 200
FIRST_DAMPING = 0.1  # added to the curvature of every coefficient, which is at most 1/4
FEW_ROWS = 1e-6  # extra rows per class at the start: a missing class has no finite intercept
LEAST_DAMPING = 1e-3  # share of the ridge; less damping is set to zero
LEAST_CURVATURE, MOST_LEFT_OUT = 1e-8, 1e-3  # of a class in a row, that may be left out: up to a share of the damping
TOLERANCE = 1e-5  # of the second to last step, in standard deviations of the coefficients times √n
WELL_KEPT, BADLY_KEPT, NOT_KEPT = 0.75, 0.25, 1e-3  # shares of a step's predicted gain
LOST = 1e-13  # of the digits of a diagonal element: the rest is rounding
PANEL = 128  # columns of the factor that are completed before the rest is updated


class RowEntries(NamedTuple):
    """Standardised columns by row: nonzero values after a one for the intercept, and a constant shift per column."""

    starts: np.ndarray
    """Shape (n_samples + 1,), int64."""
    places: np.ndarray
    """Indices of coefficients, uint32; that of the intercept is 0."""
    parts: np.ndarray
    shift: np.ndarray
    """Shape (n_columns + 1,): the columns are `parts` minus this shift in every row."""


def row_entries(X: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> RowEntries:
    """Return the entries of a block whose columns all vary. Those of columns that are rarely 0 are centred."""
    is_sparse = np.count_nonzero(X, axis=0) < 0.5 * len(X)
    parts = np.ones((len(X), X.shape[1] + 1))
    parts[:, 1:] = (X - np.where(is_sparse, 0.0, mean)) / scale
    rows, places = np.nonzero(parts)
    starts = np.searchsorted(rows, np.arange(len(X) + 1))
    shift = np.concatenate([[0.0], np.where(is_sparse, mean / scale, 0.0)])
    return RowEntries(starts, places.astype(np.uint32), parts[rows, places], shift)


def damped_nbytes(n_samples: int, n_unknowns: int, width: int) -> int:
    """Return the memory in bytes of `fit_damped` and of the row entries, in addition to its other arguments."""
    return 8 * (5 * n_samples * width + 2 * (n_unknowns + PANEL) * (n_unknowns + PANEL))


@kernel
def fit_damped(columns, entries, code, share, ridge, coef, z):  # type: ignore[no-untyped-def]
    """Minimise from the class frequencies, and write `coef`. Return whether it converged.

    Parameters
    ----------
    columns : ndarray of shape (n_columns, n_samples), float64, or EnteredEntries
        Standardised.
    entries : RowEntries
        The same columns by row.
    ridge : float
        Positive.
    code, share, coef, z : see `daskfs.kernels.glm.softmax_many.fit_by_products`
    """
    n_free, width = coef.shape
    members = np.arange(width - 1)
    _start(code, share, coef)
    n = n_free * width
    n_padded = (n + PANEL - 1) // PANEL * PANEL
    hessian, factor = np.zeros((n_padded, n_padded)), np.empty((n_padded, n_padded))
    gradient, step, trial = np.zeros((n_free, width)), np.zeros(n), coef.copy()
    value = softmax_value(columns, members, code, share, coef, ridge, z)
    damping, least_damping, is_new = FIRST_DAMPING, LEAST_DAMPING * ridge, True
    for _ in range(MAX_TRIALS):
        if is_stopped():
            break
        if is_new:
            softmax_gradient(columns, members, code, share, coef, ridge, z, gradient)
            _write_hessian(entries, share, z, min(max(damping, LEAST_CURVATURE), MOST_LEFT_OUT), hessian)
        for a in range(n_padded):
            copy_into(hessian[a, : a + 1], factor[a, : a + 1])
            factor[a, a] += damping + (ridge if a % width > 0 else 0.0) + (1.0 if a >= n else 0.0)
        _factorise(factor)
        square = solve_cholesky(factor, n, gradient.ravel(), step)
        for c in range(n_free):
            for q in range(width):
                trial[c, q] = coef[c, q] - step[c * width + q]
        reached = softmax_value(columns, members, code, share, trial, ridge, z)
        is_last = damping <= 2.0 * least_damping and square <= TOLERANCE * TOLERANCE
        kept = (value - reached) / (0.5 * square + 0.5 * damping * dot_of_first(step, step, n))
        is_new = kept > NOT_KEPT or is_last
        if is_new:
            value = reached
            for c in range(n_free):
                copy_into(trial[c], coef[c])
        if is_last:
            return True
        if kept > WELL_KEPT:
            damping = 0.1 * damping if damping > 2.0 * least_damping else 0.0
        elif kept < BADLY_KEPT:
            damping = max(4.0 * damping, least_damping)
    return False


@kernel
def _start(code, share, coef):  # type: ignore[no-untyped-def]
    """Write the intercepts of the class frequencies, with a few rows added to each class."""
    frequency = np.full(coef.shape[0] + 1, FEW_ROWS / code.shape[0])
    for i in range(code.shape[0]):
        frequency[code[i]] += share[i]
    coef[:] = 0.0
    for c in range(coef.shape[0]):
        coef[c, 0] = math.log(frequency[c] / frequency[-1])


@kernel
def _write_hessian(entries, share, z, least, hessian):  # type: ignore[no-untyped-def]
    """Write the lower triangle for the classes in each row with sufficient curvature.

    What is left out of a class is added to its diagonal. Otherwise steps of vanishing classes would be invalid.
    """
    n_free, width = z.shape[0], entries.shift.shape[0]
    starts = entries.starts
    hessian[:] = 0.0
    unsure, left_out = np.empty(n_free, np.int64), np.zeros(n_free)
    for i in range(share.shape[0]):
        if i % 1024 == 0 and is_stopped():
            break
        n_unsure = 0
        for c in range(n_free):
            curvature = z[c, i] * (1.0 - z[c, i])
            if curvature > least:
                unsure[n_unsure] = c
                n_unsure += 1
            else:
                left_out[c] += share[i] * curvature
        places, parts = entries.places[starts[i] : starts[i + 1]], entries.parts[starts[i] : starts[i + 1]]
        for a in range(n_unsure):
            c = unsure[a]
            band = hessian[c * width : (c + 1) * width]
            for b in range(a + 1):
                d = unsure[b]
                weight = share[i] * z[c, i] * ((1.0 if c == d else 0.0) - z[d, i])
                _add_products(places, parts, weight, band[:, d * width : (d + 1) * width])
    for c in range(n_free):
        for d in range(c + 1):
            _centre(entries.shift, hessian[c * width : (c + 1) * width, d * width : (d + 1) * width])
        for q in range(c * width, (c + 1) * width):
            hessian[q, q] += left_out[c]


@inner_loop
def _add_products(places, parts, weight, block):  # type: ignore[no-untyped-def]
    for a in range(places.shape[0]):
        p, at = places[a], weight * parts[a]
        for b in range(places.shape[0]):
            block[p, places[b]] += at * parts[b]


@kernel
def _centre(shift, block):  # type: ignore[no-untyped-def]
    """Subtract the shifts from the columns in their weighted Gram matrix."""
    whole, below, beside = block[0, 0], block[:, 0].copy(), block[0].copy()
    for p in range(shift.shape[0]):
        for q in range(shift.shape[0]):
            block[p, q] += shift[p] * (shift[q] * whole - beside[q]) - shift[q] * below[p]


@kernel
def _factorise(factor):  # type: ignore[no-untyped-def]
    """Replace the lower triangle by the Cholesky factor, one panel of columns at a time. A lost pivot is set to 0."""
    n = factor.shape[0]
    panel, minus, diagonal = np.empty((n, PANEL)), np.empty((n, PANEL)), np.diag(factor).copy()
    for k in range(0, n, PANEL):
        if is_stopped():
            break
        for q in range(k, n):
            row = factor[q, k : k + PANEL]
            for r in range(min(q - k + 1, PANEL)):
                entry, pivot = row[r] - dot_of_first(row, panel[k + r], r), panel[k + r, r]
                if q > k + r:
                    row[r] = entry / pivot if pivot > 0.0 else 0.0
                else:
                    row[r] = math.sqrt(entry) if entry > LOST * diagonal[q] else 0.0
                panel[q, r] = row[r]
                minus[q, r] = -row[r]
        for a in range(k + PANEL, n, TILE):
            add_tiles(minus, a, panel, k + PANEL, a + 1, 0.0, factor)
