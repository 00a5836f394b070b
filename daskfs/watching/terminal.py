"""Display of progress: a bar on a terminal; elsewhere lines for longer steps, and one per minute during a step."""

from __future__ import annotations

import multiprocessing
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
"""Seconds between lines about the progress in a log."""
WORTH_A_LINE_S = 1.0
"""Minimum duration of a step that is logged."""
COMPILING = "daskfs: compiling kernels, once per machine; `daskfs warmup` compiles all, verbose=True shows progress"
_has_said = False


class Lines(Viewer):
    """Writes a line for each step of at least a second, and one per minute about the progress.

    Parameters
    ----------
    write : callable
        Receives a line.
    least_s : float
        Minimum duration of a step that is written.
    """

    every_s = LINE_EVERY_S

    def __init__(self, write: Callable[[str], None], least_s: float = WORTH_A_LINE_S) -> None:
        self._write, self._least_s = write, least_s

    def ended(self, state: State) -> None:
        """Write the duration of a step."""
        if state.step is not None and state.step_seconds >= self._least_s:
            self._write(of_ended(state))

    def beat(self, state: State) -> None:
        """Write the progress."""
        self._write(state.to_line())

    def message(self, text: str) -> None:
        """Write a message."""
        self._write(text)


def of_ended(state: State) -> str:
    """Return the line about a finished step."""
    assert state.step is not None
    method, words = words_of(state.step.name)
    counts = words.part == "row" and state.step.done > 1
    rows = f"{shown_count(state.step.done)} rows in " if counts else ""
    what = f"{method}, {words.doing}" if method else words.doing
    return f"{what}: {rows}{shown_seconds(state.step_seconds)}"


class Bar(Viewer):
    """A line of a terminal that is updated: step, bar, speed and remaining time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live: Any = None

    def began(self, state: State) -> None:
        """Show a new step immediately."""
        self.beat(state)

    def ended(self, state: State) -> None:
        """Print a line about a long step."""
        if state.step_seconds >= WORTH_A_LINE_S:
            self.message(of_ended(state))

    def beat(self, state: State) -> None:
        """Update the line."""
        from rich.console import Console
        from rich.live import Live

        if self._live is None:
            console = Console(file=self._stream)
            self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
            self._live.start()
        self._live.update(_drawn(state), refresh=True)

    def message(self, text: str) -> None:
        """Print a message above the bar."""
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
    """Show the progress of a run: in a notebook's cell, as a bar on a terminal, else as lines.

    Parameters
    ----------
    stream : TextIO, optional
        Default: standard error.
    name : str
        Name of the run.
    **options
        Options of `Watch`.

    Yields
    ------
    Watch
        Receiver of progress.
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


def say_compiling() -> None:
    """Say on standard error that kernels are compiled: once, on a terminal or in a notebook, where somebody waits.

    Scripts whose errors go to a file or a pipe, and child processes such as workers, write nothing.
    """
    global _has_said
    is_seen = is_notebook() or (sys.stderr is not None and sys.stderr.isatty())
    if is_seen and not _has_said and multiprocessing.parent_process() is None:
        _has_said = True
        print(COMPILING, file=sys.stderr, flush=True)


@contextmanager
def heard_by(progress: Progress | bool | None) -> Iterator[Progress]:
    """Yield the receiver of progress: the given one, a display for True, otherwise a silent one."""
    if progress is True:
        with shown() as watch:
            yield watch
    else:
        yield progress or Silent()


@contextmanager
def rewritten(stream: TextIO, clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[str], None]]:
    """Write an updated text repeatedly: in place on a terminal, elsewhere when more than its numbers change.

    Elsewhere it is also written once per minute.

    Yields
    ------
    callable
        Receives the current text.
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
    """Return a text without its numbers."""
    return re.sub(r"[\d.,%]+", "", text)
