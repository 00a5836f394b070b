"""Figures of a report as SVG text; drawn without a display and without pyplot's global state.

Figures of one result take its history and are None where the history does not hold what they show.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame

BLUE, RED, GREY = "#1f5f8b", "#b03a2e", "#9aa5ad"
LINE_COLOURS = (BLUE, RED, "#4f8a3c", "#b7791f", "#6b4c9a", "#2a9d9d", "#8c564b", GREY)
LINE_STYLES = ("-", "--", ":")
MAX_TICKS = 8  # one for each number of features, as long as they do not run into one another


def draw_history(history: DataFrame, kind: str) -> list[tuple[str, str]]:
    """Draw the figures of a history.

    Parameters
    ----------
    history : DataFrame
    kind : str
        A key of `FIGURES`; other kinds have no figure.

    Returns
    -------
    list of (str, str)
        Titles and SVG.
    """
    drawn = [(title, draw(history)) for title, draw in FIGURES.get(kind, ())]
    return [(title, svg) for title, svg in drawn if svg is not None]


def draw_gic_path(history: DataFrame) -> str | None:
    """Draw the criterion and the number of features along the path of penalties.

    Parameters
    ----------
    history : DataFrame
        With columns ``lambda``, ``gic`` and ``df``, one row for each penalty, from the largest down.

    Returns
    -------
    str or None
    """
    if not _holds(history, "lambda", "gic", "df"):
        return None
    penalty, gic, size = _columns(history, "lambda", "gic", "df")
    drawn = (penalty > 0) & np.isfinite(gic)
    if not drawn.any():
        return None
    penalty, gic, size = penalty[drawn], gic[drawn], size[drawn]
    chosen = history["chosen"].to_numpy(dtype=bool)[drawn] if "chosen" in history else gic == gic.min()

    def draw(axes: Any) -> None:
        axes.set(xscale="log", xlabel="penalty λ", ylabel="GIC")
        axes.plot(penalty, gic, color=BLUE, label="GIC")
        for value in penalty[chosen][:1]:
            axes.axvline(value, color=RED, linewidth=1, linestyle="--", label="chosen")
        axes.invert_xaxis()
        sizes = axes.twinx()
        sizes.step(penalty, size, color=GREY, where="post", label="features")
        sizes.set_ylabel("features in the model")
        _legend(axes, sizes)

    return _svg(draw)


def draw_objective(history: DataFrame) -> str | None:
    """Draw the objective against the number of columns presented, one epoch after the other.

    Parameters
    ----------
    history : DataFrame
        With columns ``n_presented``, ``objective`` and ``epoch``, one row for each block.

    Returns
    -------
    str or None
    """
    if not _holds(history, "n_presented", "objective", "epoch"):
        return None
    presented, objective, epoch = _columns(history, "n_presented", "objective", "epoch")

    def draw(axes: Any) -> None:
        axes.set(xlabel="columns presented", ylabel="objective")
        axes.plot(presented, objective, color=BLUE)
        for at in presented[np.append(np.diff(epoch) > 0, True)]:
            axes.axvline(at, color=GREY, linewidth=1, linestyle="--")

    return _svg(draw)


def draw_passes(history: DataFrame) -> str | None:
    """Draw the objective and the duality gap of FGM, pass after pass, with the number of features.

    Parameters
    ----------
    history : DataFrame
        With columns ``pass``, ``features``, ``objective`` and ``gap``, one row for each pass.

    Returns
    -------
    str or None
    """
    if not _holds(history, "pass", "features", "objective", "gap"):
        return None
    number, features, objective, gap = _columns(history, "pass", "features", "objective", "gap")

    def draw(axes: Any) -> None:
        axes.set(xlabel="pass over all columns", ylabel="objective")
        axes.plot(number, objective, color=BLUE, marker=".", label="objective")
        for x, y, count in zip(number, objective, features, strict=True):
            axes.annotate(f"{count:.0f}", (x, y), xytext=(0, 4), textcoords="offset points", fontsize=7)
        gaps = axes.twinx()
        gaps.plot(number, gap, color=RED, linestyle="--", label="duality gap before the pass")
        gaps.set_ylabel("gap relative to the objective")
        gaps.set_ylim(0.0, 1.05)
        _legend(axes, gaps)

    return _svg(draw)


def draw_learning_curve(history: DataFrame) -> str | None:
    """Draw the progressive validation loss, the mean loss of rows before training on them, pass after pass.

    Parameters
    ----------
    history : DataFrame
        With columns ``rows_seen``, ``mean_loss`` and ``pass``.

    Returns
    -------
    str or None
    """
    if not _holds(history, "rows_seen", "mean_loss", "pass"):
        return None
    rows, loss, number = _columns(history, "rows_seen", "mean_loss", "pass")

    def draw(axes: Any) -> None:
        axes.set(xlabel="rows", ylabel="mean loss")
        axes.plot(rows, loss, color=BLUE, marker="o", markersize=3)
        for at in rows[1:][np.diff(number) > 0]:
            axes.axvline(at, color=GREY, linewidth=1, linestyle="--")

    return _svg(draw)


def draw_trace(history: DataFrame) -> str | None:
    """Draw the objective while several workers push updates, and the staleness of the predictions they started from.

    Parameters
    ----------
    history : DataFrame
        With columns ``seconds``, ``version``, ``staleness``, ``accepted`` and ``objective``, one row for each push.

    Returns
    -------
    str or None
        Against time; where no time was taken, against the versions.
    """
    if not _holds(history, "seconds", "version", "staleness", "accepted", "objective"):
        return None
    is_timed = bool((history["seconds"] > 0).any())
    moment, staleness, accepted, objective = _columns(
        history, "seconds" if is_timed else "version", "staleness", "accepted", "objective"
    )
    refused = accepted == 0

    def draw(axes: Any) -> None:
        axes.set(xlabel="seconds" if is_timed else "version", ylabel="objective")
        axes.plot(moment, objective, color=BLUE, label="objective")
        axes.plot(moment[refused], objective[refused], "|", color=RED, label="rejected")
        ages = axes.twinx()
        ages.plot(moment, staleness, ".", color=GREY, markersize=2, label="staleness")
        ages.set_ylabel("versions behind")
        _legend(axes, ages)

    return _svg(draw)


def draw_metric_by_size(lines: Mapping[str, tuple[Sequence[int], Sequence[float]]], metric: str) -> str:
    """Draw a metric against the number of selected features, one line for each method.

    Parameters
    ----------
    lines : mapping of str to (sequence of int, sequence of float)
        Numbers of features, rising, and the metric at each.
    metric : str
        Its name.
    """

    def draw(axes: Any) -> None:
        axes.set(xlabel="selected features", ylabel=f"{metric} on the test rows")
        for k, (name, (sizes, values)) in enumerate(lines.items()):
            style = LINE_STYLES[k // len(LINE_COLOURS) % len(LINE_STYLES)]
            colour = LINE_COLOURS[k % len(LINE_COLOURS)]
            axes.plot(sizes, values, color=colour, linestyle=style, marker="o", markersize=3, label=_plain(name))
        sizes_shown = sorted({size for sizes, _ in lines.values() for size in sizes})
        if len(sizes_shown) <= MAX_TICKS:
            axes.set_xticks(sizes_shown)
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))

    return _svg(draw, right=0.62)


FIGURES: dict[str, tuple[tuple[str, Callable[[DataFrame], str | None]], ...]] = {
    "criterion path": (("GIC path of the first subset", draw_gic_path),),
    "blocks of columns": (("Objective as columns were presented", draw_objective),),
    "pushes": (("Objective and staleness of every push", draw_trace),),
    "passes": (("Passes over the columns", draw_passes),),
    "rows": (("Progressive validation: mean loss of rows before training on them", draw_learning_curve),),
}
"""Titles and figures by the kind of history."""


def _holds(history: DataFrame, *names: str) -> bool:
    return set(names) <= set(history.columns) and not history.empty


def _columns(history: DataFrame, *names: str) -> list[np.ndarray]:
    return [history[name].to_numpy(dtype=float) for name in names]


def _legend(axes: Any, other: Any) -> None:
    """Name the lines of two axes that share a figure, above it."""
    handles = [*axes.get_lines(), *other.get_lines()]
    labels = [str(line.get_label()) for line in handles]
    axes.legend(handles, labels, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _plain(text: str) -> str:
    """Return text that matplotlib does not take for a formula, or for a line that has no name."""
    return text.replace("$", r"\$").removeprefix("_")


def _svg(draw: Callable[[Any], None], right: float = 0.9) -> str:
    """Return what `draw` draws on fresh axes; the same bytes every time."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "daskfs", "svg.fonttype": "none", "axes.spines.top": False}):
        figure = Figure(figsize=(7.2, 3.2))
        figure.subplots_adjust(left=0.12, right=right, bottom=0.16, top=0.9)
        draw(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :]
