"""Eight characters at a time, as a word whose lowest byte is the first character (on little-endian machines).

Text is passed by address. An array argument would be reference-counted atomically, which takes longer than parsing a
number.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.intrinsics import trailing_zeros
from daskfs.kernels.jit import kernel

MARGIN = 16
"""Number of bytes after the last character that may be read, with any values."""

_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_ZEROS, _TO_TOP = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_PAIRS, _EVEN, _ODD = np.uint64(0x000000FF000000FF), np.uint64(0x000F424000000064), np.uint64(0x0000271000000001)
_TEN, _EIGHT, _SIXTEEN, _HALF = np.uint64(10), np.uint64(8), np.uint64(16), np.uint64(32)


@kernel
def first_digits(word):  # type: ignore[no-untyped-def]
    """Return the number of leading digits of a word, and their value."""
    word ^= _ZEROS
    others = ((word + _TO_TOP) | word) & _TOPS  # a carry only affects characters after the first non-digit
    if others == np.uint64(0):
        return 8, _number(word)
    n_digits = trailing_zeros(others) >> 3
    return n_digits, _number(word << np.uint64(56 - 8 * n_digits) << _EIGHT)


@kernel
def _number(digits):  # type: ignore[no-untyped-def]
    """Return the value of eight digits of one byte each."""
    digits = digits * _TEN + (digits >> _EIGHT)
    return ((digits & _PAIRS) * _EVEN + ((digits >> _SIXTEEN) & _PAIRS) * _ODD) >> _HALF


@kernel
def find(word, sign):  # type: ignore[no-untyped-def]
    """Return a word whose lowest set bit is in the first occurrence of `sign` in `word`; zero if there is none."""
    word ^= sign
    return (word - _ONES) & ~word & _TOPS


@kernel
def eight_of(character):  # type: ignore[no-untyped-def]
    """Return a word of eight equal characters."""
    return np.uint64(character) * _ONES
