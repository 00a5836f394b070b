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
from daskfs.matrix.passing import Passing
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.fit import Line, MissionFit
from daskfs.selectors.mission.model import MissionModel
from daskfs.selectors.mission.tasks import Training, passing_rows
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
        growing = self.settings.tail_half_life if passage.n_expected is None else None
        self.sgd = replace(fit.sgd, growing_half_life=growing)
        self.model = restored(fit.sgd.shape, fit.state, copy=False)
        self.training = Training(
            self.sgd,
            self.model,
            n_rows=int(fit.state.rows_seen),
            n_in_block=passage.n_seen % self.settings.block_rows,
            names=names,
        )
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
        for piece in passing_rows(rows, self.sgd, self.settings.block_rows, self.n_seen):
            interrupts.check()
            with interrupts.held():  # so that an interrupt finds complete pieces
                self.training.learn(rows, piece)
                self.n_seen = self.training.n_rows - self._before
                if self.n_seen & (self.n_seen - 1) == 0:
                    self._report()
            if self.passage.save is not None and time.perf_counter() - self._saved > SAVE_S:
                self.passage.save(self)
                self._saved = time.perf_counter()
        self.training.end_block()
        if self.n_seen & (self.n_seen - 1):
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
