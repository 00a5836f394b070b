"""Records of a text table: numbers are read at once, texts are found.

What is not plain (a number that is none, a quote within a value, a line of another length) is not decided here: reading
ends before the record, and whoever asked has it read, or refused, by others.
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
"""What a column is read as."""
NOT_PLAIN = 1
"""Why reading ended; otherwise whole records did."""
_LINE_FEED, _RETURN, _SPACE, _TAB, _MINUS, _E, _ZERO = 10, 13, 32, 9, 45, 101, 48


class Signs(NamedTuple):
    """Codes of the characters that mean something, and the texts that stand for a missing value."""

    delimiter: int
    quote: int
    """-1: there is none."""
    decimal: int
    missing: np.ndarray
    """uint8, all one after the other."""
    missing_starts: np.ndarray
    """int64, one more than there are."""


class Records(NamedTuple):
    """What was read: by column of its kind, and row."""

    numbers: np.ndarray
    """float64 of shape (n_numbers, n_rows)."""
    is_missing: np.ndarray
    """bool of shape (n_numbers, n_rows)."""
    has_missing: np.ndarray
    """bool of shape (n_numbers,)."""
    texts: np.ndarray
    """int64 of shape (n_texts, n_rows, 2): where each begins, and its length; -1 where it is missing."""
    unsettled: np.ndarray
    """int64 of shape (any, 4): numbers that were not rounded: column, row, start, stop; -1: none."""


@kernel
def count_line_ends(text, stop):  # type: ignore[no-untyped-def]
    """Return how many bytes before `stop` end a line: at least as many as there are records."""
    count = 0
    for i in range(stop):
        count += (text[i] == _LINE_FEED) | (text[i] == _RETURN)
    return count


@kernel
def read_records(text, stop, is_last, kinds, signs, records):  # type: ignore[no-untyped-def]
    """Read the whole records of a piece of text.

    Parameters
    ----------
    text : ndarray of uint8
        With a line feed at `stop`, and `words.MARGIN` more bytes.
    stop : int
    is_last : bool
        Nothing comes behind `stop`: a record that ends there is whole.
    kinds : ndarray of shape (n_columns,), uint8
    signs : Signs
    records : Records
        Filled.

    Returns
    -------
    n_rows : int
    position : int
        Behind the last record that was read.
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
        if byte_at(i) == _LINE_FEED or byte_at(i) == _RETURN:  # a blank line, or the rest of a line end of two
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
    """Read a number; return it, where it ends, whether it is one, and whether it is rounded."""
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
    """Return how many digits from `i` on are zeros, across one decimal sign."""
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
    """Return where a value without quotes ends; a quote within it does so, too."""
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
    """Return the place of the quote that ends a value, or `stop`; two quotes are one within it."""
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
    """Copy the texts of a column one behind the other, two quotes as one.

    Parameters
    ----------
    text : ndarray of uint8
    places : ndarray of shape (n_rows, 2), int64
    quote : int
    out : ndarray of uint8, of the length of all
    starts : ndarray of shape (n_rows + 1,), int32
        Where each begins.
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
