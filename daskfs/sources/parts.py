"""Parts of a source, encoded by several processes into the same store that a single process would write."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from daskfs import interrupts
from daskfs.cluster.workers import Workers
from daskfs.sources.base import Source, SourceBlock, attempted, until_fault
from daskfs.sources.constants import Constants
from daskfs.store.sorted_runs import SortedRun, SortedRunFiles, SortedRunWriter
from daskfs.store.writer import StoreWriter
from daskfs.watching.base import Progress

MAX_BLOCK_NBYTES = 32 * 2**20


class EncodedPart(NamedTuple):
    """Report of a process on the part that it has written."""

    sorted_runs: list[SortedRun]
    blocks: list[SourceBlock]
    """Targets, weights and labels, without features."""
    constants: Constants
    facts: Any
    """Argument of `Source.conclude`."""


def described(rows: Source) -> dict[str, Any]:
    """Return the description of a source that a store keeps."""
    classes = {} if rows.target_classes is None else {"target_classes": rows.target_classes}
    several = {} if rows.table_columns is None else {"table_columns": rows.table_columns}
    return {**rows.describe(), "digest": rows.digest(), **classes, **several, "encoder": rows.encoder}


def shape_of_blocks(rows: Source, dtype: np.dtype, nbytes: int) -> tuple[int, np.dtype]:
    """Return the number of rows to encode at a time, and the dtype to encode them in, for a store's dtype."""
    encoded = np.dtype(np.float32 if dtype == np.float32 else np.float64)
    row_nbytes = max(1, len(rows.feature_names) * encoded.itemsize)
    return max(1, min(nbytes, MAX_BLOCK_NBYTES) // row_nbytes), encoded


def write_in_parts(
    rows: Source, parts: Sequence[Any], writer: StoreWriter, memory_limit: int, workers: Workers, progress: Progress
) -> None:
    """Let workers encode and write the parts of a source.

    Parameters
    ----------
    rows : Source
    parts : sequence
        From `Source.parts`.
    writer : StoreWriter
    memory_limit : int
        Bytes for each process.
    workers : Workers
    progress : Progress

    Raises
    ------
    NotInPartsError
        The source must be read as a whole.
    SourceError, SchemaError, DataError
        With the place.
    """
    constants, found = Constants(), {}
    with writer:
        files = writer.sorted_run_files(memory_limit // 4, workers)
        block_rows, dtype = shape_of_blocks(rows, writer.dtype, memory_limit // 8)
        progress.start("ingest", rows.n_samples or rows.estimate_shape()[0] or 0)
        shared = (rows, files, block_rows, dtype)
        tasks = [None, *enumerate(parts)]  # None: describe the source, which reads all files
        results = workers.map_blocks(encode_part, tasks, name="ingest-encode", shared=shared)
        for k, found[k] in until_fault(rows, results, first=1):
            interrupts.check()
            progress.advance(0 if k == 0 else sum(sorted_run.n_rows for sorted_run in found[k].sorted_runs))
        writer.source = found.pop(0)
        encoded: list[EncodedPart] = [found[k] for k in sorted(found)]
        for part in encoded:
            constants.merge_features(part.constants)
            for block in part.blocks:
                constants.update_target(block)
        sorted_runs = [sorted_run for part in encoded for sorted_run in part.sorted_runs]
        rows.conclude([part.facts for part in encoded], sum(sorted_run.n_rows for sorted_run in sorted_runs))
        constants.conclude(rows, writer)
        progress.finish()
        writer.write_sorted_runs(sorted_runs, files, [block for part in encoded for block in part.blocks])


def encode_part(
    rows: Source, files: SortedRunFiles, block_rows: int, dtype: np.dtype, part: tuple[int, Any] | None
) -> EncodedPart | dict[str, Any]:
    """Encode a part on a worker, or describe the source if `part` is None.

    An error of the source is returned, for `until_fault`.
    """
    rows = copy.copy(rows)  # it keeps notes on what it reads, and is shared by this process's tasks
    if part is None:
        return attempted(described, rows)
    return attempted(_encoded, rows, files, block_rows, dtype, *part)


def _encoded(
    rows: Source, files: SortedRunFiles, block_rows: int, dtype: np.dtype, number: int, place: Any
) -> EncodedPart:
    writer, constants, blocks = SortedRunWriter(files, number), Constants(), []
    for block in rows.part_blocks(place, block_rows, dtype):
        writer.write(block.X)
        constants.update_features(block.X)
        blocks.append(SourceBlock(block.start, np.empty((len(block.X), 0)), block.y, block.weight, block.labels))
    writer.finish()
    return EncodedPart(writer.sorted_runs, blocks, constants, rows.part_facts())
