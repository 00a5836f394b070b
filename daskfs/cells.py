"""What stores and results look like in a notebook: a title, facts, tables; light and dark as the notebook is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_LEFT = "text-align:left;padding:.1em 1em .1em 0;vertical-align:top"
_RIGHT = _LEFT.replace("left;p", "right;p")


def card(title: str, facts: Mapping[str, str], *tables: str) -> str:
    """Return HTML of a title, of facts by name (empty ones left out), and of tables.

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
    """Return HTML of a table of texts, whose columns `numbers` are aligned to the right."""

    def cell(tag: str, k: int, text: str) -> str:
        return f'<{tag} style="{_RIGHT if k in numbers else _LEFT}">{escape(text)}</{tag}>'

    first = "".join(cell("th", k, name) for k, name in enumerate(head))
    rest = "".join(f"<tr>{''.join(cell('td', k, text) for k, text in enumerate(row))}</tr>" for row in rows)
    return f"<table><thead><tr>{first}</tr></thead><tbody>{rest}</tbody></table>"
