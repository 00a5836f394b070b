"""Metadata of an array in `zarr.json`, and whether its encoding is one that daskfs writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfs.errors import CorruptStoreError
from daskfs.files import Location
from daskfs.store.chunks import n_tiles
from daskfs.store.plain_files import REMEDY, read_document

MAX_NBYTES = 1 << 20
"""Maximum size of an array's `zarr.json`, which normally takes less than a kilobyte."""
TEXT = np.dtype(object)

DTYPES = {name: np.dtype(name) for name in ("bool", "float16", "float32", "float64")}
DTYPES |= {f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}


@dataclass(frozen=True, slots=True)
class ArrayMetadata:
    """Shape and encoding of an array written by daskfs.

    Parameters
    ----------
    shape, tile_shape : tuple of int
        One or two dimensions.
    shard_shape : tuple of int or None
        Shape of a file with several tiles; None: one file per tile.
    dtype : dtype
        `TEXT` for strings.
    has_blosc, has_checksum : bool
        Whether a tile is compressed, and whether it is followed by four bytes of crc32c.
    """

    shape: tuple[int, ...]
    tile_shape: tuple[int, ...]
    shard_shape: tuple[int, ...] | None
    dtype: np.dtype
    has_blosc: bool
    has_checksum: bool

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Number of tiles along each axis."""
        return tuple(n_tiles(length, tile) for length, tile in zip(self.shape, self.tile_shape, strict=True))


def read_metadata(folder: Location, name: str) -> tuple[dict[str, Any], bytes]:
    """Return an array's `zarr.json`, parsed and as bytes.

    Raises
    ------
    StoreError
        It is missing, not a regular file, or not the JSON description of an array.
    """
    path = folder / "zarr.json"
    document, content = read_document(path, f"the description of array {name}", MAX_NBYTES)
    if document.get("node_type") != "array":
        raise CorruptStoreError(f"expected the description of array {name}", str(path), REMEDY)
    return document, content


def parse_metadata(document: dict[str, Any]) -> ArrayMetadata | None:
    """Return shape and encoding, or None if the encoding is not one that daskfs writes.

    Supported are little-endian numbers, with or without Blosc, with or without crc32c, in one file per tile or in
    shards with the index and its checksum at the end; and strings with a checksum.
    """
    try:
        return _parse(document)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None


def _parse(document: dict[str, Any]) -> ArrayMetadata | None:
    grid, keys = document["chunk_grid"], document["chunk_key_encoding"]
    shape = lengths(document["shape"], least=0)
    file_shape = lengths(grid["configuration"]["chunk_shape"])
    codecs = document["codecs"]
    if (
        len(shape) not in (1, 2)
        or len(file_shape) != len(shape)
        or grid["name"] != "regular"
        or keys["name"] != "default"
        or keys.get("configuration", {}).get("separator", "/") != "/"
        or document.get("storage_transformers")
    ):
        return None
    if document["data_type"] == "string":
        is_ours = [codec["name"] for codec in codecs] == ["vlen-utf8", "crc32c"] and len(shape) == 1
        return ArrayMetadata(shape, file_shape, None, TEXT, False, True) if is_ours else None
    dtype = DTYPES[document["data_type"]]
    tile_shape, shard_shape = file_shape, None
    if len(codecs) == 1 and codecs[0]["name"] == "sharding_indexed":
        inner = _parse_shard(codecs[0]["configuration"])
        if inner is None:
            return None
        tile_shape, codecs = inner
        shard_shape = file_shape
        if any(whole % part for whole, part in zip(shard_shape, tile_shape, strict=True)):
            return None
    names = _codec_names(codecs, dtype.itemsize)
    if names is None:
        return None
    return ArrayMetadata(shape, tile_shape, shard_shape, dtype, "blosc" in names, "crc32c" in names)


def lengths(value: Any, least: int = 1) -> tuple[int, ...]:
    """Return a list of lengths from a document as a tuple.

    Raises
    ------
    ValueError
        It is not a list of integers, or one is too small.

    Examples
    --------
    >>> lengths([4, 2])
    (4, 2)
    """
    if not isinstance(value, list) or not all(type(n) is int and least <= n for n in value):
        raise ValueError(f"expected whole numbers from {least} on")
    return tuple(value)


def _parse_shard(configuration: dict[str, Any]) -> tuple[tuple[int, ...], Sequence[dict[str, Any]]] | None:
    index = _codec_names(configuration["index_codecs"], 8)
    if index != ["crc32c"] or configuration.get("index_location", "end") != "end":
        return None
    return lengths(configuration["chunk_shape"]), configuration["codecs"]


def _codec_names(codecs: Sequence[dict[str, Any]], itemsize: int) -> list[str] | None:
    """Return the codecs after "bytes", or None if daskfs does not write this chain."""
    if not codecs or codecs[0]["name"] != "bytes":
        return None
    endian = codecs[0].get("configuration", {}).get("endian", "little" if itemsize == 1 else None)
    names = [codec["name"] for codec in codecs[1:]]
    known = names in ([], ["blosc"], ["crc32c"], ["blosc", "crc32c"])
    return names if known and endian == "little" else None
