"""Row blocks and column blocks as lazy, prefetching iterators over a matrix; rows of a matrix as a matrix.

`Streamable` gives every matrix (a feature store, rows of one, arrays in memory) the same streams. Blocks are read
into reused buffers, the next one while the present one is used; a buffer that anybody still refers to is never
overwritten. With ``delayed=True`` the blocks are `dask.delayed` objects that read where they run.
"""

from __future__ import annotations

import math
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from daskfs.errors import ConfigError
from daskfs.matrix.base import ColumnBlock, RowBlock, Rows, SparseRows
from daskfs.matrix.base import as_slice as as_slice
from daskfs.matrix.buffers import BufferPool, block_length

if TYPE_CHECKING:
    import dask.array

T = TypeVar("T")
ItemT = TypeVar("ItemT")


class Streamable:
    """What every matrix can do once it can `read` rows and columns (see `daskfs.matrix.base.Matrix`)."""

    shape: tuple[int, int]
    dtype: np.dtype
    feature_names: np.ndarray | None
    shuffled: bool
    in_memory = False
    """Whether reading takes no time, so that nothing is gained by reading ahead."""

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns] of shape (n_rows, n_columns)."""
        raise TypeError(f"{type(self).__name__} must define read()")

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows], or None where the matrix has no target."""
        return None

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows, or None where every row weighs the same."""
        return None

    def read_sparse(self, rows: Rows) -> SparseRows | None:
        """Return the entries of X[rows], or None where the matrix is dense: then `read` it."""
        return None

    @property
    def names(self) -> np.ndarray:
        """Names of the columns, shape (n_features,): x0, x1, ... where nobody gave any."""
        if self.feature_names is None:
            return np.array([f"x{j}" for j in range(self.shape[1])], dtype=object)
        return self.feature_names

    @property
    def target(self) -> np.ndarray | None:
        """All of y, float64 of shape (n_samples,), or None."""
        return self.read_target()

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Rows and columns that are read best together."""
        return (1, self.shape[1])

    @property
    def source_rows(self) -> np.ndarray | None:
        """Row of the source that each row came from, int64 of shape (n_samples,); None: the same order."""
        return None

    def labels(self, name: str) -> np.ndarray:
        """Return the values of an id or split column, shape (n_samples,)."""
        raise ConfigError(f"no column {name!r} with role 'split' or 'id'", "split.by", "add it to the schema")

    def row_blocks(
        self,
        *,
        columns: Rows = slice(None),
        block_rows: int | None = None,
        memory_limit: int | None = None,
        prefetch: int = 1,
        delayed: bool = False,
    ) -> Iterator[Any]:
        """Iterate over consecutive rows.

        Parameters
        ----------
        columns : slice or int64 array
            The columns to read; all by default.
        block_rows : int, optional
            Rows of a block; by default as many as `memory_limit` allows, in whole tiles where possible.
        memory_limit : int, optional
            Bytes that all buffers of the stream may take; by default blocks are 128 MiB each.
        prefetch : int
            Blocks read ahead while the present one is used.
        delayed : bool
            Yield `dask.delayed` objects that compute to the blocks.

        Yields
        ------
        RowBlock, or Delayed of one

        Raises
        ------
        PlanError
            Not even one row fits in the memory limit.
        """
        n_samples, n_features = self.shape
        n_columns = _n_selected(columns, n_features)
        if block_rows is None:
            row_nbytes = n_columns * self.dtype.itemsize
            tile_rows = self.tile_shape[0]
            block_rows = block_length(n_samples, row_nbytes, tile_rows, memory_limit, prefetch + 1, "row")
        pieces = _pieces(n_samples, block_rows)
        if delayed:
            yield from _delayed_blocks(read_row_block, self, pieces, "row-block", columns)
            return
        pool = BufferPool()

        def read(piece: tuple[int, int]) -> RowBlock:
            out = pool.take((piece[1] - piece[0], n_columns), self.dtype)
            return read_row_block(self, piece, columns, out)

        yield from prefetched(read, pieces, prefetch)

    def column_blocks(
        self,
        *,
        block_columns: int | None = None,
        memory_limit: int | None = None,
        prefetch: int = 1,
        delayed: bool = False,
    ) -> Iterator[Any]:
        """Iterate over consecutive columns, each block with all rows: see `row_blocks`.

        Yields
        ------
        ColumnBlock, or Delayed of one
        """
        n_samples, n_features = self.shape
        if block_columns is None:
            column_nbytes = n_samples * self.dtype.itemsize
            tile_columns = self.tile_shape[1]
            block_columns = block_length(n_features, column_nbytes, tile_columns, memory_limit, prefetch + 1, "column")
        pieces = _pieces(n_features, block_columns)
        if delayed:
            yield from _delayed_blocks(read_column_block, self, pieces, "column-block")
            return
        pool = BufferPool()

        def read(piece: tuple[int, int]) -> ColumnBlock:
            return read_column_block(self, piece, pool.take((n_samples, piece[1] - piece[0]), self.dtype))

        yield from prefetched(read, pieces, prefetch)

    def to_dask_array(self, block_rows: int | None = None) -> dask.array.Array:
        """Return X as a lazy dask array, chunked in row blocks of about 128 MiB.

        Meant for use with other Dask code; the selectors stream blocks themselves, with less work per byte.
        """
        import dask.array

        if block_rows is None:
            row_nbytes = self.shape[1] * self.dtype.itemsize
            block_rows = block_length(self.shape[0], row_nbytes, self.tile_shape[0], None, 1, "row")
        name = f"daskfs-rows-{uuid.uuid4().hex}"
        return dask.array.from_array(
            _Indexable(self),
            chunks=(block_rows, self.shape[1]),
            name=name,
            lock=False,
            asarray=True,
            meta=np.empty((0, 0), dtype=self.dtype),  # or dask reads an empty slice to find it out
        )

    def take(self, rows: np.ndarray) -> RowView:
        """Return these rows, in this order, as a matrix; nothing is read.

        Parameters
        ----------
        rows : int64 array of shape (n_rows,), or boolean mask of shape (n_samples,)
        """
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        return RowView(self, rows)

    def split(self, test: Any = 0.2, by: str = "random", random_state: int | None = 0) -> tuple[RowView, RowView]:
        """Split the rows in two, for training and for testing; nothing is read.

        Parameters
        ----------
        test : float, or value or list of values
            Share of the rows to test on (rounded up); with a column, its value or values that mark test rows.
        by : {"random", "order"} or str
            "random" draws the first ``ceil(test * n)`` of ``default_rng(random_state).permutation(n)`` as source
            rows, so that the split does not depend on how the store is laid out; "order" takes the last rows of
            the source; anything else names a column of role 'split'.
        random_state : int, optional
            Seed of the random split.

        Returns
        -------
        train, test : RowView

        Raises
        ------
        ConfigError
            A share outside (0, 1), an unknown column, or a split that leaves one side empty.
        """
        if by in ("random", "order"):
            is_test = self._test_share(test, by, random_state)
        else:
            values = [str(value) for value in (test if isinstance(test, (list, tuple)) else [test])]
            is_test = np.isin(self.labels(by).astype(str), values)
        n_test = int(is_test.sum())
        if n_test in (0, len(is_test)):
            raise ConfigError(
                f"expected rows on both sides, found {len(is_test) - n_test} for training and {n_test} for testing",
                "split",
                "change split.test",
            )
        return self.take(~is_test), self.take(is_test)

    def _test_share(self, test: Any, by: str, random_state: int | None) -> np.ndarray:
        if isinstance(test, bool) or not isinstance(test, (int, float)) or not 0 < test < 1:
            raise ConfigError(f"expected a share between 0 and 1, found {test!r}", "split.test", "0.2, say")
        n_samples = self.shape[0]
        n_test = math.ceil(test * n_samples)
        source_rows = self.source_rows
        in_source_order = np.arange(n_samples) if source_rows is None else np.argsort(source_rows, kind="stable")
        if by == "order":
            chosen = in_source_order[n_samples - n_test :]
        else:
            chosen = in_source_order[np.random.default_rng(random_state).permutation(n_samples)[:n_test]]
        is_test = np.zeros(n_samples, dtype=bool)
        is_test[chosen] = True
        return is_test


class RowView(Streamable):
    """Some rows of a matrix, as a matrix.

    Parameters
    ----------
    matrix : Streamable
        A store, arrays in memory, or another view.
    rows : int64 array of shape (n_rows,)
        Its rows, in the order wanted.
    """

    def __init__(self, matrix: Streamable, rows: np.ndarray) -> None:
        self.base: Streamable = matrix.base if isinstance(matrix, RowView) else matrix
        self.rows: np.ndarray = matrix.rows[rows] if isinstance(matrix, RowView) else rows
        self.shape = (len(rows), matrix.shape[1])
        self.dtype = matrix.dtype
        self.shuffled = matrix.shuffled

    @property
    def feature_names(self) -> np.ndarray | None:  # type: ignore[override]
        """Names of shape (n_features,); read when asked for, so that a view that travels stays small."""
        return self.base.feature_names

    def locate(self, start: int, stop: int) -> Rows:
        """Return rows [start, stop) of the view as rows of its base: a slice where they are consecutive."""
        return as_slice(self.rows[start:stop])

    def _locate(self, rows: Rows) -> Rows:
        return as_slice(self.rows[rows])

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns]."""
        return self.base.read(self._locate(rows), columns, out)

    def read_sparse(self, rows: Rows) -> SparseRows | None:
        """Return the entries of X[rows], or None where the base is dense."""
        return self.base.read_sparse(self._locate(rows))

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows]."""
        return self.base.read_target(self._locate(rows))

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows, or None."""
        return self.base.read_weight(self._locate(rows))

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Rows and columns that are read best together."""
        return self.base.tile_shape

    @property
    def source_rows(self) -> np.ndarray | None:
        """Row of the source that each row came from."""
        source_rows = self.base.source_rows
        return self.rows if source_rows is None else source_rows[self.rows]

    def labels(self, name: str) -> np.ndarray:
        """Return the values of an id or split column."""
        return self.base.labels(name)[self.rows]

    def __repr__(self) -> str:
        return f"<RowView: {self.shape[0]:,} rows of {self.base!r}>"


def prefetched(function: Callable[[ItemT], T], items: Iterable[ItemT], depth: int = 1) -> Iterator[T]:
    """Yield ``function(item)`` in order, computing up to `depth` results ahead in a thread of its own."""
    if depth < 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="daskfs-read") as pool:
        ahead: deque[Future[T]] = deque()
        try:
            for item in items:
                ahead.append(pool.submit(function, item))
                if len(ahead) > depth:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def read_row_block(
    matrix: Streamable, piece: tuple[int, int], columns: Rows = slice(None), out: np.ndarray | None = None
) -> RowBlock:
    """Read rows [start, stop) with their targets and weights."""
    rows = slice(*piece)
    X = matrix.read(rows, columns, out)
    return RowBlock(piece[0], piece[1], X, matrix.read_target(rows), matrix.read_weight(rows))


def read_column_block(matrix: Streamable, piece: tuple[int, int], out: np.ndarray | None = None) -> ColumnBlock:
    """Read columns [start, stop), all rows."""
    return ColumnBlock(piece[0], piece[1], matrix.read(slice(None), slice(*piece), out))


def _n_selected(columns: Rows, n_features: int) -> int:
    return len(range(*columns.indices(n_features))) if isinstance(columns, slice) else len(columns)


def _pieces(length: int, block: int) -> list[tuple[int, int]]:
    return [(start, min(start + block, length)) for start in range(0, length, block)]


def _delayed_blocks(
    read: Callable[..., Any], matrix: Streamable, pieces: list[tuple[int, int]], name: str, *args: Any
) -> Iterator[Any]:
    import dask

    run = uuid.uuid4().hex[:8]
    shared = dask.delayed(matrix, name=f"{name}-matrix-{run}")
    for k, piece in enumerate(pieces):
        task = dask.delayed(read, pure=False, traverse=False)
        yield task(shared, piece, *args, dask_key_name=f"{name}-{k:04d}-{run}")


class _Indexable:
    """A matrix as dask.array.from_array wants it."""

    ndim = 2

    def __init__(self, matrix: Streamable) -> None:
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
