"""k-mers of nucleotides as 64-bit ids, from which their names can be recovered.

A letter has two bits: A 0, C 1, G 2, T 3, so complements add up to 3. The letters of a k-mer are the lowest bits of its
id, with the last letter lowest. The position in a window is above them, and the number of the pattern above both. With
one pattern without positions, the id is the code itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel

UNKNOWN, BLANK, FAULT = 4, 5, 6
"""Codes of other letters than A, C, G, T; of blanks between letters; of characters that are not letters."""
_THREE, _TWO = np.uint64(3), np.uint64(2)


class Patterns(NamedTuple):
    """The patterns of letters that make a k-mer."""

    places: np.ndarray
    """int64: offsets of the letters of each pattern, concatenated by pattern."""
    offsets: np.ndarray
    """int64: pattern q has ``places[offsets[q]:offsets[q + 1]]``."""
    position_shift: int
    pattern_shift: int
    """Number of bits below the position, and below the number of the pattern."""
    is_positional: bool
    is_canonical: bool
    """Whether the smaller code of a k-mer and its reverse complement is used."""


@kernel
def to_codes(text, starts, stops, table, codes, offsets):  # type: ignore[no-untyped-def]
    """Write the letters of sequences as codes, without blanks.

    Parameters
    ----------
    text : ndarray of uint8
    starts, stops : ndarray of int64
        Start and end of each sequence.
    table : ndarray of uint8, shape (256,)
        The code of each character.
    codes : ndarray of uint8
        Output.
    offsets : ndarray of int64, one more than there are sequences
        Output: start of each sequence, and the end of the last.

    Returns
    -------
    int
        Position of a character that is not a letter, or -1.
    """
    n = 0
    offsets[0] = 0
    for row in range(len(starts)):
        for i in range(starts[row], stops[row]):
            if i & 0xFFFF == 0 and is_stopped():
                return -1
            code = table[text[i]]
            if code < BLANK:
                codes[n] = code
                n += 1
            elif code == FAULT:
                return i
        offsets[row + 1] = n
    return -1


@kernel
def fill_ids(codes, offsets, patterns, ids, id_offsets):  # type: ignore[no-untyped-def]
    """Write the ids of the k-mers of each sequence, by pattern and position, without those with unknown letters.

    Parameters
    ----------
    codes : ndarray of uint8
    offsets : ndarray of int64
        Start of each sequence, and the end of the last.
    patterns : Patterns
    ids : ndarray of uint64, with room for a k-mer at each letter and for each pattern
    id_offsets : ndarray of int64, as long as `offsets`
        Output: start of the ids of each sequence, and the end of the last.
    """
    places, pattern_offsets = patterns.places, patterns.offsets
    n = 0
    id_offsets[0] = 0
    for row in range(len(offsets) - 1):
        start, stop = offsets[row], offsets[row + 1]
        for q in range(len(pattern_offsets) - 1):
            first, last = pattern_offsets[q], pattern_offsets[q + 1]
            weight, span = last - first, places[last - 1] + 1
            above = np.uint64(q) << np.uint64(patterns.pattern_shift)
            mask, top = (np.uint64(1) << np.uint64(2 * weight)) - np.uint64(1), np.uint64(2 * (weight - 1))
            code, complement, n_known = np.uint64(0), np.uint64(0), 0
            if span == weight:  # adjacent letters: each k-mer follows from the one before
                for i in range(start, stop):
                    if i & 0xFFFF == 0 and is_stopped():
                        break
                    letter = np.uint64(codes[i])
                    if letter > _THREE:
                        n_known = 0
                        continue
                    code = ((code << _TWO) | letter) & mask
                    complement = (complement >> _TWO) | ((_THREE - letter) << top)
                    n_known += 1
                    if n_known >= weight:
                        ids[n] = above | (min(code, complement) if patterns.is_canonical else code)
                        if patterns.is_positional:
                            ids[n] |= np.uint64(i + 1 - weight - start) << np.uint64(patterns.position_shift)
                        n += 1
                continue
            for i in range(start, stop - span + 1):
                if i & 0xFFFF == 0 and is_stopped():
                    break
                code, complement = np.uint64(0), np.uint64(0)
                is_known = True
                for k in range(first, last):
                    letter = np.uint64(codes[i + places[k]])
                    if letter > _THREE:
                        is_known = False
                        break
                    code = (code << _TWO) | letter
                    complement |= (_THREE - letter) << np.uint64(2 * (k - first))
                if is_known:
                    ids[n] = above | (min(code, complement) if patterns.is_canonical else code)
                    if patterns.is_positional:
                        ids[n] |= np.uint64(i - start) << np.uint64(patterns.position_shift)
                    n += 1
        id_offsets[row + 1] = n


@kernel
def write_names(ids, patterns, out, offsets):  # type: ignore[no-untyped-def]
    """Write the names of k-mers: letters, a dot for any letter, preceded by the position, ``17:AC.GT``.

    Parameters
    ----------
    ids : ndarray of uint64
    patterns : Patterns
    out : ndarray of uint8
        With room for the longest pattern, 20 digits and a colon per name.
    offsets : ndarray of int64, one more than there are ids
        Output.
    """
    places, pattern_offsets = patterns.places, patterns.offsets
    n_position_bits = np.uint64(patterns.pattern_shift - patterns.position_shift)
    n = 0
    offsets[0] = 0
    for k in range(len(ids)):
        q = np.int64(ids[k] >> np.uint64(patterns.pattern_shift))
        if patterns.is_positional:
            mask = (np.uint64(1) << n_position_bits) - np.uint64(1)
            position = np.int64((ids[k] >> np.uint64(patterns.position_shift)) & mask)
            n_digits, power = 1, 10
            while power <= position:
                n_digits, power = n_digits + 1, power * 10
            for digit in range(n_digits):
                out[n + n_digits - 1 - digit] = 48 + position % 10
                position //= 10
            out[n + n_digits] = 58
            n += n_digits + 1
        first, last = pattern_offsets[q], pattern_offsets[q + 1]
        span = places[last - 1] + 1
        out[n : n + span] = 46
        for j in range(first, last):
            letter = (ids[k] >> np.uint64(2 * (last - 1 - j))) & _THREE
            out[n + places[j]] = 65 if letter == 0 else 67 if letter == 1 else 71 if letter == 2 else 84
        n += span
        offsets[k + 1] = n
