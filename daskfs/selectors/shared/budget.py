"""Reads and memory of a method, known before the data: shapes, limits, and memory as a sum of named terms.

    >>> task = Budget().add("a piece of columns", 3 * 8_000_000).add("vectors over the rows", 24_000)
    >>> task.nbytes, task.largest
    (24024000, ('a piece of columns', 24000000))
    >>> task.refuse_over(20_000_000, "one column of 1,000 rows takes", "set block_columns=1")
    Traceback (most recent call last):
        ...
    daskfs.errors.PlanError: memory_limit: one column of 1,000 rows takes 24,024,000 bytes, the limit is 20,000,000 \
bytes; the largest part is a piece of columns, 24,000,000; allow at least 24,024,000 bytes, or set block_columns=1

A plan prints the terms, an error names the largest, and tests compare each term with what is allocated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from daskfs.errors import PlanError
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Crowding
from daskfs.matrix.names import Names
from daskfs.selectors.shared.work import Grid, Work

RESULT_COLUMN_NBYTES = 8 + 8 + 1  # score, coefficient, and whether it is selected
BLOCK_NBYTES = 1 << 20  # a block of a tile; Blosc decodes block by block
TILES_NBYTES = (8 << 20) + BLOCK_NBYTES  # the reader's decoded and encoded tile, 4 MiB each, and one block

ENTRY_NBYTES = 40  # a sparse entry during a read: row number and value, and both in stored form


@dataclass(frozen=True, slots=True)
class DataShape:
    """The facts about a matrix that a plan needs."""

    n_samples: int
    n_features: int
    dtype: np.dtype
    tile_shape: tuple[int, int] | None = None
    """Rows and columns of a store's tiles."""
    n_classes: int = 0
    """Number of classes of the target, if known to a plan; 0 for regression or if unknown."""
    n_stored: int | None = None
    """Rows whose tiles contain these, in a larger store; None: only these."""
    has_statistics: bool = False
    """Whether the columns' statistics over exactly these rows are known, with equal weights."""
    n_entries: int | None = None
    """Number of entries of these rows in a sparse store; None if dense or in memory."""
    crowding: Crowding | None = None
    """Distribution of the entries of a sparse store; None if unknown: entries are assumed to be evenly distributed."""
    names: Names | None = None
    """Names of the columns, if known to a plan."""
    table_columns: np.ndarray | None = None
    """Names of the table's columns that the features were encoded from, if known to a plan."""
    has_products: bool = False
    """Whether products of columns with vectors cost less than reading the columns: see `Matrix.column_products`."""

    @classmethod
    def of(cls, matrix: Matrix) -> Self:
        """Return the shape of a matrix."""
        n_samples, n_features = matrix.shape
        n_stored = int(matrix.base.shape[0])
        counts = None if matrix.is_resident else matrix.entry_counts(slice(None))
        n_entries = None if counts is None else int(counts.sum())
        sizes = int(n_samples), int(n_features), np.dtype(matrix.dtype), matrix.tile_shape
        has_products = matrix.column_products(slice(0, 0), np.empty((0, n_samples))) is not None
        crowding = None if counts is None else matrix.crowding()
        return cls(*sizes, n_stored=n_stored, n_entries=n_entries, crowding=crowding, has_products=has_products)

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all values, dense."""
        return self.n_samples * self.n_features * self.itemsize

    @property
    def held_nbytes(self) -> int:
        """Bytes of all values in their present form: dense, or entries with their positions."""
        return self.nbytes if self.n_entries is None else self.n_entries * (self.itemsize + 4)

    @property
    def tiles_nbytes(self) -> int:
        """Bytes that the reader holds in addition to blocks: a decoded tile, an encoded one, and a block of one."""
        tile_rows, tile_columns = self.tile_shape or (1, 1)
        if tile_rows == 1:  # arrays in memory have no tiles
            return TILES_NBYTES
        if self.n_entries is not None:
            return TILES_NBYTES + self.block_nbytes
        return max(TILES_NBYTES, 2 * tile_rows * tile_columns * self.itemsize + BLOCK_NBYTES)

    @property
    def block_nbytes(self) -> int:
        """Bytes of a block of rows in the reader of a sparse store, in stored form and by rows; 0 if not sparse."""
        if self.n_entries is None or self.tile_shape is None:
            return 0
        n_rows = min(self.tile_shape[0], self.n_stored or self.n_samples)
        n_entries = self.crowding.block if self.crowding else n_rows * -(-self.n_entries // max(1, self.n_samples))
        return n_rows * 16 + n_entries * ENTRY_NBYTES

    def columns_nbytes(self, n_columns: int) -> int:
        """Return the bytes of any `n_columns` columns of a sparse store as entries, and during conversion, else 0."""
        if self.n_entries is None:
            return 0
        mean = -(-self.n_entries * n_columns // max(1, self.n_features))
        n_entries = self.crowding.columns.of(n_columns) if self.crowding else mean
        return n_entries * ENTRY_NBYTES + 40 * n_columns

    @property
    def tile_column_nbytes(self) -> int:
        """Bytes of a feature's column of tiles, all of which is decoded for it; without tiles its own bytes."""
        if self.tile_shape is None:
            return self.n_samples * self.itemsize
        tile_rows, tile_columns = self.tile_shape
        if self.n_entries is not None:
            return -(-self.n_entries * tile_columns // max(1, self.n_features)) * (self.itemsize + 4)
        return -(-(self.n_stored or self.n_samples) // tile_rows) * tile_rows * tile_columns * self.itemsize

    @property
    def grid(self) -> Grid:
        """The tiles, for counting what is decoded."""
        tile = self.tile_shape or (1, 1)
        return Grid(self.n_samples, self.n_features, *tile, n_stored=self.n_stored, n_entries=self.n_entries)

    @property
    def decoded_nbytes(self) -> int:
        """Bytes of all tiles with values of these rows, each counted once."""
        tile_columns = 1 if self.tile_shape is None else self.tile_shape[1]
        return -(-self.n_features // tile_columns) * self.tile_column_nbytes


def most_within(nbytes_of: Callable[[int], int], limit: int, most: int) -> int:
    """Return the largest number up to `most` that fits in `limit` bytes; at least one.

    Examples
    --------
    >>> most_within(lambda n: n * n, 50, 100), most_within(lambda n: n, 0, 100)
    (7, 1)
    """
    return max(1, bisect_right(range(1, most + 1), limit, key=nbytes_of))


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a fit."""

    task_nbytes: int | None = None
    """Memory limit of one task, in addition to its process; None: unlimited."""
    n_threads: int = 1
    """Number of tasks that run at once."""


@dataclass(frozen=True)
class Budget:
    """Memory in bytes, as named terms."""

    terms: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, nbytes: int) -> Self:
        """Add a term, or add to the term with this name; return the budget."""
        self.terms[name] = self.terms.get(name, 0) + int(nbytes)
        return self

    def add_largest(self, **alternatives: int) -> Self:
        """Add the largest of several terms that are never held at the same time; underscores become spaces."""
        name = max(alternatives, key=alternatives.__getitem__)
        return self.add(name.replace("_", " "), alternatives[name])

    def times(self, n: int) -> Budget:
        """Return the budget of n such things at once."""
        return Budget({name: n * nbytes for name, nbytes in self.terms.items()})

    def __add__(self, other: Budget) -> Budget:
        return Budget(dict(self.terms)).include(other)

    def include(self, other: Budget) -> Self:
        """Add all terms of another budget; return this one."""
        for name, nbytes in other.terms.items():
            self.add(name, nbytes)
        return self

    @property
    def nbytes(self) -> int:
        """Total bytes of all terms."""
        return sum(self.terms.values())

    @property
    def largest(self) -> tuple[str, int]:
        """The largest term, and its bytes."""
        return max(self.terms.items(), key=lambda term: term[1], default=("nothing", 0))

    def refuse_over(self, limit: int | None, what: str, alternative: str = "") -> None:
        """Raise if the budget exceeds a limit.

        Parameters
        ----------
        limit : int or None
        what : str
            Subject and verb of the sentence: "one subset of 100 rows takes".
        alternative : str
            What to do instead of raising the limit: "set n_subsets=20".

        Raises
        ------
        PlanError
            Names the smallest sufficient limit.
        """
        if limit is not None and self.nbytes > limit:
            name, nbytes = self.largest
            raise PlanError(
                f"{what} {self.nbytes:,} bytes, the limit is {limit:,} bytes; the largest part is {name}, {nbytes:,}",
                "memory_limit",
                needed_nbytes=self.nbytes,
                alternative=alternative,
            )


@dataclass(frozen=True, slots=True)
class SelectorPlan:
    """What a selector will read and hold in memory."""

    n_tasks: int
    n_passes: int
    """Passes over all columns of the matrix."""
    read_nbytes: int
    """Decoded bytes read in total."""
    task: Budget
    """Peak memory of one task, in addition to its process."""
    client: Budget
    """Memory of the client process, in addition to the process itself."""
    text: str
    """The plan in words."""
    in_client: str = ""
    """What the client process itself does when there are workers, in words."""
    work: Work | None = None
    """None if the times were not measured."""

    @property
    def task_nbytes(self) -> int:
        """Peak memory of one task in bytes."""
        return self.task.nbytes

    @property
    def client_nbytes(self) -> int:
        """Memory of the client in bytes."""
        return self.client.nbytes
