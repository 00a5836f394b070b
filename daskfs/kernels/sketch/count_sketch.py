"""Count-sketch: a long vector kept as a few rows of cells; any element can be estimated, none is stored.

    UPDATE(id, value): for every row r: cells[r, h_r(id)] += s_r(id) value
    QUERY(id):         median over the rows of s_r(id) cells[r, h_r(id)]

The h_r are uniform over the buckets, the s_r over -1 and +1, independent of the h_r: so an estimate is unbiased and its
variance in one row is at most ‖others‖² / n_buckets. The sketch is linear: that of a sum is the sum of the sketches.
Source: M. Charikar, K. Chen and M. Farach-Colton, "Finding frequent items in data streams", ICALP 2002, pages 693-703;
update, query and equation (1) as in section 2 of Aghazadeh et al., "MISSION", ICML 2018.

The hash is frozen: sketches saved by one version are read by every other. All numbers are 64-bit and wrap around.

    h = (id + seed) A;  h = (h ^ (h >> 32)) B;  h = h ^ (h >> 32)
    g = h C;  k = (g ^ (g >> 32)) A
    row           0                1         2                 3                4
    bucket        low half of h    high h    high half of g    low half of k    high half of k
    sign          bit 31 of h      bit 63    bit 63 of g       bit 31 of k      bit 63 of k

A bucket is as many of the lowest bits of its half as ``log2(n_buckets)`` says, at most 31; the sign is the half's
highest bit, which no bucket uses. A sketch without rows is the identity: cell `id` holds element `id` with sign +1.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel, prefetch

MAX_BUCKETS = 1 << 31
N_HASHES = (1, 3, 5)
"""Rows that a sketch may have: odd, so that the median is one of the estimates."""

A = np.uint64(0x9E3779B97F4A7C15)
B = np.uint64(0xBF58476D1CE4E5B9)
C = np.uint64(0x94D049BB133111EB)
_S1, _S31, _S32, _S63 = np.uint64(1), np.uint64(31), np.uint64(32), np.uint64(63)
_ZERO, _ONE, _TWO, _THREE, _FOUR = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
_LINE = np.uint64(16)
"""Cells that memory brings at once."""


def seed_word(seed: int) -> np.uint64:
    """Return the number that stands for a seed in the hash: the seed itself, spread over 64 bits.

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
    """Return what stands for the rows of a sketch in kernels: their numbers, none for the identity.

    A tuple, since its length is part of its type: kernels are compiled for each number of rows apart, and do not ask
    for it at every element.
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
    """Return a number with its sign turned where the bit, 0 or 1, is 1."""
    return -value if bit else value


@kernel
def _median3(a, b, c):  # type: ignore[no-untyped-def]
    return max(min(a, b), min(max(a, b), c))


@kernel
def _median5(a, b, c, d, e):  # type: ignore[no-untyped-def]
    return _median3(e, max(min(a, b), min(c, d)), min(max(a, b), max(c, d)))


@kernel
def updated(cells, n_buckets, rows, h, value):  # type: ignore[no-untyped-def]
    """Add a value to one element and return its estimate after that.

    Parameters
    ----------
    cells : ndarray of shape (max(n_hashes, 1) * n_buckets,), float32
        Row after row; changed.
    n_buckets : uint64
        A power of two.
    rows : tuple of int
        From `rows_of`; of length 0 (identity), 1, 3 or 5.
    h : uint64
        From `mixed`; of the identity the id itself.
    value : float32

    Returns
    -------
    float32
    """
    mask = n_buckets - _ONE
    if len(rows) == 3:
        g = h * C
        i0, i1 = h & mask, n_buckets + ((h >> _S32) & mask)
        i2 = _TWO * n_buckets + ((g >> _S32) & mask)
        b0, b1, b2 = (h >> _S31) & _S1, h >> _S63, g >> _S63
        v0, v1, v2 = cells[i0] + _signed(value, b0), cells[i1] + _signed(value, b1), cells[i2] + _signed(value, b2)
        cells[i0], cells[i1], cells[i2] = v0, v1, v2
        return _median3(_signed(v0, b0), _signed(v1, b1), _signed(v2, b2))
    if len(rows) == 1:
        i0, b0 = h & mask, (h >> _S31) & _S1
        v0 = cells[i0] + _signed(value, b0)
        cells[i0] = v0
        return _signed(v0, b0)
    if len(rows) == 0:
        v0 = cells[h] + value
        cells[h] = v0
        return v0
    g = h * C
    k = (g ^ (g >> _S32)) * A
    i0, i1 = h & mask, n_buckets + ((h >> _S32) & mask)
    i2 = _TWO * n_buckets + ((g >> _S32) & mask)
    i3, i4 = _THREE * n_buckets + (k & mask), _FOUR * n_buckets + ((k >> _S32) & mask)
    b0, b1, b2, b3, b4 = (h >> _S31) & _S1, h >> _S63, g >> _S63, (k >> _S31) & _S1, k >> _S63
    cells[i0] += _signed(value, b0)
    cells[i1] += _signed(value, b1)
    cells[i2] += _signed(value, b2)
    cells[i3] += _signed(value, b3)
    cells[i4] += _signed(value, b4)
    return _median5(
        _signed(cells[i0], b0),
        _signed(cells[i1], b1),
        _signed(cells[i2], b2),
        _signed(cells[i3], b3),
        _signed(cells[i4], b4),
    )


@kernel
def _fetch_bucket(cells, bucket, n_outputs):  # type: ignore[no-untyped-def]
    first = bucket * n_outputs
    for c in range(_ZERO, n_outputs, _LINE):
        prefetch(cells, first + c)  # type: ignore[call-arg]  # numba passes the context
    if n_outputs > _ONE:  # where a bucket begins within a line
        prefetch(cells, first + n_outputs - _ONE)  # type: ignore[call-arg]


@kernel
def fetch(cells, n_buckets, rows, h, n_outputs):  # type: ignore[no-untyped-def]
    """Have the cells of an element brought near before `updated` wants them: they lie anywhere in memory.

    Parameters
    ----------
    cells : ndarray of shape (max(n_hashes, 1) * n_buckets * n_outputs,), float32
        Those of all outputs.
    n_buckets, rows, h : as in `updated`
    n_outputs : uint64
        How many stand in a bucket, side by side.
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
    """Return what `updated` takes for an id: its first hash word, or of the identity the id."""
    return np.uint64(key) if len(rows) == 0 else mixed(key, seed)


@kernel
def _half_of(h, r):  # type: ignore[no-untyped-def]
    """Return the word whose lower half says bucket and sign in row r."""
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
    """Return the bucket, int64, in row r of an id with the first hash word h."""
    return np.int64(_half_of(h, r) & (n_buckets - _ONE))


@kernel
def positions(keys, n_buckets, rows, seed, buckets, signs):  # type: ignore[no-untyped-def]
    """Write bucket and sign of every id in every row: what the sketch is, without the sketch.

    Parameters
    ----------
    keys : ndarray of shape (n_keys,), uint64
    n_buckets, seed : uint64
    rows : tuple of int
        Of length 1, 3 or 5.
    buckets : ndarray of shape (n_keys, n_hashes), int64
        Written.
    signs : ndarray of shape (n_keys, n_hashes), int64
        Written: -1 or +1.
    """
    for j in range(keys.shape[0]):
        if j % 1024 == 0 and is_stopped():
            break
        h = mixed(keys[j], seed)
        for r in range(len(rows)):
            buckets[j, r] = bucket_of(h, r, n_buckets)
            signs[j, r] = 1 - 2 * np.int64((_half_of(h, r) >> _S31) & _S1)


@kernel
def add(cells, n_buckets, rows, seed, keys, values):  # type: ignore[no-untyped-def]
    """Add values to elements, one after the other; an id may stand more than once.

    Parameters
    ----------
    cells, n_buckets, rows : as in `updated`
    seed : uint64
        From `seed_word`.
    keys : ndarray of shape (n_keys,), uint64
    values : ndarray of shape (n_keys,), float32
    """
    for j in range(keys.shape[0]):
        if j % 1024 == 0 and is_stopped():
            break
        updated(cells, n_buckets, rows, hash_word(keys[j], seed, rows), values[j])


@kernel
def estimate(cells, n_buckets, rows, seed, keys, estimates):  # type: ignore[no-untyped-def]
    """Write the estimates of elements into `estimates`, float32 of shape (n_keys,); the arguments are those of `add`.

    Adding zero leaves every cell as it is.
    """
    for j in range(keys.shape[0]):
        if j % 1024 == 0 and is_stopped():
            break
        estimates[j] = updated(cells, n_buckets, rows, hash_word(keys[j], seed, rows), np.float32(0.0))
