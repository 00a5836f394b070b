"""Column weights that are computed on demand, so that no vector of 10^7 weights is held or sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs.matrix.blocks import Rows

BLOCK = 4096
"""Number of columns whose weights are drawn together."""


@dataclass(frozen=True)
class ColumnWeights:
    """Independent weights, uniform between `least` and 1.

    Parameters
    ----------
    seed : tuple of int
        Non-negative integers. With the same seed a column always has the same weight, whatever other columns are
        requested.
    least : float
        Lower bound, above 0 and at most 1. With 1, every weight is 1.
    """

    seed: tuple[int, ...]
    least: float

    def of(self, columns: Rows, n_features: int) -> np.ndarray:
        """Return the weights of some of `n_features` columns, float64.

        Examples
        --------
        >>> weights = ColumnWeights((0, 7), 0.2)
        >>> weights.of(slice(4094, 4098), 10_000_000).round(2)
        array([0.95, 0.72, 0.21, 0.37])
        >>> weights.of(np.array([4097, 4094]), 10_000_000).round(2)
        array([0.37, 0.95])
        """
        chosen = np.arange(*columns.indices(n_features)) if isinstance(columns, slice) else np.asarray(columns)
        found, block = np.empty(len(chosen)), chosen // BLOCK
        for k in np.unique(block).tolist():
            drawn = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(k,))).random(BLOCK)
            here = block == k
            found[here] = 1.0 - (1.0 - self.least) * drawn[chosen[here] - k * BLOCK]
        return found
