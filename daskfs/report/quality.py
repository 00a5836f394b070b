"""Prediction quality on the test rows: metrics with intervals and a baseline, figures, confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping

from daskfs.evidence import QualityRecord
from daskfs.figures import Figure
from daskfs.report.markup import Cell, Html, between, brief, figure, paragraph, section, shown, table
from daskfs.report.summary import target_of
from daskfs.result import SelectionResult

FIGURES = ("calibration", "residuals", "sizes")
WORDS = {"rmse": "typical error (RMSE)", "mae": "mean absolute error (MAE)", "r2": "R², variance explained"}


def quality(result: SelectionResult, drawn: Mapping[str, Figure]) -> Html:
    """Show the prediction quality."""
    if not result.metrics:
        caption = "Not measured. Set `split: {test: 0.2}` in the pipeline to hold out a fifth of the rows for testing."
        return section("Prediction quality", paragraph(caption))
    test = None if result.evidence is None else result.evidence.test
    figures = "".join(figure(drawn[kind]) for kind in FIGURES if kind in drawn)
    return section(
        "Prediction quality",
        _metrics(result, test),
        _confusion(test),
        Html(f'<div class="figures">{figures}</div>') if figures else "",
    )


def _metrics(result: SelectionResult, test: QualityRecord | None) -> Html:
    """List errors in units of the target first, then the requested metrics."""
    values = {**({} if test is None else test.errors), **result.metrics}
    rows = []
    for name, value in values.items():
        interval = test.intervals.get(name) if test else None
        baseline = test.baseline_metrics.get(name) if test and not name.endswith("r2") else None
        of = f", in {target_of(result)}" if name in ("rmse", "mae") and target_of(result) else ""
        rows.append([WORDS.get(name, name.replace("_", " ")) + of, shown(value), between(interval), brief(baseline)])
    head = ["on the test rows", "value", "95 % interval", "baseline"]
    if test is None:
        return table(head[:2], [row[:2] for row in rows], (1,), name="Metrics")
    explained = (
        f"On {test.n_rows:,} test rows, over which the 95 % intervals are bootstrapped. The baseline always predicts "
        f"{test.baseline}."
    )
    return Html(paragraph(explained, "muted") + table(head, rows, (1, 2, 3), name="Metrics"))


def _confusion(test: QualityRecord | None) -> Html:
    if test is None or not test.confusion:
        return Html("")
    rows = []
    for k, (label, counts) in enumerate(zip(test.labels, test.confusion, strict=True)):
        total = max(1, sum(counts))
        cells = [Cell(f"{count:,}", share=count / total) for count in counts]
        rows.append([label, *cells, f"{counts[k] / total:.1%}" if sum(counts) else ""])
    head = ["true class ↓ predicted →", *test.labels, "recall"]
    caption = "Test rows by true class (rows) and predicted class (columns). Recall: the share predicted correctly."
    listed = table(head, rows, range(1, len(head)), name="Confusion matrix")
    return section("Confusion matrix", paragraph(caption, "muted"), listed, level=3)
