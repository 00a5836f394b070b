"""A dense block of rows for paths, with their operations: Gram rows, products, copies.

float32 and float64 blocks have the same type. A path is a large function of which only small parts read the block; with
two types all of it would be compiled twice. Instead, each pass over the block tests once which of the two it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.jit import kernel
from daskfs.kernels.linear.columns import copy_columns, products_with_columns
from daskfs.kernels.linear.moments import gram_rows


class DenseBlock(NamedTuple):
    """One of the arrays is the block, of shape (n_samples, n_features) and C-ordered; the other is empty."""

    is_single: bool
    """Whether the block is float32."""
    singles: np.ndarray
    """float32."""
    doubles: np.ndarray
    """float64."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n_samples, n_features)."""
        return (self.singles if self.is_single else self.doubles).shape


NO_SINGLES, NO_DOUBLES = np.empty((0, 0), dtype=np.float32), np.empty((0, 0))


def as_block(X: Any) -> Any:
    """Return a block for paths: an array as a DenseBlock, entries unchanged."""
    if not isinstance(X, np.ndarray):
        return X
    if X.dtype == np.float32:
        return DenseBlock(True, X, NO_DOUBLES)
    return DenseBlock(False, NO_SINGLES, X)


@kernel
def n_of_dense(X):  # type: ignore[no-untyped-def]
    """Return the number of values of the block."""
    return X.singles.size + X.doubles.size


@kernel
def gram_rows_of_dense(X, weight, block_moments, features, out):  # type: ignore[no-untyped-def]
    """Write ⟨z_f, z_j⟩ for a few features f against every column; see `daskfs.kernels.linear.moments.gram_rows`."""
    if X.is_single:
        gram_rows(X.singles, weight, block_moments, features, out)
    else:
        gram_rows(X.doubles, weight, block_moments, features, out)


@kernel
def products_with_dense(X, mean, scale, vector, out):  # type: ignore[no-untyped-def]
    """Write Σ_i vector_i z_ij for every column; see `daskfs.kernels.linear.columns.products_with_columns`."""
    if X.is_single:
        products_with_columns(X.singles, mean, scale, vector, out)
    else:
        products_with_columns(X.doubles, mean, scale, vector, out)


@kernel
def copy_of_dense(X, mean, scale, features, out):  # type: ignore[no-untyped-def]
    """Write standardised columns into the rows of `out`; see `daskfs.kernels.linear.columns.copy_columns`."""
    if X.is_single:
        copy_columns(X.singles, mean, scale, features, out)
    else:
        copy_columns(X.doubles, mean, scale, features, out)


@kernel
def copy_to_rows(rows, X, mean, scale, features, first):  # type: ignore[no-untyped-def]
    """Write standardised columns into rows, starting at `first`."""
    copy_of_dense(X, mean, scale, features, rows[first : first + features.shape[0]])
