"""Progress of a run: passed on to what shows it, timed, and written to the run's log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TextIO

from daskfs.matrix.base import Progress


class StepTimes:
    """Passes progress on, measures how long each step takes and logs it.

    Parameters
    ----------
    shown : Progress
        What shows it.
    log : TextIO
        The log, which gets lines with the time of day.
    """

    def __init__(self, shown: Progress, log: TextIO) -> None:
        self.shown = shown
        self.log = log
        self.seconds: dict[str, float] = {}
        self._name = ""
        self._since = 0.0

    def start(self, name: str, total: int) -> None:
        """Begin a step."""
        self._name, self._since = name, time.perf_counter()
        self.say(f"{name}: {total:,} to do")
        self.shown.start(name, total)

    def advance(self, k: int = 1) -> None:
        """Go on."""
        self.shown.advance(k)

    def finish(self) -> None:
        """End the step; steps of one name add up."""
        seconds = time.perf_counter() - self._since
        self.seconds[self._name] = self.seconds.get(self._name, 0.0) + seconds
        self.say(f"{self._name}: done in {seconds:.2f} s")
        self.shown.finish()

    def tell(self, text: str) -> None:
        """Tell whoever watches, where that can be told; the log, which others may read, does not hear of it."""
        if (say := getattr(self.shown, "say", None)) is not None:
            say(text)

    def say(self, text: str) -> None:
        """Write a line to the log."""
        print(f"{datetime.now().astimezone().isoformat(timespec='seconds')}  {text}", file=self.log, flush=True)


@contextmanager
def logged(path: Path, shown: Progress) -> Iterator[StepTimes]:
    """Open a run's log, a resumed run's at its end; what ends the run early is its last line."""
    with path.open("a", encoding="utf-8") as log:
        steps = StepTimes(shown, log)
        try:
            yield steps
        except BaseException as fault:
            with suppress(OSError):  # the disk may be full
                steps.say(f"stopped: {fault or type(fault).__name__}")
            raise
