"""Metadata of a store in its `zarr.json` files: the header, which is the attribute "daskfs" of its Zarr group, and the
encodings of its arrays, of which daskfs reads those that it writes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from daskfs.errors import CorruptStoreError, StoreFormatError
from daskfs.files import Location
from daskfs.matrix.blocks import Crowding, Heaviest
from daskfs.store.layout import n_tiles
from daskfs.store.plain_files import REMEDY, read_document
from daskfs.version import __version__

FORMAT_VERSION = 4
"""Version of dense stores: an AnnData store (see `daskfs.store.tables`); before, 1, or 3 with annotated columns."""
SPARSE_FORMAT_VERSION = 2
"""Version of sparse stores."""
TEXT = np.dtype(object)
DTYPES = {name: np.dtype(name) for name in ("bool", "float16", "float32", "float64")}
DTYPES |= {f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
ANNOTATION_DTYPES = {"text": TEXT, "integer": np.dtype("i8"), "number": np.dtype("f8")}
"""Types in which annotations of columns are stored; see `daskfs.matrix.base.Matrix.annotations`."""
ARRAY_NBYTES = 1 << 20
"""Maximum size of an array's `zarr.json`, which normally takes less than a kilobyte."""


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
        "raw" or "lz4", for X.
    shuffled : bool
        Whether the rows were put in random order.
    random_state : int or None
        Seed of the random order.
    target_names, label_names : tuple of str
    has_weight : bool
    source : dict
        Origin of the rows: kind, description, digest, files ...
    encoding_digest : str
        Identity of the table schema and options that determine the encoding of the source as numbers.
    digest : str
        Identity of the content: source, encoding, row order and format.
    notes : tuple of str
        Notes of the ingest: rows dropped, rare categories pooled.
    created_with : dict of str
        Versions of the software.
    annotations : dict of str
        Types of the columns' annotations by name: keys of `ANNOTATION_DTYPES`; absent in old stores.
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
    annotations: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the header as JSON-compatible values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


@dataclass(frozen=True)
class SparseHeader(StoreHeader):
    """Metadata of a sparse store.

    Parameters
    ----------
    n_entries, n_runs : int
        Number of entries of the matrix, and of nonempty columns summed over the blocks of rows.
    values : str
        How entries are stored: "ones" (no values), "int8", "float32" or "float64"; read as `dtype`.
    has_ids : bool
        Whether columns are 64-bit ids, ascending.
    n_names, names_nbytes : int
        Number of columns with a name, and total size of the names in UTF-8.
    crowding : Crowding or None
        How unevenly entries are distributed; None in the first stores of this format, which do not record it.
    first_number : int or None
        Number of the first column; columns without a name are named by their number. None: x0, x1, ...
    """

    n_entries: int = 0
    n_runs: int = 0
    values: str = "float32"
    has_ids: bool = False
    n_names: int = 0
    names_nbytes: int = 0
    crowding: Crowding | None = None
    first_number: int | None = None


def check_version(document: dict[str, Any], where: str) -> None:
    """Refuse a header written by a newer daskfs, before any other field is read.

    Raises
    ------
    StoreFormatError
    """
    version = document.get("format_version")
    if type(version) is not int or version < 1:
        raise StoreFormatError(
            f"expected a format version, found {version!r}", where, "remove the store and ingest the source again"
        )
    if version > FORMAT_VERSION:
        problem = f"the store has format {version}, this daskfs reads up to {FORMAT_VERSION}"
        raise StoreFormatError(problem, where, "upgrade daskfs")


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
        Written by a newer daskfs, or a field is missing or invalid.
    """
    check_version(document, where)
    is_sparse = document["format_version"] == SPARSE_FORMAT_VERSION
    kind, fields = (SparseHeader, _FIELDS | _SPARSE_FIELDS) if is_sparse else (StoreHeader, _FIELDS)
    names = {item.name for item in dataclasses.fields(kind)}
    missing = sorted(names - set(document) - {"crowding", "annotations", "first_number"})
    if missing:
        raise StoreFormatError(
            f"the header lacks {', '.join(missing)}", where, "remove the store and ingest the source again"
        )
    values = {}
    for name, (expected, converted) in fields.items():
        try:
            values[name] = converted(document.get(name))
        except (ValueError, TypeError):
            problem = f"expected {expected} as {name} in the header"
            raise StoreFormatError(problem, where, "remove the store and ingest the source again") from None
    return kind(**values)


def _pair(value: Any, least: int = 1) -> tuple[int, ...]:
    if len(value) != 2:
        raise ValueError("expected rows and columns")
    return lengths(value, least)


def _is(kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"expected {kind}")
        return value

    return convert


def _one_of(*known: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if value not in known:
            raise ValueError(f"expected one of {known}")
        return value

    return convert


def _texts(value: Any) -> tuple[str, ...]:
    if type(value) is not list or not all(type(text) is str for text in value):
        raise TypeError("expected a list of text")
    return tuple(value)


def _source(value: Any) -> dict[str, Any]:
    """Return the description of the source, after checking the entries that daskfs uses."""
    texts = [value[key] for key in ("kind", "description", "digest") if key in value]
    if type(value) is not dict or not all(type(text) is str for text in texts):
        raise TypeError("expected a mapping")
    for span in value.get("table_columns", {}).values():
        _pair(span, least=0)
    if value.get("target_classes") is not None:
        _texts(value["target_classes"])
    return value


def _annotations(value: Any) -> dict[str, str]:
    found = {} if value is None else value
    if type(found) is not dict or not set(found.values()) <= set(ANNOTATION_DTYPES):
        raise TypeError("expected names and types")
    return found


def _or_none(converted: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else converted(value)


_FIELDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "format_version": ("a number", _is(int)),
    "shape": ("numbers of rows and columns", partial(_pair, least=0)),
    "dtype": ("a dtype of numbers", _one_of(*DTYPES)),
    "tile_shape": ("numbers of rows and columns", _pair),
    "shard_shape": ("numbers of rows and columns, or null,", _or_none(_pair)),
    "codec": ("raw or lz4", _one_of("raw", "lz4")),
    "shuffled": ("true or false", _is(bool)),
    "random_state": ("a whole number or null", _or_none(_is(int))),
    "target_names": ("a list of names", _texts),
    "label_names": ("a list of names", _texts),
    "has_weight": ("true or false", _is(bool)),
    "source": ("a description", _source),
    "encoding_digest": ("text", _is(str)),
    "digest": ("text", _is(str)),
    "notes": ("a list of lines", _texts),
    "created_with": ("a mapping", _is(dict)),
    "annotations": ("a mapping of names to text, integer or number", _annotations),
}
"""What is expected of each field, for messages, and the function that checks and converts it."""


def _count(value: Any) -> int:
    return lengths([value], least=0)[0]


def _crowding(value: Any) -> Crowding:
    block, rows, columns = value
    return Crowding(_count(block), Heaviest(map(_count, rows)), Heaviest(map(_count, columns)))


_SPARSE_FIELDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "n_entries": ("a number", _count),
    "n_runs": ("a number", _count),
    "values": ("ones or a dtype", _one_of("ones", "int8", "float32", "float64")),
    "has_ids": ("true or false", _is(bool)),
    "n_names": ("a number", _count),
    "names_nbytes": ("a number", _count),
    "crowding": ("numbers of entries", _or_none(_crowding)),
    "first_number": ("a number or null", _or_none(_count)),
}


def content_digest(header: StoreHeader, feature_names: Sequence[str] = ()) -> str:
    """Return the identity of the content of a store that has just been written.

    Notes
    -----
    Tiles and codec are ignored: stores with the same rows in the same order have the same digest, in format 4 as in
    formats 1 and 3. The source is represented by its entry "digest", or as a whole if it has none.
    """
    version = header.format_version
    identity = [
        (3 if header.annotations else 1) if version == FORMAT_VERSION else version,
        header.source.get("digest", header.source),
        header.encoding_digest,
        header.shape,
        np.dtype(header.dtype).str,
        list(feature_names),
        header.target_names,
        header.label_names,
        header.has_weight,
        header.random_state if header.shuffled else None,
    ]
    if isinstance(header, SparseHeader):
        identity += [header.n_entries, header.has_ids, header.n_names, header.names_nbytes]
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of the software that writes the store."""
    import numcodecs
    import zarr

    return {
        "daskfs": __version__,
        "numpy": np.__version__,
        "zarr": zarr.__version__,
        "numcodecs": numcodecs.__version__,
    }


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
    document, content = read_document(path, f"the description of array {name}", ARRAY_NBYTES)
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
