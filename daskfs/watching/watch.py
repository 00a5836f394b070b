"""Collect the progress of a run, measure its speed, and show its state to viewers.

Reporting a step costs two clock readings, and progress within it an addition. Viewers are called at their own intervals
from a separate thread, so that they are also updated during a step that takes minutes.

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
from daskfs.watching.base import Found, Progress, Watched, as_watched
from daskfs.watching.reads import READ
from daskfs.watching.state import Memory, Part, State

BEAT_S = 0.5
"""Seconds between checks for viewers that are due."""
MEASURED_EVERY_S = 2.0
"""Seconds between measurements of memory and read bytes of workers."""
RATE_OVER_S = 6.0
"""Time span over which speeds are averaged, in seconds."""
FOUND_EVERY_S = 0.25
MOST_VALUES = 400
"""Maximum number of stored values of the objective; beyond it, every second value is dropped."""
CLOSING_S = 2.0


class Viewer:
    """Receiver of the state of a run."""

    every_s = BEAT_S
    """Seconds between calls of `beat`."""

    def began(self, state: State) -> None:
        """Called when a step begins."""

    def ended(self, state: State) -> None:
        """Called when a step has ended, after `state.step_seconds`."""

    def beat(self, state: State) -> None:
        """Called at intervals of `every_s`."""

    def message(self, text: str) -> None:
        """Called with a message for users who are watching now."""

    def noted(self, text: str) -> None:
        """Called with a message for logs."""

    def close(self) -> None:
        """Called at the end."""


class Measured(NamedTuple):
    """Memory of the processes of a run by name, and bytes read so far."""

    memory: Mapping[str, int]
    read_nbytes: int


def measured_here() -> Measured:
    """Return memory and read bytes of this process."""
    return Measured({"client": int(psutil.Process().memory_info().rss)}, READ.nbytes)


class Watch:
    """Receives the progress of a run (see `daskfs.watching.base.Watched`), and shows it to viewers.

    Parameters
    ----------
    *viewers : Viewer
    name : str
        Name of the run.
    follower : Progress, optional
        Another receiver, to which all progress is forwarded immediately.
    measure : callable, optional
        Returns the memory and read bytes of the run's processes; default: of this process.
    clock : callable
        Returns monotonic time in seconds.

    Attributes
    ----------
    seconds : dict of float
        Durations of steps; steps of the same name are summed.
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
        """Bytes per row of the matrix, to report the read speed in rows as well."""
        self.promised: dict[str, int] = {}
        """Planned peak memory by kind of process: "client", "worker"."""
        self.dashboard: str | None = None
        self._follower: Watched | None = as_watched(follower)
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
        """Add work that was done before the run was resumed."""
        self._done += k
        self._skipped += k
        if self._follower is not None:
            self._follower.skip(k)

    def advance(self, k: int = 1) -> None:
        """Add progress."""
        self._done += k
        self._advanced = self._clock()
        if self._follower is not None:
            self._follower.advance(k)

    def finish(self) -> None:
        """End the step."""
        if self._not_asked is not None:
            with suppress(OSError, RuntimeError):  # the central node may be lost
                self._note(self._not_asked, self._clock())
        if self._step is not None:
            name, seconds = self._step.name, self._clock() - self._since
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            self._tell("ended")
        self._step, self._parts = None, []
        if self._follower is not None:
            self._follower.finish()

    def begin_part(self, name: str, total: int) -> None:
        """Begin a part of the step."""
        self._parts.append([name, total, 0])
        if self._follower is not None:
            self._follower.begin_part(name, total)

    def advance_part(self, k: int = 1) -> None:
        """Add progress within the innermost part."""
        if self._parts:
            self._parts[-1][2] += k  # type: ignore[operator]
        if self._follower is not None:
            self._follower.advance_part(k)

    def end_part(self) -> None:
        """End the innermost part."""
        if self._parts:
            self._parts.pop()
        if self._follower is not None:
            self._follower.end_part()

    def learn(self, find: Callable[[], Found]) -> None:
        """Record intermediate results, a few per second, and the last one."""
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
        """Send a message to users who are watching now, but not to logs, which others may read."""
        for viewer in [*self.viewers]:
            viewer.message(text)

    def say(self, text: str) -> None:
        """Send a message to logs."""
        for viewer in [*self.viewers]:
            viewer.noted(text)

    @property
    def state(self) -> State:
        """The current state."""
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
        """Show the state to the viewers that are due."""
        now = self._clock()
        due = [one for one in [*self.viewers] if now - self._looked.setdefault(one, self._began) >= one.every_s]
        if not due:
            return
        if now - self._measured_at >= MEASURED_EVERY_S:
            self._measured_at = now
            with suppress(Exception):  # lost workers are handled by the run
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
        """Update viewers from a thread until the end of the block; nested blocks share the thread."""
        if self._is_beating:
            yield
            return
        self._is_beating = True
        try:
            with interrupts.beside(self._beat_on, "daskfs-watch", CLOSING_S):  # a lost scheduler may delay its end
                yield
        finally:
            self._is_beating = False

    @contextmanager
    def seen_by(self, *viewers: Viewer) -> Iterator[None]:
        """Add viewers during the block."""
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
        """Use another measuring function during the block."""
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
        """Return the estimated remaining seconds of a step at its average speed."""
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
    """Return the given `Watch`, or a new one that forwards to the given receiver."""
    return progress if isinstance(progress, Watch) else Watch(follower=progress)
