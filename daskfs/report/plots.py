"""Figures of a report as SVG text; drawn without a display and without pyplot's global state."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame


def draw_gic_path(history: DataFrame) -> str | None:
    """Draw the criterion and the number of features along the path of penalties.

    Parameters
    ----------
    history : DataFrame
        With columns ``lambda``, ``gic`` and ``df``, one row for each penalty, from the largest down.

    Returns
    -------
    str or None
        SVG; None where the history holds no path.
    """
    if not {"lambda", "gic", "df"} <= set(history.columns):
        return None
    penalty, gic, size = (history[name].to_numpy(dtype=float) for name in ("lambda", "gic", "df"))
    drawn = (penalty > 0) & np.isfinite(gic)
    if not drawn.any():
        return None
    penalty, gic, size = penalty[drawn], gic[drawn], size[drawn]
    chosen = history["chosen"].to_numpy(dtype=bool)[drawn] if "chosen" in history else gic == gic.min()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "daskfs", "svg.fonttype": "none", "axes.spines.top": False}):
        figure = Figure(figsize=(7.2, 3.2))
        figure.subplots_adjust(left=0.12, right=0.9, bottom=0.16, top=0.9)
        axes = figure.add_subplot(xscale="log", xlabel="penalty λ", ylabel="GIC")
        axes.plot(penalty, gic, color="#1f5f8b", label="GIC")
        for value in penalty[chosen][:1]:
            axes.axvline(value, color="#b03a2e", linewidth=1, linestyle="--", label="chosen")
        axes.invert_xaxis()
        sizes = axes.twinx()
        sizes.step(penalty, size, color="#9aa5ad", where="post", label="features")
        sizes.set_ylabel("features in the model")
        handles = [*axes.get_lines(), *sizes.get_lines()]
        labels = [str(line.get_label()) for line in handles]
        axes.legend(handles, labels, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :]


def draw_objective(history: DataFrame) -> str | None:
    """Draw how the objective fell while columns were presented, an epoch beside the other.

    Parameters
    ----------
    history : DataFrame
        With columns ``n_presented``, ``objective`` and ``epoch``, one row for each block.

    Returns
    -------
    str or None
        SVG; None where the history holds no objective.
    """
    if not {"n_presented", "objective", "epoch"} <= set(history.columns) or history.empty:
        return None
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "daskfs", "svg.fonttype": "none", "axes.spines.top": False}):
        figure = Figure(figsize=(7.2, 3.2))
        figure.subplots_adjust(left=0.12, right=0.9, bottom=0.16, top=0.9)
        axes = figure.add_subplot(xlabel="columns presented", ylabel="objective")
        axes.plot(history["n_presented"], history["objective"], color="#1f5f8b")
        for _, epoch in history.groupby("epoch"):
            axes.axvline(float(epoch["n_presented"].iloc[-1]), color="#9aa5ad", linewidth=1, linestyle="--")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :]


def draw_trace(history: DataFrame) -> str | None:
    """Draw how the objective fell against time while several workers pushed, and how old what they pushed was.

    Parameters
    ----------
    history : DataFrame
        With columns ``seconds``, ``version``, ``staleness``, ``accepted`` and ``objective``, one row for each push.

    Returns
    -------
    str or None
        SVG; None where the history is no trace. Without times, against the versions.
    """
    if not {"seconds", "version", "staleness", "accepted", "objective"} <= set(history.columns) or history.empty:
        return None
    import matplotlib as mpl
    from matplotlib.figure import Figure

    is_timed = bool((history["seconds"] > 0).any())
    moment = history["seconds" if is_timed else "version"]
    refused = history["accepted"] == 0
    with mpl.rc_context({"svg.hashsalt": "daskfs", "svg.fonttype": "none", "axes.spines.top": False}):
        figure = Figure(figsize=(7.2, 3.2))
        figure.subplots_adjust(left=0.12, right=0.9, bottom=0.16, top=0.9)
        axes = figure.add_subplot(xlabel="seconds" if is_timed else "version", ylabel="objective")
        axes.plot(moment, history["objective"], color="#1f5f8b", label="objective")
        axes.plot(moment[refused], history["objective"][refused], "|", color="#b03a2e", label="refused")
        ages = axes.twinx()
        ages.plot(moment, history["staleness"], ".", color="#9aa5ad", markersize=2, label="staleness")
        ages.set_ylabel("versions behind")
        handles = [*axes.get_lines(), *ages.get_lines()]
        labels = [str(line.get_label()) for line in handles]
        axes.legend(handles, labels, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :]
