"""Steps that decode the tiles of a store more than once per pass, and settings that avoid it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from daskfs.selectors.shared.work import Grid, Work

REPORTED_FROM, ENOUGH = 2.0, 1.5
"""Ratio of decoding to the minimum: from `REPORTED_FROM` it is reported, below `ENOUGH` a remedy is sufficient."""
REPORTED_NBYTES = 4 << 30
"""Bytes decoded again, below which nothing is reported."""
MAX_MEMORY_FACTOR = 16
"""Maximum factor by which a remedy may raise the memory limit."""
LEAST_COLUMNS = 16
"""Minimum number of columns of a tile."""


class Rereading(NamedTuple):
    """A step that decodes tiles repeatedly."""

    step: str
    times: float
    """Average number of times that a tile is decoded per pass, including repeated reads of selected columns."""
    least: float
    """Minimum of `times` that is possible."""
    remedies: list[str]
    """Settings of the pipeline that nearly reach the minimum."""

    def to_text(self) -> str:
        """Return a message for the user."""
        remedies = " or ".join(self.remedies)
        return (
            f"{self.step}: each tile is decoded {self.times:,.3g} times per pass; {remedies} reduces this to "
            f"{self.least:,.3g}"
        )


def times_decoded(work: Work | None, n_passes: int, grid: Grid) -> float:
    """Return the average number of times that a tile is decoded per pass; 0 if unknown."""
    if work is None or not n_passes:
        return 0.0
    n_values = work.by_tasks.get("values read", 0.0) + work.in_client.get("values read", 0.0)
    return n_values / (grid.tile * grid.n_down * grid.n_across * n_passes)


def least_memory(limit: int, is_enough: Callable[[int], bool]) -> int | None:
    """Return a sufficient limit above `limit`, in MiB, within 1/8 of the smallest; None if 16 times is not enough."""
    refused, n_mib = limit, 2 * limit
    while not is_enough(n_mib):
        refused, n_mib = n_mib, 2 * n_mib
        if n_mib > MAX_MEMORY_FACTOR * limit:
            return None
    while n_mib - refused > max(1, refused // 8):
        middle = (n_mib + refused) // 2
        refused, n_mib = (refused, middle) if is_enough(middle) else (middle, n_mib)
    return n_mib


def other_tiles(tile_shape: tuple[int, int], n_samples: int, n_features: int) -> Iterator[tuple[int, int]]:
    """Yield tile shapes with the same number of values: first narrower tiles, then tiles of fewer rows.

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
