"""How a matrix is laid out on disk (tiles, shards, codec), and which tiles a selection touches.

Integers in, integers out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from daskfs.matrix.blocks import Rows
from daskfs.objects.ahead import Part

Codec = Literal["raw", "lz4"]

TILE_NBYTES = 4 << 20
"""Smaller tiles reduce the speed by 30 to 50 %; larger ones read more than needed where selections end in a tile."""
BAND_NBYTES = 256 << 20
"""Maximum size of a band (all tiles of a row of tiles), which is in memory while a store is written."""
SHARD_NBYTES = 128 << 20
MAX_FILES = 10_000

_CHECKSUM_NBYTES = 4
_INDEX_ENTRY_NBYTES = 16


@dataclass(frozen=True, slots=True)
class Layout:
    """How X is divided and encoded.

    Parameters
    ----------
    tile_shape : tuple of int
        Rows and columns of a tile, the unit of reading.
    shard_shape : tuple of int or None
        Rows and columns of a file with several complete tiles; None: one file per tile.
    codec : {"raw", "lz4"}
        "lz4" is Blosc's, with bitshuffle. Both have a crc32c checksum per tile.
    """

    tile_shape: tuple[int, int]
    shard_shape: tuple[int, int] | None
    codec: Codec

    @property
    def file_shape(self) -> tuple[int, int]:
        """Rows and columns in one file."""
        return self.shard_shape or self.tile_shape


def choose_layout(
    n_samples: int,
    n_features: int,
    dtype: np.dtype | str,
    codec: Codec | None = None,
    *,
    tile_shape: tuple[int, int] | None = None,
    band_nbytes: int = BAND_NBYTES,
    max_files: int = MAX_FILES,
    shard_nbytes: int = SHARD_NBYTES,
) -> Layout:
    """Choose tiles of about 4 MiB, and shards if there would be more than `max_files` files.

    Parameters
    ----------
    n_samples, n_features : int
    dtype : dtype
    codec : {"raw", "lz4"}, optional
        Default: "lz4" for integers, "raw" for floating point.
    tile_shape : tuple of int, optional
        Default: 2048 x 512 of float32, 1024 x 512 of float64, 2048 x 2048 of int8. Tiles of a narrow matrix are
        higher, those of a very wide one flatter; sizes are adjusted so that there is little padding.
    band_nbytes : int
        Maximum size of a row of tiles (or shards) over all columns.
    max_files : int
    shard_nbytes : int
        Target size of a shard, which has complete tiles.

    Returns
    -------
    Layout

    Examples
    --------
    >>> choose_layout(200_000, 4096, "float32")
    Layout(tile_shape=(2048, 512), shard_shape=None, codec='raw')
    >>> choose_layout(1_000_000, 100_000, "float32").shard_shape
    (512, 51200)
    """
    dtype = np.dtype(dtype)
    codec = codec or ("lz4" if dtype.kind in "iu" else "raw")
    tile = tile_shape or _tile_shape(n_samples, n_features, dtype.itemsize, band_nbytes)
    if n_tiles(n_samples, tile[0]) * n_tiles(n_features, tile[1]) <= max_files:
        return Layout(tile, None, codec)
    return Layout(tile, _shard_shape(n_samples, n_features, tile, dtype, band_nbytes, shard_nbytes), codec)


def _tile_shape(n_samples: int, n_features: int, itemsize: int, band_nbytes: int) -> tuple[int, int]:
    columns = _even(n_features, 2048 if itemsize == 1 else 512, 16)
    rows = TILE_NBYTES // (columns * itemsize)
    if rows >= 1024:
        rows -= rows % 1024
    if rows * n_features * itemsize > band_nbytes:
        rows = max(1, band_nbytes // (n_features * itemsize))
        rows = 1 << (rows.bit_length() - 1)  # the power of two below
        columns = _even(n_features, max(1, TILE_NBYTES // (rows * itemsize)), 16)
    return _even(n_samples, rows, 64), columns


def _even(length: int, tile: int, multiple: int) -> int:
    """Return the shortest tile that covers `length` with as many tiles as `tile` does, rounded up to `multiple`.

    Zarr stores edge tiles in full, so that uneven tiles waste disk space and reading time.
    """
    if length <= tile:
        return max(1, length)
    even = -(-length // n_tiles(length, tile))
    return min(tile, -(-even // multiple) * multiple)


def _shard_shape(
    n_samples: int,
    n_features: int,
    tile: tuple[int, int],
    dtype: np.dtype,
    band_nbytes: int,
    shard_nbytes: int,
) -> tuple[int, int]:
    down, across = n_tiles(n_samples, tile[0]), n_tiles(n_features, tile[1])
    n_wanted = max(1, shard_nbytes // (tile[0] * tile[1] * dtype.itemsize))
    n_down_limit = max(1, min(down, band_nbytes // (tile[0] * n_features * dtype.itemsize)))
    n_down = min(n_down_limit, max(1, int(n_wanted**0.5)))
    n_across = min(across, max(1, n_wanted // n_down))
    n_down = min(n_down_limit, max(1, n_wanted // n_across))
    n_across = -(-across // n_tiles(across, n_across))  # evened out
    return tile[0] * n_down, tile[1] * n_across


def n_files(n_samples: int, n_features: int, layout: Layout) -> int:
    """Return the number of files of X."""
    rows, columns = layout.file_shape
    return n_tiles(n_samples, rows) * n_tiles(n_features, columns)


def store_nbytes(n_samples: int, n_features: int, dtype: np.dtype | str, layout: Layout) -> int:
    """Return the size of X on disk before compression, including padding and checksums, in bytes.

    Examples
    --------
    >>> store_nbytes(4096, 1024, "float32", choose_layout(4096, 1024, "float32")) - 4096 * 1024 * 4
    16
    """
    rows, columns = layout.tile_shape
    n_stored = n_tiles(n_samples, rows) * n_tiles(n_features, columns)
    nbytes = n_stored * (rows * columns * np.dtype(dtype).itemsize + _CHECKSUM_NBYTES)
    if layout.shard_shape is not None:
        per_shard = (layout.shard_shape[0] // rows) * (layout.shard_shape[1] // columns)
        nbytes += n_files(n_samples, n_features, layout) * (per_shard * _INDEX_ENTRY_NBYTES + _CHECKSUM_NBYTES)
    return nbytes


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
