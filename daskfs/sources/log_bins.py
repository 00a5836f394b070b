"""Bins of counts: squared logarithms, rounded down."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np

LARGEST_BINNED = 2.0**40
"""Larger counts share a bin: near 2⁵³, edges would depend on the machine's rounding of logarithms."""


@cache
def bins() -> tuple[np.ndarray, list[str]]:
    """Return the lower edges of the bins, from the second bin on, and the names of all bins.

    Integers from -2 to 2 have their own bins; from 3 on, the bin of x is ⌊log(x)²⌋, as is usual for counts of clicks;
    below -2, bins are mirrored. A bin is named by its smallest and largest integer, ``13..16``. Fractions belong to the
    integer below.
    """
    most = math.floor(math.log(LARGEST_BINNED) ** 2)
    firsts = sorted({max(3, math.ceil(math.exp(math.sqrt(k)))) for k in range(1, most + 1)})
    above = [str(a) if b == a + 1 else f"{a}..{b - 1}" for a, b in pairwise(firsts)]
    below = [str(-a) if b == a + 1 else f"{1 - b}..{-a}" for a, b in pairwise(firsts)]
    texts = [f"..{-firsts[-1]}", *below[::-1], "-2", "-1", "0", "1", "2", *above, f"{firsts[-1]}.."]
    edges = [*(1.0 - first for first in firsts[::-1]), -1.0, 0.0, 1.0, 2.0, *map(float, firsts)]
    return np.array(edges), texts
