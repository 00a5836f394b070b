"""Prefetching: blocks in order, the next one read while the current one is used; or `dask.delayed` objects of them.

Blocks are read into reusable buffers. A buffer that is still referenced is never overwritten.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import numpy as np

from daskfs import interrupts
from daskfs.matrix.blocks import ColumnBlock, RowBlock, Rows
from daskfs.matrix.buffers import BufferPool

if TYPE_CHECKING:
    import dask.array

T = TypeVar("T")
ItemT = TypeVar("ItemT")


class Readable(Protocol):
    """The methods of a matrix that streams need."""

    shape: tuple[int, int]
    dtype: np.dtype

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns]."""

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows]."""

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows."""


def prefetched(
    function: Callable[[ItemT], T],
    items: Iterable[ItemT],
    depth: int = 1,
    leave_off: Callable[[], None] = lambda: None,
) -> Iterator[T]:
    """Yield ``function(item)`` in order, computing up to `depth` results ahead in a separate thread.

    The end of the iteration waits for that thread. `leave_off` is called first, in case the function itself waits.
    """
    if depth < 1:
        yield from map(function, items)
        return
    with interrupts.Pool(1, thread_name_prefix="daskfs-read") as pool:
        ahead: deque[Future[T]] = deque()
        try:
            for item in items:
                ahead.append(pool.submit(function, item))
                if len(ahead) > depth:
                    yield interrupts.result_of(ahead.popleft())
            while ahead:
                yield interrupts.result_of(ahead.popleft())
        finally:
            leave_off()


def pieces_of(length: int, block: int) -> list[tuple[int, int]]:
    """Return the bounds of consecutive blocks that cover an axis.

    Examples
    --------
    >>> pieces_of(10, 4)
    [(0, 4), (4, 8), (8, 10)]
    """
    return [(start, min(start + block, length)) for start in range(0, length, block)]


def read_row_block(
    matrix: Readable, piece: tuple[int, int], columns: Rows = slice(None), out: np.ndarray | None = None
) -> RowBlock:
    """Read rows [start, stop) with their targets and weights."""
    rows = slice(*piece)
    X = matrix.read(rows, columns, out)
    return RowBlock(piece[0], piece[1], X, matrix.read_target(rows), matrix.read_weight(rows))


def read_column_block(matrix: Readable, piece: tuple[int, int], out: np.ndarray | None = None) -> ColumnBlock:
    """Read columns [start, stop) of all rows."""
    return ColumnBlock(piece[0], piece[1], matrix.read(slice(None), slice(*piece), out))


def buffered_blocks(
    read: Callable[..., T],
    pieces: list[tuple[int, int]],
    shape_of: Callable[[int], tuple[int, int]],
    dtype: np.dtype,
    prefetch: int,
) -> Iterator[T]:
    """Yield ``read(piece, out=...)`` for every piece, with prefetching; `out` has the shape of the block."""
    pool = BufferPool()

    def into_buffer(piece: tuple[int, int]) -> T:
        return read(piece, out=pool.take(shape_of(piece[1] - piece[0]), dtype))

    return prefetched(into_buffer, pieces, prefetch)


@dataclass
class MatrixBlocks(Generic[T]):
    """The blocks of a matrix, as an iterator that knows its matrix.

    A selector's `fit_blocks` reads them as often as `fit` reads the matrix. Plain iteration yields each block once.
    """

    matrix: Any
    axis: Literal["rows", "columns"]
    pieces: list[tuple[int, int]]
    """Bounds of the blocks."""
    breadth: int
    """Columns of row blocks, or rows of column blocks."""
    begin: Callable[[], Iterator[T]]
    read: Callable[..., Any]
    """Returns the block for a piece."""
    is_delayed: bool = False
    _blocks: Iterator[T] | None = field(default=None, init=False)

    def promises(self) -> list[Any]:
        """Return a promise of each block: delayed objects, or functions."""
        return list(self.begin()) if self.is_delayed else [partial(self.read, piece) for piece in self.pieces]

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._blocks is None:
            self._blocks = self.begin()
        return next(self._blocks)

    def close(self) -> None:
        """Stop reading blocks."""
        if self._blocks is not None:
            self._blocks.close()  # type: ignore[attr-defined]
        self._blocks = iter(())


def delayed_blocks(
    read: Callable[..., Any], source: Any, pieces: list[tuple[int, int]], name: str, *args: Any
) -> Iterator[Any]:
    """Yield `dask.delayed` objects of ``read(source, piece, *args)``. All of them share one `source`."""
    import dask

    run = uuid.uuid4().hex[:8]
    shared = dask.delayed(source, name=f"{name}-matrix-{run}")
    for k, piece in enumerate(pieces):
        task = dask.delayed(read, pure=False, traverse=False)
        yield task(shared, piece, *args, dask_key_name=f"{name}-{k:04d}-{run}")


def as_dask_array(matrix: Readable, block_rows: int) -> dask.array.Array:
    """Return a matrix as a lazy dask array, chunked in blocks of `block_rows` rows."""
    import dask.array

    return dask.array.from_array(
        _Indexable(matrix),
        chunks=(block_rows, matrix.shape[1]),
        name=f"daskfs-rows-{uuid.uuid4().hex}",
        lock=False,
        asarray=True,
        meta=np.empty((0, 0), dtype=matrix.dtype),  # otherwise dask reads an empty slice to infer it
    )


class _Indexable:
    """A matrix with the interface that dask.array.from_array needs."""

    ndim = 2

    def __init__(self, matrix: Readable) -> None:
        self.matrix = matrix
        self.shape = matrix.shape
        self.dtype = matrix.dtype

    def __getitem__(self, key: Any) -> np.ndarray:
        rows, columns = (*key, slice(None))[:2] if isinstance(key, tuple) else (key, slice(None))
        wanted = [_as_rows(part, length) for part, length in zip((rows, columns), self.shape, strict=True)]
        block = self.matrix.read(wanted[0], wanted[1])
        squeeze = tuple(0 if isinstance(part, (int, np.integer)) else slice(None) for part in (rows, columns))
        return block[squeeze]


def _as_rows(part: Any, length: int) -> Rows:
    if isinstance(part, (int, np.integer)):
        start = int(part) % length
        return slice(start, start + 1)
    if isinstance(part, slice):
        start, stop, step = part.indices(length)
        return slice(start, max(start, stop)) if step == 1 else np.arange(start, stop, step)
    part = np.asarray(part)
    return np.flatnonzero(part) if part.dtype == bool else part.astype(np.int64)
