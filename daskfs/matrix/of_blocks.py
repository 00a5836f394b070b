"""Blocks as a matrix: `BlockMatrix` reads any of them again and again, `PassingBlocks` takes each as it comes, once."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs.cluster.client import cluster_errors, released
from daskfs.errors import DataError
from daskfs.matrix.arrays import dense_rows
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, SparseRows, as_slice
from daskfs.matrix.incoming import Axis, Block, Facts, Order, check_names, is_promise, opened
from daskfs.matrix.names import Names

if TYPE_CHECKING:
    from distributed import Client


class _OfBlocks(Matrix):
    """Rows or columns that lie in blocks, one after the other."""

    axis: Axis

    @abstractmethod
    def _parts(self, along: Rows) -> Iterator[tuple[Any, Rows, Rows]]:
        """Yield blocks with what is asked of each: its own rows (columns), and where they belong in what is asked."""

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns]; into `out` where given."""
        if out is None:
            out = np.empty((_n_of(rows, self.shape[0]), _n_of(columns, self.shape[1])), self.dtype)
        if self.axis == "rows":
            for X, here, there in self._parts(rows):
                out[there] = dense_rows(X, here, columns)
        else:
            for X, here, there in self._parts(columns):
                out[:, there] = dense_rows(X, rows, here)
        return out

    def sparse_rows(self, rows: Rows) -> SparseRows | None:
        """Return the entries of X[rows]; None where blocks are dense, or of columns."""
        if not self._has_entries:
            return None
        parts = [(X[here], there) for X, here, there in self._parts(rows)]
        lengths = np.zeros(_n_of(rows, self.shape[0]) + 1, np.int64)
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


def _n_of(rows: Rows, length: int) -> int:
    return len(range(*rows.indices(length))) if isinstance(rows, slice) else len(rows)


class BlockMatrix(_OfBlocks):
    """A matrix of blocks that can be read again: those in memory, and promises, one of which is kept at a time.

    Parameters
    ----------
    items : sequence
        Blocks, or promises of blocks: see `daskfs.matrix.incoming`.
    axis : {"rows", "columns"}
    facts : sequence of Facts
        Of each block.
    y, weight : ndarray of shape (n_samples,), optional
    names : Names, optional
    breadth : int, optional
        Rows that columns have, or columns that rows have.
    like : Matrix, optional
        What the blocks are of: it says where rows came from, and whether they are random.

    Notes
    -----
    Where it is read in a task, the promise is kept there: a worker holds one block at a time. Here the next ones are
    begun ahead (`read_ahead`), Dask's on the client's workers.
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
        self._shelf = _Shelf(self._items, axis)

    def read_ahead(self, n_blocks: int, client: Client | None) -> None:
        """From now on begin so many promises before they are asked for; Dask's on the client's workers."""
        self._shelf = _Shelf(self._items, self.axis, n_blocks, client)

    def close(self) -> None:
        """Leave off what was begun."""
        self._shelf.close()

    @property
    def names(self) -> Names:
        """Names of the columns."""
        if self._names is None:
            self._names = Names(self.shape[1]) if self._like is None else self._like.names
        return self._names

    def __getstate__(self) -> dict[str, Any]:
        """Leave names behind that can be asked for where the matrix is that has them."""
        return self.__dict__ if self._like is None else self.__dict__ | {"_names": None}

    @property
    def tile_shape(self) -> tuple[int, int]:
        """A block, the longest."""
        if self.axis == "rows":
            return (self._longest, self.shape[1])
        return (1, self.shape[1]) if self._is_resident else (self.shape[0], self._longest)

    @property
    def is_resident(self) -> bool:
        """Whether all blocks lie in memory."""
        return self._is_resident

    @property
    def rows_are_random(self) -> bool:
        """Whether those of the matrix are that the blocks are of."""
        return self._like is not None and self._like.rows_are_random

    @property
    def source_rows(self) -> np.ndarray | None:
        """Row of the source that each row came from."""
        return None if self._like is None else self._like.source_rows

    @property
    def target_classes(self) -> tuple[str, ...] | None:
        """Texts that the target's codes stand for."""
        return None if self._like is None else self._like.target_classes

    @property
    def identity(self) -> str | None:
        """Digest of the store that the blocks are of."""
        return None if self._like is None else self._like.identity

    def verify_unchanged(self) -> None:
        """Raise a `StoreError` where the store was replaced that the blocks are of."""
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
        """Return how many entries each row of X[rows] has; None where blocks are dense, or of columns."""
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
                yield self._shelf[k], here, slice(first - start, last - start)
            return
        blocks = np.searchsorted(bounds, along, "right") - 1
        for k in np.unique(blocks).tolist():
            there = np.flatnonzero(blocks == k)
            yield self._shelf[k], as_slice(along[there] - bounds[k]), as_slice(there)

    def __repr__(self) -> str:
        return f"<BlockMatrix: {self.shape[0]:,} x {self.shape[1]:,} {self.dtype} in {len(self._items):,} blocks>"


class _Shelf:
    """The values of blocks: one is held, the next ones are on their way."""

    def __init__(self, items: list[Any], axis: Axis, n_ahead: int = 0, client: Client | None = None) -> None:
        self._items, self._axis, self._n_ahead, self._client = items, axis, n_ahead, client
        self._lock = threading.Lock()
        self._k, self._X = -1, None
        self._coming: dict[int, Any] = {}
        self._pool: ThreadPoolExecutor | None = None

    def __getitem__(self, k: int) -> Any:
        if not is_promise(self._items[k]):
            return opened(self._items[k], self._axis).X
        with self._lock:
            if k != self._k:
                self._k, self._X = -1, None  # let go before the next one is read
                self._X, self._k = self._fetched(k), k
            return self._X

    def _fetched(self, k: int) -> Any:
        if not self._n_ahead:
            return opened(self._items[k], self._axis).X
        wanted = range(k, min(k + 1 + self._n_ahead, len(self._items)))
        self._leave_off([j for j in self._coming if j not in wanted])
        for j in wanted:
            if j not in self._coming and is_promise(self._items[j]):
                self._coming[j] = self._begun(self._items[j])
        with cluster_errors("blocks"):
            future = self._coming.pop(k)
            try:
                found = future.result()
            finally:
                released(future)
        return (found if isinstance(found, Block) else opened(found, self._axis)).X

    def _begun(self, item: Any) -> Any:
        if self._client is not None and hasattr(item, "__dask_graph__"):
            return self._client.compute(item)
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="daskfs-read")
        return self._pool.submit(opened, item, self._axis)

    def _leave_off(self, numbers: list[int]) -> None:
        for k in numbers:
            future = self._coming.pop(k)
            future.cancel()
            released(future)

    def close(self) -> None:
        """Leave off what was begun."""
        self._leave_off(list(self._coming))
        self._X, self._k, self._n_ahead = None, -1, 0
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __getstate__(self) -> dict[str, Any]:
        return {"items": self._items, "axis": self._axis}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class Passing(Matrix):
    """Rows (columns) that pass by: those before what was read last are gone, unless they are held."""

    holds = False
    """Whether what was read is held on to."""

    @abstractmethod
    def reach(self, stop: int) -> int:
        """Wait until there are so many, or no more; return how many there are of them."""

    def close(self) -> None:
        """Read no more."""

    def told(self, rows: slice) -> Iterable[Any]:
        """Yield what the blocks of these rows tell of features' names."""
        return ()

    def names_of(self, ids: np.ndarray) -> Any:
        """Return the names of ids that say them; None where blocks tell names, or nobody does."""
        return None


class PassingBlocks(_OfBlocks, Passing):
    """A matrix of blocks that pass by once: rows (columns) can be read until later ones were asked for.

    Parameters
    ----------
    blocks : iterator of Block
    axis : {"rows", "columns"}
    y, weight : ndarray of shape (n_samples,), optional
        Of column blocks; row blocks bring their own.
    names : Names, optional
        Of all columns; by default those of the blocks.

    Notes
    -----
    `shape` tells how many rows (columns) have come; `reach` asks for more.
    """

    def __init__(
        self,
        blocks: Iterator[Block],
        axis: Axis,
        y: np.ndarray | None = None,
        weight: np.ndarray | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.axis, self._blocks = axis, blocks
        self._y, self._weight = y, weight
        self._order = Order(axis, None if y is None else len(y))
        self._window: list[tuple[int, int, Block]] = []
        self._given = None if names is None else [str(name) for name in names]
        self._found: dict[str, None] = {}
        self._first_names: list[str] | None = None
        self._are_named = False
        self.reach(1)
        if not self._window:
            raise DataError("expected at least one block, found none", "blocks", "begin the iterator anew")
        first = self._window[0][2]
        self.dtype = np.dtype(first.X.dtype)
        self.first_nbytes = first.nbytes
        self._is_sparse = hasattr(first.X, "tocsr")

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and columns so far."""
        so_far, breadth = self._order.position, self._order.breadth or 0
        return (so_far, breadth) if self.axis == "rows" else (breadth, so_far)

    def reach(self, stop: int) -> int:
        """Take blocks until there are so many rows (columns), or no more; return how many there are of them."""
        while self._order.position < stop:
            block = next(self._blocks, None)
            if block is None:
                break
            self._take(block)
        return min(stop, self._order.position)

    def _take(self, block: Block) -> None:
        k, along = self._order.n_blocks, self._order.take(block.facts(self.axis))
        if k and block.X.dtype != self.dtype and not np.can_cast(block.X.dtype, self.dtype):
            problem = f"expected {self.dtype} as in the first block, or what fits in, found {block.X.dtype}"
            raise DataError(problem, f"block {k}", f"convert the first block to {block.X.dtype}, or this one")
        if self.axis == "columns":
            self._are_named |= block.names is not None
            new = block.names or [f"x{j}" for j in range(along.start, along.stop)]
            if self._are_named and self._given is None:
                if len(self._found) < along.start:
                    new = [f"x{j}" for j in range(along.start)] + new
                for name in new:
                    if name in self._found:
                        raise DataError(f"duplicate column {name!r}", f"block {k}", "give each column its own name")
                    self._found[name] = None
        elif k:
            check_names(k, block.names, self._first_names)
        else:
            self._first_names = block.names
            self._given = self._given or block.names
        self._window.append((along.start, along.stop, block))

    def close(self) -> None:
        """Read no more blocks."""
        self._window.clear()
        close = getattr(self._blocks, "close", None)
        if close is not None:
            close()

    @property
    def names(self) -> Names:
        """Names of the columns so far."""
        n = self.shape[1]
        given = self._given if self._given is not None else [*self._found] if self._are_named else None
        if given is None:
            return Names(n)
        names = np.empty(n, dtype=object)
        names[:] = given[:n] + [f"x{j}" for j in range(len(given), n)]
        return Names(n, names)

    def _parts(self, along: Rows) -> Iterator[tuple[Any, Rows, Rows]]:
        for block, here, there in self._blocks_of(along):
            yield block.X, here, there

    def _blocks_of(self, along: Rows) -> Iterator[tuple[Block, Rows, Rows]]:
        so_far = self._order.position
        if isinstance(along, slice):
            start, stop, _ = along.indices(so_far)
            self._let_go(start)
            for first, last, block in self._window:
                a, b = max(start, first), min(stop, last)
                if a < b:
                    yield block, slice(a - first, b - first), slice(a - start, b - start)
            return
        if len(along):
            self._let_go(int(along.min()))
        for first, last, block in self._window:
            there = np.flatnonzero((along >= first) & (along < last))
            if len(there):
                yield block, along[there] - first, there

    def _let_go(self, start: int) -> None:
        """Forget blocks before a row (column); refuse what was let go already."""
        if self._window and start < self._window[0][0]:
            noun = self.axis
            raise DataError(
                f"{noun} {start} and after have passed by: these blocks can be read once", "fit_blocks", "pass a list"
            )
        if not self.holds:
            while self._window and self._window[0][1] <= start:
                self._window.pop(0)

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows]: of column blocks what was given, of row blocks what they bring."""
        if self.axis == "columns":
            return None if self._y is None else self._y[rows]
        return self._brought(rows, "y")

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows, or None."""
        if self.axis == "columns":
            return None if self._weight is None else self._weight[rows]
        return self._brought(rows, "weight")

    def _brought(self, rows: Rows, what: str) -> np.ndarray | None:
        parts = [(getattr(block, what), here, there) for block, here, there in self._blocks_of(rows)]
        if all(values is None for values, _, _ in parts):
            return None
        out = np.ones(_n_of(rows, self.shape[0]))
        for values, here, there in parts:
            if values is not None:
                out[there] = values[here]
        return out

    @property
    def _has_entries(self) -> bool:
        return self._is_sparse and self.axis == "rows"

    def __repr__(self) -> str:
        return f"<PassingBlocks: {self.shape[0]:,} x {self.shape[1]:,} {self.dtype} so far>"
