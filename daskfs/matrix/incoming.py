"""Blocks that a user hands over, one after the other: what each may be, how it is computed, what is checked of it.

A block is a `ColumnBlock` or `RowBlock`, a 2-d array, a scipy.sparse matrix or a DataFrame, of rows also a tuple
``(X, y)`` or ``(X, y, weight)``; or the promise of one: a `dask.delayed` object, a Dask collection, a function without
arguments. Promises can be kept again and again, blocks that an iterator yields pass by once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from daskfs import interrupts
from daskfs.cluster.client import cluster_errors, released, threads_of
from daskfs.errors import DataError
from daskfs.matrix.arrays import as_column, as_matrix
from daskfs.matrix.blocks import ColumnBlock, RowBlock
from daskfs.matrix.streaming import MatrixBlocks, prefetched

if TYPE_CHECKING:
    from distributed import Client

Axis: TypeAlias = Literal["rows", "columns"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is to be known of a block before the first is used."""

    length: int
    """Rows (columns) that it adds."""
    breadth: int
    """Columns that its rows have, or rows that its columns have."""
    dtype: np.dtype
    is_sparse: bool
    start: int | None
    stop: int | None
    y: Any = None
    weight: Any = None
    names: list[str] | None = None
    counts: np.ndarray | None = None
    """Entries of each row, of sparse row blocks."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block as it came."""

    X: Any
    """numpy array; CSR of rows, CSC of columns."""
    start: int | None = None
    """Of its first row or column, where the block says so."""
    stop: int | None = None
    y: Any = None
    weight: Any = None
    names: list[str] | None = None
    """Of its columns, where it is a frame."""
    is_sparse: bool = False

    def facts(self, axis: Axis) -> Facts:
        """Return what it is."""
        n_rows, n_columns = self.X.shape
        length, breadth = (n_rows, n_columns) if axis == "rows" else (n_columns, n_rows)
        return Facts(
            int(length), int(breadth), np.dtype(self.X.dtype), self.is_sparse,
            self.start, self.stop, self.y, self.weight, self.names,
            np.diff(self.X.indptr).astype(np.int64) if self.is_sparse and axis == "rows" else None,
        )  # fmt: skip

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return int(self.X.shape[0])

    @property
    def nbytes(self) -> int:
        """Of the values."""
        return int(self.X.data.nbytes + self.X.indices.nbytes if self.is_sparse else self.X.nbytes)


def is_of_dask(item: Any) -> bool:
    """Whether an item is a Dask object: delayed, or a collection."""
    return hasattr(item, "__dask_graph__")


def is_promise(item: Any) -> bool:
    """Whether an item is computed to be a block: a Dask object, or a function."""
    return is_of_dask(item) or callable(item)


def opened(item: Any, axis: Axis) -> Block:
    """Return an item as a block; a promise is kept here, in this thread.

    Raises
    ------
    DataError
        It is of the other axis, or no matrix of numbers.
    """
    while is_promise(item):
        item = item.compute(scheduler="synchronous") if is_of_dask(item) else item()
    start, stop, y, weight, X = None, None, None, None, item
    if isinstance(item, (RowBlock, ColumnBlock)):
        if isinstance(item, RowBlock) != (axis == "rows"):
            raise DataError(f"expected blocks of {axis}, found a {type(item).__name__}", "blocks", _REMEDY[axis])
        start, stop, X = item.start, item.stop, item.X
    if isinstance(item, RowBlock):
        y, weight = item.y, item.weight
    elif isinstance(item, tuple) and axis == "rows" and len(item) in (2, 3):
        X, y, weight = (*item, None)[:3]
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    X = as_matrix(X)
    is_sparse = hasattr(X, "tocsr")  # scipy's, or what is like it: it is not loaded for dense blocks
    return Block(X.tocsc() if is_sparse and axis == "columns" else X, start, stop, y, weight, names, is_sparse)


_REMEDY = {
    "rows": "this selector takes row blocks: store.row_blocks()",
    "columns": "this selector takes column blocks: store.column_blocks()",
}


def facts_of(item: Any, axis: Axis) -> Facts:
    """Open a block, and return what it is."""
    return opened(item, axis).facts(axis)


def all_facts(items: Sequence[Any], axis: Axis, client: Client | None) -> list[Facts]:
    """Return what each block is; Dask's promises are kept on the client's workers, two for each thread at once."""
    if client is None or not any(is_of_dask(item) for item in items):
        return [facts_of(item, axis) for item in items]
    import dask

    of_one = dask.delayed(facts_of, pure=False, traverse=False)
    found: dict[int, Facts] = {}
    with cluster_errors("blocks"):
        for first in range(0, len(items), at_once := 2 * threads_of(client)):
            futures = client.compute([of_one(item, axis) for item in items[first : first + at_once]])
            try:
                found |= enumerate(interrupts.call_aside(client.gather, futures), first)
            finally:
                released(*futures)
    return [found[k] for k in range(len(items))]


class Order:
    """Where the next block belongs, and what all of them have in common.

    Parameters
    ----------
    axis : {"rows", "columns"}
    breadth : int, optional
        Rows that columns have, or columns that rows have; by default as the first block.
    """

    def __init__(self, axis: Axis, breadth: int | None = None) -> None:
        self.axis, self.breadth = axis, breadth
        self.position = self.n_blocks = 0
        self._said = "as in y"

    def take(self, block: Facts) -> slice:
        """Return which rows or columns a block has.

        Raises
        ------
        DataError
            A gap, a block out of order, one of other lengths than it says or than the others have.
        """
        place, noun, first = f"block {self.n_blocks}", self.axis, self.position
        if block.start is not None and block.start != first:
            fault = "a gap" if block.start > first else "it came before, or overlaps"
            raise DataError(
                f"expected the block that begins with {noun[:-1]} {first:,}, found one that begins with "
                f"{block.start:,}: {fault}",
                place,
                "pass all blocks, in their order",
            )
        if block.start is not None and block.stop is not None and block.stop - block.start != block.length:
            said = block.stop - block.start
            raise DataError(f"expected {said:,} {noun}, as the block says, found {block.length:,}", place, "correct it")
        if self.breadth is None:
            self.breadth, self._said = block.breadth, "as in the first block"
        if block.breadth != self.breadth:
            other = "rows" if noun == "columns" else "columns"
            problem = f"expected {self.breadth:,} {other} {self._said}, found {block.breadth:,}"
            raise DataError(problem, place, "pass matching blocks")
        self.position, self.n_blocks = first + block.length, self.n_blocks + 1
        return slice(first, self.position)


def read_ahead(items: Iterator[Any], axis: Axis, depth: int) -> Generator[Block, None, None]:
    """Yield items as blocks; up to `depth` are fetched ahead in a thread of their own."""
    end = object()

    def one(_: int) -> Any:
        item = next(items, end)
        return end if item is end else opened(item, axis)

    for block in prefetched(one, itertools.count(), depth):
        if block is end:
            return
        yield block


def promised(blocks: Any) -> tuple[Sequence[Any] | None, Iterator[Any]]:
    """Return the blocks as a sequence that can be read again and again, or else None and an iterator over them.

    Of lists, of what a matrix's `row_blocks` and `column_blocks` return, and of iterators over promises there is a
    sequence.

    Raises
    ------
    DataError
        There is no block, or this is no iterable.
    """
    if isinstance(blocks, MatrixBlocks):
        return blocks.promises(), iter(())
    if hasattr(blocks, "toarray") or hasattr(blocks, "dtype") or hasattr(blocks, "columns"):
        raise DataError(f"expected blocks, found one {type(blocks).__name__}", "blocks", "call fit, or pass a list")
    try:
        found = iter(blocks)
    except TypeError:
        problem = f"expected an iterable of blocks, found {type(blocks).__name__}"
        raise DataError(problem, "blocks", "pass a list or a generator of blocks") from None
    if isinstance(blocks, Sequence):
        items: Sequence[Any] | None = blocks
    else:
        first = list(itertools.islice(found, 1))
        found = itertools.chain(first, found)
        items = list(found) if first and is_promise(first[0]) else None
        if not first:
            items = []
    if items is not None and not len(items):
        raise DataError("expected at least one block, found none", "blocks", "begin the iterator anew")
    return items, found


def kept_in(folder: Path, blocks: Iterable[Block], axis: Axis) -> tuple[list[Callable[[], Any]], list[Facts]]:
    """Write blocks to files as they come; return promises of them, and what they are."""
    promises: list[Callable[[], Any]] = []
    facts: list[Facts] = []
    for k, block in enumerate(blocks):
        path = folder / f"block-{k:06d}.{'npz' if block.is_sparse else 'npy'}"
        if path.suffix == ".npz":
            from scipy.sparse import save_npz

            save_npz(path, block.X, compressed=False)
        else:
            np.save(path, block.X)
        promises.append(partial(_from_file, path))
        facts.append(block.facts(axis))
    return promises, facts


def _from_file(path: Path) -> Any:
    if path.suffix == ".npz":
        from scipy.sparse import load_npz

        return load_npz(path)
    return np.load(path, mmap_mode="r")


def joined(parts: Sequence[Any], what: str) -> Any:
    """Return targets or weights of all row blocks, one after the other; None where no block has any.

    Raises
    ------
    DataError
        Some blocks have them, others have not.
    """
    missing = [k for k, part in enumerate(parts) if part is None]
    if len(missing) == len(parts):
        return None
    if missing:
        raise DataError(f"expected the {what} of its rows, found none", f"block {missing[0]}", f"give each its {what}")
    return np.concatenate([np.asarray(part) for part in parts])


def names_of_columns(facts: Sequence[Facts]) -> list[str] | None:
    """Return the names of the columns of all blocks, x0, x1, ... where a block has none; None where no block has any.

    Raises
    ------
    DataError
        A name stands twice.
    """
    if all(block.names is None for block in facts):
        return None
    names: list[str] = []
    for block in facts:
        first = len(names)
        names += [f"x{j}" for j in range(first, first + block.length)] if block.names is None else block.names
    refuse_twice(names)
    return names


def refuse_twice(names: Sequence[str]) -> None:
    """Refuse names of which one stands twice."""
    if len(set(names)) < len(names):
        seen: set[str] = set()
        name = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DataError(f"duplicate column {name!r}", "names", "give each column its own name")


def names_of_rows(facts: Sequence[Facts]) -> list[str] | None:
    """Return the columns' names, which every block of rows has in the same order.

    Raises
    ------
    DataError
        The columns of a block have other names, or another order.
    """
    for k, block in enumerate(facts):
        check_names(k, block.names, facts[0].names)
    return facts[0].names


def check_names(k: int, found: list[str] | None, expected: list[str] | None) -> None:
    """Refuse row block k where its columns have other names than those of the first block, or another order."""
    if found is None or expected is None or found == expected:
        return
    pairs = zip_longest(expected, found)
    j, (wanted, other) = next((j, pair) for j, pair in enumerate(pairs) if pair[0] != pair[1])
    shown = ["no more columns" if name is None else f"the column {name!r}" for name in (wanted, other)]
    remedy = "pass the same columns in the same order"
    raise DataError(f"expected {shown[0]}, found {shown[1]}", f"block {k}, column {j}", remedy)


def weights_of(values: Any, n_samples: int) -> np.ndarray | None:
    """Return sample weights as float64, or None."""
    return None if values is None else as_column(values, n_samples, "weight")
