"""What `zarr.json` says of an array, and whether the tile reader knows the encoding."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.errors import CorruptStoreError

REMEDY = "remove the store and ingest the source again; `daskfs verify` lists all damage"


@dataclass(frozen=True, slots=True)
class ArrayMetadata:
    """Shape and encoding of an array that the tile reader can read.

    Parameters
    ----------
    shape, tile_shape : tuple of int
        One or two dimensions.
    shard_shape : tuple of int or None
        Several tiles in one file; None: one file per tile.
    dtype : dtype
    has_blosc, has_checksum : bool
        A tile is compressed; four bytes of crc32c follow it.
    """

    shape: tuple[int, ...]
    tile_shape: tuple[int, ...]
    shard_shape: tuple[int, ...] | None
    dtype: np.dtype
    has_blosc: bool
    has_checksum: bool


def read_metadata(folder: Path, name: str) -> dict[str, Any]:
    """Return an array's `zarr.json`.

    Raises
    ------
    CorruptStoreError
        It is missing or no JSON document of an array.
    """
    path = folder / "zarr.json"
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CorruptStoreError(f"the description of array {name} is missing", str(path), REMEDY) from None
    except (ValueError, OSError) as fault:
        raise CorruptStoreError(f"the description of array {name} is damaged: {fault}", str(path), REMEDY) from None
    if not isinstance(document, dict) or document.get("node_type") != "array":
        raise CorruptStoreError(f"expected the description of array {name}", str(path), REMEDY)
    return document


def parse_metadata(document: dict[str, Any]) -> ArrayMetadata | None:
    """Return what the tile reader needs, or None where the encoding is not one of those we write.

    Known are little-endian numbers, with or without Blosc, with or without crc32c, in one file per tile or in
    shards whose index stands at the end and has a checksum.
    """
    try:
        dtype = np.dtype(document["data_type"])
        grid = document["chunk_grid"]
        keys = document["chunk_key_encoding"]
        shape = tuple(int(length) for length in document["shape"])
        file_shape = tuple(int(length) for length in grid["configuration"]["chunk_shape"])
        codecs = document["codecs"]
    except (KeyError, TypeError, ValueError):
        return None
    if (
        dtype.kind not in "iufb"
        or sys.byteorder != "little"
        or len(shape) not in (1, 2)
        or grid["name"] != "regular"
        or keys["name"] != "default"
        or keys.get("configuration", {}).get("separator", "/") != "/"
        or document.get("storage_transformers")
    ):
        return None
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


def _parse_shard(configuration: dict[str, Any]) -> tuple[tuple[int, ...], Sequence[dict[str, Any]]] | None:
    index = _codec_names(configuration["index_codecs"], 8)
    if index != ["crc32c"] or configuration.get("index_location", "end") != "end":
        return None
    return tuple(int(length) for length in configuration["chunk_shape"]), configuration["codecs"]


def _codec_names(codecs: Sequence[dict[str, Any]], itemsize: int) -> list[str] | None:
    """Return the codecs after "bytes", or None where the chain is none of ours."""
    if not codecs or codecs[0]["name"] != "bytes":
        return None
    endian = codecs[0].get("configuration", {}).get("endian", "little" if itemsize == 1 else None)
    names = [codec["name"] for codec in codecs[1:]]
    known = names in ([], ["blosc"], ["crc32c"], ["blosc", "crc32c"])
    return names if known and endian == "little" else None
