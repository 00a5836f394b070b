"""What was selected: features by the column of the table that they come from, groups, parents, classes, near misses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from daskfs.evidence import FeatureRecord
from daskfs.report.markup import Html, brief, html_of, paragraph, section, shown, sorted_by, table
from daskfs.report.summary import target_of
from daskfs.result import TABLE_COLUMNS, SelectionResult, greatest_scores, parents_in

TITLE = "Selected features"
INTERVAL = "95 % interval"
N_BARS = 40
N_ROWS = 10_000
N_OF_TABLE = 500
"""Lines of the further tables."""
N_OF_CLASS = 20

SCORE_KINDS = {
    "inclusion frequency": "Proportion of the subsets whose model contains the feature. ",
    "knockoff statistic": "By how much the feature counts for more than its knockoff. ",
    "mean e-value": "Evidence that the feature counts for more than its knockoffs, averaged over draws. ",
    "loss increase": "Increase of the mean loss without the feature. ",
    "standardised coefficient": "Absolute coefficient of the standardized column. ",
    "coefficient": "Absolute coefficient. ",
    "weight": "Absolute weight before the refit. ",
}


class _Line(NamedTuple):
    """A selected feature as the table shows it."""

    row: dict[str, Any]
    column: str
    effect: float
    """Change of the prediction per standard deviation of the feature; NaN where that is not known."""


def selected(result: SelectionResult) -> Html:
    """Show the selected features, all that come from one column of the source in one line that opens."""
    if result.table.empty and result.method == "feature_hashing":
        return section(TITLE, paragraph("No feature is listed: rows are predicted by the cells that features share."))
    if result.table.empty:
        return section(TITLE, paragraph("No feature was selected: the prediction is the intercept."))
    lines = _lines(result)
    by_column: dict[str, list[_Line]] = {}
    for line in lines:
        by_column.setdefault(line.column, []).append(line)
    has_intervals = {"lower", "upper"} <= set(result.table.columns)
    own = {*TABLE_COLUMNS, *(("lower", "upper") if has_intervals else ())}
    more = [name for name in result.table.columns if name not in own and not _is_of_parents(name)]
    has_effects = any(math.isfinite(line.effect) for line in lines)
    has_signs = not _are_norms(result)
    target = target_of(result) or "the prediction"
    unit = "log-odds" if _is_log_odds(result) else target
    head = ["rank", "feature", f"{unit} per unit", *[INTERVAL] * has_intervals]
    head += [f"{unit} per standard deviation"] * has_effects + ["direction"] * has_signs
    head += [result.score_kind if result.score_kind in SCORE_KINDS else "score", "column"]
    head += [name.replace("_", " ") for name in more]
    rows = [
        _row(column, of_column, head, more, has_effects, has_signs, has_intervals)
        for column, of_column in by_column.items()
    ]
    less = [k for k, name in enumerate(head) if name in ("column", "direction") or k >= len(head) - len(more)]
    numbers = [k for k in range(len(head)) if k != 1 and head[k] != "direction"]
    rest = len(result.table) - N_ROWS
    listed = table(head, rows, numbers, name=TITLE, is_sorted=True, less=less)
    return section(
        TITLE,
        paragraph(_explained(result, unit, has_effects, len(by_column) < len(lines)), "muted"),
        listed,
        paragraph(f"and {rest:,} more, in selected.csv", "muted") if rest > 0 else "",
    )


def _lines(result: SelectionResult) -> list[_Line]:
    known: Sequence[FeatureRecord] = () if result.evidence is None else result.evidence.features
    found = []
    for k, row in enumerate(result.table.head(N_ROWS).to_dict("records")):
        of = known[k] if k < len(known) else None
        effect = math.nan if of is None or of.deviation is None else float(row["coef"]) * of.deviation
        cells = {str(key): value for key, value in row.items()}
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
    """Return the line of a column: of its one feature, or of all with the largest of them."""
    first, has_intervals = lines[0].row, INTERVAL in head
    if len(lines) == 1:
        name, effect = html_of(str(first["name"])), lines[0].effect
        coef = sorted_by(first["coef"], shown(first["coef"]))
        direction, index = _direction(float(first["coef"])), sorted_by(float(first["index"]), first["index"])
        score = sorted_by(first["score"], shown(first["score"]))
    else:
        listed = [
            [of["name"], shown(of["coef"]), *_interval(of), shown(of["score"])] for of in (one.row for one in lines)
        ]
        heads = ["feature", head[2], *["95 % interval"] * has_intervals, head[-2 - len(more)]]
        inner = table(heads, listed, range(1, len(heads)), name=f"Features of {column}")
        name = f"<details><summary>{html_of(column)} ({len(lines):,} features)</summary>{inner}</details>"
        coefs = [float(line.row["coef"]) for line in lines]
        largest = max(coefs, key=abs)
        coef = sorted_by(largest, f"{brief(min(coefs), 4)} to {brief(max(coefs), 4)}")
        known = [line.effect for line in lines if math.isfinite(line.effect)]
        effect = max(known, key=abs) if known else math.nan
        direction = _direction(largest) if len({math.copysign(1.0, one) for one in coefs}) == 1 else "both"
        index, top = Html(""), max(float(line.row["score"]) for line in lines)
        score = sorted_by(top, f"up to {shown(top)}")
    cells: list[Any] = [sorted_by(float(first["rank"]), first["rank"]), Html(name), coef]
    cells += (_interval(first) if len(lines) == 1 else [""]) * has_intervals
    cells += [sorted_by(abs(effect), brief(effect, 4))] * has_effects + [direction] * has_signs
    return [*cells, score, index, *(shown(first[name]) for name in more)]


def _interval(row: Mapping[str, Any]) -> list[str]:
    """Return the interval of a coefficient as a cell; none where the table has no intervals."""
    if "lower" not in row or "upper" not in row:
        return []
    return [f"{brief(row['lower'], 4)} to {brief(row['upper'], 4)}" if math.isfinite(row["lower"]) else ""]


def _direction(coef: float) -> str:
    return "raises ▲" if coef > 0 else "lowers ▼" if coef < 0 else "none"


def _is_log_odds(result: SelectionResult) -> bool:
    return result.parameters.get("loss") == "logistic" or (
        result.evidence is not None and result.evidence.test is not None and bool(result.evidence.test.labels)
    )


def _are_norms(result: SelectionResult) -> bool:
    """Whether coefficients are norms over several classes, which have no sign."""
    return bool(len(result.table) > 1 and (result.table["coef"] >= 0).all()) and (
        any("norms over the classes" in note for note in result.notes) or "class" in result.table
    )


def _explained(result: SelectionResult, unit: str, has_effects: bool, has_groups: bool) -> str:
    said = SCORE_KINDS.get(result.score_kind, "")
    said += f"Per unit: how much {unit} changes where the feature grows by one, the others being as they are. "
    if has_effects:
        said += "Per standard deviation: where it grows by one of its own, which makes features comparable. "
    if has_groups:
        said += "Features that come from one column of the table are in one line, which opens."
    return said


def groups(result: SelectionResult) -> Html:
    """Show the groups whose columns were selected together, the strongest first."""
    if "group" not in result.table:
        return Html("")
    order = ["group_score", "rank"]
    lines = result.table.sort_values(order, ascending=[False, True]).groupby("group", sort=False)
    rows = [
        [name, shown(of_group["group_score"].iloc[0]), len(of_group), ", ".join(map(str, of_group["name"].head(5)))]
        for name, of_group in lines
    ]
    head = ["group", "score", "features", "the first of them"]
    return section("Selected groups", table(head, rows[:N_OF_TABLE], (1, 2), name="Selected groups", is_sorted=True))


def _is_of_parents(name: str) -> bool:
    return name == "first_score" or name.startswith("parent_")


def parents(result: SelectionResult) -> Html:
    """Show what each feature scores before any is selected, and what its columns do alone."""
    if not result.has_parents or not len(result.table):
        return Html("")
    rows = []
    for row in result.table.head(N_OF_TABLE).to_dict("records"):
        cells = [row["name"], shown(row["first_score"])]
        for parent in parents_in(row):
            cells += [parent.name, "" if parent.score is None else shown(parent.score), f"{parent.rank:,}"]
        rows.append(cells)
    width = max(map(len, rows))
    head = ["feature", "its score", *["column", "score alone", "rank alone"] * ((width - 2) // 3)]
    explained = (
        "Scores before any feature is selected: squared correlations with the derivative of the loss, of the feature "
        "and of each column that it is made of, as a feature of its own, with its rank among all columns."
    )
    filled = [[*cells, *[""] * (width - len(cells))] for cells in rows]
    numbers = [k for k in range(1, width) if k % 3 != 2]
    made_of = table(head, filled, numbers, name="What features are made of")
    return section("What they are made of", paragraph(explained, "muted"), made_of)


def of_classes(result: SelectionResult) -> Html:
    """List the first features of each class, those whose largest weight is the class's."""
    if result.table.empty or "class" not in result.table:
        return Html("")
    labels: dict[Any, str] = dict(
        enumerate((result.evidence.data.classes if result.evidence is not None else None) or [])
    )
    rows = [
        [labels.get(code, code), f"{len(own):,}", ", ".join(map(str, own["name"].head(N_OF_CLASS)))]
        for code, own in result.table.groupby("class")
    ]
    listed = table(["class", "features", "first"], rows, (1,), name="Features of each class")
    return section("Features of each class", listed)


def near_misses(result: SelectionResult) -> Html:
    """Show what was nearly selected, and which selected feature stands in for it."""
    found = [] if result.evidence is None else result.evidence.near_misses
    if not found:
        return Html("")
    rows = [[one.name, shown(one.score), one.like or "", brief(one.correlation)] for one in found]
    explained = (
        "Features that were not selected, by score. Where a selected feature is correlated with one by 0.7 or more, it "
        "stands in for it: the data hardly decide between the two."
    )
    head = ["feature", result.score_kind, "stood in for by", "correlation"]
    listed = table(head, rows, (1, 3), name="Near misses", is_sorted=True)
    return section("Near misses", paragraph(explained, "muted"), listed)


def bundles(result: SelectionResult) -> Html:
    """List features that say nearly the same, each bundle in one line."""
    found = [] if result.evidence is None else result.evidence.bundles
    if not found:
        return Html("")
    chosen = set(map(str, result.table["name"]))
    rows = [
        [names[0], ", ".join(names[1:]), f"{sum(name in chosen for name in names):,} of {len(names):,}"]
        for names in found
    ]
    explained = (
        "Features correlated by 0.9 or more say nearly the same: read a bundle as one. With other rows another "
        "of it could have been selected; selector.stand_ins(X, y) says what that would cost."
    )
    listed = table(["feature", "says nearly the same", "selected"], rows, (2,), name="Bundles")
    return section("Bundles", paragraph(explained, "muted"), listed)


def scores(result: SelectionResult) -> Html:
    """Draw the features with the greatest scores, selected or not, against a line at one half."""
    are_shares = result.score_kind == "inclusion frequency"
    chosen = set(result.table["index"]) if len(result.table) else set()
    if result.scores is None:
        drawn = [(str(row["name"]), row["score"], True) for _, row in result.table.head(N_BARS).iterrows()]
    else:
        order, names = greatest_scores(result.scores, N_BARS), result.feature_names
        named = [f"x{j}" for j in order] if names is None else [str(name) for name in names[order]]
        values = np.nan_to_num(np.asarray(result.scores[order], dtype=float)).tolist()
        drawn = [(name, value, j in chosen) for name, value, j in zip(named, values, order.tolist(), strict=True)]
    title = "Inclusion frequencies" if are_shares else "Scores"
    if not drawn:
        return section(title, paragraph("No feature has a score above zero.", "muted"))
    digits = ".3f" if are_shares else ".3g"
    greatest = 1.0 if are_shares else max(score for _, score, _ in drawn)
    rows = [
        [
            name,
            Html(
                f'<span class="bar{" selected" if is_selected else ""}" '
                f'style="width:{100 * max(score, 0) / greatest:.1f}%"></span>'
            ),
            f"{score:{digits}}",
            "yes" if is_selected else "no",
        ]
        for name, score, is_selected in drawn
    ]
    half = "; the shade changes at one half" if are_shares else ""
    listed = table(["feature", "as a bar", "score", "selected"], rows, (2,), name=title)
    listed = Html(listed.replace("<td><span", '<td class="scale"><span').replace("<table>", '<table class="full">'))
    kind = Html(f'<div class="shares">{listed}</div>') if are_shares else listed
    meaning = SCORE_KINDS.get(result.score_kind, "")
    return section(title, paragraph(f"{meaning}Dark bars: selected features{half}.", "muted"), kind)
