"""docs/papers.md and its pictures, made from the records and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import pandas as pd

from benchmarks.papers.figures import ROOT, SCALES, Check, Figure, Panel, Results, Row, number, read_records, results_of

PAGE = ROOT / "docs" / "papers.md"
PICTURES = ROOT / "docs" / "papers"
PAPERS = {
    "MESSAGE": "X. Wang, P. Peng and D. B. Dunson, *Median Selection Subset Aggregation for Parallel Inference*, NIPS "
    "2014. "
    "Selector: [MESSAGE](selectors/message.md).",
    "OS": "H. Yang, R. Fujimaki, Y. Kusumura and J. Liu, *Online Feature Selection: A Limited-Memory Substitution "
    "Algorithm "
    "and Its Asynchronous Parallel Variation*, KDD 2016, and its later text. Selectors: "
    "[online substitution](selectors/online_substitution.md), "
    "[asynchronous online substitution](selectors/async_online_substitution.md).",
    "FGM": "M. Tan, I. W. Tsang and L. Wang, *Towards Ultrahigh Dimensional Feature Selection for Big Data*, JMLR 15, "
    "2014. "
    "Selector: [FGM](selectors/fgm.md).",
    "MISSION": "A. Aghazadeh et al., *MISSION: Ultra Large-Scale Feature Selection using Count-Sketches*, ICML 2018. "
    "Selector: [Mission](selectors/mission.md).",
}
INTRODUCTION = """# The papers' figures

daskfs implements four methods from papers. This page repeats the experiments of these papers and says where our
numbers agree with the paper and where they do not. It is written by a program, `python -m benchmarks.papers`, from
the records in `benchmarks/records/papers.jsonl`. Nobody edits it by hand.

How to read it:

- *The paper* is what the figure or table of the paper shows. Few of the papers' curves have numbers in the text. For
  the others the comparison is with what the text says about the curve, for example "the error falls with more rows".
- *Here* is what was measured, and how it differs from the paper's experiment. Much of the papers' data cannot be had
  without a network. Then the open data set that is most like it was used.
- Each statement of the paper is tested by code on our numbers: it **agrees**, or it **differs**. A tolerance, if
  there is one, is in the statement. Numbers are means over the data sets. The line in brackets has the values that
  decided.
- A method "as in the paper" is the published algorithm, step by step (for example `rule="paper"`). A method "in
  daskfs" is what you get by default. The difference between the two is explained on the page of the selector.
- Times are CPU seconds of one machine, given below. The papers' machines were older, so only ratios can be compared.

There are three scales. *Smoke* is small enough that all figures together take less than ten minutes on two cores: its
statements rest on one to three data sets. *Small* has the paper's design with fewer data sets or rows. *Paper* has
the paper's sizes, as far as the data can be had. For each figure, the page shows the largest scale that was run.

```bash
python -m benchmarks.papers                                    # all figures at scale "smoke"
python -m benchmarks.papers --only message-1 --scale paper     # one figure
DASKFS_DATA=... python -m benchmarks.papers --only fgm         # a paper; some figures need real data
```
"""
COLOURS = ("#0b5394", "#b03a2e", "#2e7d32", "#9a6a00", "#6a3d9a", "#111111", "#008b8b", "#c2185b", "#607d8b", "#5d4037")
DASHES = ("", "6 3", "2 2", "8 3 2 3")
WIDTH, HEIGHT, LEFT, TOP = 290, 190, 48, 30
"""Of the plotting area of a panel, and the room beside it for the labels."""


def shown_records(records: Sequence[Row], name: str) -> list[Row]:
    """Return the records of a figure at the largest scale that was run."""
    found = [one for one in records if one["figure"] == name]
    largest = max((SCALES.index(one["scale"]) for one in found), default=0)
    return [one for one in found if one["scale"] == SCALES[largest]]


def page(figures: Sequence[Figure], records: Sequence[Row]) -> tuple[str, dict[str, str]]:
    """Return the text of the page, and the pictures by file name."""
    parts, pictures = [INTRODUCTION], {}
    shown = {one.name: shown_records(records, one.name) for one in figures}
    checks = {one.name: one.agrees(results_of(shown[one.name])) for one in figures if shown[one.name]}
    parts.append(_overview(figures, shown, checks))
    for paper in dict.fromkeys(one.paper for one in figures):
        parts.append(f"## {paper}\n\n{PAPERS[paper]}\n")
        for figure in (one for one in figures if one.paper == paper):
            found = shown[figure.name]
            if not found:
                parts.append(f"### {_heading(figure)}\n\n*The paper:* {figure.shows}\n\n*Here:* not run yet.\n")
                continue
            results = results_of(found)
            if figure.panels:
                pictures[f"{figure.name}.svg"] = picture(figure, results)
            parts.append(_section(figure, found, results, checks[figure.name]))
    return "\n".join(parts), pictures


def write_page(figures: Sequence[Figure]) -> None:
    """Write the page and its pictures."""
    text, pictures = page(figures, read_records())
    PAGE.write_text(text, encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    for path in PICTURES.glob("*.svg"):
        if path.name not in pictures:
            path.unlink()
    for name, drawn in pictures.items():
        (PICTURES / name).write_text(drawn, encoding="utf-8")


def _heading(figure: Figure) -> str:
    return f"{figure.paper}, {figure.label}: {figure.title}"


def _overview(figures: Sequence[Figure], shown: dict[str, list[Row]], checks: dict[str, list[Check]]) -> str:
    """Return the summary: machine and versions, then statements that agree and that differ, by figure."""
    lines = ["## Summary\n"]
    for one in sorted({_machine(record) for found in shown.values() for record in found}):
        lines.append(f"- {one}")
    lines += ["", "| figure | scale | data sets | date | commit | agrees | differs |", "|---|---|---|---|---|---|---|"]
    for figure in figures:
        if found := shown[figure.name]:
            last = max(found, key=lambda one: one["date"])
            n_agree = sum(check.agrees for check in checks[figure.name])
            n_differ = len(checks[figure.name]) - n_agree
            name = f"[{figure.paper}, {figure.label}](#{_anchor(_heading(figure))})"
            place = f"{last['scale']} | {len(found)} | {last['date'][:10]} | {_commit(last)}"
            lines.append(f"| {name} | {place} | {n_agree} | {n_differ} |")
    n_checks = sum(map(len, checks.values()))
    n_agree = sum(check.agrees for found in checks.values() for check in found)
    minutes = {
        kind: sum(one[f"{kind}_s"] for found in shown.values() for one in found) / 60 for kind in ("cpu", "wall")
    }
    lines.append(
        f"\nOf {n_checks} statements {n_agree} agree. The figures shown took {minutes['cpu']:.0f} minutes of one core "
        f"({minutes['wall']:.0f} minutes passed on a machine that others used, too).\n"
    )
    differing = [
        f"- {figure.paper}, {figure.label}: {check.statement}"
        for figure in figures for check in checks.get(figure.name, []) if not check.agrees
    ]  # fmt: skip
    if differing:
        lines += ["What differs (the values are in the sections below):\n", *differing, ""]
    return "\n".join(lines)


def _machine(record: Row) -> str:
    """Return machine and versions in a line."""
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items() if name != "daskfs")
    return f"{record['machine']['cpu']}, {record['machine']['cores']} cores; {versions}"


def _commit(record: Row) -> str:
    return f"`{record['commit']}`{' with changes' if record['dirty'] else ''}"


def _anchor(heading: str) -> str:
    """Return the anchor that MyST makes of a heading."""
    return "".join(letter for letter in heading.lower().replace(" ", "-") if letter.isalnum() or letter in "-_")


def _section(figure: Figure, found: Sequence[Row], results: Results, checks: Sequence[Check]) -> str:
    """Return the section of a figure."""
    last = max(found, key=lambda one: one["date"])
    size = ", ".join(f"{name} = {_plain(value)}" for name, value in last["size"].items())
    n_sets = f"{len(found)} data set{'s' if len(found) > 1 else ''}"
    lines = [f"### {_heading(figure)}\n", f"*The paper:* {figure.shows}\n"]
    lines.append(f"*Here:* {figure.data} Scale {last['scale']}, {n_sets}{': ' + size if size else ''}. "
                 f"Measured on {last['date'][:10]}, commit {_commit(last)}, `{figure.name}`.\n")  # fmt: skip
    lines += [f"- **{'Agrees' if one.agrees else 'Differs'}**: {one.statement} ({one.found})" for one in checks]
    if figure.panels:
        titles = "; ".join(panel.title for panel in figure.panels)
        lines.append(f"\n![{figure.paper}, {figure.label}, our curves: {titles}](papers/{figure.name}.svg)")
    if figure.beside:
        lines.append("\n" + _markdown(*figure.beside(results)))
    for panel in figure.panels:
        curves = lines_of(panel, results) if panel is figure.panels[0] or panel.is_tabled else {}
        if curves:
            lines.append(f"\n{panel.title}:\n\n" + _markdown(*panel_table(curves)))
    return "\n".join(lines) + "\n"


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name} {_plain(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join([f"| {' | '.join(header)} |", "|---" * len(header) + "|", *(f"| {' | '.join(r)} |" for r in rows)])


def lines_of(panel: Panel, results: Results) -> dict[str, pd.Series]:
    """Return the curves of a panel by name, in the order of the records."""
    rows = results.of(**panel.where)
    rows = rows[rows[panel.y].notna() & rows[panel.x].notna()] if {panel.x, panel.y} <= set(rows) else rows[:0]
    names = dict.fromkeys(rows[panel.by]) if len(rows) else {}
    return {str(name): results.curve(panel.y, panel.x, **{**panel.where, panel.by: name}) for name in names}


def panel_table(curves: dict[str, pd.Series]) -> tuple[list[str], list[list[str]]]:
    """Return a table of some curves, at most seven points of each."""
    points = list(dict.fromkeys(x for curve in curves.values() for x in curve.index))
    if not isinstance(points[0], str):
        points = sorted(points)
    points = [points[k] for k in np.unique(np.linspace(0, len(points) - 1, min(7, len(points))).round().astype(int))]
    header = ["", *(one if isinstance(one, str) else f"{one:,g}" for one in points)]
    return header, [[name, *(number(curve.get(x, np.nan)) for x in points)] for name, curve in curves.items()]


def picture(figure: Figure, results: Results) -> str:
    """Return the panels of a figure as an SVG, with one legend."""
    drawn = [(panel, lines_of(panel, results)) for panel in figure.panels]
    panels, curves = zip(*((panel, found) for panel, found in drawn if found), strict=True)
    names = list(dict.fromkeys(name for found in curves for name in found))
    style = {name: (COLOURS[k % len(COLOURS)], DASHES[k // len(COLOURS) % len(DASHES)]) for k, name in enumerate(names)}
    n_columns = min(3, len(curves))
    n_rows = -(-len(curves) // n_columns)
    cell = (WIDTH + LEFT + 14, HEIGHT + TOP + 44)
    width, below = n_columns * cell[0], n_rows * cell[1]
    shapes, x, y = [], LEFT, below + 14
    for k, (panel, found) in enumerate(zip(panels, curves, strict=True)):
        shift = f"translate({k % n_columns * cell[0] + LEFT} {k // n_columns * cell[1] + TOP})"
        shapes.append(f'<g transform="{shift}">{_plot(panel, found, style)}</g>')
    for name in names:
        wide = 40 + 7 * len(name)
        if x + wide > width and x > LEFT:
            x, y = LEFT, y + 18
        colour, dash = style[name]
        shapes.append(f'<path d="M{x} {y - 4}h22" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        shapes.append(_text(x + 27, y, name, "start"))
        x += wide
    size = f'width="{width}" height="{y + 12}" viewBox="0 0 {width} {y + 12}"'
    words = escape(f"{_heading(figure)}, our measurement")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="system-ui, sans-serif" font-size="12">'
        f'<title>{words}</title><rect width="100%" height="100%" fill="#ffffff"/>' + "\n".join(shapes) + "</svg>\n"
    )


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#222222">{escape(words)}</text>'


def _plot(panel: Panel, curves: dict[str, pd.Series], style: dict[str, tuple[str, str]]) -> str:
    """Return axes, ticks and curves of one panel."""
    everything = [x for curve in curves.values() for x in curve.index]
    names = list(dict.fromkeys(everything)) if everything and isinstance(everything[0], str) else []
    values = np.concatenate([curve.to_numpy(float) for curve in curves.values()])
    places = [names.index(x) if names else float(x) for x in everything]
    across, x_ticks = _axis(places, WIDTH, panel.log_x, dict(enumerate(names)))
    upwards, y_ticks = _axis(values, HEIGHT, panel.log_y, {})
    shapes = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888888"/>']
    shapes += [_text(WIDTH / 2, -10, panel.title), _text(WIDTH / 2, HEIGHT + 34, panel.x.replace("_", " "))]
    shapes += [_text(at, HEIGHT + 16, label) for at, label in x_ticks]
    for at, label in y_ticks:
        shapes.append(f'<path d="M0 {HEIGHT - at:.1f}h{WIDTH}" stroke="#dddddd"/>')
        shapes.append(_text(-5, HEIGHT - at + 4, label, "end"))
    for name, curve in curves.items():
        points = [
            (across(names.index(x) if names else float(x)), HEIGHT - upwards(float(y)))
            for x, y in curve.items() if np.isfinite(y) and not (panel.log_y and y <= 0)
        ]  # fmt: skip
        colour, dash = style[name]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        line = f'fill="none" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dash}"'
        shapes.append(f'<polyline points="{path}" {line}/>')
        shapes += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colour}"/>' for x, y in points]
    return "".join(shapes)


def _axis(values: Sequence[float] | np.ndarray, length: int, is_log: bool, names: dict[int, str]):
    """Return the function from values to places on an axis, and its ticks with their labels."""
    array = np.asarray(values, dtype=float)
    array = array[np.isfinite(array) & (array > 0 if is_log else True)]
    scaled = np.log10(array) if is_log else array
    low, high = (float(scaled.min()), float(scaled.max())) if len(scaled) else (0.0, 1.0)
    if names:
        low, high = low - 0.4, high + 0.4
    elif high - low < 1e-9:
        low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
    room = 0.0 if names else 0.04 * (high - low)
    low, high = low - room, high + room

    def place(value: float) -> float:
        return length * ((np.log10(value) if is_log else value) - low) / (high - low)

    if names:
        return place, [(place(at), name) for at, name in names.items()]
    if is_log:
        ticks = [m * 10.0**k for k in range(int(np.floor(low)), int(np.ceil(high)) + 1) for m in (1, 2, 5)]
        ticks = [tick for tick in ticks if low <= np.log10(tick) <= high]
        if len(ticks) > 6:
            ticks = [tick for tick in ticks if np.isclose(np.log10(tick), round(np.log10(tick)))]
    else:
        rough = (high - low) / 5
        step = min((m * 10.0 ** np.floor(np.log10(rough)) for m in (1, 2, 5, 10)), key=lambda one: abs(one - rough))
        ticks = [k * step for k in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]
    return place, [
        (place(tick), f"{tick:,.10g}" if abs(tick) >= 1e-3 or tick == 0 else f"{tick:.0e}") for tick in ticks
    ]
