"""Eight characters at a time, as a word whose lowest byte is the first of them (on little-endian machines).

Text is handed on by its address: of an array that a function is given references are counted, atomically, which takes
longer than to read a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from daskfs.kernels.numba_cache import kernel

MARGIN = 16
"""Bytes that may be read, whatever they are, behind the last character."""

_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_ZEROS, _TO_TOP = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_PAIRS, _EVEN, _ODD = np.uint64(0x000000FF000000FF), np.uint64(0x000F424000000064), np.uint64(0x0000271000000001)
_TEN, _EIGHT, _SIXTEEN, _HALF = np.uint64(10), np.uint64(8), np.uint64(16), np.uint64(32)


def _address_of(typing_context, text):  # type: ignore[no-untyped-def]
    """Return where the first element of an array lies; it must be held while the address is used."""

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        struct = context.make_array(text)(context, builder, arguments[0])
        return builder.ptrtoint(struct.data, ir.IntType(64))

    return types.int64(text), generate


def _byte_at(typing_context, address):  # type: ignore[no-untyped-def]
    """Return the character that lies there."""

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        loaded = builder.load(builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))
        return builder.zext(loaded, ir.IntType(64))

    return types.int64(types.int64), generate


def _word_at(typing_context, address):  # type: ignore[no-untyped-def]
    """Return the eight characters that lie from there on."""

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()), align=1)

    return types.uint64(types.int64), generate


def _trailing_zeros(typing_context, word):  # type: ignore[no-untyped-def]
    """Return how many of the lowest bits are zero, of a word that is not."""

    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


address_of: Any = intrinsic(_address_of)
byte_at: Any = intrinsic(_byte_at)
word_at: Any = intrinsic(_word_at)
trailing_zeros: Any = intrinsic(_trailing_zeros)


@kernel
def first_digits(word):  # type: ignore[no-untyped-def]
    """Return how many digits a word begins with, and their number."""
    word ^= _ZEROS
    others = ((word + _TO_TOP) | word) & _TOPS  # a carry reaches only what stands behind the first that is no digit
    if others == np.uint64(0):
        return 8, _number(word)
    n_digits = trailing_zeros(others) >> 3
    return n_digits, _number(word << np.uint64(56 - 8 * n_digits) << _EIGHT)


@kernel
def _number(digits):  # type: ignore[no-untyped-def]
    """Return the number of eight digits of a byte each."""
    digits = digits * _TEN + (digits >> _EIGHT)
    return ((digits & _PAIRS) * _EVEN + ((digits >> _SIXTEEN) & _PAIRS) * _ODD) >> _HALF


@kernel
def find(word, sign):  # type: ignore[no-untyped-def]
    """Return a word that is not zero where a character is in `word`; its lowest bit set is within the first of them."""
    word ^= sign
    return (word - _ONES) & ~word & _TOPS


@kernel
def eight_of(character):  # type: ignore[no-untyped-def]
    """Return a word of eight equal characters."""
    return np.uint64(character) * _ONES
