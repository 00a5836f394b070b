"""The stream of columns through an engine: epochs, progress, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from daskfs.cluster.workers import Here, Workers
from daskfs.errors import DataError
from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.matrix.base import Matrix, Progress
from daskfs.selectors.online_substitution.columns import (
    Columns,
    ColumnSettings,
    column_stream,
    epoch_order,
    read_columns,
)
from daskfs.selectors.online_substitution.engines.base import Engine
from daskfs.selectors.online_substitution.plan import Reading
from daskfs.selectors.online_substitution.screen import screen_columns
from daskfs.selectors.shared.run import Checkpoint

STEP = "online-substitution"
SAVES_PER_EPOCH = 20
ROUND_CHAPTERS = 8
"""Blocks screened against the same members: as many tasks run at once; the answer depends on it, so it is fixed."""
HISTORY = ("epoch", "n_presented", "n_members", "n_exchanged", "n_refused", "n_reverted", "objective")


class SubstitutionRun:
    """Epochs over the columns of a matrix.

    Parameters
    ----------
    matrix : Matrix
    engine : Engine
    settings : ColumnSettings
    reading : Reading
    chapter : int
        Columns decided on together.
    weight : ndarray of shape (n_samples,), or `NO_WEIGHT`
    progress : Progress, optional
    checkpoint : Checkpoint, optional
    screeners : Workers, optional
        Where columns are screened; None: every column comes here.
    """

    def __init__(
        self,
        matrix: Matrix,
        engine: Engine,
        settings: ColumnSettings,
        reading: Reading,
        chapter: int,
        weight: np.ndarray = NO_WEIGHT,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
        screeners: Workers | None = None,
    ) -> None:
        self.matrix, self.engine, self.settings = matrix, engine, settings
        self.reading, self.chapter, self.weight = reading, chapter, weight
        self.progress, self.checkpoint, self.screeners = progress, checkpoint, screeners
        self.communication: dict[str, int] = {}
        self.history: list[tuple[float, ...]] = []
        self.n_epochs = 0
        """Epochs begun."""
        self._entered_before = self._limit = 0
        self.seconds: dict[str, float] = {}

    def always(self, columns: np.ndarray) -> None:
        """Make columns members that are never dropped.

        Parameters
        ----------
        columns : ndarray of shape (n_columns,), int64

        Raises
        ------
        DataError
            One is constant, or a combination of those before it.
        """
        engine, most = self.engine, self.engine.members.capacity
        if len(columns) > most:
            raise DataError(
                f"expected at most {most} columns, found {len(columns)}",
                "always_include",
                "raise n_features_to_select",
            )
        for start in range(0, len(columns), self.chapter):
            block = read_columns(self.matrix, columns[start : start + self.chapter], self.settings, self.weight)
            engine.take(block)
            engine.keep_members()
        self.fix(columns)

    def fix(self, columns: np.ndarray) -> None:
        """Never drop the members of now, which must be these columns."""
        self.engine.keep_members()
        missing = columns[~np.isin(columns, self.engine.members.ids)]
        if len(missing):
            name = self.matrix.names[missing[0]]
            raise DataError(
                "is constant, or a combination of the columns before it", f"always_include, column {name!r}", "drop it"
            )

    def present(self, columns: Columns) -> None:
        """Take columns that came by another way."""
        self.n_epochs = 1
        self.engine.take(columns)
        self._record(0)

    def epochs(self, n_epochs: int, order: Any, seed: int | None, n_done: tuple[int, int]) -> None:
        """Present all columns `n_epochs` times; stop after an epoch in which nobody entered.

        Parameters
        ----------
        n_epochs : int
        order : {"fixed", "shuffled"} or int64 array
        seed : int or None
        n_done : tuple of int
            The epoch and the column in it to go on from.
        """
        started = time.perf_counter()
        n_features = self.matrix.shape[1]
        self._limit = n_epochs
        first, position = n_done
        for epoch in range(first, n_epochs):
            self.n_epochs = epoch + 1
            columns = epoch_order(n_features, order, seed, epoch)
            self._start(epoch, len(columns), position)
            if position == 0:
                self._entered_before = self.engine.counters.n_entered
            self._epoch(epoch, columns, position)
            position = 0
            if self.progress is not None:
                self.progress.finish()
            if self.engine.counters.n_entered == self._entered_before:
                break
        self.seconds["select"] = self.seconds.get("select", 0.0) + time.perf_counter() - started

    def _start(self, epoch: int, n_columns: int, position: int) -> None:
        if self.progress is not None:
            self.progress.start(f"{STEP}-epoch-{epoch + 1}", -(-n_columns // self.chapter))
            self.progress.advance(position // self.chapter)

    def _epoch(self, epoch: int, columns: np.ndarray, position: int) -> None:
        save_every = max(1, len(columns) // self.chapter // SAVES_PER_EPOCH) * self.chapter
        for n_taken in self._taken(columns[position:]):
            position += n_taken
            self._record(epoch)
            if self.progress is not None:
                self.progress.advance(-(-n_taken // self.chapter))
            if self.checkpoint is not None and (position % save_every < n_taken or position == len(columns)):
                self._save(self.checkpoint, epoch, position, len(columns))

    def _taken(self, columns: np.ndarray) -> Iterator[int]:
        """Present columns; yield how many were, again and again."""
        members, n_taken = self.engine.members, 0
        if self.screeners is None or members.n_members < members.capacity:
            for block in self._stream(columns):
                self.engine.take(block)
                length = len(block)
                del block  # or its buffer counts as in use while the next one is read
                n_taken += length
                yield length
                if self.screeners is not None and members.n_members == members.capacity:
                    break
        length = self.chapter * ROUND_CHAPTERS
        for start in range(n_taken, len(columns), length):
            yield self._round(columns[start : start + length])

    def _round(self, columns: np.ndarray) -> int:
        """Screen columns where tasks run, all against the members of now; exchange with those that they return."""
        chapters = [columns[start : start + self.chapter] for start in range(0, len(columns), self.chapter)]
        screen = self.engine.screen(max(1, self.chapter // 2))
        found: list[dict[str, np.ndarray]] = [{}] * len(chapters)
        shared = (self.matrix, self.settings, self.weight, screen)
        workers = self.screeners or Here()
        for k, candidates in workers.map_blocks(screen_columns, chapters, name="online-screen", shared=shared):
            found[k] = candidates
            nbytes = sum(array.nbytes for array in candidates.values())
            self.communication["screen"] = self.communication.get("screen", 0) + nbytes
        for candidates in found:
            n_usable = int(candidates.pop("n_usable")[0])
            block = Columns(**{name: np.require(array, requirements="W") for name, array in candidates.items()})
            self.engine.counters.n_presented += n_usable - len(block)
            if len(block):
                self.engine.take(block)
        return len(columns)

    def _stream(self, columns: np.ndarray) -> Iterator[Columns]:
        width = self.reading.width
        reads = [columns[start : start + width] for start in range(0, len(columns), width)]
        return column_stream(self.matrix, reads, self.chapter, self.settings, self.weight, self.reading.prefetch)

    def _record(self, epoch: int) -> None:
        counters, members = self.engine.counters, self.engine.members
        counts = (
            counters.n_presented, members.n_members, counters.n_exchanged, counters.n_refused, counters.n_reverted,
        )  # fmt: skip
        self.history.append((float(epoch + 1), *map(float, counts), self.engine.value))

    def _save(self, checkpoint: Checkpoint, epoch: int, position: int, n_columns: int) -> None:
        is_last = position == n_columns and self.engine.counters.n_entered == self._entered_before
        if position == n_columns:
            epoch, position = self._limit if is_last else epoch + 1, 0
        numbers = [epoch, position, self._entered_before, self.n_epochs]
        arrays = {"where": np.array(numbers, dtype=np.int64), "history": np.array(self.history)}
        checkpoint.save(STEP, {**self.engine.arrays(), **arrays})

    def resume(self) -> tuple[int, int]:
        """Put back what a checkpoint holds; return the epoch and the column in it to go on from."""
        saved = None if self.checkpoint is None else self.checkpoint.load(STEP)
        if saved is None:
            return 0, 0
        ids = saved["ids"]
        for start in range(0, len(ids), self.chapter):
            block = read_columns(self.matrix, ids[start : start + self.chapter], self.settings, self.weight)
            self.engine.members.add(block)
        self.engine.restore(saved)
        epoch, position, self._entered_before, self.n_epochs = (int(part) for part in saved["where"])
        self.history = [tuple(line) for line in saved["history"]]
        return epoch, position
