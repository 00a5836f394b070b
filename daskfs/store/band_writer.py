"""Writes X band by band: a band is one row of tiles (or shards) over all columns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c

from daskfs.store.layout import Codec, Layout

WORTHWHILE_RATIO = 2.0
"""Compression that saves less than half costs more in decoding than it saves in reading."""


class BandWriter:
    """Takes rows in the stored order and writes whole tiles.

    Parameters
    ----------
    group : zarr.Group
        Gets the array "X".
    folder : Path
        Of the group.
    shape : tuple of int
    dtype : dtype
    make_layout : callable
        From a codec to a `Layout`.
    codec : {"raw", "lz4"} or None
        None: measured on the first tile of the first band, so that it depends on the values alone.

    Attributes
    ----------
    layout : Layout
        Final after the first band.
    """

    def __init__(
        self,
        group: Any,
        folder: Path,
        shape: tuple[int, int],
        dtype: np.dtype,
        make_layout: Callable[[Codec | None], Layout],
        codec: Codec | None,
    ) -> None:
        self._group, self._folder, self._shape, self._dtype = group, folder / "X", shape, dtype
        self._make_layout, self._codec = make_layout, codec
        self.layout = make_layout(codec)
        height = min(self.layout.file_shape[0], max(1, shape[0]))
        self._band = np.empty((height, shape[1]), dtype)
        self._n_filled = 0
        self._n_written = 0
        self._array: Any = None
        self._tile: np.ndarray | None = None

    def write(self, rows: np.ndarray) -> None:
        """Take the next rows, of shape (n_rows, n_features)."""
        start = 0
        while start < len(rows):
            count = min(len(self._band) - self._n_filled, len(rows) - start)
            self._band[self._n_filled : self._n_filled + count] = rows[start : start + count]
            self._n_filled += count
            start += count
            if self._n_filled == len(self._band):
                self._write_band()

    def close(self) -> None:
        """Write the last band, which may be lower than the others."""
        if self._n_filled or self._array is None:
            self._write_band()

    def _write_band(self) -> None:
        band = self._band[: self._n_filled]
        if self._array is None:
            self._create(band)
        if self._tile is not None:
            _write_tiles(self._folder, self._n_written, band, self._tile)
        else:
            _write_by_zarr(self._array, self.layout, self._n_written, band)
        self._n_written += len(band)
        self._n_filled = 0

    def _create(self, band: np.ndarray) -> None:
        codec = self._codec or (self._measure(band) if band.size else "raw")
        self.layout = self._make_layout(codec)
        self._tile = _new_tile(self.layout, self._dtype)
        self._array = self._group.create_array(
            "X",
            shape=self._shape,
            chunks=self.layout.tile_shape,
            shards=self.layout.shard_shape,
            dtype=self._dtype,
            filters=None,
            compressors=compressors(codec, self._dtype),
            config={"write_empty_chunks": True},
        )

    def _measure(self, band: np.ndarray) -> Codec:
        from numcodecs import blosc

        rows, columns = self.layout.tile_shape
        tile = np.ascontiguousarray(band[:rows, :columns])
        encoded = blosc.compress(tile, b"lz4", 5, blosc.BITSHUFFLE)
        return "lz4" if len(encoded) * WORTHWHILE_RATIO <= tile.nbytes else "raw"


def write_band(folder: Path, layout: Layout, first_row: int, band: np.ndarray) -> None:
    """Write a band of an array that exists, in the folder of a group, in any process."""
    tile = _new_tile(layout, band.dtype)
    if tile is not None:
        _write_tiles(folder / "X", first_row, band, tile)
        return
    import zarr

    _write_by_zarr(zarr.open_array(folder / "X", mode="r+"), layout, first_row, band)


def _new_tile(layout: Layout, dtype: np.dtype) -> np.ndarray | None:
    """Return room for a tile where tiles are files, as they lie in memory; None where Zarr is asked to write them."""
    is_plain = layout.codec == "raw" and layout.shard_shape is None and sys.byteorder == "little"
    return np.empty(layout.tile_shape, dtype) if is_plain else None


def _write_tiles(folder: Path, first_row: int, band: np.ndarray, tile: np.ndarray) -> None:
    """Write the files that Zarr would: tiles as they are, zeros behind the edge, and the checksum."""
    place = folder / "c" / str(first_row // len(tile))
    if len(band):
        place.mkdir(parents=True, exist_ok=True)
    for j, start in enumerate(range(0, band.shape[1] if len(band) else 0, tile.shape[1])):
        part = band[:, start : start + tile.shape[1]]
        if part.shape != tile.shape:
            tile[...] = 0
        tile[: part.shape[0], : part.shape[1]] = part
        with (place / str(j)).open("wb") as file:
            file.write(tile.data)
            file.write(crc32c(tile.data).to_bytes(4, "little"))


def _write_by_zarr(array: Any, layout: Layout, first_row: int, band: np.ndarray) -> None:
    rows, width = slice(first_row, first_row + len(band)), layout.file_shape[1]
    for start in range(0, band.shape[1] if len(band) else 0, width):
        part = slice(start, min(start + width, band.shape[1]))
        array[rows, part] = band[:, part]


def compressors(codec: Codec, dtype: np.dtype) -> list[Any]:
    """Return Zarr's codecs for one of ours; the checksum always comes last."""
    from zarr.codecs import BloscCodec, Crc32cCodec

    if codec == "raw":
        return [Crc32cCodec()]
    blosc = BloscCodec(typesize=dtype.itemsize, cname="lz4", clevel=5, shuffle="bitshuffle")
    return [blosc, Crc32cCodec()]
