"""Reads blocks of an array directly from its chunk files into reused buffers, checking lengths and checksums.

A tile is processed in strips that stay in the processor's cache: read, compute the checksum, copy to the block, next
strip. A block therefore costs one pass over memory, like a copy from a memory map, and nothing is allocated.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from crc32c import crc32c

from daskfs.errors import CorruptStoreError
from daskfs.files import Location
from daskfs.interrupts import guard
from daskfs.kernels.blocks.laid_down import lay_down
from daskfs.matrix.blocks import Rows, Strip
from daskfs.objects.ahead import Part
from daskfs.objects.path import ObjectPath
from daskfs.store.chunk_objects import ObjectFiles
from daskfs.store.header import ArrayMetadata
from daskfs.store.layout import Cut, Tiled, cuts, normalise, selection_length
from daskfs.store.plain_files import MISPLACED, REMEDY, OpenFile, PlainFile
from daskfs.watching.reads import READ

STRIP_NBYTES = 384 << 10
"""A strip and its copy fit into the second-level cache; smaller strips cost more calls than they save."""
DIRECT_STRIP_NBYTES = 1 << 20
"""Strip size for tiles read directly to their place: only the checksum reads a strip again."""

_ABSENT = 2**64 - 1
_CHECKSUM = struct.Struct("<I")
_BLOSC_HEADER = struct.Struct("<4B3I")  # versions, flags, typesize, then decoded, block and encoded bytes
_buffers = threading.local()


@dataclass(frozen=True, slots=True)
class _Place:
    """Location of an encoded tile: an open file, first byte and length; and the expected checksum."""

    file: OpenFile
    offset: int
    nbytes: int
    path: str
    label: str
    expected: int | None = None


class TileReader(Tiled):
    """A Zarr v3 array of one or two dimensions, read without Zarr.

    Parameters
    ----------
    folder : path-like or ObjectPath
        The array's folder.
    metadata : ArrayMetadata
        Parsed `zarr.json`; see `parse_metadata`.
    name : str
        The array's name within its store, for messages.
    checksums : ndarray of uint32, of the grid's shape, optional
        Checksums (crc32c) of all encoded tiles, from the store's manifest; they reveal intact but misplaced tiles.
    version : str
        Version of the store, for objects: data fetched from another version are not used.

    Notes
    -----
    Files are read, not memory-mapped: a failing disk then raises an error that names the chunk, where a memory map
    would kill the process. Several threads may use a reader: each has scratch buffers, shared by all readers (384 KiB,
    and for Blosc a decoded and an encoded tile). Missing chunks are errors, never zeros.
    """

    def __init__(
        self,
        folder: Location,
        metadata: ArrayMetadata,
        name: str,
        checksums: np.ndarray | None = None,
        version: str = "",
    ) -> None:
        self.folder, self.name, self.metadata, self._checksums = str(folder), name, metadata, checksums
        self._files = ObjectFiles(folder, metadata, version) if isinstance(folder, ObjectPath) else None
        self.shape, self.dtype = metadata.shape, metadata.dtype
        self.tile_shape, self.shard_shape = metadata.tile_shape, metadata.shard_shape
        self.is_remote = self._files is not None
        self._is_vector = len(self.shape) == 1
        self._tile: tuple[int, int] = (self.tile_shape[0], 1 if self._is_vector else self.tile_shape[1])
        self._tile_nbytes = self._tile[0] * self._tile[1] * self.dtype.itemsize
        self._tail_nbytes = _CHECKSUM.size * metadata.has_checksum
        self._indices: dict[str, tuple[Any, np.ndarray]] = {}

    def read(self, rows: Rows = slice(None), columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block ``array[rows][:, columns]``.

        Parameters
        ----------
        rows, columns : slice, int64 array (any order, with repeats) or boolean mask
            Vectors have no columns.
        out : ndarray, optional
            Has the block's shape and the array's dtype; filled and returned.

        Returns
        -------
        ndarray of shape (n_rows, n_columns), or (n_rows,) for a vector
            C-ordered unless `out` is not.

        Raises
        ------
        CorruptStoreError
            A chunk that the block touches is missing, truncated or fails its checksum.
        IndexError
            A number outside the array.
        """
        row_numbers = normalise(rows, self.shape[0])
        column_numbers = normalise(columns, 1 if self._is_vector else self.shape[1])
        shape = (selection_length(row_numbers), selection_length(column_numbers))
        row_cuts, column_cuts = cuts(row_numbers, self._tile[0]), cuts(column_numbers, self._tile[1])
        self._expect(row_cuts, column_cuts)
        if out is None and row_cuts and column_cuts:  # do not allocate memory for missing data
            with self._locate(row_cuts[0].tile, column_cuts[0].tile) as place:
                self._check_length(place)
        block = self._output(shape[:1] if self._is_vector else shape, out)
        matrix = block.reshape(shape) if self._is_vector else block
        with guard():
            for row_cut in row_cuts:
                for column_cut in column_cuts:
                    self._read_cut(row_cut, column_cut, matrix)
        return block

    def strips(self, rows: Rows = slice(None), columns: slice = slice(None)) -> Iterator[Strip] | None:
        """Iterate over ``array[rows][:, columns]`` tile by tile: each tile is decoded once, without copies.

        Parameters
        ----------
        rows : slice, or nondecreasing int64 array
        columns : slice

        Returns
        -------
        iterator of Strip, or None
            One column of tiles at a time, with its rows in order; None if the rows are in another order. A strip is
            valid until the next one is requested, or until this thread reads something else.

        Raises
        ------
        CorruptStoreError
            Raised by the iterator: a tile is missing, truncated or fails its checksum. The checksum is known only after
            the whole tile has been yielded; results computed from its strips must not be used.
        """
        row_numbers, column_numbers = normalise(rows, self.shape[0]), normalise(columns, self.shape[1])
        if not isinstance(row_numbers, slice) and (np.diff(row_numbers) < 0).any():
            return None
        row_cuts, column_cuts = cuts(row_numbers, self._tile[0]), cuts(column_numbers, self._tile[1])
        self._expect(row_cuts, column_cuts, by="columns")
        return self._passing(row_cuts, column_cuts)

    def _passing(self, row_cuts: list[Cut], column_cuts: list[Cut]) -> Iterator[Strip]:
        left = 0
        for column_cut in column_cuts:
            first, part = 0, slice(left, left + selection_length(column_cut.inside))
            for row_cut in row_cuts:
                for low, high, taken, strip in self._taken(row_cut, column_cut.tile):
                    if isinstance(taken, slice):
                        yield Strip(first, part, strip[taken, column_cut.inside])
                    else:
                        yield Strip(first, part, strip[:, column_cut.inside], taken)
                    first += high - low
            left = part.stop

    def _expect(self, row_cuts: list[Cut], column_cuts: list[Cut], by: Literal["rows", "columns"] = "rows") -> None:
        """Prefetch the tiles of a block in reading order, if the array is in an object store."""
        if self._files is not None:
            ends = [(cut.tile, cut.inside.stop if isinstance(cut.inside, slice) else self._tile[0]) for cut in row_cuts]
            again = [tile for tile, stop in ends if stop < self._tile[0]]
            self._files.expect([tile for tile, _ in ends], [cut.tile for cut in column_cuts], by, again)

    def expect_rows(self, first: int, stop: int) -> None:
        """Prefetch all tiles in a range of rows of tiles, if the array is in an object store."""
        if self._files is not None:
            self._files.expect(range(first, stop), range((*self.grid_shape, 1)[1]), "rows")

    def parts(self, rows: Rows) -> list[Part]:
        """Return the parts of objects that contain elements of a vector, in order; empty if it is in files."""
        return (
            []
            if self._files is None
            else self._files.parts((cut.tile,) for cut in cuts(normalise(rows, self.shape[0]), self._tile[0]))
        )

    def check_tile(self, i: int, j: int = 0) -> None:
        """Read one tile and check it.

        Raises
        ------
        CorruptStoreError
            The tile is missing, truncated or fails its checksum.
        """
        for _ in self._strips(i, j, None):
            pass

    def stored_checksum(self, i: int, j: int = 0) -> int:
        """Return the checksum at the end of a tile, without reading the tile.

        Raises
        ------
        CorruptStoreError
            The tile is missing or too short.
        """
        with self._locate(i, j) as place:
            if place.nbytes < _CHECKSUM.size:
                raise self._truncated(place, _CHECKSUM.size, place.nbytes)
            stored = np.empty(_CHECKSUM.size, np.uint8)
            self._fill(place, place.nbytes - _CHECKSUM.size, stored)
            return int(_CHECKSUM.unpack(stored.data)[0])

    def _output(self, shape: tuple[int, ...], out: np.ndarray | None) -> np.ndarray:
        if out is None:
            return np.empty(shape, self.dtype)
        if out.shape != shape or out.dtype != self.dtype:
            raise ValueError(f"expected `out` of shape {shape} and {self.dtype}, found {out.shape} and {out.dtype}")
        return out

    def _read_cut(self, row_cut: Cut, column_cut: Cut, block: np.ndarray) -> None:
        """Copy one tile's part of a block; the whole tile is read, since its checksum covers all of it."""
        rows, columns = row_cut.outside, column_cut.outside
        if all(
            isinstance(part, slice) for part in (rows, columns, row_cut.inside, column_cut.inside)
        ):  # in the tile's order
            target = block[rows, columns]
            if target.shape == self._tile and target.flags.c_contiguous:
                for _ in self._strips(row_cut.tile, column_cut.tile, target):
                    pass
                return
        if isinstance(rows, slice) and min(block.shape) > 1 and block.flags.f_contiguous:
            inside, places = _numbers(column_cut.inside), _numbers(columns)
            for low, _, taken, strip in self._taken(row_cut, column_cut.tile):
                lay_down(strip[taken], inside, block.T, places, rows.start + low)
            return
        for low, high, taken, strip in self._taken(row_cut, column_cut.tile):
            put = slice(rows.start + low, rows.start + high) if isinstance(rows, slice) else rows[low:high]
            block[_grid(put, columns)] = strip[_grid(taken, column_cut.inside)]

    def _taken(self, row_cut: Cut, j: int) -> Iterator[tuple[int, int, Rows, np.ndarray]]:
        """Yield the strips of a tile that contain rows of a cut: its rows [low, high) are ``strip[taken]``."""
        inside = row_cut.inside
        for start, strip in self._strips(row_cut.tile, j, None):
            if isinstance(inside, slice):
                low, high = max(inside.start, start), min(inside.stop, start + len(strip))
                if low < high:
                    yield low - inside.start, high - inside.start, slice(low - start, high - start), strip
            else:
                low, high = np.searchsorted(inside, (start, start + len(strip))).tolist()
                if low < high:
                    yield low, high, inside[low:high] - start, strip

    def _strips(self, i: int, j: int, tile: np.ndarray | None) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the strips (first row, values) of a tile, in `tile` if given, otherwise in a reused buffer.

        The checksum is known only after the last strip, so the iterator must be exhausted.
        """
        with self._locate(i, j) as place:
            if self.metadata.has_blosc:
                yield 0, self._decode(place, tile)
            else:
                yield from self._raw_strips(place, tile)
        READ.add(self._tile_nbytes)

    def _raw_strips(self, place: _Place, tile: np.ndarray | None) -> Iterator[tuple[int, np.ndarray]]:
        n_rows, n_columns = self._tile
        row_nbytes = n_columns * self.dtype.itemsize
        self._check_length(place)
        height = min(n_rows, max(1, (STRIP_NBYTES if tile is None else DIRECT_STRIP_NBYTES) // row_nbytes))
        if tile is None:
            scratch = _scratch("strip", height * row_nbytes)[: height * row_nbytes]
            strips = scratch.view(self.dtype).reshape(height, n_columns)
        tail = np.empty(self._tail_nbytes, np.uint8)
        is_checked = bool(self._tail_nbytes) or place.expected is not None
        checksum = 0
        for start in range(0, n_rows, height):
            count = min(height, n_rows - start)
            strip = strips[:count] if tile is None else tile[start : start + count]
            self._fill(place, start * row_nbytes, strip, *([tail] if start + count == n_rows else []))
            if is_checked:
                checksum = crc32c(strip.data, checksum)
            yield start, strip
        if is_checked:
            self._check(place, checksum, tail)
            self._check_expected(place, checksum)

    def _decode(self, place: _Place, tile: np.ndarray | None) -> np.ndarray:
        from numcodecs import blosc

        blosc.use_threads = False  # as in Zarr: Blosc's pool is shared by all threads of the process
        self._check_length(place)
        nbytes = place.nbytes - self._tail_nbytes
        encoded = _scratch("encoded", nbytes)[:nbytes]
        tail = np.empty(self._tail_nbytes, np.uint8)
        self._fill(place, 0, encoded, tail)
        checksum = crc32c(encoded.data)
        self._check(place, checksum, tail)
        *_, decoded_nbytes, _, encoded_nbytes = _BLOSC_HEADER.unpack(encoded[:16].data)
        # Blosc reads past the end of a short buffer and writes past the end of a small one.
        if encoded_nbytes != nbytes:
            raise self._truncated(place, encoded_nbytes + self._tail_nbytes, place.nbytes)
        if decoded_nbytes != self._tile_nbytes:
            raise self._corrupt(place, f"decodes to {decoded_nbytes} bytes, expected {self._tile_nbytes}")
        self._check_expected(place, checksum)
        if tile is None:
            tile = _scratch("tile", self._tile_nbytes)[: self._tile_nbytes].view(self.dtype).reshape(self._tile)
        try:
            blosc.decompress(encoded, tile)
        except (RuntimeError, ValueError) as fault:
            raise self._corrupt(place, f"cannot be decoded: {fault}") from None
        return tile

    def _check_length(self, place: _Place) -> None:
        """Check that a tile has a valid length, before anything is allocated for it."""
        whole = self._tile_nbytes + self._tail_nbytes
        if not self.metadata.has_blosc:
            if place.nbytes != whole:
                raise self._truncated(place, whole, place.nbytes)
        elif place.nbytes < _BLOSC_HEADER.size + self._tail_nbytes:
            raise self._truncated(place, _BLOSC_HEADER.size + self._tail_nbytes, place.nbytes)
        elif place.nbytes > _BLOSC_HEADER.size + whole:  # incompressible data are stored uncompressed
            raise self._truncated(place, _BLOSC_HEADER.size + whole, place.nbytes)

    @contextmanager
    def _locate(self, i: int, j: int) -> Iterator[_Place]:
        numbers = (i,) if self._is_vector else (i, j)
        shard = tuple(number // per for number, per in zip(numbers, self.tiles_per_file, strict=True))
        inside = "/".join(("c", *map(str, shard)))
        path = f"{self.folder}/{inside}"
        label = f"{self.name} chunk {numbers if len(numbers) > 1 else f'({i})'}"
        file = PlainFile(path, label) if self._files is None else self._files.open(inside, label)
        try:
            offset, nbytes = 0, file.nbytes
            if self.shard_shape is not None:
                within = tuple(number % per for number, per in zip(numbers, self.tiles_per_file, strict=True))
                offset, nbytes = self._index(file, path, label)[within].tolist()
                if offset == _ABSENT:
                    raise CorruptStoreError(f"{label} is missing from its shard", path, REMEDY)
                if offset + nbytes > file.nbytes:
                    place = _Place(file, 0, file.nbytes, path, f"the shard of {label}")
                    raise self._truncated(place, offset + nbytes, file.nbytes)
            expected = None if self._checksums is None else int(self._checksums[numbers])
            yield _Place(file, offset, nbytes, path, label, expected)
        finally:
            file.close()

    def _index(self, file: OpenFile, path: str, label: str) -> np.ndarray:
        """Return start and length of each tile in a shard; uint64, tiles per shard x 2."""
        known = self._indices.get(path)
        if known is not None and known[0] == file.stamp:
            return known[1]
        nbytes = math.prod(self.tiles_per_file) * 16
        start = file.nbytes - nbytes - _CHECKSUM.size
        place = _Place(file, start, nbytes + _CHECKSUM.size, path, f"the shard of {label}")
        if start < 0:
            raise self._truncated(place, nbytes + _CHECKSUM.size, file.nbytes)
        table, tail = np.empty(nbytes, np.uint8), np.empty(_CHECKSUM.size, np.uint8)
        self._fill(place, 0, table, tail)
        self._check(place, crc32c(table.data), tail)
        index = table.view("<u8").reshape(*self.tiles_per_file, 2)
        self._indices[path] = (file.stamp, index)
        return index

    def _fill(self, place: _Place, start: int, *arrays: np.ndarray) -> None:
        """Read bytes of a tile, from `start` on, into C-ordered arrays, one after the other."""
        buffers = [array.data.cast("B") for array in arrays if array.nbytes]
        position = place.offset + start
        while buffers:
            try:
                count = place.file.read_into(buffers, position)
            except OSError as fault:  # a bad sector, a lost network file system
                raise self._corrupt(place, f"cannot be read: {fault.strerror}") from None
            if count == 0:
                end = position + sum(map(len, buffers))
                raise self._truncated(place, end - place.offset, position - place.offset)
            position += count
            while buffers and count >= len(buffers[0]):
                count -= len(buffers.pop(0))
            if count:
                buffers[0] = buffers[0][count:]

    def _check(self, place: _Place, checksum: int, tail: np.ndarray) -> None:
        """Compare a tile's checksum with the one stored after it, if any."""
        if len(tail) and _CHECKSUM.unpack(tail.data)[0] != checksum:
            raise self._corrupt(place, "fails its checksum")

    def _check_expected(self, place: _Place, checksum: int) -> None:
        """Compare a tile's checksum with the one in the manifest, if known."""
        if place.expected is not None and place.expected != checksum:
            raise self._corrupt(place, MISPLACED)

    def _truncated(self, place: _Place, expected: int, found: int) -> CorruptStoreError:
        return self._corrupt(place, f"has the wrong length: expected {expected} bytes, found {found}")

    def _corrupt(self, place: _Place, what: str) -> CorruptStoreError:
        where = place.file.path if isinstance(place.file, PlainFile) else place.path
        return CorruptStoreError(f"{place.label} {what}", where, place.file.remedy)


def _grid(rows: Rows, columns: Rows) -> Any:
    """Return an index for rows x columns, given as slices or numbers."""
    if isinstance(rows, slice) or isinstance(columns, slice):
        return rows, columns
    return np.ix_(rows, columns)


def _numbers(selection: Rows) -> np.ndarray:
    """Return a selection of columns as numbers."""
    return np.arange(selection.start, selection.stop) if isinstance(selection, slice) else selection


def _scratch(name: str, nbytes: int) -> np.ndarray:
    """Return this thread's buffer of at least `nbytes` bytes."""
    buffer = getattr(_buffers, name, None)
    if buffer is None or len(buffer) < nbytes:
        buffer = np.empty(nbytes, np.uint8)
        setattr(_buffers, name, buffer)
    return buffer
