"""A run, watched: hears of its steps, measures their speed and shows the state to whoever looks at it.

A step costs its speaker two clock readings, a part of one an addition: viewers look when they want to, from a thread of
their own, so that there is a sign of life within a step that takes minutes, too.

    >>> class Shout(Viewer):
    ...     every_s = 30.0
    ...
    ...     def beat(self, state):
    ...         print(state.to_line())
    >>> now = [0.0]
    >>> watch = Watch(Shout(), clock=lambda: now[0])
    >>> watch.start("evaluate", 1000)
    >>> now[0] = 30.0
    >>> watch.advance(250)
    >>> watch.beat()
    predicting the test rows, 25 %, 1 min 30 s left
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import NamedTuple

import psutil

from daskfs import interrupts
from daskfs.watching.base import Found, Progress, Watched, told
from daskfs.watching.reads import READ
from daskfs.watching.state import Memory, Part, State

BEAT_S = 0.5
"""How often viewers are asked whether they want to look."""
MEASURED_EVERY_S = 2.0
"""How often workers are asked what they hold and have read."""
RATE_OVER_S = 6.0
"""Speeds are those of the last so many seconds."""
FOUND_EVERY_S = 0.25
MOST_VALUES = 400
"""Of the objective that are kept: beyond, every second one is dropped."""
CLOSING_S = 2.0


class Viewer:
    """Somebody who looks at a run."""

    every_s = BEAT_S
    """How often."""

    def began(self, state: State) -> None:
        """A step has begun."""

    def ended(self, state: State) -> None:
        """A step has ended, after `state.step_seconds`."""

    def beat(self, state: State) -> None:
        """It is time to look."""

    def told(self, text: str) -> None:
        """Something is said to whoever looks now."""

    def noted(self, text: str) -> None:
        """Something is said to whoever will ask later."""

    def close(self) -> None:
        """Nothing more comes."""


class Measured(NamedTuple):
    """What the processes of a run hold, and have read so far."""

    memory: Mapping[str, int]
    read_nbytes: int


def measured_here() -> Measured:
    """Return what this process holds and has read."""
    return Measured({"client": int(psutil.Process().memory_info().rss)}, READ.nbytes)


class Watch:
    """Hears how a run goes on (see `daskfs.watching.base.Watched`), and shows it.

    Parameters
    ----------
    *viewers : Viewer
    name : str
        Of the run.
    follower : Progress, optional
        Who is told everything as well, at once.
    measure : callable, optional
        Returns what the run's processes hold; by default this one.
    clock : callable
        Seconds, which only grow.

    Attributes
    ----------
    seconds : dict of float
        What the steps took; those of one name add up.
    """

    def __init__(
        self,
        *viewers: Viewer,
        name: str = "",
        follower: Progress | None = None,
        measure: Callable[[], Measured] = measured_here,
        is_compiling: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.viewers, self.name, self.measure = list(viewers), name, measure
        self.seconds: dict[str, float] = {}
        self.row_nbytes = 0.0
        """Of the matrix: what is read of it is told in rows, too."""
        self.promised: dict[str, int] = {}
        """Peak memory by kind of process: "client", "worker"."""
        self.dashboard: str | None = None
        self._follower: Watched | None = told(follower)
        self._is_compiling, self._clock = is_compiling, clock
        self._began = clock()
        self._step: Part | None = None
        self._done = self._skipped = 0
        self._since = self._advanced = self._began
        self._parts: list[list[object]] = []
        self._found: Found | None = None
        self._found_at = -FOUND_EVERY_S
        self._not_asked: Callable[[], Found] | None = None
        self._values: list[tuple[float, float]] = []
        self._looked: dict[Viewer, float] = {}
        self._measured, self._measured_at = Measured({}, 0), -MEASURED_EVERY_S
        self._reads: deque[tuple[float, int]] = deque()
        self._lock = threading.RLock()
        self._is_beating = False

    def start(self, name: str, total: int) -> None:
        """Begin a step."""
        self._since = self._advanced = self._clock()
        self._done = self._skipped = 0
        self._step, self._parts = Part(name, total), []
        if self._follower is not None:
            self._follower.start(name, total)
        self._tell("began")

    def skip(self, k: int) -> None:
        """Go on from where an earlier run was."""
        self._done += k
        self._skipped += k
        if self._follower is not None:
            self._follower.skip(k)

    def advance(self, k: int = 1) -> None:
        """Go on."""
        self._done += k
        self._advanced = self._clock()
        if self._follower is not None:
            self._follower.advance(k)

    def finish(self) -> None:
        """End the step."""
        if self._not_asked is not None:
            with suppress(OSError, RuntimeError):  # of a node that is gone
                self._note(self._not_asked, self._clock())
        if self._step is not None:
            name, seconds = self._step.name, self._clock() - self._since
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            self._tell("ended")
        self._step, self._parts = None, []
        if self._follower is not None:
            self._follower.finish()

    def begin_part(self, name: str, total: int) -> None:
        """Begin what is a part of the step."""
        self._parts.append([name, total, 0])
        if self._follower is not None:
            self._follower.begin_part(name, total)

    def advance_part(self, k: int = 1) -> None:
        """Go on within it."""
        if self._parts:
            self._parts[-1][2] += k  # type: ignore[operator]
        if self._follower is not None:
            self._follower.advance_part(k)

    def end_part(self) -> None:
        """End it."""
        if self._parts:
            self._parts.pop()
        if self._follower is not None:
            self._follower.end_part()

    def learn(self, find: Callable[[], Found]) -> None:
        """Note what was found, some times a second, and what was found last."""
        now = self._clock()
        if now - self._found_at < FOUND_EVERY_S and self._found is not None:
            self._not_asked = find
            return
        self._note(find, now)

    def _note(self, find: Callable[[], Found], now: float) -> None:
        self._found, self._found_at, self._not_asked = find(), now, None
        with self._lock:
            if self._values and self._found.at < self._values[-1][0]:
                self._values.clear()  # another fit
            self._values.append((self._found.at, self._found.objective))
            if len(self._values) > MOST_VALUES:
                del self._values[1::2]
        if self._follower is not None:
            self._follower.learn(lambda: self._found or find())

    def tell(self, text: str) -> None:
        """Say something to whoever looks now; logs, which others may read, do not hear of it."""
        for viewer in [*self.viewers]:
            viewer.told(text)

    def say(self, text: str) -> None:
        """Say something to whoever will ask later: a line of the log."""
        for viewer in [*self.viewers]:
            viewer.noted(text)

    @property
    def state(self) -> State:
        """What is known now."""
        now = self._clock()
        step, parts, done = self._step, self._parts[-1:], self._done
        found, measured = self._found, self._measured
        rate = self._rate()
        row_rate = rate / self.row_nbytes if rate and self.row_nbytes else None
        if step is not None:
            step = replace(step, done=done)
            if row_rate is None and step.name in ("ingest", "tiles", "blocks") and self._advanced > self._since:
                row_rate = (done - self._skipped) / (self._advanced - self._since)
        return State(
            name=self.name,
            seconds=now - self._began,
            step=step,
            step_seconds=now - self._since if step is not None else now - self._began,
            seconds_left=None if step is None else self._left(step, now),
            part=Part(*parts[0]) if parts else None,  # type: ignore[arg-type]
            is_compiling=self._is_compiling(),
            read_nbytes=measured.read_nbytes,
            read_rate=rate,
            row_rate=row_rate,
            objective=tuple(self._values),
            axis=found.axis if found else "pass",
            n_selected=found.n_selected if found else None,
            selected=found.selected if found else (),
            memory={name: Memory(nbytes, self._promise(name)) for name, nbytes in measured.memory.items()},
            dashboard=self.dashboard,
        )

    def beat(self) -> None:
        """Show the state to those viewers whose time has come."""
        now = self._clock()
        due = [one for one in [*self.viewers] if now - self._looked.setdefault(one, self._began) >= one.every_s]
        if not due:
            return
        if now - self._measured_at >= MEASURED_EVERY_S:
            self._measured_at = now
            with suppress(Exception):  # workers that are gone are the run's concern
                self._measured = self.measure()
                self._reads.append((now, self._measured.read_nbytes))
            while len(self._reads) > 2 and now - self._reads[0][0] > RATE_OVER_S:
                self._reads.popleft()
        state = self.state
        with self._lock:
            for viewer in due:
                self._looked[viewer] = now
                viewer.beat(state)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Look from time to time, in a thread, until the end of the block; once for all that are inside one another."""
        if self._is_beating:
            yield
            return
        self._is_beating = True
        try:
            with interrupts.beside(self._beat_on, "daskfs-watch", CLOSING_S):  # a scheduler that is gone may keep it
                yield
        finally:
            self._is_beating = False

    @contextmanager
    def seen_by(self, *viewers: Viewer) -> Iterator[None]:
        """Show the run to others for as long as the block lasts."""
        self.viewers += viewers
        try:
            yield
        finally:
            for viewer in viewers:
                self.viewers.remove(viewer)
                with self._lock:
                    viewer.close()

    @contextmanager
    def measured_by(self, measure: Callable[[], Measured]) -> Iterator[None]:
        """Measure otherwise for as long as the block lasts."""
        before, self.measure = self.measure, measure
        self._reads.clear()
        try:
            yield
        finally:
            self.measure = before
            self._reads.clear()

    def _beat_on(self, is_over: Callable[[float], bool]) -> None:
        while not is_over(BEAT_S):
            self.beat()

    def _tell(self, what: str) -> None:
        state = self.state
        with self._lock:
            for viewer in [*self.viewers]:
                getattr(viewer, what)(state)

    def _left(self, step: Part, now: float) -> float | None:
        """Return the seconds that the rest of a step takes at the speed of what is done."""
        n_done, seconds = step.done - self._skipped, self._advanced - self._since
        if n_done <= 0 or seconds <= 0.0 or step.total <= step.done:
            return None
        return max(0.0, (step.total - step.done) * seconds / n_done - (now - self._advanced))

    def _rate(self) -> float | None:
        with suppress(IndexError):
            (first, before), (last, now) = self._reads[0], self._reads[-1]
            if last > first and now > before:
                return (now - before) / (last - first)
        return None

    def _promise(self, process: str) -> int | None:
        return self.promised.get("client" if process == "client" else "worker")


def watch_of(progress: Progress | None) -> Watch:
    """Return what watches a run: what is given, or one that tells it."""
    return progress if isinstance(progress, Watch) else Watch(follower=progress)
