"""Reads every file of a store and says what is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from daskfs.errors import CorruptStoreError
from daskfs.matrix.base import Progress, Silent
from daskfs.store.manifest import check_description, read_manifest
from daskfs.store.metadata import read_metadata
from daskfs.store.strings import StringReader
from daskfs.store.tile_reader import open_array


def damaged_parts(folder: Path, progress: Progress | None = None) -> list[str]:
    """Return one line per damaged part of a store, with the array, the chunk, the file and what is wrong.

    Parameters
    ----------
    folder : Path
    progress : Progress, optional
        Told how many files are done.

    Returns
    -------
    list of str
        Empty: every length and checksum is right.
    """
    try:
        manifest = read_manifest(folder)
    except CorruptStoreError as fault:
        return [str(fault)]
    found: list[str] = []
    progress = progress or Silent()
    progress.start("verify", len(manifest["files"]))
    for description in sorted(manifest["sha256"]):
        try:
            check_description(folder, description, manifest)
            name = description.removesuffix("zarr.json").rstrip("/")
            if name and not _is_group(folder / description):
                found += _damaged_tiles(folder, name, manifest["files"], progress)
        except CorruptStoreError as fault:
            found.append(str(fault))
        progress.advance()
    progress.finish()
    return found


def _is_group(description: Path) -> bool:
    return b'"node_type": "group"' in description.read_bytes()


def _damaged_tiles(folder: Path, name: str, files: dict[str, int], progress: Progress) -> list[str]:
    found = []
    reader = _open(folder / name, name)
    for tile in np.ndindex(*reader.grid_shape):
        try:
            reader.check_tile(*tile)
        except CorruptStoreError as fault:
            found.append(str(fault))
        if not (np.array(tile) % reader.tiles_per_file).any():
            progress.advance()
    found += _wrong_lengths(folder, name, files, found)
    return found


def _open(folder: Path, name: str) -> Any:
    if read_metadata(folder, name)["data_type"] == "string":
        return StringReader(folder, name)
    return open_array(folder, name)


def _wrong_lengths(folder: Path, name: str, files: dict[str, int], found: list[str]) -> list[str]:
    """Compare with the manifest what the chunks' own checks cannot see, such as bytes added to a shard."""
    lines = []
    for file, nbytes in files.items():
        path = folder / file
        if not file.startswith(f"{name}/") or any(str(path) in line for line in found):
            continue
        size = path.stat().st_size if path.is_file() else None
        if size != nbytes:
            what = "is missing" if size is None else f"has {size} bytes, expected {nbytes}"
            lines.append(f"{path}: a file of {name} {what}")
    return lines
