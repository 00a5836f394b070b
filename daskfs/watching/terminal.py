"""A run on a terminal, as a bar; elsewhere, as lines: of what took a second, and once a minute of what goes on."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from daskfs.watching.base import Progress, Silent
from daskfs.watching.notebook import Cell, is_notebook
from daskfs.watching.state import State
from daskfs.watching.watch import Viewer, Watch
from daskfs.watching.words import shown_count, shown_seconds, words_of

LINE_EVERY_S = 60.0
"""A log says so often that the run goes on."""
WORTH_A_LINE_S = 1.0
"""Steps that took less are not told of in logs."""


class Lines(Viewer):
    """A line for each step that took a second or more, and once a minute one of what is going on.

    Parameters
    ----------
    write : callable
        Takes a line.
    least_s : float
        Steps that took less are left out.
    """

    every_s = LINE_EVERY_S

    def __init__(self, write: Callable[[str], None], least_s: float = WORTH_A_LINE_S) -> None:
        self._write, self._least_s = write, least_s

    def ended(self, state: State) -> None:
        """Say how long it took."""
        if state.step is not None and state.step_seconds >= self._least_s:
            self._write(of_ended(state))

    def beat(self, state: State) -> None:
        """Say what is going on."""
        self._write(state.to_line())

    def told(self, text: str) -> None:
        """Say it."""
        self._write(text)


def of_ended(state: State) -> str:
    """Return the line of a step that has ended."""
    assert state.step is not None
    method, words = words_of(state.step.name)
    counts = words.part == "row" and state.step.done > 1
    rows = f"{shown_count(state.step.done)} rows in " if counts else ""
    what = f"{method}, {words.doing}" if method else words.doing
    return f"{what}: {rows}{shown_seconds(state.step_seconds)}"


class Bar(Viewer):
    """A line of a terminal that is written over and over: what goes on, a bar, how fast, and the time left."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live: Any = None

    def began(self, state: State) -> None:
        """Show it at once."""
        self.beat(state)

    def ended(self, state: State) -> None:
        """Leave a line behind, where it took long."""
        if state.step_seconds >= WORTH_A_LINE_S:
            self.told(of_ended(state))

    def beat(self, state: State) -> None:
        """Write over the line."""
        from rich.console import Console
        from rich.live import Live

        if self._live is None:
            console = Console(file=self._stream)
            self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
            self._live.start()
        self._live.update(_drawn(state), refresh=True)

    def told(self, text: str) -> None:
        """Say it above the bar."""
        if self._live is None:
            print(text, file=self._stream, flush=True)
        else:
            self._live.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Remove the line."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _drawn(state: State) -> Any:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    line, heading = state.to_line(), state.heading
    heading = heading.rpartition(", ")[0] if heading.endswith(" %") else heading
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True, overflow="ellipsis")
    step = state.step
    if step is not None and step.share is not None:
        bar = ProgressBar(total=step.total, completed=min(step.done, step.total), width=24)
        row.add_row(Text(heading), bar, Text(line[len(heading) :].removeprefix(", ")))
    else:
        row.add_row(Text(line))
    return row


@contextmanager
def shown(stream: TextIO | None = None, name: str = "", **options: Any) -> Iterator[Watch]:
    """Show a run where it is started: in a notebook's cell, on a terminal, else as lines.

    Parameters
    ----------
    stream : TextIO, optional
        By default the standard error.
    name : str
        Of the run.
    **options
        Of `Watch`.

    Yields
    ------
    Watch
        To be told of steps.
    """
    stream = sys.stderr if stream is None else stream
    viewer: Viewer
    if is_notebook():
        viewer = Cell()
    elif stream.isatty():
        viewer = Bar(stream)
    else:
        viewer = Lines(lambda line: print(line, file=stream, flush=True))
    watch = Watch(name=name, **options)
    with watch.seen_by(viewer), watch.beating():
        yield watch


@contextmanager
def heard_by(progress: Progress | bool | None) -> Iterator[Progress]:
    """Give who is told of steps: the one given; for True who shows them here, otherwise nobody."""
    if progress is True:
        with shown() as watch:
            yield watch
    else:
        yield progress or Silent()


@contextmanager
def rewritten(stream: TextIO, clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[str], None]]:
    """Write a text again and again: on a terminal in one place; elsewhere when its first line changes, and each minute.

    Yields
    ------
    callable
        Takes the text as it is now.
    """
    if not stream.isatty():
        last: list[Any] = ["", -LINE_EVERY_S]

        def write(text: str) -> None:
            now, heading = clock(), _without_numbers(text)
            if heading != last[0] or now - last[1] >= LINE_EVERY_S:
                last[:] = heading, now
                print(text, file=stream, flush=True)

        yield write
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(file=stream), auto_refresh=False) as live:
        yield lambda text: live.update(Text(text), refresh=True)


def _without_numbers(text: str) -> str:
    """Return what stays the same while nothing but numbers change."""
    return re.sub(r"[\d.,%]+", "", text)
