"""A matrix of blocks that can be read repeatedly; see `daskfs.matrix.passing` for blocks that can be read once."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs import interrupts
from daskfs.cluster.client import cluster_errors, released
from daskfs.matrix.arrays import dense_rows
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, SparseRows, as_slice
from daskfs.matrix.incoming import Axis, Block, Facts, Order, is_of_dask, is_promise, opened
from daskfs.matrix.names import Names

if TYPE_CHECKING:
    from distributed import Client


class OfBlocks(Matrix):
    """A matrix whose rows or columns are in consecutive blocks."""

    axis: Axis

    @abstractmethod
    def _parts(self, along: Rows) -> Iterator[tuple[Any, Rows, Rows]]:
        """Yield each block concerned, with the rows (columns) wanted of it and their positions in the request."""

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns], written to `out` if given."""
        if out is None:
            out = np.empty((n_of(rows, self.shape[0]), n_of(columns, self.shape[1])), self.dtype)
        if self.axis == "rows":
            for X, here, there in self._parts(rows):
                out[there] = dense_rows(X, here, columns)
        else:
            for X, here, there in self._parts(columns):
                out[:, there] = dense_rows(X, rows, here)
        return out

    def sparse_rows(self, rows: Rows) -> SparseRows | None:
        """Return the entries of X[rows]; None if the blocks are dense, or blocks of columns."""
        if not self._has_entries:
            return None
        parts = [(X[here], there) for X, here, there in self._parts(rows)]
        lengths = np.zeros(n_of(rows, self.shape[0]) + 1, np.int64)
        for X, there in parts:
            lengths[1:][there] = np.diff(X.indptr)
        indptr = np.cumsum(lengths)
        if len(parts) == 1 and isinstance(parts[0][1], slice):
            return SparseRows(indptr, parts[0][0].indices, parts[0][0].data)
        indices = np.empty(indptr[-1], np.int64 if any(X.indices.itemsize == 8 for X, _ in parts) else np.int32)
        data = np.empty(indptr[-1], self.dtype)
        for X, there in parts:
            for k, i in enumerate(np.arange(len(lengths) - 1)[there].tolist()):
                entries = slice(X.indptr[k], X.indptr[k + 1])
                indices[indptr[i] : indptr[i + 1]] = X.indices[entries]
                data[indptr[i] : indptr[i + 1]] = X.data[entries]
        return SparseRows(indptr, indices, data)

    @property
    def _has_entries(self) -> bool:
        return False


def n_of(rows: Rows, length: int) -> int:
    """Return the number of rows (columns) selected out of `length`."""
    return len(range(*rows.indices(length))) if isinstance(rows, slice) else len(rows)


class BlockMatrix(OfBlocks):
    """A matrix of blocks that can be read repeatedly: blocks in memory, and promises, computed one at a time.

    Parameters
    ----------
    items : sequence
        Blocks, or promises of blocks: see `daskfs.matrix.incoming`.
    axis : {"rows", "columns"}
    facts : sequence of Facts
        Facts about each block.
    y, weight : ndarray of shape (n_samples,), optional
    names : Names, optional
    breadth : int, optional
        Number of rows of the columns, or of columns of the rows.
    like : Matrix, optional
        The matrix that the blocks belong to. It gives source rows, and whether rows are in random order.

    Notes
    -----
    When a task reads it, the promise is computed in the task: a worker holds one block at a time. In the client process
    the next blocks are computed ahead (`read_ahead`), Dask's on the client's workers.
    """

    def __init__(
        self,
        items: Sequence[Any],
        axis: Axis,
        facts: Sequence[Facts],
        y: np.ndarray | None = None,
        weight: np.ndarray | None = None,
        names: Names | None = None,
        breadth: int | None = None,
        like: Matrix | None = None,
    ) -> None:
        order = Order(axis, breadth)
        starts = [order.take(block).start for block in facts]
        self.axis, self._items = axis, list(items)
        self._bounds = np.array([*starts, order.position], np.int64)
        breadth = order.breadth or 0
        self.shape = (order.position, breadth) if axis == "rows" else (breadth, order.position)
        self.dtype = np.result_type(*{block.dtype for block in facts})
        self._is_sparse = all(block.is_sparse for block in facts)
        counts = [block.counts for block in facts if block.counts is not None]
        self._counts = np.concatenate(counts) if len(counts) == len(facts) else None
        self._y, self._weight = y, weight
        self._names = names
        self._is_resident = not any(is_promise(item) for item in items)
        self._like = like
        self._longest = int(np.diff(self._bounds).max())
        self._cache = _PrefetchCache(self._items, axis)

    def read_ahead(self, n_blocks: int, client: Client | None) -> None:
        """From now on, start `n_blocks` promises ahead; Dask's on the client's workers."""
        self._cache = _PrefetchCache(self._items, self.axis, n_blocks, client)

    def close(self) -> None:
        """Cancel what was started ahead."""
        self._cache.close()

    @property
    def names(self) -> Names:
        """Names of the columns."""
        if self._names is None:
            self._names = Names(self.shape[1]) if self._like is None else self._like.names
        return self._names

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the names that `like` has."""
        return self.__dict__ if self._like is None else self.__dict__ | {"_names": None}

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Shape of the longest block."""
        if self.axis == "rows":
            return (self._longest, self.shape[1])
        return (1, self.shape[1]) if self._is_resident else (self.shape[0], self._longest)

    @property
    def is_resident(self) -> bool:
        """Whether all blocks are in memory."""
        return self._is_resident

    @property
    def rows_are_random(self) -> bool:
        """Whether the rows of the matrix that the blocks belong to are in random order."""
        return self._like is not None and self._like.rows_are_random

    @property
    def source_rows(self) -> np.ndarray | None:
        """Source row of each row."""
        return None if self._like is None else self._like.source_rows

    @property
    def target_classes(self) -> tuple[str, ...] | None:
        """Texts that the target's codes stand for."""
        return None if self._like is None else self._like.target_classes

    @property
    def identity(self) -> str | None:
        """Digest of the store that the blocks belong to."""
        return None if self._like is None else self._like.identity

    def verify_unchanged(self) -> None:
        """Raise a `StoreError` if the store that the blocks belong to was replaced."""
        if self._like is not None:
            self._like.verify_unchanged()

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows], float64, or None."""
        return None if self._y is None else self._y[rows]

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows, float64, or None."""
        return None if self._weight is None else self._weight[rows]

    @property
    def _has_entries(self) -> bool:
        return self._is_sparse and self.axis == "rows"

    def entry_counts(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the number of entries of each row of X[rows]; None if the blocks are dense, or blocks of columns."""
        return None if self._counts is None else self._counts[rows]

    def _parts(self, along: Rows) -> Iterator[tuple[Any, Rows, Rows]]:
        bounds = self._bounds
        if isinstance(along, slice):
            start, stop, _ = along.indices(int(bounds[-1]))
            for k in range(int(np.searchsorted(bounds, start, "right")) - 1, len(bounds) - 1):
                first, last = max(start, int(bounds[k])), min(stop, int(bounds[k + 1]))
                if first >= last:
                    return
                here = slice(first - int(bounds[k]), last - int(bounds[k]))
                yield self._cache[k], here, slice(first - start, last - start)
            return
        blocks = np.searchsorted(bounds, along, "right") - 1
        for k in np.unique(blocks).tolist():
            there = np.flatnonzero(blocks == k)
            yield self._cache[k], as_slice(along[there] - bounds[k]), as_slice(there)

    def __repr__(self) -> str:
        return f"<BlockMatrix: {self.shape[0]:,} x {self.shape[1]:,} {self.dtype} in {len(self._items):,} blocks>"


class _PrefetchCache:
    """Values of the current block, and a prefetch of the next ones."""

    def __init__(self, items: list[Any], axis: Axis, n_ahead: int = 0, client: Client | None = None) -> None:
        self._items, self._axis, self._n_ahead, self._client = items, axis, n_ahead, client
        self._lock = threading.Lock()
        self._k, self._X = -1, None
        self._pending: dict[int, Any] = {}
        self._pool: interrupts.Pool | None = None

    def __getitem__(self, k: int) -> Any:
        if not is_promise(self._items[k]):
            return opened(self._items[k], self._axis).X
        with self._lock:
            if k != self._k:
                self._k, self._X = -1, None  # released before the next one is read
                self._X, self._k = self._fetched(k), k
            return self._X

    def _fetched(self, k: int) -> Any:
        if not self._n_ahead:
            return opened(self._items[k], self._axis).X
        wanted = range(k, min(k + 1 + self._n_ahead, len(self._items)))
        self._cancel([j for j in self._pending if j not in wanted])
        for j in wanted:
            if j not in self._pending and is_promise(self._items[j]):
                self._pending[j] = self._started(self._items[j])
        with cluster_errors("blocks"):
            future = self._pending.pop(k)
            try:
                found = interrupts.call_aside(future.result)
            finally:
                released(future)
        return (found if isinstance(found, Block) else opened(found, self._axis)).X

    def _started(self, item: Any) -> Any:
        if self._client is not None and is_of_dask(item):
            return self._client.compute(item)
        self._pool = self._pool or interrupts.Pool(1, thread_name_prefix="daskfs-read")
        return self._pool.submit(opened, item, self._axis)

    def _cancel(self, numbers: list[int]) -> None:
        for k in numbers:
            future = self._pending.pop(k)
            interrupts.call_aside(future.cancel)
            released(future)

    def close(self) -> None:
        """Cancel what was started ahead."""
        self._cancel(list(self._pending))
        self._X, self._k, self._n_ahead = None, -1, 0
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __getstate__(self) -> dict[str, Any]:
        return {"items": self._items, "axis": self._axis}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
