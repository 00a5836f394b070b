"""Rows that pass by once: MISSION learns from them as they come, whether or not anybody knows how many there are.

A row's loss is taken before the row is learnt from, so that the mean loss so far is one of rows that were not seen
(progressive validation). It is told after 1, 2, 4, 8, ... rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from daskfs import interrupts
from daskfs.kernels.sketch.rows import StepRule
from daskfs.matrix.passing import Passing
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.fit import Line, MissionFit
from daskfs.selectors.mission.model import MissionModel, NotFiniteRow
from daskfs.selectors.mission.tasks import not_finite, read_entries

Tell = Callable[[str], None]
"""Hears a line for every report, to be shown."""


class Learner:
    """A model that learns from rows that pass by.

    Parameters
    ----------
    fit : MissionFit
        The model to start with; its cells are written to.
    n_expected : int, optional
        Rows that will come; without it the tail's half-life grows with the rows that came.
    tell : callable, optional
    names : FeatureNames, optional
        Takes the names of features that become active.
    """

    def __init__(
        self, fit: MissionFit, n_expected: int | None, tell: Tell | None = None, names: FeatureNames | None = None
    ) -> None:
        self.fit, self.settings, self.tell, self.names = fit, fit.shape.settings, tell, names
        self.n_expected = n_expected
        self.model = MissionModel.of(fit.sgd.shape, fit.state, copy=False)
        self.history, self.progressive = list(fit.history), dict(fit.progressive)
        self.n_seen = 0
        """Rows of this stream."""
        self._before = int(fit.state.rows_seen)
        self._counted = (fit.state.loss_sum, fit.state.weight_sum)  # at the last line of the history
        self._since = time.perf_counter()

    def learn(self, rows: Passing) -> MissionFit:
        """Learn from all rows that come; return the fit with the model as it is then.

        Raises
        ------
        DataError
            NaN or infinity, with the column's name; a class that was not told.
        """
        sgd, block = self.fit.sgd, self.settings.block_rows
        rule, report = sgd.rule(1), 1
        while True:
            block_end = (self.n_seen // block + 1) * block
            stop = rows.reach(min(self.n_seen + sgd.piece_rows, block_end, report))
            if stop == self.n_seen:
                break
            interrupts.check()
            self._take(rows, slice(self.n_seen, stop), rule)
            self.n_seen = stop
            if stop == block_end:
                self._end_block(block)
            if stop == report:
                self._report()
                report *= 2
        if self.n_seen % block:
            self._end_block(self.n_seen % block)
        if self.n_seen and self.n_seen * 2 != report:
            self._report()
        state = replace(self.model.state(), rows_seen=float(self._before + self.n_seen))
        if self.names is not None and (told := rows.names_of(state.keys)) is not None:
            self.names.note(told, state.keys)
        so_far = {"history": self.history, "progressive": self.progressive, "n_samples": self._before + self.n_seen}
        return replace(self.fit, state=state, **so_far)  # type: ignore[arg-type]

    def _take(self, rows: Passing, piece: slice, rule: StepRule) -> None:
        sgd = self.fit.sgd
        entries = read_entries(rows, piece, sgd.scaling)
        y, weight = sgd.target.read(rows, piece)
        try:
            self.model.train(entries, y, weight, rule)
        except NotFiniteRow as fault:
            raise not_finite(rows, piece, entries, fault.row) from None
        if self.names is not None:
            self.names.note_rows(rows, piece, self.model.active()[0])

    def _end_block(self, n_rows: int) -> None:
        half_life = self.fit.sgd.half_life
        if self.n_expected is None:
            half_life = self.settings.half_life(self._before + self.n_seen)
        self.model.end_block(n_rows, half_life)

    def _report(self) -> None:
        self.add(self.model, self._before + self.n_seen, time.perf_counter() - self._since)

    def add(self, model: MissionModel, n_rows: int, seconds: float) -> None:
        """Add a line to the history of a model that has seen so many rows, and tell it."""
        scalars = model.scalars[0]
        sums = float(scalars["loss_sum"]), float(scalars["weight_sum"])
        lately, weight = (now - before for now, before in zip(sums, self._counted, strict=True))
        self._counted = sums
        mean_loss = lately / weight if weight else np.nan
        so_far = sums[0] / sums[1] if sums[1] else np.nan
        n_active, threshold = model.n_features(), float(scalars["threshold"])
        self.history.append(Line(1, n_rows, mean_loss, threshold, n_active, model.sketch.norm()))
        self.progressive[n_rows] = so_far
        if self.tell is not None:
            self.tell(
                f"{n_rows:>13,} rows  loss {so_far:.6f}  since the last line {mean_loss:.6f}  {n_active:>7,} active  "
                f"{seconds:8.1f} s  {(n_rows - self._before) / max(seconds, 1e-9):>11,.0f} rows/s"
            )
