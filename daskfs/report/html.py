"""A run, or several side by side, as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from daskfs.report import comparison, features, summary
from daskfs.report.features import SCORE_KINDS
from daskfs.report.markup import Html, figure, html_of, items, page, section
from daskfs.report.plots import Figure, draw_history
from daskfs.report.quality import draw_quality, quality
from daskfs.result import SelectionResult

__all__ = ["SCORE_KINDS", "Figures", "draw_figures", "render_report"]


class Figures(NamedTuple):
    """The figures of a result."""

    history: list[Figure]
    quality: list[Figure]


def draw_figures(result: SelectionResult) -> Figures:
    """Draw the figures of a result: of how it went, and of how good it is."""
    return Figures(draw_history(result.history, result.history_kind), draw_quality(result))


def render_report(
    title: str, results: Mapping[str, SelectionResult], figures: Mapping[str, Figures] | None = None
) -> str:
    """Return the page.

    Parameters
    ----------
    title : str
        Name of the pipeline, or of what is compared.
    results : mapping of str to SelectionResult
        By label; several are first compared, then shown one after the other.
    figures : mapping of str to Figures, optional
        Of each result, as `draw_figures` returns them, where they are drawn already.

    Returns
    -------
    str
        HTML; every name that came from the data is escaped. Tables are whole without scripts, which sort and search.
    """
    parts: list[str] = [f"<h1>{html_of(title)}</h1>"]
    several = len(results) > 1
    if several:
        parts.append(comparison.comparison(results))
    for label, result in results.items():
        drawn = draw_figures(result) if figures is None else figures[label]
        body = "\n".join(filter(None, _of(result, drawn)))
        parts.append(f'<section class="run">\n<h1>{html_of(label)}</h1>\n{body}\n</section>' if several else body)
    return page(title, parts)


def _of(result: SelectionResult, drawn: Figures) -> list[Html]:
    history = [figure(one.svg, one.title, one.text) for one in drawn.history]
    return [
        summary.lead(result),
        summary.warnings(result),
        summary.asked(result),
        features.selected(result),
        features.groups(result),
        features.parents(result),
        features.of_classes(result),
        quality(result, drawn.quality),
        features.bundles(result),
        features.near_misses(result),
        features.scores(result),
        section("How it went", *history, section("Notes", items(result.notes), level=3) if result.notes else ""),
        summary.cost(result),
        summary.again(result),
    ]
