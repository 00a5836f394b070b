"""Arrays that only Zarr can read: written elsewhere, or in an encoding that the tile reader does not support."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import errors, interrupts
from daskfs.errors import CorruptStoreError
from daskfs.files import location
from daskfs.matrix.blocks import Rows
from daskfs.objects.path import ObjectPath
from daskfs.store.chunks import Tiled, cuts, normalise, selection_length
from daskfs.store.plain_files import REMEDY

SourceError = errors.SourceError.about("arrays")


class ZarrReader(Tiled):
    """An array of a store in an encoding that `TileReader` does not support, read through Zarr; slower.

    Parameters
    ----------
    folder : path-like
    name : str
        The array's name within its store, for messages.

    Notes
    -----
    Zarr treats a missing chunk as zeros; this reader checks that the file exists and raises an error.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str) -> None:
        import zarr

        self.name, self.folder = name, str(folder)
        self._array: Any = interrupts.call_aside(zarr.open_array, self.folder, mode="r")
        self.shape, self.dtype = self._array.shape, np.dtype(self._array.dtype)
        self.tile_shape, self.shard_shape = self._array.chunks, self._array.shards

    def read(self, rows: Rows = slice(None), columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block ``array[rows][:, columns]``; see `TileReader.read`.

        Raises
        ------
        CorruptStoreError
            A chunk is missing or cannot be decoded.
        """
        selection = [normalise(rows, self.shape[0])]
        if len(self.shape) > 1:
            selection.append(normalise(columns, self.shape[1]))
        shape = tuple(selection_length(numbers) for numbers in selection)
        if out is not None and (out.shape != shape or out.dtype != self.dtype):
            raise ValueError(f"expected `out` of shape {shape} and {self.dtype}, found {out.shape} and {out.dtype}")
        tiles = [[cut.tile for cut in cuts(n, t)] for n, t in zip(selection, self.tile_shape, strict=True)]
        for i in tiles[0]:
            for j in tiles[1] if len(tiles) > 1 else [0]:
                self._find(i, j)
        if 0 in shape:
            return np.empty(shape, self.dtype) if out is None else out
        try:
            block = interrupts.call_aside(self._array.oindex.__getitem__, tuple(selection))
        except (RuntimeError, ValueError, OSError) as fault:
            raise CorruptStoreError(f"a chunk of {self.name} cannot be decoded: {fault}", self.folder, REMEDY) from None
        if out is None:
            return np.ascontiguousarray(block)
        out[...] = block
        return out

    def strips(self, rows: Rows, columns: slice) -> None:
        """Return None: Zarr reads whole blocks."""
        return None

    def check_tile(self, i: int, j: int = 0) -> None:
        """Read one tile.

        Raises
        ------
        CorruptStoreError
            The tile is missing or cannot be decoded.
        """
        rows, columns = (
            slice(k * tile, (k + 1) * tile) for k, tile in zip((i, j), (*self.tile_shape, 1), strict=False)
        )
        self.read(rows, columns)

    def _find(self, i: int, j: int) -> None:
        numbers = (i, j)[: len(self.shape)]
        key = tuple(number // n for number, n in zip(numbers, self.tiles_per_file, strict=True))
        path = Path(self.folder, self._array.metadata.encode_chunk_key(key))
        if not path.is_file():
            label = numbers if len(numbers) > 1 else f"({i})"
            raise CorruptStoreError(f"{self.name} chunk {label} is missing", str(path), REMEDY)


def open_foreign_array(path: str | os.PathLike[str] | ObjectPath) -> Any:
    """Open a Zarr array written by another program, in format 2 or 3.

    Parameters
    ----------
    path : path-like or ObjectPath
        The array's folder.

    Returns
    -------
    zarr.Array
        With shape, dtype, chunks and ``[...]``.

    Raises
    ------
    SourceError
        The path does not exist, is a group, or has a format that Zarr cannot read.
    """
    import zarr
    import zarr.errors

    where = str(path)
    _refuse_missing(path, "Zarr array")
    try:
        node = interrupts.call_aside(zarr.open, _as_zarr_store(path), mode="r")
    except (zarr.errors.BaseZarrError, ValueError, TypeError, OSError, KeyError) as fault:
        raise SourceError(f"expected a Zarr array of format 2 or 3: {fault}", where, "check the path") from None
    if isinstance(node, zarr.Group):
        names = ", ".join(sorted(node.array_keys())) or "none"
        raise SourceError(f"expected an array, found a group (its arrays: {names})", where, "choose one of its arrays")
    return node


def _refuse_missing(path: str | os.PathLike[str] | ObjectPath, what: str) -> None:
    found = location(path)
    if isinstance(found, ObjectPath) and found.is_read_only:
        problem = f"a {what} consists of many objects, which an HTTP server does not list"
        raise SourceError(problem, str(found), "copy it, or use its address in an object store")
    if not found.exists():
        raise SourceError(f"no such {what}", str(found), "check the path")


def _as_zarr_store(path: str | os.PathLike[str] | ObjectPath) -> Any:
    """Return an argument for Zarr: a folder's path, or a Zarr store of objects."""
    found = location(path)
    if not isinstance(found, ObjectPath):
        return str(found)
    from zarr.storage import ObjectStore

    return ObjectStore(found.client_within(), read_only=True)


def read_foreign(array: Any, selection: Any = ...) -> np.ndarray:
    """Return a part of a Zarr array written by another program.

    Raises
    ------
    SourceError
        A chunk cannot be decoded.
    """
    try:
        return np.asarray(interrupts.call_aside(array.__getitem__, selection))
    except MemoryError:
        raise SourceError(
            "a chunk claims to be larger than the memory", str(array.store_path), "write it again"
        ) from None
    except (RuntimeError, ValueError, TypeError, OSError, LookupError, ArithmeticError, SystemError) as fault:
        raise SourceError(f"a chunk cannot be decoded: {fault}", str(array.store_path), "write it again") from None


def open_foreign_group(path: str | os.PathLike[str] | ObjectPath) -> Any:
    """Open a Zarr group written by another program, in format 2 or 3.

    Returns
    -------
    zarr.Group
        With attrs, and its arrays and groups by name.

    Raises
    ------
    SourceError
        The path does not exist, is an array, or has a format that Zarr cannot read.
    """
    import zarr
    import zarr.errors

    where = str(path)
    _refuse_missing(path, "Zarr group")
    try:
        return interrupts.call_aside(zarr.open_group, _as_zarr_store(path), mode="r")
    except (zarr.errors.BaseZarrError, ValueError, TypeError, OSError, KeyError) as fault:
        raise SourceError(f"expected a Zarr group of format 2 or 3: {fault}", where, "check the path") from None
