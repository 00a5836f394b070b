"""Saved steps of an ingest, from which the next process resumes if this one is killed.

A step consists of a task's result as JSON and the files that the task has written, with their checksums: steps
whose files were lost in a crash are repeated. The files of each process have different names, since a task of the dead
process may still run on a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c

from daskfs.cluster.workers import Task, Workers
from daskfs.files import read_document, written_whole

_INGEST = "ingest.json"
_MOST_NBYTES, _PIECE_NBYTES = 1 << 30, 1 << 20


class KeptSteps:
    """Saved steps of an ingest.

    Parameters
    ----------
    folder : Path

    Attributes
    ----------
    identity : dict or None
        Identity of the ingest that saved the steps; None if there are none.
    attempt : int
        Number of processes that have started before.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = self._read(_INGEST) or {}
        self.identity: dict[str, Any] | None = found.get("identity")
        self.attempt = int(found.get("attempt", -1)) + 1
        self._keeps = False

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Record the identity of this ingest, and save steps from now on."""
        self._keeps, self.identity = True, dict(identity)
        with written_whole(self.folder / _INGEST) as path:
            path.write_text(json.dumps({"identity": identity, "attempt": self.attempt}))

    def map(
        self, workers: Workers, function: Task, items: Sequence[Any], *, name: str, shared: Sequence[Any]
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield the results of `Workers.map_blocks`, reading those of steps that are finished.

        `function` returns a JSON-compatible dict, with its files from `files_of` as ``"files"``, or an error, which is
        not saved.
        """
        if not self._keeps:
            yield from workers.map_blocks(function, items, name=name, shared=shared)
            return
        left = []
        for k in range(len(items)):
            found = self.found(f"{name}-{k}")
            if found is None:
                left.append(k)
            else:
                yield k, found
        for i, result in workers.map_blocks(function, [items[k] for k in left], name=name, shared=shared):
            if not isinstance(result, Exception):
                with written_whole(self._path(f"{name}-{left[i]}.json")) as path:
                    path.write_text(json.dumps(result, default=np.ndarray.tolist))
            yield left[i], result

    def found(self, step: str) -> Any:
        """Return the result of a step; None if it is not finished, or its files are not intact."""
        result = self._read(f"{step}.json")
        if result is None or any(_sum_of(self.folder / name) != recorded for name, recorded in result["files"].items()):
            return None
        return result

    def _path(self, name: str) -> Path:
        return self.folder / name

    def _read(self, name: str) -> Any:
        try:
            return read_document(self._path(name), _MOST_NBYTES)
        except (OSError, ValueError):
            return None


def files_of(folder: Path, prefix: str) -> dict[str, list[int] | None]:
    """Return length and checksum of the files with this prefix."""
    return {path.name: _sum_of(path) for path in sorted(folder.glob(f"{prefix}*"))}


def _sum_of(path: Path) -> list[int] | None:
    nbytes = checksum = 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_NBYTES):
                nbytes, checksum = nbytes + len(piece), crc32c(piece, checksum)
    except FileNotFoundError:
        return None
    return [nbytes, checksum]
