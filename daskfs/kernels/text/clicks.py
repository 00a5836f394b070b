"""Lines of a click log: delimited counts and strings, each of which becomes a feature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.intrinsics import address_of, byte_at, trailing_zeros, word_at
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.text.hashes import ID_MASK, sort_ids, xxh64
from daskfs.kernels.text.lines import ENTRIES, FULL, LINE_FEED, RETURN, ROWS, SHORT, WHOLE, end_of_line, is_blank
from daskfs.kernels.text.names import AT_ONCE, tell
from daskfs.kernels.text.reals import real_at
from daskfs.kernels.text.words import eight_of, find

SKIPPED, TARGET, COUNT, STRING = range(4)
"""Kinds of columns."""
TOO_FEW, TOO_MANY, TARGET_MISSING, TARGET_NO_NUMBER, COUNT_NO_NUMBER = range(4, 9)
"""Faults, in addition to those of `lines`."""
_EQUALS = 61


class Columns(NamedTuple):
    """The columns, and the names of their features."""

    delimiter: int
    kinds: np.ndarray
    """uint8"""
    seeds: np.ndarray
    """uint64: hashes of the columns' names."""
    names: np.ndarray
    """uint8: the names, concatenated."""
    name_offsets: np.ndarray
    """int64, one longer."""
    edges: np.ndarray
    """float64: lower edges of the bins of counts, from the second bin on."""
    bins: np.ndarray
    """uint8: the texts of the bins, concatenated, and `words.MARGIN` more bytes."""
    bin_offsets: np.ndarray
    """int64, one longer."""
    has_token: bool
    """Whether a missing value is a feature."""
    drops_unlabelled: bool
    keeps_unlabelled: bool
    """Whether rows without a label are kept, with the label NaN."""
    tells_names: bool


class Room(NamedTuple):
    """Arrays of a block, with spare capacity."""

    indptr: np.ndarray
    features: np.ndarray
    data: np.ndarray
    y: np.ndarray
    ids: np.ndarray
    name_offsets: np.ndarray
    names: np.ndarray
    slots: np.ndarray


@kernel
def _end_of_value(i, delimiter):  # type: ignore[no-untyped-def]
    delimiters, feeds = eight_of(delimiter), eight_of(LINE_FEED)
    while True:
        word = word_at(i)
        found = find(word, delimiters) | find(word, feeds)
        if found:
            return i + (trailing_zeros(found) >> 3)
        i += 8


@kernel
def _bin_of(value, edges):  # type: ignore[no-untyped-def]
    """Return the number of edges that are at most `value`."""
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def read_rows(text, start, stop, columns, bounds, room, n_rows, n_entries, n_names, n_text):  # type: ignore[no-untyped-def]
    """Parse lines into a block until it is full.

    Parameters
    ----------
    text : ndarray of uint8
        Ends with a line feed at `stop` - 1, followed by `words.MARGIN` more bytes.
    start, stop : int
    columns : Columns
    bounds : lines.Bounds
    room : Room
        Filled from the following positions.
    n_rows, n_entries, n_names, n_text : int
        Current content of the block.

    Returns
    -------
    position : int
        Position after the last line read.
    n_lines : int
        Number of lines read.
    n_dropped : int
        Number of rows left out.
    n_rows, n_entries, n_names, n_text : int
        New content of the block.
    why : int
    place : int
        Position of a fault; or which array is too short.
    """
    indptr, features, data, y, ids, name_offsets, names, slots = room
    delimiter, kinds, seeds, fields, field_offsets = columns[0], columns[1], columns[2], columns[3], columns[4]
    edges, bins, bin_offsets = columns[5], columns[6], columns[7]
    has_token, drops_unlabelled, keeps_unlabelled, tells_names = columns[8], columns[9], columns[10], columns[11]
    origin, field_origin, bin_origin = address_of(text), address_of(fields), address_of(bins)
    i, end = origin + start, origin + stop
    n_columns, most_rows = len(kinds), min(bounds.n_rows, len(y))
    places = np.empty(4 * AT_ONCE, np.int64)
    spare_ids, spare_data = np.empty(n_columns + 1, np.uint64), np.empty(n_columns + 1, np.float32)
    counts = np.empty(2 * n_columns + 2, np.int64)
    position, n_lines, n_dropped, why, place = start, 0, 0, WHOLE, 0
    indptr[0] = name_offsets[0] = 0
    while i < end:
        if n_lines & 255 == 0 and is_stopped():
            break
        if byte_at(i) == LINE_FEED or (byte_at(i) == RETURN and byte_at(i + 1) == LINE_FEED):
            i = end_of_line(i) + 1
            position, n_lines = i - origin, n_lines + 1
            continue
        if n_rows == most_rows:
            why, place = FULL if n_rows == bounds.n_rows else SHORT, ROWS
            break
        if n_entries + n_columns > len(features):
            why, place = SHORT, ENTRIES
            break
        n, told, row_names, row_text = n_entries, n_entries, n_names, n_text
        label, is_labelled = np.nan, keeps_unlabelled
        for j in range(n_columns):
            stop_value = _end_of_value(i, delimiter)
            behind = stop_value
            is_last = byte_at(stop_value) == LINE_FEED
            if is_last != (j == n_columns - 1):
                why, place = TOO_FEW if is_last else TOO_MANY, i
                break
            if is_last and stop_value > i and byte_at(stop_value - 1) == RETURN:
                stop_value -= 1
            kind, feature, begin, value_stop = kinds[j], np.uint64(0), i, stop_value
            if kind == TARGET or (kind == COUNT and stop_value > i):
                while is_blank(byte_at(begin)) and begin < stop_value:
                    begin += 1
                number, number_stop = real_at(begin)
                if kind == TARGET and begin == stop_value:
                    if not (drops_unlabelled or keeps_unlabelled):
                        why, place = TARGET_MISSING, i
                        break
                elif number_stop == begin or not np.isfinite(number):
                    why, place = TARGET_NO_NUMBER if kind == TARGET else COUNT_NO_NUMBER, i
                    break
                else:
                    while is_blank(byte_at(number_stop)) and number_stop < stop_value:
                        number_stop += 1
                    if number_stop != stop_value:
                        why, place = TARGET_NO_NUMBER if kind == TARGET else COUNT_NO_NUMBER, i
                        break
                    if kind == TARGET:
                        label, is_labelled = number, True
                    else:
                        k = _bin_of(number, edges)
                        begin, value_stop = bin_origin + bin_offsets[k], bin_origin + bin_offsets[k + 1]
            if kind >= COUNT and (value_stop > begin or has_token):
                feature = xxh64(begin, value_stop, seeds[j]) & ID_MASK
                if tells_names:
                    if n - told == AT_ONCE:
                        n_names, n_text, why, place = tell(
                            features, told, n, places, _EQUALS, ids, name_offsets, names, slots, n_names, n_text
                        )
                        told = n
                        if why > 0:
                            break
                    at = 4 * (n - told)
                    places[at], places[at + 1] = field_origin + field_offsets[j], field_origin + field_offsets[j + 1]
                    places[at + 2], places[at + 3] = begin, value_stop
                features[n], data[n] = feature, 1.0
                n += 1
            i = behind + 1
        if why == 0 and not is_labelled:
            position, n_lines, n_dropped = i - origin, n_lines + 1, n_dropped + 1
            continue
        if why == 0 and tells_names:
            n_names, n_text, why, place = tell(
                features, told, n, places, _EQUALS, ids, name_offsets, names, slots, n_names, n_text
            )
        if why == 0 and n - n_entries > 1:
            n = sort_ids(features, data, n_entries, n, spare_ids, spare_data, counts)
        if why == 0 and n > bounds.n_entries and n_rows > 0:
            why = FULL
        if why > 0:  # forget the names of this row, which is read again
            n_names, n_text = row_names, row_text
            break
        y[n_rows] = label
        n_rows, n_entries = n_rows + 1, n
        indptr[n_rows] = n
        position, n_lines = i - origin, n_lines + 1
    if why > SHORT:
        place -= origin
    return position, n_lines, n_dropped, n_rows, n_entries, n_names, n_text, why, place
