"""Category levels by their ids, in any number: hashing, counting, lookup."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.kernels.text.hashes import ID_MASK, hash_texts
from daskfs.kernels.text.words import MARGIN

_MERGED_AT = 1 << 16
"""Minimum number of waiting ids before they are merged with the earlier ones."""


def distinct_texts(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the distinct texts, and the index of each row's text, -1 if the value is missing.

    Parameters
    ----------
    values : Arrow array, dictionary-encoded or not
        Numbers are converted to texts.
    """
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    levels, filled = encoded.dictionary, pc.fill_null(pc.cast(encoded.indices, pa.int64()), -1)
    rows = np.array(filled.to_numpy(zero_copy_only=False), dtype=np.int64)
    if len(levels) > len(values):  # the dictionary is that of the whole table
        used, places = np.unique(rows[rows >= 0], return_inverse=True)
        rows[rows >= 0], levels = places, levels.take(pa.array(used))
    texts = pc.cast(levels, pa.large_string())
    if texts.null_count:
        is_null = pc.is_null(texts).to_numpy(zero_copy_only=False)
        rows[(rows >= 0) & is_null[rows]] = -1
        texts = pc.fill_null(texts, "")
    return texts, rows


def bytes_of(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return texts (none missing) as UTF-8 with a margin for kernels, and the offsets where each begins and ends."""
    if not len(texts):
        return np.zeros(MARGIN, np.uint8), np.zeros(1, np.int64)
    _, places, content = texts.buffers()
    offsets = np.frombuffer(places, np.int64, len(texts) + 1, 8 * texts.offset)
    text = np.zeros(offsets[-1] - offsets[0] + MARGIN, np.uint8)
    if len(text) > MARGIN:
        text[:-MARGIN] = np.frombuffer(content, np.uint8, len(text) - MARGIN, offsets[0])
    return text, offsets - offsets[0]


def ids_of(text: np.ndarray, offsets: np.ndarray, seed: np.uint64) -> np.ndarray:
    """Return the ids of texts, given as returned by `bytes_of` or `joined`."""
    ids = np.empty(len(offsets) - 1, np.uint64)
    hash_texts(text, offsets, seed, ids)
    return ids & ID_MASK


def seed_of(name: str) -> np.uint64:
    """Return the seed of the ids of a column's levels: the hash of the column's name."""
    encoded, seed = name.encode(), np.empty(1, np.uint64)
    hash_texts(np.frombuffer(encoded + bytes(MARGIN), np.uint8), np.array([0, len(encoded)]), np.uint64(0), seed)
    return seed[0]  # type: ignore[no-any-return]


class LevelCounts:
    """Number of rows of each level of a column, by the level's id; takes 16 bytes per level, twice that while merging.

    Parameters
    ----------
    name : str
        Name of the column.
    """

    def __init__(self, name: str) -> None:
        self._seed = seed_of(name)
        self._ids, self._counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._n_waiting = 0

    def update(self, values: pa.Array) -> None:
        """Count more rows."""
        texts, rows = distinct_texts(values)
        ids = ids_of(*bytes_of(texts), self._seed)
        counts = np.bincount(rows[rows >= 0], minlength=len(ids))
        self._waiting.append((ids[counts > 0], counts[counts > 0]))
        self._n_waiting += len(ids)
        if self._n_waiting > max(_MERGED_AT, len(self._ids)):
            self._merge()

    def merge(self, later: LevelCounts) -> None:
        """Include the rows counted elsewhere."""
        self._waiting.append(later._merged())
        self._merge()

    def _merge(self) -> None:
        self._ids, self._counts = self._merged()
        self._waiting, self._n_waiting = [], 0

    def _merged(self) -> tuple[np.ndarray, np.ndarray]:
        if not self._waiting:
            return self._ids, self._counts
        ids, places = np.unique(np.concatenate([self._ids, *(one for one, _ in self._waiting)]), return_inverse=True)
        counts = np.zeros(len(ids), np.int64)
        np.add.at(counts, places, np.concatenate([self._counts, *(one for _, one in self._waiting)]))
        return ids, counts

    def frequent(self, min_count: int, most: int | None) -> tuple[np.ndarray, int, int]:
        """Return the ids, ascending, of at most `most` levels with at least `min_count` rows, the most frequent ones.

        Nothing changes: tasks in threads of one process share the counts.

        Returns
        -------
        ids : ndarray of uint64
        n_rare : int
            Number of other levels.
        n_rows : int
            Number of rows with other levels.
        """
        ids, counts = self._merged()
        order = np.lexsort((ids, -counts))
        kept = order[counts[order] >= min_count][:most]
        return np.sort(ids[kept]), len(order) - len(kept), int(counts.sum() - counts[kept].sum())
