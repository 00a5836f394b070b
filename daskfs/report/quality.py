"""How good the predictions of the test rows are: metrics with intervals beside a baseline, figures, classes."""

from __future__ import annotations

from daskfs.evidence import QualityRecord
from daskfs.report.markup import Html, brief, figure, html_of, paragraph, section, shown, table
from daskfs.report.plots import Figure, draw_calibration, draw_first_features, draw_residuals
from daskfs.report.summary import target_of
from daskfs.result import SelectionResult


def draw_quality(result: SelectionResult) -> list[Figure]:
    """Draw calibration, residuals, and a metric against the number of features, as far as they are known."""
    test = None if result.evidence is None else result.evidence.test
    if test is None:
        return []
    drawn = []
    if len(test.calibration) > 1:
        drawn.append(draw_calibration(test.calibration, target_of(result), is_share=bool(test.labels)))
    if sum(test.residual_counts):
        drawn.append(draw_residuals(test.residual_edges, test.residual_counts))
    if len(test.sizes) > 1:
        drawn.append(draw_first_features(test.metric_by_size, test.sizes, test.values))
    return drawn


def quality(result: SelectionResult, drawn: list[Figure]) -> Html:
    """Say how good it is."""
    if not result.metrics:
        told = "Not measured: `split: {test: 0.2}` in the pipeline keeps a fifth of the rows for testing."
        return section("How good it is", paragraph(told))
    test = None if result.evidence is None else result.evidence.test
    figures = "".join(figure(one.svg, one.title, one.text) for one in drawn)
    return section(
        "How good it is",
        _metrics(result, test),
        _confusion(test),
        Html(f'<div class="figures">{figures}</div>') if figures else "",
    )


def _metrics(result: SelectionResult, test: QualityRecord | None) -> Html:
    rows = []
    for name, value in result.metrics.items():
        interval = test.intervals.get(name) if test else None
        between = f"{brief(interval[0], 4)} to {brief(interval[1], 4)}" if interval else ""
        baseline = test.baseline_metrics.get(name) if test else None
        rows.append([f"{name.replace('_', ' ')} on the test rows", shown(value), between, brief(baseline, 4)])
    explained = (
        ""
        if test is None
        else (
            f"On {test.n_rows:,} test rows. Intervals hold 95 %, by the bootstrap over test rows; the baseline always "
            f"predicts {test.baseline}."
        )
    )
    head = ["metric", "value", "95 % interval", "baseline"]
    return Html(paragraph(explained, "muted") + table(head, rows, (1, 2, 3), name="Metrics"))


def _confusion(test: QualityRecord | None) -> Html:
    if test is None or not test.confusion:
        return Html("")
    lines = []
    for label, counts in zip(test.labels, test.confusion, strict=True):
        total = max(1, sum(counts))
        cells = "".join(
            f'<td class="number heat" style="--share:{count / total:.3f}">{count:,}</td>' for count in counts
        )
        k = test.labels.index(label)
        hit = f"{counts[k] / total:.1%}" if sum(counts) else ""
        lines.append(f'<tr><th scope="row">{html_of(label)}</th>{cells}<td class="number">{hit}</td></tr>')
    head = "".join(f'<th scope="col" class="number">{html_of(label)}</th>' for label in test.labels)
    corner, last = '<th scope="col">true class ↓ predicted →</th>', '<th scope="col" class="number">found</th>'
    label = ' role="region" tabindex="0" aria-label="Confusion matrix"'
    whole = (
        f'<div class="wide"{label}><table><thead><tr>{corner}{head}{last}</tr></thead><tbody>{"".join(lines)}</tbody>'
        "</table></div>"
    )
    told = "Test rows by their true class (lines) and the predicted one (columns); found: the share that is right."
    return section("Confusion matrix", paragraph(told, "muted"), whole, level=3)
