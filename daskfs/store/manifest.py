"""The list of every file of a store and its length: what makes a missing chunk an error."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from daskfs.errors import CorruptStoreError, StoreFormatError
from daskfs.store.metadata import REMEDY

MANIFEST = "manifest.json"
LOCK = "writer.lock"


def store_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield every file of a store but the manifest and the writer's lock, as (name within the store, path)."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            relative = path.relative_to(folder).as_posix()
            if relative not in (MANIFEST, LOCK):
                yield relative, path


def write_manifest(folder: Path) -> None:
    """Write the manifest of all files that now lie in the folder."""
    files, descriptions = {}, {}
    for name, path in store_files(folder):
        files[name] = path.stat().st_size
        if path.name == "zarr.json":
            descriptions[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    body = {"format_version": 1, "files": files, "sha256": descriptions}
    Path(folder, MANIFEST).write_text(json.dumps({**body, "self_sha256": _digest(body)}), encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return {"files": {name: bytes}, "sha256": {name of a zarr.json: digest}}.

    Raises
    ------
    StoreFormatError
        There is none: the store was never finished.
    CorruptStoreError
        It is damaged.
    """
    path = Path(folder, MANIFEST)
    try:
        document = json.loads(path.read_bytes())
        stated = document.pop("self_sha256")
        if stated != _digest(document):
            raise ValueError("it fails its checksum")
        return document
    except FileNotFoundError:
        raise StoreFormatError(f"{MANIFEST} is missing: not a finished store", str(folder), REMEDY) from None
    except (ValueError, KeyError, AttributeError, TypeError) as fault:
        raise CorruptStoreError(f"{MANIFEST} is damaged: {fault}", str(path), REMEDY) from None


def check_description(folder: Path, name: str, manifest: dict[str, Any]) -> None:
    """Check one `zarr.json` against the manifest.

    Raises
    ------
    CorruptStoreError
        It is missing or not the one that was written.
    """
    path = Path(folder, name)
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise CorruptStoreError(f"{name} is missing", str(path), REMEDY) from None
    if found != manifest["sha256"].get(name):
        raise CorruptStoreError(f"{name} is not the one that was written", str(path), REMEDY)


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
