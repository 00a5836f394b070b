"""Report of a run, or comparison of several, as one HTML page that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Mapping

from daskfs.figures import Figure
from daskfs.report import comparison, features, summary
from daskfs.report.features import SCORE_KINDS
from daskfs.report.markup import Html, figure, html_of, items, page, section
from daskfs.report.quality import quality
from daskfs.result import SelectionResult

__all__ = ["SCORE_KINDS", "draw_figures", "render_report"]


def draw_figures(result: SelectionResult) -> dict[str, Figure]:
    """Draw the figures of a result, by kind."""
    found = result.figures()
    for one in found.values():
        _ = one.svg
    return found


def render_report(
    title: str, results: Mapping[str, SelectionResult], figures: Mapping[str, Mapping[str, Figure]] | None = None
) -> str:
    """Return the page.

    Parameters
    ----------
    title : str
        Title: the name of the pipeline or of the compared runs.
    results : mapping of str to SelectionResult
        Results by label; several are first compared, then shown one at a time.
    figures : mapping, optional
        Figures of each result by label, as returned by `draw_figures`; drawn here by default.

    Returns
    -------
    str
        HTML; every name from the data is escaped. Tables are complete without scripts, which only sort and search.
    """
    parts: list[str] = [f"<h1>{html_of(title)}</h1>"]
    several = len(results) > 1
    if several:
        parts.append(comparison.comparison(results))
    for label, result in results.items():
        drawn = result.figures() if figures is None else figures[label]
        body = "\n".join(filter(None, _of(result, drawn)))
        parts.append(f'<section class="run">\n<h1>{html_of(label)}</h1>\n{body}\n</section>' if several else body)
    return page(title, parts)


def _of(result: SelectionResult, drawn: Mapping[str, Figure]) -> list[Html]:
    history = figure(drawn["history"]) if "history" in drawn else ""
    return [
        summary.lead(result),
        summary.warnings(result),
        summary.asked(result),
        summary.missing(result),
        features.selected(result),
        features.effects(drawn),
        features.loci(result, drawn),
        features.of_classes(result),
        features.groups(result),
        features.parents(result),
        quality(result, drawn),
        features.bundles(result),
        features.near_misses(result),
        features.scores(result, drawn),
        section("Fit", history, section("Notes", items(result.notes), level=3) if result.notes else ""),
        summary.cost(result),
        summary.again(result),
    ]
