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

from daskfs.matrix.passing import Passing
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.fit import History, MissionFit
from daskfs.selectors.mission.training import LearntRows, Training, passing_rows
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
        self.fit, self.passage, self.names, self.history = fit, passage, names, fit.history
        self.config = replace(fit.config, is_growing=passage.n_expected is None)
        self.n_seen = passage.n_seen
        """Number of rows of this stream."""
        n_rows = int(fit.state.rows_seen)
        self._n_before = n_rows - passage.n_seen
        self.model = restored(fit.config.model, fit.state, copy=False)
        n_in_block = passage.n_seen % self.config.block_rows
        self.training = Training(self.config, self.model, n_rows=n_rows, n_in_block=n_in_block)
        self._say = reporter(passage.tell, n_rows)
        self._saved = time.perf_counter()

    def learn(self, rows: Passing) -> MissionFit:
        """Learn from all rows that arrive; return the fit with the final model.

        Raises
        ------
        DataError
            NaN or infinity, with the column's name, or an unknown class.
        """

        def then(_: LearntRows) -> None:
            self.n_seen = self.training.n_rows - self._n_before
            if self.n_seen & (self.n_seen - 1) == 0:
                self._report()
            if self.passage.save is not None and time.perf_counter() - self._saved > SAVE_S:
                self.passage.save(self)
                self._saved = time.perf_counter()

        pieces = passing_rows(rows, self.config, self.n_seen)
        self.training.learn(rows, pieces, then, names=self.names, is_passing=True)
        if self.n_seen & (self.n_seen - 1):
            self._report()
        learnt = self.so_far()
        if self.names is not None:
            self.names.note_all(rows, learnt.state.keys)
        return learnt

    def so_far(self) -> MissionFit:
        """Return the fit with the model after the last piece."""
        n_rows = self._n_before + self.n_seen
        state = replace(self.model.state(), rows_seen=float(n_rows))
        return replace(self.fit, state=state, n_samples=n_rows, history=self.history)

    def _report(self) -> None:
        self.history = self.history.after(1, self._n_before + self.n_seen, self.model.standing(), is_stream=True)
        self._say(self.history)


def reporter(tell: Tell | None, n_rows: int) -> Callable[[History], None]:
    """Return a function that reports the last line of a history, for a stream that begins after `n_rows` rows."""
    begun = time.perf_counter()

    def say(history: History) -> None:
        if tell is not None:
            line, seconds = history.lines[-1], time.perf_counter() - begun
            n_now = int(line.rows_seen)
            tell(
                f"{n_now:>13,} rows  loss {history.progressive[n_now]:.6f}  since the last line {line.mean_loss:.6f}  "
                f"{int(line.n_active):>7,} active  {seconds:8.1f} s  "
                f"{(n_now - n_rows) / max(seconds, 1e-9):>11,.0f} rows/s"
            )

    return say
