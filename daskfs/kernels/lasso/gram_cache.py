"""Cache of a path for the refit: moments and correlations of the features that it has examined.

It is small enough to send. A refit of any of these features on this block needs no further pass over the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import kernel
from daskfs.kernels.lasso.steps import ENTERED, ROWS, PathState
from daskfs.kernels.linear.columns import copy_into
from daskfs.kernels.linear.moments import Moments


class GramCache(NamedTuple):
    """Moments and correlations of `n` features of one block; entered ones first, in their order of entry."""

    total: float
    """Sum of the weights."""
    y_mean: float
    y_variance: float
    features: np.ndarray
    """Shape (n,), int64."""
    mean: np.ndarray
    """Shape (n,)."""
    scale: np.ndarray
    """Shape (n,): standard deviations, all positive."""
    cross: np.ndarray
    """Shape (n,): ⟨z_j, y - y_mean⟩."""
    gram: np.ndarray
    """Shape (n, n): correlations."""


def cache_gram(m: Moments, state: PathState, max_features: int | None) -> GramCache:
    """Return the cache of a path's features, at most `max_features`; None keeps all that have a Gram row."""
    limit = len(state.gram) if max_features is None else max_features
    return GramCache(m.total, m.y_mean, m.y_variance, *gather(m.mean, m.scale, m.cross, state, limit))


@kernel
def gather(mean, scale, cross, state, limit):  # type: ignore[no-untyped-def]
    """Return the features to keep, their means, scales and products with the target, and their correlations.

    These are the features with a Gram row, entered ones first. Column weights are removed.
    """
    n_entered, n = state.counts[ENTERED], min(limit, state.counts[ROWS])
    features = np.empty(n, np.int64)
    n_found = min(n, n_entered)
    copy_into(state.entered[:n_found], features[:n_found])
    is_entered = np.zeros(mean.shape[0], np.bool_)
    is_entered[state.entered[:n_entered]] = True
    for row in range(state.counts[ROWS]):
        if n_found < n and not is_entered[state.feature_of[row]]:
            features[n_found] = state.feature_of[row]
            n_found += 1
    gram, norm = np.empty((n, n)), state.norm[features]
    rows, row_of = state.gram, state.row_of
    for q in range(n):
        row = row_of[features[q]]
        gram[q, q] = 1.0
        for r in range(q):  # the transposed sum differs by rounding
            gram[q, r] = rows[row, features[r]] / (norm[q] * norm[r])
            gram[r, q] = gram[q, r]
    return features, mean[features], scale[features] * norm, cross[features] / norm, gram
