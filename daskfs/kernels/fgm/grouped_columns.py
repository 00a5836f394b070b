"""Columns kept in memory, in groups: predictions from coefficients, products with residuals, a span of rows at a time.

A column is kept as it was read and means (x - centre) * inverse. A column may be in several groups: members of groups
are positions of columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.linear.columns import add_four_multiples, add_multiple, dot, dots, sum_of
from daskfs.kernels.numba_cache import is_stopped, kernel

SPAN = 2048  # rows taken at once: the span of a vector stays in the first-level cache


class Groups(NamedTuple):
    """Columns in memory and which of them form which group."""

    columns: np.ndarray
    """Shape (n_columns, n_samples), float32 (which holds int8 exactly) or float64."""
    centre: np.ndarray
    """Shape (n_columns,), float64."""
    inverse: np.ndarray
    """Shape (n_columns,), float64: 1 / scale."""
    members: np.ndarray
    """Shape (n_members,), int64: positions of columns, group after group."""
    bounds: np.ndarray
    """Shape (n_groups + 1,), int64: group t has ``members[bounds[t]:bounds[t + 1]]``."""


@kernel
def add_predictions(groups, first, last, coef, out):  # type: ignore[no-untyped-def]
    """Add Σ_m coef_m column_m over the members `first` to `last` to `out` of shape (n_samples,), float64."""
    constant = 0.0
    factor = np.empty(last - first)
    for m in range(first, last):
        p = groups.members[m]
        factor[m - first] = coef[m] * groups.inverse[p]
        constant -= factor[m - first] * groups.centre[p]
    for start in range(0, out.shape[0], SPAN):
        if is_stopped():
            break
        stop = min(start + SPAN, out.shape[0])
        part = out[start:stop]
        for i in range(part.shape[0]):
            part[i] += constant
        m = first
        while m + 4 <= last:
            a, b, c, d = groups.members[m], groups.members[m + 1], groups.members[m + 2], groups.members[m + 3]
            k = m - first
            add_four_multiples(
                groups.columns[a, start:stop], groups.columns[b, start:stop],
                groups.columns[c, start:stop], groups.columns[d, start:stop],
                factor[k], factor[k + 1], factor[k + 2], factor[k + 3], part,
            )  # fmt: skip
            m += 4
        while m < last:
            add_multiple(groups.columns[groups.members[m], start:stop], factor[m - first], part)
            m += 1


@kernel
def column_products(groups, vector, out):  # type: ignore[no-untyped-def]
    """Write the product of every column with a vector of shape (n_samples,) into `out` of shape (n_columns,)."""
    n_columns, n_samples = groups.columns.shape
    out[:] = 0.0
    for start in range(0, n_samples, SPAN):
        if is_stopped():
            break
        stop = min(start + SPAN, n_samples)
        part = vector[start:stop]
        p = 0
        while p + 2 <= n_columns:
            one, two = dots(groups.columns[p, start:stop], groups.columns[p + 1, start:stop], part)
            out[p] += one
            out[p + 1] += two
            p += 2
        if p < n_columns:
            out[p] += dot(groups.columns[p, start:stop], part)
    total = sum_of(vector)
    for p in range(n_columns):
        out[p] = (out[p] - groups.centre[p] * total) * groups.inverse[p]


@kernel
def group_norms(groups, coef, out):  # type: ignore[no-untyped-def]
    """Write the Euclidean norm of each group's coefficients."""
    for t in range(out.shape[0]):
        square = 0.0
        for m in range(groups.bounds[t], groups.bounds[t + 1]):
            square += coef[m] * coef[m]
        out[t] = np.sqrt(square)


@kernel
def group_squares(groups, products, out):  # type: ignore[no-untyped-def]
    """Write ‖X_tᵀ v‖² of each group from the products of the columns with v."""
    for t in range(out.shape[0]):
        square = 0.0
        for m in range(groups.bounds[t], groups.bounds[t + 1]):
            square += products[groups.members[m]] ** 2
        out[t] = square
