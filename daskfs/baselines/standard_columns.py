"""Blocks of standardised columns of a matrix: centred, of unit variance, times the weights, each column contiguous."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from daskfs.kernels.baselines.online_descent import products
from daskfs.kernels.linear.columns import copy_columns, products_with_columns
from daskfs.kernels.linear.moments import moments, weighed
from daskfs.selectors.shared.budget import DataShape
from daskfs.selectors.shared.run import Run

BLOCK_VALUES = 1 << 20  # values of a block: 8 MiB
TILES_NBYTES = 256 << 20  # columns read together, because tiles are decoded as a whole, if no limit is given
CACHE_NBYTES = 1 << 30  # columns kept between passes, if no memory limit is given


def block_columns(n_samples: int, n_features: int) -> int:
    """Return the number of columns of a block. It depends on the shape alone.

    Examples
    --------
    >>> block_columns(1500, 6000), block_columns(500_000, 6000)
    (699, 2)
    """
    return max(1, min(n_features, BLOCK_VALUES // n_samples))


def blocks_nbytes(n_samples: int, n_features: int, itemsize: int) -> int:
    """Return the bytes of the blocks alive at once: two as stored, a copy to convert, one standardised."""
    return n_samples * block_columns(n_samples, n_features) * (2 * itemsize + 8 + 8)


def columns_at_once(shape: DataShape, room: int | None) -> int:
    """Return the number of columns read at once: those of a tile, if they fit, so that a pass decodes each tile once.

    Parameters
    ----------
    shape : DataShape
    room : int or None
        Memory in bytes; None: `TILES_NBYTES`.

    Returns
    -------
    int
        At least the columns of a block, which need no more memory than the blocks themselves.
    """
    width = block_columns(shape.n_samples, shape.n_features)
    tile = shape.n_features if shape.tile_shape is None else shape.tile_shape[1]
    column_nbytes = shape.n_samples * shape.itemsize
    fitting = (TILES_NBYTES if room is None else min(room, TILES_NBYTES)) // column_nbytes - (width - 1)
    return max(width, min(-(-width // tile) * tile, shape.n_features, fitting))


def pieces_of_tiles(n_features: int, tile: int, most: int) -> list[tuple[int, int]]:
    """Return the bounds of pieces of at most `most` columns: of whole tiles if these fit, otherwise parts of one tile.

    Examples
    --------
    >>> pieces_of_tiles(10, 4, 3), pieces_of_tiles(10, 4, 9)
    ([(0, 3), (3, 4), (4, 7), (7, 8), (8, 10)], [(0, 8), (8, 10)])
    """
    whole = max(1, most // tile) * tile
    stops = (min(start + whole, n_features) for start in range(0, n_features, whole))
    bounds = zip(range(0, n_features, whole), stops, strict=True)
    return [(left, min(left + most, stop)) for start, stop in bounds for left in range(start, stop, most)]


class StandardColumns:
    """Columns of a matrix, standardised over its weighted rows and multiplied by the weights. Constant columns are 0.

    Parameters
    ----------
    run : Run
        The run, over rows of positive weight. Each pass is reported to it.
    y, weight : ndarray of shape (n_samples,), float64
    keep : bool
        Whether standardised columns stay in memory after the first pass.
    at_once : int
        Number of columns read at once, see `columns_at_once`. If it is at most the width of a block, blocks are read.

    Attributes
    ----------
    mean, scale : ndarray of shape (n_features,), float64
        Known after the first pass. The scale of a constant column is 0; that of another is divided by its weight.
    cross : ndarray of shape (n_features,), float64
        ⟨z_j, y - ȳ⟩, known after the first pass.
    total_weight : float
    n_passes : int
        Number of passes made so far.
    """

    def __init__(self, run: Run, y: np.ndarray, weight: np.ndarray, keep: bool = False, at_once: int = 0) -> None:
        self.run, self.matrix = run, run.matrix
        self.n_samples, self.n_features = (int(size) for size in run.matrix.shape)
        self._y, self._weight, self.total_weight = y, weight, float(weight.sum())
        self.mean, self.scale, self.cross = np.zeros((3, self.n_features))
        self._width = block_columns(self.n_samples, self.n_features)
        self._at_once = at_once
        self._kept = np.empty((self.n_features, self.n_samples)) if keep else None
        self.n_passes = 0

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Iterate over all columns in one pass.

        Yields
        ------
        first : int
            Number of the block's first column.
        block : ndarray of shape (n_columns, n_samples), float64
            Overwritten by the next block.

        Raises
        ------
        DataError
            A value is NaN or infinite; the error names its column and row.
        """
        is_kept = self._kept is not None and self.n_passes > 0
        yield from self._pass(self._kept_blocks() if is_kept else self._standard_blocks())

    def products(self, vector: np.ndarray) -> np.ndarray:
        """Return the product of every column with a vector over the rows, in one pass."""
        out = np.empty(self.n_features)
        if self._kept is not None:
            for first, block in self.blocks():
                products(block, vector, out[first : first + len(block)])
            return out
        for start, X in self._pass(self._raw_blocks()):  # no standardised copies
            some = slice(start, start + X.shape[1])
            products_with_columns(X, self.mean[some], self.scale[some], vector, out[some])
        return out

    def _pass(self, blocks: Iterator[tuple[int, np.ndarray]]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the blocks of one pass, and report it."""
        self.n_passes += 1
        with self.run.reported(f"pass-{self.n_passes}", -(-self.n_features // self._width)) as advance:
            for block in blocks:
                yield block
                advance()

    def all(self) -> np.ndarray:
        """Return all kept columns, each a row of the result. Read them if no pass was made yet."""
        if self._kept is None:
            raise ValueError("columns are not kept")
        for _ in self.blocks() if not self.n_passes else ():
            pass
        return self._kept

    def of(self, features: np.ndarray) -> np.ndarray:
        """Return some columns, each a row of the result. Needs a pass before."""
        if self._kept is not None:
            return self._kept[features]
        X = _as_float(self.matrix.read(slice(None), features))
        return self._standardised(X, features, np.empty((len(features), self.n_samples)))

    def _kept_blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        for first in range(0, self.n_features, self._width):
            yield first, self._kept[first : first + self._width]  # type: ignore[index]

    def _standard_blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        room = np.empty((self._width, self.n_samples)) if self._kept is None else self._kept
        for start, X in self._raw_blocks():
            features = np.arange(start, start + X.shape[1])
            out = room[: len(features)] if self._kept is None else room[start : features[-1] + 1]
            yield start, self._standardised(X, features, out)

    def _raw_blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the blocks as numbers of one type. The first pass learns the moments of each before it yields it."""
        for start, block in self._stored_blocks():
            X = _as_float(block)
            if self.n_passes == 1:
                self._learn(X, np.arange(start, start + X.shape[1]))
            yield start, X

    def _stored_blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the blocks as stored. They are cut from columns of whole tiles if these are read at once."""
        matrix, width = self.matrix, self._width
        if matrix.is_resident or self._at_once <= width:
            for read in matrix.column_blocks(block_columns=width):
                yield read.start, read.X
            return
        buffer = np.empty((self.n_samples, self._at_once + width - 1), matrix.dtype)
        first = 0  # the buffer holds the columns [first, stop)
        for start, stop in pieces_of_tiles(self.n_features, matrix.tile_shape[1], self._at_once):
            matrix.read(slice(None), slice(start, stop), buffer[:, start - first : stop - first])
            last = stop if stop == self.n_features else stop - (stop % width)
            for left in range(first, last, width):
                yield left, buffer[:, left - first : min(left + width, last) - first]
            if last > first:
                buffer[:, : stop - last] = buffer[:, last - first : stop - first]
                first = last

    def _learn(self, X: np.ndarray, features: np.ndarray) -> None:
        """Compute the moments of a block."""
        found = weighed(moments(X, self._y, self._weight), self.matrix.weights_of_columns(features))
        if not np.isfinite(found.scale).all():
            raise self.matrix.bad_column(int(features[np.flatnonzero(~np.isfinite(found.scale))[0]]))
        self.mean[features], self.scale[features], self.cross[features] = found.mean, found.scale, found.cross

    def _standardised(self, X: np.ndarray, features: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Write the standardised columns to `out`, constant ones as 0, and return it."""
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
