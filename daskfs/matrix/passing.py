"""Blocks that can be read once, as a matrix: each is taken as it arrives and released when later ones are read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.matrix.incoming import Axis, Block, Order, check_names
from daskfs.matrix.names import Names
from daskfs.matrix.of_blocks import OfBlocks, n_of

DataError = errors.DataError.about("shapes")


class Passing(Matrix):
    """Rows (columns) that can be read once: earlier ones than those read last are gone, unless they are held."""

    holds = False
    """Whether blocks that were read are held."""

    @abstractmethod
    def reach(self, stop: int) -> int:
        """Wait until `stop` rows (columns) have arrived, or the end. Return how many of them there are."""

    def close(self) -> None:
        """Stop reading."""

    def names_in(self, rows: slice) -> Iterable[Any]:
        """Yield what the blocks of these rows know about feature names."""
        return ()

    def names_of(self, ids: np.ndarray) -> Any:
        """Return the names that the ids themselves give; None if the blocks give names, or there are none."""
        return None


class PassingBlocks(OfBlocks, Passing):
    """A matrix of blocks that can be read once. Rows (columns) can be read until later ones are requested.

    Parameters
    ----------
    blocks : generator of Block
    axis : {"rows", "columns"}
    y, weight : ndarray of shape (n_samples,), optional
        For column blocks; row blocks have their own.
    names : Names, optional
        Names of all columns; by default those of the blocks.

    Notes
    -----
    `shape` gives the number of rows (columns) that have arrived; `reach` requests more.
    """

    def __init__(
        self,
        blocks: Generator[Block, None, None],
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
        first = next(self._blocks, None)
        if first is None:
            raise DataError("expected at least one block, found none", "blocks", "create a new iterator")
        self.dtype, self._is_sparse = np.dtype(first.X.dtype), first.is_sparse
        self._take(first)

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and columns that have arrived."""
        so_far, breadth = self._order.position, self._order.breadth or 0
        return (so_far, breadth) if self.axis == "rows" else (breadth, so_far)

    def reach(self, stop: int) -> int:
        """Read blocks until `stop` rows (columns) have arrived, or the end. Return how many of them there are."""
        while self._order.position < stop:
            block = next(self._blocks, None)
            if block is None:
                break
            self._take(block)
        return min(stop, self._order.position)

    def _take(self, block: Block) -> None:
        k, along = self._order.n_blocks, self._order.take(block.facts(self.axis))
        if k and block.X.dtype != self.dtype and not np.can_cast(block.X.dtype, self.dtype):
            problem = f"expected {self.dtype} as in the first block, or a dtype that fits, found {block.X.dtype}"
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
        """Stop reading blocks."""
        self._window.clear()
        self._blocks.close()

    @property
    def names(self) -> Names:
        """Names of the columns that have arrived."""
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
        """Release blocks before a row (column). Raise an error if that row was already released."""
        if self._window and start < self._window[0][0]:
            noun = self.axis
            problem = f"{noun} from {start} on were already read: an iterator can be read only once"
            raise DataError(problem, "fit_blocks", "pass a list")
        if not self.holds:
            while self._window and self._window[0][1] <= start:
                self._window.pop(0)

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows]: given with column blocks, taken from the blocks with row blocks."""
        if self.axis == "columns":
            return None if self._y is None else self._y[rows]
        return self._brought(rows, [(block.y, here, there) for block, here, there in self._blocks_of(rows)])

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of the rows, or None."""
        if self.axis == "columns":
            return None if self._weight is None else self._weight[rows]
        return self._brought(rows, [(block.weight, here, there) for block, here, there in self._blocks_of(rows)])

    def _brought(self, rows: Rows, parts: list[tuple[np.ndarray | None, Rows, Rows]]) -> np.ndarray | None:
        """Return the values of the blocks, 1 for blocks without; None if no block has any."""
        if all(values is None for values, _, _ in parts):
            return None
        out = np.ones(n_of(rows, self.shape[0]))
        for values, here, there in parts:
            if values is not None:
                out[there] = values[here]
        return out

    @property
    def _has_entries(self) -> bool:
        return self._is_sparse and self.axis == "rows"

    def __repr__(self) -> str:
        return f"<PassingBlocks: {self.shape[0]:,} x {self.shape[1]:,} {self.dtype} so far>"
