"""Names, texts and parts of dates in SQL."""

from __future__ import annotations

from collections.abc import Iterable

_PARTS_OF_SQLITE = {"year": "%Y", "month": "%m", "day": "%d", "hour": "%H", "minute": "%M", "second": "%S"}


def quoted(name: str) -> str:
    """Return a column's name.

    Examples
    --------
    >>> quoted("price")
    '"price"'
    """
    return '"' + name.replace('"', '""') + '"'


def text_of(text: str) -> str:
    """Return a text as a literal.

    Examples
    --------
    >>> text_of("o'clock")
    "'o''clock'"
    """
    return "'" + text.replace("'", "''") + "'"


def listed(texts: Iterable[str]) -> str:
    """Return texts as the contents of an IN (...)."""
    return ", ".join(map(text_of, texts)) or "NULL"


def signed(number: float) -> str:
    """Return a number that may follow an operator."""
    return f"({number!r})" if number < 0 else repr(number)


def as_text_if_numbers(column: str, levels: Iterable[str]) -> str:
    """Return a column as text: cast if levels are numbers, so that it may be numeric in a database."""
    of_numbers = any(text.lstrip("-").replace(".", "", 1).isdigit() for text in levels)
    return f"CAST({column} AS VARCHAR)" if of_numbers else column


def part_of_date(column: str, part: str, dialect: str) -> str:
    """Return a part of a date as a number; weekday 0 is Monday."""
    if dialect == "sqlite":
        if part == "quarter":
            return f"((CAST(strftime('%m', {column}) AS INTEGER) + 2) / 3)"
        if part == "weekday":
            return f"((CAST(strftime('%w', {column}) AS INTEGER) + 6) % 7)"
        return f"CAST(strftime('{_PARTS_OF_SQLITE[part]}', {column}) AS INTEGER)"
    if part == "weekday":
        return f"(EXTRACT(ISODOW FROM {column}) - 1)"
    return f"EXTRACT({part.upper()} FROM {column})"
