"""A run, or several side by side, as one HTML page that needs nothing else: no network, no script, no other file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from daskfs.report.plots import draw_history, draw_metric_by_size
from daskfs.report.size_curves import lines_by_size
from daskfs.result import TABLE_COLUMNS, RefitRecord, SelectionResult, parents_in

N_BARS = 40
N_ROWS = 500
N_OF_CLASS = 20
MOST_RANKED = 20_000
"""Features of a result that are looked for in others."""

SCORE_KINDS = {
    "inclusion frequency": "Proportion of the subsets whose model contains the feature. ",
    "loss increase": "Increase of the mean loss without the feature. ",
    "standardised coefficient": "Absolute coefficient of the standardized column. ",
    "coefficient": "Absolute coefficient. ",
    "weight": "Absolute weight before the refit. ",
}

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2429; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; border-bottom: 1px solid #d8dee3; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; border-bottom: 1px solid #eceff1; vertical-align: top; }
td.number, th.number { text-align: right; }
.bar { display: inline-block; height: .75rem; background: #9aa5ad; vertical-align: baseline; }
.bar.selected { background: #1f5f8b; }
.scale { width: 24rem; background: linear-gradient(90deg, #eceff1 0 50%, #f7f9fa 50% 100%); line-height: 1; }
.muted { color: #667079; } svg { max-width: 100%; height: auto; }
"""


Figure = tuple[str, str]
"""Title and SVG."""


def render_report(
    title: str, results: Mapping[str, SelectionResult], figures: Mapping[str, Sequence[Figure]] | None = None
) -> str:
    """Return the page.

    Parameters
    ----------
    title : str
        Name of the pipeline, or of what is compared.
    results : mapping of str to SelectionResult
        By label; several are first compared, then shown one after the other.
    figures : mapping of str to sequences of (str, str), optional
        Figures of each history, as `draw_history` returns them, where they are drawn already.

    Returns
    -------
    str
        HTML; every name that came from the data is escaped.
    """
    parts = [f"<h1>{escape(title)}</h1>"]
    if len(results) > 1:
        parts += [_comparison(results), *_by_size(results), _shared_features(results)]
    for label, result in results.items():
        if len(results) > 1:
            parts.append(f"<h1>{escape(label)}</h1>")
        drawn = draw_history(result.history, result.history_kind) if figures is None else figures[label]
        parts += _one_result(result, drawn)
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _one_result(result: SelectionResult, figures: Sequence[Figure]) -> list[str]:
    record = result.to_record(0)  # what is saved: the page is the same from memory and from disk
    return [
        _summary(result),
        f"<h2>Selected features</h2>{_selected(result)}",
        f"<h2>Selected groups</h2>{_groups(result)}" if "group" in result.table else "",
        f"<h2>What they are made of</h2>{_parents(result)}" if result.has_parents and len(result.table) else "",
        _of_classes(result),
        f"<h2>{'Inclusion frequencies' if _are_shares(result) else 'Scores'}</h2>{_bars(result)}",
        *(f"<h2>{title}</h2>{svg}" for title, svg in figures),
        f"<h2>Notes</h2>{_list(result.notes)}" if result.notes else "",
        f"<h2>Time</h2>{_table(['step', 'seconds'], [[k, f'{v:.2f}'] for k, v in result.time.items()])}",
        f"<h2>Memory</h2>{_memory(result)}",
        f"<h2>Parameters</h2>{_table(['parameter', 'value'], [[k, _shown(v)] for k, v in record.parameters.items()])}",
    ]


def _summary(result: SelectionResult) -> str:
    rows = [
        ["method", result.method],
        ["data", f"{result.n_samples:,} training samples, {result.n_features:,} features"],
        ["selected", f"{len(result.table):,} features"],
        ["intercept", _shown(result.intercept)],
        *([f"{name.replace('_', ' ')} on the test rows", _shown(value)] for name, value in result.metrics.items()),
        *([["refit", _refit(result.refit)]] if result.refit is not None else []),
        ["store", result.store_digest or "none"],
    ]
    return _table([], rows)


def _refit(refit: RefitRecord) -> str:
    ridges, intercepts = (", ".join(map(_shown, values)) for values in (refit.ridge, refit.intercept))
    return f"{refit.loss} loss, ridge {ridges}, intercept {intercepts}"


def _selected(result: SelectionResult) -> str:
    if result.table.empty and result.method == "feature_hashing":
        return "<p>No feature is listed: rows are predicted by the cells that features share.</p>"
    if result.table.empty:
        return "<p>No feature was selected: the prediction is the intercept.</p>"
    more_columns = [name for name in result.table.columns if name not in TABLE_COLUMNS and not _is_of_parents(name)]
    rows = [
        [row["rank"], row["index"], row["name"], *(_shown(row[name]) for name in ("coef", "score", *more_columns))]
        for row in result.table.head(N_ROWS).to_dict("records")
    ]
    more = len(result.table) - N_ROWS
    rest = f'<p class="muted">and {more:,} more, in selected.csv</p>' if more > 0 else ""
    head = ["rank", "column", "name", "coefficient", "score", *(name.replace("_", " ") for name in more_columns)]
    return _table(head, rows, numbers=(0, 1, *range(3, len(head)))) + rest


def _groups(result: SelectionResult) -> str:
    """Return a table of the groups whose columns were selected together, the strongest first."""
    order = ["group_score", "rank"]
    lines = result.table.sort_values(order, ascending=[False, True]).groupby("group", sort=False)
    rows = [
        [name, _shown(of_group["group_score"].iloc[0]), len(of_group), ", ".join(map(str, of_group["name"].head(5)))]
        for name, of_group in lines
    ]
    return _table(["group", "score", "features", "the first of them"], rows[:N_ROWS], numbers=(1, 2))


def _is_of_parents(name: str) -> bool:
    return name == "first_score" or name.startswith("parent_")


def _parents(result: SelectionResult) -> str:
    """Return a table of the features with what each scores before any is selected, and what its columns do alone."""
    rows = []
    for row in result.table.head(N_ROWS).to_dict("records"):
        cells = [row["name"], _shown(row["first_score"])]
        for parent in parents_in(row):
            cells += [parent.name, "" if parent.score is None else _shown(parent.score), f"{parent.rank:,}"]
        rows.append(cells)
    width = max(map(len, rows))
    head = ["feature", "its score", *["column", "score alone", "rank alone"] * ((width - 2) // 3)]
    explained = (
        "Scores before any feature is selected: squared correlations with the derivative of the loss, of the feature "
        "and of each column that it is made of, as a feature of its own, with its rank among all columns."
    )
    numbers = tuple(k for k in range(1, width) if k % 3 != 2)
    table = _table(head, [[*cells, *[""] * (width - len(cells))] for cells in rows], numbers)
    return f'<p class="muted">{explained}</p>{table}'


def _of_classes(result: SelectionResult) -> str:
    """List the first features of each class, those whose largest weight is the class's."""
    if result.table.empty or "class" not in result.table:
        return ""
    rows = [
        [code, f"{len(own):,}", ", ".join(map(str, own["name"].head(N_OF_CLASS)))]
        for code, own in result.table.groupby("class")
    ]
    return f"<h2>Features of each class</h2>{_table(['class', 'features', 'first'], rows, numbers=(0, 1))}"


def _are_shares(result: SelectionResult) -> bool:
    return result.score_kind == "inclusion frequency"


def _bars(result: SelectionResult) -> str:
    """Draw the features with the greatest scores, selected or not, against a line at one half."""
    chosen = set(result.table["index"])
    if result.scores is None:
        shown = [(str(row["name"]), row["score"], True) for _, row in result.table.head(N_BARS).iterrows()]
    else:
        scores = np.nan_to_num(np.asarray(result.scores, dtype=float), nan=-math.inf)
        order = [int(j) for j in np.argsort(-scores, kind="stable")[:N_BARS] if scores[j] > 0]
        names = result.feature_names
        shown = [(f"x{j}" if names is None else str(names[j]), scores[j], j in chosen) for j in order]
    if not shown:
        return '<p class="muted">No feature has a score above zero.</p>'
    are_shares = _are_shares(result)
    shown_as = ".3f" if are_shares else ".3g"
    greatest = 1.0 if are_shares else max(score for _, score, _ in shown)
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="scale"><span class="bar{" selected" if selected else ""}" '
        f'style="width:{100 * max(score, 0) / greatest:.1f}%"></span></td>'
        f'<td class="number">{score:{shown_as}}</td></tr>'
        for name, score, selected in shown
    )
    half = "; the shade changes at one half" if are_shares else ""
    meaning = SCORE_KINDS.get(result.score_kind, "")
    return f'<p class="muted">{meaning}Dark bars: selected features{half}.</p><table>{rows}</table>'


def _memory(result: SelectionResult) -> str:
    memory = result.memory
    promised = memory.get("promised_nbytes", {})
    measured = memory.get("measured_nbytes", {})
    rows = []
    for process in [*measured, *(name for name in promised if name not in measured and name != "worker")]:
        kind = "client" if process == "client" else "worker"
        limit = memory.get("limit_nbytes", {}).get(kind)
        rows.append([process, _mib(promised.get(kind)), _mib(measured.get(process)), _mib(limit)])
    rows += [[name, "", _mib(nbytes), ""] for name, nbytes in memory.get("held_nbytes", {}).items()]
    if not rows:
        return '<p class="muted">Not measured.</p>'
    return _table(["process", "promised MiB", "measured MiB", "limit MiB"], rows, numbers=(1, 2, 3))


def _comparison(results: Mapping[str, SelectionResult]) -> str:
    metrics = list(dict.fromkeys(name for result in results.values() for name in result.metrics))
    steps = list(dict.fromkeys(name for result in results.values() for name in result.time))
    head = ["run", "method", "samples", "features", "selected", *metrics, *(f"{step} s" for step in steps)]
    rows = []
    for label, result in results.items():
        cells = [label, result.method, f"{result.n_samples:,}", f"{result.n_features:,}", len(result.table)]
        cells += [_shown(result.metrics[name]) if name in result.metrics else "" for name in metrics]
        cells += [f"{result.time[step]:.2f}" if step in result.time else "" for step in steps]
        rows.append(cells)
    return "<h2>Side by side</h2>" + _table(head, rows, numbers=tuple(range(2, len(head))))


def _by_size(results: Mapping[str, SelectionResult]) -> list[str]:
    """Show each metric against the number of features, where a method was run for several numbers of them."""
    lines = lines_by_size(results)
    metrics = dict.fromkeys(name for line in lines.values() for result in line for name in result.metrics)
    parts = []
    for metric in metrics:
        drawn = {
            name: {len(result.table): result.metrics[metric] for result in line if _is_known(result, metric)}
            for name, line in lines.items()
        }
        drawn = {name: found for name, found in drawn.items() if found}
        sizes = sorted({size for found in drawn.values() for size in found})
        if not sizes:
            continue
        rows = [[name, *(_shown(found.get(size, "")) for size in sizes)] for name, found in drawn.items()]
        svg = draw_metric_by_size({name: (list(f), list(f.values())) for name, f in drawn.items()}, metric)
        head = ["selected features", *(str(size) for size in sizes)]
        table = _table(head, rows, numbers=tuple(range(1, len(sizes) + 1)))
        parts.append(f"<h2>{escape(metric)} against the number of features</h2>{svg}{table}")
    return parts


def _is_known(result: SelectionResult, metric: str) -> bool:
    value = result.metrics.get(metric)
    return value is not None and math.isfinite(value)


def _shared_features(results: Mapping[str, SelectionResult]) -> str:
    ranks = {
        label: dict(zip(r.table["name"][:MOST_RANKED], r.table["rank"], strict=False)) for label, r in results.items()
    }
    names = list(dict.fromkeys(name for column in ranks.values() for name in column))
    names.sort(key=lambda name: (-sum(name in column for column in ranks.values()), _mean_rank(name, ranks)))
    rows = [[name, *(column.get(name, "") for column in ranks.values())] for name in names[:N_ROWS]]
    head = ["feature", *ranks]
    return "<h2>Rank of each feature</h2>" + _table(head, rows, numbers=tuple(range(1, len(head))))


def _mean_rank(name: str, ranks: Mapping[str, Mapping[str, int]]) -> float:
    found = [column[name] for column in ranks.values() if name in column]
    return sum(found) / len(found)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]], numbers: tuple[int, ...] = ()) -> str:
    def cell(tag: str, k: int, value: Any) -> str:
        kind = ' class="number"' if k in numbers else ""
        return f"<{tag}{kind}>{escape(str(value))}</{tag}>"

    first = f"<tr>{''.join(cell('th', k, name) for k, name in enumerate(head))}</tr>" if head else ""
    rest = "".join(f"<tr>{''.join(cell('td', k, value) for k, value in enumerate(row))}</tr>" for row in rows)
    return f"<table>{first}{rest}</table>"


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def _mib(nbytes: int | None) -> str:
    return "" if nbytes is None else f"{nbytes / 2**20:,.0f}"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}" if math.isfinite(value) else "not defined"
    return str(value)
