"""Rows of a sparse source that is read only once: entries by 64-bit ids or column numbers, without a store."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from daskfs import errors
from daskfs.matrix.blocks import Rows, SparseRows
from daskfs.matrix.names import Names
from daskfs.matrix.passing import Passing
from daskfs.sources.sparse.base import BlockNames, NamedIds, SparseBlock, SparseSource

DataError = errors.DataError.about("streams")

BLOCK_ROWS, BLOCK_NNZ = 4096, 1 << 20
"""Rows and entries of a source that are read at once."""
MOST_IDS = 2**63
"""Number of possible features if these are ids."""


class PassingEntries(Passing):
    """Rows as sparse entries, from blocks of a source.

    Parameters
    ----------
    blocks : generator of SparseBlock
    source : SparseSource
        The source of the blocks.
    n_before : int
        Number of the first row.
    """

    def __init__(self, blocks: Generator[SparseBlock, None, None], source: SparseSource, n_before: int = 0) -> None:
        n_features = None if source.features_are_ids else source.n_features
        self._blocks, self._source, self._n_features = blocks, source, n_features or MOST_IDS
        self._window: list[tuple[int, int, SparseBlock]] = []
        self._n_rows = n_before
        self.dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Number of rows so far, and of possible features."""
        return self._n_rows, self._n_features

    @property
    def names(self) -> Names:
        """Names of features: their numbers."""
        return Names(min(self._n_features, MOST_IDS - 1))

    def reach(self, stop: int) -> int:
        """Wait until there are `stop` rows, or no more; return how many there are."""
        while self._n_rows < stop and (block := next(self._blocks, None)) is not None:
            self._window.append((self._n_rows, self._n_rows + block.n_rows, block))
            self._n_rows += block.n_rows
        return min(stop, self._n_rows)

    def _overlapping(self, rows: Rows) -> list[tuple[SparseBlock, int, int]]:
        start, stop = (rows.start or 0, rows.stop) if isinstance(rows, slice) else (int(rows[0]), int(rows[-1]) + 1)
        stop = self._n_rows if stop is None else stop
        if not self.holds:
            while self._window and self._window[0][1] <= start:
                self._window.pop(0)
        return [
            (block, max(start - first, 0), min(stop, last) - first)
            for first, last, block in self._window
            if first < stop and start < last
        ]

    def sparse_rows(self, rows: Rows) -> SparseRows:
        """Return the entries of consecutive rows."""
        lengths, features, data = [np.zeros(1, np.int64)], [], []
        for block, first, last in self._overlapping(rows):
            entries = slice(int(block.indptr[first]), int(block.indptr[last]))
            lengths.append(np.diff(block.indptr[first : last + 1]))
            features.append(block.features[entries])
            n = entries.stop - entries.start
            data.append(np.ones(n, np.float32) if block.data is None else block.data[entries])
        none = np.empty(0, np.uint64), np.empty(0, np.float32)
        found = [
            parts[0] if len(parts) == 1 else np.concatenate([empty, *parts])
            for parts, empty in zip((features, data), none, strict=True)
        ]
        return SparseRows(np.cumsum(np.concatenate(lengths)), *found)

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray:
        """Return the targets of consecutive rows."""
        parts = [block.y[first:last] for block, first, last in self._overlapping(rows) if block.y is not None]
        return np.concatenate([np.empty(0), *parts])

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the weights of consecutive rows; None if all are equal."""
        found = self._overlapping(rows)
        if all(block.weight is None for block, _, _ in found):
            return None
        parts = [
            np.ones(last - first) if block.weight is None else block.weight[first:last] for block, first, last in found
        ]
        return np.concatenate(parts)

    def names_in(self, rows: slice) -> Iterator[BlockNames]:
        """Yield the names in the blocks of these rows, unless ids encode the names."""
        found = [] if self._source.ids_say_names else self._overlapping(rows)
        return (block.names.of_rows(first, last) for block, first, last in found if block.names is not None)

    def names_of(self, ids: np.ndarray) -> NamedIds | None:
        """Return the names of ids that encode them."""
        return self._source.names_of(ids) if self._source.ids_say_names else None

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Raise: rows with so many columns are never dense."""
        raise DataError("rows of a sparse stream cannot be read as dense rows", "fit", "create a store from the source")

    def close(self) -> None:
        """Stop reading."""
        self._window.clear()
        self._blocks.close()


def linear_predictor(
    block: SparseBlock, ids: np.ndarray, coef: np.ndarray, intercept: np.ndarray | float
) -> np.ndarray:
    """Return ``X @ coef + intercept`` for the rows of a block whose features are ids.

    Parameters
    ----------
    block : SparseBlock
    ids : ndarray of shape (n_selected,), uint64
    coef : ndarray of shape (n_selected,) or (n_classes, n_selected)
    intercept : float, or ndarray of shape (n_classes,)
    """
    order = np.argsort(ids)
    sorted_ids, n_rows = ids[order], block.n_rows
    place = np.minimum(np.searchsorted(sorted_ids, block.features), max(len(ids) - 1, 0))
    is_known = sorted_ids[place] == block.features if len(ids) else np.zeros(len(place), bool)
    rows = np.repeat(np.arange(n_rows), np.diff(block.indptr))[is_known]
    values = np.ones(len(rows)) if block.data is None else block.data[is_known].astype(np.float64)
    columns = order[place[is_known]]
    if coef.ndim == 1:
        return np.bincount(rows, coef[columns] * values, minlength=n_rows) + intercept
    of_classes = [np.bincount(rows, one[columns] * values, minlength=n_rows) for one in coef]
    return np.column_stack(of_classes) + intercept


def rows_of(block: SparseBlock, is_kept: np.ndarray) -> SparseBlock:
    """Return some rows of a block."""
    if is_kept.all():
        return block
    lengths = np.diff(block.indptr)
    entries = np.repeat(is_kept, lengths)
    return SparseBlock(
        block.start,
        np.concatenate([[0], np.cumsum(lengths[is_kept])]),
        block.features[entries],
        None if block.data is None else block.data[entries],
        None if block.y is None else block.y[is_kept],
        None if block.weight is None else block.weight[is_kept],
        {name: texts[is_kept] for name, texts in block.labels.items()},
        None if block.names is None else _NamesOfRows(block.names, np.flatnonzero(is_kept)),
    )


def behind(blocks: Iterator[SparseBlock], n_rows: int) -> Iterator[SparseBlock]:
    """Yield the blocks without the first `n_rows` rows."""
    for block in blocks:
        if n_rows < block.n_rows:
            yield rows_of(block, np.arange(block.n_rows) >= n_rows)
        n_rows = max(n_rows - block.n_rows, 0)


class _NamesOfRows:
    """The names in a block of which some rows were left out."""

    def __init__(self, names: BlockNames, rows: np.ndarray) -> None:
        self._names, self._rows = names, rows

    @property
    def ids(self) -> np.ndarray:
        """Ids of all names."""
        return self._names.ids

    @property
    def text(self) -> np.ndarray:
        """The names, one after the other."""
        return self._names.text

    @property
    def offsets(self) -> np.ndarray:
        """Start of each name, and the end of the last."""
        return self._names.offsets

    def among(self, wanted: np.ndarray) -> NamedIds:
        """Return the names of wanted ids, and possibly others."""
        return self._names.among(wanted)

    def of_rows(self, first: int, stop: int) -> BlockNames:
        """Return the names of some of the remaining rows, and of the rows between them."""
        if first == stop:
            return self._names.of_rows(0, 0)
        return self._names.of_rows(int(self._rows[first]), int(self._rows[stop - 1]) + 1)
