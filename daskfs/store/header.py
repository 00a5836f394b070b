"""What a store says of itself: the attribute "daskfs" of its Zarr group."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskfs.errors import StoreFormatError
from daskfs.store.layout import Layout

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


def make_header(
    *,
    shape: tuple[int, int],
    dtype: np.dtype,
    layout: Layout,
    feature_names: list[str],
    target_names: tuple[str, ...],
    label_names: tuple[str, ...],
    has_weight: bool,
    shuffled: bool,
    random_state: int | None,
    source: dict[str, Any],
    encoding_digest: str,
    notes: tuple[str, ...],
) -> StoreHeader:
    """Return the header of a store that has just been written; see `StoreHeader`.

    Notes
    -----
    Tiles and codec do not count in the digest: stores that hold the same rows in the same order have the same one.
    The source counts by its entry "digest", or as a whole where it has none.
    """
    identity = [
        FORMAT_VERSION,
        source.get("digest", source),
        encoding_digest,
        shape,
        dtype.str,
        feature_names,
        target_names,
        label_names,
        has_weight,
        random_state if shuffled else None,
    ]
    return StoreHeader(
        format_version=FORMAT_VERSION,
        shape=shape,
        dtype=dtype.name,
        tile_shape=layout.tile_shape,
        shard_shape=layout.shard_shape,
        codec=layout.codec,
        shuffled=shuffled,
        random_state=random_state,
        target_names=target_names,
        label_names=label_names,
        has_weight=has_weight,
        source=source,
        encoding_digest=encoding_digest,
        digest=hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest(),
        notes=notes,
        created_with=_versions(),
    )


def _versions() -> dict[str, str]:
    import numcodecs
    import zarr

    return {
        "daskfs": sys.modules["daskfs"].__version__,  # the package stands above this room
        "numpy": np.__version__,
        "zarr": zarr.__version__,
        "numcodecs": numcodecs.__version__,
    }
