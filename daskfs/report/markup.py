"""HTML of a report. All text is escaped here; the page needs no network and no other file."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from daskfs.cells import digits
from daskfs.figures import Figure

LONG = 1_000
"""Number of rows above which a table has fixed column widths, so that the browser need not measure all cells."""
SCRIPTS = ("dataTables.min.js", "report.js")


class Html(str):
    """Text that is already HTML; any other text is escaped."""

    __slots__ = ()


def html_of(value: Any) -> str:
    """Return a value as HTML.

    Examples
    --------
    >>> html_of("<script>"), html_of(Html("<b>bold</b>"))
    ('&lt;script&gt;', '<b>bold</b>')
    """
    return value if isinstance(value, Html) else escape(shown(value))


class Cell(NamedTuple):
    """A cell of a table."""

    text: Any
    order: float | None = None
    """Number by which the table is sorted, if it differs from the text."""
    share: float | None = None
    """Darkness of the background, from 0 to 1."""


def shown(value: Any) -> str:
    """Format a value; numbers have three significant digits."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (float, np.floating)):
        return digits(float(value))
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return str(value)


def brief(value: float | None) -> str:
    """Format a number; return an empty text if it is undefined."""
    return "" if value is None or not math.isfinite(value) else digits(value)


def between(interval: Sequence[float] | None) -> str:
    """Format an interval; return an empty text without one."""
    known = interval is not None and all(map(math.isfinite, interval))
    return f"{digits(interval[0])} to {digits(interval[1])}" if interval is not None and known else ""


def table(
    head: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    numbers: Sequence[int] = (),
    *,
    name: str = "",
    is_sorted: bool = False,
    less: Sequence[int] = (),
) -> Html:
    """Return a table, which scrolls horizontally if it is too wide.

    Parameters
    ----------
    head : sequence
        Names of the columns. If empty, the first cell of each row is its heading.
    rows : iterable of sequences
    numbers : sequence of int
        Columns that are right-aligned.
    name : str
        Name of the table for screen readers.
    is_sorted : bool
        Whether users can sort and search the table.
    less : sequence of int
        Columns that are hidden on small screens.
    """
    kinds = [" ".join(["number"] * (k in numbers) + ["less"] * (k in less)) for k in range(len(head) or 2)]
    widest = next((k for k in range(len(head)) if is_sorted and k not in numbers), -1)

    def cell(tag: str, k: int, value: Any, scope: str = "") -> str:
        kind = f' class="{kinds[k]}"' if k < len(kinds) and kinds[k] else ""
        if scope and k == widest:
            kind = ' class="names"'
        one = value if isinstance(value, Cell) else Cell(value)
        order = ""
        if one.order is not None:
            order = f' data-order="{one.order:.9g}"' if math.isfinite(one.order) else ' data-order=""'
        if one.share is not None:
            kind, order = f'{kind[:-1]} heat"' if kind else ' class="heat"', f' style="--share:{one.share:.3f}"{order}'
        return f"<{tag}{scope}{kind}{order}>{html_of(one.text)}</{tag}>"

    columns = "".join(cell("th", k, title, ' scope="col"') for k, title in enumerate(head))
    first = f"<thead><tr>{columns}</tr></thead>" if head else ""
    lines = []
    for row in rows:
        cells = [cell("td", k, value) for k, value in enumerate(row)]
        if not head:
            cells[0] = cell("th", 0, row[0], ' scope="row"')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    kind = f' class="sorted full{" long" * (len(lines) > LONG)}"' if is_sorted else ""
    label = f' role="region" tabindex="0" aria-label="{escape(name or "table")}"'
    return Html(f'<div class="wide"{label}><table{kind}>{first}<tbody>{"".join(lines)}</tbody></table></div>')


def items(texts: Iterable[Any]) -> Html:
    """Return a list."""
    return Html(f"<ul>{''.join(f'<li>{html_of(text)}</li>' for text in texts)}</ul>")


def paragraph(text: Any, kind: str = "") -> Html:
    """Return a paragraph."""
    of_kind = f' class="{kind}"' if kind else ""
    return Html(f"<p{of_kind}>{html_of(text)}</p>")


def section(title: Any, *parts: str, level: int = 2) -> Html:
    """Return a heading and its content; empty if there is no content."""
    body = "".join(part for part in parts if part)
    return Html(f"<h{level}>{html_of(title)}</h{level}>{body}") if body else Html("")


def figure(drawn: Figure, level: int | None = 3) -> Html:
    """Return a figure with its description as a caption and as text for screen readers."""
    text = escape(drawn.text)
    opened = drawn.svg.replace("<svg", f'<svg role="img" aria-label="{text}"', 1)
    title = "" if level is None else f"<h{level}>{escape(drawn.title)}</h{level}>"
    return Html(f'<figure>{title}{opened}<figcaption aria-hidden="true">{text}</figcaption></figure>')


def asset(name: str) -> str:
    """Return the text of a file that is inlined in pages."""
    return (resources.files("daskfs.report") / "assets" / name).read_text(encoding="utf-8")


def _with_unique_names(body: str) -> str:
    """Number the regions of a page with equal names, so that screen readers can distinguish them."""
    seen: Counter[str] = Counter()

    def numbered(found: re.Match[str]) -> str:
        seen[found[1]] += 1
        return (
            found[0]
            if seen[found[1]] == 1
            else f'role="region" tabindex="0" aria-label="{found[1]} ({seen[found[1]]})"'
        )

    return re.sub(r'role="region" tabindex="0" aria-label="([^"]*)"', numbered, body)


def page(title: str, body: Sequence[str]) -> str:
    """Return a whole page.

    The page's content security policy allows no requests, and only the two scripts of daskfs, by their digests.
    """
    scripts = [asset(name) for name in SCRIPTS]
    digests = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {digests}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{asset('report.css')}</style>",
            "</head>",
            "<body>",
            "<main>",
            _with_unique_names("\n".join(part for part in body if part)),
            "</main>",
            *(f"<script>{script}</script>" for script in scripts),
            "</body>",
            "</html>",
            "",
        ]
    )
