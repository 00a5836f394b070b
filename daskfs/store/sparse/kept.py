"""What an ingest has done so far, kept in its folder: the next process goes on from there where this one is killed.

A step is a task's result as JSON, and the files that the task has written, with their checksums: what a lost machine
had not yet put on its disk is done again. Files of each process have names of their own, for a task of the dead one may
still run on a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c

from daskfs.cluster.workers import Task, Workers
from daskfs.files import read_document, written_whole

_INGEST = "ingest.json"
_MOST_NBYTES, _PIECE_NBYTES = 1 << 30, 1 << 20


class KeptSteps:
    """Steps of an ingest.

    Parameters
    ----------
    folder : Path

    Attributes
    ----------
    identity : dict or None
        Of the ingest whose steps these are; None: there are none.
    attempt : int
        How many processes have begun before.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = self._read(_INGEST) or {}
        self.identity: dict[str, Any] | None = found.get("identity")
        self.attempt = int(found.get("attempt", -1)) + 1
        self._keeps = False

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Note whose steps are kept from now on."""
        self._keeps = True
        with written_whole(self.folder / _INGEST) as path:
            path.write_text(json.dumps({"identity": identity, "attempt": self.attempt}))

    def map(
        self, workers: Workers, function: Task, items: Sequence[Any], *, name: str, shared: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """Yield what `Workers.map_blocks` would, of steps that are done what they have left.

        `function` returns what JSON can hold, with its files by `files_of` as ``"files"``.
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
            with written_whole(self._path(f"{name}-{left[i]}.json")) as path:
                path.write_text(json.dumps(result, default=np.ndarray.tolist))
            yield left[i], result

    def found(self, step: str) -> Any:
        """Return what a step has left; None where it is not done, or its files are not as they were written."""
        result = self._read(f"{step}.json")
        if result is None or any(_sum_of(self.folder / name) != told for name, told in result["files"].items()):
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
    """Return length and checksum of the files whose names begin so."""
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
