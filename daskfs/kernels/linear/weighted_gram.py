"""The weighted Gram matrix of ones and some columns: the Hessian of a loss in an intercept and coefficients.

Position 0 of all matrices and vectors is the intercept; the columns follow from position 1.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import four_row_dots, row_dot, sum_of
from daskfs.kernels.linear.gram_tiles import BAND_ROWS, TILE, add_tiles, padded


@kernel
def member_products(columns, members, n_members, vector, out):  # type: ignore[no-untyped-def]
    """Write the products of the members with a vector into `out` from position 1 on."""
    n_fours = n_members - n_members % 4
    for q in range(0, n_fours, 4):
        if is_stopped():
            break
        out[q + 1], out[q + 2], out[q + 3], out[q + 4] = four_row_dots(
            columns, members[q], members[q + 1], members[q + 2], members[q + 3], vector
        )
    for q in range(n_fours, n_members):
        out[q + 1] = row_dot(columns, members[q], vector)


@kernel
def extend_hessian(columns, members, n_members, first, weight, hessian, work):  # type: ignore[no-untyped-def]
    """Write rows `first` to `n_members` of the weighted Gram matrix, and their transpose. Row 0 is the intercept."""
    if first == 0:
        hessian[0, 0] = sum_of(weight)
    for a in range(max(first, 1), n_members + 1):
        if is_stopped():
            break
        column = members[a - 1]
        for i in range(work.shape[0]):
            work[i] = weight[i] * columns[column, i]
        hessian[a, 0] = sum_of(work)
        member_products(columns, members, a, work, hessian[a])
        for b in range(a):
            hessian[b, a] = hessian[a, b]


@kernel
def make_hessian(columns, members, n_members, first, weight, hessian, work):  # type: ignore[no-untyped-def]
    """Like `extend_hessian`, at the speed of BLAS with another order of summation. Weights must be non-negative."""
    n, top = n_members + 1, first // TILE * TILE
    band, sums = np.zeros((padded(n), BAND_ROWS)), np.zeros((padded(n) - top, padded(n)))
    for start in range(0, weight.shape[0], BAND_ROWS):
        if is_stopped():
            break
        n_rows = min(BAND_ROWS, weight.shape[0] - start)
        if n_rows < BAND_ROWS:
            band[:] = 0.0
        for i in range(n_rows):
            band[0, i] = work[i] = math.sqrt(weight[start + i])
        for q in range(n_members):
            _weigh_part(columns, members[q], start, n_rows, work, band, q + 1)
        for a in range(top, n, TILE):
            add_tiles(band[top:], a - top, band, 0, a + 1, 0.0, sums)
    for a in range(first, n):
        for b in range(a + 1):
            hessian[a, b] = hessian[b, a] = sums[a - top, b]


@kernel
def _weigh_part(columns, q, start, n_rows, factors, band, a):  # type: ignore[no-untyped-def]
    for i in range(n_rows):
        band[a, i] = factors[i] * columns[q, np.uintp(start + i)]  # unsigned: no negative index, so no gather
