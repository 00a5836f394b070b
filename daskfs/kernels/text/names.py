"""Feature names, recorded once per block: a table of the ids whose names were copied."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.intrinsics import byte_at
from daskfs.kernels.jit import kernel
from daskfs.kernels.text.hashes import NO_ID
from daskfs.kernels.text.lines import NAME_TEXT, NAMES, NOT_UTF8, SHORT, WHOLE

AT_ONCE = 256
"""Usual number of features in a call of `tell`."""


@kernel
def is_utf8(i, stop):  # type: ignore[no-untyped-def]
    """Return whether the bytes between two addresses are valid UTF-8."""
    while i < stop:
        lead = byte_at(i)
        n_more = 0 if lead < 0x80 else 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
        if 0x80 <= lead < 0xC2 or lead > 0xF4 or i + n_more >= stop + (n_more == 0):
            return False
        for k in range(1, n_more + 1):
            if byte_at(i + k) & 0xC0 != 0x80:
                return False
        second = byte_at(i + 1)  # not overlong, no surrogate, at most the last code point
        if (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second >= 0xA0):
            return False
        if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second >= 0x90):
            return False
        i += 1 + n_more
    return True


@kernel
def enter_all(ids, n_ids, slots):  # type: ignore[no-untyped-def]
    """Insert distinct ids into a table. Its length is a power of two and exceeds the number of ids."""
    slots[:] = NO_ID
    mask = np.uint64(len(slots) - 1)
    for k in range(n_ids):
        slot = ids[k] & mask
        while slots[slot] != NO_ID:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = ids[k]


@kernel
def tell(features, first, stop, places, separator, ids, offsets, text, slots, n_names, n_text):  # type: ignore[no-untyped-def]
    """Copy the names of features that the block has not recorded yet.

    Parameters
    ----------
    features : ndarray of uint64
        Only those from `first` to `stop` are used.
    first, stop : int
    places : ndarray of int64
        Four per feature: addresses of the start and end of the namespace or field, and of the feature. The name is
        both, joined by a separator if the first is not empty.
    separator : int
    ids, offsets, text : ndarray
        Recorded names; filled from `n_names` and `n_text`.
    slots : ndarray
        Table of the ids.
    n_names, n_text : int

    Returns
    -------
    n_names, n_text : int
    why : int
        `lines.WHOLE`, `lines.SHORT` or `lines.NOT_UTF8`.
    place : int
        Which array is too short, or the address of invalid UTF-8.
    """
    mask = np.uint64(len(slots) - 1)
    for k in range(stop - first):
        feature = features[first + k]
        slot = feature & mask
        while slots[slot] != feature and slots[slot] != NO_ID:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] == feature:
            continue
        of, of_stop, i, i_stop = places[4 * k], places[4 * k + 1], places[4 * k + 2], places[4 * k + 3]
        n_more = of_stop - of + (of_stop > of) + i_stop - i
        if n_names == len(ids):
            return n_names, n_text, SHORT, NAMES
        if n_text + n_more > len(text):
            return n_names, n_text, SHORT, NAME_TEXT
        if not (is_utf8(of, of_stop) and is_utf8(i, i_stop)):
            return n_names, n_text, NOT_UTF8, i
        slots[slot], ids[n_names] = feature, feature
        for m in range(of, of_stop):
            text[n_text] = byte_at(m)
            n_text += 1
        if of_stop > of:
            text[n_text] = separator
            n_text += 1
        for m in range(i, i_stop):
            text[n_text] = byte_at(m)
            n_text += 1
        n_names += 1
        offsets[n_names] = n_text
    return n_names, n_text, WHOLE, 0
