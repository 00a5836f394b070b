"""The random order of the rows of a store: source rows by ascending key."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

PIECE_NBYTES = 1 << 20
"""Rows are reordered in pieces of this size, which stay in the cache until they are copied to their band."""


def stored_order(keys: np.ndarray) -> np.ndarray:
    """Return the stored order of rows: source rows by ascending key, ties in the source's order."""
    order = np.argsort(keys)  # several times as fast as a stable sort, and random keys are rarely equal
    in_order = keys[order]
    tied = np.flatnonzero(in_order[1:] == in_order[:-1])
    if (np.diff(tied) == 1).any():
        return np.argsort(keys, kind="stable")
    pairs = order[[tied, tied + 1]]
    order[tied], order[tied + 1] = pairs.min(axis=0), pairs.max(axis=0)
    return order


def keys_of(seed: int | None, start: int, n_rows: int) -> np.ndarray:
    """Return the keys of consecutive source rows; the generator jumps ahead to the first."""
    draws = np.random.default_rng(seed)
    draws.bit_generator.advance(start)  # type: ignore[attr-defined]
    return draws.random(n_rows)


def taken(rows: np.ndarray, numbers: np.ndarray, nbytes: int = PIECE_NBYTES) -> Iterator[np.ndarray]:
    """Yield rows by their numbers, in pieces of `nbytes` bytes; each piece reuses the buffer of the last."""
    n_rows = max(1, nbytes // max(1, rows.shape[1] * rows.itemsize))
    piece = np.empty((n_rows, rows.shape[1]), rows.dtype)
    for start in range(0, len(numbers), n_rows):
        wanted = numbers[start : start + n_rows]
        yield np.take(rows, wanted, axis=0, out=piece[: len(wanted)], mode="clip")
