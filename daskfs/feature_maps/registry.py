"""The available feature maps: name in pipeline files -> ``"module:Class"``, imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from daskfs import errors
from daskfs.errors import did_you_mean
from daskfs.methods import load
from daskfs.parameters import Kind, parameters_of

if TYPE_CHECKING:
    from daskfs.feature_maps.base import FeatureMap, MadeFeatures

ConfigError = errors.ConfigError.about("feature-maps")

FEATURE_MAPS: dict[str, str] = {
    "pairs": "daskfs.feature_maps.polynomial:Polynomial",
    "histogram_intersection": "daskfs.feature_maps.additive:HistogramIntersection",
    "additive_gaussian": "daskfs.feature_maps.additive:AdditiveGaussian",
    "additive_chi2": "daskfs.feature_maps.additive:AdditiveChi2",
    "additive_jensen_shannon": "daskfs.feature_maps.additive:AdditiveJensenShannon",
    "splines": "daskfs.feature_maps.additive:Splines",
    "own": "daskfs.feature_maps.additive:OwnMap",
}
"""Available as ``daskfs.feature_maps.<Class>``."""

MADE = {
    "products": "daskfs.feature_maps.product_features:ProductFeatures",
    "components": "daskfs.feature_maps.additive_matrix:MadeComponents",
}
"""The features of a map that a fitted selector keeps, by their key in documents."""


def made_of(document: Mapping[str, Any]) -> MadeFeatures:
    """Return the features described by `MadeFeatures.to_document`."""
    found: MadeFeatures = load(MADE[document["kind"]]).from_document(document)
    return found


def find_map(name: str) -> type[FeatureMap]:
    """Return the class of a feature map.

    Raises
    ------
    ConfigError
        The map does not exist.
    """
    if name not in FEATURE_MAPS:
        problem = f"expected one of {', '.join(FEATURE_MAPS)}, found {name!r}{did_you_mean(str(name), FEATURE_MAPS)}"
        raise ConfigError(problem, "feature_map", "choose one of them")
    found: type[FeatureMap] = load(FEATURE_MAPS[name])
    return found


def map_of(given: Any) -> FeatureMap:
    """Return a feature map from itself, its name, or ``{"map": name, ...}`` with its parameters.

    Raises
    ------
    ConfigError
        The map does not exist, or does not have the parameter.
    """
    if isinstance(given, str):
        given = {"map": given}
    if not isinstance(given, Mapping):
        found: FeatureMap = given
    else:
        options = {name: value for name, value in given.items() if name != "map"}
        kind = find_map(given.get("map", ""))
        known = parameters_of(kind)
        for name in options:
            if name not in known:
                raise ConfigError(
                    f"{kind.__name__} has no parameter {name!r}{did_you_mean(str(name), known)}",
                    "feature_map",
                    "correct it",
                )
        found = kind(**options)
    found.check_parameters()
    return found


def _may_be_map(value: Any) -> bool:
    return isinstance(value, str | Mapping) or (hasattr(value, "over") and hasattr(value, "cost"))


MapGiven: TypeAlias = Annotated[
    Any, Kind("FeatureMap or str", _may_be_map, "a feature map or its name", str | dict[str, Any])
]
"""The parameter `feature_map`."""
