"""XXH64, the hash that turns feature names into ids. It must never change, because stores and models contain ids.

Yann Collet's, https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md. An id is the lower 63 bits of the hash of
the name. The seed is the hash of the namespace or field of the name, or 0 if that has no name: ``xxh64(feature,
seed=xxh64(namespace, seed=0)) % 2**63``.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.intrinsics import address_of, byte_at, word_at
from daskfs.kernels.jit import is_stopped, kernel

HASH_NAME = "xxh64-63"
ID_BITS = 63
ID_MASK = np.uint64(2**ID_BITS - 1)
NO_ID = np.uint64(2**64 - 1)
"""A free slot of a table."""

_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_LOWER = np.uint64(0xFFFFFFFF)


@kernel
def _rotated(word, n_bits):  # type: ignore[no-untyped-def]
    return (word << np.uint64(n_bits)) | (word >> np.uint64(64 - n_bits))


@kernel
def _round(lane, word):  # type: ignore[no-untyped-def]
    return _rotated(lane + word * _P2, 31) * _P1


@kernel
def _merged(code, lane):  # type: ignore[no-untyped-def]
    return (code ^ _round(np.uint64(0), lane)) * _P1 + _P4


@kernel
def xxh64(i, stop, seed):  # type: ignore[no-untyped-def]
    """Return the hash of the bytes between two addresses. Up to seven more bytes are read, whose values do not matter.

    Parameters
    ----------
    i, stop : int
    seed : uint64
    """
    n_bytes = stop - i
    if n_bytes >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while i <= stop - 32:
            a, b = _round(a, word_at(i)), _round(b, word_at(i + 8))
            c, d = _round(c, word_at(i + 16)), _round(d, word_at(i + 24))
            i += 32
        code = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
        code = _merged(_merged(_merged(_merged(code, a), b), c), d)
    else:
        code = seed + _P5
    code += np.uint64(n_bytes)
    while i <= stop - 8:
        code = _rotated(code ^ _round(np.uint64(0), word_at(i)), 27) * _P1 + _P4
        i += 8
    if i <= stop - 4:
        code = _rotated(code ^ ((word_at(i) & _LOWER) * _P1), 23) * _P2 + _P3
        i += 4
    while i < stop:
        code = _rotated(code ^ (np.uint64(byte_at(i)) * _P5), 11) * _P1
        i += 1
    code = (code ^ (code >> np.uint64(33))) * _P2
    code = (code ^ (code >> np.uint64(29))) * _P3
    return code ^ (code >> np.uint64(32))


@kernel
def xxh64_of_two(first, second, seed):  # type: ignore[no-untyped-def]
    """Return the hash of two numbers: 16 bytes, lowest first."""
    code = seed + _P5 + np.uint64(16)
    code = _rotated(code ^ _round(np.uint64(0), first), 27) * _P1 + _P4
    code = _rotated(code ^ _round(np.uint64(0), second), 27) * _P1 + _P4
    code = (code ^ (code >> np.uint64(33))) * _P2
    code = (code ^ (code >> np.uint64(29))) * _P3
    return code ^ (code >> np.uint64(32))


@kernel
def sort_ids(ids, data, start, stop, spare_ids, spare_data, counts):  # type: ignore[no-untyped-def]
    """Sort the entries of a row by ids that are uniform below 2⁶³, and add the values of equal ids.

    The upper bits of an id give its approximate position. Few moves are needed after that.

    Parameters
    ----------
    ids, data : ndarray
        Sorted from `start` to `stop`, in place.
    spare_ids, spare_data : ndarray, at least as long as the row
    counts : ndarray of int64, at least twice as long as the row

    Returns
    -------
    int
        Position after the last entry.
    """
    n = stop - start
    n_bits = 0
    while 1 << n_bits < n:
        n_bits += 1
    shift = np.uint64(ID_BITS - n_bits)
    counts[: 1 << n_bits] = 0
    for k in range(start, stop):
        counts[np.int64(ids[k] >> shift)] += 1
    place = 0
    for k in range(1 << n_bits):
        count = counts[k]
        counts[k] = place
        place += count
    for k in range(start, stop):
        bucket = np.int64(ids[k] >> shift)
        spare_ids[counts[bucket]], spare_data[counts[bucket]] = ids[k], data[k]
        counts[bucket] += 1
    out = start - 1
    for k in range(n):
        name, value = spare_ids[k], spare_data[k]
        j = out
        while j >= start and ids[j] > name:
            j -= 1
        if j >= start and ids[j] == name:
            data[j] += value
            continue
        for m in range(out, j, -1):
            ids[m + 1], data[m + 1] = ids[m], data[m]
        ids[j + 1], data[j + 1] = name, value
        out += 1
    return out + 1


@kernel
def hash_texts(text, offsets, seed, out):  # type: ignore[no-untyped-def]
    """Hash concatenated texts like `hash_between`. `offsets` is one longer than the number of texts."""
    hash_between(text, offsets[:-1], offsets[1:], seed, out)


@kernel
def hash_between(text, starts, stops, seed, out):  # type: ignore[no-untyped-def]
    """Hash texts.

    Parameters
    ----------
    text : ndarray of uint8
        Followed by seven more bytes.
    starts, stops : ndarray of int64
    seed : uint64
    out : ndarray of uint64
    """
    origin = address_of(text)
    for k in range(len(out)):
        if k & 0xFFFF == 0 and is_stopped():
            break
        out[k] = xxh64(origin + starts[k], origin + stops[k], seed)
