"""The papers' comparison methods, with the interface and the report of the selectors.

Names are imported on first use: ``from daskfs.baselines import Bolasso``.
"""

from __future__ import annotations

from typing import Any

from daskfs.methods import BASELINES, by_class, load

_PLACE_OF = by_class(BASELINES)

__all__ = sorted(_PLACE_OF)


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'daskfs.baselines' has no attribute {name!r}")
    return load(_PLACE_OF[name])


def __dir__() -> list[str]:
    return __all__
