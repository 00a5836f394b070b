"""Which steps decode a store more often than once a pass, and what would end it: found by planning again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from daskfs.selectors.shared.work import Grid, Work

TOLD_FROM, ENOUGH = 2.0, 1.5
"""Times as much as could be that is decoded: from which it is said, and below which a remedy is one."""
TOLD_NBYTES = 4 << 30
"""Bytes decoded again, below which nobody need care."""
MOST_MORE = 16
"""Times as much memory that one might have."""
LEAST_COLUMNS = 16
"""Of a tile."""


class Rereading(NamedTuple):
    """A step that decodes tiles again and again."""

    step: str
    times: float
    """That each tile is decoded in a pass, on average, with what is read once more of the selected columns."""
    least: float
    """Times that there would be at least."""
    remedies: list[str]
    """Settings of the pipeline with which it is about that."""

    def to_text(self) -> str:
        """Return it for a reader."""
        remedies = " or ".join(self.remedies)
        return (
            f"{self.step}: each tile is decoded {self.times:,.3g} times a pass; {remedies} makes it {self.least:,.3g}"
        )


def times_decoded(work: Work | None, n_passes: int, grid: Grid) -> float:
    """Return how often a tile is decoded in a pass, on average; 0 where nobody counts it."""
    if work is None or not n_passes:
        return 0.0
    n_values = work.by_tasks.get("values read", 0.0) + work.in_client.get("values read", 0.0)
    return n_values / (grid.tile * grid.n_down * grid.n_across * n_passes)


def least_memory(limit: int, is_enough: Callable[[int], bool]) -> int | None:
    """Return a limit above this one that is enough, in MiB, to an eighth of it; None where none up to 16 times is."""
    refused, n_mib = limit, 2 * limit
    while not is_enough(n_mib):
        refused, n_mib = n_mib, 2 * n_mib
        if n_mib > MOST_MORE * limit:
            return None
    while n_mib - refused > max(1, refused // 8):
        middle = (n_mib + refused) // 2
        refused, n_mib = (refused, middle) if is_enough(middle) else (middle, n_mib)
    return n_mib


def other_tiles(tile_shape: tuple[int, int], n_samples: int, n_features: int) -> Iterator[tuple[int, int]]:
    """Yield shapes of tiles of as many values, narrower ones and then lower ones.

    >>> list(other_tiles((64, 64), 10_000, 200))
    [(128, 32), (256, 16), (32, 128), (20, 200)]
    """
    rows, columns = tile_shape
    narrow = columns // 2
    while narrow >= LEAST_COLUMNS and rows * columns // narrow <= n_samples:
        yield rows * columns // narrow, narrow
        narrow //= 2
    low = rows // 2
    while low and rows * columns // low < 2 * n_features:
        wide = min(n_features, rows * columns // low)
        yield rows * columns // wide, wide
        low //= 2
