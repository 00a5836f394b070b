"""Encodes stored rows as blocks of columns: gathers them and sorts them by column, one group of blocks at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from daskfs.kernels.blocks.row_blocks import (
    BLOCK_ROWS,
    N_DIGITS,
    keys_of_entries,
    runs_of,
    sorted_by_column,
)
from daskfs.store.sparse.layout import column_type
from daskfs.store.sparse.sorted_runs import NO_VALUES, Rows, SortedRuns

ENTRY_NBYTES = 48
"""Maximum memory per entry while its block is gathered and sorted."""


class Group(NamedTuple):
    """Consecutive blocks of stored rows that are in memory together."""

    source_rows: np.ndarray
    """Source row of each row."""
    row_offsets: np.ndarray
    """Number of rows of each sorted run in earlier blocks; likewise `entry_offsets` for entries."""
    entry_offsets: np.ndarray


class EncodedBlock(NamedTuple):
    """The entries of a block of rows, by column."""

    columns: np.ndarray
    counts: np.ndarray
    offsets: np.ndarray
    values: np.ndarray
    """Empty if all values are 1."""


def groups_of(
    sorted_runs: SortedRuns, order: np.ndarray, lengths: np.ndarray, most_entries: int
) -> Iterator[tuple[tuple[int, int], np.ndarray, np.ndarray]]:
    """Cut the stored order into groups of complete blocks with at most `most_entries` entries, or of one block.

    Parameters
    ----------
    sorted_runs : SortedRuns
    order : int64 array of shape (n_samples,)
    lengths : array of shape (n_samples,)
        Number of entries in each row of the source.
    most_entries : int

    Yields
    ------
    tuple of int, int64 array, int64 array
        Range of the stored rows, and the offsets of `Group`.
    """
    rows, entries = np.zeros((2, len(sorted_runs.parts)), np.int64)
    start = 0
    while start < len(order):
        stop = min(start + BLOCK_ROWS, len(order))
        n_entries = int(lengths[order[start:stop]].sum(dtype=np.int64))
        while stop < len(order):
            more = int(lengths[order[stop : stop + BLOCK_ROWS]].sum(dtype=np.int64))
            if n_entries + more > most_entries:
                break
            stop, n_entries = min(stop + BLOCK_ROWS, len(order)), n_entries + more
        yield (start, stop), rows.copy(), entries.copy()
        part = order[start:stop]
        owners = sorted_runs.owners(part)
        rows += np.bincount(owners, minlength=len(rows))
        entries += np.bincount(owners, lengths[part], minlength=len(rows)).astype(np.int64)
        start = stop


def gathered(sorted_runs: SortedRuns, group: Group) -> Rows:
    """Return the rows of a group, in the stored order."""
    owners = sorted_runs.owners(group.source_rows)
    by_owner = np.argsort(owners, kind="stable")
    counts = np.bincount(owners, minlength=len(sorted_runs.parts))
    parts = [
        sorted_runs.read(k, int(group.row_offsets[k]), int(counts[k]), int(group.entry_offsets[k]))
        for k in np.flatnonzero(counts).tolist()
    ]
    rows = Rows(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    if (np.diff(by_owner) == 1).all():
        return rows
    order = np.empty(len(by_owner), np.int64)
    order[by_owner] = np.arange(len(by_owner))
    return rows.taken(order)


def encoded_blocks(rows: Rows, n_features: int) -> Iterator[EncodedBlock]:
    """Yield the blocks of a group, each sorted by column; a block is valid until the next one."""
    indptr, n_bits = rows.indptr, max(1, (n_features - 1).bit_length())
    starts = np.empty(N_DIGITS + 1, np.int64)
    for first in range(0, len(rows.lengths), BLOCK_ROWS):
        bounds = indptr[first : first + BLOCK_ROWS + 1]
        entries = slice(int(bounds[0]), int(bounds[-1]))
        features = rows.features[entries]
        keys = np.empty(len(features), np.int64)
        keys_of_entries(bounds - bounds[0], features, keys)
        values = np.array(rows.values[entries]) if len(rows.values) else NO_VALUES
        other_keys, other_values = np.empty_like(keys), np.empty_like(values)
        if sorted_by_column(keys, values, other_keys, other_values, n_bits, starts):
            keys, values = other_keys, other_values
        columns, counts = np.empty(len(keys), column_type(n_features)), np.empty(len(keys), np.uint16)
        offsets = np.empty(len(keys), np.uint16)
        n_runs = runs_of(keys, columns, counts, offsets)
        yield EncodedBlock(columns[:n_runs], counts[:n_runs], offsets, values)
