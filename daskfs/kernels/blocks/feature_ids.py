"""Numbers for 64-bit feature ids, in order of first occurrence: an open-addressing hash table."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import kernel

_MIX = np.uint64(0x9E3779B97F4A7C15)
_S32 = np.uint64(32)
FREE = np.int32(-1)


class IdTable:
    """The ids seen so far, each with its number 0, 1, ...

    Attributes
    ----------
    n_ids : int
    """

    def __init__(self) -> None:
        self.n_ids = 0
        self._known = np.empty(1 << 10, np.uint64)
        self._slots = np.full(1 << 12, FREE, np.int32)

    @property
    def ids(self) -> np.ndarray:
        """The ids in the order of their numbers, uint64."""
        return self._known[: self.n_ids]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._known.nbytes + self._slots.nbytes

    def numbers_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the numbers of ids (uint64) as int32. New ids get the next numbers."""
        numbers = np.empty(len(ids), np.int32)
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            self._make_room(self.n_ids + len(some))
            here = numbers[start : start + len(some)]
            self.n_ids = int(number_ids(some, self._slots, self._known, self.n_ids, here))
        return numbers

    def _make_room(self, n_ids: int) -> None:
        if n_ids > len(self._known):
            self._known = np.concatenate([self.ids, np.empty(2 * n_ids - self.n_ids, np.uint64)])
        if 2 * n_ids > len(self._slots):
            self._slots = np.full(1 << (4 * n_ids - 1).bit_length(), FREE, np.int32)
            number_ids(self.ids.copy(), self._slots, self._known, 0, np.empty(self.n_ids, np.int32))


_AT_ONCE = 1 << 14


@kernel
def number_ids(ids, slots, known, n_known, numbers):  # type: ignore[no-untyped-def]
    """Write the number of each id. Return the number of ids known afterwards.

    Parameters
    ----------
    ids : ndarray of shape (n,), uint64
    slots : ndarray of a power of two of int32
        Numbers, or `FREE`; at least twice as long as the possible number of ids.
    known : ndarray, uint64
        The ids by number, with spare capacity.
    n_known : int
    numbers : ndarray of shape (n,), int32
    """
    mask = np.uint64(slots.shape[0] - 1)
    for e in range(ids.shape[0]):
        wanted = ids[e]
        word = wanted * _MIX
        at = (word ^ (word >> _S32)) & mask
        while slots[at] != FREE and known[slots[at]] != wanted:
            at = (at + np.uint64(1)) & mask
        if slots[at] == FREE:
            slots[at] = n_known
            known[n_known] = wanted
            n_known += 1
        numbers[e] = slots[at]
    return n_known
