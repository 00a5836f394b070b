"""Display of stores and results: rounded numbers, and HTML cards and tables for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

SIGNIFICANT = 3
"""Significant digits of a displayed number; files have all digits."""
_LEFT = "text-align:left;padding:.1em 1em .1em 0;vertical-align:top"
_RIGHT = _LEFT.replace("left;p", "right;p")


def digits(value: float) -> str:
    """Format a number with three significant digits.

    Examples
    --------
    >>> digits(2914.48), digits(0.1234567), digits(-3.0), digits(1.5e-7), digits(2.5e12), digits(float("nan"))
    ('2,910', '0.123', '-3', '1.5e-07', '2.5e+12', 'not defined')
    """
    if not math.isfinite(value):
        return "not defined"
    text = f"{value:.{SIGNIFICANT}g}"
    return f"{float(text):,.0f}" if "e" in text and 1.0 <= abs(value) < 1e9 else text


def card(title: str, facts: Mapping[str, str], *tables: str) -> str:
    """Return HTML with a title, facts by name (empty ones are left out), and tables.

    Examples
    --------
    >>> "<b>a &amp; b</b>" in card("a & b", {"rows": "3", "notes": ""})
    True
    """
    lines = "".join(
        f'<tr><th scope="row" style="{_LEFT}">{escape(name)}</th><td style="{_LEFT}">{escape(text)}</td></tr>'
        for name, text in facts.items()
        if text
    )
    of_facts = f"<table>{lines}</table>" if lines else ""
    style = "border-left:.25em solid #0072b2;padding-left:.8em;margin:.4em 0;overflow-x:auto"
    return f'<div style="{style}"><p style="margin:.2em 0"><b>{escape(title)}</b></p>{of_facts}{"".join(tables)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return an HTML table of texts. The columns `numbers` are right-aligned."""

    def cell(tag: str, k: int, text: str) -> str:
        return f'<{tag} style="{_RIGHT if k in numbers else _LEFT}">{escape(text)}</{tag}>'

    first = "".join(cell("th", k, name) for k, name in enumerate(head))
    rest = "".join(f"<tr>{''.join(cell('td', k, text) for k, text in enumerate(row))}</tr>" for row in rows)
    return f"<table><thead><tr>{first}</tr></thead><tbody>{rest}</tbody></table>"
