"""Names of a block's features, created from its lines on demand."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.text import kept_names
from daskfs.kernels.text.hashes import NO_ID
from daskfs.sources.sparse.base import NamedIds, NamesOnDemand


class NamesInLines(NamesOnDemand):
    """Names of the features in lines of Vowpal Wabbit's format; on demand, since MISSION needs few of them.

    Parameters
    ----------
    ids : ndarray of uint64
        Ids of the features, in the order of the lines.
    places : ndarray of int64
        Places of their names, see `daskfs.kernels.text.kept_names`.
    lines : ndarray of uint8
        Text, followed by `daskfs.kernels.text.words.MARGIN` more bytes.
    of_rows : ndarray of int64
        Row i has the features ``of_rows[i]`` to ``of_rows[i + 1]``.
    """

    def __init__(self, ids: np.ndarray, places: np.ndarray, lines: np.ndarray, of_rows: np.ndarray) -> None:
        self._ids, self._places, self._lines, self._of_rows = ids, places, lines, of_rows

    def _every(self) -> NamedIds:
        chosen = np.empty(len(self._ids), np.int64)
        return self._copied(chosen[: kept_names.first_of_each(self._ids, _table(len(chosen)), chosen)])

    def _copied(self, chosen: np.ndarray) -> NamedIds:
        offsets = np.empty(len(chosen) + 1, np.int64)
        kept_names.copy_names(self._lines, self._places, chosen, offsets, np.empty(0, np.uint8))
        text = np.empty(offsets[-1], np.uint8)
        kept_names.copy_names(self._lines, self._places, chosen, offsets, text)
        return NamedIds(self._ids[chosen], text, offsets)

    def among(self, wanted: np.ndarray) -> NamedIds:
        """Return the names of the wanted ids, each id once."""
        chosen = np.empty(len(wanted), np.int64)
        n_found = kept_names.first_of_wanted(self._ids, np.ascontiguousarray(wanted), _table(len(wanted)), chosen)
        return self._copied(chosen[:n_found])

    def of_rows(self, first: int, stop: int) -> NamesInLines:
        """Return the names in a range of rows."""
        if first == 0 and stop == len(self._of_rows) - 1:
            return self
        here = slice(int(self._of_rows[first]), int(self._of_rows[stop]))
        of_rows = self._of_rows[first : stop + 1] - here.start
        return NamesInLines(self._ids[here], self._places[here], self._lines, of_rows)


def _table(n_ids: int) -> np.ndarray:
    """Return an empty hash table for `n_ids` ids."""
    return np.full(1 << max(4, (4 * n_ids).bit_length()), NO_ID)
