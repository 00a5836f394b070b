"""k-mers of sequences as features, with ids that determine their names, and sequences as rows of k-mers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from daskfs import errors
from daskfs.kernels.text import kmers, ngrams
from daskfs.kernels.text.hashes import ID_BITS
from daskfs.sources.sparse.base import NamedIds, NamesOnDemand, SparseBlock

ConfigError = errors.ConfigError.about("sequences")

MOST_LETTERS = 31
"""Maximum length of a k-mer."""
KmerWeighting: TypeAlias = Literal["counts", "binary"]


class CountedRows(NamedTuple):
    """Sequences as sparse rows."""

    offsets: np.ndarray
    """int64, of length n_rows + 1."""
    features: np.ndarray
    """uint64"""
    data: np.ndarray
    """float32"""
    y: np.ndarray | None
    """float64"""


class NamesInIds(NamesOnDemand):
    """Names of a block's features, created on demand from their ids.

    Parameters
    ----------
    kmers : Kmers
    features : ndarray of uint64
    """

    def __init__(self, kmers: Kmers, features: np.ndarray) -> None:
        self._kmers, self._features = kmers, features

    def among(self, wanted: np.ndarray) -> NamedIds:
        """Return the names of ids, whether or not they occur in the block."""
        return self._kmers.names_of(wanted)

    def of_rows(self, first: int, stop: int) -> NamesInIds:
        """Return all names."""
        return self

    def _every(self) -> NamedIds:
        return self._kmers.names_of(self._features)


class Kmers:
    """k-mers as features.

    Parameters
    ----------
    k : int or list of int
        Lengths, from 1 to 31.
    patterns : str or list of str, optional
        Patterns instead of lengths: 1 for positions that count, 0 for positions with any letter, for example 11011.
    canonical : bool
        Whether a k-mer and its reverse complement are one feature.
    window : int, optional
        Maximum length of sequences, in which k-mers at different positions are different features.
    weighting : {"counts", "binary"}
        Whether the value is the number of occurrences, or 1.

    Raises
    ------
    ConfigError
        Options that cannot be combined, or ids of more than 63 bits.
    """

    def __init__(
        self,
        k: int | Sequence[int] = 12,
        patterns: str | Sequence[str] | None = None,
        *,
        canonical: bool = False,
        window: int | None = None,
        weighting: KmerWeighting = "counts",
    ) -> None:
        lengths = [k] if isinstance(k, (int, np.integer)) else list(k)
        for length in lengths if patterns is None else ():
            if not 1 <= length <= MOST_LETTERS:
                raise ConfigError(f"expected 1 to {MOST_LETTERS} letters, found {length}", "source.k", "for example 12")
        given = [patterns] if isinstance(patterns, str) else patterns
        self.patterns = ["1" * length for length in lengths] if given is None else [str(each) for each in given]
        for pattern in self.patterns:
            if not re.fullmatch("1([01]*1)?", pattern) or pattern.count("1") > MOST_LETTERS:
                problem = (
                    f"expected ones and zeros, a one at both ends and at most {MOST_LETTERS} ones, found {pattern!r}"
                )
                raise ConfigError(problem, "source.patterns", "for example 11011")
            if canonical and pattern != pattern[::-1]:
                problem = f"the pattern {pattern} is not symmetric, so that its k-mers have no reverse complement"
                raise ConfigError(problem, "source.patterns", "use a symmetric pattern, or set canonical: false")
        if not self.patterns or len(set(self.patterns)) < len(self.patterns):
            raise ConfigError(f"expected different patterns, found {self.patterns}", "source.patterns", "drop doubles")
        if window is not None and (canonical or window < 1):
            problem = "window needs canonical: false" if canonical else f"expected at least one letter, found {window}"
            raise ConfigError(problem, "source.window", "set canonical: false" if canonical else "for example 81")
        if weighting not in ("counts", "binary"):
            raise ConfigError(f"found {weighting!r}", "source.weighting", "one of counts, binary")
        self.is_canonical, self.window, self.weighting = canonical, window, weighting
        self._position_shift = 2 * max(pattern.count("1") for pattern in self.patterns)
        self._pattern_shift = self._position_shift + (0 if window is None else (window - 1).bit_length())
        self.n_bits = self._pattern_shift + (len(self.patterns) - 1).bit_length()
        if self.n_bits > ID_BITS:
            problem = f"letters, positions and patterns need {self.n_bits} bits, but an id has {ID_BITS}"
            raise ConfigError(problem, "source.k", "use shorter k-mers")

    @cached_property
    def _in_kernels(self) -> kmers.Patterns:
        places = [[i for i, sign in enumerate(pattern) if sign == "1"] for pattern in self.patterns]
        return kmers.Patterns(
            np.array([i for each in places for i in each], np.int64),
            np.cumsum([0, *map(len, places)]),
            self._position_shift,
            self._pattern_shift,
            self.window is not None,
            self.is_canonical,
        )

    @property
    def encoding(self) -> dict[str, Any]:
        """JSON-compatible description of how sequences become entries."""
        return {
            "patterns": self.patterns,
            "canonical": self.is_canonical,
            "window": self.window,
            "weighting": self.weighting,
            "letters": "ACGT, 2 bits",
        }

    def count(self, codes: np.ndarray, offsets: np.ndarray, y: np.ndarray | None) -> CountedRows:
        """Count the k-mers of sequences.

        Parameters
        ----------
        codes : uint8 array
            Letters as codes 0 to 3; larger codes are unknown letters.
        offsets : int64 array
            Start of each sequence, and end of the last.
        y : ndarray or None
        """
        ids = np.empty(len(self.patterns) * int(offsets[-1] - offsets[0]), np.uint64)
        id_offsets = np.empty(len(offsets), np.int64)
        kmers.fill_ids(codes, offsets, self._in_kernels, ids, id_offsets)
        shift = np.uint64(ID_BITS - self.n_bits)  # the sort uses the upper bits of 63
        ids = ids[: id_offsets[-1]] << shift
        counts = np.empty(len(ids), np.float32)
        ngrams.count_each(ids, id_offsets, counts)
        ids, counts = ids[: id_offsets[-1]] >> shift, counts[: id_offsets[-1]].copy()
        if self.weighting == "binary":
            counts[:] = 1.0
        return CountedRows(id_offsets, ids, counts, y)

    def names_of(self, features: np.ndarray) -> NamedIds:
        """Return the names of features, each once, created from the ids."""
        ids = np.unique(np.ascontiguousarray(features))
        text = np.empty((max(map(len, self.patterns)) + (0 if self.window is None else 21)) * len(ids), np.uint8)
        offsets = np.empty(len(ids) + 1, np.int64)
        kmers.write_names(ids, self._in_kernels, text, offsets)
        return NamedIds(ids, text[: offsets[-1]].copy(), offsets)

    def blocks_of(
        self, counted: Iterable[CountedRows], block_rows: int, block_nnz: int, *, tells_names: bool
    ) -> Iterator[SparseBlock]:
        """Yield rows in blocks that are as full as allowed, however the input is divided."""
        start, n_held, nnz_held = 0, 0, 0
        held: list[CountedRows] = []
        for rows in counted:
            offsets, first, n_rows = rows.offsets, 0, len(rows.offsets) - 1
            while first < n_rows:
                room = int(offsets[first]) + block_nnz - nnz_held
                stop = min(int(np.searchsorted(offsets, room, "right")) - 1, n_rows, first + block_rows - n_held)
                if n_held == 0:
                    stop = max(stop, first + 1)
                if stop > first:
                    held.append(_slice_of(rows, first, stop))
                    n_held += stop - first
                    nnz_held += int(offsets[stop] - offsets[first])
                    first = stop
                if first < n_rows:
                    yield self._block(start, held, tells_names)
                    start, n_held, nnz_held, held = start + n_held, 0, 0, []
        if n_held:
            yield self._block(start, held, tells_names)

    def _block(self, start: int, held: list[CountedRows], tells_names: bool) -> SparseBlock:
        features = np.concatenate([rows.features for rows in held])
        data = np.concatenate([rows.data for rows in held])
        lengths = np.concatenate([np.diff(rows.offsets) for rows in held])
        return SparseBlock(
            start,
            np.append(0, np.cumsum(lengths)),
            features,
            None if np.all(data == 1.0) else data,
            None if held[0].y is None else np.concatenate([rows.y for rows in held]),  # type: ignore[misc]
            names=NamesInIds(self, features) if tells_names else None,
        )


def _slice_of(rows: CountedRows, start: int, stop: int) -> CountedRows:
    entries = slice(int(rows.offsets[start]), int(rows.offsets[stop]))
    offsets, y = rows.offsets[start : stop + 1], None if rows.y is None else rows.y[start:stop]
    return CountedRows(offsets, rows.features[entries], rows.data[entries], y)
