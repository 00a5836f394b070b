"""Products of a vector with some columns of a block. The columns of a group are usually adjacent."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.blocks.dense_block import DenseBlock
from daskfs.kernels.jit import Choice, inner_loop, is_stopped, kernel


@kernel
def _of_dense(X, mean, scale, vector, features, out):  # type: ignore[no-untyped-def]
    if X.is_single:
        _of_array(X.singles, mean, scale, vector, features, out)
    else:
        _of_array(X.doubles, mean, scale, vector, features, out)


@kernel
def _of_array(X, mean, scale, vector, features, out):  # type: ignore[no-untyped-def]
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


multiply_some_columns = Choice(lambda block, *_: _of_dense if block is DenseBlock else _of_entries)
"""Write Σ_i vector_i z_ij for some columns j, at their positions among all columns; 0 for constant columns."""
