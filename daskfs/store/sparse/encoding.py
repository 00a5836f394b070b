"""Encodes stored rows as blocks of columns: sorts them by column, one group of blocks at a time."""

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
from daskfs.store.sparse.entry_runs import NO_VALUES, Rows
from daskfs.store.sparse.layout import column_type

ENTRY_NBYTES = 48
"""Maximum memory per entry while its block is gathered and sorted."""


class EncodedBlock(NamedTuple):
    """The entries of a block of rows, by column."""

    columns: np.ndarray
    counts: np.ndarray
    offsets: np.ndarray
    values: np.ndarray
    """Empty if all values are 1."""


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
