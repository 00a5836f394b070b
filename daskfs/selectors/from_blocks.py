"""`fit_blocks`: a fit to blocks of columns or rows, given one after the other.

Blocks that can be read again (a list, or delayed blocks) become a matrix (`daskfs.matrix.of_blocks`), and the fit is
that of `fit` on the same data. Blocks of an iterator can be read only once. Some selectors process them as they arrive
(`_fit_passing`); for the others they are written to temporary files, which can be read again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from daskfs import errors, interrupts
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

DataError = errors.DataError.about("shapes")


@contextmanager
def _again_and_again(
    blocks: Any, items: Sequence[Any] | None, passing: Iterator[Any], prefetch: int, axis: Axis, client: Any
) -> Iterator[tuple[Sequence[Any], list[Facts], Matrix | None]]:
    """Yield blocks that can be read again, the facts about each, and the matrix that they belong to, if known."""
    of = blocks.matrix if isinstance(blocks, MatrixBlocks) else None
    if items is None:
        with tempfile.TemporaryDirectory(prefix="daskfs-") as folder:
            yield *kept_in(Path(folder), read_ahead(passing, axis, prefetch), axis), None
    elif of is not None:
        kind = np.dtype(of.dtype), False
        yield items, [Facts(b - a, blocks.breadth, *kind, a, b) for a, b in blocks.pieces], of
    else:
        yield items, all_facts(items, axis, client), None


def _named(given: Sequence[str] | None, found: list[str] | None, n_features: int) -> Names | None:
    """Return the names given by the user, or else those of the blocks; None if there are neither."""
    names = found if given is None else given
    return None if names is None else Names(n_features, as_names(names, n_features))


class TakesColumnBlocks(BaseSelector):
    """A selector that can also be fitted to blocks of columns."""

    @property
    def _passes_once(self) -> bool:
        """Whether blocks that can be read only once are processed as they arrive, by `_fit_passing`."""
        return False

    def _fit_passing(self, blocks: PassingBlocks, n_expected: int | None) -> None:
        """Select while blocks arrive."""
        raise NotImplementedError

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
            Blocks of consecutive columns, each with all rows: `ColumnBlock`, 2-d arrays, scipy.sparse matrices,
            DataFrames. They may be delayed: `dask.delayed` objects (computed on the client's workers if there is a
            client, at most ``prefetch + 1`` at once), Dask collections, or functions without arguments that return a
            block. ``store.column_blocks(delayed=True)`` is such an iterable.
        y : array-like of shape (n_samples,)
            The target. Default: that of the store, if the blocks come from a store.
        sample_weight : array-like of shape (n_samples,), optional
        names : sequence of str, optional
            Names of all columns. Default: those of frames or of the store, else x0, x1, ...
        n_features : int, optional
            Total number of columns, if an iterator yields the blocks and the number is known: the ridge depends on it.
            Default: that of the first block.
        prefetch : int
            Number of blocks that are prefetched in a thread; 0: none.

        Returns
        -------
        self

        Raises
        ------
        DataError
            A gap, a block out of order or with a different number of rows, no target, or values that are not finite.

        Notes
        -----
        A list of blocks or delayed blocks, an iterator over delayed blocks, and the result of a store's `column_blocks`
        can be read again: the fit is that of `fit` on the same columns. Delayed blocks of unknown width are computed
        once more, in advance, to count their columns. Blocks of other iterators can be read only once.
        `OnlineSubstitution` presents them as they arrive, in one epoch, and cannot return to earlier columns (``fit``
        with ``n_epochs=1`` and the same `n_features` gives the same result). With `feature_groups`, which may span
        blocks, and for `AsyncOnlineSubstitution`, whose workers exchange columns, they are written to temporary files
        first. Memory: that of `fit`, and ``prefetch + 2`` blocks.
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
            coded, labels = self._coded(y, None)
            target = as_column(coded, len(np.asarray(y)), "y")
            weight = weights_of(sample_weight, len(target))
        with interrupts.guard():
            if items is None and self._passes_once:
                arriving = read_ahead(passing, "columns", prefetch)
                with closing(PassingBlocks(arriving, "columns", target, weight, names)) as passed:
                    self._fit_passing(passed, n_features)
            else:
                with _again_and_again(blocks, items, passing, prefetch, "columns", self.client) as again:
                    kept, facts, matrix = again
                    of_columns = _named(names, names_of_columns(facts), sum(block.length for block in facts))
                    found = BlockMatrix(kept, "columns", facts, target, weight, of_columns, len(target), matrix)
                    found.read_ahead(prefetch, self.client)
                    with closing(found):
                        self._fit_opened(found)
        self._label_classes(labels)
        return self


class TakesRowBlocks(BaseSelector):
    """A selector that can also be fitted to blocks of rows."""

    _passes_once: ClassVar[bool] = False
    """Whether blocks that can be read only once are processed as they arrive, by `_fit_rows_passing`."""

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
            Blocks of consecutive rows: `RowBlock`, or tuples ``(X, y)`` or ``(X, y, weight)`` where X is a 2-d array,
            scipy.sparse matrix or DataFrame. They may be delayed: `dask.delayed` objects (computed where the tasks run,
            one at a time in each task), or functions without arguments that return a block.
            ``store.row_blocks(delayed=True)`` is such an iterable.
        names : sequence of str, optional
            Names of the columns. Default: those of frames or of the store, else x0, x1, ...
        classes : array-like of shape (n_classes,), optional
            All class labels, if an iterator yields the blocks and some may be missing in the first ones.
        n_samples : int, optional
            Total number of rows, if an iterator yields the blocks and the number is known.
        prefetch : int
            Number of blocks that are prefetched in a thread; 0: none.

        Returns
        -------
        self

        Raises
        ------
        DataError
            A gap, a block out of order, with a different number of columns, or without its target; values that are not
            finite; a label that the first blocks did not have.

        Notes
        -----
        A list of blocks or delayed blocks, an iterator over delayed blocks, and the result of a store's `row_blocks`
        can be read again: the fit is that of `fit` on the same rows. (Arrays in memory are permuted; delayed blocks,
        like a store, are used in their order, with a warning.) Delayed blocks that do not come from a store are
        computed once more, in advance, for their number of rows and their targets. Blocks of other iterators can be
        read only once. `Mission` learns from them as they arrive, without a refit, like `partial_fit`. `Message`, which
        uses its subsets twice, writes them to temporary files first; its subsets are consecutive rows in the order of
        arrival.
        """
        self.check_parameters()
        self._refuse_second_look("blocks come")
        items, passing = promised(blocks)
        labels = None if classes is None else np.unique(classes)
        with interrupts.guard():
            if items is None and self._passes_once:
                self._fit_rows_passing(passing, names, labels, n_samples, prefetch)
                return self
            with _again_and_again(blocks, items, passing, prefetch, "rows", self.client) as (kept, facts, matrix):
                target, weight, labels = self._target_of(facts, matrix, labels)
                of_columns = _named(names, names_of_rows(facts), facts[0].breadth)
                found = BlockMatrix(kept, "rows", facts, target, weight, of_columns, None, matrix)
                found.read_ahead(prefetch, self.client)
                with closing(found):
                    self._fit_opened(found)
        self._label_classes(labels)
        return self

    def _target_of(
        self, facts: list[Facts], matrix: Matrix | None, labels: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Return target, weights and labels of all rows."""
        if matrix is not None:
            self._settle_loss(kind_of_target(matrix))
            target = matrix.read_target()
            if target is None:
                raise DataError("expected a target, found none", "y", "ingest the store with a target")
            return target, matrix.read_weight(), None
        y = joined([block.y for block in facts], "target")
        if y is None:
            raise DataError("requires y to be passed, but the target y is None", "block 0", "pass (X, y) tuples")
        refuse_non_finite_target(y)
        coded, labels = self._coded(y, labels)
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
        """Learn from row blocks as they arrive."""
        raise NotImplementedError
