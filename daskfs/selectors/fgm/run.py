"""The passes of FGM over the columns: statistics, worst-case analyses, columns for the cache; where they run."""

from __future__ import annotations

from functools import partial

import numpy as np

from daskfs.kernels.fgm.topk import merged
from daskfs.selectors.fgm.plan import Cut
from daskfs.selectors.fgm.tasks import (
    ColumnMoments,
    ColumnRange,
    best_of_block,
    read_columns,
    sums_of_block,
)
from daskfs.selectors.shared.run import Run


class ColumnPasses:
    """Passes over the columns of a matrix."""

    def __init__(self, run: Run, cut: Cut) -> None:
        self.run, self.matrix, self.cut = run, run.matrix, cut
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
        m = self.matrix.shape[1]
        ranges = self._ranges(np.zeros(m), np.ones(m))
        parts = self.run.map("statistics", sums_of_block, ranges, weight, record=ColumnMoments)
        return np.concatenate([part.mean for part in parts]), np.concatenate([part.deviation for part in parts])

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
        ranges, join = self._ranges(centre, inverse), partial(merged, n_wanted=n_wanted)
        best: tuple[np.ndarray, np.ndarray] = self.run.reduce("scores", best_of_block, ranges, join, v, n_wanted)
        self.n_passes += 1
        return best

    def read(self, columns: np.ndarray) -> np.ndarray:
        """Return columns, each in a row, in the order asked for."""
        order = np.argsort(columns, kind="stable")
        out = np.empty((len(columns), self.matrix.shape[0]), self.matrix.dtype)
        groups = self._read_groups(columns[order])
        at = np.cumsum([0, *(len(group) for group in groups)])
        for k, part in self.run.each("columns", read_columns, groups):
            out[order[at[k] : at[k + 1]]] = part
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
