"""The feature maps there are: name in pipeline files -> ``"module:Class"``, loaded when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daskfs.errors import ConfigError, did_you_mean
from daskfs.methods import load

if TYPE_CHECKING:
    from daskfs.feature_maps.base import FeatureMap

FEATURE_MAPS: dict[str, str] = {"pairs": "daskfs.feature_maps.polynomial:Polynomial"}
"""Public as ``daskfs.feature_maps.<Class>``."""


def find_map(name: str) -> type[FeatureMap]:
    """Return the class of a feature map.

    Raises
    ------
    ConfigError
        There is no such map.
    """
    if name not in FEATURE_MAPS:
        problem = f"expected one of {', '.join(FEATURE_MAPS)}, found {name!r}{did_you_mean(str(name), FEATURE_MAPS)}"
        raise ConfigError(problem, "feature_map", "choose one of them")
    found: type[FeatureMap] = load(FEATURE_MAPS[name])
    return found
