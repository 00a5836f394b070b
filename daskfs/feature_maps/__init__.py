"""Implicit columns: features computed from the columns of a matrix while they are scored, and their groups.

The names of the maps are imported on first use: ``from daskfs.feature_maps import Polynomial``.
"""

from __future__ import annotations

from typing import Any

from daskfs.feature_maps.registry import FEATURE_MAPS
from daskfs.methods import by_class, load

_PLACE_OF = by_class(FEATURE_MAPS)

__all__ = sorted(_PLACE_OF)


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'daskfs.feature_maps' has no attribute {name!r}")
    return load(_PLACE_OF[name])


def __dir__() -> list[str]:
    return __all__
