"""The checksum of a tile: crc32c, which a library finds, and of many bytes sooner where they are folded to few."""

from __future__ import annotations

import sys

import numpy as np
from crc32c import crc32c

LEAST_NBYTES = 96 << 10
"""That are folded: the library is done with fewer before a kernel is called."""
TURNED = 0xFFFFFFFF
"""The bits of a remainder, which a checksum has all turned."""


def checksum_of(array: np.ndarray, before: int = 0) -> int:
    """Return the crc32c of a C-ordered array's bytes.

    Parameters
    ----------
    array : ndarray
    before : int
        The checksum of the bytes that come before.
    """
    if array.nbytes < LEAST_NBYTES or "numba" not in sys.modules:  # loading it takes as long as checksums of 30 GB
        return int(crc32c(array.data, before))
    from daskfs.kernels.checksum.folds import CAN_FOLD, FOLDED, folded

    if not CAN_FOLD:
        return int(crc32c(array.data, before))
    data, few = array.reshape(-1).view(np.uint8), np.empty(FOLDED, np.uint8)
    rest = len(data) % FOLDED
    folded(data[: len(data) - rest], before ^ TURNED, few)
    found = int(crc32c(few.data, TURNED))
    return int(crc32c(data[-rest:].data, found)) if rest else found
