"""Pairs of a row's features: their ids, values, and on demand their names.

The id of a pair is XXH64 of both ids, 16 bytes, smaller id first, seeded with 42 (the asterisk), without its highest
bit. Like the ids of features it must never change, because stores and models contain it.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.text.hashes import ID_MASK, NO_ID, sort_ids, xxh64_of_two

SEED = np.uint64(42)
JOINT = np.frombuffer(b" * ", np.uint8)
"""Separator of the names of a pair."""


@kernel
def pair_id(a, b):  # type: ignore[no-untyped-def]
    """Return the id of a pair of ids, in either order."""
    return xxh64_of_two(min(a, b), max(a, b), SEED) & ID_MASK


@kernel
def find_names(features, ids, slots, places):  # type: ignore[no-untyped-def]
    """Write the position of each feature's name, -1 if it has none.

    Parameters
    ----------
    features : ndarray of uint64
    ids : ndarray of uint64
        Ids of the names.
    slots : ndarray of int64
        Work array: its length is a power of two and exceeds the number of names.
    places : ndarray of int64
        One per feature.
    """
    mask = np.uint64(len(slots) - 1)
    slots[:] = -1
    for k in range(len(ids)):
        slot = ids[k] & mask
        while slots[slot] >= 0 and ids[slots[slot]] != ids[k]:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = k
    for j in range(len(features)):
        slot = features[j] & mask
        while slots[slot] >= 0 and ids[slots[slot]] != features[j]:
            slot = (slot + np.uint64(1)) & mask
        places[j] = slots[slot]


@kernel
def group_names(text, offsets, starts, start_offsets, mark, groups):  # type: ignore[no-untyped-def]
    """Write the namespace of each name, -1 if it is another one.

    Parameters
    ----------
    text, offsets : see `daskfs.sources.sparse.base.NamedIds`
    starts, start_offsets : ndarray of uint8, int64
        Prefixes of the names of each namespace, including its mark; an empty prefix means names without a mark.
    mark : int
    groups : ndarray of int64
        One per name.
    """
    for k in range(len(groups)):
        begin, n_bytes = offsets[k], offsets[k + 1] - offsets[k]
        groups[k] = -1
        for g in range(len(start_offsets) - 1):
            first, n_start = start_offsets[g], start_offsets[g + 1] - start_offsets[g]
            is_of = n_start <= n_bytes
            for i in range(n_start if n_start > 0 and is_of else 0):
                is_of = is_of and text[begin + i] == starts[first + i]
            if n_start == 0:
                for i in range(n_bytes):
                    is_of = is_of and text[begin + i] != mark
            if is_of:
                groups[k] = g
                break


@kernel
def count_pairs(indptr, groups, n_groups, asked, counts):  # type: ignore[no-untyped-def]
    """Write the number of pairs of each row.

    Parameters
    ----------
    indptr : ndarray of int64
    groups : ndarray of int64
        Namespace of each entry, -1 for others.
    n_groups : int
    asked : ndarray of shape (n_asked, 2), int64
        Pairs of namespaces whose features are paired, each pair once.
    counts : ndarray of int64
        One per row.
    """
    sizes = np.empty(n_groups, np.int64)
    for row in range(len(indptr) - 1):
        sizes[:] = 0
        for k in range(indptr[row], indptr[row + 1]):
            if groups[k] >= 0:
                sizes[groups[k]] += 1
        counts[row] = 0
        for q in range(len(asked)):
            n, m = sizes[asked[q, 0]], sizes[asked[q, 1]]
            counts[row] += n * (n - 1) // 2 if asked[q, 0] == asked[q, 1] else n * m


@kernel
def _list_pairs(start, stop, groups, firsts, asked, order, left, right):  # type: ignore[no-untyped-def]
    """Write the entries of a row that are paired. Return the number of pairs.

    Parameters
    ----------
    start, stop : int
        Entries of the row.
    firsts : ndarray of shape (n_groups + 1,), int64
        Work array.
    order : ndarray of int64, as long as the row
        Work array.
    left, right : ndarray of int64
    """
    firsts[:] = 0
    for k in range(start, stop):
        if groups[k] >= 0:
            firsts[groups[k] + 1] += 1
    for g in range(1, len(firsts)):
        firsts[g] += firsts[g - 1]
    for k in range(start, stop):
        if groups[k] >= 0:
            order[firsts[groups[k]]] = k
            firsts[groups[k]] += 1
    n = 0
    for q in range(len(asked)):
        a, b = asked[q, 0], asked[q, 1]
        for i in range(firsts[a - 1] if a > 0 else 0, firsts[a]):
            for j in range(i + 1 if a == b else firsts[b - 1] if b > 0 else 0, firsts[b]):
                left[n], right[n] = order[i], order[j]
                n += 1
    return n


@kernel
def add_pairs(indptr, features, data, groups, n_groups, asked, n_most, out_indptr, out_features, out_data):  # type: ignore[no-untyped-def]
    """Write rows with their pairs, with ascending, distinct ids.

    Parameters
    ----------
    indptr, features, data : ndarray
        The rows; `indptr` need not start at 0.
    groups, n_groups, asked : see `count_pairs`
    n_most : int
        Largest number of pairs of a row.
    out_indptr, out_features, out_data : ndarray
        With room for all entries.

    Returns
    -------
    row : int
        A row with an infinite or NaN product, or -1.
    """
    longest = 0
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    firsts, order = np.empty(n_groups + 1, np.int64), np.empty(longest, np.int64)
    left, right, counts = np.empty(n_most, np.int64), np.empty(n_most, np.int64), np.empty(2 * n_most + 2, np.int64)
    ids, values = np.empty(n_most, np.uint64), np.empty(n_most, np.float32)
    spare_ids, spare_values = np.empty(n_most, np.uint64), np.empty(n_most, np.float32)
    n = 0
    out_indptr[0] = 0
    for row in range(len(indptr) - 1):
        if is_stopped():
            break
        k, stop = indptr[row], indptr[row + 1]
        n_pairs = _list_pairs(k, stop, groups, firsts, asked, order, left, right)
        for j in range(n_pairs):
            ids[j] = pair_id(features[left[j]], features[right[j]])
            values[j] = data[left[j]] * data[right[j]]
        if n_pairs > 1:
            n_pairs = sort_ids(ids, values, 0, n_pairs, spare_ids, spare_values, counts)
        for j in range(n_pairs):
            if not np.isfinite(values[j]):
                return row
        j = 0
        while k < stop or j < n_pairs:  # merge two ascending lists
            if j == n_pairs or (k < stop and features[k] < ids[j]):
                out_features[n], out_data[n] = features[k], data[k]
                k += 1
            elif k == stop or ids[j] < features[k]:
                out_features[n], out_data[n] = ids[j], values[j]
                j += 1
            else:
                out_features[n], out_data[n] = ids[j], values[j] + data[k]
                j, k = j + 1, k + 1
            n += 1
        out_indptr[row + 1] = n
    return -1


@kernel
def find_pairs(indptr, features, groups, n_groups, asked, n_most, wanted, slots, ids, left, right):  # type: ignore[no-untyped-def]
    """Find the entries whose pairs have wanted ids, each id once.

    Parameters
    ----------
    indptr, features, groups, n_groups, asked, n_most : see `add_pairs`
    wanted : ndarray of uint64
        Distinct ids.
    slots : ndarray of uint64
        Work array: its length is a power of two and exceeds the number of wanted ids.
    ids, left, right : ndarray, as long as `wanted`
        Ids of the pairs found, and their entries.

    Returns
    -------
    n_found : int
    """
    mask, one = np.uint64(len(slots) - 1), np.uint64(1)
    slots[:] = NO_ID
    for k in range(len(wanted)):
        slot = wanted[k] & mask
        while slots[slot] != NO_ID:
            slot = (slot + one) & mask
        slots[slot] = wanted[k]
    is_found = np.zeros(len(slots), np.bool_)
    longest = 0
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    firsts, order = np.empty(n_groups + 1, np.int64), np.empty(longest, np.int64)
    lefts, rights = np.empty(n_most, np.int64), np.empty(n_most, np.int64)
    n_found = 0
    for row in range(len(indptr) - 1):
        if is_stopped():
            break
        n_pairs = _list_pairs(indptr[row], indptr[row + 1], groups, firsts, asked, order, lefts, rights)
        for j in range(n_pairs):
            pair = pair_id(features[lefts[j]], features[rights[j]])
            slot = pair & mask
            while slots[slot] != pair and slots[slot] != NO_ID:
                slot = (slot + one) & mask
            if slots[slot] == pair and not is_found[slot]:
                is_found[slot] = True
                ids[n_found], left[n_found], right[n_found] = pair, lefts[j], rights[j]
                n_found += 1
    return n_found


@kernel
def _is_before(text, i, i_stop, j, j_stop):  # type: ignore[no-untyped-def]
    """Return whether the text at i sorts before the text at j."""
    while i < i_stop and j < j_stop and text[i] == text[j]:
        i, j = i + 1, j + 1
    return i == i_stop or (j < j_stop and text[i] < text[j])


@kernel
def join_names(text, offsets, left, right, joint, out, out_offsets):  # type: ignore[no-untyped-def]
    """Write the names of pairs: both names in alphabetical order, joined by `joint`.

    Parameters
    ----------
    text, offsets : see `daskfs.sources.sparse.base.NamedIds`
    left, right : ndarray of int64
        Positions of the names.
    joint : ndarray of uint8
    out, out_offsets : ndarray of uint8, int64
        With room for all names.
    """
    n = 0
    out_offsets[0] = 0
    for k in range(len(left)):
        a, b = left[k], right[k]
        if not _is_before(text, offsets[a], offsets[a + 1], offsets[b], offsets[b + 1]):
            a, b = b, a
        for i in range(offsets[a], offsets[a + 1]):
            out[n] = text[i]
            n += 1
        for i in range(len(joint)):
            out[n] = joint[i]
            n += 1
        for i in range(offsets[b], offsets[b + 1]):
            out[n] = text[i]
            n += 1
        out_offsets[k + 1] = n
