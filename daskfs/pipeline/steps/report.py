"""The last step: the files of the run folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from daskfs.pipeline.steps.context import Context
from daskfs.report.html import draw_figures, render_report
from daskfs.report.runs import write_page
from daskfs.result import SelectionResult


def run(
    context: Context, results: Mapping[str, SelectionResult], memory: Callable[[], Mapping[str, Mapping[str, int]]]
) -> None:
    """Write results, models, metrics and the report.

    Parameters
    ----------
    context : Context
    results : mapping of str to SelectionResult
        By label.
    memory : callable
        Returns the limits, promises and measured peaks of the processes; asked when the figures are drawn, so that the
        peak includes them.
    """
    path, several = context.folder.path, len(results) > 1
    context.watch.start("report", 1)
    figures = {label: draw_figures(one) for label, one in results.items()}
    measured = memory()
    for label, result in results.items():
        limits = {**result.memory.get("limit_nbytes", {}), **measured["limit_nbytes"]}
        result.memory |= {**measured, "limit_nbytes": limits}
        if several:
            result.save(path / label, overwrite=True)
            if label in context.models:
                context.models[label].save(path / label)
    for model in list(context.models.values())[:1]:
        model.save(path)
    next(iter(results.values())).save(path, overwrite=True)
    metrics = {label: result.to_record(0).metrics for label, result in results.items()}
    text = json.dumps(metrics if several else next(iter(metrics.values())), indent=2) + "\n"
    (path / "metrics.json").write_text(text, encoding="utf-8")
    write_page(path / "report.html", render_report(context.pipeline.name, results, figures))
    context.watch.advance()
    context.watch.finish()
