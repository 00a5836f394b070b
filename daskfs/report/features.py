"""Tables of features: selected ones by source column, groups, columns of products, effects by class, near misses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from daskfs.evidence import FeatureRecord
from daskfs.report.tables import Cell, Table, between, brief, shown
from daskfs.result import SelectionResult
from daskfs.selected_table import TABLE_COLUMNS, parents_in

INTERVAL = "95 % interval"
N_ROWS = 10_000
N_OF_TABLE = 500
"""Maximum number of rows of the further tables."""
N_OF_CLASS = 20
ANNOTATIONS = ("chromosome", "position", "effect_allele", "other_allele", "allele_frequency")
"""Columns that are shown on small screens too, because they identify a variant."""
NUMBERS = (*TABLE_COLUMNS, "lower", "upper")
"""Columns in which missing values are NaN; in others they are empty."""

SCORE_KINDS = {
    "inclusion frequency": "Proportion of the subsets whose model contains the feature. ",
    "knockoff statistic": "Importance of the feature minus that of its knockoff. ",
    "mean e-value": "Evidence that the feature is more important than its knockoffs, averaged over draws. ",
    "loss increase": "Increase of the mean loss without the feature. ",
    "standardised coefficient": "Absolute coefficient of the standardised column. ",
    "coefficient": "Absolute coefficient. ",
    "weight": "Absolute weight before the refit. ",
}


class _Line(NamedTuple):
    """A row of the table: a selected feature."""

    row: dict[str, Any]
    column: str
    effect: float
    """Change of the prediction per standard deviation of the feature; NaN if unknown."""


class Selected(NamedTuple):
    """The selected features, and what their table shows."""

    table: Table
    has_effects: bool
    """Whether effects per standard deviation are known."""
    has_groups: bool
    """Whether features share a row."""


def selected(result: SelectionResult) -> Selected:
    """Show the selected features. Features from the same source column share a row that expands."""
    lines = _lines(result)
    by_column: dict[str, list[_Line]] = {}
    for line in lines:
        by_column.setdefault(line.column, []).append(line)
    has_intervals = {"lower", "upper"} <= set(result.table.columns)
    own = {*TABLE_COLUMNS, *(("lower", "upper") if has_intervals else ())}
    more = [name for name in result.table.columns if name not in own and not _is_of_parents(name)]
    has_effects = any(math.isfinite(line.effect) for line in lines)
    has_signs, unit = not result.are_norms, result.unit
    head = ["rank", "feature", f"{unit} per unit", *[INTERVAL] * has_intervals]
    head += [f"{unit} per standard deviation"] * has_effects + ["direction"] * has_signs
    head += [result.score_kind if result.score_kind in SCORE_KINDS else "score", "column"]
    head += [name.replace("_", " ") for name in more]
    rows = [
        _row(column, of_column, head, more, has_effects, has_signs, has_intervals)
        for column, of_column in by_column.items()
    ]
    first_more = len(head) - len(more)
    less = [k for k, name in enumerate(head[:first_more]) if name in ("column", "direction")]
    less += [first_more + k for k, name in enumerate(more) if name not in ANNOTATIONS]
    texts = {name.replace("_", " ") for name in more if result.table[name].dtype.kind not in "iufb"}
    numbers = [k for k in range(len(head)) if k != 1 and head[k] not in {"direction", *texts}]
    listed = Table("Selected features", head, rows, numbers, is_sorted=True, less=less)
    return Selected(listed, has_effects, len(by_column) < len(lines))


def _lines(result: SelectionResult) -> list[_Line]:
    known: Sequence[FeatureRecord] = () if result.evidence is None else result.evidence.features
    found = []
    first = result.table.head(N_ROWS)
    for k, (row, is_known) in enumerate(zip(first.to_dict("records"), first.notna().to_dict("records"), strict=True)):
        of = known[k] if k < len(known) else None
        effect = math.nan if of is None or of.deviation is None else float(row["coef"]) * of.deviation
        cells = {str(key): value if is_known[key] or key in NUMBERS else "" for key, value in row.items()}
        found.append(_Line(cells, (of and of.column) or str(row["name"]), effect))
    return found


def _row(
    column: str,
    lines: list[_Line],
    head: Sequence[str],
    more: Sequence[str],
    has_effects: bool,
    has_signs: bool,
    has_intervals: bool,
) -> list[Any]:
    """Return the row of a column: its only feature, or a summary of its features."""
    first, largest = lines[0].row, max((line.row["coef"] for line in lines), key=abs)
    if len(lines) == 1:
        name, effect = Cell(str(first["name"])), lines[0].effect
        coef, score = Cell(shown(first["coef"]), largest), Cell(shown(first["score"]), first["score"])
        direction, index = _direction(largest), Cell(first["index"], float(first["index"]))
    else:
        listed = [
            [of["name"], shown(of["coef"]), *[_interval(of)] * has_intervals, shown(of["score"])]
            for of in (one.row for one in lines)
        ]
        heads = ["feature", head[2], *[INTERVAL] * has_intervals, head[-2 - len(more)]]
        inner = Table(f"Features of {column}", heads, listed, range(1, len(heads)))
        name = Cell(f"{column} ({len(lines):,} features)", inner=inner)
        coefs = [float(line.row["coef"]) for line in lines]
        coef = Cell(between([min(coefs), max(coefs)]), largest)
        effect = max((line.effect for line in lines if math.isfinite(line.effect)), key=abs, default=math.nan)
        direction = _direction(largest) if len({math.copysign(1.0, one) for one in coefs}) == 1 else "both"
        top = max(float(line.row["score"]) for line in lines)
        index, score = Cell(""), Cell(f"up to {shown(top)}", top)
    cells: list[Any] = [Cell(first["rank"], float(first["rank"])), name, coef]
    cells += [_interval(first) if len(lines) == 1 else ""] * has_intervals
    cells += [Cell(brief(effect), abs(effect))] * has_effects + [direction] * has_signs
    return [*cells, score, index, *(shown(first[name]) for name in more)]


def _interval(row: Mapping[str, Any]) -> str:
    return between([row.get("lower", math.nan), row.get("upper", math.nan)])


def _direction(coef: float) -> str:
    return "raises ▲" if coef > 0 else "lowers ▼" if coef < 0 else "none"


def of_classes(result: SelectionResult) -> Table | None:
    """List the first features of each class."""
    if result.table.empty or "class" not in result.table:
        return None
    evidence = result.evidence
    labels: dict[Any, str] = dict(enumerate((evidence.data.classes if evidence is not None else None) or []))
    rows = [
        [labels.get(code, code), f"{len(own):,}", ", ".join(map(str, own["name"].head(N_OF_CLASS)))]
        for code, own in result.table.groupby("class")
    ]
    return Table("Features of each class", ["class", "features", "first"], rows, (1,))


def by_class(result: SelectionResult) -> tuple[str, Table] | None:
    """Show the effect of each feature on each class, per unit or per standard deviation."""
    evidence = result.evidence
    if result.table.empty or evidence is None or not evidence.class_labels:
        return None
    labels, known = evidence.class_labels, evidence.features
    if not any(one.by_class for one in known):
        return None
    are_scaled = all(one.deviation is not None for one in known[:N_OF_TABLE])
    names = map(str, result.table["name"].head(N_OF_TABLE))
    lines = [
        (name, [math.nan if b is None else b * (one.deviation or 0.0 if are_scaled else 1.0) for b in one.by_class])
        for name, one in zip(names, known, strict=False)
        if one.by_class
    ]
    greatest = max((abs(value) for _, values in lines for value in values if math.isfinite(value)), default=0.0) or 1.0
    rows = [
        [name, *(Cell(brief(b), b, abs(b) / greatest if math.isfinite(b) else 0.0) for b in values)]
        for name, values in lines
    ]
    per = "standard deviation" if are_scaled else "unit"
    listed = Table("Effects by class", ["feature", *labels], rows, range(1, len(labels) + 1), is_sorted=True)
    return per, listed


def groups(result: SelectionResult) -> Table | None:
    """Show the selected groups of columns, the strongest first."""
    if "group" not in result.table:
        return None
    order = ["group_score", "rank"]
    lines = result.table.sort_values(order, ascending=[False, True]).groupby("group", sort=False)
    rows = [
        [name, shown(of_group["group_score"].iloc[0]), len(of_group), ", ".join(map(str, of_group["name"].head(5)))]
        for name, of_group in lines
    ]
    head = ["group", "score", "features", "the first of them"]
    return Table("Selected groups", head, rows[:N_OF_TABLE], (1, 2), is_sorted=True)


def _is_of_parents(name: str) -> bool:
    return name == "first_score" or name.startswith("parent_")


def parents(result: SelectionResult) -> Table | None:
    """Show the score of each product before any feature is selected, and the scores of its columns alone."""
    if not result.has_parents or not len(result.table):
        return None
    rows = []
    for row in result.table.head(N_OF_TABLE).to_dict("records"):
        cells = [row["name"], shown(row["first_score"])]
        for parent in parents_in(row):
            cells += [parent.name, "" if parent.score is None else shown(parent.score), f"{parent.rank:,}"]
        rows.append(cells)
    width = max(map(len, rows))
    head = ["feature", "its score", *["column", "score alone", "rank alone"] * ((width - 2) // 3)]
    filled = [[*cells, *[""] * (width - len(cells))] for cells in rows]
    numbers = [k for k in range(1, width) if k % 3 != 2]
    return Table("Columns of the products", head, filled, numbers)


def near_misses(result: SelectionResult) -> Table | None:
    """Show the near misses, one per column of the table, with the selected feature that can replace each.

    Results saved by older versions have one row per feature.
    """
    found = [] if result.evidence is None else result.evidence.near_misses
    if not found:
        return None
    rows = []
    for one in found:
        more = f" and {one.n_features - 1:,} more of {one.column}" if one.n_features > 1 else ""
        rows.append([f"{one.name}{more}", Cell(shown(one.score), one.score), one.like or "", brief(one.correlation)])
    head = ["feature", result.score_kind, "similar selected feature", "correlation"]
    return Table("Near misses", head, rows, (1, 3), is_sorted=True)


def bundles(result: SelectionResult) -> Table | None:
    """List groups of interchangeable features, one per row."""
    found = [] if result.evidence is None else result.evidence.bundles
    if not found:
        return None
    chosen = set(map(str, result.table["name"]))
    rows = [
        [names[0], ", ".join(names[1:]), f"{sum(name in chosen for name in names):,} of {len(names):,}"]
        for names in found
    ]
    return Table("Bundles", ["feature", "interchangeable with", "selected"], rows, (2,))
