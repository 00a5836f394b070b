"""Tables of a report, and how values are written in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from daskfs.cells import digits

LONG = 1_000
"""Number of rows above which a table has fixed column widths, so that the browser need not measure all cells."""


class Cell(NamedTuple):
    """A cell of a table."""

    text: Any
    order: float | None = None
    """Number by which the table is sorted, if it differs from the text."""
    share: float | None = None
    """Darkness of the background, from 0 to 1."""
    inner: Table | None = None
    """Table that opens below the text."""


@dataclass(frozen=True)
class Table:
    """A table.

    Parameters
    ----------
    name : str
        Name for screen readers.
    head : sequence
        Names of the columns. If empty, the first cell of each row is its heading.
    rows : list of sequences
        Values, or cells.
    numbers : sequence of int
        Columns that are right-aligned.
    is_sorted : bool
        Whether users can sort and search the table.
    less : sequence of int
        Columns that are hidden on small screens.
    """

    name: str
    head: Sequence[Any]
    rows: list[Any]
    numbers: Sequence[int] = ()
    is_sorted: bool = False
    less: Sequence[int] = ()

    @property
    def is_long(self) -> bool:
        """Whether the browser should not measure all cells."""
        return len(self.rows) > LONG

    @property
    def kinds(self) -> list[str]:
        """The CSS classes of each column's cells."""
        return [
            " ".join(["number"] * (k in self.numbers) + ["less"] * (k in self.less)) for k in range(len(self.head) or 2)
        ]

    @property
    def widest(self) -> int:
        """Position of the first column of texts of a sorted table; -1 if there is none."""
        return next((k for k in range(len(self.head)) if self.is_sorted and k not in self.numbers), -1)


def shown(value: Any) -> str:
    """Format a value; numbers have three significant digits."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (float, np.floating)):
        return digits(float(value))
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return str(value)


def brief(value: float | None) -> str:
    """Format a number; return an empty text if it is undefined."""
    return "" if value is None or not math.isfinite(value) else digits(value)


def between(interval: Sequence[float] | None) -> str:
    """Format an interval; return an empty text without one."""
    known = interval is not None and all(map(math.isfinite, interval))
    return f"{digits(interval[0])} to {digits(interval[1])}" if interval is not None and known else ""
