"""Count-sketch: a long vector stored as a few rows of cells. Any element can be estimated, none is stored.

    UPDATE(id, value): for every row r: cells[r, h_r(id)] += s_r(id) value
    QUERY(id):         median over the rows of s_r(id) cells[r, h_r(id)]

The h_r are uniform over the buckets, the s_r over -1 and +1, independent of the h_r. An estimate is therefore unbiased,
and its variance in one row is at most ‖others‖² / n_buckets. Sketches are linear: the sketch of a sum is the sum of the
sketches.
Source: M. Charikar, K. Chen and M. Farach-Colton, "Finding frequent items in data streams", ICALP 2002, pages 693-703;
update, query and equation (1) as in section 2 of Aghazadeh et al., "MISSION", ICML 2018.

The hash must never change: every version reads the sketches of all others. All numbers are 64-bit and wrap around.

    h = (id + seed) A;  h = (h ^ (h >> 32)) B;  h = h ^ (h >> 32)
    g = h C;  k = (g ^ (g >> 32)) A
    row           0                1         2                 3                4
    bucket        low half of h    high h    high half of g    low half of k    high half of k
    sign          bit 31 of h      bit 63    bit 63 of g       bit 31 of k      bit 63 of k

A bucket consists of the lowest ``log2(n_buckets)`` bits of its half, at most 31. The sign is the half's highest bit,
which no bucket uses. A sketch without rows is the identity: cell `id` holds element `id` with sign +1.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel, prefetch

MAX_BUCKETS = 1 << 31
N_HASHES = (1, 3, 5)
"""Allowed numbers of rows: odd, so that the median is one of the estimates."""

A = np.uint64(0x9E3779B97F4A7C15)
B = np.uint64(0xBF58476D1CE4E5B9)
C = np.uint64(0x94D049BB133111EB)
_S1, _S31, _S32, _S63 = np.uint64(1), np.uint64(31), np.uint64(32), np.uint64(63)
_ZERO, _ONE, _TWO, _THREE, _FOUR = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
_LINE = np.uint64(16)
"""Number of cells in a cache line."""


def seed_word(seed: int) -> np.uint64:
    """Return the word that represents a seed in the hash: the seed spread over 64 bits.

    Examples
    --------
    >>> hex(seed_word(0)), hex(seed_word(1))
    ('0x0', '0x5692161d100b05e5')
    """
    mask = (1 << 64) - 1
    word = seed & mask
    word = (word ^ (word >> 30)) * int(B) & mask
    word = (word ^ (word >> 27)) * int(C) & mask
    return np.uint64(word ^ (word >> 31))


def rows_of(n_hashes: int) -> tuple[int, ...]:
    """Return the rows of a sketch for kernels: a tuple of their numbers, empty for the identity.

    The length of a tuple is part of its type, so kernels are compiled for each number of rows and need not test it for
    every element.
    """
    return tuple(range(n_hashes))


@kernel
def mixed(key, seed):  # type: ignore[no-untyped-def]
    """Return the first hash word h of an id; `seed` is a `seed_word`."""
    h = (np.uint64(key) + seed) * A
    h = (h ^ (h >> _S32)) * B
    return h ^ (h >> _S32)


@kernel
def _signed(value, bit):  # type: ignore[no-untyped-def]
    """Return a number, negated if the bit (0 or 1) is 1."""
    return -value if bit else value


@kernel
def _median3(a, b, c):  # type: ignore[no-untyped-def]
    return max(min(a, b), min(max(a, b), c))


@kernel
def _median5(a, b, c, d, e):  # type: ignore[no-untyped-def]
    return _median3(e, max(min(a, b), min(c, d)), min(max(a, b), max(c, d)))


@kernel
def updated(cells, n_outputs, output, n_buckets, rows, h, value):  # type: ignore[no-untyped-def]
    """Add a value to one output of an element and return its new estimate.

    Parameters
    ----------
    cells : ndarray of shape (max(n_hashes, 1) * n_buckets * n_outputs,), float32
        Concatenated rows; updated. The cells of a bucket's outputs are adjacent.
    n_outputs, output : uint64
        Numbers per element, and the one to change.
    n_buckets : uint64
        A power of two.
    rows : tuple of int
        From `rows_of`; of length 0 (identity), 1, 3 or 5.
    h : uint64
        From `mixed`; for the identity the id itself.
    value : float32

    Returns
    -------
    float32
    """
    mask = n_buckets - _ONE
    if len(rows) == 0:
        i0 = h * n_outputs + output
        v0 = cells[i0] + value
        cells[i0] = v0
        return v0
    i0, b0 = (h & mask) * n_outputs + output, (h >> _S31) & _S1
    v0 = cells[i0] + _signed(value, b0)
    if len(rows) == 1:
        cells[i0] = v0
        return _signed(v0, b0)
    g = h * C
    i1, b1 = (n_buckets + ((h >> _S32) & mask)) * n_outputs + output, h >> _S63
    i2, b2 = (_TWO * n_buckets + ((g >> _S32) & mask)) * n_outputs + output, g >> _S63
    v1, v2 = cells[i1] + _signed(value, b1), cells[i2] + _signed(value, b2)
    cells[i0], cells[i1], cells[i2] = v0, v1, v2
    if len(rows) == 3:
        return _median3(_signed(v0, b0), _signed(v1, b1), _signed(v2, b2))
    k = (g ^ (g >> _S32)) * A
    i3, b3 = (_THREE * n_buckets + (k & mask)) * n_outputs + output, (k >> _S31) & _S1
    i4, b4 = (_FOUR * n_buckets + ((k >> _S32) & mask)) * n_outputs + output, k >> _S63
    v3, v4 = cells[i3] + _signed(value, b3), cells[i4] + _signed(value, b4)
    cells[i3], cells[i4] = v3, v4
    return _median5(_signed(v0, b0), _signed(v1, b1), _signed(v2, b2), _signed(v3, b3), _signed(v4, b4))


@kernel
def _fetch_bucket(cells, bucket, n_outputs):  # type: ignore[no-untyped-def]
    first = bucket * n_outputs
    for c in range(_ZERO, n_outputs, _LINE):
        prefetch(cells, first + c)  # type: ignore[call-arg]  # numba passes the context
    if n_outputs > _ONE:  # a bucket may start within a cache line
        prefetch(cells, first + n_outputs - _ONE)  # type: ignore[call-arg]


@kernel
def fetch(cells, n_buckets, rows, h, n_outputs):  # type: ignore[no-untyped-def]
    """Prefetch the cells of an element for `updated`. They are scattered over memory.

    Parameters
    ----------
    cells : ndarray of shape (max(n_hashes, 1) * n_buckets * n_outputs,), float32
        Cells of all outputs.
    n_buckets, rows, h : see `updated`
    n_outputs : uint64
        Number of cells of a bucket, which are adjacent.
    """
    mask = n_buckets - _ONE
    _fetch_bucket(cells, h & mask, n_outputs)
    if len(rows) >= 3:
        g = h * C
        _fetch_bucket(cells, n_buckets + ((h >> _S32) & mask), n_outputs)
        _fetch_bucket(cells, _TWO * n_buckets + ((g >> _S32) & mask), n_outputs)
        if len(rows) == 5:
            k = (g ^ (g >> _S32)) * A
            _fetch_bucket(cells, _THREE * n_buckets + (k & mask), n_outputs)
            _fetch_bucket(cells, _FOUR * n_buckets + ((k >> _S32) & mask), n_outputs)


@kernel
def hash_word(key, seed, rows):  # type: ignore[no-untyped-def]
    """Return the argument of `updated` for an id: its first hash word, or for the identity the id."""
    return np.uint64(key) if len(rows) == 0 else mixed(key, seed)


@kernel
def _half_of(h, r):  # type: ignore[no-untyped-def]
    """Return the word whose lower half gives bucket and sign in row r."""
    if r == 0:
        return h
    if r == 1:
        return h >> _S32
    g = h * C
    if r == 2:
        return g >> _S32
    k = (g ^ (g >> _S32)) * A
    return k if r == 3 else k >> _S32


@kernel
def bucket_of(h, r, n_buckets):  # type: ignore[no-untyped-def]
    """Return the bucket in row r, int64, of an id with the first hash word h."""
    return np.int64(_half_of(h, r) & (n_buckets - _ONE))


@kernel
def positions(keys, n_buckets, rows, seed, buckets, signs):  # type: ignore[no-untyped-def]
    """Write bucket and sign of every id in every row, without a sketch.

    Parameters
    ----------
    keys : ndarray of shape (n_keys,), uint64
    n_buckets, seed : uint64
    rows : tuple of int
        Of length 1, 3 or 5.
    buckets : ndarray of shape (n_keys, n_hashes), int64
        Output.
    signs : ndarray of shape (n_keys, n_hashes), int64
        Output: -1 or +1.
    """
    for j in range(keys.shape[0]):
        if j % 1024 == 0 and is_stopped():
            break
        h = mixed(keys[j], seed)
        for r in range(len(rows)):
            buckets[j, r] = bucket_of(h, r, n_buckets)
            signs[j, r] = 1 - 2 * np.int64((_half_of(h, r) >> _S31) & _S1)


@kernel
def add(cells, n_outputs, n_buckets, rows, seed, keys, outputs, values):  # type: ignore[no-untyped-def]
    """Add values to elements, one at a time. An id may occur repeatedly.

    Parameters
    ----------
    cells, n_outputs, n_buckets, rows : see `updated`
    seed : uint64
        From `seed_word`.
    keys : ndarray of shape (n_keys,), uint64
    outputs : ndarray of shape (n_keys,), uint64
        The first output of each id that gets a value; the others get the next ones.
    values : ndarray of shape (n_keys, n_values), float32
    """
    for j in range(keys.shape[0]):
        if j % 1024 == 0 and is_stopped():
            break
        h = hash_word(keys[j], seed, rows)
        for c in range(np.uint64(values.shape[1])):
            updated(cells, n_outputs, outputs[j] + c, n_buckets, rows, h, values[j, c])


@kernel
def estimate(cells, n_outputs, n_buckets, rows, seed, keys, outputs, estimates):  # type: ignore[no-untyped-def]
    """Write the estimates of elements into `estimates`, float32 of shape (n_keys, n_values); see `add`.

    No cell is changed.
    """
    for j in range(keys.shape[0]):
        if j % 1024 == 0 and is_stopped():
            break
        h = hash_word(keys[j], seed, rows)
        for c in range(np.uint64(estimates.shape[1])):
            estimates[j, c] = updated(cells, n_outputs, outputs[j] + c, n_buckets, rows, h, np.float32(0.0))
