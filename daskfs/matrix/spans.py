"""Ranges of rows, or of columns, that are read at once: whole tiles, or equal parts of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from daskfs.matrix.blocks import Rows


@dataclass(frozen=True, slots=True)
class Spans:
    """Ranges of rows (columns) that are read at once: tiles, equal parts of a tile, or several tiles.

    Examples
    --------
    >>> Spans(tile=12, part=8).of(11), Spans(tile=12, part=8).of(12)
    ((8, 12), (12, 20))
    """

    tile: int
    """Number of rows of a tile, or of several tiles read together."""
    part: int
    """Number of its rows that are read at once."""

    @classmethod
    def within(cls, tile: int, most: int) -> Self:
        """Return ranges of at most `most` rows: as many whole tiles as fit, or parts of a tile as equal as possible.

        Examples
        --------
        >>> Spans.within(64, 1000), Spans.within(64, 63)
        (Spans(tile=960, part=960), Spans(tile=64, part=32))
        """
        if most >= tile:
            return cls(most - most % tile, most - most % tile)
        return cls(tile, -(-tile // -(-tile // max(1, most))))

    def of(self, row: int) -> tuple[int, int]:
        """Return the bounds [start, stop) of the range that contains a row."""
        tile = row - row % self.tile
        start = row - (row - tile) % self.part
        return start, min(start + self.part, tile + self.tile)

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """Return an id for the range of each row; rows of the same range have the same id."""
        numbers: np.ndarray = rows - rows % self.tile % self.part
        return numbers

    def cut(self, rows: Rows) -> Iterator[tuple[int, int]]:
        """Yield the bounds of runs of consecutive rows in the same range.

        Examples
        --------
        >>> list(Spans(tile=12, part=8).cut(slice(5, 21)))
        [(0, 3), (3, 7), (7, 15), (15, 16)]
        >>> list(Spans(tile=12, part=12).cut(np.array([1, 5, 13, 40, 41])))
        [(0, 2), (2, 3), (3, 5)]
        """
        if isinstance(rows, slice):
            start = rows.start
            while start < rows.stop:
                stop = min(self.of(start)[1], rows.stop)
                yield start - rows.start, stop - rows.start
                start = stop
            return
        start, ascends = 0, bool((np.diff(rows) >= 0).all())  # otherwise rows of a range are not adjacent
        while start < len(rows):
            numbers = self.numbers(rows[start : start + self.part])
            is_other = (numbers != numbers[0]) & ascends
            stop = start + (int(is_other.argmax()) if is_other.any() else len(numbers))
            yield start, stop
            start = stop
