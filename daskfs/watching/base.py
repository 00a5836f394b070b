"""Interfaces through which a run reports its progress and the features selected so far.

`Progress` is the minimum: the start, progress and end of steps. `Watched` also receives parts of steps, work done
before the run was resumed, the objective and the selected features. `as_watched` converts a `Progress` to a `Watched`,
so that other code need not distinguish them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


class Progress(Protocol):
    """Receiver of the progress of steps."""

    def start(self, name: str, total: int) -> None:
        """Begin a step of `total` parts (an estimate if a source does not know its number of rows)."""

    def advance(self, k: int = 1) -> None:
        """Report that `k` more parts are done."""

    def finish(self) -> None:
        """End the step."""


class Silent:
    """Receiver that shows nothing."""

    def start(self, name: str, total: int) -> None:
        """Begin a step."""

    def advance(self, k: int = 1) -> None:
        """Ignore the progress."""

    def finish(self) -> None:
        """End the step."""


@dataclass(frozen=True)
class Found:
    """Intermediate result of a method."""

    at: float
    """Position on the axis of the objective, such as the number of the pass."""
    axis: str
    objective: float
    n_selected: int
    selected: tuple[str, ...]
    """The first names of the selected features."""


@runtime_checkable
class Watched(Progress, Protocol):
    """Receiver of detailed progress."""

    def skip(self, k: int) -> None:
        """Report that `k` parts were done before the run was resumed, so they do not count for the speed."""

    def begin_part(self, name: str, total: int) -> None:
        """Begin a nested part of the step or of another part; `total` is 0 if its length is unknown."""

    def advance_part(self, k: int = 1) -> None:
        """Report progress of `k` within the innermost part."""

    def end_part(self) -> None:
        """End the innermost part."""

    def learn(self, find: Callable[[], Found]) -> None:
        """Report an intermediate result; `find` is called only if it is needed now."""


class OnlySteps:
    """Adapter for a receiver that only supports steps."""

    def __init__(self, progress: Progress) -> None:
        self.start, self.advance, self.finish = progress.start, progress.advance, progress.finish

    def skip(self, k: int) -> None:
        """Report as normal progress."""
        self.advance(k)

    def begin_part(self, name: str, total: int) -> None:
        """Ignore."""

    def advance_part(self, k: int = 1) -> None:
        """Ignore."""

    def end_part(self) -> None:
        """Ignore."""

    def learn(self, find: Callable[[], Found]) -> None:
        """Ignore."""


def as_watched(progress: Progress | None) -> Watched | None:
    """Return a receiver of detailed progress; None without a receiver."""
    if progress is None or isinstance(progress, Watched):
        return progress
    return OnlySteps(progress)
