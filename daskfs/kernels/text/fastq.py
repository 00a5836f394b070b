"""FASTQ records with sequences and qualities of any number of lines."""

from __future__ import annotations

from daskfs.kernels.jit import is_stopped, kernel

FINE, NO_HEADER, CUT, OTHER_LENGTH = range(4)
"""Faults found by `find_records`."""
_FEED, _SPACE, _PLUS, _AT = 10, 32, 43, 64


@kernel
def line_end(text, i):  # type: ignore[no-untyped-def]
    """Return the end of the line that contains i, and the number of its nonblank characters from i on."""
    n = 0
    while i < len(text) and text[i] != _FEED:
        n += text[i] > _SPACE
        i += 1
    return i, n


@kernel
def find_records(text, is_last, places):  # type: ignore[no-untyped-def]
    """Find the complete records of a text: a line with @, sequence lines, a line with +, and as many qualities.

    A quality may be @ or +, so only its length tells where a record ends. Blank lines may stand between records.

    Parameters
    ----------
    text : ndarray of uint8
        Starts with a record, or blanks.
    is_last : bool
        Whether the file ends with this text.
    places : ndarray of int64, shape (most records, 4)
        Output: start and end of the header, start and end of the sequence lines.

    Returns
    -------
    n_records, stop : int
        Number of complete records, and the start of the rest.
    fault, place, n_letters, n_qualities : int
        The fault, its position, and the lengths of the record there.
    """
    n, i, size = 0, 0, len(text)
    while not is_stopped():
        while i < size and text[i] <= _SPACE:
            i += 1
        begin = i
        if begin == size:
            break
        if text[begin] != _AT:
            return n, begin, NO_HEADER, begin, 0, 0
        end, _ = line_end(text, begin)
        i, n_letters = end + 1, 0
        while i < size and text[i] != _PLUS:
            stop, n_more = line_end(text, i)
            i, n_letters = stop + 1, n_letters + n_more
        if i >= size:
            return n, begin, CUT if is_last else FINE, begin, n_letters, 0
        last = i
        stop, _ = line_end(text, i)
        i, line, n_qualities = stop + 1, stop + 1, 0
        while n_qualities < n_letters and i < size:
            line = i
            stop, n_more = line_end(text, i)
            i, n_qualities = stop + 1, n_qualities + n_more
        if stop == size and not is_last:
            return n, begin, FINE, begin, 0, 0
        if n_qualities != n_letters and (is_last or n_qualities > n_letters):
            return n, begin, OTHER_LENGTH, min(line, size - 1), n_letters, n_qualities
        if n_qualities < n_letters:
            return n, begin, FINE, begin, 0, 0
        places[n, 0], places[n, 1], places[n, 2], places[n, 3] = begin, end, min(end + 1, last), last
        n += 1
        i = min(i, size)
    return n, i, FINE, i, 0, 0
