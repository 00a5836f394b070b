"""Decimal numbers to float64, correctly rounded: the result of Python's `float`, or "not settled".

With at most 2⁵³ and 10^±22, one division or product of exact numbers is correctly rounded (Clinger 1990). Otherwise the
product with a 128-bit power of five determines the rounding, except for one number in about 10¹⁸, which is left to the
caller (D. Lemire, "Number Parsing at a Gigabyte per Second", Software: Practice and Experience 51(8), 2021; M. Eisel's
algorithm).
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import kernel

LEAST_POWER, LARGEST_POWER = -342, 308
"""Powers of ten for which a number of up to 19 digits is normal or subnormal."""
MOST_DIGITS = 19
"""Number of decimal digits that always fit in 64 bits."""

_EXACT_POWERS = 10.0 ** np.arange(23)
_EXACT = np.uint64(1 << 53)
_ONE, _ZERO, _ALL = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
_TOP = np.uint64(1 << 63)
_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)
_UNSURE = np.uint64(0x1FF)
_HIDDEN = np.uint64(1 << 52)


def _powers_of_five() -> np.ndarray:
    """Return the 128 highest bits of 5^q for each q, as pairs of words, higher word first."""
    pairs = []
    for q in range(LEAST_POWER, LARGEST_POWER + 1):
        power = 5 ** abs(q)
        if q >= 0:
            word = power << 128 >> power.bit_length()
        else:  # the reciprocal, rounded up
            n_bits = (power - 1).bit_length()
            word = (1 << (n_bits + 127 if q >= -27 else 2 * n_bits + 128)) // power + 1
            word >>= max(0, word.bit_length() - 128)
        pairs.append((word >> 64, word & (1 << 64) - 1))
    return np.array(pairs, np.uint64)


_POWERS_OF_FIVE = _powers_of_five()


@kernel
def rounded(digits, power):  # type: ignore[no-untyped-def]
    """Return the float64 nearest to ``digits * 10 ** power``, and whether it is certain.

    Parameters
    ----------
    digits : uint64
    power : int64
    """
    if digits < _EXACT and -22 <= power <= 22:
        value = np.float64(digits)
        return (value / _EXACT_POWERS[-power] if power < 0 else value * _EXACT_POWERS[power]), True
    if digits == _ZERO:
        return 0.0, True
    if power < LEAST_POWER or power > LARGEST_POWER:
        return 0.0, False
    return _eisel_lemire(digits, power)


@kernel
def _eisel_lemire(digits, power):  # type: ignore[no-untyped-def]
    n_leading = 0
    while digits < _TOP:
        digits <<= _ONE
        n_leading += 1
    of_power = _POWERS_OF_FIVE[power - LEAST_POWER]
    high, low = _product(digits, of_power[0])
    if high & _UNSURE == _UNSURE:
        carry, _ = _product(digits, of_power[1])
        low += carry
        if carry > low:
            high += _ONE
    if low == _ALL and (power < -27 or power > 55):
        return 0.0, False
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * power) >> 16) + 63 + np.int64(upper) - n_leading + 1023
    if exponent <= 0:  # subnormal
        return 0.0, False
    if low <= _ONE and -4 <= power <= 23 and mantissa & np.uint64(3) == _ONE and mantissa << shift == high:
        mantissa &= ~_ONE  # half-way: round to even
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    if mantissa >= _HIDDEN << _ONE:
        mantissa = _HIDDEN
        exponent += 1
    if exponent >= 2047:
        return 0.0, False
    return np.uint64((mantissa & ~_HIDDEN) | np.uint64(exponent) << np.uint64(52)).view(np.float64), True


@kernel
def _product(a, b):  # type: ignore[no-untyped-def]
    """Return the high and the low word of a product."""
    a1, a0, b1, b0 = a >> _HALF, a & _LOWER, b >> _HALF, b & _LOWER
    middle = a1 * b0 + (a0 * b0 >> _HALF)
    other = a0 * b1 + (middle & _LOWER)
    return a1 * b1 + (middle >> _HALF) + (other >> _HALF), a * b
