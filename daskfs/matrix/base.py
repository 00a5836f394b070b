"""The matrix that selectors read, and its views.

A matrix is a feature store, arrays in memory, or some rows of one with other weights. Every matrix can be read in
blocks. Optional capabilities exist on every matrix and return None if it lacks them, so no caller tests the type of a
matrix. A matrix creates views, and a view is a matrix; hence one file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs import errors
from daskfs.errors import DataError
from daskfs.matrix.blocks import ColumnStatistics, Crowding, Moments, Rows, SparseColumns, SparseRows, Strip, as_slice
from daskfs.matrix.buffers import block_length
from daskfs.matrix.column_weights import ColumnWeights
from daskfs.matrix.names import Names
from daskfs.matrix.split import row_groups, rows_to_test
from daskfs.matrix.streaming import (
    MatrixBlocks,
    as_dask_array,
    buffered_blocks,
    delayed_blocks,
    pieces_of,
    read_column_block,
    read_row_block,
)

if TYPE_CHECKING:
    import dask.array

ConfigError = errors.ConfigError.about("pipeline-files")

LARGEST = 1e150
"""Largest allowed value of a matrix: sums of squares stay finite."""
SEARCHED_ROWS = 1 << 20
"""Number of rows of a column read at once in the search for a value that is not finite."""


class Matrix(ABC):
    """Rows and columns of numbers, with a target and weights.

    Attributes
    ----------
    shape : tuple of int
        (n_samples, n_features).
    dtype : dtype
        dtype of the blocks that `read` returns.

    Notes
    -----
    A store is pickled as its address. Tasks carry `base` and row numbers of it (`at`), and read the data where they
    run.
    """

    shape: tuple[int, int]
    dtype: np.dtype

    @abstractmethod
    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense C-ordered block X[rows][:, columns], written to `out` if given."""

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows], float64 of shape (n_rows,), or None if the matrix has no target."""
        return None

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows, float64 of shape (n_rows,), or None if all rows have equal weight."""
        return None

    @property
    def names(self) -> Names:
        """Names of the columns: x0, x1, ... by default."""
        return Names(self.shape[1])

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Numbers of rows and columns that are most efficiently read together."""
        return (1, self.shape[1])

    @property
    def is_resident(self) -> bool:
        """Whether X is in memory: reading it is free, but sending it is not."""
        return False

    @property
    def ahead_nbytes(self) -> int:
        """Bytes of pending requests that each reading task holds in addition to its blocks."""
        return 0

    @property
    def rows_are_random(self) -> bool:
        """Whether consecutive rows are a random subset: shuffled, or drawn independently."""
        return False

    @property
    def identity(self) -> str | None:
        """Digest of a store's content; None if the matrix is not stored."""
        return None

    @property
    def source_rows(self) -> np.ndarray | None:
        """Source row of each row, int64 of shape (n_samples,); None if the order is the same."""
        return None

    @property
    def target_classes(self) -> tuple[str, ...] | None:
        """Texts that the target's codes 0, 1, ... stand for; None for a numeric target."""
        return None

    @property
    def table_columns(self) -> np.ndarray | None:
        """Names of the table's columns that the features were encoded from, str of shape (n_features,), or None."""
        return None

    @property
    def encoder(self) -> dict[str, Any] | None:
        """Document of the encoder that encodes other rows in the same way; None if the data were not encoded."""
        return None

    def annotations(self, columns: np.ndarray) -> dict[str, np.ndarray]:
        """Return further facts about some columns, by kind; most matrices have none.

        Parameters
        ----------
        columns : ndarray of shape (n_columns,), int64

        Returns
        -------
        dict of str to ndarray of shape (n_columns,)
            Texts ("" if missing), int64 (-1 if missing) or float64 (NaN if missing).
        """
        return {}

    @property
    def column_weights(self) -> ColumnWeights | None:
        """Weights by which standardised columns are multiplied; None if all columns have equal weight.

        They are not applied by `read`. Code that standardises columns divides their scale by the weights, so that
        coefficients are on the scale of the data.
        """
        return None

    target_names: tuple[str, ...] = ()
    """Names of the targets, if known."""
    description: str = ""
    """Where the data are, for reports; empty if in memory."""
    of_table: Any = None
    """The `TableEncoder` that encodes later tables in the same way, if the matrix was made from a table passed to
    `fit`.
    """

    @property
    def rows_together(self) -> Any:
        """Rows that belong together, as given to a split in whole groups (see `row_groups`); None if not given."""
        return None

    @property
    def declared_groups(self) -> np.ndarray | None:
        """The group number of each row if `rows_together` is given, otherwise None."""
        return None if self.rows_together is None else self.row_groups(self.rows_together)

    def exists(self) -> bool:
        """Return whether the matrix can still be read; a store may have been removed."""
        return True

    def verify_unchanged(self) -> None:
        """Raise a `StoreError` if the store was replaced after it was opened. Runs call this at their end."""
        return None

    def labels(self, name: str) -> np.ndarray:
        """Return the values of an id or split column, shape (n_samples,)."""
        raise ConfigError(f"no column {name!r} with role 'split' or 'id'", "split.by", "add it to the schema")

    # Optional capabilities. None means: use `read`.

    def sparse_rows(self, rows: Rows) -> SparseRows | None:
        """Return the entries of X[rows]."""
        return None

    def sparse_columns(self, columns: Rows) -> SparseColumns | None:
        """Return the entries of X[:, columns]."""
        return None

    def entry_counts(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the number of entries of each row of X[rows], int64, without reading them."""
        return None

    def crowding(self) -> Crowding | None:
        """Return how unevenly the entries are distributed over all rows of the base; None if unknown."""
        return None

    def column_view(self, columns: slice) -> np.ndarray | None:
        """Return X[:, columns] without a copy, in whatever memory order it has."""
        return None

    def strips(self, rows: Rows, columns: slice) -> Iterator[Strip] | None:
        """Return an iterator over X[rows][:, columns] in tile order. Each tile is decoded once, without a copy.

        It yields all rows of some columns, in order, then all rows of the next columns. Use results only after the
        iterator has ended: a damaged tile is detected at its end.
        """
        return None

    def column_statistics(self) -> ColumnStatistics | None:
        """Return known statistics of all columns over exactly these rows."""
        return None

    def column_products(self, columns: slice, vectors: np.ndarray) -> np.ndarray | None:
        """Return ``vectors @ X[:, columns]`` if that costs less than reading the columns.

        Parameters
        ----------
        columns : slice
        vectors : ndarray of shape (n_vectors, n_samples), float64

        Returns
        -------
        ndarray of shape (n_vectors, n_columns), float64, or None
        """
        return None

    def column_moments(self, columns: slice, weight: np.ndarray) -> Moments | None:
        """Return the moments of X[:, columns] for weights of the rows, if that costs less than reading the columns.

        Parameters
        ----------
        columns : slice
        weight : ndarray of shape (n_samples,) or (n_weights, n_samples), float64
            Not negative. With several, the moments have the shape (n_weights, n_columns).
        """
        return None

    @property
    def read_together(self) -> Hashable:
        """What matrices with products have in common if one pass can serve them: by default this matrix itself."""
        return id(self)

    def products_of_each(self, matrices: Sequence[Matrix], vectors: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the products of all columns of each matrix with a vector over its rows, in one pass.

        Parameters
        ----------
        matrices : sequence of Matrix
            With the same `read_together` as this one, and with products.
        vectors : sequence of ndarray of shape (n_samples,), float64
        """
        return list(self.column_products(slice(None), np.stack(vectors)))  # type: ignore[arg-type]

    def moments_of_each(self, matrices: Sequence[Matrix], weights: Sequence[np.ndarray]) -> list[Moments]:
        """Return the moments of all columns of each matrix for weights of its rows; see `products_of_each`."""
        found: Any = self.column_moments(slice(None), np.stack(weights))
        return [Moments(*(part[k] for part in found)) for k in range(len(weights))]

    # How a matrix is sent to tasks.

    @property
    def base(self) -> Matrix:
        """The matrix to send; `at` gives this matrix's rows as rows of it."""
        return self

    def at(self, start: int, stop: int) -> Rows:
        """Return rows [start, stop) as rows of `base`: a slice if they are consecutive."""
        return slice(start, stop)

    # Methods derived from the above, the same for every matrix.

    @property
    def target(self) -> np.ndarray | None:
        """All of y, float64 of shape (n_samples,), or None."""
        return self.read_target()

    def take(self, rows: np.ndarray) -> RowView:
        """Return these rows, in this order, as a matrix. Nothing is read.

        Parameters
        ----------
        rows : int64 array of shape (n_rows,), or boolean mask of shape (n_samples,)
        """
        rows = np.asarray(rows)
        return RowView(self, np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64))

    def weighted(self, weight: np.ndarray | None) -> Reweighted:
        """Return the same rows with other weights, float64 of shape (n_samples,); None gives all rows equal weight."""
        return Reweighted(self, weight)

    def weights_of_columns(self, columns: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of some columns, float64; None if the matrix has none."""
        return None if self.column_weights is None else self.column_weights.of(columns, self.shape[1])

    def with_column_weights(self, column_weights: ColumnWeights) -> WeighedColumns:
        """Return the same matrix with column weights."""
        return WeighedColumns(self, column_weights)

    def row_groups(self, groups: Any) -> np.ndarray:
        """Return the group number of every row. Rows of a group belong together.

        Parameters
        ----------
        groups : str or array of shape (n_source_rows,)
            The name of an id or split column ("fid" for the families of PLINK files), or one label per row of the
            source. A row without a label, or of family 0, is a group of its own.

        Returns
        -------
        ndarray of shape (n_samples,), int64
            Groups are numbered in order of their first row in the source, so a random draw of groups depends neither on
            their labels nor on the layout of a store.

        Raises
        ------
        ConfigError
            The column does not exist.
        DataError
            There are fewer labels than rows.
        """
        return row_groups(groups, self.shape[0], self.source_rows, self.labels)

    def split(
        self, test: Any = 0.2, by: str = "random", random_state: int | None = 0, groups: Any = None
    ) -> tuple[RowView, RowView]:
        """Split the rows into a training and a test set. Nothing is read.

        Parameters
        ----------
        test : float, or value or list of values
            Share of test rows (rounded up). If `by` is a column: the value or values that mark test rows.
        by : {"random", "order"} or str
            "random" takes the first ``ceil(test * n)`` of ``default_rng(random_state).permutation(n)`` as source rows,
            so the split does not depend on the layout of the store. "order" takes the last rows of the source. Any
            other string names a column of role 'split'.
        random_state : int, optional
            Seed of the random split.
        groups : str or array of shape (n_source_rows,), optional
            Rows that belong together and stay on one side: see `row_groups`. Only with "random": groups are drawn until
            the test set has at least a share of `test` of the rows. Later folds and held-out rows of either side also
            keep the groups whole.

        Returns
        -------
        train, test : RowView

        Raises
        ------
        ConfigError
            The share is outside (0, 1), the column is unknown, or one side would be empty.
        """
        is_test = rows_to_test(self.shape[0], self.source_rows, self.labels, test, by, random_state, groups)
        sides = self.take(~is_test), self.take(is_test)
        if groups is not None:
            for side in sides:
                side.keep_together(groups)
        return sides

    def row_blocks(
        self,
        *,
        columns: Rows = slice(None),
        block_rows: int | None = None,
        memory_limit: int | None = None,
        prefetch: int = 1,
        delayed: bool = False,
    ) -> Iterator[Any]:
        """Iterate over blocks of consecutive rows.

        Parameters
        ----------
        columns : slice or int64 array
            The columns to read; all by default.
        block_rows : int, optional
            Number of rows of a block; by default as many as `memory_limit` allows, in whole tiles if possible.
        memory_limit : int, optional
            Bytes that all buffers of the stream may use; by default blocks are 128 MiB each.
        prefetch : int
            Number of blocks read ahead while the current one is used.
        delayed : bool
            Yield `dask.delayed` objects that compute to the blocks.

        Returns
        -------
        iterator of RowBlock, or Delayed of one

        Raises
        ------
        PlanError
            Not even one row fits into the memory limit.
        """
        n_samples, n_features = self.shape
        n_columns = len(range(*columns.indices(n_features))) if isinstance(columns, slice) else len(columns)
        if block_rows is None:
            row_nbytes = n_columns * self.dtype.itemsize
            block_rows = block_length(n_samples, row_nbytes, self.tile_shape[0], memory_limit, prefetch + 1, "row")
        pieces = pieces_of(n_samples, block_rows)
        read = partial(read_row_block, self, columns=columns)
        begin: Any = partial(buffered_blocks, read, pieces, lambda n_rows: (n_rows, n_columns), self.dtype, prefetch)
        if delayed:
            begin = partial(delayed_blocks, read_row_block, self, pieces, "row-block", columns)
        of = self if isinstance(columns, slice) and columns == slice(None) else None
        return MatrixBlocks(of, "rows", pieces, n_columns, begin, read, delayed)

    def column_blocks(
        self,
        *,
        block_columns: int | None = None,
        memory_limit: int | None = None,
        prefetch: int = 1,
        delayed: bool = False,
    ) -> Iterator[Any]:
        """Iterate over blocks of consecutive columns with all rows: see `row_blocks`.

        Returns
        -------
        iterator of ColumnBlock, or Delayed of one
        """
        n_samples, n_features = self.shape
        if block_columns is None:
            column_nbytes = n_samples * self.dtype.itemsize
            tile_columns = self.tile_shape[1]
            block_columns = block_length(n_features, column_nbytes, tile_columns, memory_limit, prefetch + 1, "column")
        pieces = pieces_of(n_features, block_columns)
        read = partial(read_column_block, self)
        begin: Any = partial(
            buffered_blocks, read, pieces, lambda n_columns: (n_samples, n_columns), self.dtype, prefetch
        )
        if delayed:
            begin = partial(delayed_blocks, read_column_block, self, pieces, "column-block")
        return MatrixBlocks(self, "columns", pieces, n_samples, begin, read, delayed)

    def to_dask_array(self, block_rows: int | None = None) -> dask.array.Array:
        """Return X as a lazy dask array, chunked in row blocks of about 128 MiB.

        For use with other Dask code. The selectors stream blocks themselves, with less work per byte.
        """
        if block_rows is None:
            row_nbytes = self.shape[1] * self.dtype.itemsize
            block_rows = block_length(self.shape[0], row_nbytes, self.tile_shape[0], None, 1, "row")
        return as_dask_array(self, block_rows)

    # The only place that words the errors of values which no selector accepts.

    def bad_value(self, row: int, column: int | str, value: Any, precision: str = "") -> DataError:
        """Return the error for a value that is NaN or infinite. It names the column and the row of the source.

        Parameters
        ----------
        row : int
            Row number in this matrix.
        column : int or str
            Column number, or a name such as "target" if the value is not in a column.
        value : number
        precision : str
            "single" if the value overflows only in single precision.
        """
        place = column if isinstance(column, str) else self.names.describe(column)
        return not_finite(f"{place}, row {self.source_row(row)}", value, precision)

    def source_row(self, row: int) -> int:
        """Return the source row of a row."""
        source_rows = self.source_rows
        return int(row) if source_rows is None else int(source_rows[row])

    def bad_column(self, column: int) -> DataError:
        """Return the error for a column whose sums are not finite: its first bad value, or too large values."""
        for start, stop in pieces_of(self.shape[0], SEARCHED_ROWS):
            values = self.read(slice(start, stop), slice(column, column + 1))[:, 0]
            bad = np.flatnonzero(~np.isfinite(values))
            if len(bad):
                return self.bad_value(start + int(bad[0]), column, values[bad[0]])
        return DataError("its values are too large to be squared", self.names.describe(column), "scale the column")

    def _of_base(self, rows: np.ndarray) -> np.ndarray:
        """Return row numbers as those of `base`."""
        return rows


class _View(Matrix):
    """A matrix that forwards to another one, with rows translated by `_located`."""

    def __init__(self, matrix: Matrix, n_samples: int) -> None:
        self._matrix = matrix
        self.shape = (n_samples, matrix.shape[1])
        self.dtype = matrix.dtype
        self._rows_together = matrix.rows_together

    @property
    def rows_together(self) -> Any:
        """The rows that belong together."""
        return self._rows_together

    def keep_together(self, groups: Any) -> None:
        """Set which rows belong together: see `Matrix.row_groups`."""
        self._rows_together = groups

    @property
    def target_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the base's targets."""
        return self._matrix.target_names

    @property
    def description(self) -> str:  # type: ignore[override]
        """Where the data of the base are."""
        return self._matrix.description

    def _located(self, rows: Rows) -> Rows:
        return rows

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns]."""
        return self._matrix.read(self._located(rows), columns, out)

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows]."""
        return self._matrix.read_target(self._located(rows))

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows, or None."""
        return self._matrix.read_weight(self._located(rows))

    def sparse_rows(self, rows: Rows) -> SparseRows | None:
        """Return the entries of X[rows], or None if the base is dense."""
        return self._matrix.sparse_rows(self._located(rows))

    def sparse_columns(self, columns: Rows) -> SparseColumns | None:
        """Return the entries of X[:, columns], or None if the base is dense."""
        return self._matrix.sparse_columns(columns)

    def entry_counts(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the number of entries of each row of X[rows], or None if the base is dense."""
        return self._matrix.entry_counts(self._located(rows))

    def crowding(self) -> Crowding | None:
        """Return how unevenly the base's entries are distributed."""
        return self._matrix.crowding()

    def column_view(self, columns: slice) -> np.ndarray | None:
        """Return X[:, columns] without a copy, if the base can."""
        return self._matrix.column_view(columns)

    def strips(self, rows: Rows, columns: slice) -> Iterator[Strip] | None:
        """Return an iterator over X[rows][:, columns] in tile order, if the base has tiles and the rows ascend."""
        return self._matrix.strips(self._located(rows), columns)

    def column_statistics(self) -> ColumnStatistics | None:
        """Return known statistics of all columns. Every row counts once, whatever its weight."""
        return self._matrix.column_statistics()

    def column_products(self, columns: slice, vectors: np.ndarray) -> np.ndarray | None:
        """Return products with vectors over these rows, if the base has them."""
        return self._matrix.column_products(columns, self._of_all_rows(vectors))

    def column_moments(self, columns: slice, weight: np.ndarray) -> Moments | None:
        """Return moments for weights of these rows, if the base has them."""
        return self._matrix.column_moments(columns, self._of_all_rows(weight))

    def _of_all_rows(self, vectors: np.ndarray) -> np.ndarray:
        """Return vectors over the rows of the base, 0 in rows that are not here."""
        return vectors

    @property
    def names(self) -> Names:
        """Names of the base. They are read on demand, so a pickled view stays small."""
        return self._matrix.names

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Tile shape of the base."""
        return self._matrix.tile_shape

    @property
    def is_resident(self) -> bool:
        """Whether the base is in memory."""
        return self._matrix.is_resident

    @property
    def ahead_nbytes(self) -> int:
        """Bytes of pending requests of the base."""
        return self._matrix.ahead_nbytes

    @property
    def rows_are_random(self) -> bool:
        """Whether the rows of the base are in random order."""
        return self._matrix.rows_are_random

    @property
    def identity(self) -> str | None:
        """Digest of the base."""
        return self._matrix.identity

    @property
    def source_rows(self) -> np.ndarray | None:
        """Source row of each row."""
        return self._matrix.source_rows

    @property
    def target_classes(self) -> tuple[str, ...] | None:
        """Target classes of the base."""
        return self._matrix.target_classes

    @property
    def table_columns(self) -> np.ndarray | None:
        """Table columns of the base."""
        return self._matrix.table_columns

    @property
    def encoder(self) -> dict[str, Any] | None:
        """Encoder of the base."""
        return self._matrix.encoder

    def annotations(self, columns: np.ndarray) -> dict[str, np.ndarray]:
        """Return the annotations of the base."""
        return self._matrix.annotations(columns)

    @property
    def column_weights(self) -> ColumnWeights | None:
        """Column weights of the base."""
        return self._matrix.column_weights

    @property
    def of_table(self) -> Any:  # type: ignore[override]
        """Table encoder of the base."""
        return self._matrix.of_table

    def source_row(self, row: int) -> int:
        """Return the source row of a row."""
        return self._matrix.source_row(row)

    def labels(self, name: str) -> np.ndarray:
        """Return the values of an id or split column."""
        return self._matrix.labels(name)

    def exists(self) -> bool:
        """Return whether the base can still be read."""
        return self._matrix.exists()

    def verify_unchanged(self) -> None:
        """Raise an error if the base was replaced after it was opened."""
        self._matrix.verify_unchanged()


class RowView(_View):
    """Some rows of a matrix, as a matrix; see `Matrix.take`.

    Parameters
    ----------
    matrix : Matrix
        A store, arrays in memory, or another view.
    rows : int64 array of shape (n_rows,)
        Row numbers in the wanted order.
    """

    def __init__(self, matrix: Matrix, rows: np.ndarray) -> None:
        super().__init__(matrix.base, len(rows))
        self.keep_together(matrix.rows_together)
        self.rows: np.ndarray = matrix._of_base(rows)

    @property
    def base(self) -> Matrix:
        """The matrix whose rows these are; never a `RowView` itself."""
        return self._matrix

    def at(self, start: int, stop: int) -> Rows:
        """Return rows [start, stop) as rows of the base: a slice if they are consecutive."""
        return as_slice(self.rows[start:stop])

    def _of_base(self, rows: np.ndarray) -> np.ndarray:
        return self.rows[rows]

    @cached_property
    def _span(self) -> Rows:
        """All rows, as rows of the base: a slice if they are consecutive."""
        return as_slice(self.rows)

    def _located(self, rows: Rows) -> Rows:
        return self._span if isinstance(rows, slice) and rows == slice(None) else as_slice(self.rows[rows])

    @property
    def source_rows(self) -> np.ndarray | None:
        """Source row of each row."""
        source_rows = self._matrix.source_rows
        return self.rows if source_rows is None else source_rows[self.rows]

    def source_row(self, row: int) -> int:
        """Return the source row of a row."""
        return self._matrix.source_row(int(self.rows[row]))

    def labels(self, name: str) -> np.ndarray:
        """Return the values of an id or split column."""
        return self._matrix.labels(name)[self.rows]

    def sparse_columns(self, columns: Rows) -> SparseColumns | None:
        """Return the entries of X[:, columns] in all rows of the base, with the rows that are taken."""
        found = self._matrix.sparse_columns(columns)
        if found is None:
            return None
        taken = self.rows if found.taken is None else found.taken[self.rows]
        return SparseColumns(found.indptr, found.indices, found.data, found.n_base_rows, taken)

    def column_view(self, columns: slice) -> np.ndarray | None:
        """Return X[:, columns] without a copy; None if the rows are not consecutive."""
        found = self._matrix.column_view(columns) if isinstance(self._span, slice) else None
        return None if found is None else found[self._span]

    def column_statistics(self) -> ColumnStatistics | None:
        """Return None: statistics of all rows do not apply to some of them."""
        return None

    def _of_all_rows(self, vectors: np.ndarray) -> np.ndarray:
        found = np.zeros((*vectors.shape[:-1], self._matrix.shape[0]))
        np.add.at(found.T, self.rows, vectors.T)  # a row may be taken several times
        return found

    def __repr__(self) -> str:
        return f"<RowView: {self.shape[0]:,} rows of {self._matrix!r}>"


class Reweighted(_View):
    """A matrix with other row weights: of classes, a bootstrap sample, or a fold; see `Matrix.weighted`.

    Parameters
    ----------
    matrix : Matrix
    weight : array of shape (n_samples,), or None
        New weights; None gives all rows equal weight.
    """

    def __init__(self, matrix: Matrix, weight: np.ndarray | None) -> None:
        super().__init__(matrix, matrix.shape[0])
        self.weight = None if weight is None else np.asarray(weight, dtype=np.float64)
        if self.weight is not None and self.weight.shape != (self.shape[0],):
            raise DataError(f"expected {self.shape[0]} weights, found shape {self.weight.shape}", "weight")

    @property
    def base(self) -> Matrix:
        """The matrix itself, because its weights are sent with it."""
        return self

    def at(self, start: int, stop: int) -> Rows:
        """Return rows [start, stop)."""
        return slice(start, stop)

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the new weights of the rows, or None."""
        return None if self.weight is None else self.weight[rows]

    def __repr__(self) -> str:
        return f"<Reweighted: {self._matrix!r}>"


class WeighedColumns(_View):
    """A matrix with column weights, see `Matrix.column_weights`; everything else is unchanged.

    Parameters
    ----------
    matrix : Matrix
    column_weights : ColumnWeights
        New weights of the columns.
    """

    def __init__(self, matrix: Matrix, column_weights: ColumnWeights) -> None:
        super().__init__(matrix, matrix.shape[0])
        self._column_weights = column_weights

    @property
    def base(self) -> Matrix:
        """The matrix itself, because its weights are sent with it."""
        return self

    def at(self, start: int, stop: int) -> Rows:
        """Return rows [start, stop)."""
        return slice(start, stop)

    @property
    def column_weights(self) -> ColumnWeights:
        """The column weights given."""
        return self._column_weights

    def __repr__(self) -> str:
        return f"<WeighedColumns: {self._matrix!r}>"


def not_finite(place: str, value: Any, precision: str = "") -> DataError:
    """Return the error for a value that is NaN, infinite or over `LARGEST`. For a matrix, use `Matrix.bad_value`."""
    value = float(value)  # single precision would overflow in the comparison
    if abs(value) > LARGEST and not np.isinf(value):
        return DataError(f"{value:g} is too large: its square is infinite", place, "rescale the column")
    found = "NaN" if np.isnan(value) else f"infinity{precision and f' (in {precision} precision)'}"
    remedy = "drop the row or fill in the value" + "; for a data frame, schema='judge' does it" * bool(np.isnan(value))
    return DataError(f"expected finite numbers, found {found}", place, remedy)
