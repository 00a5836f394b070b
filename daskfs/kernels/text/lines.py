"""Text with one row per line, and rows as entries: code shared by the readers of such formats.

A reader takes the complete lines of a piece of text and fills the arrays of one block. It stops before a row that does
not fit, so blocks do not depend on how the text is split.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.intrinsics import trailing_zeros, word_at
from daskfs.kernels.jit import kernel
from daskfs.kernels.text.words import eight_of, find

WHOLE, FULL, SHORT, NOT_UTF8 = 0, 1, 2, 3
"""Why reading ended: all lines were read, the block has its maximum of rows or entries, or an array is too short.

Other numbers are faults: a name that is not UTF-8, or faults of the format.
"""
ROWS, ENTRIES, TEXT, NAMES, NAME_TEXT = range(5)
"""Which arrays are too short. Arrays with the same number of elements grow together."""
LINE_FEED, RETURN, SPACE, TAB, HASH = 10, 13, 32, 9, 35
_BLANK = np.uint64(1 << SPACE | 1 << TAB | 1 << RETURN | 1 << 11 | 1 << 12)
_END = _BLANK | np.uint64(1 << LINE_FEED | 1 << HASH)
_ONE, _MOST = np.uint64(1), 3.4028235677973366e38


class Entries(NamedTuple):
    """Rows of a block like those of `daskfs.sources.sparse.base.SparseBlock`, with spare capacity."""

    indptr: np.ndarray
    """int64, one longer than the number of rows."""
    features: np.ndarray
    """uint64"""
    data: np.ndarray
    """float32, as long as `features`."""
    y: np.ndarray
    """float64, one per row."""


class Bounds(NamedTuple):
    """Limits of a block."""

    n_rows: int
    n_entries: int
    """A single row may have more."""


@kernel
def is_blank(character):  # type: ignore[no-untyped-def]
    """Return whether the character separates words of a line."""
    return character <= SPACE and (_BLANK >> np.uint64(character)) & _ONE != np.uint64(0)


@kernel
def ends_word(character):  # type: ignore[no-untyped-def]
    """Return whether the character is blank, ends a line or starts a comment."""
    return character <= HASH and (_END >> np.uint64(character)) & _ONE != np.uint64(0)


@kernel
def end_of_line(i):  # type: ignore[no-untyped-def]
    """Return the position of the next line feed."""
    feeds = eight_of(LINE_FEED)
    while True:
        found = find(word_at(i), feeds)
        if found:
            return i + (trailing_zeros(found) >> 3)
        i += 8


@kernel
def is_single(value):  # type: ignore[no-untyped-def]
    """Return whether a number is finite in single precision."""
    return abs(value) < _MOST


@kernel
def behind_last_line(text, start, stop):  # type: ignore[no-untyped-def]
    """Return the position after the last line feed between two positions, or `start`."""
    i = stop
    while i > start and text[i - 1] != LINE_FEED:
        i -= 1
    return i


@kernel
def sort_row(features, data, start, stop, spare_features, spare_data):  # type: ignore[no-untyped-def]
    """Sort the entries of a row by feature, keeping the order of equal features.

    Merge sort, starting with runs of eight entries. The spare arrays are as long as the row.
    """
    for first in range(start, stop, 8):
        for k in range(first + 1, min(first + 8, stop)):
            feature, value, j = features[k], data[k], k
            while j > first and features[j - 1] > feature:
                features[j], data[j] = features[j - 1], data[j - 1]
                j -= 1
            features[j], data[j] = feature, value
    width = 8
    while width < stop - start:
        for first in range(start, stop - width, 2 * width):
            middle, last = first + width, min(first + 2 * width, stop)
            if features[middle - 1] <= features[middle]:
                continue
            for k in range(width):
                spare_features[k], spare_data[k] = features[first + k], data[first + k]
            i, j, out = 0, middle, first
            while i < width and j < last:
                if features[j] < spare_features[i]:
                    features[out], data[out] = features[j], data[j]
                    j += 1
                else:
                    features[out], data[out] = spare_features[i], spare_data[i]
                    i += 1
                out += 1
            while i < width:
                features[out], data[out] = spare_features[i], spare_data[i]
                i, out = i + 1, out + 1
        width *= 2
