"""What a store says of itself: the attribute "daskfs" of its Zarr group."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskfs.errors import StoreFormatError
from daskfs.version import __version__

FORMAT_VERSION = 1


@dataclass(frozen=True)
class StoreHeader:
    """Metadata of a store.

    Parameters
    ----------
    format_version : int
    shape : tuple of int
        (n_samples, n_features).
    dtype : str
    tile_shape : tuple of int
    shard_shape : tuple of int or None
    codec : str
        "raw" or "lz4", of X.
    shuffled : bool
        True where the rows were put in random order.
    random_state : int or None
        The seed of that order.
    target_names, label_names : tuple of str
    has_weight : bool
    source : dict
        Kind, description, digest, files ... of where the rows came from.
    encoding_digest : str
        Identity of the table schema and options that turned the source into numbers.
    digest : str
        Identity of the content: source, encoding, row order and format.
    notes : tuple of str
        Notes of the ingest: rows dropped, rare categories pooled.
    created_with : dict of str
        Versions of the software.
    """

    format_version: int
    shape: tuple[int, int]
    dtype: str
    tile_shape: tuple[int, int]
    shard_shape: tuple[int, int] | None
    codec: str
    shuffled: bool
    random_state: int | None
    target_names: tuple[str, ...]
    label_names: tuple[str, ...]
    has_weight: bool
    source: dict[str, Any]
    encoding_digest: str
    digest: str
    notes: tuple[str, ...] = ()
    created_with: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the header as JSON knows it."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


def parse_header(document: dict[str, Any], where: str) -> StoreHeader:
    """Return the header of a store.

    Parameters
    ----------
    document : dict
        The group's attribute "daskfs".
    where : str
        The store, for messages.

    Raises
    ------
    StoreFormatError
        Written by a newer daskfs, or fields are missing.
    """
    version = document.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise StoreFormatError(
            f"expected a format version, found {version!r}", where, "remove the store and ingest the source again"
        )
    if version > FORMAT_VERSION:
        raise StoreFormatError(
            f"the store has format {version}, this daskfs reads up to {FORMAT_VERSION}", where, "upgrade daskfs"
        )
    names = {item.name for item in dataclasses.fields(StoreHeader)}
    missing = sorted(names - set(document))
    if missing:
        raise StoreFormatError(
            f"the header lacks {', '.join(missing)}", where, "remove the store and ingest the source again"
        )
    values = {name: document[name] for name in names}
    for name in ("shape", "tile_shape", "shard_shape", "target_names", "label_names", "notes"):
        values[name] = None if values[name] is None else tuple(values[name])
    return StoreHeader(**values)


def content_digest(header: StoreHeader, feature_names: list[str]) -> str:
    """Return the identity of the content of a store that has just been written.

    Notes
    -----
    Tiles and codec do not count: stores that hold the same rows in the same order have the same digest.
    The source counts by its entry "digest", or as a whole where it has none.
    """
    identity = [
        header.format_version,
        header.source.get("digest", header.source),
        header.encoding_digest,
        header.shape,
        np.dtype(header.dtype).str,
        feature_names,
        header.target_names,
        header.label_names,
        header.has_weight,
        header.random_state if header.shuffled else None,
    ]
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of the software that writes."""
    import numcodecs
    import zarr

    return {
        "daskfs": __version__,
        "numpy": np.__version__,
        "zarr": zarr.__version__,
        "numcodecs": numcodecs.__version__,
    }
