"""Columns in memory, in groups: predictions from coefficients, and products with residuals, one span of rows at a time.

A column is kept as it was read, and represents (x - centre) * inverse. A column may be in several groups. With several
classes, each against the rest, a group has each of its columns once per class: its coefficients are a matrix with the
Frobenius norm, and vectors over the rows are concatenated by class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import add_four_multiples, add_multiple, dot, dots, sum_of

SPAN = 2048  # rows processed at once: the span of a vector stays in the L1 cache


class Groups(NamedTuple):
    """Columns in memory, and the groups that they form."""

    columns: np.ndarray
    """Shape (n_columns, n_samples), float32 (which represents int8 exactly) or float64."""
    centre: np.ndarray
    """Shape (n_columns,), float64."""
    inverse: np.ndarray
    """Shape (n_columns,), float64: 1 / scale."""
    members: np.ndarray
    """Shape (n_members,), int64: position of the column times `n_classes` plus the class, concatenated by group."""
    bounds: np.ndarray
    """Shape (n_groups + 1,), int64: group t has ``members[bounds[t]:bounds[t + 1]]``."""
    n_classes: int = 1


@kernel
def add_predictions(groups, first, last, coef, out):  # type: ignore[no-untyped-def]
    """Add Σ_m coef_m column_m over the members `first` to `last` to `out`, of shape (n_classes * n_samples,)."""
    n_classes = groups.n_classes
    n = out.shape[0] // n_classes
    for c in range(n_classes):
        _add_class(groups, first, last, c, coef, out[c * n : (c + 1) * n])


@kernel
def _add_class(groups, first, last, c, coef, out):  # type: ignore[no-untyped-def]
    constant, n_members = 0.0, 0
    factor, columns = np.empty(last - first), np.empty(last - first, np.int64)
    for m in range(first, last):
        p = groups.members[m] // groups.n_classes
        if groups.members[m] - p * groups.n_classes == c:
            columns[n_members], factor[n_members] = p, coef[m] * groups.inverse[p]
            constant -= factor[n_members] * groups.centre[p]
            n_members += 1
    for start in range(0, out.shape[0], SPAN):
        if is_stopped():
            break
        stop = min(start + SPAN, out.shape[0])
        part = out[start:stop]
        for i in range(part.shape[0]):
            part[i] += constant
        k = 0
        while k + 4 <= n_members:
            add_four_multiples(
                groups.columns[columns[k], start:stop], groups.columns[columns[k + 1], start:stop],
                groups.columns[columns[k + 2], start:stop], groups.columns[columns[k + 3], start:stop],
                factor[k], factor[k + 1], factor[k + 2], factor[k + 3], part,
            )  # fmt: skip
            k += 4
        while k < n_members:
            add_multiple(groups.columns[columns[k], start:stop], factor[k], part)
            k += 1


@kernel
def column_products(groups, vector, out):  # type: ignore[no-untyped-def]
    """Write the product of every column with a vector of shape (n_classes * n_samples,), for each class.

    `out` has shape (n_columns * n_classes,), in the order of members.
    """
    n_samples, n_classes = groups.columns.shape[1], groups.n_classes
    of_class = np.empty(groups.columns.shape[0])
    for c in range(n_classes):
        _class_products(groups, vector[c * n_samples : (c + 1) * n_samples], of_class)
        for p in range(of_class.shape[0]):
            out[p * n_classes + c] = of_class[p]


@kernel
def _class_products(groups, vector, out):  # type: ignore[no-untyped-def]
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
    """Write ‖X_tᵀ v‖² for each group, from the products of the columns with v."""
    for t in range(out.shape[0]):
        square = 0.0
        for m in range(groups.bounds[t], groups.bounds[t + 1]):
            square += products[groups.members[m]] ** 2
        out[t] = square
