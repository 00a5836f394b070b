"""Bins of counts: the squares of their logarithms, as whole numbers."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np

LARGEST_BINNED = 2.0**40
"""Counts beyond it share a bin: nearer to 2⁵³ edges would depend on the machine's rounding of logarithms."""


@cache
def bins() -> tuple[np.ndarray, list[str]]:
    """Return where bins of counts begin, from the second on, and their texts.

    Whole numbers from -2 to 2 are bins of their own; from 3 on the bin of x is ⌊log(x)²⌋, as is usual for counts of
    clicks, below -2 that of -x. A bin's text is its least and its largest whole number, ``13..16``. Fractions belong to
    the whole number below.
    """
    most = math.floor(math.log(LARGEST_BINNED) ** 2)
    firsts = sorted({max(3, math.ceil(math.exp(math.sqrt(k)))) for k in range(1, most + 1)})
    above = [str(a) if b == a + 1 else f"{a}..{b - 1}" for a, b in pairwise(firsts)]
    below = [str(-a) if b == a + 1 else f"{1 - b}..{-a}" for a, b in pairwise(firsts)]
    texts = [f"..{-firsts[-1]}", *below[::-1], "-2", "-1", "0", "1", "2", *above, f"{firsts[-1]}.."]
    edges = [*(1.0 - first for first in firsts[::-1]), -1.0, 0.0, 1.0, 2.0, *map(float, firsts)]
    return np.array(edges), texts
