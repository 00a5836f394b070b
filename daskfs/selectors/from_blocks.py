"""`fit_blocks`: a fit of blocks that are given one after the other, of columns or of rows.

Blocks that can be read again, a list or promises of blocks, are a matrix (`daskfs.matrix.of_blocks`), and are fitted as
any matrix is: as `fit` fits the same data. Blocks of an iterator pass by once. A selector that can, takes
them so (`_fit_passing`); for the others they are written to temporary files as they come, which can be read again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from daskfs import interrupts
from daskfs.errors import DataError
from daskfs.matrix.arrays import as_column, as_names
from daskfs.matrix.base import Matrix
from daskfs.matrix.incoming import (
    Axis,
    Facts,
    all_facts,
    joined,
    kept_in,
    names_of_columns,
    names_of_rows,
    promised,
    read_ahead,
    weights_of,
)
from daskfs.matrix.names import Names
from daskfs.matrix.of_blocks import BlockMatrix
from daskfs.matrix.passing import PassingBlocks
from daskfs.matrix.streaming import MatrixBlocks
from daskfs.matrix.target import kind_of_target
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.inputs import refuse_non_finite_target


class _TakesBlocks(BaseSelector):
    """What fits of rows and of columns share."""

    _axis: ClassVar[Axis]

    @property
    def _passes_once(self) -> bool:
        """Whether blocks that pass by once are learnt from as they come."""
        return False

    def _fit_passing(self, blocks: PassingBlocks, n_expected: int | None) -> None:
        """Select while blocks pass by."""
        raise NotImplementedError

    @contextmanager
    def _again_and_again(
        self, blocks: Any, items: Sequence[Any] | None, passing: Iterator[Any], prefetch: int
    ) -> Iterator[tuple[Sequence[Any], list[Facts], Matrix | None]]:
        """Give blocks that can be read again, what each is, and the matrix that they are known to be of."""
        of = blocks.matrix if isinstance(blocks, MatrixBlocks) else None
        if items is None:
            with tempfile.TemporaryDirectory(prefix="daskfs-") as folder:
                yield *kept_in(Path(folder), read_ahead(passing, self._axis, prefetch), self._axis), None
        elif of is not None:
            kind = np.dtype(of.dtype), False
            yield items, [Facts(b - a, blocks.breadth, *kind, a, b) for a, b in blocks.pieces], of
        else:
            yield items, all_facts(items, self._axis, self.client), None

    def _fit_again_and_again(self, matrix: BlockMatrix, prefetch: int, labels: np.ndarray | None) -> None:
        matrix.read_ahead(prefetch, self.client)
        try:
            self._fit_opened(matrix)
        finally:
            matrix.close()
        if labels is not None:
            self.classes_ = labels


def _named(given: Sequence[str] | None, found: list[str] | None, n_features: int) -> Names | None:
    """Return the names that the user gives, or else those of the blocks; None where there are neither."""
    names = found if given is None else given
    return None if names is None else Names(n_features, as_names(names, n_features))


class TakesColumnBlocks(_TakesBlocks):
    """A selector that is also fitted to blocks of columns."""

    _axis = "columns"

    def fit_blocks(
        self,
        blocks: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        names: Sequence[str] | None = None,
        n_features: int | None = None,
        prefetch: int = 1,
    ) -> Any:
        """Select features of column blocks, given one after the other.

        Parameters
        ----------
        blocks : iterable
            Of blocks of consecutive columns, all rows each: `ColumnBlock`, 2-d arrays, scipy.sparse matrices,
            DataFrames; or of promises of such blocks: `dask.delayed` objects (computed on the client's workers where
            there is a client, at most ``prefetch + 1`` at once), Dask collections, functions without arguments.
            ``store.column_blocks(delayed=True)`` is such an iterable.
        y : array-like of shape (n_samples,)
            The target; by default that of the store whose blocks these are.
        sample_weight : array-like of shape (n_samples,), optional
        names : sequence of str, optional
            Of all columns; by default those of frames or of the store, else x0, x1, ...
        n_features : int, optional
            How many columns will come, where an iterator yields them and somebody knows: the ridge depends on it. By
            default as many as the first block has.
        prefetch : int
            Blocks that are fetched ahead, in a thread of their own; with 0 none.

        Returns
        -------
        self

        Raises
        ------
        DataError
            A gap, a block out of order or of another number of rows; no target; values that are not finite.

        Notes
        -----
        A list of blocks, of promises, an iterator over promises, and what a store's `column_blocks` returns can be read
        again: the answer is that of `fit` on the same columns. Promises of an unknown number of columns
        are computed once more, before the rest, to know it. Blocks of another iterator pass by once:
        `OnlineSubstitution` presents them as they come, in one epoch, and knows nothing of columns that are gone
        (``fit`` with ``n_epochs=1`` and the same `n_features` gives the same answer); with `feature_groups`, which
        blocks may cut, and by `AsyncOnlineSubstitution`, whose workers exchange columns, they are written to temporary
        files first. Memory: beside what `fit` takes, ``prefetch + 2`` blocks.
        """
        self.check_parameters()
        self._refuse_second_look("blocks come")
        items, passing = promised(blocks)
        of = blocks.matrix if isinstance(blocks, MatrixBlocks) else None
        if y is None and of is not None:
            self._settle_loss(kind_of_target(of))
            target, weight, labels = of.read_target(), of.read_weight(), None
            if target is None:
                raise DataError("expected a target, found none", "y", "pass y=")
        else:
            if y is None:
                raise DataError("requires y to be passed, but the target y is None", "y", "pass y=")
            refuse_non_finite_target(y)
            coded, labels = self._coded(y, None, is_first=True)
            target = as_column(coded, len(np.asarray(y)), "y")
            weight = weights_of(sample_weight, len(target))
        with interrupts.guard():
            if items is None and self._passes_once:
                passed = PassingBlocks(read_ahead(passing, "columns", prefetch), "columns", target, weight, names)
                try:
                    self._fit_passing(passed, n_features)
                finally:
                    passed.close()
                if labels is not None:
                    self.classes_ = labels
                return self
            with self._again_and_again(blocks, items, passing, prefetch) as (kept, facts, matrix):
                of_columns = _named(names, names_of_columns(facts), sum(block.length for block in facts))
                found = BlockMatrix(kept, "columns", facts, target, weight, of_columns, len(target), matrix)
                self._fit_again_and_again(found, prefetch, labels)
        return self


class TakesRowBlocks(_TakesBlocks):
    """A selector that is also fitted to blocks of rows."""

    _axis = "rows"

    def fit_blocks(
        self,
        blocks: Any,
        *,
        names: Sequence[str] | None = None,
        classes: Any = None,
        n_samples: int | None = None,
        prefetch: int = 1,
    ) -> Any:
        """Select features of row blocks, given one after the other, each with its target.

        Parameters
        ----------
        blocks : iterable
            Of blocks of consecutive rows: `RowBlock`, tuples ``(X, y)`` or ``(X, y, weight)`` of a 2-d array,
            scipy.sparse matrix or DataFrame and its target; or of promises of such blocks: `dask.delayed` objects
            (computed where the work runs, one at a time in each task), functions without arguments.
            ``store.row_blocks(delayed=True)`` is such an iterable.
        names : sequence of str, optional
            Of the columns; by default those of frames or of the store, else x0, x1, ...
        classes : array-like of shape (n_classes,), optional
            All labels, where an iterator yields the blocks and the first need not have them all.
        n_samples : int, optional
            How many rows will come, where an iterator yields them and somebody knows.
        prefetch : int
            Blocks that are fetched ahead, in a thread of their own; with 0 none.

        Returns
        -------
        self

        Raises
        ------
        DataError
            A gap, a block out of order or of another number of columns, without its target; values that are not
            finite; a label that the first blocks did not have.

        Notes
        -----
        A list of blocks, of promises, an iterator over promises, and what a store's `row_blocks` returns can be read
        again: the answer is that of `fit` on the same rows (arrays in memory are permuted; promises, as a
        store, are taken as they stand, with a warning). Promises of other blocks than a store's are computed once more,
        before the rest, for their number of rows and their targets. Blocks of another iterator pass by once: `Mission`
        learns from them as they come, without a refit, as `partial_fit` does; `Message`, which asks its subsets twice,
        writes them to temporary files first, and its subsets are as many rows as are asked for, as they came.
        """
        self.check_parameters()
        self._refuse_second_look("blocks come")
        items, passing = promised(blocks)
        labels = None if classes is None else np.unique(classes)
        with interrupts.guard():
            if items is None and self._passes_once:
                self._fit_rows_passing(passing, names, labels, n_samples, prefetch)
                return self
            with self._again_and_again(blocks, items, passing, prefetch) as (kept, facts, matrix):
                target, weight, labels = self._target_of(facts, matrix, labels)
                of_columns = _named(names, names_of_rows(facts), facts[0].breadth)
                found = BlockMatrix(kept, "rows", facts, target, weight, of_columns, None, matrix)
                self._fit_again_and_again(found, prefetch, labels)
        return self

    def _target_of(
        self, facts: list[Facts], matrix: Matrix | None, labels: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Return target, weights and labels of all rows."""
        if matrix is not None:
            self._settle_loss(kind_of_target(matrix))
            target = matrix.read_target()
            if target is None:
                raise DataError("expected a target, found none", "y", "give the store one")
            return target, matrix.read_weight(), None
        y = joined([block.y for block in facts], "target")
        if y is None:
            raise DataError("requires y to be passed, but the target y is None", "block 0", "pass (X, y) tuples")
        refuse_non_finite_target(y)
        coded, labels = self._coded(y, labels, is_first=True)
        target = as_column(coded, sum(block.length for block in facts), "y")
        weight = joined([block.weight for block in facts], "weight")
        return target, weights_of(weight, len(target)), labels

    def _fit_rows_passing(
        self,
        passing: Iterator[Any],
        names: Sequence[str] | None,
        labels: np.ndarray | None,
        n_samples: int | None,
        prefetch: int,
    ) -> None:
        """Learn from row blocks as they come."""
        raise NotImplementedError
