"""Which tiles a selection of rows or columns touches: integers in, integers out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from daskfs.matrix.blocks import Rows
from daskfs.objects.ahead import Part


class Tiled:
    """An array in tiles; a file has one or several."""

    shape: tuple[int, ...]
    tile_shape: tuple[int, ...]
    shard_shape: tuple[int, ...] | None = None
    is_remote = False
    """Whether requests have a high latency, so that many are made at once."""

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Number of tiles along each axis."""
        return tuple(n_tiles(length, tile) for length, tile in zip(self.shape, self.tile_shape, strict=True))

    def parts(self, rows: Rows) -> list[Part]:
        """Return the parts of objects that contain some elements of a vector; empty if it is in files."""
        return []

    @cached_property
    def tiles_per_file(self) -> tuple[int, ...]:
        """Number of tiles per file along each axis."""
        file_shape = self.shard_shape or self.tile_shape
        return tuple(whole // part for whole, part in zip(file_shape, self.tile_shape, strict=True))


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of a selection within one tile, along one axis.

    Parameters
    ----------
    tile : int
        Number of the tile along the axis.
    inside : slice or ndarray of int64
        Positions in the tile; an array is sorted, so that a tile is gathered front to back.
    outside : slice or ndarray of int64
        Positions in the block that is read.
    """

    tile: int
    inside: Rows
    outside: Rows


def n_tiles(length: int, tile: int) -> int:
    """Return the number of tiles that cover an axis.

    Examples
    --------
    >>> n_tiles(1000, 512), n_tiles(0, 512)
    (2, 0)
    """
    return -(-length // tile)


def normalise(selection: Rows, length: int) -> slice | np.ndarray:
    """Return a selection as a slice with step 1 inside [0, length], or as int64 numbers, after checking them.

    Parameters
    ----------
    selection : slice or ndarray
        A slice has NumPy's meaning; a boolean mask must have `length` entries; numbers are counted from 0.
    length : int

    Raises
    ------
    IndexError
        A number below 0 or not below `length`, a mask of another length, or an array that is not 1-D.
    TypeError
        Neither a slice nor integers nor booleans.

    Examples
    --------
    >>> normalise(slice(2, None), 5)
    slice(2, 5, 1)
    """
    if isinstance(selection, slice):
        start, stop, step = selection.indices(length)
        if step == 1:
            return slice(start, max(start, stop), 1)
        return np.arange(start, stop, step, dtype=np.int64)
    numbers = np.asarray(selection)
    if numbers.ndim != 1:
        raise IndexError(f"expected a slice or a 1-D array of numbers, found {numbers.ndim} dimensions")
    if numbers.dtype == bool:
        if len(numbers) != length:
            raise IndexError(f"expected a mask of length {length}, found {len(numbers)}")
        return np.flatnonzero(numbers)
    if numbers.size == 0:
        return np.empty(0, dtype=np.int64)
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"expected integers, found {numbers.dtype}")
    low, high = int(numbers.min()), int(numbers.max())
    if low < 0 or high >= length:
        raise IndexError(f"expected numbers in [0, {length}), found {low if low < 0 else high}")
    return numbers.astype(np.int64, copy=False)


def selection_length(selection: slice | np.ndarray) -> int:
    """Return the number of elements in a normalised selection."""
    return selection.stop - selection.start if isinstance(selection, slice) else len(selection)


def cuts(selection: slice | np.ndarray, tile: int) -> list[Cut]:
    """Cut a normalised selection at the borders of tiles, one cut per tile touched, in order of the tiles.

    Parameters
    ----------
    selection : slice or ndarray of int64
        As returned by `normalise`; numbers may come in any order and repeat.
    tile : int
        Length of a tile along this axis.

    Examples
    --------
    >>> [(cut.tile, cut.inside, cut.outside) for cut in cuts(slice(3, 6), 4)]
    [(0, slice(3, 4, None), slice(0, 1, None)), (1, slice(0, 2, None), slice(1, 3, None))]
    """
    if isinstance(selection, slice):
        return _cut_slice(selection.start, selection.stop, tile)
    if len(selection) == 0:
        return []
    is_in_order = bool((selection[1:] >= selection[:-1]).all())
    order = None if is_in_order else np.argsort(selection, kind="stable")
    numbers = selection if order is None else selection[order]
    low, high = int(numbers[0]), int(numbers[-1])
    if order is None and high - low + 1 == len(numbers) and bool((numbers[1:] > numbers[:-1]).all()):
        return _cut_slice(low, high + 1, tile)
    found, start = [], 0
    while start < len(numbers):
        number = int(numbers[start]) // tile
        stop = int(np.searchsorted(numbers, (number + 1) * tile))
        outside = slice(start, stop) if order is None else order[start:stop]
        found.append(Cut(number, numbers[start:stop] - number * tile, outside))
        start = stop
    return found


def _cut_slice(start: int, stop: int, tile: int) -> list[Cut]:
    found = []
    for number in range(start // tile, n_tiles(stop, tile) if stop > start else start // tile):
        low, high = max(start, number * tile), min(stop, (number + 1) * tile)
        found.append(Cut(number, slice(low - number * tile, high - number * tile), slice(low - start, high - start)))
    return found
