"""The text formats of sparse sources once more, as their descriptions have them: slow, and in plain Python.

Each reader takes a text and returns its rows, and the number of the first line that is none, or None.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

BLANKS = b" \t\r\v\f"
NUMBER = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
BLANK = re.compile(rb"[ \t\r\v\f]+")
MOST = 3.4028235677973366e38
"""Numbers below are finite in single precision."""
LARGEST_ID = 2**63


class Row(NamedTuple):
    """What a line says."""

    y: float | None
    weight: float
    label: str
    """Query id or tag."""
    entries: dict[Any, np.float32]
    """Values by index, or by (what it belongs to, feature)."""


class NotARow(Exception):
    """A line is none."""


def rows_of(text: bytes, row_of: Callable[[bytes], Row | None]) -> tuple[list[Row], int | None]:
    """Read line by line; None is no row, and no fault."""
    rows = []
    for number, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            row = row_of(line)
        except NotARow:
            return rows, number
        if row is not None:
            rows.append(row)
    return rows, None


def number_of(word: bytes) -> float:
    if not NUMBER.fullmatch(word):
        raise NotARow
    return float(word)


def whole(word: bytes) -> int:
    if not re.fullmatch(rb"\d+", word):
        raise NotARow
    digits = word.lstrip(b"0") or b"0"
    return int(digits) if len(digits) < 30 else 10**30


def finite(number: float) -> float:
    if not math.isfinite(number):
        raise NotARow
    return number


def single(number: float) -> np.float32:
    if not abs(number) < MOST:
        raise NotARow
    with np.errstate(under="ignore"):
        return np.float32(number)


def decoded(word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        raise NotARow from None


def svmlight_row(
    line: bytes,
    first: int = 0,
    largest: int = LARGEST_ID,
    sorts: bool = False,
    takes_first: bool = False,
    has_qid: bool = True,
) -> Row | None:
    """``label [qid:n] index:value ... # comment``; indices are ids, or count from `first` to `largest`."""
    words = BLANK.split(line.partition(b"#")[0].strip(BLANKS))
    if words == [b""]:
        return None
    label, comma, _ = words[0].partition(b",")
    if comma and not takes_first:
        raise NotARow
    y, qid, entries = finite(number_of(label)), "", {}
    for word in words[1:]:
        index, _, value = word.partition(b":")
        if index == b"qid" and has_qid and not qid and not entries:
            qid = str(whole(value))
            if int(qid) >= 2**63:
                raise NotARow
            continue
        column = whole(index) - first
        if not 0 <= column <= largest - first or column in entries:
            raise NotARow
        if not sorts and entries and column < next(reversed(entries)):
            raise NotARow
        entries[column] = single(number_of(value))
    return Row(y, 1.0, qid, entries)


def vowpal_row(
    line: bytes, drops_unlabelled: bool = False, weights: str = "use", ignores_base: bool = False
) -> Row | None:
    """``[label [weight [base]]] ['tag]|namespace[:scale] feature[:value] ... |namespace ...``"""
    line = line.lstrip(BLANKS)
    if not line:
        return None
    head, bar, rest = line.partition(b"|")
    *words, tag = BLANK.split(head)
    words = [word for word in words if word]
    if not tag and words and words[-1][:1] == b"'":
        tag = words.pop()
    if not bar:
        raise NotARow
    numbers = [number_of(word) for word in words]
    if not words:
        if drops_unlabelled:
            return None
        raise NotARow
    y, weight = finite(numbers[0]), 1.0
    if len(numbers) > 1 and weights != "ignore":
        weight = finite(numbers[1])
        if weight < 0.0 or (weights == "none" and weight != 1.0):
            raise NotARow
    if len(numbers) > 2 + ignores_base:
        raise NotARow
    label, entries = decoded(tag.removeprefix(b"'")), {}
    for space in rest.split(b"|"):
        name, *features = BLANK.split(space)
        namespace, colon, text = name.partition(b":")
        if (colon and not namespace) or has_control(namespace):
            raise NotARow
        scale = finite(number_of(text)) if colon else 1.0
        for feature in features:
            if not feature:
                continue
            word, colon, text = feature.partition(b":")
            if not word or has_control(word):
                raise NotARow
            value = (number_of(text) if colon else 1.0) * scale
            more = single(value)
            if value != 0.0:
                key = decoded(namespace), decoded(word)
                with np.errstate(over="ignore"):
                    entries[key] = entries.get(key, np.float32(0)) + more
    if not all(np.isfinite(value) for value in entries.values()):
        raise NotARow
    return Row(y, weight, label, entries)


def has_control(word: bytes) -> bool:
    return any(byte < 32 for byte in word)


def clicks_row(
    line: bytes,
    columns: dict[str, str],
    bin_of: Callable[[float], str],
    delimiter: bytes = b"\t",
    has_token: bool = False,
    drops_unlabelled: bool = False,
) -> Row | None:
    """Values between delimiters: the kinds of columns are "target", "count", "string" and "skipped"."""
    if line in (b"", b"\r"):
        return None
    values = line.split(delimiter)
    if len(values) != len(columns):
        raise NotARow
    values[-1] = values[-1].removesuffix(b"\r")
    y, entries = None, {}
    for (name, kind), value in zip(columns.items(), values, strict=True):
        if kind == "target":
            if value.strip(BLANKS):
                y = finite(number_of(value.strip(BLANKS)))
            elif not drops_unlabelled:
                raise NotARow
        elif kind == "count" and value:
            entries[name, bin_of(finite(number_of(value.strip(BLANKS)))).encode()] = np.float32(1)
        elif kind in ("count", "string") and (value or has_token):
            entries[name, value] = np.float32(1)
    if y is None:
        return None
    return Row(y, 1.0, "", {(name, decoded(value)): one for (name, value), one in entries.items()})


def json_row(line: bytes, fields: list[str], target: str | None, analyze: Callable[[str], list[str]]) -> Row | None:
    """An object whose fields are texts; the label is the target as it stands there."""
    if not line.strip():
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise NotARow from None
    if not isinstance(found, dict) or not all(isinstance(found.get(field), str) for field in fields):
        raise NotARow
    label = found.get(target) if target else None
    if not isinstance(label, (str, int, float, type(None))):
        raise NotARow
    return Row(None, 1.0, label, counted([found[field] for field in fields], fields, analyze))  # type: ignore[arg-type]


def counted(texts: list[str], fields: list[str], analyze: Callable[[str], list[str]]) -> dict[Any, np.float32]:
    """How often each n-gram occurs in each field."""
    entries: dict[Any, np.float32] = {}
    for field, text in zip(fields, texts, strict=True):
        for gram in analyze(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")):
            key = (field if len(fields) > 1 else "", gram)
            entries[key] = entries.get(key, np.float32(0)) + np.float32(1)
    return entries
