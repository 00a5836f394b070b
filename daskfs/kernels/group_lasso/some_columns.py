"""Products of a vector with some columns of a block: those of a group most often lie together."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.kernels.instructions import chosen_by_type
from daskfs.kernels.numba_cache import inner_loop, is_stopped, kernel


def multiply_some_columns(X, mean, scale, vector, features, out):  # type: ignore[no-untyped-def]
    """Write Σ_i vector_i z_ij for some columns j, in the places of these among all; 0 at constant columns."""
    multiply = _of_entries if isinstance(X, ColumnEntries) else _of_dense
    multiply(X, mean, scale, vector, features, out)


@kernel
def _of_dense(X, mean, scale, vector, features, out):  # type: ignore[no-untyped-def]
    sums = np.zeros(features.shape[0])
    for i in range(X.shape[0]):
        if i % 1024 == 0 and is_stopped():
            break
        _add_row(X, i, vector[i], mean, features, sums)
    for f in range(features.shape[0]):
        j = features[f]
        out[j] = sums[f] / scale[j] if scale[j] > 0.0 else 0.0


@inner_loop
def _add_row(X, i, factor, mean, features, out):  # type: ignore[no-untyped-def]
    for f in range(features.shape[0]):
        out[f] += factor * (X[i, features[f]] - mean[features[f]])


@kernel
def _of_entries(X, mean, scale, vector, features, out):  # type: ignore[no-untyped-def]
    whole = vector.sum()
    for f in range(features.shape[0]):
        if f % 64 == 0 and is_stopped():
            break
        j = features[f]
        product, here = 0.0, 0.0
        for e in range(X.starts[j], X.starts[j + 1]):
            v = vector[X.rows[e]]
            product += v * (X.values[e] - mean[j])
            here += v
        out[j] = (product - mean[j] * (whole - here)) / scale[j] if scale[j] > 0.0 else 0.0


@chosen_by_type(multiply_some_columns)
def _multiply_some_columns(X, mean, scale, vector, features, out):  # type: ignore[no-untyped-def]
    from numba.core import types

    if isinstance(X, types.Array):
        return lambda X, mean, scale, vector, features, out: _of_dense(X, mean, scale, vector, features, out)
    return lambda X, mean, scale, vector, features, out: _of_entries(X, mean, scale, vector, features, out)
