"""Operations of paths on a block of rows, either dense (`DenseBlock`) or sparse (`ColumnEntries`).

Kernels call them like any other kernel. The version is chosen at compile time.
"""

from __future__ import annotations

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
from daskfs.kernels.blocks.dense_block import (
    DenseBlock,
    copy_of_dense,
    gram_rows_of_dense,
    n_of_dense,
    products_with_dense,
)
from daskfs.kernels.blocks.near_entries import NearEntries, gram_rows_of_near
from daskfs.kernels.jit import Choice, kernel
from daskfs.kernels.linear.moments import Moments, moments


def block_moments(X: Any, y: np.ndarray, weight: np.ndarray) -> Moments:
    """Return the Moments of a block, an array or ColumnEntries."""
    found: Moments = (moments_of_entries if isinstance(X, ColumnEntries) else moments)(X, y, weight)
    return found


def rows_of_weight(X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return a block (an array or ColumnEntries), its target and weights without the rows of weight zero."""
    keep = weight > 0.0
    if keep.all():
        return X, y, weight
    return of_rows(X, keep) if isinstance(X, ColumnEntries) else X[keep], y[keep], weight[keep]


def _of_block(of_dense: Any, of_entries: Any, of_near: Any = None) -> Choice:
    """Return the version for the class of a block."""
    by_class = {DenseBlock: of_dense, ColumnEntries: of_entries, NearEntries: of_near}
    return Choice(lambda block, *_: by_class[block])


@kernel
def _n_entries(X):  # type: ignore[no-untyped-def]
    return X.values.size


@kernel
def _n_near(X):  # type: ignore[no-untyped-def]
    return X.starts[-1]


n_values = _of_block(n_of_dense, _n_entries, _n_near)
"""Return the number of values that a pass over a block reads."""
make_gram_rows = _of_block(gram_rows_of_dense, gram_rows_of_entries, gram_rows_of_near)
"""Write ⟨z_f, z_j⟩ for a few features f against every column j; see `daskfs.kernels.linear.moments.gram_rows`."""
multiply_columns = _of_block(products_with_dense, products_with_entries)
"""Write Σ_i vector_i z_ij for every column j; see `daskfs.kernels.linear.columns.products_with_columns`."""
standardised_columns = _of_block(copy_of_dense, copy_of_entries)
"""Write standardised columns into the rows of `out`; see `daskfs.kernels.linear.columns.copy_columns`."""
