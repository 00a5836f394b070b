"""The `features` section of a pipeline file: groups of columns, or a feature map.

It sets the parameter `feature_groups` or `feature_map` of every selection.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, SerializeAsAny, model_validator

from daskfs.documents import PATH, ByTag, Section
from daskfs.feature_maps.registry import FEATURE_MAPS, find_map
from daskfs.pipeline.selections import declared_section

GROUPS = "groups"


class Features(Section):
    """Features to select from, if these are not single columns."""

    map: str

    @property
    @abstractmethod
    def parameter(self) -> tuple[str, Any]:
        """The parameter of a selection that this section sets, and its value."""


class GroupedFeatures(Features):
    """Columns that are selected together or not at all."""

    map: Literal["groups"]
    by: Literal["schema"] | list[Any] | dict[str, Any] | None = Field(
        default=None,
        description="schema (the default): one group per column of the ingested table; or a label for each column, a "
        "list of groups, a mapping of names to groups, or a nested mapping (a tree)",
    )
    file: Annotated[str | None, PATH] = Field(
        default=None, description="CSV table with the feature names in its column `name`"
    )
    column: str | None = Field(default=None, description="column of the file that names the groups")

    @model_validator(mode="after")
    def _one_way(self) -> GroupedFeatures:
        if (self.file is None) != (self.column is None):
            raise ValueError("expected file and column together; add the other one")
        if self.file is not None and self.by is not None:
            raise ValueError("by: has no effect with file; leave one out")
        return self

    @property
    def parameter(self) -> tuple[str, Any]:
        """`feature_groups`."""
        in_file = {"file": self.file, "column": self.column}
        return "feature_groups", (self.by or "schema") if self.file is None else in_file


class MappedFeatures(Features):
    """Features that a map computes from the columns."""

    @property
    def parameter(self) -> tuple[str, Any]:
        """`feature_map`."""
        return "feature_map", self.model_dump(exclude_defaults=True) | {"map": self.map}


@cache
def section_of_features(name: str) -> type[Features]:
    """Return the model of a map's section, with the parameters that the map declares."""
    if name == GROUPS:
        return GroupedFeatures
    cls = find_map(name)
    return declared_section(f"{cls.__name__}Features", MappedFeatures, cls, map=Literal[name])


AnyFeatures: TypeAlias = Annotated[SerializeAsAny[Features], ByTag("map", [GROUPS, *FEATURE_MAPS], section_of_features)]
