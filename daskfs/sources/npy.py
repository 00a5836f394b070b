"""Targets and weights as arrays, or as .npy files of them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from daskfs.errors import SourceError


def array_of(values: Any) -> Any:
    """Return what was given, or the array of the .npy file that a path names.

    Raises
    ------
    SourceError
        There is no such file, or it holds none.
    """
    if not isinstance(values, (str, os.PathLike)):
        return values
    try:
        return np.load(values, allow_pickle=False)
    except (OSError, ValueError, EOFError) as fault:
        raise SourceError(f"expected an array in a .npy file: {fault}", str(values), "save it by numpy.save") from None
