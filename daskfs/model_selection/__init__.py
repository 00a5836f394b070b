"""Meta-estimators for every selector: number of features, stability, false discovery rate, intervals.

Classes are imported on first use: ``from daskfs.model_selection import StabilitySelection``.
"""

from __future__ import annotations

from typing import Any

from daskfs.methods import MODEL_SELECTION, by_class, load

_PLACE_OF = by_class(MODEL_SELECTION)

__all__ = sorted(_PLACE_OF)


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'daskfs.model_selection' has no attribute {name!r}")
    return load(_PLACE_OF[name])


def __dir__() -> list[str]:
    return __all__
