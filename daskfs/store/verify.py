"""Reads every file of a store and reports what is damaged."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from daskfs import interrupts
from daskfs.cluster.workers import Here, Workers
from daskfs.errors import CorruptStoreError, StoreError
from daskfs.files import Location
from daskfs.objects.path import ObjectPath
from daskfs.objects.requests import all_of
from daskfs.store.header import SparseHeader, StoreHeader
from daskfs.store.manifest import (
    ENCODER_DIGEST,
    MAX_NBYTES,
    Manifest,
    check_description,
    read_checksums,
    read_encoder,
    read_manifest,
)
from daskfs.store.plain_files import REMEDY, read_document
from daskfs.store.sparse.layout import BLOCK_ROWS, BY_BLOCKS
from daskfs.store.stored_arrays import StoredArray, checked_array, expected_arrays, read_header
from daskfs.store.tile_reader import TileReader
from daskfs.watching.base import Progress, Silent

PART_NBYTES = 2**26
"""Size, before compression, of the tiles that one task checks."""


def damaged_parts(folder: Location, progress: Progress | None = None, workers: Workers | None = None) -> list[str]:
    """Return one line per damaged part of a store, with the array, the chunk, the file and the fault.

    Parameters
    ----------
    folder : Path or ObjectPath
    progress : Progress, optional
        Reports the number of checked files.
    workers : Workers, optional
        Workers that can see the store, to read its chunks; by default this thread.

    Returns
    -------
    list of str
        Empty if all lengths and checksums are right.

    Raises
    ------
    StoreFormatError
        The store is unfinished, or has a newer format.
    """
    progress = progress or Silent()
    try:
        manifest = read_manifest(folder)
    except CorruptStoreError as fault:
        return [str(fault)]
    progress.start("verify", len(manifest.files))
    folder = folder.without_cache() if isinstance(folder, ObjectPath) else folder
    manifest = replace(manifest, identity=uuid.uuid4().hex)  # objects fetched earlier must not be used
    found: list[str] = []
    checksums = None
    try:
        checksums = read_checksums(folder, manifest)
    except StoreError as fault:
        found.append(str(fault))
    progress.advance(int(manifest.is_sealed))
    for name in sorted(manifest.sha256):
        try:
            check_description(folder, name, read_document(folder / name, name, MAX_NBYTES)[1], manifest)
        except StoreError as fault:
            found.append(str(fault))
        progress.advance()
    try:
        header = read_header(folder, manifest)
    except CorruptStoreError as fault:
        return found or [str(fault)]
    if ENCODER_DIGEST in header.source:
        try:
            read_encoder(folder, header.source[ENCODER_DIGEST])
        except StoreError as fault:
            found.append(str(fault))
        progress.advance()
    for name, expected in expected_arrays(header).items():
        try:
            array = checked_array(folder, name, header, manifest, checksums, expected)
            found += _damaged_tiles(array, progress, _rows_of_chunks(array, header, manifest, checksums), workers)
        except StoreError as fault:
            if not any(line.startswith(f"{fault.where}: ") for line in found):
                found.append(str(fault))
    found += _wrong_lengths(folder, manifest.files, found)
    progress.finish()
    return found


def _rows_of_chunks(
    array: StoredArray, header: StoreHeader, manifest: Manifest, checksums: dict[str, np.ndarray] | None
) -> Callable[[int], str]:
    """Return a function that names the rows in a chunk of entries or runs of a sparse store; "" for other arrays."""
    if not isinstance(header, SparseHeader) or array.name not in BY_BLOCKS:
        return lambda chunk: ""
    try:
        expected = expected_arrays(header)["X/blocks"]
        of_blocks = checked_array(array.folder, "X/blocks", header, manifest, checksums, expected)
        blocks = of_blocks.open().read()[:, BY_BLOCKS[array.name]]
    except StoreError:
        return lambda chunk: ""

    def rows(chunk: int) -> str:
        length = array.metadata.tile_shape[0]
        first, last = np.searchsorted(blocks, [chunk * length, (chunk + 1) * length - 1], "right") - 1
        stop = min(BLOCK_ROWS * (int(last) + 1), header.shape[0])
        return f" (of stored rows {BLOCK_ROWS * int(first):,} to {stop - 1:,})"

    return rows


def _damaged_tiles(
    array: StoredArray, progress: Progress, rows_of: Callable[[int], str], workers: Workers | None
) -> list[str]:
    reader = array.open()
    n_rows, *across = reader.grid_shape
    row_nbytes = math.prod([*across, *array.metadata.tile_shape, array.metadata.dtype.itemsize])
    length, per_file = max(1, PART_NBYTES // max(1, row_nbytes)), reader.tiles_per_file[0]
    bounds = [*range(0, n_rows, -(-length // per_file) * per_file), n_rows]
    found: dict[int, list[str]] = {}
    checked = (workers or Here()).map_blocks(check_tiles, list(pairwise(bounds)), name="verify", shared=(array,))
    for part, (n_files, damaged) in checked:
        interrupts.check()
        found[part] = [f"{fault}{rows_of(row)}" for row, fault in damaged]
        progress.advance(n_files)
    return [line for part in sorted(found) for line in found[part]]


def check_tiles(array: StoredArray, rows: tuple[int, int]) -> tuple[int, list[tuple[int, str]]]:
    """Check some rows of tiles; return the number of files, and the row and fault of each damaged tile."""
    reader, n_files, damaged = array.open(), 0, []
    first, stop = rows
    if isinstance(array.folder, ObjectPath) and isinstance(reader, TileReader):
        reader.expect_rows(first, stop)
    for row, *column in np.ndindex(stop - first, *reader.grid_shape[1:]):
        tile = (first + row, *column)
        try:
            reader.check_tile(*tile)
        except StoreError as fault:
            damaged.append((tile[0], str(fault)))
        n_files += not (np.array(tile) % reader.tiles_per_file).any()
    return n_files, damaged


def _wrong_lengths(folder: Location, files: dict[str, int], found: list[str]) -> list[str]:
    """Compare file sizes with the manifest; finds what the chunks' checks miss, such as bytes appended to a shard."""
    lines = []
    named = "\n".join(found)
    sizes = _sizes(folder, files) if isinstance(folder, ObjectPath) else None
    for file, nbytes in files.items():
        path = folder / file
        if f"{path}: " in named:
            continue
        if isinstance(path, ObjectPath):
            size = None if sizes is None else sizes.get(file)
        else:
            size = path.stat().st_size if path.is_file() else None
        if size != nbytes:
            what = "is missing" if size is None else f"has {size} bytes, expected {nbytes}"
            problem = f"a file of {file.rpartition('/c/')[0] or 'the store'} {what}"
            lines.append(str(CorruptStoreError(problem, str(path), REMEDY)))
    return lines


def _sizes(folder: ObjectPath, files: dict[str, int]) -> dict[str, int]:
    """Return the sizes of a store's objects: from a listing, or, if there is none, object by object."""
    if not folder.is_read_only:
        return folder.all_objects()

    def size(name: str) -> int:
        try:
            return (folder / name).stat().st_size
        except FileNotFoundError:
            return -1

    return {name: nbytes for name, nbytes in zip(files, all_of(size, files), strict=True) if nbytes >= 0}
