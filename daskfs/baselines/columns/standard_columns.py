"""The columns of a matrix, centred and of unit variance, each contiguous: block after block, as often as asked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from daskfs.kernels.baselines.online_descent import products
from daskfs.kernels.linear.columns import copy_columns
from daskfs.kernels.linear.moments import moments
from daskfs.selectors.shared.run import Run

BLOCK_VALUES = 1 << 20  # of a block: 8 MiB
CACHE_NBYTES = 1 << 30  # of columns kept between passes, where no memory limit says otherwise


def block_columns(n_samples: int, n_features: int) -> int:
    """Return the columns of a block, which depend on the shape alone.

    Examples
    --------
    >>> block_columns(1500, 6000), block_columns(500_000, 6000)
    (699, 2)
    """
    return max(1, min(n_features, BLOCK_VALUES // n_samples))


def blocks_nbytes(n_samples: int, n_features: int, itemsize: int) -> int:
    """Return the memory in bytes of the blocks alive at once: two as stored, a copy to convert, one standardised."""
    return n_samples * block_columns(n_samples, n_features) * (2 * itemsize + 8 + 8)


class StandardColumns:
    """Columns of a matrix, standardised over its weighted rows; those that are constant are 0.

    Parameters
    ----------
    run : Run
        Over rows of positive weight; passes are told to it one by one.
    y, weight : ndarray of shape (n_samples,), float64
    keep : bool
        Whether standardised columns are kept in memory after the first pass.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_features,), float64
        Known after the first pass; the scale of a constant column is 0.
    cross : ndarray of shape (n_features,), float64
        ⟨z_j, y - ȳ⟩, known after the first pass.
    total_weight : float
    n_passes : int
        Passes made so far.
    """

    def __init__(self, run: Run, y: np.ndarray, weight: np.ndarray, keep: bool = False) -> None:
        self.run, self.matrix = run, run.matrix
        self.n_samples, self.n_features = (int(size) for size in run.matrix.shape)
        self._y, self._weight, self.total_weight = y, weight, float(weight.sum())
        self.mean, self.scale, self.cross = np.zeros((3, self.n_features))
        self._width = block_columns(self.n_samples, self.n_features)
        self._kept = np.empty((self.n_features, self.n_samples)) if keep else None
        self.n_passes = 0

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Pass over all columns.

        Yields
        ------
        first : int
            Number of the block's first column.
        block : ndarray of shape (n_columns, n_samples), float64
            Overwritten by the next one.

        Raises
        ------
        DataError
            NaN or infinity, with its column and row.
        """
        self.n_passes += 1
        with self.run.reported(f"pass-{self.n_passes}", -(-self.n_features // self._width)) as advance:
            for block in self._read_blocks() if self._kept is None or self.n_passes == 1 else self._kept_blocks():
                yield block
                advance()

    def products(self, vector: np.ndarray) -> np.ndarray:
        """Return the product of every column with a vector over the rows, in one pass."""
        out = np.empty(self.n_features)
        for first, block in self.blocks():
            products(block, vector, out[first : first + len(block)])
        return out

    def of(self, features: np.ndarray) -> np.ndarray:
        """Return some columns, each a row of the result; after the first pass."""
        if self._kept is not None:
            return self._kept[features]
        X = _as_float(self.matrix.read(slice(None), features))
        return self._standardised(X, features, np.empty((len(features), self.n_samples)))

    def _kept_blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        for first in range(0, self.n_features, self._width):
            yield first, self._kept[first : first + self._width]  # type: ignore[index]

    def _read_blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        room = np.empty((self._width, self.n_samples)) if self._kept is None else self._kept
        for read in self.matrix.column_blocks(block_columns=self._width):
            X, features = _as_float(read.X), np.arange(read.start, read.stop)
            if self.n_passes == 1:
                self._learn(X, features)
            out = room[: len(features)] if self._kept is None else room[features[0] : features[-1] + 1]
            yield read.start, self._standardised(X, features, out)

    def _learn(self, X: np.ndarray, features: np.ndarray) -> None:
        """Take the moments of a block."""
        found = moments(X, self._y, self._weight)
        if not np.isfinite(found.scale).all():
            raise self.matrix.bad_column(int(features[np.flatnonzero(~np.isfinite(found.scale))[0]]))
        self.mean[features], self.scale[features], self.cross[features] = found.mean, found.scale, found.cross

    def _standardised(self, X: np.ndarray, features: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write the columns, standardised, to `out`, those that are constant as 0; return it."""
        varying = np.flatnonzero(self.scale[features] > 0.0)
        mean, scale, is_every = self.mean[features], self.scale[features], len(varying) == len(features)
        part = out if is_every else np.empty((len(varying), self.n_samples))
        copy_columns(X, mean, scale, varying, part)
        if not is_every:
            out[:] = 0.0
            out[varying] = part
        return out


def _as_float(X: np.ndarray) -> np.ndarray:
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float32)
    return np.require(X, dtype=dtype, requirements=["C", "W"])
