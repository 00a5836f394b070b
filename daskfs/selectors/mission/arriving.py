"""Rows as they arrive, from an iterator over row blocks or from a sparse source, with labels as codes.

The first rows settle the loss, which says how targets are coded: see `daskfs.selectors.opening` for data in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import Any, Self

import numpy as np

from daskfs import errors
from daskfs.losses import Loss
from daskfs.matrix.arrays import as_column
from daskfs.matrix.incoming import read_ahead, weights_of
from daskfs.matrix.passing import Passing, PassingBlocks
from daskfs.matrix.streaming import prefetched
from daskfs.selectors.inputs import refuse_non_finite_target
from daskfs.selectors.mission.entries import BLOCK_NNZ, BLOCK_ROWS, PassingEntries, behind, rows_of
from daskfs.selectors.mission.plan import SURVEY_ROWS, n_surveyed
from daskfs.selectors.opening import coded
from daskfs.sources.sparse.base import SparseBlock, SparseSource

DataError = errors.DataError.about("streams")


class Arriving:
    """Blocks of rows that come once: `first_target` settles the loss, then they are `rows` to learn from.

    Parameters
    ----------
    blocks : iterator of Block or SparseBlock
    as_matrix : callable
        Returns a matrix of blocks with numbers as targets, which it is given as a generator.
    """

    def __init__(self, blocks: Iterator[Any], as_matrix: Callable[..., Passing]) -> None:
        self._blocks, self._as_matrix = blocks, as_matrix

    @classmethod
    def from_blocks(cls, passing: Iterator[Any], names: Sequence[str] | None, prefetch: int) -> Self:
        """Return the rows of blocks that the user's iterator yields."""
        return cls(read_ahead(passing, "rows", prefetch), partial(PassingBlocks, axis="rows", names=names))

    @classmethod
    def from_source(
        cls, source: SparseSource, keep: Callable[[SparseBlock], np.ndarray] | None = None, n_seen: int = 0
    ) -> Self:
        """Return rows of a source, or those that `keep` selects, after the first `n_seen`. One block is read ahead."""
        blocks = source.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ)
        if keep is not None:
            blocks = (part for block in blocks if (part := rows_of(block, keep(block))).n_rows)
        blocks = behind(blocks, n_seen)
        ahead = prefetched(lambda _: next(blocks, None), repeat(None), 1, source.leave_off)
        return cls(iter(ahead.__next__, None), partial(PassingEntries, source=source, n_before=n_seen))

    @classmethod
    def at_start(cls, source: SparseSource) -> Self:
        """Return the first rows of a source, whose parts are read in tasks."""
        return cls(source.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ), partial(PassingEntries, source=source))

    def first_target(self) -> np.ndarray:
        """Wait for enough rows for a survey, and return their targets.

        Raises
        ------
        DataError
            There are no rows, or they have no target.
        """
        first, n_rows, n_wanted = list[Any](), 0, 1
        while n_rows < n_wanted and (block := next(self._blocks, None)) is not None:
            if block.y is None:
                raise DataError("expected the target of its rows, found none", f"block {len(first)}", "pass (X, y)")
            first.append(block)
            n_rows += len(np.asarray(block.y))
            is_sparse = isinstance(block, SparseBlock) or block.is_sparse
            n_wanted = SURVEY_ROWS if is_sparse else n_surveyed(block.X.shape[1], is_sparse=False)
        if not first:
            raise DataError("expected rows, found none", "fit", "check the source")
        self._blocks = chain(first, self._blocks)
        y = np.concatenate([np.asarray(block.y) for block in first])
        refuse_non_finite_target(y)
        return y[:n_wanted]

    def rows(self, loss: Loss, labels: np.ndarray | None) -> Passing:
        """Return the rows as a matrix, with checked weights, and a classifier's labels as codes."""
        return self._as_matrix(_with_codes(block, loss, labels) for block in self._blocks)


def _with_codes(block: Any, loss: Loss, labels: np.ndarray | None) -> Any:
    y, _ = coded(block.y, loss, labels)
    return replace(block, y=as_column(y, block.n_rows, "y"), weight=weights_of(block.weight, block.n_rows))
