"""The passes of FGM over the columns: statistics, worst-case analyses, columns for the cache; where they run."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from daskfs.cluster.workers import Workers
from daskfs.kernels.fgm.topk import merged
from daskfs.matrix.base import Matrix, Progress
from daskfs.selectors.base import Checkpoint
from daskfs.selectors.fgm.plan import Cut
from daskfs.selectors.fgm.tasks import ColumnRange, best_of_block, read_columns, sums_of_block


class ColumnPasses:
    """Passes over the columns of a matrix."""

    def __init__(
        self, matrix: Matrix, cut: Cut, workers: Workers, progress: Progress | None, checkpoint: Checkpoint | None
    ) -> None:
        self.matrix, self.cut, self.workers = matrix, cut, workers
        self.progress, self.checkpoint = progress, checkpoint
        self.seconds: dict[str, float] = {}
        self.communication: dict[str, int] = {}
        """Bytes of what the tasks of a step returned to the leading process."""
        self.n_passes = 0

    def statistics(self, weight: np.ndarray, is_weighted: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of all columns: the store's, or of these rows, in a pass.

        Parameters
        ----------
        weight : ndarray of shape (n_samples,)
            Rows of 0 take no part.
        is_weighted : bool
            Whether any weight differs from 1.

        Raises
        ------
        DataError
            NaN or infinity, with the column's name.
        """
        known = None if is_weighted else self.matrix.column_statistics()
        if known is not None:
            bad = np.flatnonzero((known.n_missing > 0) | ~np.isfinite(known.minimum) | ~np.isfinite(known.maximum))
            if len(bad):
                raise self.matrix.bad_column(int(bad[0]))
            return known.mean, known.std
        saved = None if self.checkpoint is None else self.checkpoint.load("fgm-statistics")
        if saved is None:
            started = time.perf_counter()
            self._begin("fgm-statistics", 1)
            m = self.matrix.shape[1]
            ranges = self._ranges(np.zeros(m), np.ones(m))
            parts: list[Any] = [None] * len(ranges)
            shared = (self.matrix, weight)
            for k, part in self.workers.map_blocks(sums_of_block, ranges, name="fgm-statistics", shared=shared):
                parts[k] = part
            saved = {"moments": np.concatenate(parts, axis=1)}
            self._end("statistics", started, saved["moments"].nbytes)
            if self.checkpoint is not None:
                self.checkpoint.save("fgm-statistics", saved)
        return saved["moments"][0], saved["moments"][1]

    def worst_case(
        self, v: np.ndarray, n_wanted: int, centre: np.ndarray, inverse: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns with the largest scores: Algorithms 2 and 5.

        Parameters
        ----------
        v : ndarray of shape (n_samples,)
        n_wanted : int
        centre, inverse : ndarray of shape (n_features,)

        Returns
        -------
        columns : ndarray of shape (<= n_wanted,), int64
            By falling score, ties by number.
        scores : ndarray
            Theirs, ``(x̃_jᵀ v)²``.
        """
        started = time.perf_counter()
        ranges = self._ranges(centre, inverse)
        shared = (self.matrix, v, n_wanted)
        join = partial(merged, n_wanted=n_wanted)
        best = self.workers.reduce_blocks(best_of_block, ranges, join, name="fgm-scores", shared=shared)
        self.n_passes += 1
        self._count("scores", started, best[0].nbytes + best[1].nbytes)
        return best  # type: ignore[no-any-return]

    def read(self, columns: np.ndarray) -> np.ndarray:
        """Return columns, each in a row, in the order asked for."""
        started = time.perf_counter()
        order = np.argsort(columns, kind="stable")
        out = np.empty((len(columns), self.matrix.shape[0]), self.matrix.dtype)
        groups = self._read_groups(columns[order])
        at = np.cumsum([0, *(len(group) for group in groups)])
        for k, part in self.workers.map_blocks(read_columns, groups, name="fgm-columns", shared=(self.matrix,)):
            out[order[at[k] : at[k + 1]]] = part
        self._count("columns", started, out.nbytes)
        return out

    def _read_groups(self, ascending: np.ndarray) -> list[np.ndarray]:
        """Return columns by the tasks that read them: those of one block of tiles together."""
        tile = max(1, self.matrix.tile_shape[1])
        if self.matrix.is_resident:
            return [ascending]
        groups: list[list[int]] = []
        for column in ascending.tolist():
            if groups and groups[-1][0] // tile == column // tile and len(groups[-1]) < self.cut.n_read:
                groups[-1].append(column)
            else:
                groups.append([column])
        return [np.array(group, dtype=np.int64) for group in groups]

    def _ranges(self, centre: np.ndarray, inverse: np.ndarray) -> list[ColumnRange]:
        n_features, width, rows = self.matrix.shape[1], self.cut.width, self.cut.piece_rows
        return [
            ColumnRange(start, stop, rows, centre[start:stop], inverse[start:stop])
            for start in range(0, n_features, width)
            for stop in (min(start + width, n_features),)
        ]

    def _begin(self, name: str, total: int) -> None:
        if self.progress is not None:
            self.progress.start(name, total)

    def _end(self, name: str, started: float, nbytes: int) -> None:
        self._count(name, started, nbytes)
        if self.progress is not None:
            self.progress.advance()
            self.progress.finish()

    def _count(self, name: str, started: float, nbytes: int) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
        self.communication[name] = self.communication.get(name, 0) + int(nbytes)
