"""Writes a sparse store from a sparse source."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import interrupts
from daskfs.cluster.workers import Here, Workers
from daskfs.files import Location
from daskfs.sources.base import MOST_PARTS, NotInPartsError, attempted, until_fault
from daskfs.sources.constants import Constants
from daskfs.sources.parts import described
from daskfs.sources.sparse.base import SparseBlock, SparseSource
from daskfs.store.sparse.kept import KeptSteps
from daskfs.store.sparse.part_writer import PartWriter, WrittenPart
from daskfs.store.sparse.sorted_runs import SortedRunFiles
from daskfs.store.sparse.writer import SparseStoreWriter
from daskfs.store.spec import StoreSpec
from daskfs.version import __version__
from daskfs.watching.base import Progress

MOST_ROWS, MOST_ENTRIES = 1 << 16, 1 << 20
"""Maximum numbers of rows and entries in a block."""


@dataclass(frozen=True)
class SparseIngest:
    """Writes a sparse store from a source.

    Parameters
    ----------
    rows : SparseSource
    path : Path or ObjectPath
        Path of the store.
    spec : StoreSpec
        Its `source` is not used: it is described anew.
    memory_limit : int
        Bytes for all buffers together, in each process.
    progress : Progress
    """

    rows: SparseSource
    path: Location
    spec: StoreSpec
    memory_limit: int
    progress: Progress

    def write(self, workers: Workers) -> None:
        """Write the store, in parts if the source has parts; finished parts survive if this process is killed.

        Raises
        ------
        SourceError, SchemaError, DataError
            With the place.
        """
        self.rows.learn(workers)
        parts = self.rows.parts()
        if parts and (len(parts) <= MOST_PARTS or not isinstance(workers, Here)):
            with suppress(NotInPartsError):
                return self._write_parts(parts, workers)
        return self._write_whole(workers)

    def _write_whole(self, workers: Workers) -> None:
        rows, constants = self.rows, Constants()
        with self._writer(described(rows)) as writer:
            writer.use(workers)
            self._begin()
            for block in rows.sparse_blocks(MOST_ROWS, min(MOST_ENTRIES, max(1, self.memory_limit // 128))):
                interrupts.check()
                writer.write(block)
                constants.update_target(block)
                self.progress.advance(block.n_rows)
            self._conclude(writer, constants)

    def _write_parts(self, parts: Sequence[Any], workers: Workers) -> None:
        """Let workers encode the parts and sort their rows; the store is the same."""
        rows, constants = self.rows, Constants()
        identity = {
            "version": __version__,
            "encoding": self.spec.encoding_digest,
            "memory_limit": self.memory_limit,
            "parts": [str(part) for part in parts],
        }
        with self._writer({}, self._is_begun(identity)) as writer:
            writer.use(workers)
            writer.begin(identity)
            self._begin()
            shared, tasks = (rows, writer.files, writer.prefix, writer.memory_limit), [None, *enumerate(parts)]
            found: dict[int, Any] = {}
            steps = writer.kept.map(workers, encode_part, tasks, name="ingest-encode", shared=shared)
            for k, found[k] in until_fault(rows, steps, first=1):
                interrupts.check()
                self.progress.advance(0 if k == 0 else found[k]["n_rows"])
            writer.source = found.pop(0)["source"]
            results = [found[k] for k in sorted(found)]
            written = [WrittenPart(writer.files, one) for one in results]
            blocks = [_block_of(part) for part in written]
            for block in blocks:
                constants.update_target(block)
            rows.conclude([one["facts"] for one in results], sum(part.n_rows for part in written))
            self._conclude(writer, constants)
            writer.take_written(written, blocks)

    def _is_begun(self, identity: dict[str, Any]) -> Callable[[Path], bool]:
        """Return a function that tells whether a folder has steps of this ingest, from the same unchanged source."""

        def is_begun(folder: Path) -> bool:
            kept, seed = KeptSteps(folder), self.spec.random_state
            seed = (kept.identity or {}).get("random_state") if seed is None else seed
            if kept.identity != {**identity, "random_state": seed if self.spec.shuffle else None}:
                return False
            found = kept.found(_DESCRIPTION)
            return found is not None and self.rows.is_unchanged(found["source"], str(found["source"].get("digest", "")))

        return is_begun

    def _writer(self, source: dict[str, Any], goes_on_from: Callable[[Path], bool] | None = None) -> SparseStoreWriter:
        return SparseStoreWriter(
            self.path,
            self.rows.n_features,
            has_ids=self.rows.features_are_ids,
            first_number=self.rows.first_number,
            memory_limit=3 * self.memory_limit // 4,
            progress=self.progress,
            goes_on_from=goes_on_from,
            **vars(replace(self.spec, source=source)),
        )

    def _begin(self) -> None:
        self.progress.start("ingest", self.rows.n_samples or self.rows.estimate_shape()[0] or 0)

    def _conclude(self, writer: SparseStoreWriter, constants: Constants) -> None:
        """Refuse a constant target or zero weights; pass notes and facts to the store."""
        constants.refuse_target(self.rows.target_names)
        constants.refuse_weights()
        writer.source["n_target_values"] = constants.target_values.count
        if self.rows.missing:
            writer.source["missing"] = [*self.rows.missing]
        writer.notes += self.rows.notes
        self.progress.finish()


_DESCRIPTION = "ingest-encode-0"
"""Name of the step that describes the source."""


def encode_part(
    rows: SparseSource, files: SortedRunFiles, prefix: str, memory_limit: int, part: tuple[int, Any] | None
) -> dict[str, Any]:
    """Encode a part on a worker, or describe the source if `part` is None; the result is saved by `KeptSteps`.

    An error of the source is returned, for `until_fault`.
    """
    return attempted(_encoded, rows, files, prefix, memory_limit, part)


def _encoded(
    rows: SparseSource, files: SortedRunFiles, prefix: str, memory_limit: int, part: tuple[int, Any] | None
) -> dict[str, Any]:
    rows = copy.copy(rows)  # it keeps notes on what it reads, and is shared by this process's tasks
    if part is None:
        return {"source": described(rows), "files": {}}
    number, place = part
    writer = PartWriter(files, f"{prefix}{number}-", memory_limit)
    for block in rows.sparse_part_blocks(place, MOST_ROWS, min(MOST_ENTRIES, max(1, memory_limit // 96))):
        interrupts.check()
        writer.write(block)
    return {**writer.finish(), "facts": rows.part_facts()}


def _block_of(part: WrittenPart) -> SparseBlock:
    """Return targets, weights and labels of a part, without entries."""
    no_entries = np.zeros(part.n_rows + 1, np.int64), np.empty(0, np.uint64), None
    return SparseBlock(0, *no_entries, part.vector("y"), part.vector("weight"), part.labels)
