"""Text arrays of a store (feature names, labels), read without Zarr."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c

from daskfs.errors import CorruptStoreError
from daskfs.store.chunks import Tiled
from daskfs.store.metadata import REMEDY, read_metadata

STRINGS_PER_CHUNK = 100_000


class StringReader(Tiled):
    """A 1-D array of strings, encoded as vlen-utf8 with crc32c.

    Parameters
    ----------
    folder : path-like
    name : str
        The array's name within its store, for messages.

    Raises
    ------
    CorruptStoreError
        The description is missing or damaged, or tells of another encoding.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str) -> None:
        self.folder, self.name = Path(folder), name
        document = read_metadata(self.folder, name)
        codecs = [codec["name"] for codec in document["codecs"]]
        if document["data_type"] != "string" or codecs != ["vlen-utf8", "crc32c"]:
            raise CorruptStoreError(f"expected {name} as text with a checksum, found {codecs}", str(folder), REMEDY)
        self.shape = tuple(document["shape"])
        self.tile_shape = tuple(document["chunk_grid"]["configuration"]["chunk_shape"])

    def read(self) -> np.ndarray:
        """Return all strings, an object array of str.

        Raises
        ------
        CorruptStoreError
            A chunk is missing, truncated or fails its checksum.
        """
        chunks = [self._read_chunk(i) for i in range(self.grid_shape[0])]
        return np.concatenate(chunks)[: self.shape[0]] if chunks else np.empty(0, dtype=object)

    def check_tile(self, i: int, j: int = 0) -> None:
        """Read one chunk and check it."""
        self._read_chunk(i)

    def _read_chunk(self, i: int) -> np.ndarray:
        from numcodecs.vlen import VLenUTF8

        path = self.folder / "c" / str(i)
        try:
            encoded = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise CorruptStoreError(f"{self.name} chunk ({i}) is missing", str(path), REMEDY) from None
        if len(encoded) < 8 or crc32c(encoded[:-4]) != int.from_bytes(encoded[-4:], "little"):
            raise CorruptStoreError(f"{self.name} chunk ({i}) fails its checksum", str(path), REMEDY)
        strings = VLenUTF8().decode(encoded[:-4])
        if len(strings) != self.tile_shape[0]:
            raise CorruptStoreError(f"{self.name} chunk ({i}) has the wrong length", str(path), REMEDY)
        return strings


def write_strings(group: Any, name: str, strings: np.ndarray) -> None:
    """Write strings as an array of a Zarr group, with a checksum per chunk."""
    from zarr.codecs import Crc32cCodec

    array = group.create_array(
        name,
        shape=strings.shape,
        chunks=(max(1, min(len(strings), STRINGS_PER_CHUNK)),),
        dtype="string",
        compressors=[Crc32cCodec()],
        config={"write_empty_chunks": True},
    )
    if len(strings):
        array[:] = strings.astype(np.dtypes.StringDType())
