"""Weights of columns that are drawn when they are asked for: of 10^7 columns nobody holds or sends a vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs.matrix.blocks import Rows

BLOCK = 4096
"""Columns whose weights are drawn together."""


@dataclass(frozen=True)
class ColumnWeights:
    """Independent weights, uniform between `least` and 1.

    Parameters
    ----------
    seed : tuple of int
        Whole numbers, not negative: the same seed, the same weight of a column, whichever are asked for with it.
    least : float
        Over 0, at most 1, where every weight is 1.
    """

    seed: tuple[int, ...]
    least: float

    def of(self, columns: Rows, n_features: int) -> np.ndarray:
        """Return the weights of some columns of so many, float64.

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
