"""Feature names in lines of Vowpal Wabbit text that a block keeps, looked up on demand.

For each feature in a line, a block keeps its id and the place of its name: the start in the kept lines in the lower 40
bits, and the distance back to the bar of its namespace in the upper bits.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.intrinsics import address_of, byte_at, trailing_zeros, word_at
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.text.hashes import NO_ID
from daskfs.kernels.text.lines import SPACE
from daskfs.kernels.text.words import eight_of, find

BAR, COLON, CARET = 124, 58, 94
START_BITS, FARTHEST = 40, 2**22
"""A namespace that starts further back is searched for."""
START_MASK = 2**START_BITS - 1
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_BLANKS = np.uint64(SPACE + 1) * _ONES
_A, _S32, _S58 = np.uint64(0x9E3779B97F4A7C15), np.uint64(32), np.uint64(58)
_ONE = np.uint64(1)


@kernel
def end_of_name(i):  # type: ignore[no-untyped-def]
    """Return the position of the next blank, control character, colon or bar."""
    colons, bars = eight_of(COLON), eight_of(BAR)
    while True:
        word = word_at(i)
        found = ((word - _BLANKS) & ~word & _TOPS) | find(word, colons) | find(word, bars)
        if found:
            return i + (trailing_zeros(found) >> 3)
        i += 8


@kernel
def bar_before(i):  # type: ignore[no-untyped-def]
    """Return the position of the last bar before a feature."""
    while byte_at(i) != BAR:
        i -= 1
    return i


@kernel
def place_of(start, distance):  # type: ignore[no-untyped-def]
    """Return the place of a name at this distance from the first letter of its namespace."""
    return start | min(distance, FARTHEST) << START_BITS


@kernel
def is_ascii(i, stop):  # type: ignore[no-untyped-def]
    """Return whether all bytes between two addresses are ASCII."""
    tops = np.uint64(0)
    while i + 8 <= stop:
        tops |= word_at(i)
        i += 8
    tops |= word_at(i) & ((_ONE << np.uint64(8 * (stop - i))) - _ONE)
    return tops & _TOPS == np.uint64(0)


@kernel
def first_of_each(ids, slots, chosen):  # type: ignore[no-untyped-def]
    """Write the first position of each id. Return the number of distinct ids.

    Parameters
    ----------
    ids : ndarray of uint64
    slots : ndarray of uint64
        An empty table whose length is a power of two and exceeds the number of ids.
    chosen : ndarray of int64, as long as `ids`
    """
    mask, n_chosen = np.uint64(len(slots) - 1), 0
    for k in range(len(ids)):
        slot = ids[k] & mask
        while slots[slot] != ids[k] and slots[slot] != NO_ID:
            slot = (slot + _ONE) & mask
        if slots[slot] == NO_ID:
            slots[slot], chosen[n_chosen] = ids[k], k
            n_chosen += 1
    return n_chosen


@kernel
def first_of_wanted(ids, wanted, slots, chosen):  # type: ignore[no-untyped-def]
    """Write the first position of each wanted id. Return the number found.

    Parameters
    ----------
    ids : ndarray of uint64
    wanted : ndarray of uint64
        Distinct ids.
    slots : ndarray of uint64
        An empty table whose length is a power of two and exceeds the number of wanted ids.
    chosen : ndarray of int64, as long as `wanted`
    """
    mask = np.uint64(len(slots) - 1)
    marks = np.zeros(max(len(slots) // 16, 1), np.uint64)  # a Bloom filter, because most ids are not wanted
    of_marks = np.uint64(len(marks) - 1)
    for k in range(len(wanted)):
        h = wanted[k] * _A
        marks[(h >> _S32) & of_marks] |= _ONE << (h >> _S58)
        slot = wanted[k] & mask
        while slots[slot] != NO_ID:
            slot = (slot + _ONE) & mask
        slots[slot] = wanted[k]
    is_found = np.zeros(len(slots), np.bool_)
    n_chosen = 0
    for k in range(len(ids)):
        if k & 0xFFFF == 0 and is_stopped():
            break
        h = ids[k] * _A
        if (marks[(h >> _S32) & of_marks] >> (h >> _S58)) & _ONE == np.uint64(0):
            continue
        slot = ids[k] & mask
        while slots[slot] != ids[k] and slots[slot] != NO_ID:
            slot = (slot + _ONE) & mask
        if slots[slot] == ids[k] and not is_found[slot]:
            is_found[slot] = True
            chosen[n_chosen] = k
            n_chosen += 1
    return n_chosen


@kernel
def copy_names(lines, places, chosen, offsets, text):  # type: ignore[no-untyped-def]
    """Write names, concatenated: ``namespace^feature``, or ``feature`` if the namespace has no name.

    Parameters
    ----------
    lines : ndarray of uint8
        Followed by `words.MARGIN` more bytes.
    places : ndarray of int64
    chosen : ndarray of int64
        Positions of the wanted names.
    offsets : ndarray of int64, one longer than `chosen`
        Output: start of each name, and the end of the last.
    text : ndarray of uint8
        As long as needed; with length 0 only `offsets` is written.
    """
    origin, n_text = address_of(lines), 0
    offsets[0] = 0
    for k in range(len(chosen)):
        place = places[chosen[k]]
        i, distance = origin + (place & START_MASK), place >> START_BITS
        space = i - distance if distance < FARTHEST else bar_before(i) + 1
        stop, stop_space = end_of_name(i), end_of_name(space)
        if len(text):
            n = n_text
            for m in range(space, stop_space):
                text[n] = byte_at(m)
                n += 1
            if stop_space > space:
                text[n] = CARET
                n += 1
            for m in range(i, stop):
                text[n] = byte_at(m)
                n += 1
        n_text += stop - i + stop_space - space + (stop_space > space)
        offsets[k + 1] = n_text
