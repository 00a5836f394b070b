"""From a sparse source to a sparse store."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daskfs import interrupts
from daskfs.cluster.workers import Workers
from daskfs.matrix.base import Progress
from daskfs.sources.constants import Constants
from daskfs.sources.parts import described
from daskfs.sources.sparse.base import SparseBlock, SparseSource
from daskfs.store.sparse.part_writer import PartWriter, WrittenRows
from daskfs.store.sparse.stretches import StretchFiles
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
    constants, writer = (
        Constants(),
        new_writer(rows, path, source, dtype, order, encoding_digest, memory_limit, progress),
    )
    with writer:
        progress.start("ingest", rows.n_samples or rows.estimate_shape()[0] or 0)
        for block in rows.sparse_blocks(MOST_ROWS, min(MOST_ENTRIES, max(1, memory_limit // 128))):
            interrupts.check()
            writer.write(block)
            constants.update_target(block)
            progress.advance(block.n_rows)
        _conclude(rows, writer, constants)
        progress.finish()


def new_writer(
    rows: SparseSource,
    path: Path,
    source: dict[str, Any],
    dtype: np.dtype,
    order: tuple[bool, int | None],
    encoding_digest: str,
    memory_limit: int,
    progress: Progress,
) -> SparseStoreWriter:
    """Return a writer of a source's store; the parameters are those of `write_sparse`."""
    return SparseStoreWriter(
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


def _conclude(rows: SparseSource, writer: SparseStoreWriter, constants: Constants) -> None:
    """Refuse what cannot be learnt from; tell the store what was seen."""
    constants.refuse_target(rows.target_names)
    constants.refuse_weights()
    writer.source["n_target_values"] = constants.target_values.count
    writer.notes += rows.notes


class EncodedPart(NamedTuple):
    """What a process tells of the part that it has written."""

    rows: WrittenRows
    blocks: list[SparseBlock]
    """Targets, weights and labels; of the entries there is nothing left."""
    facts: Any
    """For `Source.conclude`."""


def write_sparse_in_parts(
    rows: SparseSource, parts: Sequence[Any], writer: SparseStoreWriter, workers: Workers, progress: Progress
) -> None:
    """Have the parts of a source encoded, and their rows put in order, by workers; the store is the same.

    Parameters
    ----------
    rows : SparseSource
    parts : sequence
        Of `Source.parts`.
    writer : SparseStoreWriter
    workers : Workers
    progress : Progress

    Raises
    ------
    SourceError, SchemaError, DataError
        The whole is to be read, which may succeed or tells what is wrong.
    """
    constants, found = Constants(), {}
    with writer:
        progress.start("ingest", rows.n_samples or rows.estimate_shape()[0] or 0)
        shared, tasks = (rows, writer.files, writer.memory_limit), [None, *enumerate(parts)]
        for k, found[k] in workers.map_blocks(encode_part, tasks, name="ingest-encode", shared=shared):
            interrupts.check()
            progress.advance(0 if k == 0 else len(found[k].rows.lengths))
        writer.source = found.pop(0)
        encoded: list[EncodedPart] = [found[k] for k in sorted(found)]
        blocks = [block for part in encoded for block in part.blocks]
        for block in blocks:
            constants.update_target(block)
        rows.conclude([part.facts for part in encoded], sum(len(part.rows.lengths) for part in encoded))
        _conclude(rows, writer, constants)
        progress.finish()
        writer.take_written([part.rows for part in encoded], blocks, workers)


def encode_part(
    rows: SparseSource, files: StretchFiles, memory_limit: int, part: tuple[int, Any] | None
) -> EncodedPart | dict[str, Any]:
    """Encode a part where this runs, or describe the source where there is none."""
    rows = copy.copy(rows)  # it notes what it has read, and other tasks of this process read, too
    if part is None:
        return described(rows)
    number, place = part
    writer, blocks = PartWriter(files, number, memory_limit), []
    for block in rows.sparse_part_blocks(place, MOST_ROWS, min(MOST_ENTRIES, max(1, memory_limit // 96))):
        writer.write(block)
        no_entries = np.zeros(block.n_rows + 1, np.int64), np.empty(0, np.uint64), None
        blocks.append(SparseBlock(block.start, *no_entries, block.y, block.weight, block.labels))
    return EncodedPart(writer.finish(), blocks, rows.part_facts())
