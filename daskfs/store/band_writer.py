"""Writes X band by band: a band is one row of tiles (or shards) over all columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c

from daskfs import interrupts
from daskfs.store.layout import Codec, Layout
from daskfs.store.tables import facts_of

WORTHWHILE_RATIO = 2.0
"""Minimum compression ratio: below it, decoding costs more time than reading less data saves."""


class BandWriter:
    """Collects rows in the stored order and writes complete tiles.

    Parameters
    ----------
    group : zarr.Group
        The group in which the array "X" is created.
    folder : Path
        Folder of the group.
    shape : tuple of int
    dtype : dtype
    make_layout : callable
        Returns a `Layout` for a codec.
    codec : {"raw", "lz4"} or None
        None: chosen from the first tile of the first band, so that it depends only on the values.

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
        self._band = BandFiles(self.layout, shape, dtype)
        self._n_filled = 0
        self._n_written = 0
        self._array: Any = None

    @property
    def height(self) -> int:
        """Number of rows in a band."""
        return self._band.height

    def put(self, place: np.ndarray, rows: np.ndarray) -> None:
        """Copy rows to their places in the next band, in any order; `end_band` writes it."""
        self._band.put(place, rows)
        self._n_filled += len(rows)

    def write(self, rows: np.ndarray) -> None:
        """Append the next rows, of shape (n_rows, n_features)."""
        start = 0
        while start < len(rows):
            count = min(self._band.height - self._n_filled, len(rows) - start)
            self._band.put(slice(self._n_filled, self._n_filled + count), rows[start : start + count])
            self._n_filled += count
            start += count
            if self._n_filled == self._band.height:
                self.end_band()

    def close(self) -> None:
        """Write the last band, which may have fewer rows."""
        if self._n_filled or self._array is None:
            self.end_band()

    def end_band(self) -> None:
        """Write the rows of the band, and begin the next."""
        if self._array is None:
            self._create()
        self._band.write(self._folder, self.layout, self._n_written, self._n_filled)
        self._n_written += self._n_filled
        self._n_filled = 0

    def _create(self) -> None:
        codec = self._codec
        if codec is None and self._n_filled and self._shape[1]:
            from numcodecs import blosc

            (height, width), (_, n_features) = self.layout.tile_shape, self._shape
            tile = np.ascontiguousarray(self._band.files[0, : min(height, self._n_filled), : min(width, n_features)])
            encoded = blosc.compress(tile, b"lz4", 5, blosc.BITSHUFFLE)
            codec = "lz4" if len(encoded) * WORTHWHILE_RATIO <= tile.nbytes else "raw"
        codec = codec or "raw"
        self.layout = self._make_layout(codec)
        with interrupts.held():  # Zarr writes in a thread of its own
            self._array = self._group.create_array(
                "X",
                shape=self._shape,
                chunks=self.layout.tile_shape,
                shards=self.layout.shard_shape,
                dtype=self._dtype,
                filters=None,
                compressors=compressors(codec, self._dtype),
                config={"write_empty_chunks": True},
                **facts_of("X", self._dtype, 2),
            )


class BandFiles:
    """A buffer for a band, in the layout of its files: rows are copied once, then written.

    Parameters
    ----------
    layout : Layout
    shape : tuple of int
        Shape of X.
    dtype : dtype

    Attributes
    ----------
    files : ndarray of shape (n_files, height, width)
        Zero outside the matrix.
    """

    def __init__(self, layout: Layout, shape: tuple[int, int], dtype: np.dtype) -> None:
        self.height, width = min(layout.file_shape[0], max(1, shape[0])), layout.file_shape[1]
        self._columns = [slice(start, min(start + width, shape[1])) for start in range(0, shape[1], width)]
        self.files = np.zeros((len(self._columns), self.height, width), dtype)

    def put(self, place: Any, rows: np.ndarray) -> None:
        """Copy rows of shape (n_rows, n_features) to their places in the band: a slice, or numbers."""
        for file, columns in zip(self.files, self._columns, strict=True):
            file[place, : columns.stop - columns.start] = rows[:, columns]

    def write(self, folder: Path, layout: Layout, first_row: int, n_rows: int) -> None:
        """Write the first rows as the band that begins with `first_row`, into the folder of an existing array."""
        if layout.codec != "raw" or layout.shard_shape is not None:
            self._write_by_zarr(folder, first_row, n_rows)
        elif n_rows:
            self._write_files(folder / "c" / str(first_row // layout.tile_shape[0]), layout, n_rows)

    def _write_files(self, folder: Path, layout: Layout, n_rows: int) -> None:
        """Write the same files as Zarr: uncompressed tiles, padded with zeros, and the checksum."""
        for level in (folder.parent, folder):  # not the store's own folder, which may have been removed
            level.mkdir(exist_ok=True)
        self.files[:, n_rows:] = 0
        missing = bytes((layout.tile_shape[0] - self.height) * layout.tile_shape[1] * self.files.itemsize)
        for j, tile in enumerate(self.files):
            checksum = crc32c(missing, crc32c(tile.data))
            with (folder / str(j)).open("wb") as file:
                for part in (tile.data, missing, checksum.to_bytes(4, "little")):
                    file.write(part)

    def _write_by_zarr(self, folder: Path, first_row: int, n_rows: int) -> None:
        import zarr

        with interrupts.held():  # Zarr writes in a thread of its own
            found: Any = zarr.open_array(folder, mode="r+")
            array: Any = zarr.Array(zarr.AsyncArray(found.metadata, found.store_path, {"write_empty_chunks": True}))
            for file, columns in zip(self.files, self._columns, strict=True):
                array[first_row : first_row + n_rows, columns] = file[:n_rows, : columns.stop - columns.start]


def compressors(codec: Codec, dtype: np.dtype) -> list[Any]:
    """Return Zarr's codecs for one of our codecs; the checksum always comes last."""
    from zarr.codecs import BloscCodec, Crc32cCodec

    if codec == "raw":
        return [Crc32cCodec()]
    blosc = BloscCodec(typesize=dtype.itemsize, cname="lz4", clevel=5, shuffle="bitshuffle")
    return [blosc, Crc32cCodec()]
