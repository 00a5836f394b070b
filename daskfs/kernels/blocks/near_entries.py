"""Some columns of a block of entries, by row, for their correlations with each other.

The rows of a column are known from its own entries; the entries that it shares with others are in these rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.kernels.jit import is_stopped, kernel


class NearEntries(NamedTuple):
    """Columns `features` of a block. Row i has `values` at their positions ``places[starts[i]:starts[i + 1]]``.

    Values are divided by the column's standard deviation. In a column without zeros they are first centred. Zeros are
    never entries.
    """

    X: ColumnEntries
    features: np.ndarray
    """Shape (n_near,), ascending."""
    means: np.ndarray
    """Shape (n_near,): means of the columns over their standard deviations; 0 for columns without zeros."""
    starts: np.ndarray
    """Shape (n_samples + 1,)."""
    places: np.ndarray
    """Positions, int32, with room for the entries of the whole block."""
    values: np.ndarray
    """Values, float64, with the same room."""


@kernel
def near_entries(X, m, features, places, values):  # type: ignore[no-untyped-def]
    """Return the columns `features` of a block with moments `m`, in the given arrays."""
    starts, means = np.zeros(X.n_samples + 1, np.int64), np.zeros(features.shape[0])
    for j in features:
        for e in range(X.starts[j], X.starts[j + 1]):
            starts[X.rows[e] + 1] += 1
    for i in range(X.n_samples):
        starts[i + 1] += starts[i]
    place = starts[:-1].copy()
    for f in range(features.shape[0]):
        if f % 64 == 0 and is_stopped():
            break
        j = features[f]
        inverse = np.divide(1.0, m.scale[f])
        centre = _centre(X, j, m.mean[f])
        means[f] = (m.mean[f] - centre) * inverse
        for e in range(X.starts[j], X.starts[j + 1]):
            k = place[X.rows[e]]
            places[k], values[k] = f, (X.values[e] - centre) * inverse
            place[X.rows[e]] = k + 1
    return NearEntries(X, features, means, starts, places, values)


@kernel
def _centre(X, j, mean):  # type: ignore[no-untyped-def]
    return mean if X.starts[j + 1] - X.starts[j] == X.n_samples else 0.0


@kernel
def gram_rows_of_near(near, weight, m, features, out):  # type: ignore[no-untyped-def]
    """Write ⟨z_f, z_j⟩ for a few of the columns against all of them; see `daskfs.kernels.linear.moments.gram_rows`."""
    for a in range(features.shape[0]):
        if is_stopped():
            break
        f = features[a]
        gram_row_of(near, weight, m.total, near.features[f], m.mean[f], m.scale[f], out[a])


@kernel
def gram_row_of(near, weight, total, j, mean, scale, row):  # type: ignore[no-untyped-def]
    """Write the correlations of column j of the block with the near columns.

    They are means of products minus products of means.
    """
    X, means, starts, places, values = near.X, near.means, near.starts, near.places, near.values
    centre = _centre(X, j, mean)
    mean_left = (mean - centre) / scale
    for g in range(row.shape[0]):
        row[g] = -mean_left * means[g]
    for e in range(X.starts[j], X.starts[j + 1]):
        i = X.rows[e]
        factor = weight[i] * (X.values[e] - centre) / (scale * total)
        for k in range(starts[i], starts[i + 1]):
            row[places[k]] += factor * values[k]
