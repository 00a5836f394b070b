"""Records of a text table: numbers are parsed, texts are located.

Unusual cases (a number that is invalid, a quote within a value, a line of another length) are not decided here: reading
stops before the record, and the caller has another parser read or reject it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.intrinsics import address_of, byte_at, trailing_zeros, word_at
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.text.decimals import MOST_DIGITS, rounded
from daskfs.kernels.text.reals import exponent_at, mantissa_at
from daskfs.kernels.text.words import eight_of, find

SKIPPED, NUMBER, TEXT = 0, 1, 2
"""Kinds of columns."""
NOT_PLAIN = 1
"""Why reading ended; otherwise at the end of complete records."""
_LINE_FEED, _RETURN, _SPACE, _TAB, _MINUS, _E, _ZERO = 10, 13, 32, 9, 45, 101, 48


class Signs(NamedTuple):
    """Codes of special characters, and the texts that mean a missing value."""

    delimiter: int
    quote: int
    """-1 if there is none."""
    decimal: int
    missing: np.ndarray
    """uint8, concatenated."""
    missing_starts: np.ndarray
    """int64, one longer than the number of texts."""


class Records(NamedTuple):
    """Parsed values, by column within their kind and by row."""

    numbers: np.ndarray
    """float64 of shape (n_numbers, n_rows)."""
    is_missing: np.ndarray
    """bool of shape (n_numbers, n_rows)."""
    has_missing: np.ndarray
    """bool of shape (n_numbers,)."""
    texts: np.ndarray
    """int64 of shape (n_texts, n_rows, 2): start and length; -1 if missing."""
    unsettled: np.ndarray
    """int64 of shape (any, 4): numbers that were not rounded: column, row, start, stop; -1 if none."""


@kernel
def count_line_ends(text, stop):  # type: ignore[no-untyped-def]
    """Return the number of line ends before `stop`, which is at least the number of records."""
    count = 0
    for i in range(stop):
        count += (text[i] == _LINE_FEED) | (text[i] == _RETURN)
    return count


@kernel
def read_records(text, stop, is_last, kinds, signs, records):  # type: ignore[no-untyped-def]
    """Parse the complete records of a piece of text.

    Parameters
    ----------
    text : ndarray of uint8
        With a line feed at `stop`, followed by `words.MARGIN` more bytes.
    stop : int
    is_last : bool
        Whether nothing follows `stop`, so that a record that ends there is complete.
    kinds : ndarray of shape (n_columns,), uint8
    signs : Signs
    records : Records
        Output.

    Returns
    -------
    n_rows : int
    position : int
        Position after the last record read.
    why : int
        `NOT_PLAIN`, or 0.
    """
    numbers, is_missing, has_missing, texts, unsettled = records
    delimiter, quote, decimal, missing, missing_starts = signs
    n_columns, n_unsettled = len(kinds), 0
    begin = address_of(text)
    stop += begin
    i, position, row = begin, 0, 0
    while i < stop:
        if row & 255 == 0 and is_stopped():
            break
        if byte_at(i) == _LINE_FEED or byte_at(i) == _RETURN:  # a blank line, or the second character of a line end
            i += 1
            position = i - begin
            continue
        k_number = k_text = 0
        for j in range(n_columns):
            kind = kinds[j]
            start = i
            is_quoted = byte_at(i) == quote
            end = i
            if kind == NUMBER and not is_quoted:
                value, end, is_number, is_settled = _number(i, decimal)
                sign = byte_at(end)
                if not is_number or sign not in (delimiter, _LINE_FEED, _RETURN):
                    end = _end_of_value(i, delimiter, quote)
                    is_number = False
            else:
                value, is_number, is_settled = 0.0, False, True
                if is_quoted:
                    start, end = i + 1, _closing_quote(i + 1, stop, quote)
                    if end >= stop:
                        return row, position, NOT_PLAIN if is_last else 0
                    if kind == NUMBER:
                        value, behind, is_number, is_settled = _number(start, decimal)
                        is_number = is_number and behind == end
                else:
                    end = _end_of_value(i, delimiter, quote)
            i = end + is_quoted
            if i >= stop and not is_last:
                return row, position, 0
            sign = byte_at(i)
            if j + 1 < n_columns:
                if sign != delimiter:
                    return row, position, NOT_PLAIN
            elif sign != _LINE_FEED and sign != _RETURN:
                return row, position, NOT_PLAIN
            if kind == NUMBER:
                if not is_number:
                    if _is_one_of(start, end, missing, missing_starts):
                        is_missing[k_number, row] = True
                        has_missing[k_number] = True
                        value = np.nan
                    else:
                        while start < end and (byte_at(start) == _SPACE or byte_at(start) == _TAB):
                            start += 1
                        value, behind, is_number, is_settled = _number(start, decimal)
                        while is_number and behind < end and (byte_at(behind) == _SPACE or byte_at(behind) == _TAB):
                            behind += 1
                        if not is_number or behind != end:
                            return row, position, NOT_PLAIN
                if not is_settled:
                    if n_unsettled == len(unsettled):
                        return row, position, NOT_PLAIN
                    place = unsettled[n_unsettled]
                    place[0], place[1], place[2], place[3] = k_number, row, start - begin, end - begin
                    n_unsettled += 1
                numbers[k_number, row] = value
                k_number += 1
            elif kind == TEXT:
                length = end - start
                if _is_one_of(start, end, missing, missing_starts):
                    length = -1
                texts[k_text, row, 0], texts[k_text, row, 1] = start - begin, length
                k_text += 1
            i += 1
        row += 1
        position = min(i, stop) - begin
    return row, position, 0


@kernel
def _number(i, decimal):  # type: ignore[no-untyped-def]
    """Parse a number. Return it, its end position, whether it is valid, and whether it is correctly rounded."""
    is_negative = byte_at(i) == _MINUS
    i += is_negative
    first = i
    digits, n_digits, power, i = mantissa_at(i, decimal)
    if n_digits == 0:
        return 0.0, i, False, True
    is_settled = n_digits <= MOST_DIGITS or n_digits - _leading_zeros(first) <= MOST_DIGITS
    if byte_at(i) | 32 == _E:
        behind = i + 1
        exponent, i = exponent_at(behind)
        if i == behind:
            return 0.0, i, False, True
        power += exponent
    if not is_settled:
        return 0.0, i, True, False
    value, is_settled = rounded(digits, power)
    return (-value if is_negative else value), i, True, is_settled


@kernel
def _leading_zeros(i):  # type: ignore[no-untyped-def]
    """Return the number of leading zeros from `i` on, across one decimal sign."""
    count, n_others = 0, 0
    while n_others < 2:
        if byte_at(i) == _ZERO:
            count += 1
        elif _ZERO < byte_at(i) <= _ZERO + 9:
            break
        else:
            n_others += 1
        i += 1
    return count


@kernel
def _end_of_value(i, delimiter, quote):  # type: ignore[no-untyped-def]
    """Return the end of an unquoted value; a quote within it also ends it."""
    delimiters, feeds, returns = eight_of(delimiter), eight_of(_LINE_FEED), eight_of(_RETURN)
    quotes = eight_of(quote) if quote >= 0 else feeds
    while True:
        word = word_at(i)
        found = find(word, delimiters) | find(word, feeds) | find(word, returns) | find(word, quotes)
        if found:
            return i + (trailing_zeros(found) >> 3)
        i += 8


@kernel
def _closing_quote(i, stop, quote):  # type: ignore[no-untyped-def]
    """Return the position of the closing quote of a value, or `stop`. A doubled quote is an escaped one."""
    while i < stop:
        if byte_at(i) == quote:
            if byte_at(i + 1) != quote:
                return i
            i += 1
        i += 1
    return stop


@kernel
def _is_one_of(start, end, words, starts):  # type: ignore[no-untyped-def]
    for k in range(len(starts) - 1):
        length = starts[k + 1] - starts[k]
        if length != end - start:
            continue
        n_same = 0
        while n_same < length and byte_at(start + n_same) == words[starts[k] + n_same]:
            n_same += 1
        if n_same == length:
            return True
    return False


@kernel
def copy_texts(text, places, quote, out, starts):  # type: ignore[no-untyped-def]
    """Copy the texts of a column, concatenated, with doubled quotes reduced to one.

    Parameters
    ----------
    text : ndarray of uint8
    places : ndarray of shape (n_rows, 2), int64
    quote : int
    out : ndarray of uint8, of the total length
    starts : ndarray of shape (n_rows + 1,), int32
        Start of each text, and the end of the last.
    """
    n = 0
    for row in range(len(places)):
        starts[row] = n
        i = places[row, 0]
        stop = i + places[row, 1]
        while i < stop:
            out[n] = text[i]
            n += 1
            i += 2 if text[i] == quote else 1
    starts[len(places)] = n
