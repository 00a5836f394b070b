"""SVMlight and LIBSVM lines: ``label [qid:n] index:value index:value ... # comment``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.intrinsics import address_of, byte_at, trailing_zeros, word_at
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.text.lines import (
    ENTRIES,
    FULL,
    HASH,
    LINE_FEED,
    ROWS,
    SHORT,
    WHOLE,
    end_of_line,
    ends_word,
    is_blank,
    is_single,
    sort_row,
)
from daskfs.kernels.text.reals import real_at, whole_at
from daskfs.kernels.text.words import eight_of, find

(LABEL, LABELS, LABEL_NOT_FINITE, INDEX, ZERO, LARGE, ORDER, DUPLICATE, VALUE, VALUE_NOT_FINITE, QID, QID_LATE) = range(
    4, 16
)
"""Faults, in addition to those of `lines`."""
_COLON, _COMMA, _NINE = 58, 44, 57
_QID = np.int64(int.from_bytes(b"qid:", "little"))
_LAST_QID = np.uint64(2**63 - 1)
_FOUR, _NONE = np.int64(0xFFFFFFFF), np.uint64(0)


class Layout(NamedTuple):
    """How to interpret lines."""

    base: np.uint64
    """Index of the first column, 0 or 1."""
    largest: np.uint64
    """Largest allowed index."""
    has_qid: bool
    sorts: bool
    """Whether indices may be in any order."""
    takes_first: bool
    """Whether the first of several labels is used."""
    keeps_unlabelled: bool
    """Whether rows without a label are kept, with the label NaN."""


@kernel
def read_rows(text, start, stop, layout, bounds, entries, qid, n_rows, n_entries):  # type: ignore[no-untyped-def]
    """Parse lines into a block until it is full.

    Parameters
    ----------
    text : ndarray of uint8
        Ends with a line feed at `stop` - 1, followed by `words.MARGIN` more bytes.
    start, stop : int
    layout : Layout
    bounds : lines.Bounds
    entries : lines.Entries
        Filled from `n_rows` and `n_entries`.
    qid : ndarray of int64
        One per row, -1 if there is none.
    n_rows, n_entries : int
        Current content of the block.

    Returns
    -------
    position : int
        Position after the last line read.
    n_lines : int
        Number of lines read, including blank lines and comments.
    n_rows, n_entries : int
        New content of the block.
    why : int
    place : int
        Position of a fault; or which array is too short.
    """
    indptr, features, data, y = entries
    base, largest, has_qid, sorts, takes_first, keeps_unlabelled = layout
    origin = address_of(text)
    i, end = origin + start, origin + stop
    most_entries, most_rows = len(features), min(bounds.n_rows, len(y))
    position, n_lines, indptr[0] = start, 0, 0
    while i < end:
        if n_lines & 255 == 0 and is_stopped():
            break
        while is_blank(byte_at(i)):
            i += 1
        if byte_at(i) == LINE_FEED or byte_at(i) == HASH:
            i = end_of_line(i) + 1
            position, n_lines = i - origin, n_lines + 1
            continue
        if n_rows == most_rows:
            return position, n_lines, n_rows, n_entries, FULL if n_rows == bounds.n_rows else SHORT, ROWS
        label, behind = real_at(i)
        is_labelled, sign = True, byte_at(behind)
        if sign == _COMMA and behind > i:
            if not takes_first:
                return position, n_lines, n_rows, n_entries, LABELS, i - origin
            while not ends_word(byte_at(behind)):
                behind += 1
        elif keeps_unlabelled and (sign == _COLON or np.int64(word_at(i)) & _FOUR == _QID):
            label, behind = 0.0, i  # the first word is an entry, or the query id
            is_labelled = False
        elif behind == i or not ends_word(sign):
            return position, n_lines, n_rows, n_entries, LABEL, i - origin
        if not np.isfinite(label):
            return position, n_lines, n_rows, n_entries, LABEL_NOT_FINITE, i - origin
        i = behind
        n, last, is_sorted, query = n_entries, _NONE, True, np.int64(-1)
        while True:
            while is_blank(byte_at(i)):
                i += 1
            index, behind = whole_at(i)
            if behind == i or byte_at(behind) != _COLON:  # the line ends, or the word is no entry
                if byte_at(i) == LINE_FEED or byte_at(i) == HASH:
                    break
                if np.int64(word_at(i)) & _FOUR != _QID:
                    return position, n_lines, n_rows, n_entries, INDEX, i - origin
                number, behind = whole_at(i + 4)
                if behind == i + 4 or not ends_word(byte_at(behind)) or number > _LAST_QID:
                    return position, n_lines, n_rows, n_entries, QID, i - origin
                if not has_qid or query >= 0 or n > n_entries:
                    return position, n_lines, n_rows, n_entries, QID_LATE, i - origin
                query, i = np.int64(number), behind
                continue
            if index < base:
                return position, n_lines, n_rows, n_entries, ZERO, i - origin
            if index > largest:
                return position, n_lines, n_rows, n_entries, LARGE, i - origin
            if index <= last and n > n_entries:
                if index == last:
                    return position, n_lines, n_rows, n_entries, DUPLICATE, i - origin
                if not sorts:
                    return position, n_lines, n_rows, n_entries, ORDER, i - origin
                is_sorted = False
            value, behind_value = real_at(behind + 1)
            if behind_value == behind + 1 or not ends_word(byte_at(behind_value)):
                return position, n_lines, n_rows, n_entries, VALUE, i - origin
            if not is_single(value):
                return position, n_lines, n_rows, n_entries, VALUE_NOT_FINITE, i - origin
            if n == most_entries:
                why = FULL if n_rows > 0 and n >= bounds.n_entries else SHORT
                return position, n_lines, n_rows, n_entries, why, ENTRIES
            features[n], data[n] = index - base, value
            last, n, i = index, n + 1, behind_value
        if n > bounds.n_entries and n_rows > 0:
            return position, n_lines, n_rows, n_entries, FULL, 0
        if not is_sorted:
            spare = n - n_entries
            sort_row(features, data, n_entries, n, np.empty(spare, np.uint64), np.empty(spare, np.float32))
            for k in range(n_entries + 1, n):
                if features[k] == features[k - 1]:
                    return position, n_lines, n_rows, n_entries, DUPLICATE, _place_of(i, features[k] + base) - origin
        y[n_rows], qid[n_rows] = label if is_labelled else np.nan, query
        n_rows, n_entries = n_rows + 1, n
        indptr[n_rows] = n
        i = end_of_line(i) + 1
        position, n_lines = i - origin, n_lines + 1
    return position, n_lines, n_rows, n_entries, WHOLE, 0


@kernel
def _place_of(i, wanted):  # type: ignore[no-untyped-def]
    """Return the start of the last entry with this index before `i`."""
    while True:
        i -= 1
        if byte_at(i) == _COLON:
            first = _first_digit(i, 0)
            index, _ = whole_at(first)
            if index == wanted:
                return first


@kernel
def _first_digit(i, least):  # type: ignore[no-untyped-def]
    """Return the start of the digits before `i`, at least `least`."""
    while i > least and 48 <= byte_at(i - 1) <= _NINE:
        i -= 1
    return i


@kernel
def survey(text, start, stop):  # type: ignore[no-untyped-def]
    """Examine the first and last index of each line: the smallest and the largest one if indices ascend.

    Returns
    -------
    n_rows : int
    has_zero : bool
    largest : uint64
        Largest index.
    """
    origin = address_of(text)
    i, stop = origin + start, origin + stop
    feeds, hashes, colons = eight_of(LINE_FEED), eight_of(HASH), eight_of(_COLON)
    n_rows, has_zero, largest = 0, False, _NONE
    while i < stop:
        if n_rows & 255 == 0 and is_stopped():
            break
        begin, first = i, np.int64(0)
        while True:
            word = word_at(i)
            if first == 0:
                found = find(word, colons)
                if found:
                    first = i + (trailing_zeros(found) >> 3)
            found = find(word, feeds) | find(word, hashes)
            if found:
                i += trailing_zeros(found) >> 3
                break
            i += 8
        behind = i
        i = end_of_line(i) + 1
        while begin < behind and is_blank(byte_at(begin)):
            begin += 1
        if begin == behind:
            continue
        n_rows += 1
        if first == 0 or first >= behind:
            continue
        last = behind
        while byte_at(last) != _COLON:
            last -= 1
        number, end = whole_at(_first_digit(last, begin))
        if end == last:
            largest = max(largest, number)
        if byte_at(first - 1) == 100 and first > begin + 3:  # the d of qid
            first += 1
            while first < behind and byte_at(first) != _COLON:
                first += 1
        digits = _first_digit(first, begin)
        number, end = whole_at(digits)
        has_zero |= digits < first < behind and end == first and number == _NONE
    return n_rows, has_zero, largest
