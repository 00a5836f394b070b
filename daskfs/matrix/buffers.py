"""Reusable buffers, and block sizes for a memory limit."""

from __future__ import annotations

import weakref

import numpy as np

from daskfs.errors import PlanError

DEFAULT_BLOCK_NBYTES = 128 * 2**20
"""Size of a block without a memory limit. Tasks of 64 to 256 MiB hide Dask's cost per task."""


class BufferPool:
    """Buffers that are reused once nobody refers to them. Only one thread may take buffers.

    The pool never holds more buffers than were in use at once: if none is large enough, the free ones are released.
    """

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []

    def take(self, shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
        """Return an uninitialised array of this shape, in a free buffer if one is large enough."""
        nbytes = int(np.prod(shape)) * dtype.itemsize
        fits = next((k for k, buffer in enumerate(self._free) if buffer.nbytes >= nbytes), None)
        if fits is None:
            self._free.clear()  # otherwise smaller buffers would all be kept
        buffer: np.ndarray = np.empty(max(nbytes, 1), np.uint8) if fits is None else self._free.pop(fits)
        # A view refers to the first array on the memory, not to those in between. Behind a memoryview, `lent` is that
        # first array: it is freed when all its views are.
        lent = np.frombuffer(buffer.data, dtype=np.uint8)
        weakref.finalize(lent, self._free.append, buffer).atexit = False
        return lent[:nbytes].view(dtype).reshape(shape)


def block_length(
    length: int,
    item_nbytes: int,
    tile_length: int,
    memory_limit: int | None,
    n_buffers: int,
    axis: str,
) -> int:
    """Return the number of rows (or columns) of a block: within the memory, in whole tiles if a tile fits.

    Parameters
    ----------
    length : int
        Number of rows (columns) of the matrix.
    item_nbytes : int
        Bytes of one row (column).
    tile_length : int
        Number of rows (columns) of a tile.
    memory_limit : int or None
        Bytes for all `n_buffers` buffers in total; None: 128 MiB each.
    n_buffers : int
        Number of blocks alive at once.
    axis : {"row", "column"}
        For the error message.

    Raises
    ------
    PlanError
        Not even one row (column) fits into the memory limit.

    Examples
    --------
    >>> block_length(10**6, 4 * 1000, 2048, 100 * 2**20, 2, "row")
    12288
    """
    nbytes = DEFAULT_BLOCK_NBYTES if memory_limit is None else memory_limit // n_buffers
    n_items = nbytes // max(item_nbytes, 1)
    if n_items < 1:
        if memory_limit is None:
            return 1
        raise PlanError(
            f"one {axis} takes {item_nbytes:,} bytes and {n_buffers} blocks are alive at once, "
            f"but the memory limit is {memory_limit:,} bytes",
            "memory_limit",
            f"allow at least {n_buffers * item_nbytes:,} bytes",
        )
    if n_items >= tile_length:
        n_items -= n_items % tile_length
    return max(1, min(n_items, length))
