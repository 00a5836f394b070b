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
    n_some, n_eights, n_runs = features.shape[0], X.shape[0] - X.shape[0] % 8, 0
    runs, sums = np.empty(n_some + 1, np.int64), np.zeros(n_some)
    for f in range(n_some):
        if f == 0 or features[f] != features[f - 1] + 1:
            runs[n_runs] = f
            n_runs += 1
    runs[n_runs] = n_some
    for i in range(0, n_eights, 8):
        if i % 1024 == 0 and is_stopped():
            break
        _add_eight_rows(X, i, vector, mean, features, runs, n_runs, sums)
    for i in range(n_eights, X.shape[0]):
        for f in range(n_some):
            sums[f] += vector[i] * (X[i, features[f]] - mean[features[f]])
    for f in range(n_some):
        j = features[f]
        out[j] = sums[f] / scale[j] if scale[j] > 0.0 else 0.0


@inner_loop
def _add_eight_rows(X, i, vector, mean, features, runs, n_runs, sums):  # type: ignore[no-untyped-def]
    """Add the contribution of rows i to i + 7. Columns of a run are neighbours, so they are loaded together."""
    v0, v1, v2, v3 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
    v4, v5, v6, v7 = vector[i + 4], vector[i + 5], vector[i + 6], vector[i + 7]
    for r in range(n_runs):
        start = features[runs[r]]
        for a in range(runs[r + 1] - runs[r]):
            j = np.uintp(start + a)  # unsigned: no negative index
            m = mean[j]
            sums[np.uintp(runs[r] + a)] += (
                (v0 * (X[i, j] - m) + v1 * (X[i + 1, j] - m)) + (v2 * (X[i + 2, j] - m) + v3 * (X[i + 3, j] - m))
            ) + ((v4 * (X[i + 4, j] - m) + v5 * (X[i + 5, j] - m)) + (v6 * (X[i + 6, j] - m) + v7 * (X[i + 7, j] - m)))


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
