"""Names of a block's features, made out of its lines when somebody asks for them."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.text import kept_names
from daskfs.kernels.text.hashes import NO_ID
from daskfs.sources.sparse.base import NamedIds, NamesOnDemand


class NamesInLines(NamesOnDemand):
    """The names of features in lines of Vowpal Wabbit's text, of which MISSION asks for few.

    Parameters
    ----------
    ids : ndarray of uint64
        Of features as they stand in the lines.
    places : ndarray of int64
        Of their names, see `daskfs.kernels.text.kept_names`.
    lines : ndarray of uint8
        With `daskfs.kernels.text.words.MARGIN` more bytes at the end.
    of_rows : ndarray of int64
        Row i has the features from ``of_rows[i]`` on; one more.
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
        """Return those names whose ids are wanted, each id once."""
        chosen = np.empty(len(wanted), np.int64)
        n_found = kept_names.first_of_wanted(self._ids, np.ascontiguousarray(wanted), _table(len(wanted)), chosen)
        return self._copied(chosen[:n_found])

    def of_rows(self, first: int, stop: int) -> NamesInLines:
        """Return the names of some rows."""
        if first == 0 and stop == len(self._of_rows) - 1:
            return self
        here = slice(int(self._of_rows[first]), int(self._of_rows[stop]))
        of_rows = self._of_rows[first : stop + 1] - here.start
        return NamesInLines(self._ids[here], self._places[here], self._lines, of_rows)


def _table(n_ids: int) -> np.ndarray:
    """Return an empty table for so many ids."""
    return np.full(1 << max(4, (4 * n_ids).bit_length()), NO_ID)
