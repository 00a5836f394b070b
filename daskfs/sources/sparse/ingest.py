"""From a sparse source to a sparse store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from daskfs import interrupts
from daskfs.matrix.base import Progress
from daskfs.sources.constants import Constants
from daskfs.sources.sparse.base import SparseSource
from daskfs.store.sparse.writer import SparseStoreWriter

MOST_ROWS, MOST_ENTRIES = 1 << 16, 1 << 20
"""Of a block."""


def write_sparse(
    rows: SparseSource,
    path: Path,
    source: dict[str, Any],
    dtype: np.dtype,
    order: tuple[bool, int | None],
    encoding_digest: str,
    memory_limit: int,
    progress: Progress,
) -> None:
    """Write a sparse source as a store.

    Parameters
    ----------
    rows : SparseSource
    path : Path
        Of the store.
    source : dict
        What the store says of the source.
    dtype : dtype
        Of X.
    order : tuple
        Whether rows are stored in random order, and its seed.
    encoding_digest : str
    memory_limit : int
        Bytes for all buffers together.
    progress : Progress
    """
    constants = Constants()
    writer = SparseStoreWriter(
        path,
        rows.n_features,
        dtype,
        has_ids=rows.features_are_ids,
        target_names=rows.target_names,
        has_weight=rows.has_weight,
        label_names=rows.label_names,
        shuffle=order[0],
        random_state=order[1],
        source=source,
        encoding_digest=encoding_digest,
        memory_limit=3 * memory_limit // 4,
        progress=progress,
    )
    with writer:
        progress.start("ingest", rows.n_samples or rows.estimate_shape()[0] or 0)
        for block in rows.sparse_blocks(MOST_ROWS, min(MOST_ENTRIES, max(1, memory_limit // 128))):
            interrupts.check()
            writer.write(block)
            constants.update_target(block)
            progress.advance(block.n_rows)
        constants.refuse_target(rows.target_names)
        constants.refuse_weights()
        writer.source["n_target_values"] = constants.target_values.count
        writer.notes += rows.notes
        progress.finish()
