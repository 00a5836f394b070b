"""A map on [0, 1] that is linear between the edges of bins, and the range of each column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Ranges(NamedTuple):
    """Range of each column. Values outside are clipped."""

    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, slots=True)
class MapTable:
    """A map on [0, 1], the position within a column's range.

    Attributes
    ----------
    values : ndarray of shape (n_bins + 1, width), float64
        φ at the edges of the bins.
    is_root : bool
        Whether the bins are equal in the square root of the position, which makes them finer near 0.
    kernel : callable, optional
        κ(a, b) of positions, if the map approximates a kernel.
    """

    values: np.ndarray
    is_root: bool = False
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return φ at some positions, shape (n_places, width)."""
        at = np.clip(places, 0.0, 1.0)
        at = np.sqrt(at) if self.is_root else at
        edges = np.linspace(0.0, 1.0, len(self.values))
        return np.stack([np.interp(at, edges, of_one) for of_one in self.values.T], axis=1)

    def error(self, n_places: int = 300) -> float:
        """Return the root mean square of φ(a)ᵀφ(b) - κ(a, b) relative to that of κ.

        Examples
        --------
        >>> linear = MapTable(np.array([[0.0], [1.0]]), kernel=np.multiply)
        >>> linear.error()
        0.0
        """
        if self.kernel is None:
            return 0.0
        places = (np.arange(n_places) + 0.5) / n_places
        found, exact = self.at(places), self.kernel(places[:, None], places[None])
        return float(np.sqrt(((found @ found.T - exact) ** 2).mean() / (exact**2).mean()))
