"""What paths ask of a block of rows, whether it is dense or holds entries (`ColumnEntries`).

Kernels call these as any other; which of the two they mean is decided as they are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from daskfs.kernels.blocks.column_entries import (
    ColumnEntries,
    copy_of_entries,
    gram_rows_of_entries,
    moments_of_entries,
    of_rows,
    products_with_entries,
)
from daskfs.kernels.blocks.near_entries import NearEntries, gram_rows_of_near
from daskfs.kernels.instructions import chosen_by_type
from daskfs.kernels.linear.columns import copy_columns, products_with_columns
from daskfs.kernels.linear.moments import Moments, gram_rows, moments


def block_moments(X: Any, y: np.ndarray, weight: np.ndarray) -> Moments:
    """Return the Moments of a block."""
    found: Moments = (moments_of_entries if isinstance(X, ColumnEntries) else moments)(X, y, weight)
    return found


def rows_of_weight(X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return a block, its target and weights without the rows of weight zero."""
    keep = weight > 0.0
    if keep.all():
        return X, y, weight
    return of_rows(X, keep) if isinstance(X, ColumnEntries) else X[keep], y[keep], weight[keep]


def n_values(X):  # type: ignore[no-untyped-def]
    """Return how many numbers a pass over a block looks at."""
    return X.size if isinstance(X, np.ndarray) else X.values.size


def make_gram_rows(X, weight, block_moments, features, out):  # type: ignore[no-untyped-def]
    """Write ⟨z_f, z_j⟩ for a few features f against every column j; see `daskfs.kernels.linear.moments.gram_rows`."""
    (gram_rows_of_entries if isinstance(X, ColumnEntries) else gram_rows)(X, weight, block_moments, features, out)


def multiply_columns(X, mean, scale, vector, out):  # type: ignore[no-untyped-def]
    """Write Σ_i vector_i z_ij for every column j; see `daskfs.kernels.linear.columns.products_with_columns`."""
    (products_with_entries if isinstance(X, ColumnEntries) else products_with_columns)(X, mean, scale, vector, out)


def standardised_columns(X, mean, scale, features, out):  # type: ignore[no-untyped-def]
    """Write standardised columns into the rows of `out`; see `daskfs.kernels.linear.columns.copy_columns`."""
    (copy_of_entries if isinstance(X, ColumnEntries) else copy_columns)(X, mean, scale, features, out)


def _choose(
    X: Any, of_entries: Callable[..., Any], of_dense: Callable[..., Any], of_near: Callable[..., Any] | None = None
) -> Callable[..., Any] | None:
    """Return what is compiled for a type; None, which numba reports as a type error, for what is no block."""
    from numba.core import types

    if isinstance(X, types.Array):
        return of_dense
    return {ColumnEntries: of_entries, NearEntries: of_near}.get(getattr(X, "instance_class", type(None)))


@chosen_by_type(n_values)
def _n_values(X):  # type: ignore[no-untyped-def]
    return _choose(X, lambda X: X.values.size, lambda X: X.size, lambda X: X.starts[-1])


@chosen_by_type(make_gram_rows)
def _make_gram_rows(X, weight, block_moments, features, out):  # type: ignore[no-untyped-def]
    return _choose(
        X,
        lambda X, weight, block_moments, features, out: gram_rows_of_entries(X, weight, block_moments, features, out),
        lambda X, weight, block_moments, features, out: gram_rows(X, weight, block_moments, features, out),
        lambda X, weight, block_moments, features, out: gram_rows_of_near(X, weight, block_moments, features, out),
    )


@chosen_by_type(multiply_columns)
def _multiply_columns(X, mean, scale, vector, out):  # type: ignore[no-untyped-def]
    return _choose(
        X,
        lambda X, mean, scale, vector, out: products_with_entries(X, mean, scale, vector, out),
        lambda X, mean, scale, vector, out: products_with_columns(X, mean, scale, vector, out),
    )


@chosen_by_type(standardised_columns)
def _standardised_columns(X, mean, scale, features, out):  # type: ignore[no-untyped-def]
    return _choose(
        X,
        lambda X, mean, scale, features, out: copy_of_entries(X, mean, scale, features, out),
        lambda X, mean, scale, features, out: copy_columns(X, mean, scale, features, out),
    )
