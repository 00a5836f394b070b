"""What a run tells whoever watches: steps and how far they are, and by the way what was found so far.

`Progress` is all that somebody must have who wants to hear of steps. `Watched` hears more: which part of a step is
going on, what was done before the run was resumed, the objective and the features selected so far. `told` makes one of
the other, so that nobody else asks who is listening.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


class Progress(Protocol):
    """Told how a long step goes on."""

    def start(self, name: str, total: int) -> None:
        """Begin a step of `total` parts (an estimate, where a source does not know its rows)."""

    def advance(self, k: int = 1) -> None:
        """Say that `k` more parts are done."""

    def finish(self) -> None:
        """End the step."""


class Silent:
    """Shows no progress."""

    def start(self, name: str, total: int) -> None:
        """Begin a step."""

    def advance(self, k: int = 1) -> None:
        """Go on."""

    def finish(self) -> None:
        """End the step."""


@dataclass(frozen=True)
class Found:
    """What a method has found so far."""

    at: float
    """How far it was then, on the axis of the objective: the number of the pass, for example."""
    axis: str
    objective: float
    n_selected: int
    selected: tuple[str, ...]
    """The first of their names."""


@runtime_checkable
class Watched(Progress, Protocol):
    """Told more than the steps."""

    def skip(self, k: int) -> None:
        """Say that `k` parts of the step were done before the run was resumed: they tell nothing of its speed."""

    def begin_part(self, name: str, total: int) -> None:
        """Begin what is a part of the step, or of another part; of unknown length where `total` is 0."""

    def advance_part(self, k: int = 1) -> None:
        """Say that `k` more of the innermost part are done."""

    def end_part(self) -> None:
        """End the innermost part."""

    def learn(self, find: Callable[[], Found]) -> None:
        """Take note of what was found so far; `find` is called where somebody wants to know now."""


class OnlySteps:
    """Tells somebody who hears of steps alone."""

    def __init__(self, progress: Progress) -> None:
        self.start, self.advance, self.finish = progress.start, progress.advance, progress.finish

    def skip(self, k: int) -> None:
        """As if they were done now."""
        self.advance(k)

    def begin_part(self, name: str, total: int) -> None:
        """Not told."""

    def advance_part(self, k: int = 1) -> None:
        """Not told."""

    def end_part(self) -> None:
        """Not told."""

    def learn(self, find: Callable[[], Found]) -> None:
        """Not told."""


def told(progress: Progress | None) -> Watched | None:
    """Return who is told everything; None where nobody listens."""
    if progress is None or isinstance(progress, Watched):
        return progress
    return OnlySteps(progress)
