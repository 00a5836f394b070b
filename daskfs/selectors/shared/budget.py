"""What a method reads and holds, known before any data is: shapes, limits, and memory as named terms that add up.

    >>> task = Budget().add("a piece of columns", 3 * 8_000_000).add("vectors over the rows", 24_000)
    >>> task.nbytes, task.largest
    (24024000, ('a piece of columns', 24000000))
    >>> task.refuse_over(20_000_000, "one column of 1,000 rows takes", "set block_columns=1")
    Traceback (most recent call last):
        ...
    daskfs.errors.PlanError: memory_limit: one column of 1,000 rows takes 24,024,000 bytes, the limit is 20,000,000 \
bytes; a piece of columns: 24,000,000; allow at least 24,024,000 bytes, or set block_columns=1

A plan prints the terms, a refusal names the largest, and tests hold each against what is allocated.
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
BLOCK_NBYTES = 1 << 20  # of a tile, which Blosc decodes block by block
TILES_NBYTES = (8 << 20) + BLOCK_NBYTES  # a decoded and an encoded tile of the reader, of 4 MiB, and a block of one

ENTRY_NBYTES = 40  # of a sparse store while it is read: a number of a row, a value, and both as they are stored


@dataclass(frozen=True, slots=True)
class DataShape:
    """A matrix, as far as a plan needs to know it."""

    n_samples: int
    n_features: int
    dtype: np.dtype
    tile_shape: tuple[int, int] | None = None
    """Rows and columns of a store's tiles."""
    n_classes: int = 0
    """Of a target of classes, where a plan is told; 0 of numbers, and where it is not known."""
    n_stored: int | None = None
    """Rows in whose tiles these lie, of a store that has more; None: no more."""
    has_statistics: bool = False
    """Whether the columns' statistics over exactly these rows are known, and rows weigh the same."""
    n_entries: int | None = None
    """Of these rows in a sparse store; None where all values are stored, or lie in memory."""
    crowding: Crowding | None = None
    """Of the sparse store; None where it is not known: rows and columns are taken to have as many entries each."""
    names: Names | None = None
    """Of the columns, where a plan is told."""
    table_columns: np.ndarray | None = None
    """Names of the columns of the table that the features were encoded from, where a plan is told."""

    @classmethod
    def of(cls, matrix: Matrix) -> Self:
        """Return the shape of a matrix."""
        n_samples, n_features = matrix.shape
        n_stored = int(matrix.base.shape[0])
        counts = None if matrix.is_resident else matrix.entry_counts(slice(None))
        n_entries = None if counts is None else int(counts.sum())
        sizes = int(n_samples), int(n_features), np.dtype(matrix.dtype), matrix.tile_shape
        return cls(*sizes, n_stored=n_stored, n_entries=n_entries, crowding=matrix.crowding())

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
        """Bytes of all values as they are held: dense, or entries with their places."""
        return self.nbytes if self.n_entries is None else self.n_entries * (self.itemsize + 4)

    @property
    def tiles_nbytes(self) -> int:
        """Bytes that the reader holds beside blocks of the matrix: a tile decoded, one encoded, and a block of one."""
        tile_rows, tile_columns = self.tile_shape or (1, 1)
        if tile_rows == 1:  # rows in memory are no tiles
            return TILES_NBYTES
        if self.n_entries is not None:
            return TILES_NBYTES + self.block_nbytes
        return max(TILES_NBYTES, 2 * tile_rows * tile_columns * self.itemsize + BLOCK_NBYTES)

    @property
    def block_nbytes(self) -> int:
        """Bytes that the reader of a sparse store holds of a block of rows: as it is stored, and by rows; else 0."""
        if self.n_entries is None or self.tile_shape is None:
            return 0
        n_rows = min(self.tile_shape[0], self.n_stored or self.n_samples)
        n_entries = self.crowding.block if self.crowding else n_rows * -(-self.n_entries // max(1, self.n_samples))
        return n_rows * 16 + n_entries * ENTRY_NBYTES

    def columns_nbytes(self, n_columns: int) -> int:
        """Bytes of any so many columns of a sparse store as entries, and on the way there; else 0."""
        if self.n_entries is None:
            return 0
        mean = -(-self.n_entries * n_columns // max(1, self.n_features))
        n_entries = self.crowding.columns.of(n_columns) if self.crowding else mean
        return n_entries * ENTRY_NBYTES + 40 * n_columns

    @property
    def tile_column_nbytes(self) -> int:
        """Bytes of the tiles below each other that hold a column: what is decoded for it. Without tiles its own."""
        if self.tile_shape is None:
            return self.n_samples * self.itemsize
        tile_rows, tile_columns = self.tile_shape
        if self.n_entries is not None:
            return -(-self.n_entries * tile_columns // max(1, self.n_features)) * (self.itemsize + 4)
        return -(-(self.n_stored or self.n_samples) // tile_rows) * tile_rows * tile_columns * self.itemsize

    @property
    def grid(self) -> Grid:
        """The tiles, for a count of what is decoded."""
        tile = self.tile_shape or (1, 1)
        return Grid(self.n_samples, self.n_features, *tile, n_stored=self.n_stored, n_entries=self.n_entries)

    @property
    def decoded_nbytes(self) -> int:
        """Bytes of all tiles that hold values of these rows, each once."""
        tile_columns = 1 if self.tile_shape is None else self.tile_shape[1]
        return -(-self.n_features // tile_columns) * self.tile_column_nbytes


def most_within(nbytes_of: Callable[[int], int], limit: int, most: int) -> int:
    """Return the largest number up to `most` of which this many bytes are enough; at least one.

    Examples
    --------
    >>> most_within(lambda n: n * n, 50, 100), most_within(lambda n: n, 0, 100)
    (7, 1)
    """
    return max(1, bisect_right(range(1, most + 1), limit, key=nbytes_of))


@dataclass(frozen=True, slots=True)
class Limits:
    """What a fit may take."""

    task_nbytes: int | None = None
    """Memory limit of one task, in addition to the process it runs in; None: unlimited."""
    n_threads: int = 1
    """Tasks that run at once."""


@dataclass(frozen=True)
class Budget:
    """Memory in bytes, as named terms."""

    terms: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, nbytes: int) -> Self:
        """Add a term, or to the one of this name; return the budget."""
        self.terms[name] = self.terms.get(name, 0) + int(nbytes)
        return self

    def add_largest(self, **alternatives: int) -> Self:
        """Add the largest of several terms that are never held at the same time, underscores read as spaces."""
        name = max(alternatives, key=alternatives.__getitem__)
        return self.add(name.replace("_", " "), alternatives[name])

    def times(self, n: int) -> Budget:
        """Return the budget of so many of the kind at once."""
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
        """Bytes of all terms together."""
        return sum(self.terms.values())

    @property
    def largest(self) -> tuple[str, int]:
        """The term that takes most, and its bytes."""
        return max(self.terms.items(), key=lambda term: term[1], default=("nothing", 0))

    def refuse_over(self, limit: int | None, what: str, alternative: str = "") -> None:
        """Refuse a plan that exceeds a limit.

        Parameters
        ----------
        limit : int or None
        what : str
            The subject of the sentence, with its verb: "one subset of 100 rows takes".
        alternative : str
            What to do but allow more: "set n_subsets=20".

        Raises
        ------
        PlanError
            With the limit that would do.
        """
        if limit is not None and self.nbytes > limit:
            name, nbytes = self.largest
            raise PlanError(
                f"{what} {self.nbytes:,} bytes, the limit is {limit:,} bytes; {name}: {nbytes:,}",
                "memory_limit",
                needed_nbytes=self.nbytes,
                alternative=alternative,
            )


@dataclass(frozen=True, slots=True)
class SelectorPlan:
    """What a selector will read and hold."""

    n_tasks: int
    n_passes: int
    """Over all columns of the matrix."""
    read_nbytes: int
    """Decoded bytes read in all."""
    task: Budget
    """Peak memory of one task, in addition to the process itself."""
    client: Budget
    """Memory of the client process, in addition to the process itself."""
    text: str
    """The plan in words."""
    in_client: str = ""
    """What the client process does itself where there are workers, in words."""
    work: Work | None = None
    """None where nobody has measured it."""

    @property
    def task_nbytes(self) -> int:
        """Peak memory of one task in bytes."""
        return self.task.nbytes

    @property
    def client_nbytes(self) -> int:
        """Memory of the client in bytes."""
        return self.client.nbytes
