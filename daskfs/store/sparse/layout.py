"""Which arrays hold a sparse matrix on disk, and how they are cut.

The rows are cut into blocks of 8,192. Within a block entries stand by column, in a column by row:

    X/offsets   (n_entries,) uint16     the row of each entry, within its block
    X/values    (n_entries,)            its value; there is no such array where every entry is one
    X/columns   (n_runs,) uint32        the columns that have entries in a block, ascending, block after block
    X/counts    (n_runs,) uint16        how many entries each has there
    X/blocks    (n_blocks + 1, 2) int64 the first run and the first entry of each block
    X/marks     (n_marks, 2) int64      column, and first entry, of every `RUN_CHUNK`-th run: an index of the runs
    X/lengths   (n_samples,) uint32     how many entries each row has
    ids         (n_features,) uint64    of each column, ascending, where columns are ids
    names/...                           see `daskfs.store.sparse.names`

So a column is found by few chunks, a block of rows is one stretch of each array, and columns that are nowhere in a
block (of 10^8, most are) cost nothing there.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.blocks.row_blocks import BLOCK_ROWS
from daskfs.store.chunks import n_tiles
from daskfs.store.header import SparseHeader

ENTRY_CHUNK = 1 << 15
"""Entries that are decoded together: more make columns slower to read, fewer rows."""
RUN_CHUNK = 1 << 14
CHUNKS_PER_FILE = 64
BY_BLOCKS = {"X/columns": 0, "X/counts": 0, "X/offsets": 1, "X/values": 1}
"""Arrays that are cut by blocks of rows, and in which column of X/blocks it says where."""


def column_type(n_features: int) -> np.dtype:
    """Return the type of the numbers of columns on disk."""
    return np.dtype("u4" if n_features <= 2**32 else "u8")


def index_type(length: int) -> np.dtype:
    """Return the type of the numbers of rows, or of columns, in memory: SciPy's."""
    return np.dtype(np.int32 if length < 2**31 else np.int64)


def chunk_length(name: str) -> int:
    """Return how many numbers of an array are a chunk."""
    return RUN_CHUNK if name in ("X/columns", "X/counts") else ENTRY_CHUNK


def sparse_arrays(header: SparseHeader) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """Return dtype and shape of the arrays of X, the ids and the names, by name."""
    n_samples, n_features = header.shape
    runs, entries, named = (header.n_runs,), (header.n_entries,), (header.n_names,)
    arrays: dict[str, tuple[np.dtype, tuple[int, ...]]] = {
        "X/offsets": (np.dtype("u2"), entries),
        "X/columns": (column_type(n_features), runs),
        "X/counts": (np.dtype("u2"), runs),
        "X/lengths": (np.dtype("u4"), (n_samples,)),
        "X/blocks": (np.dtype("i8"), (n_tiles(n_samples, BLOCK_ROWS) + 1, 2)),
        "X/marks": (np.dtype("i8"), (n_tiles(header.n_runs, RUN_CHUNK), 2)),
    }
    if header.values != "ones":
        arrays["X/values"] = (np.dtype(header.values), entries)
    if header.has_ids:
        arrays["ids"] = (np.dtype("u8"), (n_features,))
    if header.n_names:
        arrays["names/text"] = (np.dtype("u1"), (header.names_nbytes,))
        arrays["names/ends"] = (np.dtype("i8"), named)
        if header.n_names < n_features:
            arrays["names/columns"] = (np.dtype("i8"), named)
    return arrays
