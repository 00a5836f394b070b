"""Streams of rows: MISSION learns from rows as they arrive, whether or not their number is known.

If the source of a stream is read again, the fit continues from a checkpoint after the rows already used. An interrupted
fit has the state after the last piece of rows, and can be saved.

The loss of a row is computed before the update with it, so that the mean loss so far is one of unseen rows (progressive
validation). It is reported after 1, 2, 4, 8, ... rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.matrix.passing import Passing
from daskfs.selectors.mission.configuration import Configuration
from daskfs.selectors.mission.entries import MOST_IDS
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.fit import History, MissionFit
from daskfs.selectors.mission.part_tasks import HowToLearn, LearntPart, PartToLearn, averaged, learn_part
from daskfs.selectors.mission.training import LearntRows, Training, passing_rows
from daskfs.selectors.mission.variants import restored
from daskfs.selectors.shared.run import Run

DataError = errors.DataError.about("streams")

Tell = Callable[[str], None]
"""Called with a line of text for every report."""
SAVE_S = 30.0
"""Seconds after which a stream is saved again, if there is a checkpoint."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A model that learns from rows that come once, and how to continue with more of them."""

    fit: MissionFit
    labels: np.ndarray | None = None
    """The user's class labels, for a classifier."""
    names: FeatureNames | None = None
    """Names of features that are ids, or of columns that blocks of a source name."""

    def going_on(self, now: Configuration, n_samples: int = 0) -> MissionFit:
        """Return a copy of the fit that is ready for `n_samples` more rows, with the present parameters."""
        fit, state = self.fit, self.fit.state
        config = replace(
            fit.config,
            tail_half_life=now.tail_half_life,
            half_life=now.half_life_of(fit.n_samples + n_samples),
            block_rows=now.block_rows,
            n_replicas=now.n_replicas,
            sync_every=now.sync_every,
        )
        history = replace(fit.history, counted=(state.loss_sum, state.weight_sum))
        state = replace(state, cells=state.cells.copy())
        return replace(fit, config=config, state=state, n_samples=fit.n_samples + n_samples, history=history)

    def refuse_width(self, n_features: int) -> None:
        """Refuse rows that have other features than those before.

        Raises
        ------
        DataError
        """
        expected = self.fit.config.data.n_features
        if n_features != expected:
            words = ["64-bit ids" if n >= MOST_IDS else f"{n:,} columns" for n in (expected, n_features)]
            raise DataError(f"expected rows of {words[0]}, as before, found {words[1]}", "partial_fit", "fit again")


@dataclass(frozen=True, slots=True)
class Passage:
    """How rows arrive: their number, the callbacks, and where an interrupted fit continues."""

    n_expected: int | None = None
    """Expected number of rows; without it the tail's half-life grows with the number of rows so far."""
    tell: Tell | None = None
    save: Callable[[Stream, int], None] | None = None
    """Stores a stream and the number of rows (or parts) done, to continue after an interruption."""
    n_done: int = 0
    """Number of rows (or parts) used before an interruption; they do not come again."""


class Learner:
    """A model that learns from a stream of rows.

    Parameters
    ----------
    stream : Stream
        The model to start from; its cells are changed.
    passage : Passage
    """

    def __init__(self, stream: Stream, passage: Passage) -> None:
        self._stream, self._passage, self._history = stream, passage, stream.fit.history
        fit, self.n_seen = stream.fit, passage.n_done
        """Number of rows of this stream."""
        self._config = replace(fit.config, is_growing=passage.n_expected is None)
        n_rows = int(fit.state.rows_seen)
        self._n_before = n_rows - self.n_seen
        self._model = restored(fit.config.model, fit.state, copy=False)
        n_in_block = self.n_seen % self._config.block_rows
        self._training = Training(self._config, self._model, n_rows=n_rows, n_in_block=n_in_block)
        self._say = reporter(passage.tell, n_rows)
        self._saved = time.perf_counter()

    def learn(self, rows: Passing) -> Stream:
        """Learn from all rows that arrive; return the stream with the final model.

        Raises
        ------
        DataError
            NaN or infinity, with the column's name, or an unknown class.
        """

        def then(_: LearntRows) -> None:
            self.n_seen = self._training.n_rows - self._n_before
            if self.n_seen & (self.n_seen - 1) == 0:
                self._report()
            if self._passage.save is not None and time.perf_counter() - self._saved > SAVE_S:
                self._passage.save(self.so_far(), self.n_seen)
                self._saved = time.perf_counter()

        pieces = passing_rows(rows, self._config, self.n_seen)
        self._training.learn(rows, pieces, then, names=self._stream.names, is_passing=True)
        if self.n_seen & (self.n_seen - 1):
            self._report()
        return self.so_far()

    def so_far(self) -> Stream:
        """Return the stream with the model after the last piece."""
        n_rows = self._n_before + self.n_seen
        state = replace(self._model.state(), rows_seen=float(n_rows))
        fit = replace(self._stream.fit, state=state, n_samples=n_rows, history=self._history)
        return replace(self._stream, fit=fit)

    def _report(self) -> None:
        n_rows = self._n_before + self.n_seen
        self._history = self._history.after(1, n_rows, self._model.standing(), is_stream=True)
        self._say(self._history)


def learn_parts(
    run: Run, stream: Stream, source: Any, parts: Sequence[Any], n_replicas: int, passage: Passage
) -> Iterator[tuple[Stream, int]]:
    """Train several models on parts of a source, in tasks; yield their average after each round, and the parts done."""
    fit, names = stream.fit, stream.names
    config, say = replace(fit.config, is_growing=True), reporter(passage.tell, int(fit.state.rows_seen))
    kept, combine = run.keep(source), partial(averaged, config.model)
    for k in range(passage.n_done, len(parts), n_replicas):
        some = parts[k : k + n_replicas]
        items = [PartToLearn(part, len(some), i) for i, part in enumerate(some)]
        shared = (kept, HowToLearn(config, stream.labels, fit.n_samples), fit.state, names)
        found: LearntPart = run.workers.reduce_blocks(learn_part, items, combine, name="mission-train", shared=shared)
        n_rows, names = fit.n_samples + found.n_rows, found.names
        # keeps K of all features that are active in some model
        state = replace(restored(config.model, found.state, copy=False).state(), rows_seen=float(n_rows))
        history = fit.history.after(1, n_rows, state.standing(config.model), is_stream=True)
        say(history)
        fit = replace(fit, state=state, history=history, n_samples=n_rows)
        yield Stream(fit, stream.labels, names), k + len(some)


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
