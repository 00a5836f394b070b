"""The page of daskfs on Dask's dashboard: progress of a run, selected features, read speed and memory of workers."""

from __future__ import annotations

import html
import math
from typing import Any

from bokeh.layouts import column, row
from bokeh.models import BasicTickFormatter, ColumnDataSource, HoverTool, Range1d
from bokeh.models.widgets import Div
from bokeh.plotting import figure

from daskfs.watching.state import State
from daskfs.watching.words import shown_bytes, shown_count, shown_seconds

EVERY_MS = 1000
LEAST_S, MOST_S = 60.0, 600.0
"""Shortest and longest time span of the plot of speeds, in seconds."""
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#5f6b76"  # distinguishable with colour blindness
WIDTH, HEIGHT = 560, 270
MOST_WORKERS = 40
"""Maximum number of workers that are drawn, those with the largest memory."""

_STYLE = """
<style>
.daskfs {font: 15px/1.45 system-ui, sans-serif; color: #1d2733}
.daskfs.wide {width: 520px}
.daskfs h1 {font-size: 21px; margin: 4px 0 2px} .daskfs h2 {font-size: 15px; margin: 6px 0 4px}
.daskfs .bar {background: #e3e8ee; border-radius: 4px; height: 14px; width: 100%; margin: 6px 0}
.daskfs .bar div {background: #0072b2; border-radius: 4px; height: 14px}
.daskfs .fact {display: inline-block; margin: 0 28px 0 0} .daskfs .fact b {font-size: 19px; display: block}
.daskfs ol {columns: 3; column-width: 150px; margin: 2px 0; padding-left: 30px} .daskfs .quiet {color: #5f6b76}
</style>
"""


def show(plugin: Any, doc: Any) -> None:
    """Fill a page from a scheduler's plugin, and keep updating it."""
    doc.title = "daskfs"
    page = Page(plugin)
    page.update()
    doc.add_root(page.root)
    doc.add_periodic_callback(page.update, EVERY_MS)


class Page:
    """An open page.

    Parameters
    ----------
    plugin : RunsOnDashboard
        Its `runs`, `rates` and `measured()` are shown.
    """

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin
        self._head, self._names = Div(width=2 * WIDTH), Div(width=WIDTH, margin=(5, 5, 5, 30))
        self._objective = ColumnDataSource({"at": [], "value": []})
        self._speed = ColumnDataSource({"at": [], "rate": []})
        self._memory = ColumnDataSource({"worker": [], "mib": [], "promised": []})
        self._curve = _figure("Objective", "pass", "objective")
        self._curve.line("at", "value", source=self._objective, color=BLUE, line_width=2)
        self._curve.scatter("at", "value", source=self._objective, color=BLUE, size=5)
        self._curve.add_tools(HoverTool(tooltips=[("at", "@at{0.[00]}"), ("objective", "@value{0.[000000]}")]))
        self._rate = _figure("Read from stores, all processes", "seconds before now", "MB/s")
        self._rate.varea("at", 0, "rate", source=self._speed, color=BLUE, alpha=0.25)
        self._rate.line("at", "rate", source=self._speed, color=BLUE, line_width=2)
        self._rate.x_range, self._rate.y_range.start = Range1d(start=-LEAST_S, end=0), 0
        self._held = _figure("Memory of each worker", "MiB", None, y_range=[""])
        self._held.hbar("worker", 0.55, "mib", source=self._memory, color=BLUE, legend_label="held now")
        self._held.scatter(
            "promised", "worker", source=self._memory, marker="dash", angle=math.pi / 2, size=26, line_width=4,
            color=ORANGE, legend_label="planned maximum",
        )  # fmt: skip
        self._held.x_range.start = 0
        legend = self._held.legend[0]
        legend.orientation, legend.label_text_font_size, legend.border_line_color = "horizontal", "12px", None
        self._held.add_layout(legend, "above")
        above, below = row(self._curve, self._rate), row(self._held, self._names)
        self.root = column(self._head, above, below, margin=(10, 18, 10, 18))

    def update(self) -> None:
        """Show the current state."""
        states = [State.from_document(document) for document in [*self._plugin.runs.values()]]
        times, rates = self._plugin.rates
        self._speed.data = {"at": times, "rate": [rate / 1e6 for rate in rates]}
        self._rate.x_range.start = max(-MOST_S, min([-LEAST_S, *times]))
        self._show_workers(states[-1] if states else State())
        if not states:
            self._head.text = _STYLE + '<div class="daskfs"><h1>daskfs</h1>No run yet.</div>'
            return
        state = states[-1]
        self._head.text = _STYLE + _heading(state, sum(rates[-5:]) / max(1, len(rates[-5:])))
        self._names.text = _STYLE + _selected(state)
        self._objective.data = {name: [pair[k] for pair in state.objective] for k, name in enumerate(("at", "value"))}
        self._curve.xaxis.axis_label = state.axis

    def _show_workers(self, state: State) -> None:
        held = sorted(self._plugin.measured().values(), key=lambda one: -one[1])[:MOST_WORKERS]
        promised = next((one.promised_nbytes for name, one in state.memory.items() if name != "client"), None)
        if promised is None:
            promised = next((one.promised_nbytes for one in state.memory.values()), None)
        names = [f"worker {name}" if len(name) < 12 else name[:12] for name, _, _ in held]
        names = [name if names.count(name) == 1 else f"{name} ({k})" for k, name in enumerate(names)]
        if names != list(self._held.y_range.factors):
            self._held.y_range.factors = names or [""]
        limit = math.nan if promised is None else promised / 2**20
        mib = [nbytes / 2**20 for _, nbytes, _ in held]
        self._memory.data = {"worker": names, "mib": mib, "promised": [limit] * len(held)}


def _figure(title: str, x: str, y: str | None, **options: Any) -> Any:
    options["tools"] = ""  # set here because type checkers do not know this argument
    made: Any = figure(title=title, width=WIDTH, height=HEIGHT, toolbar_location=None, **options)
    made.xaxis.axis_label, made.yaxis.axis_label = x, y
    made.yaxis.formatter = BasicTickFormatter(power_limit_high=8) if y is not None else made.yaxis[0].formatter
    made.title.text_font_size, made.title.text_color = "15px", "#1d2733"
    for axis in (*made.xaxis, *made.yaxis):
        axis.axis_label_text_font_style, axis.axis_label_text_font_size = "normal", "13px"
        axis.major_label_text_font_size, axis.axis_label_text_color = "12px", GREY
    made.grid.grid_line_color, made.outline_line_color = "#e3e8ee", None
    return made


def _heading(state: State, rate: float) -> str:
    """Return HTML with name, step, bar and numbers."""
    share = state.step.share if state.step is not None else None
    bar = "" if share is None else f'<div class="bar"><div style="width: {share:.1%}"></div></div>'
    rows = None if not rate or not state.row_rate or not state.read_rate else rate * state.row_rate / state.read_rate
    facts = {
        "left of this step, at this speed": None if state.seconds_left is None else shown_seconds(state.seconds_left),
        "so far": shown_seconds(state.seconds),
        "read": f"{shown_bytes(rate)}/s" if rate else None,
        "rows": f"{shown_count(rows)}/s" if rows else None,
        "read since the start": shown_bytes(state.read_nbytes) if state.read_nbytes else None,
        "selected so far": None if state.n_selected is None else f"{state.n_selected:,}",
    }
    shown = "".join(f'<span class="fact"><b>{value}</b>{name}</span>' for name, value in facts.items() if value)
    name = html.escape(state.name or "a fit")
    return f'<div class="daskfs"><h1>{name}</h1>{html.escape(state.heading)}{bar}{shown}</div>'


def _selected(state: State) -> str:
    """Return HTML with the names selected so far."""
    if not state.selected:
        return '<div class="daskfs"><h2>Selected so far</h2><span class="quiet">nothing yet</span></div>'
    names = "".join(f"<li>{html.escape(name)}</li>" for name in state.selected)
    more = (state.n_selected or 0) - len(state.selected)
    rest = f'<span class="quiet">and {more:,} more</span>' if more > 0 else ""
    return f'<div class="daskfs wide"><h2>Selected so far</h2><ol>{names}</ol>{rest}</div>'
