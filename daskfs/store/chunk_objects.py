"""Chunks of an array in an object store: maps tiles to parts of objects and prefetches them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Literal, NamedTuple

import numpy as np
from crc32c import crc32c

from daskfs.errors import CorruptStoreError
from daskfs.objects.ahead import Check, Part, prefetch_cache
from daskfs.objects.path import ObjectPath
from daskfs.objects.requests import all_of
from daskfs.store.header import ArrayMetadata
from daskfs.store.plain_files import REMEDY, OpenFile, PlainFile

_BLOSC_NBYTES = 20
"""Bytes of a Blosc chunk besides its values: header and checksum."""


def is_whole(content: memoryview) -> bool:
    """Return whether the last four bytes are the checksum of the others."""
    return len(content) >= 4 and crc32c(content[:-4]) == int.from_bytes(content[-4:], "little")


class FetchedFile:
    """A fetched object with the interface of a file."""

    __slots__ = ("_content", "nbytes", "stamp")
    remedy = REMEDY

    def __init__(self, content: memoryview) -> None:
        self._content, self.nbytes = content, len(content)
        self.stamp: Any = None

    def read_into(self, buffers: list[memoryview], position: int) -> int:
        """Fill buffers from a position on."""
        return _fill(buffers, self._content[position:])

    def close(self) -> None:
        """Do nothing."""


class KeptFile(PlainFile):
    """The cached copy of a part of an object on this machine."""

    __slots__ = ()
    remedy = "it is a cached copy: remove this file, and run again"


def kept_file(part: Part, check: Check | None) -> KeptFile | None:
    """Return the cached copy of a part, opened; None if the part must be fetched."""
    if part.cache is None or check is None or prefetch_cache().has(part):
        return None
    path = part.cache.path_of(part.kept_as, check)
    try:
        return None if path is None else KeptFile(str(path), "a copy")
    except CorruptStoreError:  # another process has just removed it
        return None


class _Shard:
    """A shard whose length and index are fetched once; read like a file, one tile at a time.

    Parameters
    ----------
    path : ObjectPath
    n_tiles : int
        Number of tiles in a shard.
    check : callable or None
        Check of a tile.
    like : Part
        A part with the version and cache of the store.
    """

    remedy = REMEDY

    def __init__(self, path: ObjectPath, n_tiles: int, check: Check | None, like: Part) -> None:
        self.path, self.stamp, self._check, self._like = path, path.key, check, like
        self.nbytes = path.stat().st_size
        self._end = max(0, self.nbytes - 16 * n_tiles - 4)
        self._tail = path.asked(self._end, self.nbytes - self._end)
        index = np.frombuffer(self._tail[: 16 * n_tiles] if len(self._tail) == 16 * n_tiles + 4 else b"", "<u8")
        self.places = index.reshape(-1, 2)
        """First byte and length of each tile; not yet checked."""

    def part(self, tile: int) -> Part | None:
        """Return the part of the object that is a tile; None if it is not within the shard."""
        if tile >= len(self.places):
            return None
        start, nbytes = self.places[tile].tolist()
        if start + nbytes > self._end:
            return None
        return self._like._replace(path=self.path, start=start, nbytes=nbytes, most_nbytes=nbytes)

    def read_into(self, buffers: list[memoryview], position: int) -> int:
        """Fill buffers from a position on, within the index or a tile."""
        if position >= self._end:
            return _fill(buffers, self._tail[position - self._end :])
        starts, lengths = self.places.T
        for tile in np.flatnonzero((starts <= position) & (position < starts + lengths)).tolist():
            part = self.part(tile)
            if part is not None and (kept := kept_file(part, self._check)) is not None:
                with closing(kept):
                    return kept.read_into(buffers, position - part.start)
            if part is not None:
                return _fill(buffers, prefetch_cache().take(part, self._check)[position - part.start :])
        return 0

    def close(self) -> None:
        """Do nothing."""


Kind = Literal["rows", "columns", "elsewhere"]


class _Move(NamedTuple):
    """The last read of a thread, and its direction."""

    rows: Sequence[int] = ()
    columns: Sequence[int] = ()
    kind: Kind = "elsewhere"
    ahead: tuple[Sequence[int], Sequence[int]] = ((), ())
    follows: Mapping[Kind, Kind] = {}
    """Direction of the read that last followed a read in each direction; by default the same direction."""


class ObjectFiles:
    """The chunks of an array in an object store.

    Parameters
    ----------
    folder : ObjectPath
        Folder of the array.
    metadata : ArrayMetadata
    version : str
        Version of the store.

    Notes
    -----
    The next block of a sequential reader is prefetched: its position is predicted from the direction that followed the
    last time after a read in the same direction (next rows, next columns, or elsewhere).
    """

    def __init__(self, folder: ObjectPath, metadata: ArrayMetadata, version: str) -> None:
        self.folder, self._metadata = folder, metadata
        self._check = is_whole if metadata.has_checksum else None
        self._grid = (*metadata.grid_shape, 1)[:2]
        self._is_vector = len(metadata.shape) == 1
        file_shape = metadata.shard_shape or metadata.tile_shape
        self._per_file = tuple(file // tile for file, tile in zip(file_shape, metadata.tile_shape, strict=True))
        values_nbytes = math.prod(metadata.tile_shape) * metadata.dtype.itemsize
        self._most_nbytes = values_nbytes + (_BLOSC_NBYTES if metadata.has_blosc else 4)
        cache = folder.cache_for(version) if self._check else None
        self._like = Part(folder, 0, None, self._most_nbytes, version, cache)
        self._shards: dict[str, _Shard] = {}

    def open(self, inside: str, label: str) -> OpenFile:
        """Return a file of the array, from the cache or fetched.

        Raises
        ------
        CorruptStoreError
            The file does not exist.
        StorageError
        """
        try:
            if self._metadata.shard_shape is not None:
                return self._shard(inside)
            part = self._whole(inside)
            return kept_file(part, self._check) or FetchedFile(prefetch_cache().take(part, self._check))
        except FileNotFoundError:
            raise CorruptStoreError(f"{label} is missing", str(self.folder / inside), REMEDY) from None

    def parts(self, tiles: Iterable[tuple[int, ...]]) -> list[Part]:
        """Return the parts of objects that contain the given tiles."""
        numbers = [tile[:1] if self._is_vector else tile for tile in tiles]
        if self._metadata.shard_shape is not None:
            new = {name for name in map(self._file_of, numbers) if name not in self._shards}
            with suppress(FileNotFoundError):  # the reader raises the error
                all_of(self._shard, sorted(new))
        return [part for part in map(self._part, numbers) if part is not None]

    def expect(
        self, rows: Sequence[int], columns: Sequence[int], by: Literal["rows", "columns"], again: Sequence[int] = ()
    ) -> None:
        """Prefetch tiles in the order in which they will be read, and the predicted next ones.

        Tiles in the rows `again` are not read completely, and will be read again at once.
        """
        if not rows or not columns:
            return
        tiles = _grid_of(rows, columns, by)
        if self._is_vector and prefetch_cache().knows(self.parts(tiles)):
            return
        later = _grid_of(*self._next(rows, columns), by)
        prefetch_cache().expect(self.parts([*tiles, *later]), self._check, self.parts(_grid_of(again, columns, by)))

    def _next(self, rows: Sequence[int], columns: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Return the predicted rows and columns of tiles for the next read."""
        last: _Move = prefetch_cache().passed.get(self.folder, _Move())
        if columns == last.columns and last.rows and last.rows[0] <= rows[0] <= rows[-1] <= last.rows[-1]:
            return last.ahead  # more rows of the same tiles
        kind: Kind = "elsewhere"
        if columns == last.columns and last.rows and rows[0] - last.rows[-1] in (0, 1):
            kind = "rows"
        elif rows == last.rows and last.columns and columns[0] - last.columns[-1] in (0, 1):
            kind = "columns"
        follows = {**last.follows, last.kind: kind}
        ahead: tuple[Sequence[int], Sequence[int]] = ((), ())
        if follows.get(kind, kind) == "rows":
            ahead = range(rows[-1] + 1, min(self._grid[0], rows[-1] + 1 + len(rows))), columns
        elif follows.get(kind, kind) == "columns":
            ahead = rows, range(columns[-1] + 1, min(self._grid[1], columns[-1] + 1 + len(columns)))
        prefetch_cache().passed[self.folder] = _Move(rows, columns, kind, ahead, follows)
        return ahead

    def _part(self, tile: tuple[int, ...]) -> Part | None:
        inside = self._file_of(tile)
        if self._metadata.shard_shape is None:
            return self._whole(inside)
        try:
            shard = self._shard(inside)
        except FileNotFoundError:
            return None
        within = [number % per for number, per in zip(tile, self._per_file, strict=True)]
        return shard.part(int(np.ravel_multi_index(within, self._per_file)))

    def _file_of(self, tile: tuple[int, ...]) -> str:
        return "/".join(("c", *(str(number // per) for number, per in zip(tile, self._per_file, strict=True))))

    def _whole(self, inside: str) -> Part:
        return self._like._replace(path=self.folder / inside)

    def _shard(self, inside: str) -> _Shard:
        found = self._shards.get(inside)
        if found is None:
            path = self.folder / inside
            found = self._shards[inside] = _Shard(path, math.prod(self._per_file), self._check, self._like)
        return found


def _grid_of(rows: Sequence[int], columns: Sequence[int], by: Literal["rows", "columns"]) -> list[tuple[int, int]]:
    if by == "rows":
        return [(i, j) for i in rows for j in columns]
    return [(i, j) for j in columns for i in rows]


def _fill(buffers: list[memoryview], content: memoryview) -> int:
    count = 0
    for buffer in buffers:
        part = content[count : count + len(buffer)]
        buffer[: len(part)] = part
        count += len(part)
    return count
