"""Arrays of a store: which ones exist, checks against header, manifest and files, and their readers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.errors import CorruptStoreError
from daskfs.files import Location
from daskfs.store.header import (
    ANNOTATION_DTYPES,
    FORMAT_VERSION,
    TEXT,
    ArrayMetadata,
    SparseHeader,
    StoreHeader,
    check_version,
    parse_header,
    parse_metadata,
    read_metadata,
)
from daskfs.store.manifest import MANIFEST, MAX_NBYTES, Manifest, check_description, write_manifest
from daskfs.store.plain_files import REMEDY, read_document
from daskfs.store.sparse.layout import sparse_arrays
from daskfs.store.strings import StringReader
from daskfs.store.tables import CLASSES, STATISTICS, Tables
from daskfs.store.tile_reader import TileReader


@dataclass(frozen=True)
class StoredArray:
    """An array of a store whose metadata have been checked.

    Parameters
    ----------
    folder : Path
        Folder of the store.
    name : str
        Path of the array in it.
    metadata : ArrayMetadata
    max_nbytes : int
        Size of its longest file.
    checksums : ndarray of uint32, of the grid's shape, or None
        Checksums of all chunks, from the manifest.
    version : str
        Identity of the manifest.
    """

    folder: Location
    name: str
    metadata: ArrayMetadata
    max_nbytes: int
    checksums: np.ndarray | None = None
    version: str = ""

    def open(self) -> Any:
        """Return a reader of the array: a `TileReader`, or a `StringReader` for text."""
        folder = self.folder / self.name
        if self.metadata.dtype == TEXT:
            return StringReader(folder, self.name, self.metadata, self.max_nbytes, self.checksums)
        return TileReader(folder, self.metadata, self.name, self.checksums, self.version)


_GROUPS = {
    "zarr.json",
    "obs/zarr.json",
    "var/zarr.json",
    "obsm/zarr.json",
    "statistics/zarr.json",
    "labels/zarr.json",
    "X/zarr.json",
    "names/zarr.json",
    "annotations/zarr.json",
}


def read_header(folder: Location, manifest: Manifest) -> StoreHeader:
    """Return the header of a store, after comparing it with the manifest.

    Raises
    ------
    StoreError
        The store's `zarr.json` is damaged or differs from what was written, or the header has a newer format.
    """
    document, content = header_document(folder)
    check_version(document, str(folder))
    check_description(folder, "zarr.json", content, manifest)
    return parse_header(document, str(folder))


def header_document(folder: Location) -> tuple[dict[str, Any], bytes]:
    """Return the attribute "daskfs" of a store's `zarr.json`, and the bytes of the file.

    Raises
    ------
    CorruptStoreError
        There is no such attribute.
    """
    path = folder / "zarr.json"
    try:
        document, content = read_document(path, "zarr.json", MAX_NBYTES)
        header = document["attributes"]["daskfs"]
        if not isinstance(header, dict):
            raise TypeError("expected a header")
    except (CorruptStoreError, KeyError, TypeError):
        raise CorruptStoreError("zarr.json is missing or damaged", str(path), REMEDY) from None
    return header, content


def tables_of(header: StoreHeader) -> Tables | None:
    """Return where the arrays beside X are in a store with this header; None if they have their names of format 1."""
    if header.format_version != FORMAT_VERSION:
        return None
    classes = header.source.get(CLASSES)
    return Tables(header.target_names, header.has_weight, header.label_names, list(header.annotations), classes)


def expected_arrays(header: StoreHeader) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """Return dtype and shape of every array that a store with this header must have, by path."""
    tables = tables_of(header)
    (n_samples, n_features), n_targets = header.shape, len(header.target_names)
    is_sparse = isinstance(header, SparseHeader)
    arrays: dict[str, tuple[np.dtype, tuple[int, ...]]]
    if isinstance(header, SparseHeader):
        arrays = sparse_arrays(header)
    else:
        arrays = {"X": (np.dtype(header.dtype), header.shape)}
    if n_targets:
        arrays["target"] = (np.dtype("f8"), (n_samples, n_targets) if n_targets > 1 else (n_samples,))
    if tables is not None and tables.classes is not None and tables.has_classes:
        arrays["target"] = (tables.code_type, (n_samples,))
        arrays[CLASSES] = (TEXT, (len(tables.classes),))
    if header.has_weight:
        arrays["weight"] = (np.dtype("f8"), (n_samples,))
    if header.shuffled or tables is not None:
        arrays["source_rows"] = (np.dtype("i8"), (n_samples,))
    for number in range(len(header.label_names)):
        arrays[f"labels/{number}"] = (TEXT, (n_samples,))
    for name in STATISTICS:
        if is_sparse and name == "n_missing":
            continue  # a sparse store has no missing values
        arrays[f"statistics/{name}"] = (np.dtype("i8" if name == "n_missing" else "f8"), (n_features,))
    if not is_sparse:
        arrays["feature_names"] = (TEXT, (n_features,))
    for number, kind in enumerate(header.annotations.values()):
        arrays[f"annotations/{number}"] = (ANNOTATION_DTYPES[kind], (n_features,))
    paths = {} if tables is None else tables.paths()  # by name in stores of format 1
    return {paths.get(name, name): facts for name, facts in arrays.items()}


def described_arrays(manifest: Manifest) -> list[str]:
    """Return the names of the arrays in a manifest, not yet compared with the header."""
    names = [name.removesuffix("/zarr.json") for name in manifest.sha256 if "/" in name]
    with_parts = {name.rpartition("/")[0] for name in names}
    return [name for name in names if name not in with_parts and f"{name}/zarr.json" not in _GROUPS - {"X/zarr.json"}]


def checked_array(
    folder: Location,
    name: str,
    header: StoreHeader,
    manifest: Manifest,
    checksums: dict[str, np.ndarray] | None,
    expected: tuple[np.dtype, tuple[int, ...]],
    description: tuple[dict[str, Any], bytes] | None = None,
) -> StoredArray:
    """Return an array of a store, after comparing its metadata with manifest and header.

    Parameters
    ----------
    folder, name, header, manifest, checksums
        The store and the array's path in it.
    expected : tuple
        dtype and shape, from `expected_arrays`.
    description : tuple, optional
        From `read_metadata`; by default it is read.

    Raises
    ------
    StoreError
        The metadata are damaged, differ from what was written, or are inconsistent with the others.
    """
    where = folder / name / "zarr.json"
    document, content = description or read_metadata(folder / name, name)
    check_description(folder, f"{name}/zarr.json", content, manifest)
    metadata = parse_metadata(document)
    if metadata is None:
        raise CorruptStoreError(f"{name} is in an encoding that daskfs does not write", str(where), REMEDY)
    is_expected = (metadata.dtype, metadata.shape) == expected
    if name == "X":
        layout = header.tile_shape, header.shard_shape, header.codec == "lz4"
        is_expected &= (metadata.tile_shape, metadata.shard_shape, metadata.has_blosc) == layout
    if not is_expected:
        raise CorruptStoreError(f"the description of array {name} contradicts the store's header", str(where), REMEDY)
    max_nbytes = max(manifest.chunk_files.get(name, []), default=0)
    if checksums is None:
        return StoredArray(folder, name, metadata, max_nbytes, version=manifest.identity)
    found = checksums.get(name)
    if found is None or len(found) != math.prod(metadata.grid_shape):
        problem = f"{MANIFEST} does not have one checksum for each chunk of {name}"
        raise CorruptStoreError(problem, str(folder / MANIFEST), REMEDY)
    return StoredArray(folder, name, metadata, max_nbytes, found.reshape(metadata.grid_shape), manifest.identity)


def seal(folder: Path) -> None:
    """Write the current checksums of all chunks, and the manifest.

    Raises
    ------
    StoreError
        An array is missing or inconsistent with the header.
    """
    checksums = {}
    for name in expected_arrays(parse_header(header_document(folder)[0], str(folder))):
        metadata = parse_metadata(read_metadata(folder / name, name)[0])
        if metadata is None:
            raise CorruptStoreError(f"{name} is in an encoding that daskfs does not write", str(folder / name), REMEDY)
        tiles = TileReader(folder / name, metadata, name)
        found = [tiles.stored_checksum(*tile) for tile in np.ndindex(*metadata.grid_shape)]
        checksums[name] = np.array(found, "<u4")
    write_manifest(folder, checksums)
