"""Text arrays of a store (feature names, labels), read without Zarr."""

from __future__ import annotations

import numpy as np
from crc32c import crc32c

from daskfs.errors import CorruptStoreError
from daskfs.files import Location
from daskfs.objects.path import ObjectPath
from daskfs.objects.requests import all_of
from daskfs.store.header import ArrayMetadata
from daskfs.store.layout import Tiled
from daskfs.store.plain_files import MISPLACED, REMEDY, read_plain


class StringReader(Tiled):
    """A 1-D array of strings, encoded as vlen-utf8 with crc32c.

    Parameters
    ----------
    folder : path-like
    name : str
        The array's name within its store, for messages.
    metadata : ArrayMetadata
        Parsed `zarr.json`.
    max_nbytes : int
        Maximum size of a chunk on disk.
    checksums : ndarray of uint32, of shape (n_chunks,), optional
        Checksums of all chunks, from the store's manifest.
    """

    def __init__(
        self,
        folder: Location,
        name: str,
        metadata: ArrayMetadata,
        max_nbytes: int,
        checksums: np.ndarray | None = None,
    ) -> None:
        self.folder, self.name, self._max_nbytes, self._checksums = folder, name, max_nbytes, checksums
        self.shape, self.tile_shape = metadata.shape, metadata.tile_shape
        self._latest: tuple[int, np.ndarray] | None = None

    def read(self) -> np.ndarray:
        """Return all strings, an object array of str.

        Raises
        ------
        CorruptStoreError
            A chunk is missing, truncated or fails its checksum.
        """
        numbers = range(self.grid_shape[0])
        is_remote = isinstance(self.folder, ObjectPath)
        chunks = all_of(self._read_chunk, numbers) if is_remote else [self._read_chunk(i) for i in numbers]
        return np.concatenate(chunks)[: self.shape[0]] if chunks else np.empty(0, dtype=object)

    def read_at(self, places: np.ndarray) -> np.ndarray:
        """Return the strings at some places, in this order; their chunks are read one at a time.

        Raises
        ------
        CorruptStoreError
            See `read`.
        """
        found = np.empty(len(places), dtype=object)
        numbers, within = np.divmod(places, self.tile_shape[0])
        for i in np.unique(numbers).tolist():
            is_there = numbers == i
            found[is_there] = self._chunk_again(i)[within[is_there]]
        return found

    def _chunk_again(self, i: int) -> np.ndarray:
        """Return a chunk, which is cached until another is read."""
        latest = self._latest
        if latest is None or latest[0] != i:
            latest = self._latest = i, self._read_chunk(i)
        return latest[1]

    def check_tile(self, i: int, j: int = 0) -> None:
        """Read one chunk and check it."""
        self._read_chunk(i)

    def _read_chunk(self, i: int) -> np.ndarray:
        from numcodecs.vlen import VLenUTF8

        path, label = self.folder / "c" / str(i), f"{self.name} chunk ({i})"
        encoded = read_plain(path, label, self._max_nbytes)
        checksum = crc32c(encoded[:-4])
        if len(encoded) < 8 or checksum != int.from_bytes(encoded[-4:], "little"):
            raise CorruptStoreError(f"{label} fails its checksum", str(path), REMEDY)
        if self._checksums is not None and checksum != self._checksums[i]:
            raise CorruptStoreError(f"{label} {MISPLACED}", str(path), REMEDY)
        n_strings = int.from_bytes(encoded[:4], "little")
        if n_strings != self.tile_shape[0] or 4 * n_strings > len(encoded) - 8:  # before the decoder allocates memory
            raise CorruptStoreError(f"{label} has the wrong length", str(path), REMEDY)
        try:
            return VLenUTF8().decode(encoded[:-4])
        except ValueError as fault:
            raise CorruptStoreError(f"{label} cannot be decoded: {fault}", str(path), REMEDY) from None
