"""Parts of a source, encoded by several processes: the same store as when one reads the whole."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from daskfs import interrupts
from daskfs.cluster.workers import Workers
from daskfs.errors import SourceError
from daskfs.sources.base import Source, SourceBlock
from daskfs.sources.constants import Constants
from daskfs.store.stretches import Stretch, StretchFiles, StretchWriter
from daskfs.store.writer import StoreWriter
from daskfs.watching.base import Progress

MAX_BLOCK_NBYTES = 32 * 2**20


class EncodedPart(NamedTuple):
    """What a process tells of the part that it has written."""

    stretches: list[Stretch]
    blocks: list[SourceBlock]
    """Targets, weights and labels; of the features there is nothing left."""
    constants: Constants
    facts: Any
    """For `Source.conclude`."""


def described(rows: Source) -> dict[str, Any]:
    """Return what a store says of its source."""
    classes = {} if rows.target_classes is None else {"target_classes": rows.target_classes}
    several = {} if rows.table_columns is None else {"table_columns": rows.table_columns}
    return {**rows.describe(), "digest": rows.digest(), **classes, **several, "encoder": rows.encoder}


def shape_of_blocks(rows: Source, dtype: np.dtype, nbytes: int) -> tuple[int, np.dtype]:
    """Return how many rows to encode at a time, and as which type, for a store of a type."""
    encoded = np.dtype(np.float32 if dtype == np.float32 else np.float64)
    row_nbytes = max(1, len(rows.feature_names) * encoded.itemsize)
    return max(1, min(nbytes, MAX_BLOCK_NBYTES) // row_nbytes), encoded


def write_in_parts(
    rows: Source, parts: Sequence[Any], writer: StoreWriter, memory_limit: int, workers: Workers, progress: Progress
) -> None:
    """Have the parts of a source encoded and written by workers.

    Parameters
    ----------
    rows : Source
    parts : sequence
        Of `Source.parts`.
    writer : StoreWriter
    memory_limit : int
        Of each process.
    workers : Workers
    progress : Progress

    Raises
    ------
    SourceError, SchemaError, DataError
        The whole is to be read, which may succeed or tells what is wrong.
    """
    constants, found = Constants(), {}
    with writer:
        files = writer.stretch_files(memory_limit // 4, workers)
        block_rows, dtype = shape_of_blocks(rows, writer.dtype, memory_limit // 8)
        progress.start("ingest", rows.n_samples or rows.estimate_shape()[0] or 0)
        shared = (rows, files, block_rows, dtype)
        tasks = [None, *enumerate(parts)]  # to describe the files is to read them all
        for k, found[k] in workers.map_blocks(encode_part, tasks, name="ingest-encode", shared=shared):
            interrupts.check()
            progress.advance(0 if k == 0 else sum(stretch.n_rows for stretch in found[k].stretches))
        writer.source = found.pop(0)
        encoded: list[EncodedPart] = [found[k] for k in sorted(found)]
        for part in encoded:
            constants.merge_features(part.constants)
            for block in part.blocks:
                constants.update_target(block)
        stretches = [stretch for part in encoded for stretch in part.stretches]
        rows.conclude([part.facts for part in encoded], sum(stretch.n_rows for stretch in stretches))
        constants.conclude(rows, writer)
        progress.finish()
        writer.write_stretches(stretches, files, [block for part in encoded for block in part.blocks])


def encode_part(
    rows: Source, files: StretchFiles, block_rows: int, dtype: np.dtype, part: tuple[int, Any] | None
) -> EncodedPart | dict[str, Any]:
    """Encode a part where this runs, or describe the source where there is none.

    Raises
    ------
    SourceError
        The files, or the store's folder, cannot be seen from here.
    """
    rows = copy.copy(rows)  # it notes what it has read, and other tasks of this process read, too
    try:
        return described(rows) if part is None else _encoded(rows, files, block_rows, dtype, *part)
    except FileNotFoundError as fault:
        raise SourceError("a worker does not see this file", str(fault.filename), "read it where it is seen") from None


def _encoded(
    rows: Source, files: StretchFiles, block_rows: int, dtype: np.dtype, number: int, place: Any
) -> EncodedPart:
    writer, constants, blocks = StretchWriter(files, number), Constants(), []
    for block in rows.part_blocks(place, block_rows, dtype):
        writer.write(block.X)
        constants.update_features(block.X)
        blocks.append(SourceBlock(block.start, np.empty((len(block.X), 0)), block.y, block.weight, block.labels))
    writer.finish()
    return EncodedPart(writer.stretches, blocks, constants, rows.part_facts())
