"""The count-sketch as an object: add, estimate, decay, merge."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs import errors
from daskfs.kernels.linear.columns import squared_norm_between
from daskfs.kernels.sketch.count_sketch import MAX_BUCKETS, N_HASHES, add, estimate, rows_of, seed_word

ConfigError = errors.ConfigError.about("sketches")

SMALLEST_SCALE = 1e-3
"""Below this the cells themselves are scaled, so that float32 cells stay far from underflow."""

NORM_BUCKETS = 1 << 20
"""Buckets of a row that its norm is estimated from: accurate to 0.1 %, unless a few elements dominate."""


class CountSketch:
    """A vector with up to 2⁶⁴ - 1 elements, stored as `n_hashes` rows of `n_buckets` cells.

    Parameters
    ----------
    n_buckets : int
        Cells per row: a power of two, at most 2³¹.
    n_hashes : int
        Rows: 1, 3 or 5; an estimate is the median over the rows. 0 for the identity, which has one cell per id.
    seed : int
        Seed of the hash.
    n_outputs : int
        Numbers per element: one for each class.
    cells : ndarray of shape (n_hashes * n_buckets, n_outputs), float32, optional
        Initial cells, used without a copy; by default zeros.
    scale : float
        Factor of all cells.

    Notes
    -----
    Takes ``4 n_hashes n_buckets n_outputs`` bytes. `decay` is lazy: it changes only the common factor.

    Examples
    --------
    >>> sketch = CountSketch(1024)
    >>> sketch.add(np.array([7, 2**40], np.uint64), np.array([2.5, -1.0]))
    >>> sketch.estimate(np.array([7, 2**40], np.uint64))
    array([ 2.5, -1. ], dtype=float32)
    """

    def __init__(
        self,
        n_buckets: int,
        n_hashes: int = 3,
        seed: int = 0,
        n_outputs: int = 1,
        cells: np.ndarray | None = None,
        scale: float = 1.0,
    ) -> None:
        if n_hashes not in (0, *N_HASHES):
            raise ConfigError(f"expected 1, 3 or 5 (or 0, the identity), found {n_hashes!r}", "n_hashes")
        if n_hashes and not (1 <= n_buckets <= MAX_BUCKETS and n_buckets & (n_buckets - 1) == 0):
            raise ConfigError(f"expected a power of two of at most 2**31, found {n_buckets!r}", "n_buckets")
        self.n_buckets, self.n_hashes, self.seed, self.n_outputs = int(n_buckets), n_hashes, int(seed), n_outputs
        shape = (max(n_hashes, 1) * self.n_buckets, n_outputs)
        self.cells = np.zeros(shape, dtype=np.float32) if cells is None else cells.reshape(shape)
        self.scale = scale

    @property
    def hashing(self) -> tuple[np.uint64, tuple[int, ...], np.uint64]:
        """The arguments of kernels: buckets, rows, seed."""
        return np.uint64(self.n_buckets), rows_of(self.n_hashes), seed_word(self.seed)

    def add(self, keys: np.ndarray, values: np.ndarray, outputs: np.ndarray | None = None) -> None:
        """Add values to the elements with these ids (uint64).

        Parameters
        ----------
        keys : ndarray of shape (n_keys,), uint64
        values : ndarray of shape (n_keys,) or (n_keys, n_outputs)
        outputs : ndarray of shape (n_keys,), optional
            The one output of each id to which its value is added. Values are then of shape (n_keys,) or (n_keys, 1).
        """
        table = np.asarray(values, dtype=np.float64).reshape(len(keys), self.n_outputs if outputs is None else 1)
        add(*self._cells_of(keys, outputs), np.ascontiguousarray(table / self.scale, dtype=np.float32))

    def estimate(self, keys: np.ndarray, outputs: np.ndarray | None = None) -> np.ndarray:
        """Return the estimates of elements, float32 of shape (n_keys,), with several outputs (n_keys, n_outputs).

        With `outputs`, as in `add`, of shape (n_keys, 1).
        """
        estimates = np.empty((len(keys), self.n_outputs if outputs is None else 1), dtype=np.float32)
        estimate(*self._cells_of(keys, outputs), estimates)
        estimates *= np.float32(self.scale)
        return estimates[:, 0] if outputs is None and self.n_outputs == 1 else estimates

    def _cells_of(self, keys: np.ndarray, outputs: np.ndarray | None) -> tuple[Any, ...]:
        """Return the first arguments of the kernels."""
        first = np.zeros(len(keys), np.uint64) if outputs is None else np.asarray(outputs, np.uint64)
        return self.cells.reshape(-1), np.uint64(self.n_outputs), *self.hashing, np.asarray(keys, np.uint64), first

    def decay(self, factor: float) -> None:
        """Multiply every element by a positive factor; the cells themselves are scaled only occasionally."""
        self.scale *= factor
        if self.scale < SMALLEST_SCALE:
            self.settle()

    def settle(self) -> None:
        """Multiply the cells by the scale, and set it to 1."""
        if self.scale != 1.0:
            self.cells *= np.float32(self.scale)
            self.scale = 1.0

    def norm(self) -> float:
        """Return an estimate of the vector's Euclidean norm: the median of the rows' norms.

        If a row has more than 2²⁰ buckets, the norm is extrapolated from the first 2²⁰, since elements are spread
        evenly.
        """
        cells, n_rows = self.cells.reshape(-1), max(self.n_hashes, 1)
        length = len(cells) // n_rows
        looked_at = min(length, NORM_BUCKETS * self.n_outputs) if self.n_hashes else length
        squares = [squared_norm_between(cells, r * length, r * length + looked_at) for r in range(n_rows)]
        return float(np.sqrt(np.median(squares) * (length / looked_at)) * self.scale)

    def is_like(self, other: CountSketch) -> bool:
        """Return whether both have the same hash and shape, so that their cells have the same meaning."""
        mine = (self.n_buckets, self.n_hashes, self.seed, self.n_outputs)
        return mine == (other.n_buckets, other.n_hashes, other.seed, other.n_outputs)

    def merge(self, other: CountSketch, share: float = 1.0, own_share: float = 1.0) -> None:
        """Replace the sketch by ``own_share`` times itself plus ``share`` times the other: by default the sum.

        Raises
        ------
        ConfigError
            The other has a different seed or shape.
        """
        if not self.is_like(other):
            raise ConfigError(
                f"expected a sketch like {self!r}, found {other!r}", "merge", "create both with the same seed and shape"
            )
        self.cells *= np.float32(own_share * self.scale)
        self.cells += np.float32(share * other.scale) * other.cells
        self.scale = 1.0

    def __repr__(self) -> str:
        outputs = f" x {self.n_outputs} outputs" if self.n_outputs > 1 else ""
        return f"<CountSketch: {self.n_hashes} x {self.n_buckets:,} cells{outputs}, seed {self.seed}>"
