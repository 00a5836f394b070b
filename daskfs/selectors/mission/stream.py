"""Streams of rows: MISSION learns from rows as they arrive, whether or not their number is known.

If the source of a stream is read again, the fit continues from a checkpoint after the rows already used. An interrupted
fit has the state after the last piece of rows, and can be saved.

The loss of a row is computed before the update with it, so that the mean loss so far is one of unseen rows (progressive
validation). It is reported after 1, 2, 4, 8, ... rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from daskfs import interrupts
from daskfs.kernels.sketch.rows import StepRule
from daskfs.matrix.passing import Passing
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.fit import Line, MissionFit
from daskfs.selectors.mission.model import MissionModel, NotFiniteRow
from daskfs.selectors.mission.reading import read_entries
from daskfs.selectors.mission.tasks import not_finite
from daskfs.selectors.mission.variants import restored

Tell = Callable[[str], None]
"""Called with a line of text for every report."""
SAVE_S = 30.0
"""Seconds after which a stream is saved again, if there is a checkpoint."""


@dataclass(frozen=True, slots=True)
class Passage:
    """How rows arrive: their number, the callbacks, and where an interrupted fit continues."""

    n_expected: int | None = None
    """Expected number of rows; without it the tail's half-life grows with the number of rows so far."""
    tell: Tell | None = None
    save: Callable[[Learner], None] | None = None
    """Stores the model, to continue after an interruption."""
    n_seen: int = 0
    """Number of rows used before an interruption; they do not come again."""
    counted: tuple[float, float] | None = None
    """Sums of losses and weights at the last line of the history; by default those of the model."""


class Learner:
    """A model that learns from a stream of rows.

    Parameters
    ----------
    fit : MissionFit
        The model to start from; its cells are changed.
    passage : Passage
    names : FeatureNames, optional
        Receives the names of features that become active.
    """

    def __init__(self, fit: MissionFit, passage: Passage, names: FeatureNames | None = None) -> None:
        self.fit, self.settings, self.passage, self.names = fit, fit.shape.settings, passage, names
        self.model = restored(fit.sgd.shape, fit.state, copy=False)
        self.history, self.progressive = list(fit.history), dict(fit.progressive)
        self.n_seen = passage.n_seen
        """Number of rows of this stream."""
        self.counted = passage.counted or (fit.state.loss_sum, fit.state.weight_sum)
        self._before = int(fit.state.rows_seen) - self.n_seen
        self._since = self._saved = time.perf_counter()
        self._n_since = int(fit.state.rows_seen)

    def learn(self, rows: Passing) -> MissionFit:
        """Learn from all rows that arrive; return the fit with the final model.

        Raises
        ------
        DataError
            NaN or infinity, with the column's name, or an unknown class.
        """
        sgd, block = self.fit.sgd, self.settings.block_rows
        rule, report = sgd.rule(1), 1 << self.n_seen.bit_length()
        while True:
            block_end = (self.n_seen // block + 1) * block
            stop = rows.reach(min(self.n_seen + sgd.piece_rows, block_end, report))
            if stop == self.n_seen:
                break
            interrupts.check()
            with interrupts.held():  # so that an interrupt finds complete pieces
                self._take(rows, slice(self.n_seen, stop), rule)
                self.n_seen = stop
                if stop == block_end:
                    self._end_block(block)
                if stop == report:
                    self._report()
                    report *= 2
            if self.passage.save is not None and time.perf_counter() - self._saved > SAVE_S:
                self.passage.save(self)
                self._saved = time.perf_counter()
        if self.n_seen % block:
            self._end_block(self.n_seen % block)
        if self.n_seen and self.n_seen * 2 != report:
            self._report()
        learnt = self.so_far()
        active = np.unique(learnt.state.keys)
        if self.names is not None and (block_names := rows.names_of(active)) is not None:
            self.names.note(block_names, active)
        return learnt

    def so_far(self) -> MissionFit:
        """Return the fit with the model after the last piece."""
        state = replace(self.model.state(), rows_seen=float(self._before + self.n_seen))
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
            self.names.note_rows(rows, piece, self.model.active_ids)

    def _end_block(self, n_rows: int) -> None:
        half_life = self.fit.sgd.half_life
        if self.passage.n_expected is None:
            half_life = self.settings.half_life(self._before + self.n_seen)
        self.model.end_block(n_rows, half_life)

    def _report(self) -> None:
        self.add(self.model, self._before + self.n_seen, time.perf_counter() - self._since)

    def add(self, model: MissionModel, n_rows: int, seconds: float) -> None:
        """Add a line to the history of a model that has seen `n_rows` rows, and report it."""
        scalars = model.scalars[0]
        sums = float(scalars["loss_sum"]), float(scalars["weight_sum"])
        lately, weight = (now - before for now, before in zip(sums, self.counted, strict=True))
        self.counted = sums
        mean_loss = lately / weight if weight else np.nan
        so_far = sums[0] / sums[1] if sums[1] else np.nan
        n_active, threshold = len(model.active_ids()), float(model.thresholds.min())
        self.history.append(Line(1, n_rows, mean_loss, threshold, n_active, model.sketch.norm()))
        self.progressive[n_rows] = so_far
        if self.passage.tell is not None:
            self.passage.tell(
                f"{n_rows:>13,} rows  loss {so_far:.6f}  since the last line {mean_loss:.6f}  {n_active:>7,} active  "
                f"{seconds:8.1f} s  {(n_rows - self._n_since) / max(seconds, 1e-9):>11,.0f} rows/s"
            )
