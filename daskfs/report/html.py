"""Report of a run, or comparison of several, as one HTML page that needs no network and no other file.

The words stand in `templates`, the sentences that depend on many values in `summary`; what tables hold is made in
`summary`, `features` and `comparison`, figures in `daskfs.figures`.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from daskfs.figures import Figure
from daskfs.report import comparison, features, summary
from daskfs.report.features import SCORE_KINDS
from daskfs.report.tables import Cell, shown
from daskfs.result import SelectionResult

__all__ = ["SCORE_KINDS", "draw_figures", "render_report"]

SCRIPTS = ("dataTables.min.js", "report.js")


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
        HTML; every name from the data is escaped. Tables are complete without scripts, which only sort and search. The
        page's content security policy allows no requests, and only the two scripts of daskfs, by their digests.
    """
    scripts = [asset(name) for name in SCRIPTS]
    digests = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    regions: Counter[str] = Counter()

    def region(name: str) -> str:
        """Number the regions of a page with equal names, so that screen readers can distinguish them."""
        regions[name] += 1
        return name if regions[name] == 1 else f"{name} ({regions[name]})"

    return (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            results=results,
            figures={label: one.figures() for label, one in results.items()} if figures is None else figures,
            comparison=comparison,
            features=features,
            summary=summary,
            region=region,
            meanings=SCORE_KINDS,
            digests=Markup(digests),
            style=Markup(asset("report.css")),
            scripts=[Markup(script) for script in scripts],
        )
    )


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("daskfs.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "shown": shown,
        "sort_key": _sort_key,
        "svg": _svg,
    }
    made.tests["cell"] = lambda value: isinstance(value, Cell)
    return made


def _sort_key(order: float) -> str:
    return f"{order:.9g}" if math.isfinite(order) else ""


def _svg(figure: Figure) -> Markup:
    """Return the drawing with its description as text for screen readers."""
    return Markup(figure.svg.replace("<svg", f'<svg role="img" aria-label="{escape(figure.text)}"', 1))


def asset(name: str) -> str:
    """Return the text of a file that is inlined in pages."""
    return (resources.files("daskfs.report") / "assets" / name).read_text(encoding="utf-8")
