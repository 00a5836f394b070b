"""`features` of a pipeline file: columns that are selected together, or features that a map makes of them.

It stands for a parameter of every selection, `feature_groups` or `feature_map`, said once.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, SerializeAsAny, create_model, model_validator

from daskfs.documents import PATH, ByTag, Section
from daskfs.feature_maps.registry import FEATURE_MAPS, find_map
from daskfs.parameters import parameters_of
from daskfs.pipeline.selections import described_field

GROUPS = "groups"


class Features(Section):
    """What is selected from, where it is not each column alone."""

    map: str

    @property
    @abstractmethod
    def parameter(self) -> tuple[str, Any]:
        """The parameter of a selection that it stands for, and its value."""


class GroupedFeatures(Features):
    """Columns that are selected together or not at all."""

    map: Literal["groups"]
    by: Literal["schema"] | list[Any] | dict[str, Any] | None = Field(
        default=None,
        description="schema, the default: the columns of the table that was ingested; or a label for each column, a "
        "list of groups, or a mapping of names to groups, or to mappings: a tree",
    )
    file: Annotated[str | None, PATH] = Field(
        default=None, description="table in CSV with the features' names in its column `name`"
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
    """Features that a map makes of the columns."""

    @property
    def parameter(self) -> tuple[str, Any]:
        """`feature_map`."""
        return "feature_map", self.model_dump(exclude_defaults=True) | {"map": self.map}


@cache
def section_of_features(name: str) -> type[Features]:
    """Return the model of a map's section: the parameters that it declares."""
    if name == GROUPS:
        return GroupedFeatures
    fields: dict[str, Any] = {"map": (Literal[name], ...)}  # type: ignore[valid-type]
    cls = find_map(name)
    for parameter in parameters_of(cls).values():
        if parameter.in_yaml is not None:
            fields[parameter.name] = described_field(parameter)
    return create_model(f"{cls.__name__}Features", __base__=MappedFeatures, **fields)


AnyFeatures: TypeAlias = Annotated[SerializeAsAny[Features], ByTag("map", [GROUPS, *FEATURE_MAPS], section_of_features)]
