"""The manifest lists all files of a store with their lengths, and the checksums of all chunks.

A chunk's own checksum shows that it is complete, but not that it belongs where it is. Therefore `checksums.bin` has the
checksums of all chunks again, array by array (four bytes each, in the order of the chunks), and the manifest has the
digest of this file. Older stores have a manifest of format 1 without them: `seal` adds them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.errors import CorruptStoreError, StoreFormatError
from daskfs.files import Location, written_whole
from daskfs.store.plain_files import REMEDY, read_document, read_plain

MANIFEST = "manifest.json"
CHECKSUMS = "checksums.bin"
LOCK = "writer.lock"
ROWS = "rows"
"""Subfolder of an unfinished store for the saved steps of its ingest, and for rows that are being reordered."""
ENCODER = "encoder.json"
"""How to encode other rows in the same way; its digest is in the header. Older stores have none."""
ENCODER_DIGEST = "encoder_sha256"
"""Key in the header's description of the source."""
MAX_NBYTES = 64 << 20
"""Maximum size of the manifest, and of the store's `zarr.json`, which lists the source's files: up to 10^6 files."""
FORMAT_VERSION = 2


@dataclass(frozen=True)
class Manifest:
    """The content of a finished store.

    Parameters
    ----------
    files : dict of int
        Size of each file in bytes, by its name within the store.
    sha256 : dict of str
        Digest of each `zarr.json`, by name.
    n_tiles : dict of int or None
        Number of checksums of each array in `checksums.bin`, in order; None for format 1.
    checksums_sha256 : str or None
        Digest of `checksums.bin`.
    identity : str
        Digest of the manifest.
    """

    files: dict[str, int]
    sha256: dict[str, str]
    n_tiles: dict[str, int] | None
    checksums_sha256: str | None
    identity: str

    @property
    def is_sealed(self) -> bool:
        """Whether the manifest has the checksums of all chunks."""
        return self.n_tiles is not None

    @cached_property
    def chunk_files(self) -> dict[str, list[int]]:
        """Sizes of the chunk files of each array, in bytes."""
        found: dict[str, list[int]] = {}
        for name, nbytes in self.files.items():
            array, is_chunk, _ = name.rpartition("/c/")  # an array may be called c
            if is_chunk:
                found.setdefault(array, []).append(nbytes)
        return found


def write_manifest(folder: Path, checksums: Mapping[str, np.ndarray]) -> None:
    """Write the manifest of all files now in the folder, and the checksums of all chunks of each array.

    Files whose names start with a dot belong to other programs, and saved steps are removed when the store is finished.
    """
    content = b"".join(np.ascontiguousarray(each, "<u4").tobytes() for each in checksums.values())
    with written_whole(folder / CHECKSUMS) as path:
        path.write_bytes(content)
    files, descriptions = {}, {}
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(parent, name) for name in sorted(names) if not name.startswith(".")):
            name = path.relative_to(folder).as_posix()
            if name in (MANIFEST, LOCK) or name.startswith(f"{ROWS}/"):
                continue
            files[name] = path.stat().st_size
            if path.name == "zarr.json":
                descriptions[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    body = {
        "format_version": FORMAT_VERSION,
        "files": files,
        "sha256": descriptions,
        "n_tiles": {name: int(each.size) for name, each in checksums.items()},
        "checksums_sha256": hashlib.sha256(content).hexdigest(),
    }
    with written_whole(folder / MANIFEST) as path:
        path.write_text(json.dumps({**body, "self_sha256": _digest(body)}), encoding="utf-8")


def read_manifest(folder: Location) -> Manifest:
    """Return the manifest of a store.

    Raises
    ------
    StoreFormatError
        There is none, so that the store was never finished; or it has a newer format.
    StoreError
        It is damaged or unreadable.
    """
    path = folder / MANIFEST
    if isinstance(path, Path) and not os.path.lexists(path):
        raise StoreFormatError(f"{MANIFEST} is missing: not a finished store", str(folder), REMEDY)
    document, content = read_document(path, MANIFEST, MAX_NBYTES)
    try:
        stated = document.pop("self_sha256")
        if stated != _digest(document):
            raise ValueError("it fails its checksum")
        version = document["format_version"]
        if version > FORMAT_VERSION:
            problem = f"the manifest has format {version}, this daskfs reads up to {FORMAT_VERSION}"
            raise StoreFormatError(problem, str(folder), "upgrade daskfs")
        return Manifest(
            document["files"],
            document["sha256"],
            None if version == 1 else document["n_tiles"],
            None if version == 1 else document["checksums_sha256"],
            hashlib.sha256(content).hexdigest(),
        )
    except StoreFormatError:
        raise
    except (ValueError, KeyError) as fault:
        reason = f"it lacks {fault}" if isinstance(fault, KeyError) else fault
        raise CorruptStoreError(f"{MANIFEST} is damaged: {reason}", str(path), REMEDY) from None


def is_finished(folder: Location) -> bool:
    """Return whether a store is at the path: only finished stores have the folder's name, or the manifest object.

    Raises
    ------
    StorageError
    """
    return folder.exists() if isinstance(folder, Path) else (folder / MANIFEST).is_file()


def identity_of(folder: Location) -> str:
    """Return the digest of the current manifest.

    Raises
    ------
    StoreError
        It is missing or unreadable.
    """
    return hashlib.sha256(read_plain(folder / MANIFEST, MANIFEST, MAX_NBYTES)).hexdigest()


def read_checksums(folder: Location, manifest: Manifest) -> dict[str, np.ndarray] | None:
    """Return the checksums of all chunks of each array, uint32; None if the manifest has format 1.

    Raises
    ------
    StoreError
        `checksums.bin` is missing, or differs from what was written.
    """
    if manifest.n_tiles is None:
        return None
    path = folder / CHECKSUMS
    nbytes = 4 * sum(manifest.n_tiles.values())
    content = read_plain(path, CHECKSUMS, nbytes)
    if len(content) != nbytes or hashlib.sha256(content).hexdigest() != manifest.checksums_sha256:
        raise CorruptStoreError(f"{CHECKSUMS} differs from what was written", str(path), REMEDY)
    found, start = {}, 0
    for array, n_tiles in manifest.n_tiles.items():
        found[array] = np.frombuffer(content, "<u4", n_tiles, 4 * start)
        start += n_tiles
    return found


def read_encoder(folder: Location, digest: str) -> dict[str, Any]:
    """Return the description of the encoder, after comparing it with its digest.

    Raises
    ------
    StoreError
        It is missing, or differs from what was written.
    """
    document, content = read_document(folder / ENCODER, ENCODER, MAX_NBYTES)
    if hashlib.sha256(content).hexdigest() != digest:
        raise CorruptStoreError(f"{ENCODER} differs from what was written", str(folder / ENCODER), REMEDY)
    return document


def check_description(folder: Location, name: str, content: bytes, manifest: Manifest) -> None:
    """Compare the content of a `zarr.json` with the manifest.

    Raises
    ------
    CorruptStoreError
        It differs from what was written.
    """
    if hashlib.sha256(content).hexdigest() != manifest.sha256.get(name):
        raise CorruptStoreError(f"{name} differs from what was written", str(folder / name), REMEDY)


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
