"""Figures of a result, for `plot` and for reports. Each can be drawn on axes and has a text that describes it.

Parts that are missing in a history are not drawn. Lines differ in colour, style and marker. A page defines the colours
(``var(--c1)``, ...) for light and dark mode.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from daskfs.cells import digits
from daskfs.evidence import LocusRecord, ManhattanRecord, QualityRecord

if TYPE_CHECKING:
    from pandas import DataFrame

LINE_COLOURS = ("#0072b2", "#c24f00", "#00805c", "#7a4fa3", "#96640a", "#a8447d", "#4f6b78", "#5c6670")
"""Contrast on white of at least 4.5:1; distinguishable with red-green colour blindness; in a page --c1, --c2, ..."""
BLUE, RED, GREY = LINE_COLOURS[0], LINE_COLOURS[1], LINE_COLOURS[7]
INK = "#010203"
"""Colour of axes and letters; in a page it becomes the colour of the text."""
LINE_STYLES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
WIDTH, HEIGHT, LINE = 5.4, 3.0, 0.21
"""Inches: width and height of a figure, and extra height for each bar or legend line below the axes."""
MOST_NAMED = 12
"""Maximum number of points with a name."""
LONGEST_NAME = 34
"""Maximum number of characters of a name beside a bar."""


@dataclass(frozen=True)
class Figure:
    """A figure with its title and a description.

    Attributes
    ----------
    title : str
    text : str
        Description of what the figure shows.
    draw : function
        Draws the figure on matplotlib axes.
    n_lines : int
        Number of bars, or of legend lines below the axes, that increase the height.
    """

    title: str
    text: str
    draw: Callable[[Any], None]
    n_lines: int = 0

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return WIDTH, HEIGHT + LINE * self.n_lines

    def on(self, axes: Any = None) -> Any:
        """Draw the figure on axes, by default those of a new pyplot figure, and return the axes."""
        if axes is None:
            import matplotlib.pyplot as plt

            _, axes = plt.subplots(figsize=self.size, layout="constrained")
        self.draw(axes)
        axes.set_title(self.title, pad=22.0 if axes.get_legend() else None)
        keep_apart(axes)
        return axes

    @cached_property
    def svg(self) -> str:
        """The figure as SVG text for a page. It needs no display or pyplot state, and its bytes are reproducible."""
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas

        inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
        look = {"svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False, "font.size": 9.0}
        look |= {"figure.autolayout": False, "figure.constrained_layout.use": False}  # of users: laid out here
        settings: Any = dict.fromkeys(inked, INK) | look
        with mpl.rc_context({**settings, "svg.hashsalt": "daskfs"}), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph", UserWarning)  # browsers have more glyphs than matplotlib's font
            figure = Canvas(figsize=self.size, layout="constrained")
            axes = figure.add_subplot()
            self.draw(axes)
            keep_apart(axes)
            figure.set_layout_engine(None)  # its work is done; matplotlib would do it again, twice
            buffer = io.StringIO()
            figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        svg = buffer.getvalue()
        svg = _NAMES_OF_PARTS.sub("", svg[svg.index("<svg") :])
        for k, colour in enumerate(LINE_COLOURS, 1):
            svg = svg.replace(colour, f"var(--c{k}, {colour})")
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL).replace(INK, "currentColor")
        salt = hashlib.sha256(svg.encode()).hexdigest()[:8]  # makes ids unique in a page with several figures
        return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{salt}-", svg)


def keep_apart(axes: Any) -> None:
    """Lay the figure out, and remove tick labels that would overlap the previous label."""
    figure = axes.get_figure(root=True)
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)
    for axis, across in ((axes.xaxis, True), (axes.yaxis, False)):
        kept, end, (lowest, highest) = [], -np.inf, sorted(axis.get_view_interval())
        ticks = list(zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=False))
        boxes = [(at, label, label.get_window_extent()) for at, label in ticks if lowest <= at <= highest]
        for at, label, box in sorted(boxes, key=lambda one: one[2].x0 if across else one[2].y0):
            first, last = (box.x0 - 3, box.x1) if across else (box.y0, box.y1)
            if first > end:
                kept.append((at, label.get_text()))
                end = last
        if len(kept) < len(boxes):
            axis.set_ticks([at for at, _ in kept], [text for _, text in kept])


def history_figure(history: DataFrame, kind: str) -> Figure | None:
    """Return the figure of a history of a kind in `HISTORIES`; None if the history lacks its columns."""
    columns, figure = HISTORIES[kind]
    return figure(history) if len(history) and columns <= set(history.columns) else None


def criterion_path(history: DataFrame) -> Figure | None:
    """Return the criterion against the number of features, along the path of decreasing penalties."""
    penalty, gic, size = _columns(history, "lambda", "gic", "df")
    known = np.isfinite(gic)
    if not known.any():
        return None
    penalty, gic, size = penalty[known], gic[known], size[known]
    chosen = history["chosen"].to_numpy(dtype=bool)[known] if "chosen" in history else gic == gic.min()
    k = int(np.argmax(chosen))

    def draw(axes: Any) -> None:
        axes.set(xlabel="features in the model", ylabel="GIC")
        axes.plot(size, gic, color=BLUE, marker=".", label="GIC")
        axes.axvline(size[k], color=RED, linewidth=1, linestyle="--", label="chosen")
        _legend(axes)

    text = (
        f"Information criterion (GIC) along {len(history)} penalties; lower is better. Chosen: "
        f"λ = {digits(penalty[k])} with {size[k]:.0f} features and a GIC of {digits(gic[k])}."
    )
    return Figure("GIC path of the first subset", text, draw)


def objective_path(history: DataFrame) -> Figure:
    """Return the objective against the number of columns presented over all epochs, a point for each block."""
    presented, objective, epoch = _columns(history, "n_presented", "objective", "epoch")

    def draw(axes: Any) -> None:
        axes.set(xlabel="columns presented", ylabel="objective")
        axes.plot(presented, objective, color=BLUE, marker="." if len(presented) < 50 else "")
        for at in presented[np.append(np.diff(epoch) > 0, True)]:
            axes.axvline(at, color=GREY, linewidth=1, linestyle="--")

    text = (
        f"The objective fell from {digits(objective[0])} to {digits(objective[-1])} over {presented[-1]:,.0f} columns. "
        f"Dashed lines mark the end of the {_passes(epoch)}."
    )
    return Figure("Objective as columns were presented", text, draw)


def passes(history: DataFrame) -> Figure:
    """Return the objective and the duality gap of FGM against the number of features, a point for each pass."""
    number, features, objective, gap = _columns(history, "pass", "features", "objective", "gap")

    def draw(axes: Any) -> None:
        axes.set(xlabel="features in the model", ylabel="objective")
        axes.plot(features, objective, color=BLUE, marker=".", label="objective")
        axes.xaxis.get_major_locator().set_params(integer=True)
        gaps = _second(axes)
        gaps.plot(features, gap, color=RED, linestyle="--", marker="x", label="duality gap before the pass")
        gaps.set(ylabel="gap relative to the objective", ylim=(0.0, 1.05))
        _legend(axes, gaps)

    text = (
        f"One point for each of {number[-1]:.0f} passes over all columns. The objective (solid) went from "
        f"{digits(objective[0])} to {digits(objective[-1])} with {features[-1]:.0f} features, the duality gap (dashed) "
        f"from {digits(gap[0])} to {digits(gap[-1])}."
    )
    return Figure("Objective against the number of features", text, draw)


def size_curve(history: DataFrame) -> Figure:
    """Return a metric on held-out rows, with its standard error, against the number of features."""
    metric = str(history.columns[1])
    features, mean, error, chosen = _columns(history, "features", metric, "standard_error", "chosen")
    at = int(np.argmax(chosen))

    def draw(axes: Any) -> None:
        axes.set(xscale="log", xlabel="features", ylabel=metric)
        axes.errorbar(features, mean, yerr=error, color=BLUE, marker=".", capsize=3, label="mean ± standard error")
        if "best" in history:
            (best,) = features[history["best"].to_numpy(dtype=bool)]
            axes.axvline(best, color=GREY, linewidth=1, linestyle=":", label="best")
        axes.axvline(features[at], color=RED, linewidth=1, linestyle="--", label="chosen")
        _sizes(axes, features)
        _legend(axes)

    n_folds = sum(str(name).startswith("fold_") for name in history.columns)
    text = (
        f"Mean {metric} on held-out rows over {n_folds} folds, with its standard error, by number of features. "
        f"Chosen: {features[at]:,.0f} features, {metric} {digits(mean[at])} ± {digits(error[at])}."
        f"{_best_text(history)} The folds that chose this number are slightly optimistic about it; the test rows are "
        f"not."
    )
    return Figure("Cross-validation of the number of features", text, draw)


def _best_text(history: DataFrame) -> str:
    """Return a text on the best number of features, if several methods were compared; else an empty text."""
    if "best" not in history:
        return ""
    metric = str(history.columns[1])
    features, mean, error, worse_by, noise = _columns(
        history, "features", metric, "standard_error", "worse_by", "worse_by_error"
    )
    at, best = (int(np.argmax(history[name].to_numpy(dtype=bool))) for name in ("chosen", "best"))
    drawn = " Each point is the best method at this number of features."
    if at == best:
        return f"{drawn} No other number of features predicts better."
    return (
        f"{drawn} Best: {features[best]:,.0f} features, {metric} {digits(mean[best])} ± {digits(error[best])}. The "
        f"chosen number is worse by {digits(worse_by[at])} ± {digits(noise[at])} (paired over the folds)."
    )


def learning_curve(history: DataFrame) -> Figure:
    """Return the progressive validation loss (the mean loss of rows before training on them) over all passes."""
    rows, loss, number = _columns(history, "rows_seen", "mean_loss", "pass")

    def draw(axes: Any) -> None:
        axes.set(xlabel="rows", ylabel="mean loss before training")
        axes.plot(rows, loss, color=BLUE, marker="o", markersize=3)
        for at in rows[1:][np.diff(number) > 0]:
            axes.axvline(at, color=GREY, linewidth=1, linestyle="--")

    text = (
        f"Mean loss of each batch before training on it. It went from {digits(loss[0])} to {digits(loss[-1])} over "
        f"{rows[-1]:,.0f} rows in {_passes(number)}."
    )
    return Figure("Progressive validation", text, draw)


def trace(history: DataFrame) -> Figure:
    """Return the objective while workers push updates, with the staleness of the predictions they started from.

    The axis is time, or the version if no times were recorded.
    """
    axis = "seconds" if bool((history["seconds"] > 0).any()) else "version"
    moment, staleness, accepted, objective = _columns(history, axis, "staleness", "accepted", "objective")
    refused = accepted == 0

    def draw(axes: Any) -> None:
        axes.set(xlabel=axis, ylabel="objective")
        axes.plot(moment, objective, color=BLUE, label="objective")
        axes.plot(moment[refused], objective[refused], "|", color=RED, label="rejected")
        ages = _second(axes)
        ages.plot(moment, staleness, ".", color=GREY, markersize=2, label="staleness")
        ages.set_ylabel("versions behind")
        _legend(axes, ages)

    text = (
        f"{len(objective):,} updates, of which {int(refused.sum()):,} were rejected (red marks), changed the objective "
        f"from {digits(objective[0])} to {digits(objective[-1])}. Their mean staleness (dots) was "
        f"{staleness.mean():.1f} versions."
    )
    return Figure("Objective and staleness of every push", text, draw)


class History(NamedTuple):
    """A kind of history: the columns that its figure needs, and the function that makes the figure."""

    columns: set[str]
    figure: Callable[[DataFrame], Figure | None]


HISTORIES = {
    "criterion path": History({"lambda", "gic", "df"}, criterion_path),
    "blocks of columns": History({"n_presented", "objective", "epoch"}, objective_path),
    "pushes": History({"seconds", "version", "staleness", "accepted", "objective"}, trace),
    "passes": History({"pass", "features", "objective", "gap"}, passes),
    "cross-validation": History({"features", "standard_error", "chosen"}, size_curve),
    "rows": History({"rows_seen", "mean_loss", "pass"}, learning_curve),
}
"""Kinds of history by their names in results."""


def quality_figures(test: QualityRecord, target: str) -> dict[str, Figure]:
    """Return the available figures of the test rows by kind of plot: calibration, residuals, sizes."""
    found = {}
    if len(test.calibration) > 1:
        found["calibration"] = calibration(test, target)
    if sum(test.residual_counts):
        found["residuals"] = residuals(test, target)
    if len(test.sizes) > 1:
        found["sizes"] = first_features(test)
    return found


def calibration(test: QualityRecord, target: str) -> Figure:
    """Return the calibration plot: observed against predicted means, a point for each tenth of the test rows."""
    bins, what = test.calibration, "share of the class" if test.labels else target or "target"
    predicted, observed = (np.array([getattr(one, name) for one in bins]) for name in ("predicted", "observed"))
    half = np.array([one.high - one.observed for one in bins])

    def draw(axes: Any) -> None:
        axes.set(xlabel=_plain(f"predicted {short(what)}"), ylabel="observed")
        ends = [min(predicted.min(), observed.min()), max(predicted.max(), observed.max())]
        axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1)
        axes.errorbar(predicted, observed, half, color=BLUE, marker="o", markersize=4, linestyle="none", capsize=2)

    off = int((np.abs(observed - predicted) > half).sum())
    text = (
        f"Test rows in {len(bins)} groups of increasing prediction: the mean of the target ({target or 'y'}) in each, "
        f"with its 95 % interval, against the mean prediction. On the dashed line both agree; the intervals of {off} "
        f"of {len(bins)} groups do not reach it. Lowest group: predicted {digits(predicted[0])}, observed "
        f"{digits(observed[0])}; highest: predicted {digits(predicted[-1])}, observed {digits(observed[-1])}."
    )
    return Figure("Calibration", text, draw)


def residuals(test: QualityRecord, target: str) -> Figure:
    """Return the histogram of the residuals on the test rows."""
    number, bounds = np.array(test.residual_counts), np.array(test.residual_edges)

    def draw(axes: Any) -> None:
        axes.set(xlabel=_plain(f"{short(target or 'target')} - prediction"), ylabel="test rows")
        axes.stairs(number, bounds, fill=True, color=BLUE)
        axes.axvline(0.0, color=RED, linewidth=1, linestyle="--")

    centres = (bounds[1:] + bounds[:-1]) / 2
    share = np.cumsum(number) / max(1, number.sum())
    low, high = (centres[int(np.searchsorted(share, at))] for at in (0.1, 0.9))
    text = (
        f"Residuals (target minus prediction) of {number.sum():,} test rows. 80 % lie between about {digits(low)} and "
        f"{digits(high)}. The outermost 0.5 % on each side are drawn at the edge."
    )
    return Figure("Residuals", text, draw)


def first_features(test: QualityRecord) -> Figure:
    """Return a metric against the number of first features used, with the others fixed at their means."""
    metric, sizes, values = test.metric_by_size, test.sizes, test.values

    def draw(axes: Any) -> None:
        axes.set(xlabel="first features of the model", ylabel=metric, xscale="log")
        axes.plot(sizes, values, color=BLUE, marker="o", markersize=4)
        _sizes(axes, sizes)

    enough = next(
        (s for s, v in zip(sizes, values, strict=True) if v >= values[0] + 0.95 * (values[-1] - values[0])), 0
    )
    text = (
        f"{metric} on the first test rows if only the first features of the list are used and the others are fixed at "
        f"their means, without a refit. With {sizes[0]}: {digits(values[0])}, with {sizes[-1]}: {digits(values[-1])}. "
        f"The first {enough} reach 95 % of the improvement."
    )
    return Figure(f"{metric} against the number of features".capitalize(), text, draw)


class Effect(NamedTuple):
    """A bar of `effects`: a feature, its effect, and the ends of its interval."""

    name: str
    value: float
    low: float = np.nan
    high: float = np.nan


def effects(found: Sequence[Effect], per: str, of: str = "the prediction") -> Figure:
    """Return the effects of features as bars, the first on top, with 95 % intervals if they are known.

    Parameters
    ----------
    found : sequence of Effect
    per : str
        Change of the feature: "standard deviation" or "unit".
    of : str
        What changes: the name of the target, or "log-odds".
    """
    value, low, high = (np.array([getattr(one, name) for one in found]) for name in ("value", "low", "high"))
    is_known = np.isfinite(low) & np.isfinite(high)

    def draw(axes: Any) -> None:
        at = _bars(axes, [one.name for one in found], value, [RED if one < 0 else BLUE for one in value])
        reach = np.maximum([value - low, high - value], 0.0)[:, is_known]
        axes.errorbar(value[is_known], at[is_known], xerr=reach, fmt="none", ecolor=INK, capsize=2, linewidth=1)
        axes.axvline(0.0, color=GREY, linewidth=1)
        axes.set_xlabel(_plain(f"{short(of)} per {per}"), loc="right")

    k = int(np.argmax(np.abs(value)))
    between = f" ({digits(low[k])} to {digits(high[k])})" if is_known[k] else ""
    text = (
        f"Change of {of} when a feature increases by one {per} and the others stay fixed"
        f"{', with 95 % intervals' if is_known.any() else ''}. {len(found)} features, the most important on top. "
        f"Largest: {digits(value[k])}{between}, of {found[k].name}."
    )
    return Figure("Effects", text, draw, len(found) - 6)


class Score(NamedTuple):
    """A bar of `scores`."""

    name: str
    value: float
    is_selected: bool


def scores(found: Sequence[Score], kind: str, threshold: float | None = None) -> Figure:
    """Return the highest scores as bars, filled for selected features and hollow for others.

    Parameters
    ----------
    found : sequence of Score
        Sorted by decreasing score.
    kind : str
        What the scores are.
    threshold : float, optional
        Position of a reference line.
    """

    def draw(axes: Any) -> None:
        _bars(axes, [one.name for one in found], [one.value for one in found], BLUE, [one.is_selected for one in found])
        axes.set_xlabel(kind, loc="right")
        if kind == "inclusion frequency":
            axes.set_xlim(0.0, 1.02)
        if threshold is not None:
            axes.axvline(threshold, color=RED, linewidth=1, linestyle="--")

    n_selected = sum(one.is_selected for one in found)
    line = "" if threshold is None else f"; the dashed line is at {digits(threshold)}"
    text = (
        f"The {len(found)} features with the highest scores, {n_selected} of them selected (filled bars){line}. "
        f"Highest: {digits(found[0].value)}, of {found[0].name}; last shown: {digits(found[-1].value)}, of "
        f"{found[-1].name}."
    )
    title = "Inclusion frequencies" if kind == "inclusion frequency" else "Scores"
    return Figure(title, text, draw, len(found) - 6)


def manhattan(found: ManhattanRecord) -> Figure:
    """Return the variants along the genome against their scores or marginal p-values, the selected ones named."""
    starts = np.concatenate([[0.0], np.cumsum(found.ends)])
    code, value = np.array(found.chromosome), np.array(found.value)
    at = starts[code] + np.array(found.position)
    is_selected = np.array([bool(name) for name in found.names])
    best = [k for k in np.argsort(-value, kind="stable").tolist() if is_selected[k]]

    def draw(axes: Any) -> None:
        axes.set(xlabel="chromosome", ylabel=found.measure, xlim=(0.0, max(starts[-1], 1.0) * 1.02))
        for k, colour in enumerate((BLUE, GREY)):
            of_colour = ~is_selected & (code % 2 == k)
            axes.plot(at[of_colour], value[of_colour], ".", color=colour, markersize=2)
        axes.plot(at[is_selected], value[is_selected], "D", color=RED, markersize=4)
        axes.set_xticks((starts[:-1] + starts[1:]) / 2, [_plain(short(name, 8)) for name in found.chromosomes])
        _name_points(axes, at[best], value[best], [found.names[k] for k in best])

    of = f"{found.n_variants:,} variants" if found.n_variants > len(value) else f"{len(value):,} variants"
    named = ", ".join(f"{found.names[k]} ({digits(value[k])})" for k in best[:MOST_NAMED])
    if found.measure.startswith("-log10"):
        of += " in the windows around the selected variants, tested one at a time"
    text = (
        f"{found.measure} of {of}, by position on {len(found.chromosomes)} chromosomes; neighbours with similar values "
        f"are drawn as one point. Diamonds are the {len(best)} selected variants"
        f"{'; the highest: ' + named if named else ''}."
    )
    return Figure("Variants along the genome", text, draw)


def _name_points(axes: Any, x: np.ndarray, y: np.ndarray, names: Sequence[str]) -> None:
    """Write names beside points, but for those that would cover another name."""
    (left, right), top = axes.get_xlim(), max(y, default=0.0) or 1.0
    axes.set_ylim(None, 1.15 * top)
    taken: list[tuple[float, float]] = []
    for across, up, name in zip((x - left) / (right - left), y / top, names, strict=True):
        if len(taken) < MOST_NAMED and all(abs(across - a) > 0.2 or abs(up - b) > 0.07 for a, b in taken):
            taken.append((across, up))
            where = {"xytext": (0, 4), "textcoords": "offset points", "ha": "right" if across > 0.8 else "left"}
            axes.annotate(_plain(short(name, 16)), (left + across * (right - left), up * top), fontsize=7, **where)


def locus(found: LocusRecord) -> Figure:
    """Return r2 with a selected variant, by position of the variants around it."""
    position, r2 = np.array(found.positions, dtype=float) / 1e6, np.array(found.r2, dtype=float)
    is_in = r2 >= found.min_r2

    def draw(axes: Any) -> None:
        axes.set(xlabel=_plain(f"position on chromosome {found.chromosome} (Mb)"), ylabel="r²", ylim=(-0.03, 1.08))
        axes.plot(position[~is_in], r2[~is_in], ".", color=GREY, markersize=4)
        axes.plot(position[is_in], r2[is_in], "o", color=BLUE, markersize=4)
        axes.plot([found.position / 1e6], [1.0], "D", color=RED, markersize=5)
        axes.axhline(found.min_r2, color=GREY, linewidth=1, linestyle="--")
        axes.ticklabel_format(axis="x", useOffset=False, style="plain")

    highest = f" Highest: {digits(r2.max())}, at {found.positions[int(np.argmax(r2))]:,}." if len(r2) else ""
    some = f" {len(r2):,} of them are drawn." if len(r2) < found.n_variants else ""
    text = (
        f"Squared correlation (r²) with {found.name} (diamond, chromosome {found.chromosome}, position "
        f"{found.position:,}) of {found.n_variants:,} variants around it.{some} {int(is_in.sum()):,} reach "
        f"{found.min_r2:g} (dashed line) and are in its clump.{highest}"
    )
    return Figure(f"Locus of {found.name}", text, draw)


def metric_by_size(lines: Mapping[str, tuple[Sequence[int], Sequence[float]]], metric: str) -> Figure:
    """Return a metric against the number of selected features, one line for each method.

    Parameters
    ----------
    lines : mapping of str to (sequence of int, sequence of float)
        Increasing numbers of features, and the metric for each.
    metric : str
        Name of the metric.
    """
    every = sorted({size for sizes, _ in lines.values() for size in sizes})

    def draw(axes: Any) -> None:
        axes.set(xlabel="selected features", ylabel=f"{metric} on the test rows")
        for k, (name, (sizes, values)) in enumerate(lines.items()):
            style, marker = LINE_STYLES[k % len(LINE_STYLES)], MARKERS[k % len(MARKERS)]
            colour = LINE_COLOURS[k % len(LINE_COLOURS)]
            axes.plot(sizes, values, color=colour, linestyle=style, marker=marker, markersize=4, label=_plain(name))
        axes.set_xticks(every)
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2))

    text = f"One line for each method and its settings, from {every[0]} to {every[-1]} features. The numbers are below."
    return Figure(f"{metric} against the number of features", text, draw, len(lines))


def short(name: str, longest: int = LONGEST_NAME) -> str:
    """Shorten a long name in its middle, because beginnings and ends distinguish names best.

    Examples
    --------
    >>> short("Origin airport of the flight before=HOU", 20)
    'Origin ai…before=HOU'
    """
    name = " ".join(name.split())
    return name if len(name) <= longest else f"{name[: (longest - 1) // 2]}…{name[-(longest // 2) :]}"


def _bars(axes: Any, names: Iterable[str], values: Any, colours: Any, filled: Sequence[bool] | None = None) -> Any:
    """Draw bars from the top down, and return their positions."""
    labels = [_plain(short(name)) for name in names]
    at = -np.arange(len(labels), dtype=float)
    bars = axes.barh(at, values, height=0.65, color=colours, edgecolor=colours)
    for bar, is_filled in zip(bars, filled or (), strict=False):
        bar.set_fill(is_filled)
    axes.set_yticks(at, labels)
    axes.set_ylim(at[-1] - 0.7, 0.7)
    return at


def _sizes(axes: Any, sizes: Any) -> None:
    """Put a tick at each number of features; `keep_apart` removes overlapping labels."""
    axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
    axes.minorticks_off()


def _passes(number: np.ndarray) -> str:
    n_passes = len(np.unique(number))
    return f"{n_passes} pass{'es' * (n_passes != 1)}"


def _columns(history: DataFrame, *names: str) -> list[np.ndarray]:
    return [history[name].to_numpy(dtype=float) for name in names]


def _second(axes: Any) -> Any:
    """Return second axes with their own y scale at the right."""
    second = axes.twinx()
    second.spines["right"].set_visible(True)
    return second


def _legend(axes: Any, *others: Any) -> None:
    """Draw one legend for several axes above them."""
    found = [one.get_legend_handles_labels() for one in (axes, *others)]
    handles, labels = ([one for of_axes in found for one in of_axes[k]] for k in (0, 1))
    axes.legend(handles, labels, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _plain(text: str) -> str:
    """Escape a text that matplotlib would read as a formula or as an unnamed line."""
    return text.replace("$", r"\$").removeprefix("_")


_NAMES_OF_PARTS = re.compile(
    r' id="(?:figure|axes|patch|line2d|xtick|ytick|text|legend|matplotlib\.axis|LineCollection|PathCollection)_\d+"'
)
"""Ids that nothing refers to."""
