"""Figures of a report as SVG text, each with what it shows in words; drawn without a display or pyplot's state.

Figures of one result take its history and are None where the history does not hold what they show. Lines differ in
colour, in style and in marker; a page says what the colours are (``var(--c1)``, ...), light or dark.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from daskfs.evidence import CalibrationBin

if TYPE_CHECKING:
    from pandas import DataFrame

LINE_COLOURS = ("#0072b2", "#c24f00", "#00805c", "#7a4fa3", "#96640a", "#a8447d", "#4f6b78", "#5c6670")
"""On white at least 4.5:1, and told apart by those who see no red or no green; a page has them as --c1, --c2, ..."""
BLUE, RED, GREY = LINE_COLOURS[0], LINE_COLOURS[1], LINE_COLOURS[7]
INK = "#010203"
"""Of axes and letters: in a page the colour of the text."""
LINE_STYLES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
MAX_TICKS = 8  # one for each number of features, as long as they do not run into one another


class Figure(NamedTuple):
    """A figure, and what it shows in words."""

    title: str
    svg: str
    text: str


def draw_history(history: DataFrame, kind: str) -> list[Figure]:
    """Draw the figures of a history.

    Parameters
    ----------
    history : DataFrame
    kind : str
        A key of `FIGURES`; other kinds have no figure.

    Returns
    -------
    list of Figure
    """
    drawn = [(title, draw(history), tell) for title, draw, tell in FIGURES.get(kind, ())]
    return [Figure(title, svg, tell(history)) for title, svg, tell in drawn if svg is not None]


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
        ticks = np.geomspace(penalty.min(), penalty.max(), 5 if penalty.max() > penalty.min() else 1)
        axes.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
        axes.minorticks_off()
        axes.invert_xaxis()
        sizes = _second(axes)
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
        gaps = _second(axes)
        gaps.plot(number, gap, color=RED, linestyle="--", label="duality gap before the pass")
        gaps.set_ylabel("gap relative to the objective")
        gaps.set_ylim(0.0, 1.05)
        _legend(axes, gaps)

    return _svg(draw)


def draw_size_curve(history: DataFrame) -> str | None:
    """Draw a metric on held-out rows, with its standard error, against the number of features.

    Parameters
    ----------
    history : DataFrame
        With columns ``features``, the metric's, ``standard_error`` and ``chosen``, one row for each size; where the
        chosen one need not be the best, also ``best``.

    Returns
    -------
    str or None
    """
    if not _holds(history, "features", "standard_error", "chosen"):
        return None
    metric = str(history.columns[1])
    features, mean, error, chosen = _columns(history, "features", metric, "standard_error", "chosen")

    def draw(axes: Any) -> None:
        axes.set(xscale="log", xlabel="features", ylabel=metric)
        axes.errorbar(features, mean, yerr=error, color=BLUE, marker=".", capsize=3, label="mean ± standard error")
        if "best" in history:
            (at,) = features[history["best"].to_numpy(dtype=bool)]
            axes.axvline(at, color=GREY, linewidth=1, linestyle=":", label="best")
        for at in features[chosen > 0.0]:
            axes.axvline(at, color=RED, linewidth=1, linestyle="--", label="chosen")
        ticks = [features[0]]
        for size in features[1:]:
            if size >= ticks[-1] * (features[-1] / features[0]) ** (1 / MAX_TICKS):  # what has room on this scale
                ticks.append(size)
        axes.set_xticks(ticks, [f"{size:,.0f}" for size in ticks])
        axes.minorticks_off()
        axes.legend(fontsize=8)

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
        ages = _second(axes)
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
            style = LINE_STYLES[k % len(LINE_STYLES)]
            colour = LINE_COLOURS[k % len(LINE_COLOURS)]
            marker = MARKERS[k % len(MARKERS)]
            axes.plot(sizes, values, color=colour, linestyle=style, marker=marker, markersize=4, label=_plain(name))
        sizes_shown = sorted({size for sizes, _ in lines.values() for size in sizes})
        if len(sizes_shown) <= MAX_TICKS:
            axes.set_xticks(sizes_shown)
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2))

    return _svg(draw, n_below=len(lines))


def draw_calibration(bins: Sequence[CalibrationBin], target: str, is_share: bool) -> Figure:
    """Draw what was observed against what was predicted, a point for each tenth of the test rows."""
    predicted, observed = (np.array([getattr(one, name) for one in bins]) for name in ("predicted", "observed"))
    half = np.array([one.high - one.observed for one in bins])

    def draw(axes: Any) -> None:
        what = "share of the class" if is_share else "target"
        axes.set(xlabel=f"predicted {what}", ylabel=f"observed {what}")
        ends = [min(predicted.min(), observed.min()), max(predicted.max(), observed.max())]
        axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1)
        axes.errorbar(predicted, observed, half, color=BLUE, marker="o", markersize=4, linestyle="none", capsize=2)

    off = int((np.abs(observed - predicted) > half).sum())
    text = (
        f"Test rows in {len(bins)} groups by rising prediction: the mean of the target ({target or 'y'}) in each, with "
        f"its 95 % interval, against the mean prediction. On the dashed line both agree; {off} of {len(bins)} groups "
        f"lie farther from it than their interval. Lowest group: predicted {predicted[0]:.4g}, observed "
        f"{observed[0]:.4g}; highest: predicted {predicted[-1]:.4g}, observed {observed[-1]:.4g}."
    )
    return Figure("Calibration", _svg(draw), text)


def draw_residuals(edges: Sequence[float], counts: Sequence[int]) -> Figure:
    """Draw how many test rows have which residual."""
    number, bounds = np.array(counts), np.array(edges)

    def draw(axes: Any) -> None:
        axes.set(xlabel="target - prediction", ylabel="test rows")
        axes.stairs(number, bounds, fill=True, color=BLUE)
        axes.axvline(0.0, color=RED, linewidth=1, linestyle="--")

    centres = (bounds[1:] + bounds[:-1]) / 2
    share = np.cumsum(number) / max(1, number.sum())
    low, high = (centres[int(np.searchsorted(share, at))] for at in (0.1, 0.9))
    text = (
        f"Residuals, target less prediction, of {number.sum():,} test rows; four fifths lie between about {low:.3g} "
        f"and {high:.3g}. The outermost half per cent on each side is drawn at the edge."
    )
    return Figure("Residuals", _svg(draw), text)


def draw_first_features(metric: str, sizes: Sequence[int], values: Sequence[float]) -> Figure:
    """Draw a metric of the model's first features, the others held at their means."""

    def draw(axes: Any) -> None:
        axes.set(xlabel="first features of the model", ylabel=metric, xscale="log")
        axes.plot(sizes, values, color=BLUE, marker="o", markersize=4)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.tick_params(axis="x", labelrotation=90 if len(sizes) > MAX_TICKS else 0)

    enough = next(
        (s for s, v in zip(sizes, values, strict=True) if v >= values[0] + 0.95 * (values[-1] - values[0])), 0
    )
    text = (
        f"{metric} on the first test rows where only the first features of the list count and those after them are "
        f"held at their means; the model is not fitted again. With {sizes[0]}: {values[0]:.4g}, with {sizes[-1]}: "
        f"{values[-1]:.4g}; {enough} give nearly all of it."
    )
    return Figure(f"{metric} against the number of features".capitalize(), _svg(draw), text)


def _tell_gic(history: DataFrame) -> str:
    known = history[np.isfinite(history["gic"].to_numpy(dtype=float))]
    best = known.loc[known["chosen"].idxmax() if "chosen" in known else known["gic"].idxmin()]
    return (
        f"The criterion along {len(history)} penalties, from the largest down. Chosen: λ = {best['lambda']:.4g} with "
        f"{best['df']:.0f} features and a GIC of {best['gic']:.5g}."
    )


def _tell_objective(history: DataFrame) -> str:
    presented, objective, epoch = _columns(history, "n_presented", "objective", "epoch")
    return (
        f"The objective fell from {objective[0]:.4g} to {objective[-1]:.4g} while {presented[-1]:,.0f} columns were "
        f"presented; dashed lines end the {len(np.unique(epoch))} passes."
    )


def _tell_passes(history: DataFrame) -> str:
    number, features, objective, gap = _columns(history, "pass", "features", "objective", "gap")
    return (
        f"{number[-1]:.0f} passes over all columns: the objective (solid) went from {objective[0]:.4g} to "
        f"{objective[-1]:.4g} with {features[-1]:.0f} features in the end, the duality gap (dashed) from "
        f"{gap[0]:.3g} to {gap[-1]:.3g}. Numbers at the points are features."
    )


def _tell_sizes(history: DataFrame) -> str:
    metric = str(history.columns[1])
    features, mean, error, chosen = _columns(history, "features", metric, "standard_error", "chosen")
    at = int(np.argmax(chosen))
    n_folds = sum(str(name).startswith("fold_") for name in history.columns)
    return (
        f"The {metric} on rows held out, its mean over {n_folds} folds with the standard error of that, against the "
        f"number of features. Chosen: {features[at]:,.0f} features, {metric} {mean[at]:.4g} ± {error[at]:.2g}."
        f"{_tell_best(history)} The folds that chose it judge it a little too well; rows that were held out from the "
        f"start judge it fairly."
    )


def _tell_best(history: DataFrame) -> str:
    """Return in words what predicts best, where several methods were compared and that is not what was chosen."""
    if "best" not in history:
        return ""
    metric = str(history.columns[1])
    features, mean, error = _columns(history, "features", metric, "standard_error")
    at, best = (int(np.argmax(history[name].to_numpy(dtype=bool))) for name in ("chosen", "best"))
    told = " Drawn is the best method of so many features."
    if at == best:
        return f"{told} No other number predicts better."
    loss, noise = (history[name].to_numpy(dtype=float)[at] for name in ("worse_by", "worse_by_error"))
    return (
        f"{told} Best: {features[best]:,.0f} features, {metric} {mean[best]:.4g} ± {error[best]:.2g}. The chosen ones "
        f"are worse by {loss:.2g} ± {noise:.2g}, paired over the folds."
    )


def _tell_learning(history: DataFrame) -> str:
    rows, loss, number = _columns(history, "rows_seen", "mean_loss", "pass")
    return (
        f"The mean loss of rows before they were learnt from went from {loss[0]:.4g} to {loss[-1]:.4g} over "
        f"{rows[-1]:,.0f} rows in {len(np.unique(number))} passes."
    )


def _tell_trace(history: DataFrame) -> str:
    staleness, accepted, objective = _columns(history, "staleness", "accepted", "objective")
    return (
        f"{len(objective):,} updates, of which {int((accepted == 0).sum()):,} were rejected (red marks), took the "
        f"objective from {objective[0]:.4g} to {objective[-1]:.4g}; they were {staleness.mean():.1f} versions behind "
        f"on average (dots)."
    )


FIGURES: dict[str, tuple[tuple[str, Callable[[DataFrame], str | None], Callable[[DataFrame], str]], ...]] = {
    "criterion path": (("GIC path of the first subset", draw_gic_path, _tell_gic),),
    "blocks of columns": (("Objective as columns were presented", draw_objective, _tell_objective),),
    "pushes": (("Objective and staleness of every push", draw_trace, _tell_trace),),
    "passes": (("Passes over the columns", draw_passes, _tell_passes),),
    "cross-validation": (("Cross-validation of the number of features", draw_size_curve, _tell_sizes),),
    "rows": (
        ("Progressive validation: mean loss of rows before training on them", draw_learning_curve, _tell_learning),
    ),
}
"""Titles, figures and their words by the kind of history."""


def _holds(history: DataFrame, *names: str) -> bool:
    return set(names) <= set(history.columns) and not history.empty


def _columns(history: DataFrame, *names: str) -> list[np.ndarray]:
    return [history[name].to_numpy(dtype=float) for name in names]


def _second(axes: Any) -> Any:
    """Return axes with a scale of their own, at the right of the same figure."""
    second = axes.twinx()
    second.spines["right"].set_visible(True)
    return second


def _legend(axes: Any, other: Any) -> None:
    """Name the lines of two axes that share a figure, above it."""
    handles = [*axes.get_lines(), *other.get_lines()]
    labels = [str(line.get_label()) for line in handles]
    axes.legend(handles, labels, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _plain(text: str) -> str:
    """Return text that matplotlib does not take for a formula, or for a line that has no name."""
    return text.replace("$", r"\$").removeprefix("_")


def _svg(draw: Callable[[Any], None], n_below: int = 0) -> str:
    """Return what `draw` draws on fresh axes; the same bytes every time.

    Parameters
    ----------
    draw : function
    n_below : int
        Lines of a legend below the axes.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    look = {"svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False, "font.size": 9.0}
    settings: Any = dict.fromkeys(inked, INK) | look
    height = 3.0 + 0.2 * n_below
    with mpl.rc_context({**settings, "svg.hashsalt": "daskfs"}):
        figure = Canvas(figsize=(5.0, height))
        below = 0.5 + 0.2 * n_below
        figure.subplots_adjust(left=0.15, right=0.87, bottom=below / height, top=1.0 - 0.3 / height)
        draw(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = _NAMES_OF_PARTS.sub("", svg[svg.index("<svg") :])
    for k, colour in enumerate(LINE_COLOURS, 1):
        svg = svg.replace(colour, f"var(--c{k}, {colour})")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL).replace(INK, "currentColor")
    salt = hashlib.sha256(svg.encode()).hexdigest()[:8]  # names are of this figure alone: a page has several
    return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{salt}-", svg)


_NAMES_OF_PARTS = re.compile(
    r' id="(?:figure|axes|patch|line2d|xtick|ytick|text|legend|matplotlib\.axis|LineCollection|PathCollection)_\d+"'
)
"""Which nothing refers to."""
