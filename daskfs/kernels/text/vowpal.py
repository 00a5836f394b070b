"""Vowpal Wabbit lines: ``[label [weight [base]]] ['tag]|namespace[:scale] feature[:value] ... |...``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.intrinsics import address_of, byte_at
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.text.hashes import ID_MASK, sort_ids, xxh64
from daskfs.kernels.text.kept_names import BAR, COLON, START_MASK, bar_before, end_of_name, is_ascii, place_of
from daskfs.kernels.text.lines import (
    ENTRIES,
    FULL,
    LINE_FEED,
    NAME_TEXT,
    NAMES,
    NOT_UTF8,
    ROWS,
    SHORT,
    SPACE,
    TEXT,
    WHOLE,
    end_of_line,
    is_blank,
    is_single,
)
from daskfs.kernels.text.names import is_utf8
from daskfs.kernels.text.reals import real_at
from daskfs.kernels.text.words import MARGIN

NO_BAR, LABEL, WORDS, LABEL_NOT_FINITE, NO_LABEL, WEIGHT, WEIGHT_LATE, BASE, SCALE, NAME, CONTROL, VALUE = range(4, 16)
VALUE_NOT_FINITE, SUM_NOT_FINITE = range(16, 18)
"""Faults, in addition to those of `lines`."""

QUOTE = 39


class Layout(NamedTuple):
    """How to interpret lines."""

    drops_unlabelled: bool
    keeps_unlabelled: bool
    """Whether rows without a label are kept, with the label NaN."""
    ignores_base: bool
    has_weight: bool
    ignores_weight: bool
    tells_names: bool
    sorts: bool
    """Whether the entries of a row are sorted, with distinct features. Otherwise they keep their order."""


class Room(NamedTuple):
    """Arrays of a block: rows, entries, tags, names."""

    indptr: np.ndarray
    features: np.ndarray
    data: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    tag_offsets: np.ndarray
    """int64, one longer than the number of rows."""
    tags: np.ndarray
    """uint8"""
    ids: np.ndarray
    """uint64, ids of features in the order of the lines; empty if entries keep their order."""
    places: np.ndarray
    """int64, positions of the names in `lines`, see `kept_names`."""
    lines: np.ndarray
    """uint8, followed by `words.MARGIN` more bytes. The caller copies the text read, starting at `n_text`."""
    ids_of_rows: np.ndarray
    """int64: row i has the ids from `ids_of_rows[i]` on; one longer than the number of rows."""


@kernel
def _ends_feature(character):  # type: ignore[no-untyped-def]
    return character in (BAR, LINE_FEED) or is_blank(character)


@kernel
def _end_of_word(i):  # type: ignore[no-untyped-def]
    while not _ends_feature(byte_at(i)):
        i += 1
    return i


@kernel
def _read_head(i, layout):  # type: ignore[no-untyped-def]
    """Parse the part of a line before the first bar.

    Returns
    -------
    bar : int
        Position of the bar.
    n_words : int
        Number of numbers.
    label, weight : float
    tag, tag_end : int
        Addresses.
    why, place : int
        A fault.
    """
    n_words, label, weight = 0, 0.0, 1.0
    while True:
        while is_blank(byte_at(i)):
            i += 1
        if byte_at(i) == BAR:
            return i, n_words, label, weight, i, i, 0, 0
        if byte_at(i) == LINE_FEED:
            return i, n_words, label, weight, i, i, NO_BAR, i
        stop = _end_of_word(i)
        bar = stop
        while is_blank(byte_at(bar)):
            bar += 1
        if stop == bar or (byte_at(i) == QUOTE and byte_at(bar) == BAR):
            if byte_at(bar) == LINE_FEED:
                return i, n_words, label, weight, i, i, NO_BAR, i
            i += byte_at(i) == QUOTE
            return bar, n_words, label, weight, i, stop, 0, 0
        number, behind = real_at(i)
        if behind != stop:
            return i, n_words, label, weight, i, i, LABEL if n_words == 0 else WORDS, i
        if n_words == 0:
            label = number
            if not np.isfinite(number):
                return i, n_words, label, weight, i, i, LABEL_NOT_FINITE, i
        elif n_words == 1:
            weight = 1.0 if layout.ignores_weight else number
            if not (np.isfinite(weight) and weight >= 0.0):
                return i, n_words, label, weight, i, i, WEIGHT, i
            if weight != 1.0 and not layout.has_weight:
                return i, n_words, label, weight, i, i, WEIGHT_LATE, i
        elif n_words > 2 or not layout.ignores_base:
            return i, n_words, label, weight, i, i, BASE if n_words == 2 else WORDS, i
        n_words, i = n_words + 1, stop


@kernel
def read_rows(text, start, stop, layout, bounds, room, n_rows, n_entries, n_tag, n_ids, n_text):  # type: ignore[no-untyped-def]
    """Parse lines into a block until it is full.

    Parameters
    ----------
    text : ndarray of uint8
        Ends with a line feed at `stop` - 1, followed by `words.MARGIN` more bytes.
    start, stop : int
    layout : Layout
    bounds : lines.Bounds
    room : Room
        Filled from the following positions.
    n_rows, n_entries, n_tag, n_ids, n_text : int
        Current content of the block: rows, entries, bytes of tags, features of lines, bytes of lines.

    Returns
    -------
    position : int
        Position after the last line read.
    n_lines : int
        Number of lines read.
    n_dropped : int
        Number of rows left out.
    n_rows, n_entries, n_tag, n_ids, n_text : int
        New content of the block.
    why : int
    place : int
        Position of a fault; or which array is too short.
    """
    indptr, features, data, y, weights, tag_offsets, tags, ids, places, lines, ids_of_rows = room
    origin = address_of(text)
    i, end = origin + start, origin + stop
    most_entries, most_rows = len(features), min(bounds.n_rows, len(y))
    spare_ids, spare_data = np.empty(256, np.uint64), np.empty(256, np.float32)
    counts = np.empty(512, np.int64)
    position, n_lines, n_dropped, why, place = start, 0, 0, WHOLE, 0
    keep = n_text - i  # offset from an address to its position in the kept lines
    if layout.tells_names and n_text + stop - start + MARGIN > len(lines):
        end, why, place = i, SHORT, NAME_TEXT
    indptr[0] = tag_offsets[0] = ids_of_rows[0] = 0
    while i < end:
        if n_lines & 255 == 0 and is_stopped():
            break
        while is_blank(byte_at(i)):
            i += 1
        if byte_at(i) == LINE_FEED:
            i += 1
            position, n_lines = i - origin, n_lines + 1
            continue
        i, n_words, label, weight, tag, tag_end, why, place = _read_head(i, layout)
        if why > 0:
            break
        if n_words == 0 and layout.keeps_unlabelled:
            label = np.nan
        elif n_words == 0:
            if not layout.drops_unlabelled:
                why, place = NO_LABEL, i
                break
            i = end_of_line(i) + 1
            position, n_lines, n_dropped = i - origin, n_lines + 1, n_dropped + 1
            continue
        if n_rows == most_rows:
            why, place = FULL if n_rows == bounds.n_rows else SHORT, ROWS
            break
        if n_tag + tag_end - tag > len(tags):
            why, place = SHORT, TEXT
            break
        if not is_utf8(tag, tag_end):
            why, place = NOT_UTF8, tag
            break
        n, row_ids = n_entries, n_ids
        space, space_end, seed, scale = i, i, np.uint64(0), 1.0
        while why == 0:
            # a bar starts a namespace, whose name may be empty
            if byte_at(i) == BAR:
                space = i + 1
                space_end = end_of_name(space)
                seed, scale, i = np.uint64(0), 1.0, space_end
                if space_end > space:
                    seed = xxh64(space, space_end, np.uint64(0))
                if byte_at(i) == COLON:
                    scale, i = real_at(space_end + 1)
                    if space_end == space or i == space_end + 1 or not np.isfinite(scale):
                        why, place = SCALE, space
                        break
                if not _ends_feature(byte_at(i)):
                    why, place = SCALE if byte_at(i) > SPACE else CONTROL, space if byte_at(i) > SPACE else i
                    break
                continue
            while is_blank(byte_at(i)):
                i += 1
            if byte_at(i) == LINE_FEED:
                break
            if byte_at(i) == BAR:
                continue
            stop_name = end_of_name(i)
            value, behind = 1.0, stop_name
            if stop_name == i:
                why, place = NAME if byte_at(i) == COLON else CONTROL, i
                break
            if byte_at(stop_name) == COLON:
                value, behind = real_at(stop_name + 1)
                if behind == stop_name + 1:
                    behind = stop_name
            if not _ends_feature(byte_at(behind)):
                is_control = byte_at(behind) < SPACE and behind == stop_name
                why, place = (CONTROL, behind) if is_control else (VALUE, i)
                break
            value *= scale
            if not is_single(value):
                why, place = VALUE_NOT_FINITE, i
                break
            if value == 0.0:
                i = behind
                continue
            if n == most_entries:
                why, place = FULL if n_rows > 0 and n >= bounds.n_entries else SHORT, ENTRIES
                break
            feature = xxh64(i, stop_name, seed) & ID_MASK
            if layout.tells_names:
                if n_ids == len(places):
                    why, place = SHORT, NAMES
                    break
                if layout.sorts:
                    ids[n_ids] = feature
                places[n_ids] = place_of(i + keep, i - space)
                n_ids += 1
            features[n], data[n] = feature, value
            n += 1
            i = behind
        if why == 0 and layout.tells_names and not is_ascii(origin + position, i):
            for k in range(row_ids, n_ids):
                at = (places[k] & START_MASK) - keep
                space = bar_before(at) + 1
                if not (is_utf8(at, end_of_name(at)) and is_utf8(space, end_of_name(space))):
                    why, place = NOT_UTF8, at
                    break
        if why == 0 and n - n_entries > 1 and layout.sorts:
            if n - n_entries > len(spare_ids):
                length = 2 * (n - n_entries)
                spare_ids, spare_data = np.empty(length, np.uint64), np.empty(length, np.float32)
                counts = np.empty(2 * length, np.int64)
            n = sort_ids(features, data, n_entries, n, spare_ids, spare_data, counts)
            for k in range(n_entries, n):
                if not np.isfinite(data[k]):
                    why, place = SUM_NOT_FINITE, position + origin
        if why == 0 and n > bounds.n_entries and n_rows > 0:
            why = FULL
        if why > 0:  # forget the names of this row, which is read again
            n_ids = row_ids
            break
        y[n_rows], weights[n_rows] = label, weight
        for k in range(tag, tag_end):
            tags[n_tag] = byte_at(k)
            n_tag += 1
        n_rows, n_entries = n_rows + 1, n
        indptr[n_rows], tag_offsets[n_rows] = n, n_tag
        ids_of_rows[n_rows] = n_ids
        i += 1
        position, n_lines = i - origin, n_lines + 1
    if why > SHORT:
        place -= origin
    n_text += position - start
    return position, n_lines, n_dropped, n_rows, n_entries, n_tag, n_ids, n_text, why, place
