"""Decimal numbers of entries. Every number that can be parsed is parsed here.

Numbers are rounded to float64 like Python's `float`, up to 19 significant digits; further digits are truncated. The one
number in about 10¹⁸ that `decimals.rounded` does not settle, and subnormal numbers, are accurate to a few roundings.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.intrinsics import byte_at, word_at
from daskfs.kernels.jit import kernel
from daskfs.kernels.text.decimals import MOST_DIGITS, rounded
from daskfs.kernels.text.words import first_digits

_MINUS, _PLUS, _POINT, _E, _ZERO = 45, 43, 46, 101, 48
_POWERS = np.array([10**k for k in range(9)], np.uint64)
_LARGEST_EXPONENT = 400
"""Largest exponent of any float64, and of any number of 19 digits that is a float64."""
_EXACT_POWERS = 10.0 ** np.arange(23)
_TEN = np.uint64(10)


@kernel
def _digits_at(i, digits):  # type: ignore[no-untyped-def]
    """Parse further digits of a number, modulo 2⁶⁴. Return it, and the end position."""
    n_more, number = first_digits(word_at(i))
    digits = digits * _POWERS[n_more] + number
    i += n_more
    while n_more == 8:
        n_more, number = first_digits(word_at(i))
        digits = digits * _POWERS[n_more] + number
        i += n_more
    return digits, i


@kernel
def mantissa_at(i, point):  # type: ignore[no-untyped-def]
    """Parse digits around a point. Return their number modulo 2⁶⁴, their count, the power of ten, and the end."""
    first = i
    digits, i = _digits_at(i, np.uint64(0))
    n_digits, power = i - first, 0
    if byte_at(i) == point:
        behind = i + 1
        digits, i = _digits_at(behind, digits)
        power = behind - i
        n_digits -= power
    return digits, n_digits, power, i


@kernel
def exponent_at(i):  # type: ignore[no-untyped-def]
    """Parse a signed integer, limited to 2⁴⁰. Return it, and the end position: `i` if there is none."""
    begin = i
    is_small = byte_at(i) == _MINUS
    i += is_small or byte_at(i) == _PLUS
    first, exponent = i, 0
    while _ZERO <= byte_at(i) <= _ZERO + 9:
        exponent = min(10 * exponent + byte_at(i) - _ZERO, 1 << 40)
        i += 1
    return (-exponent if is_small else exponent), (begin if i == first else i)


@kernel
def whole_at(i):  # type: ignore[no-untyped-def]
    """Parse digits. Return their number, and the end position: `i` if there are none.

    With more than 19 digits after leading zeros, the number is 2⁶⁴ - 1.
    """
    first = i
    digits, i = _digits_at(i, np.uint64(0))
    if i - first > MOST_DIGITS:
        while byte_at(first) == _ZERO:
            first += 1
        if i - first > MOST_DIGITS:
            digits = np.uint64(0xFFFFFFFFFFFFFFFF)
    return digits, i


@kernel
def real_at(i):  # type: ignore[no-untyped-def]
    """Parse a number. Return it, and the end position: `i` if there is none. It may be infinite."""
    begin = i
    sign = byte_at(i)
    i += sign in (_MINUS, _PLUS)
    first = i
    digits, n_digits, power, i = mantissa_at(i, _POINT)
    if n_digits == 0:
        return 0.0, begin
    if n_digits > MOST_DIGITS:
        digits, power = _significant(first, i)
    if byte_at(i) | 32 == _E:
        behind = i + 1
        exponent, i = exponent_at(behind)
        if i == behind:
            return 0.0, begin
        power += exponent
    value, is_settled = rounded(digits, power)
    if not is_settled:
        value = _near(digits, power)
    return (-value if sign == _MINUS else value), i


@kernel
def _significant(i, stop):  # type: ignore[no-untyped-def]
    """Return the first 19 digits after leading zeros, and their power of ten. A point is skipped."""
    digits, n_digits, power = np.uint64(0), 0, 0
    is_behind_point = 0
    while i < stop:
        if byte_at(i) == _POINT:
            is_behind_point = 1
        elif n_digits < MOST_DIGITS:
            digits = digits * _TEN + np.uint64(byte_at(i) - _ZERO)
            n_digits += 1 if digits > np.uint64(0) else 0
            power -= is_behind_point
        else:
            power += 1 - is_behind_point
        i += 1
    return digits, power


@kernel
def _near(digits, power):  # type: ignore[no-untyped-def]
    """Return ``digits * 10 ** power`` up to a few roundings; zero or infinity if far out of range."""
    value = np.float64(digits)
    power = min(max(power, -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
    while power < 0:
        value /= _EXACT_POWERS[min(-power, 22)]
        power += min(-power, 22)
    while power > 0:
        value *= _EXACT_POWERS[min(power, 22)]
        power -= min(power, 22)
    return value
