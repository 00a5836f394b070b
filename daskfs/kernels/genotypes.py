"""Two-bit genotypes, four samples per byte, lowest bits first, as in PLINK's .bed files."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.gram_tiles import TILE, add_tiles

MISSING_CODE = 1
"""Codes: 0 two copies of the first allele, 1 missing, 2 one copy of each, 3 two copies of the second allele."""
_TILE = 64  # variants; a cache line of each, so that what is read stays in the L1 cache
_PIECE = 1 << 12  # bytes of a variant: 2^14 samples, whose counts fit in the fields of a word
_FIELD = 20
_SPAN = 520  # bytes of a variant that are decoded at a time; not a power of two, so that columns do not compete


def _counts_in_bytes() -> np.ndarray:
    """Return, for each byte, the counts of the codes 1, 2 and 3 as fields of a word."""
    words = np.zeros(256, np.int64)
    for place in range(4):
        codes = (np.arange(256) >> 2 * place) & 3
        words += np.where(codes > 0, np.int64(1) << _FIELD * (np.maximum(codes, 1) - 1), 0)
    return words


COUNTS_IN_BYTES = _counts_in_bytes()


@kernel
def count_codes(packed, mask, n_used, in_bytes, counts, has_missing):  # type: ignore[no-untyped-def]
    """Count the codes of each variant among the samples that are used, and mark those with a missing dosage.

    Parameters
    ----------
    packed : ndarray of shape (n_variants, ceil(n_samples / 4)), uint8
    mask : ndarray of shape (ceil(n_samples / 4),), uint8
        Two bits for each sample: 3 if it is used, else 0, also for the bits after the last sample.
    n_used : int
    in_bytes : ndarray of shape (256,), int64
        `COUNTS_IN_BYTES`.
    counts : ndarray of shape (n_variants, 4), int64
        Output.
    has_missing : ndarray of shape (n_samples,), bool
        Samples with a missing dosage are set; none is cleared.
    """
    n_bytes = mask.shape[0]
    field = (1 << _FIELD) - 1
    for j in range(packed.shape[0]):
        counts[j] = 0
        for start in range(0, n_bytes, _PIECE):
            stop = min(start + _PIECE, n_bytes)
            word = np.int64(0)
            for b in range(start, stop):
                word += in_bytes[packed[j, b] & mask[b]]
            for code in range(1, 4):
                counts[j, code] += (word >> _FIELD * (code - 1)) & field
            if word & field:
                for b in range(start, stop):
                    byte = packed[j, b] & mask[b]
                    if in_bytes[byte] & field:
                        for place in range(4):
                            if (byte >> 2 * place) & 3 == MISSING_CODE:
                                has_missing[4 * b + place] = True
        counts[j, 0] = n_used - counts[j, 1] - counts[j, 2] - counts[j, 3]


@kernel
def code_totals(packed, vector, out):  # type: ignore[no-untyped-def]
    """Sum a vector over the samples of each code, for each variant.

    Parameters
    ----------
    packed : ndarray of shape (n_variants, n_bytes), uint8
    vector : ndarray of shape (4, n_bytes), float64
        ``vector[place, b]`` belongs to the sample at a place of byte b; 0 for samples that take no part.
    out : ndarray of shape (n_variants, 4), float64
        Output. The total of a code that no sample has is exactly 0.
    """
    for j in range(packed.shape[0]):
        if is_stopped():
            break
        out[j] = 0.0
        _add_totals(packed[j], vector[0], vector[1], vector[2], vector[3], out[j])


@inner_loop
def _add_totals(codes, v0, v1, v2, v3, out):  # type: ignore[no-untyped-def]
    """Add to the totals of one variant, in registers: a code is two bits, and each sum takes a number or 0."""
    total0 = total1 = total2 = total3 = 0.0
    for b in range(codes.shape[0]):
        low = np.int32(codes[b])
        high = np.int32(low >> 1)
        is0, is1, is2, is3 = ~(low | high), low & ~high, high & ~low, low & high
        w0, w1, w2, w3 = v0[b], v1[b], v2[b], v3[b]
        total0 += (w0 if is0 & 1 else 0.0) + (w1 if is0 & 4 else 0.0)
        total0 += (w2 if is0 & 16 else 0.0) + (w3 if is0 & 64 else 0.0)
        total1 += (w0 if is1 & 1 else 0.0) + (w1 if is1 & 4 else 0.0)
        total1 += (w2 if is1 & 16 else 0.0) + (w3 if is1 & 64 else 0.0)
        total2 += (w0 if is2 & 1 else 0.0) + (w1 if is2 & 4 else 0.0)
        total2 += (w2 if is2 & 16 else 0.0) + (w3 if is2 & 64 else 0.0)
        total3 += (w0 if is3 & 1 else 0.0) + (w1 if is3 & 4 else 0.0)
        total3 += (w2 if is3 & 16 else 0.0) + (w3 if is3 & 64 else 0.0)
    out[0] += total0
    out[1] += total1
    out[2] += total2
    out[3] += total3


def _copies_of_bytes() -> np.ndarray:
    """Return, for each byte, the copies of the first allele of its four samples; 0 for a missing genotype."""
    codes = (np.arange(256)[:, None] >> 2 * np.arange(4)) & 3
    return np.array([2.0, 0.0, 1.0, 0.0])[codes]


COPIES_OF_BYTES = _copies_of_bytes()


@kernel
def products(packed, of_bytes, vectors, copies, missing):  # type: ignore[no-untyped-def]
    """Add the products of variants with several vectors: of copies of the first allele, and of missing genotypes.

    A few variants are decoded at a time, for all vectors; they stay in the cache.

    Parameters
    ----------
    packed : ndarray of shape (n_variants, n_bytes), uint8
    of_bytes : ndarray of shape (256, 4), float64
        `COPIES_OF_BYTES`.
    vectors : ndarray of shape (n_padded, 4 * n_bytes), float64
        `n_padded` is a multiple of `TILE`.
    copies, missing : ndarray of shape (>= n_variants, n_padded), float64
        Incremented: sums of the vectors times the copies, and over the samples whose genotype is missing. The number of
        rows is a multiple of `TILE`.
    """
    n_bytes = packed.shape[1]
    width = min(_SPAN, n_bytes)
    decoded, band = np.zeros((TILE, 4 * width)), np.empty((vectors.shape[0], 4 * width))
    for start in range(0, n_bytes, width):
        stop = min(start + width, n_bytes)
        band[:, : 4 * (stop - start)] = vectors[:, 4 * start : 4 * stop]
        band[:, 4 * (stop - start) :] = 0.0
        for j in range(0, packed.shape[0], TILE):
            if is_stopped():
                break
            for q in range(min(TILE, packed.shape[0] - j)):
                _decode_copies(packed[j + q, start:stop], of_bytes, band, decoded[q], missing[j + q])
            add_tiles(decoded, 0, band, 0, vectors.shape[0], 0.0, copies[j : j + TILE])


@inner_loop
def _decode_copies(codes, of_bytes, band, copies, missing):  # type: ignore[no-untyped-def]
    """Decode a span of one variant, and add to its sums over missing genotypes, which are few."""
    some_missing = 0
    for b in range(codes.shape[0]):
        byte = codes[b]
        some_missing |= byte & ~(byte >> 1)
        first, second, third, fourth = of_bytes[byte, 0], of_bytes[byte, 1], of_bytes[byte, 2], of_bytes[byte, 3]
        copies[4 * b], copies[4 * b + 1], copies[4 * b + 2], copies[4 * b + 3] = first, second, third, fourth
    if some_missing & 0x55:
        for b in range(codes.shape[0]):
            if codes[b] & ~(codes[b] >> 1) & 0x55:
                for place in range(4):
                    if (codes[b] >> 2 * place) & 3 == MISSING_CODE:
                        for k in range(missing.shape[0]):
                            missing[k] += band[k, 4 * b + place]


@kernel
def decode(packed, samples, values, out):  # type: ignore[no-untyped-def]
    """Decode the dosages of some samples: input by variant, output by sample.

    Parameters
    ----------
    packed : ndarray of shape (n_variants, n_bytes), uint8
    samples : ndarray of shape (n_rows,), int64
        Numbers of samples, relative to the first of `packed`.
    values : ndarray of shape (n_variants, 4)
        Dosage for each code of a variant.
    out : ndarray of shape (n_rows, n_variants)
        Output.
    """
    n_variants = packed.shape[0]
    for first in range(0, n_variants, _TILE):
        last = min(first + _TILE, n_variants)
        for i in range(samples.shape[0]):
            b, shift = samples[i] >> 2, 2 * (samples[i] & 3)
            for j in range(first, last):
                out[i, j] = values[j, (packed[j, b] >> shift) & 3]


@kernel
def decode_columns(packed, values, out):  # type: ignore[no-untyped-def]
    """Decode the dosages of all samples, contiguous for each variant: four at a time, from one byte.

    Parameters
    ----------
    packed : ndarray of shape (n_variants, ceil(n_samples / 4)), uint8
    values : ndarray of shape (n_variants, 4)
        Dosage for each code of a variant.
    out : ndarray of shape (n_variants, n_samples)
        Output.
    """
    n_variants, n_samples = out.shape
    n_whole = n_samples // 4
    of_byte = np.empty((256, 4), out.dtype)
    for j in range(n_variants):
        is_new = j == 0
        for code in range(4):
            is_new |= values[j, code] != values[j - 1, code]  # j = 0 reads the last row, but is new anyway
        if is_new:
            for byte in range(256):
                for place in range(4):
                    of_byte[byte, place] = values[j, (byte >> 2 * place) & 3]
        for b in range(n_whole):
            byte = packed[j, b]
            for place in range(4):
                out[j, 4 * b + place] = of_byte[byte, place]
        for i in range(4 * n_whole, n_samples):
            out[j, i] = of_byte[packed[j, n_whole], i & 3]


@kernel
def decode_columns_of(packed, samples, values, out):  # type: ignore[no-untyped-def]
    """Decode the dosages of some samples, contiguous for each variant; see `decode`.

    Parameters
    ----------
    out : ndarray of shape (n_variants, n_rows)
        Output.
    """
    for j in range(packed.shape[0]):
        for i in range(samples.shape[0]):
            out[j, i] = values[j, (packed[j, samples[i] >> 2] >> 2 * (samples[i] & 3)) & 3]


MISSING_DOSAGE = 2**16 - 1


@kernel
def decode_dosages(steps, samples, values, n_steps, out):  # type: ignore[no-untyped-def]
    """Decode dosages between whole numbers of some samples.

    Parameters
    ----------
    steps : ndarray of shape (n_variants, n_samples), uint16
        Dosages of the first allele in steps, or `MISSING_DOSAGE`.
    samples : ndarray of shape (n_rows,), int64
    values : ndarray of shape (n_variants, 4)
        Value of two copies, of a missing dosage, of one copy, and of none.
    n_steps : int
        Steps per copy.
    out : ndarray of shape (n_variants, n_rows)
        Output.
    """
    for j in range(steps.shape[0]):
        none, slope = values[j, 3], (values[j, 0] - values[j, 3]) / (2 * n_steps)
        for i in range(samples.shape[0]):
            step = steps[j, samples[i]]
            out[j, i] = values[j, MISSING_CODE] if step == MISSING_DOSAGE else none + slope * step


@kernel
def pack_calls(calls, packed):  # type: ignore[no-untyped-def]
    """Pack copies of the second allele to two bits per genotype; what is not 0, 1 or 2 is missing.

    Parameters
    ----------
    calls : ndarray of shape (n_variants, n_samples), int8
    packed : ndarray of shape (n_variants, ceil(n_samples / 4)), uint8
        Output.
    """
    for j in range(calls.shape[0]):
        packed[j] = 0
        for i in range(calls.shape[1]):
            copies = calls[j, i]
            code = 0 if copies == 0 else 2 if copies == 1 else 3 if copies == 2 else MISSING_CODE
            packed[j, i >> 2] |= np.uint8(code << 2 * (i & 3))


N_REMARKABLE = 4
HALF_CALLS, SINGLE_COPIES, OTHER_ALLELES, IMPOSSIBLE = range(N_REMARKABLE)
"""Indices of the counts of `pack`: calls with one missing allele, calls with fewer copies than the ploidy, variants
with several alternative alleles, and invalid numbers.
"""


@kernel
def pack(calls, packed, found):  # type: ignore[no-untyped-def]
    """Pack alleles to two bits per genotype. Alternative alleles count as the first allele of a .bed file.

    Parameters
    ----------
    calls : ndarray of shape (n_variants, n_samples, ploidy), int8
        Allele numbers: 0 the reference, -1 missing, -2 beyond the ploidy of a sample; ploidy 1 or 2.
    packed : ndarray of shape (n_variants, ceil(n_samples / 4)), uint8
        Output.
    found : ndarray of shape (N_REMARKABLE,), int64
        Incremented.
    """
    for j in range(calls.shape[0]):
        packed[j] = 0
        highest = 0
        for i in range(calls.shape[1]):
            dosage, n_known, is_missing, is_single = 0, 0, False, False
            for q in range(calls.shape[2]):
                allele = calls[j, i, q]
                is_missing |= allele == -1
                is_single |= allele == -2
                n_known += allele >= 0
                dosage += allele > 0
                highest = max(highest, allele)
                found[IMPOSSIBLE] += allele < -2
            if is_missing or n_known == 0:
                code = MISSING_CODE
                found[HALF_CALLS] += n_known > 0
            else:
                code = 0 if dosage == 2 else 2 if dosage == 1 else 3
                found[SINGLE_COPIES] += is_single
            packed[j, i >> 2] |= np.uint8(code << 2 * (i & 3))
        found[OTHER_ALLELES] += highest > 1
