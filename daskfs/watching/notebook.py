"""Progress in a notebook: an output of the cell that is updated. It needs IPython but no widgets."""

from __future__ import annotations

import html
import sys
from typing import Any

from daskfs.watching.state import State
from daskfs.watching.watch import Viewer
from daskfs.watching.words import shown_seconds


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and shell.has_trait("kernel")


class Cell(Viewer):
    """An output of the running cell."""

    every_s = 1.0

    def __init__(self) -> None:
        self._handle: Any = None
        self._said: list[str] = []
        self._last: State | None = None

    def began(self, state: State) -> None:
        """Show the first step immediately."""
        if self._handle is None:
            self.beat(state)

    def beat(self, state: State) -> None:
        """Update the output."""
        self._last = state
        self._show(page_of(state, self._said))

    def message(self, text: str) -> None:
        """Show a message above the bar."""
        self._said.append(text)

    def close(self) -> None:
        """Show the total duration."""
        if self._last is not None:
            said = "".join(f"<div>{html.escape(text)}</div>" for text in self._said)
            self._show(f"{said}<div>done in {shown_seconds(self._last.seconds)}</div>")

    def _show(self, page: str) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(page), display_id=True)
        else:
            self._handle.update(HTML(page))


def page_of(state: State, said: list[str] | None = None) -> str:
    """Return HTML with a bar, its text, and the features selected so far."""
    lines = [f"<div>{html.escape(text)}</div>" for text in said or ()]
    share = "" if state.step is None or state.step.share is None else f' value="{state.step.share:.3f}"'
    label = html.escape(state.to_line())
    lines.append(f'<div><progress style="width: 20em" aria-label="{label}"{share}></progress> {label}</div>')
    if state.n_selected:
        names = ", ".join(state.selected[:8]) + (", ..." if state.n_selected > 8 else "")
        lines.append(f"<div>{state.n_selected:,} selected so far: {html.escape(names)}</div>")
    return "".join(lines)
