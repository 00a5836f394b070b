"""The arrays of a sparse matrix on disk, and how they are divided.

The rows are divided into blocks of 8,192. Within a block, entries are sorted by column, then by row:

    X/offsets   (n_entries,) uint16     the row of each entry, within its block
    X/values    (n_entries,)            its value; absent if all values are 1
    X/columns   (n_runs,) uint32        the columns with entries in a block, ascending, block by block
    X/counts    (n_runs,) uint16        number of entries in each of these
    X/blocks    (n_blocks + 1, 2) int64 the first run and the first entry of each block
    X/marks     (n_marks, 2) int64      column and first entry of every `RUN_CHUNK`-th run: an index of the runs
    X/lengths   (n_samples,) uint32     number of entries in each row
    ids         (n_features,) uint64    id of each column, ascending, if columns are ids
    names/...                           see `daskfs.store.sparse.names`

A column is thus found with few chunks, a block of rows is a contiguous range of each array, and columns without
entries in a block (most of 10^8 columns) take no space there.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.blocks.row_blocks import BLOCK_ROWS
from daskfs.store.header import SparseHeader
from daskfs.store.layout import n_tiles

ENTRY_CHUNK = 1 << 15
"""Number of entries decoded together: more would slow down reading columns, fewer would slow down reading rows."""
RUN_CHUNK = 1 << 14
CHUNKS_PER_FILE = 64
BY_BLOCKS = {"X/columns": 0, "X/counts": 0, "X/offsets": 1, "X/values": 1}
"""Arrays that are divided by blocks of rows -> the column of X/blocks with their offsets."""


def column_type(n_features: int) -> np.dtype:
    """Return the dtype of column numbers on disk."""
    return np.dtype("u4" if n_features <= 2**32 else "u8")


def index_type(length: int) -> np.dtype:
    """Return the dtype of row or column numbers in memory, as in SciPy."""
    return np.dtype(np.int32 if length < 2**31 else np.int64)


def chunk_length(name: str) -> int:
    """Return the number of elements in a chunk of an array."""
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
