"""Writes long one-dimensional arrays in Zarr's format, in shards of compressed chunks, while their elements arrive.

Zarr writes the metadata; the files are written here, chunk by chunk, with a single chunk in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from crc32c import crc32c

from daskfs import interrupts
from daskfs.store.band_writer import compressors
from daskfs.store.sparse.layout import CHUNKS_PER_FILE, chunk_length

_ABSENT = 2**64 - 1


class VectorWriter:
    """Appends elements to an array of a Zarr group.

    Parameters
    ----------
    folder : Path
        Folder of the group.
    name : str
        Name of the array within the group.
    dtype : dtype
    first_file : int
        Number of the first file to be written.

    Attributes
    ----------
    length : int
        Number of elements so far.
    """

    def __init__(self, folder: Path, name: str, dtype: np.dtype | str, first_file: int = 0) -> None:
        self._folder, self.name, self.dtype = folder, name, np.dtype(dtype)
        self._chunk = np.zeros(chunk_length(name), self.dtype)
        self._n_filled = self.length = 0
        self._file: BinaryIO | None = None
        self._n_files = first_file
        self._index: list[tuple[int, int]] = []

    def append(self, values: np.ndarray) -> None:
        """Append elements."""
        self.length += len(values)
        start = 0
        while start < len(values):
            some = values[start : start + len(self._chunk) - self._n_filled]
            self._chunk[self._n_filled : self._n_filled + len(some)] = some
            self._n_filled += len(some)
            start += len(some)
            if self._n_filled == len(self._chunk):
                self._write_chunk()

    def finish(self) -> None:
        """Write the rest."""
        if self._n_filled:
            self._chunk[self._n_filled :] = 0
            self._write_chunk()
        self._end_file()

    def close(self, group: Any) -> None:
        """Write the rest, and the metadata."""
        self.finish()
        describe(group, self.name, self.dtype, self.length)

    def _write_chunk(self) -> None:
        from numcodecs import blosc

        if self._file is None:
            path = self._folder / self.name / "c" / str(self._n_files)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file, self._index, self._n_files = path.open("wb"), [], self._n_files + 1
        encoded = blosc.compress(self._chunk, b"lz4", 5, blosc.BITSHUFFLE)
        self._index.append((self._file.tell(), len(encoded) + 4))
        self._file.write(encoded)
        self._file.write(crc32c(encoded).to_bytes(4, "little"))
        self._n_filled = 0
        if len(self._index) == CHUNKS_PER_FILE:
            self._end_file()

    def _end_file(self) -> None:
        """Write the index of the file's chunks."""
        if self._file is None:
            return
        index = np.full((CHUNKS_PER_FILE, 2), _ABSENT, "<u8")
        index[: len(self._index)] = self._index
        with self._file as file:
            file.write(index.data)
            file.write(crc32c(index.data).to_bytes(4, "little"))
        self._file = None


def describe(group: Any, name: str, dtype: np.dtype | str, length: int) -> None:
    """Write the metadata of an array of `length` elements, as Zarr reads them."""
    with interrupts.held():  # Zarr writes in a thread of its own
        group.create_array(
            name,
            shape=(length,),
            chunks=(chunk_length(name),),
            shards=(CHUNKS_PER_FILE * chunk_length(name),),
            dtype=dtype,
            filters=None,
            compressors=compressors("lz4", np.dtype(dtype)),
            config={"write_empty_chunks": True},
        )
