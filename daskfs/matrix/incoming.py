"""Blocks passed by a user, one at a time: the accepted types, how each is computed, and the checks.

A block is a `ColumnBlock` or `RowBlock`, a 2-d array, a scipy.sparse matrix or a DataFrame; a row block may also be a
tuple ``(X, y)`` or ``(X, y, weight)``. A promise of a block is a `dask.delayed` object, a Dask collection, or a
function without arguments. Promises can be computed repeatedly; the blocks of an iterator can be read only once.
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

from daskfs import errors, interrupts
from daskfs.cluster.client import cluster_errors, released, threads_of
from daskfs.matrix.arrays import as_column, as_matrix
from daskfs.matrix.blocks import ColumnBlock, RowBlock
from daskfs.matrix.streaming import MatrixBlocks, prefetched

if TYPE_CHECKING:
    from distributed import Client

DataError = errors.DataError.about("shapes")

Axis: TypeAlias = Literal["rows", "columns"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What must be known of a block before the first one is used."""

    length: int
    """Number of rows (columns) that it adds."""
    breadth: int
    """Number of columns of its rows, or of rows of its columns."""
    dtype: np.dtype
    is_sparse: bool
    start: int | None
    stop: int | None
    y: Any = None
    weight: Any = None
    names: list[str] | None = None
    counts: np.ndarray | None = None
    """Number of entries of each row, for sparse row blocks."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block as the user passed it."""

    X: Any
    """numpy array; CSR for rows, CSC for columns."""
    start: int | None = None
    """Number of its first row or column, if the block states it."""
    stop: int | None = None
    y: Any = None
    weight: Any = None
    names: list[str] | None = None
    """Names of its columns, if it is a frame."""
    is_sparse: bool = False

    def facts(self, axis: Axis) -> Facts:
        """Return the facts about the block."""
        n_rows, n_columns = self.X.shape
        length, breadth = (n_rows, n_columns) if axis == "rows" else (n_columns, n_rows)
        return Facts(
            int(length), int(breadth), np.dtype(self.X.dtype), self.is_sparse,
            self.start, self.stop, self.y, self.weight, self.names,
            np.diff(self.X.indptr).astype(np.int64) if self.is_sparse and axis == "rows" else None,
        )  # fmt: skip

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return int(self.X.data.nbytes + self.X.indices.nbytes if self.is_sparse else self.X.nbytes)


def is_of_dask(item: Any) -> bool:
    """Whether an item is a Dask object: delayed, or a collection."""
    return hasattr(item, "__dask_graph__")


def is_promise(item: Any) -> bool:
    """Whether an item must be computed to become a block: a Dask object, or a function."""
    return is_of_dask(item) or callable(item)


def opened(item: Any, axis: Axis) -> Block:
    """Return an item as a block. A promise is computed here, in this thread.

    Raises
    ------
    DataError
        The item belongs to the other axis, or is not a matrix of numbers.
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
    is_sparse = hasattr(X, "tocsr")  # scipy's or similar; scipy.sparse is not imported for dense blocks
    return Block(X.tocsc() if is_sparse and axis == "columns" else X, start, stop, y, weight, names, is_sparse)


_REMEDY = {
    "rows": "this selector takes row blocks: store.row_blocks()",
    "columns": "this selector takes column blocks: store.column_blocks()",
}


def facts_of(item: Any, axis: Axis) -> Facts:
    """Open a block and return the facts about it."""
    return opened(item, axis).facts(axis)


def all_facts(items: Sequence[Any], axis: Axis, client: Client | None) -> list[Facts]:
    """Return the facts about each block. Dask's promises are computed on the client's workers, two per thread."""
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
    """The position of the next block, and the facts that all blocks share.

    Parameters
    ----------
    axis : {"rows", "columns"}
    breadth : int, optional
        Number of rows of the columns, or of columns of the rows; by default that of the first block.
    """

    def __init__(self, axis: Axis, breadth: int | None = None) -> None:
        self.axis, self.breadth = axis, breadth
        self.position = self.n_blocks = 0
        self._said = "as in y"

    def take(self, block: Facts) -> slice:
        """Return the rows or columns of a block.

        Raises
        ------
        DataError
            A block is missing or out of order, or its lengths do not match its own bounds or the other blocks.
        """
        place, noun, first = f"block {self.n_blocks}", self.axis, self.position
        if block.start is not None and block.start != first:
            fault = "a gap" if block.start > first else "a repeated or overlapping block"
            raise DataError(
                f"expected the block that begins with {noun[:-1]} {first:,}, found one that begins with "
                f"{block.start:,}: {fault}",
                place,
                "pass all blocks, in their order",
            )
        if block.start is not None and block.stop is not None and block.stop - block.start != block.length:
            said = block.stop - block.start
            raise DataError(f"expected {said:,} {noun} from its bounds, found {block.length:,}", place, "correct it")
        if self.breadth is None:
            self.breadth, self._said = block.breadth, "as in the first block"
        if block.breadth != self.breadth:
            other = "rows" if noun == "columns" else "columns"
            problem = f"expected {self.breadth:,} {other} {self._said}, found {block.breadth:,}"
            raise DataError(problem, place, "pass matching blocks")
        self.position, self.n_blocks = first + block.length, self.n_blocks + 1
        return slice(first, self.position)


def read_ahead(items: Iterator[Any], axis: Axis, depth: int) -> Generator[Block, None, None]:
    """Yield items as blocks. Up to `depth` are fetched ahead in a separate thread."""
    end = object()

    def one(_: int) -> Any:
        item = next(items, end)
        return end if item is end else opened(item, axis)

    for block in prefetched(one, itertools.count(), depth):
        if block is end:
            return
        yield block


def promised(blocks: Any) -> tuple[Sequence[Any] | None, Iterator[Any]]:
    """Return the blocks as a sequence that can be read repeatedly, or else None and an iterator over them.

    There is a sequence for lists, for the results of a matrix's `row_blocks` and `column_blocks`, and for iterators
    over promises.

    Raises
    ------
    DataError
        There are no blocks, or the argument is not iterable.
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
        raise DataError("expected at least one block, found none", "blocks", "create a new iterator")
    return items, found


def kept_in(folder: Path, blocks: Iterable[Block], axis: Axis) -> tuple[list[Callable[[], Any]], list[Facts]]:
    """Write blocks to files as they arrive. Return promises of them, and the facts about them."""
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
    """Return targets or weights of all row blocks, concatenated; None if no block has any.

    Raises
    ------
    DataError
        Some blocks have them and others do not.
    """
    missing = [k for k, part in enumerate(parts) if part is None]
    if len(missing) == len(parts):
        return None
    if missing:
        remedy = f"pass the {what} of every block"
        raise DataError(f"expected the {what} of its rows, found none", f"block {missing[0]}", remedy)
    return np.concatenate([np.asarray(part) for part in parts])


def names_of_columns(facts: Sequence[Facts]) -> list[str] | None:
    """Return the column names of all blocks, x0, x1, ... for a block without names; None if no block has names.

    Raises
    ------
    DataError
        A name occurs twice.
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
    """Raise an error if a name occurs twice."""
    if len(set(names)) < len(names):
        seen: set[str] = set()
        name = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DataError(f"duplicate column {name!r}", "names", "give each column its own name")


def names_of_rows(facts: Sequence[Facts]) -> list[str] | None:
    """Return the column names, which must be the same in every block of rows.

    Raises
    ------
    DataError
        The columns of a block have other names, or another order.
    """
    for k, block in enumerate(facts):
        check_names(k, block.names, facts[0].names)
    return facts[0].names


def check_names(k: int, found: list[str] | None, expected: list[str] | None) -> None:
    """Raise an error if the columns of row block k differ in name or order from those of the first block."""
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
