"""A matrix of columns and their knockoffs, which are computed when they are read and never stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from daskfs.kernels.linear.knockoffs import add_product, make_knockoffs
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, Strip, as_slice
from daskfs.matrix.names import Names
from daskfs.model_selection.second_order import BlockLaw, ColumnGroups

KNOCKOFF = "{} (knockoff)"
PIECE_NBYTES = 8 << 20
"""Size of a block's columns and knockoffs that are computed at a time, not counting the output."""


class KnockoffMatrix(Matrix):
    """Matrix of p columns and their p knockoffs: columns 2j and 2j + 1 are column j and its knockoff.

    Their order is drawn, alike for all columns of a group, so that a selector which depends on the order of columns,
    for example by taking the first of equal ones, is not biased.

    Parameters
    ----------
    matrix : Matrix
    blocks : sequence of ColumnGroups
        Blocks that contain every column once.
    laws : sequence of BlockLaw
        Law of the knockoffs of each block.
    seed : int
        Seed of the draw. The noise of a knockoff depends only on the seed and the numbers of row and column, so that
        every part of a draw can be read repeatedly, in any blocks and in any process.
    is_shuffled : bool
        Whether the rows were randomly ordered here.
    factors : ndarray of shape (n_samples, r), optional
        A draw of the common factors, see `daskfs.model_selection.common_factors`.

    Notes
    -----
    Reading a knockoff reads all columns of its block in these rows; a tile is therefore a block. The laws have
    ``16 * w * p`` bytes, with w columns per block, and are sent with the matrix.
    """

    def __init__(
        self,
        matrix: Matrix,
        blocks: Sequence[ColumnGroups],
        laws: Sequence[BlockLaw],
        seed: int,
        is_shuffled: bool = False,
        factors: np.ndarray | None = None,
    ) -> None:
        n, p = matrix.shape
        self._factors = factors
        self._is_shuffled = is_shuffled
        self._matrix, self._blocks, self._laws, self.seed = matrix, list(blocks), list(laws), seed
        self.shape = (n, 2 * p)
        self.dtype = dtype_of(matrix.dtype)
        self._loadings = [np.ascontiguousarray((law.loadings * law.scale[:, None]).T) for law in laws]
        self._block_of, self._place = np.empty(p, np.int64), np.empty(p, np.int64)
        for k, block in enumerate(self._blocks):
            self._block_of[block.columns], self._place[block.columns] = k, np.arange(len(block.columns))
        coins = np.random.default_rng([seed, 1])
        self.is_swapped = np.zeros(p, bool)
        for block in self._blocks:
            starts = np.flatnonzero(np.r_[True, np.diff(block.groups) != 0])
            coin = coins.random(len(starts)) < 0.5
            self.is_swapped[block.columns] = np.repeat(coin, np.diff(np.r_[starts, len(block.columns)]))

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviations of the p columns and of their knockoffs."""
        return self._of_laws("scale")

    @property
    def means(self) -> np.ndarray:
        """Means of the p columns, and approximately of their knockoffs."""
        return self._of_laws("mean")

    def _of_laws(self, name: str) -> np.ndarray:
        found = np.empty(self.shape[1] // 2)
        for block, law in zip(self._blocks, self._laws, strict=True):
            found[block.columns] = getattr(law, name)
        return found

    def parted(self, of_columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split values of all columns, shape (..., 2p), into those of the features and those of their knockoffs."""
        first, second = of_columns[..., 0::2], of_columns[..., 1::2]
        return np.where(self.is_swapped, second, first), np.where(self.is_swapped, first, second)

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns]."""
        chosen = np.arange(self.shape[1])[columns]
        features = chosen // 2
        is_knockoff = (chosen % 2 == 1) != self.is_swapped[features]
        keys = np.arange(self.shape[0], dtype=np.uint64)[rows]
        if out is None:
            out = np.empty((len(keys), len(chosen)), self.dtype)
        of = self._block_of[features]
        for k in np.unique(of).tolist():
            here = np.flatnonzero(of == k)
            if is_knockoff[here].any():
                self._read_block(k, rows, keys, features[here], is_knockoff[here], here, out)
            else:
                out[:, here] = self._matrix.read(rows, as_slice(features[here]))
        return out

    def _read_block(
        self, k: int, rows: Rows, keys: np.ndarray, features: np.ndarray, made: np.ndarray, here: np.ndarray,
        out: np.ndarray,
    ) -> None:  # fmt: skip
        """Write columns of a block, some of them knockoffs, a few rows at a time."""
        block, law, at = self._blocks[k], self._laws[k], self._place[features]
        columns, numbers, key = as_slice(block.columns), block.columns.astype(np.uint64), np.uint64(self.seed)
        chosen = np.arange(self.shape[0])[rows] if not isinstance(rows, slice) else rows
        first = rows.indices(self.shape[0])[0] if isinstance(rows, slice) else 0
        piece = max(1, PIECE_NBYTES // (len(block.columns) * (self.dtype.itemsize + 8)))
        for start in range(0, len(keys), piece):
            stop = min(start + piece, len(keys))
            some = slice(first + start, first + stop) if isinstance(chosen, slice) else chosen[start:stop]
            X = np.ascontiguousarray(self._matrix.read(some, columns))
            found, mean = np.empty((len(X), int(made.sum()))), law.mean
            out[start:stop, here[~made]] = X[:, at[~made]]
            common = None
            if self._factors is not None:
                common = np.zeros(X.shape)
                add_product(np.ascontiguousarray(self._factors[some]), self._loadings[k], common)
                X, mean = X - (mean + common), np.zeros(len(mean))
            make_knockoffs(X, keys[start:stop], numbers, mean, law.scale, law.transform, key, at[made], found)
            out[start:stop, here[made]] = found if common is None else found + (law.mean + common)[:, at[made]]

    def strips(self, rows: Rows, columns: slice) -> Iterator[Strip]:
        """Yield a few rows of all these columns at a time."""
        numbers, n_columns = np.arange(self.shape[0])[rows], len(range(*columns.indices(self.shape[1])))
        piece = max(1, PIECE_NBYTES // (max(1, n_columns) * self.dtype.itemsize))
        for start in range(0, len(numbers) if n_columns else 0, piece):
            some = as_slice(numbers[start : start + piece])
            yield Strip(start, slice(0, n_columns), self.read(some, columns))

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows]."""
        return self._matrix.read_target(rows)

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows, or None."""
        return self._matrix.read_weight(rows)

    @property
    def names(self) -> Names:
        """Names of the columns; those of knockoffs have the suffix "(knockoff)"."""
        return Names(self.shape[1], self._names)

    def _names(self) -> np.ndarray:
        of_columns = self._matrix.names.array()
        of_knockoffs = np.array([KNOCKOFF.format(name) for name in of_columns], dtype=object)
        found = np.empty(self.shape[1], dtype=object)
        found[0::2] = np.where(self.is_swapped, of_knockoffs, of_columns)
        found[1::2] = np.where(self.is_swapped, of_columns, of_knockoffs)
        return found

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Rows per tile of the matrix, and columns of a block with their knockoffs."""
        return (self._matrix.tile_shape[0], 2 * max(len(block.columns) for block in self._blocks))

    @property
    def ahead_nbytes(self) -> int:
        """Bytes for requests in flight of the matrix."""
        return self._matrix.ahead_nbytes

    @property
    def rows_are_random(self) -> bool:
        """Whether the rows are in random order."""
        return self._is_shuffled or self._matrix.rows_are_random

    @property
    def identity(self) -> str | None:
        """Identity of the matrix."""
        return self._matrix.identity

    @property
    def source_rows(self) -> np.ndarray | None:
        """Row of the source that each row came from."""
        return self._matrix.source_rows

    @property
    def target_classes(self) -> tuple[str, ...] | None:
        """Classes of the target."""
        return self._matrix.target_classes

    @property
    def table_columns(self) -> np.ndarray | None:
        """The table's columns; a knockoff has that of its column."""
        of_columns = self._matrix.table_columns
        return None if of_columns is None else np.repeat(of_columns, 2)

    def labels(self, name: str) -> np.ndarray:
        """Return the values of an id or split column."""
        return self._matrix.labels(name)

    def exists(self) -> bool:
        """Return whether the matrix can still be read."""
        return self._matrix.exists()

    def verify_unchanged(self) -> None:
        """Raise an error if the matrix was replaced since it was opened."""
        self._matrix.verify_unchanged()

    def __repr__(self) -> str:
        return f"<KnockoffMatrix: {self.shape[1] // 2:,} columns of {self._matrix!r} and their knockoffs>"


def dtype_of(dtype: np.dtype) -> np.dtype:
    """Return the dtype of knockoffs, which are floating point for integer columns too."""
    return np.dtype(dtype if dtype.kind == "f" else np.float32)


def column_blocks(groups: Sequence[np.ndarray], width: int) -> list[ColumnGroups]:
    """Return blocks of about `width` columns that contain whole groups, in the order of their first columns.

    Parameters
    ----------
    groups : sequence of int64 arrays
        Groups that contain every column once.
    width : int
        Maximum number of columns; a larger group is a block of its own.

    Examples
    --------
    >>> [block.columns.tolist() for block in column_blocks([np.array([0, 4]), np.array([1]), np.array([2, 3])], 3)]
    [[0, 4, 1], [2, 3]]
    """
    order = sorted(range(len(groups)), key=lambda g: int(groups[g][0]))
    found: list[list[int]] = [[]]
    size = 0
    for g in order:
        if size and size + len(groups[g]) > width:
            found.append([])
            size = 0
        found[-1].append(g)
        size += len(groups[g])
    return [
        ColumnGroups(
            f"{k}",
            np.concatenate([groups[g] for g in members]).astype(np.int64),
            np.repeat(members, [len(groups[g]) for g in members]).astype(np.int64),
        )
        for k, members in enumerate(found)
    ]
