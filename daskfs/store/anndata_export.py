"""Writes a store as an AnnData store: a sparse matrix as compressed rows, which every reader of AnnData knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import interrupts
from daskfs.kernels.blocks.row_blocks import BLOCK_ROWS
from daskfs.matrix.base import Matrix
from daskfs.store.sparse.layout import index_type
from daskfs.store.sparse.vectors import VectorWriter
from daskfs.store.tables import Tables, consolidate, facts_of
from daskfs.store.unfinished import UnfinishedStore, explained_disk_full
from daskfs.watching.base import Progress

_BLOCK_NBYTES = 2**26


def export_matrix(
    matrix: Matrix,
    n_entries: int | None,
    tables: Tables,
    arrays: Mapping[str, np.ndarray],
    tile_shape: tuple[int, int],
    path: Path,
    progress: Progress,
) -> None:
    """Write a matrix as an AnnData store; see `FeatureStore.export`.

    Parameters
    ----------
    matrix : Matrix
    n_entries : int or None
        Number of entries of a sparse matrix; None: dense.
    tables : Tables
    arrays : mapping of str to ndarray
        The arrays of the tables, by their names in stores of format 1.
    tile_shape : tuple of int
        Rows and columns of a chunk of a dense matrix.
    path : Path
        Nothing may exist there.
    progress : Progress
    """
    site = UnfinishedStore(path)
    try:
        with explained_disk_full(str(path)):
            group = site.new_group()
            progress.start("export", matrix.shape[0])
            if n_entries is None:
                _write_values(matrix, group, tile_shape, progress)
            else:
                _write_entries(matrix, n_entries, group, site.folder, progress)
            tables.write(group, arrays)
            consolidate(site.folder)
            site.finish()
            progress.finish()
    except BaseException:
        with interrupts.held():
            site.remove()
        raise


def _write_entries(matrix: Matrix, n_entries: int, group: Any, folder: Path, progress: Progress) -> None:
    n_samples, n_features = matrix.shape
    facts = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [n_samples, n_features]}
    with interrupts.held():  # Zarr writes in a thread of its own
        group.create_group("X", attributes=facts)
    # one integer type for both, as SciPy requires
    integers = index_type(max(n_entries, n_samples, n_features))
    indices, data = VectorWriter(folder, "X/indices", integers), VectorWriter(folder, "X/data", matrix.dtype)
    indptr = VectorWriter(folder, "X/indptr", integers)
    indptr.append(np.zeros(1, integers))
    for start in range(0, n_samples, BLOCK_ROWS):
        interrupts.check()
        rows = matrix.sparse_rows(slice(start, min(start + BLOCK_ROWS, n_samples)))
        assert rows is not None
        indptr.append(indices.length + rows.indptr[1:])
        indices.append(rows.indices)
        data.append(rows.data)
        progress.advance(len(rows.indptr) - 1)
    for vector in (indptr, indices, data):
        vector.close(group)


def _write_values(matrix: Matrix, group: Any, tile_shape: tuple[int, int], progress: Progress) -> None:
    n_samples, n_features = matrix.shape
    n_rows, n_columns = tile_shape
    with interrupts.held():  # Zarr writes in a thread of its own
        array = group.create_array(
            "X", shape=matrix.shape, chunks=tile_shape, dtype=matrix.dtype, **facts_of("X", matrix.dtype, 2)
        )
    n_columns *= max(1, _BLOCK_NBYTES // (n_rows * n_columns * matrix.dtype.itemsize))
    for start in range(0, n_samples, n_rows):
        rows = slice(start, min(start + n_rows, n_samples))
        for first in range(0, n_features, n_columns):
            columns = slice(first, min(first + n_columns, n_features))
            block = matrix.read(rows, columns)
            with interrupts.held():
                array[rows, columns] = block
        progress.advance(rows.stop - rows.start)
