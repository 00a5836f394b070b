"""Counts of equal ids in each row, and the names of the ids that occur."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.text.hashes import NO_ID, sort_ids


@kernel
def count_each(ids, offsets, counts):  # type: ignore[no-untyped-def]
    """Sort the ids of each row and count equal ones.

    Parameters
    ----------
    ids : ndarray of uint64
        Overwritten by the distinct ids of each row, concatenated.
    offsets : ndarray of int64
        Start of each row, and the end of the last; overwritten likewise.
    counts : ndarray of float32, as long as `ids`
        Output.
    """
    longest = 1
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    spare_ids, spare_counts = np.empty(longest, np.uint64), np.empty(longest, np.float32)
    places = np.empty(2 * longest, np.int64)
    start, out = offsets[0], 0
    for row in range(len(offsets) - 1):
        if row & 15 == 0 and is_stopped():
            break
        stop = offsets[row + 1]
        counts[start:stop] = 1.0
        end = stop
        if stop > start:
            end = sort_ids(ids, counts, start, stop, spare_ids, spare_counts, places)
        for k in range(start, end):
            ids[out], counts[out] = ids[k], counts[k]
            out += 1
        start = stop
        offsets[row + 1] = out


@kernel
def copy_names(text, starts, stops, prefix, offsets, out):  # type: ignore[no-untyped-def]
    """Copy texts with a prefix each, concatenated.

    Parameters
    ----------
    text : ndarray of uint8
    starts, stops : ndarray of int64
    prefix : ndarray of uint8
    offsets : ndarray of int64, one more than there are texts
        Output.
    out : ndarray of uint8
    """
    n = 0
    offsets[0] = 0
    for k in range(len(starts)):
        for i in range(len(prefix)):
            out[n] = prefix[i]
            n += 1
        for i in range(starts[k], stops[k]):
            out[n] = text[i]
            n += 1
        offsets[k + 1] = n


@kernel
def find_first(ids, slots, places):  # type: ignore[no-untyped-def]
    """Find the first position of each id.

    Parameters
    ----------
    ids : ndarray of uint64
    slots : ndarray of uint64, of a power of two and more than there are ids
        Output: a table of the ids.
    places : ndarray of int64, as long as `ids`
        Output.

    Returns
    -------
    int
        Number of distinct ids.
    """
    slots[:] = NO_ID
    mask, n = np.uint64(len(slots) - 1), 0
    for k in range(len(ids)):
        slot = ids[k] & mask
        while slots[slot] != ids[k] and slots[slot] != NO_ID:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] == NO_ID:
            slots[slot] = ids[k]
            places[n] = k
            n += 1
    return n
