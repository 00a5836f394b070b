"""How a matrix is laid out on disk: tiles, shards and codec. Integers in, integers out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from daskfs.store.chunks import n_tiles

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
